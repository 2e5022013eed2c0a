/* Opening the queue, submitting jobs and reading them. */
#include "core/queue/queue.h"

#include "core/base/time.h"
#include "core/queue/database.h"
#include "core/queue/row.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int mt_queue_open(const char *path, struct mt_queue **result, struct mt_error *error)
{
    struct mt_queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    pthread_mutex_init(&queue->mutex, NULL);
    int r = mt_database_open(path, &queue->db, error);
    if (r == 0)
        r = mt_statistics_load(&queue->statistics, queue->db, error);
    if (r < 0) {
        mt_queue_close(queue);
        return r;
    }
    *result = queue;
    return 0;
}

void mt_queue_close(struct mt_queue *queue)
{
    if (!queue)
        return;
    sqlite3_close(queue->db);
    pthread_mutex_destroy(&queue->mutex);
    free(queue);
}

int mt_queue_check(struct mt_queue *queue, struct mt_error *error)
{
    MT_QUEUE_LOCK(queue);
    mt_autostatement sqlite3_stmt *statement = NULL;
    int r = mt_database_prepare(queue->db, "SELECT count(*) FROM removals", &statement, error);
    if (r < 0)
        return r;
    return sqlite3_step(statement) == SQLITE_ROW ? 0 : mt_database_fail(queue->db, error, "read");
}

static int find_key(sqlite3 *db, const char *key, const char *body_sha256, struct mt_queue_job **job,
                    struct mt_error *error)
{
    mt_autostatement sqlite3_stmt *statement = NULL;
    int r = mt_database_prepare(db, "SELECT id, body_sha256 FROM jobs WHERE idempotency_key = ?", &statement,
                                error);
    if (r < 0)
        return r;
    mt_bind_text(statement, 1, key);
    r = sqlite3_step(statement);
    if (r == SQLITE_DONE)
        return 0;
    if (r != SQLITE_ROW)
        return mt_database_fail(db, error, "read");
    const char *id = (const char *)sqlite3_column_text(statement, 0);
    const char *body = (const char *)sqlite3_column_text(statement, 1);
    if (!id || !body || strcmp(body, body_sha256) != 0)
        return mt_error_set(error, -EBADMSG, MT_REASON_USAGE,
                            "this idempotency key was used before, for job %s, with another body",
                            id ? id : "?");
    r = mt_row_get(db, id, job, error);
    return r < 0 ? r : -EEXIST;
}

int mt_queue_find_key(struct mt_queue *queue, const char *key, const char *body_sha256,
                      struct mt_queue_job **job, struct mt_error *error)
{
    MT_QUEUE_LOCK(queue);
    return find_key(queue->db, key, body_sha256, job, error);
}

static int insert(sqlite3 *db, const struct mt_queue_submission *submission, struct mt_error *error)
{
    mt_autofree char *labels =
        submission->labels ? json_dumps(submission->labels, JSON_COMPACT) : strdup("{}");
    mt_autofree char *document = json_dumps(submission->document, JSON_COMPACT);
    if (!labels || !document)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    mt_autostatement sqlite3_stmt *statement = NULL;
    int r = mt_database_prepare(db,
                                "INSERT INTO jobs (id, name, state, priority, labels_json, document_json, "
                                "created_us, queued_us, idempotency_key, body_sha256) "
                                "VALUES (?1, ?2, 'queued', ?3, ?4, ?5, ?6, ?6, ?7, ?8)",
                                &statement, error);
    if (r < 0)
        return r;
    mt_bind_text(statement, 1, submission->id);
    mt_bind_text(statement, 2, submission->name);
    mt_bind_integer(statement, 3, submission->priority);
    mt_bind_text(statement, 4, labels);
    mt_bind_text(statement, 5, document);
    mt_bind_integer(statement, 6, mt_time_unix_microseconds());
    mt_bind_text(statement, 7, submission->idempotency_key);
    mt_bind_text(statement, 8, submission->idempotency_key ? submission->body_sha256 : NULL);
    return mt_database_run(db, statement, error);
}

/* The key is looked for inside the inserting transaction, and UNIQUE stands behind it: of two submissions at
 * once one waits for the other's commit and then finds its job. */
int mt_queue_submit(struct mt_queue *queue, const struct mt_queue_submission *submission,
                    struct mt_queue_job **job, struct mt_error *error)
{
    MT_QUEUE_LOCK(queue);
    int r = mt_database_begin(queue->db, error);
    if (r < 0)
        return r;
    mt_autojob struct mt_queue_job *made = NULL;
    if (submission->idempotency_key)
        r = find_key(queue->db, submission->idempotency_key, submission->body_sha256, &made, error);
    if (r == 0)
        r = insert(queue->db, submission, error);
    if (r == 0)
        r = mt_row_get(queue->db, submission->id, &made, error);
    r = mt_database_end(queue->db, r, error);
    if (r == 0 || r == -EEXIST) {
        *job = made;
        made = NULL;
    }
    return r;
}

int mt_queue_get(struct mt_queue *queue, const char *id, struct mt_queue_job **job, struct mt_error *error)
{
    MT_QUEUE_LOCK(queue);
    return mt_row_get(queue->db, id, job, error);
}
