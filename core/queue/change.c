/* Changes of state: every one of them goes through mt_change_apply. */
#include "core/queue/change.h"

#include "core/base/time.h"
#include "core/queue/database.h"
#include "core/queue/row.h"

#include <errno.h>
#include <string.h>

static void count_duration(const struct mt_queue_job *job, enum mt_queue_state to, int64_t now,
                           struct mt_statistics *statistics)
{
    if (!job->started_us)
        return;
    double seconds = (double)(now - job->started_us) / 1e6;
    if (to == MT_QUEUE_COMPLETED)
        mt_statistics_observe(statistics, MT_QUEUE_COMPLETED_DURATION, seconds);
    else if (to == MT_QUEUE_FAILED)
        mt_statistics_observe(statistics, MT_QUEUE_FAILED_DURATION, seconds);
    else if (to == MT_QUEUE_CANCELLED)
        mt_statistics_observe(statistics, MT_QUEUE_CANCELLED_DURATION, seconds);
}

int mt_change_apply(sqlite3 *db, const struct mt_queue_job *job, const struct mt_queue_change *change,
                    struct mt_statistics *statistics, struct mt_error *error)
{
    if (!mt_queue_state_may_follow(job->state, change->to))
        return mt_error_set(error, -EPERM, MT_REASON_INTERNAL, "job %s is %s and cannot become %s", job->id,
                            mt_queue_state_name(job->state), mt_queue_state_name(change->to));
    if ((change->to == MT_QUEUE_QUEUED || change->to == MT_QUEUE_PAUSED) && job->requested > change->assumed)
        return mt_error_set(error, -EAGAIN, MT_REASON_INTERNAL,
                            "job %s was asked for something else meanwhile", job->id);
    bool active = mt_queue_state_is_active(change->to);
    bool ended = mt_queue_state_is_ended(change->to);
    int64_t now = mt_time_unix_microseconds();
    mt_autostatement sqlite3_stmt *statement = NULL;
    int r = mt_database_prepare(
        db,
        "UPDATE jobs SET state = ?2, reason = ?3, error_message = ?4, error_detail = ?5, "
        "restarts = iif(?6 < 0, restarts, ?6), queued_us = iif(?7, ?8, queued_us), "
        "finished_us = iif(?9, ?8, NULL), requested = iif(?10, requested, NULL), "
        "worker_pid = iif(?11, worker_pid, NULL), worker_start = iif(?11, worker_start, NULL), "
        "worker_boot = iif(?11, worker_boot, NULL) WHERE id = ?1",
        &statement, error);
    if (r < 0)
        return r;
    mt_bind_text(statement, 1, job->id);
    mt_bind_text(statement, 2, mt_queue_state_name(change->to));
    mt_bind_text(statement, 3, change->reason);
    mt_bind_text(statement, 4, change->error_message);
    mt_bind_text(statement, 5, change->error_detail);
    mt_bind_integer(statement, 6, change->restarts);
    mt_bind_integer(statement, 7, change->to == MT_QUEUE_QUEUED);
    mt_bind_integer(statement, 8, now);
    mt_bind_integer(statement, 9, ended);
    mt_bind_integer(statement, 10, active);
    /* Back to `starting` means that the worker is gone and another will come. */
    mt_bind_integer(statement, 11, change->to == MT_QUEUE_RUNNING);
    r = mt_database_run(db, statement, error);
    if (r == 0)
        count_duration(job, change->to, now, statistics);
    return r;
}

int mt_queue_change(struct mt_queue *queue, const char *id, const struct mt_queue_change *change,
                    struct mt_error *error)
{
    MT_QUEUE_LOCK(queue);
    int r = mt_database_begin(queue->db, error);
    if (r < 0)
        return r;
    struct mt_statistics statistics = queue->statistics;
    mt_autojob struct mt_queue_job *job = NULL;
    r = mt_row_get(queue->db, id, &job, error);
    if (r == 0)
        r = mt_change_apply(queue->db, job, change, &statistics, error);
    if (r == 0)
        r = mt_statistics_save(&statistics, queue->db, error);
    r = mt_database_end(queue->db, r, error);
    if (r == 0) {
        mt_statistics_saved(&statistics);
        queue->statistics = statistics;
    }
    return r;
}

int mt_queue_note(struct mt_queue *queue, const char *id, const struct mt_queue_change *change,
                  struct mt_error *error)
{
    MT_QUEUE_LOCK(queue);
    mt_autostatement sqlite3_stmt *statement = NULL;
    int r =
        mt_database_prepare(queue->db,
                            "UPDATE jobs SET reason = ?2, error_message = ?3, error_detail = ?4, "
                            "restarts = iif(?5 < 0, restarts, ?5), worker_pid = NULL, worker_start = NULL, "
                            "worker_boot = NULL WHERE id = ?1 AND state = 'starting'",
                            &statement, error);
    if (r < 0)
        return r;
    mt_bind_text(statement, 1, id);
    mt_bind_text(statement, 2, change->reason);
    mt_bind_text(statement, 3, change->error_message);
    mt_bind_text(statement, 4, change->error_detail);
    mt_bind_integer(statement, 5, change->restarts);
    return mt_database_run(queue->db, statement, error);
}
