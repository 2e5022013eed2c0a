/* A trace of what a device does and when: a device in front of another one that passes every call on and
 * writes a Chrome trace (Perfetto and chrome://tracing open it) of each stretch of operations, each copy and
 * the host's own work, by stream. The bits of a run do not change. docs/trace.md shows one. */
#ifndef MT_DEVICE_TRACE_H
#define MT_DEVICE_TRACE_H

#include "core/device/device.h"

/* Recording ends, with a note in the file, after so many stretches: some 150 MiB. */
#define MT_TRACE_MAX_SPANS 1000000u

/* The traced device takes `inner` over: closing it closes both. `num_layers` of the model, for names. On
 * failure `inner` stays open. Errors: MT_REASON_IO with the path. */
int mt_trace_open(struct mt_device *inner, const char *path, size_t num_layers, struct mt_device **device,
                  struct mt_error *error);

#endif
