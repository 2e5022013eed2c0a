/* What clients ask of a job that exists: cancel, pause, resume, checkpoint, remove. What needs a worker's
 * help is recorded as `requested` in the same transaction that answers the client, so that a daemon that dies
 * between still owes it. */
#include "core/queue/change.h"
#include "core/queue/database.h"
#include "core/queue/queue.h"
#include "core/queue/row.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int forbid(const struct mt_queue_job *job, const char *verb, struct mt_error *error)
{
    const char *state = mt_queue_state_name(job->state);
    if (job->requested == MT_QUEUE_REQUEST_CANCEL)
        return mt_error_set(error, -EPERM, MT_REASON_USAGE, "the job cannot be %s: it is being cancelled",
                            verb);
    if (job->requested == MT_QUEUE_REQUEST_PAUSE)
        return mt_error_set(error, -EPERM, MT_REASON_USAGE, "the job cannot be %s while it is being paused",
                            verb);
    return mt_error_set(error, -EPERM, MT_REASON_USAGE, "the job cannot be %s: it is %s", verb, state);
}

static int set_requested(sqlite3 *db, const char *id, const char *request, struct mt_error *error)
{
    mt_autostatement sqlite3_stmt *statement = NULL;
    int r = mt_database_prepare(db, "UPDATE jobs SET requested = ?1 WHERE id = ?2", &statement, error);
    if (r < 0)
        return r;
    mt_bind_text(statement, 1, request);
    mt_bind_text(statement, 2, id);
    return mt_database_run(db, statement, error);
}

static int cancel(struct mt_queue *queue, const struct mt_queue_job *job, struct mt_statistics *statistics,
                  struct mt_error *error)
{
    struct mt_queue_change change = {.to = MT_QUEUE_CANCELLED, .reason = "cancelled_by_user", .restarts = -1};
    if (mt_queue_state_is_active(job->state))
        return set_requested(queue->db, job->id, "cancel", error);
    if (mt_queue_state_is_ended(job->state))
        return forbid(job, "cancelled", error);
    return mt_change_apply(queue->db, job, &change, statistics, error);
}

static int pause_job(struct mt_queue *queue, const struct mt_queue_job *job, struct mt_statistics *statistics,
                     struct mt_error *error)
{
    struct mt_queue_change change = {.to = MT_QUEUE_PAUSED, .reason = "paused_by_user", .restarts = -1};
    if (mt_queue_state_is_active(job->state) && job->requested != MT_QUEUE_REQUEST_CANCEL)
        return set_requested(queue->db, job->id, "pause", error);
    if (job->state != MT_QUEUE_QUEUED)
        return forbid(job, "paused", error);
    return mt_change_apply(queue->db, job, &change, statistics, error);
}

static int resume(struct mt_queue *queue, const struct mt_queue_job *job, struct mt_statistics *statistics,
                  struct mt_error *error)
{
    struct mt_queue_change change = {.to = MT_QUEUE_QUEUED};
    if (job->state != MT_QUEUE_PAUSED && job->state != MT_QUEUE_FAILED)
        return forbid(job, "resumed", error);
    return mt_change_apply(queue->db, job, &change, statistics, error);
}

static int perform(struct mt_queue *queue, const struct mt_queue_job *job, enum mt_queue_action action,
                   struct mt_statistics *statistics, struct mt_error *error)
{
    switch (action) {
    case MT_QUEUE_CANCEL:
        return cancel(queue, job, statistics, error);
    case MT_QUEUE_PAUSE:
        return pause_job(queue, job, statistics, error);
    case MT_QUEUE_RESUME:
        return resume(queue, job, statistics, error);
    case MT_QUEUE_CHECKPOINT:
        break;
    }
    /* Nothing to write: whoever runs the worker passes it on. */
    if (job->state != MT_QUEUE_RUNNING || job->requested != MT_QUEUE_REQUEST_NONE)
        return forbid(job, "saved", error);
    return 0;
}

int mt_queue_act(struct mt_queue *queue, const char *id, enum mt_queue_action action,
                 struct mt_queue_job **result, struct mt_error *error)
{
    MT_QUEUE_LOCK(queue);
    int r = mt_database_begin(queue->db, error);
    if (r < 0)
        return r;
    struct mt_statistics statistics = queue->statistics;
    mt_autojob struct mt_queue_job *job = NULL, *after = NULL;
    r = mt_row_get(queue->db, id, &job, error);
    if (r == 0)
        r = perform(queue, job, action, &statistics, error);
    if (r == 0)
        r = mt_statistics_save(&statistics, queue->db, error);
    if (r == 0)
        r = mt_row_get(queue->db, id, &after, error);
    r = mt_database_end(queue->db, r, error);
    if (r < 0)
        return r;
    mt_statistics_saved(&statistics);
    queue->statistics = statistics;
    *result = after;
    after = NULL;
    return 0;
}

static int run_with_id(sqlite3 *db, const char *sql, const char *id, struct mt_error *error)
{
    mt_autostatement sqlite3_stmt *statement = NULL;
    int r = mt_database_prepare(db, sql, &statement, error);
    if (r < 0)
        return r;
    mt_bind_text(statement, 1, id);
    return mt_database_run(db, statement, error);
}

int mt_queue_remove(struct mt_queue *queue, const char *id, struct mt_error *error)
{
    MT_QUEUE_LOCK(queue);
    int r = mt_database_begin(queue->db, error);
    if (r < 0)
        return r;
    mt_autojob struct mt_queue_job *job = NULL;
    r = mt_row_get(queue->db, id, &job, error);
    if (r == 0 && !mt_queue_state_is_ended(job->state))
        r = mt_error_set(error, -EPERM, MT_REASON_USAGE,
                         "the job is %s: only a job that has ended can be removed; cancel it first",
                         mt_queue_state_name(job->state));
    if (r == 0)
        r = run_with_id(queue->db, "DELETE FROM jobs WHERE id = ?", id, error);
    if (r == 0)
        r = run_with_id(queue->db, "INSERT INTO removals (id) VALUES (?)", id, error);
    return mt_database_end(queue->db, r, error);
}

int mt_queue_removals(struct mt_queue *queue, char ***ids, size_t *count, struct mt_error *error)
{
    MT_QUEUE_LOCK(queue);
    *ids = NULL;
    *count = 0;
    mt_autostatement sqlite3_stmt *statement = NULL;
    int r = mt_database_prepare(queue->db, "SELECT id FROM removals ORDER BY id", &statement, error);
    if (r < 0)
        return r;
    char **list = NULL;
    size_t n = 0;
    while ((r = sqlite3_step(statement)) == SQLITE_ROW) {
        char **grown = realloc(list, (n + 1) * sizeof *list);
        char *id = strdup((const char *)sqlite3_column_text(statement, 0));
        if (grown)
            list = grown;
        if (!grown || !id) {
            free(id);
            break;
        }
        list[n++] = id;
    }
    if (r != SQLITE_DONE) {
        while (n > 0)
            free(list[--n]);
        free(list);
        return r == SQLITE_ROW ? mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory")
                               : mt_database_fail(queue->db, error, "read");
    }
    *ids = list;
    *count = n;
    return 0;
}

int mt_queue_removal_done(struct mt_queue *queue, const char *id, struct mt_error *error)
{
    MT_QUEUE_LOCK(queue);
    return run_with_id(queue->db, "DELETE FROM removals WHERE id = ?", id, error);
}
