/* One slot at work: a job that is starting or running, with its worker and what is known of it. Only the main
 * thread touches it. */
#ifndef MT_MEGATRAIND_RUN_H
#define MT_MEGATRAIND_RUN_H

#include "daemon/megatraind/daemon.h"
#include "daemon/megatraind/worker.h"

enum mt_run_stage {
    MT_RUN_WAITING, /* no process: one is started at `start_at` */
    MT_RUN_ALIVE,
    MT_RUN_ENDED, /* the process is gone; what became of the job is still to be written */
};

struct mt_run {
    struct mt_daemon *daemon;
    struct mt_worker worker;
    char *folder; /* jobs/<id> */
    enum mt_run_stage stage;
    double start_at; /* all times are monotonic seconds */
    double retry_at; /* ENDED: when to try to write again */

    int64_t attempt, restarts;
    int64_t best_step; /* of the attempts before this one */

    /* What the worker reported. */
    bool recorded_running;
    json_t *progress;
    int64_t step;
    char *device; /* or NULL */
    bool dirty;   /* newer than the database */
    bool has_baseline;
    int64_t counted_step, counted_tokens; /* in the statistics already */
    bool saving;                          /* its phase */
    int log_budget;                       /* lines that may still go to the daemon's log */
    double log_budget_at;

    /* What it was asked, and when. */
    enum mt_queue_request requested;
    double requested_at;
    bool told_cancel, told_pause, save_wanted;

    double begun_at, heard_at, word_at, silent_at; /* silent: its socket has closed */
    double term_at, kill_at;                       /* when the signals were sent; 0: not yet */
    const char *killed_for;
    int64_t start_error; /* errno when it could not even be started */

    size_t resident_bytes;
    double sampled_at;
    bool has_memory_kills; /* mt_memory_kills when it was started */
    uint64_t memory_kills;
};

/* Takes a worker's message in; `context` is the struct mt_run. */
void mt_run_hear(void *context, struct mt_worker *worker, json_t *message);

/* Writes progress and statistics of a run now; 0 or the database's error. */
int mt_run_flush(struct mt_run *run, struct mt_error *error);

/* Brings database and memory up to what the job's files say: the newest row of metrics.jsonl, the checkpoints
 * that are there. */
void mt_run_take_over_files(struct mt_run *run);
/* Checkpoints alone: adds those on disk, forgets those that are gone. */
void mt_run_reconcile_checkpoints(struct mt_run *run);

/* Decides and writes what became of the job. True when that is done: `stage` is then MT_RUN_WAITING (it is
 * started again) or the run is to be dropped. False: the database could not take it, try again later. */
bool mt_run_end(struct mt_run *run, double now, bool *drop);

#endif
