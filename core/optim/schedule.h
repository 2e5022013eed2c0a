/* Learning-rate schedules, as transformers' optimization.py has them, counted in optimizer updates. */
#ifndef MT_OPTIM_SCHEDULE_H
#define MT_OPTIM_SCHEDULE_H

#include <stdint.h>

enum mt_schedule_kind {
    MT_SCHEDULE_CONSTANT, /* after the warm-up */
    MT_SCHEDULE_LINEAR,   /* to 0 at total_updates */
    MT_SCHEDULE_COSINE,   /* half a cosine, to 0 at total_updates */
    MT_SCHEDULE_WSD,      /* constant, then half a cosine to 0 over the last tenth (rounded up) */
};

struct mt_schedule {
    enum mt_schedule_kind kind;
    double learning_rate;
    uint64_t total_updates, warmup_updates;
};

/* ceil(ratio * total), as transformers' get_warmup_steps. */
uint64_t mt_schedule_warmup(double ratio, uint64_t total_updates);
/* The rate of update number `update`, from 0: with a warm-up the first one is 0. */
double mt_schedule_rate(const struct mt_schedule *schedule, uint64_t update);

#endif
