/* What a worker process can be started for; each task is a file. */
#ifndef MT_WORKER_TASKS_H
#define MT_WORKER_TASKS_H

#include "core/base/pool.h"
#include "daemon/worker/link.h"

struct mt_worker_options {
    const char *job_folder;
    unsigned attempt; /* 0: not told */
    struct mt_pool *pool;
    struct mt_link *link;
};

/* Trains the job of the folder; says `done` or `failed`. Returns the exit code. */
int mt_worker_train(const struct mt_worker_options *options);

#endif
