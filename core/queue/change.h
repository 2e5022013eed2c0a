/* Inside core/queue: one change of state within the caller's transaction. */
#ifndef MT_QUEUE_CHANGE_H
#define MT_QUEUE_CHANGE_H

#include "core/queue/queue.h"
#include "core/queue/statistics.h"

#include <sqlite3.h>

/* Checks the table of transitions and writes the change; `job` is the row as read in this transaction. Counts
 * a job's duration in `statistics`, which is the caller's to save. */
int mt_change_apply(sqlite3 *db, const struct mt_queue_job *job, const struct mt_queue_change *change,
                    struct mt_statistics *statistics, struct mt_error *error);

#endif
