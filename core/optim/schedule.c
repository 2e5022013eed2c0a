#include "core/optim/schedule.h"

#include <math.h>

uint64_t mt_schedule_warmup(double ratio, uint64_t total_updates)
{
    if (!(ratio > 0))
        return 0;
    const double updates = ceil(ratio * (double)total_updates);
    return updates < (double)total_updates ? (uint64_t)updates : total_updates;
}

static double ratio(uint64_t done, uint64_t of)
{
    return (double)done / (double)(of ? of : 1);
}

double mt_schedule_rate(const struct mt_schedule *schedule, uint64_t update)
{
    const uint64_t warmup = schedule->warmup_updates, total = schedule->total_updates;
    if (update < warmup)
        return schedule->learning_rate * ratio(update, warmup);
    const uint64_t after = total > warmup ? total - warmup : 0;
    double factor = 1;
    switch (schedule->kind) {
    case MT_SCHEDULE_CONSTANT:
        break;
    case MT_SCHEDULE_LINEAR:
        factor = update < total ? ratio(total - update, after) : 0;
        break;
    case MT_SCHEDULE_COSINE:
        factor = 0.5 * (1 + cos(M_PI * ratio(update - warmup, after)));
        break;
    case MT_SCHEDULE_WSD: {
        uint64_t decay = (total + 9) / 10;
        decay = decay < after ? decay : after;
        const uint64_t start = warmup + after - decay;
        if (update >= start)
            factor = update < total ? 0.5 * (1 + cos(M_PI * ratio(update - start, decay))) : 0;
        break;
    }
    }
    return schedule->learning_rate * (factor > 0 ? factor : 0);
}
