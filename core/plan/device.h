/* The planning device: it stands behind core/device/device.h like any other, but its allocations only count,
 * and its operations, copies and events only move clocks. What runs on it is the real executor over the real
 * store with the real schedule; so there is no second set of formulas that could differ.
 *
 * Time: each stream has a clock, and so have the host's thread and the thread of the updates. An operation
 * starts when its stream is free and the host has put it there, an event carries its stream's clock to those
 * who wait for it. A clock also carries how much of each stage lies on the path that led to it: at the end of
 * a step that is the critical path. One thread drives it. */
#ifndef MT_PLAN_DEVICE_H
#define MT_PLAN_DEVICE_H

#include "core/base/error.h"
#include "core/device/device.h"
#include "core/plan/machine.h"

/* Since the device was opened. */
struct mt_plan_account {
    double now;                 /* the host's clock, seconds */
    double path[MT_NUM_STAGES]; /* what of that was spent on each stage */
    double busy[MT_NUM_STAGES]; /* what each stage took in all, beside the others */
    double flops;               /* of matrix products and attention */
    size_t host_bytes;          /* allocated now */
    size_t device_bytes;        /* in use now, as rounded up */
};

/* Address space of host memory is reserved, not taken. Errors: MT_REASON_OUT_OF_MEMORY. */
int mt_plan_device_open(const struct mt_plan_machine *machine, struct mt_device **device,
                        struct mt_error *error);
/* From now on device memory has no end, for asking how much it would have to be. */
void mt_plan_device_lift_limit(struct mt_device *device);
void mt_plan_device_account(const struct mt_device *device, struct mt_plan_account *account);

/* The names of stages in reports: "weights_in", "forward", ... */
const char *mt_plan_stage_name(enum mt_stage stage);

#endif
