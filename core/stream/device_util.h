/* Small helpers on the device interface, for the files of this folder. */
#ifndef MT_STREAM_DEVICE_UTIL_H
#define MT_STREAM_DEVICE_UTIL_H

#include "core/base/error.h"
#include "core/device/device.h"

#define MT_TRY(call)                                                                                         \
    do {                                                                                                     \
        int mt_try_result = (call);                                                                          \
        if (mt_try_result)                                                                                   \
            return mt_try_result;                                                                            \
    } while (0)

/* The sentence for an operation that was refused: the device's own when it has failed. Returns `code`. */
int mt_device_report(struct mt_device *device, int code, struct mt_error *error);

/* A list of device and host blocks that are freed together. */
struct mt_blocks {
    struct mt_device *device;
    size_t count, capacity;
    struct mt_block {
        void *address;
        bool host;
    } * items;
    size_t device_bytes, host_bytes;
    bool pinned; /* all host blocks */
};

void mt_blocks_init(struct mt_blocks *blocks, struct mt_device *device);
/* *address NULL and nothing allocated for 0 bytes. `purpose` goes into the sentence of a failure. */
int mt_blocks_device(struct mt_blocks *blocks, size_t bytes, const char *purpose, void **address,
                     struct mt_error *error);
int mt_blocks_host(struct mt_blocks *blocks, size_t bytes, const char *purpose, void **address,
                   struct mt_error *error);
void mt_blocks_free(struct mt_blocks *blocks);

/* An array of events; NULL entries on failure are freed by mt_events_free. */
int mt_events_create(struct mt_device *device, size_t count, struct mt_event ***events,
                     struct mt_error *error);
void mt_events_free(struct mt_device *device, size_t count, struct mt_event **events);

/* What the stream gets from here on is for this. */
static inline void mt_stream_mark(struct mt_device *device, struct mt_stream *stream, enum mt_stage stage,
                                  size_t index)
{
    if (device->api->mark)
        device->api->mark(stream, stage, index);
}

/* Around the host's own work; false: the device stands in for it, and it is left out, mt_host_end too. */
static inline bool mt_host_begin(struct mt_device *device, const struct mt_host_work *work)
{
    return !device->api->host_begin || !device->api->host_begin(device, work);
}
static inline void mt_host_end(struct mt_device *device, const struct mt_host_work *work)
{
    if (device->api->host_end)
        device->api->host_end(device, work);
}

/* event recorded on `from`, waited for by `to`. */
__attribute__((always_inline)) /* tests know a wait by the place that asks for it */
static inline int
mt_stream_follow(struct mt_device *device, struct mt_event *event, struct mt_stream *from,
                 struct mt_stream *to)
{
    int r = device->api->event_record(event, from);
    return r ? r : device->api->event_wait(to, event);
}

#endif
