/* When a worker has had enough time: TERM to its group, then KILL. */
#ifndef MT_MEGATRAIND_DEADLINE_H
#define MT_MEGATRAIND_DEADLINE_H

#include "daemon/megatraind/run.h"

/* The daemon's own stop. */
struct mt_stop {
    double begun_at; /* 0: not stopping */
    double term_by, kill_by, end_by;
    bool hurried;
};

void mt_deadline_begin_stop(struct mt_stop *stop, double grace, double now);

/* Sends the signals that are due. */
void mt_deadline_enforce(struct mt_run *run, const struct mt_stop *stop, double now);
/* When the next one is; INFINITY when none is planned. */
double mt_deadline_next(const struct mt_run *run, const struct mt_stop *stop);

#endif
