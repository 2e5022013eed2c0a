/* What device.c and operations.c share. */
#ifndef MT_PLAN_DEVICE_INTERNAL_H
#define MT_PLAN_DEVICE_INTERNAL_H

#include "core/device/paper.h"
#include "core/plan/device.h"

struct mt_plan_clock {
    double at;
    double path[MT_NUM_STAGES];
};

struct mt_plan_device {
    struct mt_paper_base paper;
    struct mt_device_api api; /* what base points to */
    struct mt_plan_machine machine;
    struct mt_device *like; /* whose workspaces are asked for; NULL: those of the CUDA backend */

    struct mt_plan_clock host, updates, cores; /* cores: where all share one processor */
    struct mt_plan_clock *updated;             /* [num_updated], by group */
    size_t num_updated;
    double busy[MT_NUM_STAGES], flops;
};

struct mt_stream {
    struct mt_plan_device *device;
    struct mt_plan_clock clock;
    enum mt_stage stage;
};

struct mt_event {
    struct mt_plan_clock clock;
};

static inline void mt_plan_clock_follow(struct mt_plan_clock *clock, const struct mt_plan_clock *other)
{
    if (other->at > clock->at)
        *clock = *other;
}

/* An operation of a stream: bound by arithmetic or by the device's memory. */
int mt_plan_operate(struct mt_stream *stream, double flops, double bytes);

/* operations.c: fills the table's operations. */
void mt_plan_operations(struct mt_device_api *api);

#endif
