#include "core/queue/row.h"

#include "core/queue/database.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void mt_queue_job_free(struct mt_queue_job *job)
{
    if (!job)
        return;
    free(job->name);
    free(job->reason);
    free(job->error_message);
    free(job->error_detail);
    free(job->device);
    free(job->worker_boot);
    json_decref(job->labels);
    json_decref(job->document);
    json_decref(job->progress);
    json_decref(job->last_checkpoint);
    free(job);
}

/* Reads columns one after the other; remembers the first failure. */
struct reader {
    sqlite3_stmt *statement;
    int column;
    bool failed;
};

static char *next_text(struct reader *reader)
{
    const char *text = (const char *)sqlite3_column_text(reader->statement, reader->column++);
    if (!text)
        return NULL;
    char *copy = strdup(text);
    reader->failed |= !copy;
    return copy;
}

static int64_t next_integer(struct reader *reader)
{
    return sqlite3_column_int64(reader->statement, reader->column++);
}

/* NULL for SQL's NULL. What stands there was written by json_dumps, so anything else is damage. */
static json_t *next_json(struct reader *reader)
{
    const char *text = (const char *)sqlite3_column_text(reader->statement, reader->column++);
    if (!text)
        return NULL;
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
    reader->failed |= !value;
    return value;
}

static enum mt_queue_request parse_request(const char *name)
{
    if (!name)
        return MT_QUEUE_REQUEST_NONE;
    return strcmp(name, "cancel") == 0 ? MT_QUEUE_REQUEST_CANCEL : MT_QUEUE_REQUEST_PAUSE;
}

int mt_row_read(sqlite3 *db, sqlite3_stmt *statement, struct mt_queue_job **result, struct mt_error *error)
{
    mt_autojob struct mt_queue_job *job = calloc(1, sizeof *job);
    if (!job)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    struct reader reader = {.statement = statement};
    job->sequence = next_integer(&reader);
    mt_autofree char *id = next_text(&reader);
    job->name = next_text(&reader);
    mt_autofree char *state = next_text(&reader);
    job->reason = next_text(&reader);
    job->error_message = next_text(&reader);
    job->error_detail = next_text(&reader);
    mt_autofree char *requested = next_text(&reader);
    job->requested = parse_request(requested);
    job->priority = next_integer(&reader);
    job->labels = next_json(&reader);
    job->document = next_json(&reader);
    job->progress = next_json(&reader);
    job->device = next_text(&reader);
    job->attempt = next_integer(&reader);
    job->restarts = next_integer(&reader);
    job->step = next_integer(&reader);
    job->best_step = next_integer(&reader);
    job->created_us = next_integer(&reader);
    job->queued_us = next_integer(&reader);
    job->started_us = next_integer(&reader);
    job->finished_us = next_integer(&reader);
    job->worker_pid = next_integer(&reader);
    job->worker_start = next_integer(&reader);
    job->worker_boot = next_text(&reader);
    job->last_checkpoint = next_json(&reader);
    int parsed = state ? mt_queue_state_parse(state) : -1;
    if (reader.failed || !id || strlen(id) >= sizeof job->id || parsed < 0)
        return mt_error_set(error, -EUCLEAN, MT_REASON_IO, "%s: job %s cannot be read: its row is damaged",
                            sqlite3_db_filename(db, "main"), id ? id : "?");
    memcpy(job->id, id, strlen(id) + 1);
    job->state = (enum mt_queue_state)parsed;
    *result = job;
    job = NULL;
    return 0;
}

int mt_row_get(sqlite3 *db, const char *id, struct mt_queue_job **job, struct mt_error *error)
{
    mt_autostatement sqlite3_stmt *statement = NULL;
    int r = mt_database_prepare(db, MT_ROW_SELECT "WHERE id = ?", &statement, error);
    if (r < 0)
        return r;
    mt_bind_text(statement, 1, id);
    r = sqlite3_step(statement);
    if (r == SQLITE_ROW)
        return mt_row_read(db, statement, job, error);
    if (r != SQLITE_DONE)
        return mt_database_fail(db, error, "read");
    return mt_error_set(error, -ENOENT, MT_REASON_USAGE, "there is no job %.64s", id);
}
