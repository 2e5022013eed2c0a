/* The durable job store: SQLite in WAL mode with synchronous=FULL, so that what a call has said is done is on
 * disk. One process uses it (the daemon); every function is thread-safe and takes at most a few database
 * writes' time. Each change of state is one transaction that checks the table of core/queue/state.h.
 *
 * Errors of all functions beside their own: -ENOSPC with MT_REASON_DISK_FULL (nothing was changed), -EROFS,
 * -EIO and -EUCLEAN (a damaged database) with MT_REASON_IO, -ENOMEM. */
#ifndef MT_QUEUE_QUEUE_H
#define MT_QUEUE_QUEUE_H

#include "core/base/error.h"
#include "core/base/id.h"
#include "core/queue/state.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mt_queue;

/* Opens or creates the database and brings its schema up to date. Errors: -EPROTO for one that a newer
 * MegaTrain made or that is not MegaTrain's, -EUCLEAN for a damaged one. */
int mt_queue_open(const char *path, struct mt_queue **queue, struct mt_error *error);
void mt_queue_close(struct mt_queue *queue); /* NULL is fine */

/* 0 when the database answers. */
int mt_queue_check(struct mt_queue *queue, struct mt_error *error);

/* ---- jobs ---- */

enum mt_queue_request {
    MT_QUEUE_REQUEST_NONE,
    MT_QUEUE_REQUEST_PAUSE,
    MT_QUEUE_REQUEST_CANCEL,
};

/* A job as the database has it. Times are microseconds since 1970, 0 for never. */
struct mt_queue_job {
    int64_t sequence;
    char id[MT_ID_BYTES];
    char *name;
    enum mt_queue_state state;
    char *reason;                       /* or NULL */
    char *error_message, *error_detail; /* or NULL */
    enum mt_queue_request requested;    /* accepted while a worker runs, not yet done */
    int64_t priority;
    json_t *labels;
    json_t *document; /* frozen */
    json_t *progress; /* as the worker last reported it */
    char *device;     /* or NULL */
    int64_t attempt;
    int64_t restarts;
    int64_t step, best_step;
    int64_t created_us, queued_us, started_us, finished_us;
    int64_t worker_pid;   /* 0: none */
    int64_t worker_start; /* field 22 of /proc/<pid>/stat */
    char *worker_boot;
    json_t *last_checkpoint; /* checkpoint object, or NULL */
};

void mt_queue_job_free(struct mt_queue_job *job); /* NULL is fine */

struct mt_queue_submission {
    const char *id; /* from mt_id_new */
    const char *name;
    int64_t priority;
    const json_t *labels;                      /* object, or NULL */
    const json_t *document;                    /* frozen */
    const char *idempotency_key, *body_sha256; /* both or neither */
};

/* -EEXIST: the key is there with the same body, *job is the job it made; -EBADMSG: the key is there with
 * another body. With 0 *job is the new job, queued. */
int mt_queue_submit(struct mt_queue *queue, const struct mt_queue_submission *submission,
                    struct mt_queue_job **job, struct mt_error *error);
/* Looks a key up before the work of a submission: 0 when it is free, else as mt_queue_submit. */
int mt_queue_find_key(struct mt_queue *queue, const char *key, const char *body_sha256,
                      struct mt_queue_job **job, struct mt_error *error);

/* -ENOENT: no such job. */
int mt_queue_get(struct mt_queue *queue, const char *id, struct mt_queue_job **job, struct mt_error *error);

#define MT_QUEUE_CURSOR_BYTES 32

struct mt_queue_page {
    struct mt_queue_job **jobs; /* [count] */
    size_t count;
    bool has_more;
    char next[MT_QUEUE_CURSOR_BYTES]; /* "" when there is no more */
};

/* Newest first. state: -1 for all. after: cursor of the page before, or NULL; -EBADMSG when it was not made
 * by this function for the same state. */
int mt_queue_list(struct mt_queue *queue, int state, const char *after, size_t limit,
                  struct mt_queue_page *page, struct mt_error *error);
/* All jobs that are starting or running, oldest first, as one page. */
int mt_queue_active(struct mt_queue *queue, struct mt_queue_page *page, struct mt_error *error);
void mt_queue_page_free(struct mt_queue_page *page);

int mt_queue_counts(struct mt_queue *queue, int64_t counts[MT_QUEUE_NUM_STATES], struct mt_error *error);

/* ---- what clients ask for ---- */

enum mt_queue_action {
    MT_QUEUE_CANCEL,
    MT_QUEUE_PAUSE,
    MT_QUEUE_RESUME,
    MT_QUEUE_CHECKPOINT,
};

