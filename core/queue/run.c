/* What the supervisor records of running jobs: claims, workers, progress, checkpoints. */
#include "core/base/time.h"
#include "core/queue/change.h"
#include "core/queue/database.h"
#include "core/queue/queue.h"
#include "core/queue/row.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* The id of the job whose turn it is; -ENOENT when none waits. */
static int next_in_turn(sqlite3 *db, char id[MT_ID_BYTES], struct mt_error *error)
{
    mt_autostatement sqlite3_stmt *statement = NULL;
    int r = mt_database_prepare(db,
                                "SELECT id FROM jobs INDEXED BY jobs_by_turn WHERE state = 'queued' "
                                "ORDER BY priority DESC, sequence LIMIT 1",
                                &statement, error);
    if (r < 0)
        return r;
    r = sqlite3_step(statement);
    if (r == SQLITE_DONE)
        return mt_error_set(error, -ENOENT, MT_REASON_NONE, "no job waits");
    const char *text = r == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
    if (!text || strlen(text) >= MT_ID_BYTES)
        return mt_database_fail(db, error, "read");
    memcpy(id, text, strlen(text) + 1);
    return 0;
}

static int count_attempt(sqlite3 *db, const char *id, struct mt_error *error)
{
    mt_autostatement sqlite3_stmt *statement = NULL;
    int r =
        mt_database_prepare(db,
                            "UPDATE jobs SET attempt = attempt + 1, started_us = coalesce(started_us, ?2) "
                            "WHERE id = ?1",
                            &statement, error);
    if (r < 0)
        return r;
    mt_bind_text(statement, 1, id);
    mt_bind_integer(statement, 2, mt_time_unix_microseconds());
    return mt_database_run(db, statement, error);
}

static int claim(struct mt_queue *queue, struct mt_statistics *statistics, struct mt_queue_job **claimed,
                 struct mt_error *error)
{
    char id[MT_ID_BYTES];
    mt_autojob struct mt_queue_job *job = NULL;
    struct mt_queue_change change = {.to = MT_QUEUE_STARTING, .restarts = -1};
    int r = next_in_turn(queue->db, id, error);
    if (r == 0)
        r = mt_row_get(queue->db, id, &job, error);
    if (r == 0)
        r = mt_change_apply(queue->db, job, &change, statistics, error);
    if (r == 0)
        r = count_attempt(queue->db, id, error);
    if (r != 0)
        return r;
    double waited = (double)(mt_time_unix_microseconds() - job->queued_us) / 1e6;
    mt_statistics_observe(statistics, MT_QUEUE_QUEUE_WAIT, waited);
    r = mt_statistics_save(statistics, queue->db, error);
    return r < 0 ? r : mt_row_get(queue->db, id, claimed, error);
}

int mt_queue_claim(struct mt_queue *queue, struct mt_queue_job **job, struct mt_error *error)
{
    MT_QUEUE_LOCK(queue);
    /* Asked every time something moves, and mostly in vain: look before locking. */
    char id[MT_ID_BYTES];
    int r = next_in_turn(queue->db, id, error);
    if (r == 0)
        r = mt_database_begin(queue->db, error);
    if (r < 0)
        return r;
    struct mt_statistics statistics = queue->statistics;
    mt_autojob struct mt_queue_job *claimed = NULL;
    r = mt_database_end(queue->db, claim(queue, &statistics, &claimed, error), error);
    if (r < 0)
        return r;
    mt_statistics_saved(&statistics);
    queue->statistics = statistics;
    *job = claimed;
    claimed = NULL;
    return 0;
}

int mt_queue_next_attempt(struct mt_queue *queue, const char *id, struct mt_queue_job **job,
                          struct mt_error *error)
{
    MT_QUEUE_LOCK(queue);
    int r = mt_database_begin(queue->db, error);
    if (r < 0)
        return r;
    mt_autojob struct mt_queue_job *counted = NULL;
    r = count_attempt(queue->db, id, error);
    if (r == 0)
        r = mt_row_get(queue->db, id, &counted, error);
    if (r == 0 && counted->state != MT_QUEUE_STARTING)
        r = mt_error_set(error, -EPERM, MT_REASON_INTERNAL, "job %s is %s, not starting", id,
                         mt_queue_state_name(counted->state));
    r = mt_database_end(queue->db, r, error);
    if (r < 0)
        return r;
    *job = counted;
    counted = NULL;
    return 0;
}

int mt_queue_set_worker(struct mt_queue *queue, const char *id, int64_t pid, int64_t start, const char *boot,
                        struct mt_error *error)
{
    MT_QUEUE_LOCK(queue);
    mt_autostatement sqlite3_stmt *statement = NULL;
    int r = mt_database_prepare(queue->db,
                                "UPDATE jobs SET worker_pid = ?2, worker_start = ?3, worker_boot = ?4 "
                                "WHERE id = ?1 AND state IN ('starting', 'running')",
                                &statement, error);
    if (r < 0)
        return r;
    mt_bind_text(statement, 1, id);
    mt_bind_integer(statement, 2, pid);
    mt_bind_integer(statement, 3, start);
    mt_bind_text(statement, 4, boot);
    return mt_database_run(queue->db, statement, error);
}

