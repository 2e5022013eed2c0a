/* Deferred updates: one thread that takes groups in the order in which they were posted and runs the fused
 * AdamW pass over the process's pool, while the device is at work on something else. */
#ifndef MT_STREAM_UPDATER_H
#define MT_STREAM_UPDATER_H

#include "core/base/error.h"
#include "core/base/pool.h"
#include "core/device/device.h"
#include "core/optim/adamw.h"
#include "core/store/store.h"

struct mt_updater;

struct mt_update {
    size_t group;
    const float *gradient;   /* host, by train_offset */
    struct mt_event *landed; /* the gradient is there when this event is over; NULL: it is there */
    const double *sums; /* then also: sums of squares by parameter index; one that is not finite stops this
                           and all later updates. NULL: not looked at */
    struct mt_adamw_step step;
    void (*done)(void *context, size_t group); /* on the updater's thread; may be NULL */
    void *context;
};

int mt_updater_new(struct mt_store *store, struct mt_device *device, struct mt_pool *pool,
                   const struct mt_adamw *adamw, struct mt_updater **updater, struct mt_error *error);
/* Makes what is posted, then ends. NULL is fine. */
void mt_updater_free(struct mt_updater *updater);

/* At most one update of a group may be under way. */
void mt_updater_post(struct mt_updater *updater, const struct mt_update *update);
/* Returns when no update of the group is under way. */
void mt_updater_wait(struct mt_updater *updater, size_t group);
/* Returns when none is. The first failure: a spoilt master or a gradient that is not finite
 * (MT_REASON_NON_FINITE_LOSS), or the device's. It stays. */
int mt_updater_drain(struct mt_updater *updater, struct mt_error *error);
/* The same without waiting. */
int mt_updater_check(struct mt_updater *updater, struct mt_error *error);

#endif