/* Does at once what needs no worker and records the rest as `requested`; whoever runs the worker acts on it.
 * Asking again for what is already requested is fine. -EPERM with the sentence: the state forbids it. */
int mt_queue_act(struct mt_queue *queue, const char *id, enum mt_queue_action action,
                 struct mt_queue_job **job, struct mt_error *error);

/* Removes an ended job's row and remembers that its files are to go. -EPERM: it has not ended. */
int mt_queue_remove(struct mt_queue *queue, const char *id, struct mt_error *error);
/* Ids whose files are still to be removed: malloc'd array of malloc'd strings. */
int mt_queue_removals(struct mt_queue *queue, char ***ids, size_t *count, struct mt_error *error);
int mt_queue_removal_done(struct mt_queue *queue, const char *id, struct mt_error *error);

/* ---- what the supervisor does ---- */

/* Takes the next job: highest priority, then first come. It is `starting` afterwards, its attempt one higher.
 * -ENOENT: nothing waits. */
int mt_queue_claim(struct mt_queue *queue, struct mt_queue_job **job, struct mt_error *error);
/* The next attempt of a job that is `starting` already, after a restart: counts the attempt. */
int mt_queue_next_attempt(struct mt_queue *queue, const char *id, struct mt_queue_job **job,
                          struct mt_error *error);
int mt_queue_set_worker(struct mt_queue *queue, const char *id, int64_t pid, int64_t start, const char *boot,
                        struct mt_error *error);

struct mt_queue_change {
    enum mt_queue_state to;
    const char *reason;                       /* NULL: none */
    const char *error_message, *error_detail; /* NULL: none */
    int64_t restarts;                         /* -1: as it was */
    enum mt_queue_request assumed;            /* the request that the caller knew of */
};

/* -EPERM: `to` may not follow the job's state (its own state included); -EAGAIN: `to` is queued or paused,
 * and the job was asked for more than `assumed` meanwhile; nothing was changed. Entering a state without a
 * worker forgets the worker; entering one of rest clears `requested`. */
int mt_queue_change(struct mt_queue *queue, const char *id, const struct mt_queue_change *change,
                    struct mt_error *error);
/* The words of a change without the change: for a job that stays `starting`; `to` is not looked at. */
int mt_queue_note(struct mt_queue *queue, const char *id, const struct mt_queue_change *change,
                  struct mt_error *error);

struct mt_queue_progress {
    const char *id;
    int64_t step;
    const char *device;     /* NULL: as it was */
    const json_t *progress; /* object */
};

/* Writes the progress of several jobs and the statistics gathered since, in one transaction. */
int mt_queue_record(struct mt_queue *queue, const struct mt_queue_progress *progress, size_t count,
                    struct mt_error *error);
/* A worker settled what the document left open. */
int mt_queue_set_document(struct mt_queue *queue, const char *id, const json_t *document,
                          struct mt_error *error);

struct mt_queue_checkpoint {
    int64_t step;
    const char *path;
    int64_t bytes;
    double loss; /* NaN: none */
    const char *created_at;
    bool verified;
};

int mt_queue_add_checkpoint(struct mt_queue *queue, const char *id,
                            const struct mt_queue_checkpoint *checkpoint, struct mt_error *error);
/* Forgets a checkpoint that is no longer on disk. */
int mt_queue_drop_checkpoint(struct mt_queue *queue, const char *id, int64_t step, struct mt_error *error);
/* Checkpoint objects, newest first; new reference. */
int mt_queue_checkpoints(struct mt_queue *queue, const char *id, json_t **checkpoints,
                         struct mt_error *error);

/* ---- statistics: kept in memory, written with the next mt_queue_record or change of state ---- */

enum mt_queue_histogram {
    MT_QUEUE_STEP_DURATION,
    MT_QUEUE_QUEUE_WAIT,
    MT_QUEUE_COMPLETED_DURATION,
    MT_QUEUE_FAILED_DURATION,
    MT_QUEUE_CANCELLED_DURATION,
    MT_QUEUE_NUM_HISTOGRAMS,
};

void mt_queue_count_steps(struct mt_queue *queue, int64_t steps, int64_t tokens);
/* An unknown reason counts as "other". */
void mt_queue_count_restart(struct mt_queue *queue, const char *reason);
void mt_queue_observe(struct mt_queue *queue, enum mt_queue_histogram histogram, double seconds);
/* Adds "counters" and "histograms" to `object`, in the shape of api/control.h. -ENOMEM. */
int mt_queue_statistics(struct mt_queue *queue, json_t *object);

#endif
