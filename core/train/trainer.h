/* The training loop of one job: data in, steps, evaluations, checkpoints, and two files of lines. Worker and
 * command line run this same code; what differs is who listens (hooks) and who asks it to stop (poll). */
#ifndef MT_TRAIN_TRAINER_H
#define MT_TRAIN_TRAINER_H

#include "core/base/error.h"
#include "core/base/pool.h"
#include "core/job/job.h"
#include "core/train/series.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* What the run's owner may ask for between two steps, the most urgent first. */
enum mt_trainer_request {
    MT_TRAINER_GO_ON,
    MT_TRAINER_CHECKPOINT, /* save now, go on */
    MT_TRAINER_STOP,       /* save and end, to be resumed: a signal, or the daemon stops */
    MT_TRAINER_PAUSE,
    MT_TRAINER_CANCEL,
};

/* Where a run stands, for progress. */
struct mt_trainer_progress {
    const char *phase;  /* "downloading", "loading", "tokenizing", "training", "evaluating", "saving" */
    const char *device; /* "cpu"; NULL before one is open */
    size_t step, max_steps;
    size_t trained_tokens;         /* real tokens of all steps, resumed ones included */
    double eta_seconds;            /* < 0: not known yet */
    const struct mt_step_row *row; /* the last row; NULL before the first step of this run */
};

/* All called on the thread that runs the trainer; each may be NULL. */
struct mt_trainer_hooks {
    void *context;
    enum mt_trainer_request (*poll)(void *context);
    void (*progress)(void *context, const struct mt_trainer_progress *progress);
    void (*config)(void *context);                           /* job.json was rewritten */
    void (*checkpoint)(void *context, const json_t *object); /* one has its name */
    void (*log)(void *context, int priority, const char *message);
};

struct mt_trainer_options {
    struct mt_job *job; /* frozen; micro_batch_size: auto and a downloaded GGUF file are settled in it */
    const char *folder; /* has job.json; gets metrics.jsonl, log.jsonl, checkpoints/ */
    unsigned attempt;   /* from 1; 0: one more than the last row of metrics.jsonl says */
    struct mt_pool *pool;
    bool allow_download; /* what the job names and what is not there may be fetched: model, data */
    const char *trace;   /* where a Chrome trace goes; NULL: <folder>/trace.json where logging.trace is set */
    struct mt_trainer_hooks hooks;
};

enum mt_trainer_end {
    MT_TRAINER_COMPLETED,
    MT_TRAINER_PAUSED,
    MT_TRAINER_CANCELLED,
    MT_TRAINER_STOPPED, /* resumable: exit code 75 */
};

struct mt_trainer_result {
    enum mt_trainer_end end;
    size_t step;
    double loss; /* of the last step; NaN before the first */
};

/* Runs the job from its newest whole checkpoint, or from the start, until its end or a request. Errors carry
 * the reason that the job then shows; what was saved before stays. */
int mt_trainer_run(const struct mt_trainer_options *options, struct mt_trainer_result *result,
                   struct mt_error *error);

#endif
