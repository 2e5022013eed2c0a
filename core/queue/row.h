/* Inside core/queue: reading rows of the table jobs. */
#ifndef MT_QUEUE_ROW_H
#define MT_QUEUE_ROW_H

#include "core/queue/queue.h"

#include <sqlite3.h>

/* The columns that mt_row_read expects, to stand between SELECT and the rest. (json_object would write a
 * number with 15 digits; a loss comes back as it went in.) */
#define MT_ROW_SELECT                                                                                        \
    "SELECT sequence, id, name, state, reason, error_message, error_detail, requested, priority, "           \
    "labels_json, document_json, progress_json, device, attempt, restarts, step, best_step, created_us, "    \
    "queued_us, started_us, finished_us, worker_pid, worker_start, worker_boot, "                            \
    "(SELECT json_object('step', c.step, 'path', c.path, 'bytes', c.bytes, 'loss', "                         \
    "json(iif(c.loss IS NULL, 'null', printf('%!.17g', c.loss))), 'created_at', c.created_at, 'verified', "  \
    "json(iif(c.verified, 'true', 'false'))) FROM checkpoints c "                                            \
    "WHERE c.job_id = jobs.id ORDER BY c.step DESC LIMIT 1) FROM jobs "

/* The job of the statement's current row. */
int mt_row_read(sqlite3 *db, sqlite3_stmt *statement, struct mt_queue_job **job, struct mt_error *error);

/* The job with this id; -ENOENT with a sentence when there is none. */
int mt_row_get(sqlite3 *db, const char *id, struct mt_queue_job **job, struct mt_error *error);

static inline void mt_cleanup_queue_job(struct mt_queue_job **job)
{
    mt_queue_job_free(*job);
}
#define mt_autojob mt_cleanup(mt_cleanup_queue_job)

#endif