static int record_one(sqlite3 *db, const struct mt_queue_progress *progress, struct mt_error *error)
{
    mt_autofree char *text = json_dumps(progress->progress, JSON_COMPACT);
    if (!text)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    mt_autostatement sqlite3_stmt *statement = NULL;
    int r =
        mt_database_prepare(db,
                            "UPDATE jobs SET progress_json = ?2, step = ?3, best_step = max(best_step, ?3), "
                            "device = coalesce(?4, device) WHERE id = ?1",
                            &statement, error);
    if (r < 0)
        return r;
    mt_bind_text(statement, 1, progress->id);
    mt_bind_text(statement, 2, text);
    mt_bind_integer(statement, 3, progress->step);
    mt_bind_text(statement, 4, progress->device);
    return mt_database_run(db, statement, error);
}

int mt_queue_record(struct mt_queue *queue, const struct mt_queue_progress *progress, size_t count,
                    struct mt_error *error)
{
    MT_QUEUE_LOCK(queue);
    int r = mt_database_begin(queue->db, error);
    if (r < 0)
        return r;
    for (size_t i = 0; r == 0 && i < count; i++)
        r = record_one(queue->db, &progress[i], error);
    if (r == 0)
        r = mt_statistics_save(&queue->statistics, queue->db, error);
    r = mt_database_end(queue->db, r, error);
    if (r == 0)
        mt_statistics_saved(&queue->statistics);
    return r;
}

int mt_queue_set_document(struct mt_queue *queue, const char *id, const json_t *document,
                          struct mt_error *error)
{
    mt_autofree char *text = json_dumps(document, JSON_COMPACT);
    if (!text)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    MT_QUEUE_LOCK(queue);
    mt_autostatement sqlite3_stmt *statement = NULL;
    int r =
        mt_database_prepare(queue->db, "UPDATE jobs SET document_json = ?2 WHERE id = ?1", &statement, error);
    if (r < 0)
        return r;
    mt_bind_text(statement, 1, id);
    mt_bind_text(statement, 2, text);
    return mt_database_run(queue->db, statement, error);
}

int mt_queue_add_checkpoint(struct mt_queue *queue, const char *id,
                            const struct mt_queue_checkpoint *checkpoint, struct mt_error *error)
{
    MT_QUEUE_LOCK(queue);
    mt_autostatement sqlite3_stmt *statement = NULL;
    int r = mt_database_prepare(
        queue->db,
        "INSERT OR REPLACE INTO checkpoints (job_id, step, path, bytes, loss, created_at, "
        "verified) VALUES (?, ?, ?, ?, ?, ?, ?)",
        &statement, error);
    if (r < 0)
        return r;
    mt_bind_text(statement, 1, id);
    mt_bind_integer(statement, 2, checkpoint->step);
    mt_bind_text(statement, 3, checkpoint->path);
    mt_bind_integer(statement, 4, checkpoint->bytes);
    if (isfinite(checkpoint->loss))
        sqlite3_bind_double(statement, 5, checkpoint->loss);
    else
        sqlite3_bind_null(statement, 5);
    mt_bind_text(statement, 6, checkpoint->created_at);
    mt_bind_integer(statement, 7, checkpoint->verified);
    return mt_database_run(queue->db, statement, error);
}

int mt_queue_drop_checkpoint(struct mt_queue *queue, const char *id, int64_t step, struct mt_error *error)
{
    MT_QUEUE_LOCK(queue);
    mt_autostatement sqlite3_stmt *statement = NULL;
    int r = mt_database_prepare(queue->db, "DELETE FROM checkpoints WHERE job_id = ? AND step = ?",
                                &statement, error);
    if (r < 0)
        return r;
    mt_bind_text(statement, 1, id);
    mt_bind_integer(statement, 2, step);
    return mt_database_run(queue->db, statement, error);
}

int mt_queue_checkpoints(struct mt_queue *queue, const char *id, json_t **checkpoints, struct mt_error *error)
{
    MT_QUEUE_LOCK(queue);
    mt_autostatement sqlite3_stmt *statement = NULL;
    int r = mt_database_prepare(queue->db,
                                "SELECT step, path, bytes, loss, created_at, verified FROM checkpoints "
                                "WHERE job_id = ? ORDER BY step DESC",
                                &statement, error);
    if (r < 0)
        return r;
    mt_bind_text(statement, 1, id);
    mt_autojson json_t *list = json_array();
    while ((r = sqlite3_step(statement)) == SQLITE_ROW) {
        json_t *loss = sqlite3_column_type(statement, 3) == SQLITE_NULL
                           ? json_null()
                           : json_real(sqlite3_column_double(statement, 3));
        json_t *entry = json_pack(
            "{s:I, s:s, s:I, s:o, s:s, s:b}", "step", (json_int_t)sqlite3_column_int64(statement, 0), "path",
            sqlite3_column_text(statement, 1), "bytes", (json_int_t)sqlite3_column_int64(statement, 2),
            "loss", loss, "created_at", sqlite3_column_text(statement, 4), "verified",
            sqlite3_column_int(statement, 5));
        if (json_array_append_new(list, entry) < 0)
            return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    }
    if (r != SQLITE_DONE)
        return mt_database_fail(queue->db, error, "read");
    *checkpoints = list;
    list = NULL;
    return 0;
}
