/* What a worker process can be started for; each task is a file. */
#ifndef MT_WORKER_TASKS_H
#define MT_WORKER_TASKS_H

#include "core/base/pool.h"
#include "core/plan/plan.h"
#include "daemon/worker/link.h"

#define MT_WORKER_ALLOW_DOWNLOAD                                                                             \
    "MEGATRAIN_ALLOW_DOWNLOAD" /* set by the daemon whose administrator allows it */

struct mt_worker_options {
    const char *job_folder;
    unsigned attempt; /* 0: not told */
    struct mt_pool *pool;
    struct mt_link *link;
};

/* Trains the job of the folder; says `done` or `failed`. Returns the exit code. */
int mt_worker_train(const struct mt_worker_options *options);

/* Looks at model and data of the document in the folder's job.json, or on standard input where no folder is
 * named, and prints what is wrong with them as a JSON list of {pointer, detail, suggestion?}. Returns the
 * exit code: 0 when it could look, whatever it found. */
int mt_worker_probe(void);

/* Reads {"job": document, "machine": {...}} (core/plan/machine.h) on standard input and prints {"plan":
 * {...}},
 * {"errors": [{pointer, detail, suggestion?}]} for a document that cannot be planned, or {"usage": sentence}
 * for a machine that cannot be. Returns the exit code: 0 when it could answer. */
int mt_worker_plan(void);
/* The plan of a job on the machine that `machine` (may be NULL: this one) tells of. */
int mt_worker_plan_job(const struct mt_job *job, const json_t *machine, bool measure, struct mt_plan *plan,
                       struct mt_error *error);

/* Reads {"job": document, "show": samples, "rows": at most} on standard input and prints {"preview": {...}}
 * (core/train/preview.h), or {"errors": [{pointer, detail}]} where document, model or data are at fault.
 * Returns the exit code: 0 when it could answer. */
int mt_worker_preview(void);

/* Prints the devices of this machine (core/device/list.h). Returns the exit code. */
int mt_worker_devices(void);

/* Reads {"models_folder": path} on standard input and prints the models of this machine
 * (core/model/on_disk.h). Returns the exit code. */
int mt_worker_models(void);

#endif
