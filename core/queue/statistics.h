/* Inside core/queue: counters and histograms that outlive the daemon. They are counted in memory and written
 * inside the transactions that write progress and states; what a transaction did not write stays dirty. */
#ifndef MT_QUEUE_STATISTICS_H
#define MT_QUEUE_STATISTICS_H

#include "core/queue/queue.h"

#include <sqlite3.h>

#define MT_STATISTICS_BUCKETS 18 /* with the one that has no bound */
#define MT_STATISTICS_REASONS 16

struct mt_statistics {
    int64_t trained_tokens, steps;
    int64_t restarts[MT_STATISTICS_REASONS]; /* by index of the table of reasons */
    struct {
        int64_t counts[MT_STATISTICS_BUCKETS]; /* not cumulative */
        double sum;
    } histograms[MT_QUEUE_NUM_HISTOGRAMS];
    bool counters_dirty;
    bool histogram_dirty[MT_QUEUE_NUM_HISTOGRAMS];
};

int mt_statistics_load(struct mt_statistics *statistics, sqlite3 *db, struct mt_error *error);
/* Inside a transaction: writes what is dirty. After the commit call mt_statistics_saved. */
int mt_statistics_save(const struct mt_statistics *statistics, sqlite3 *db, struct mt_error *error);
void mt_statistics_saved(struct mt_statistics *statistics);
void mt_statistics_observe(struct mt_statistics *statistics, enum mt_queue_histogram histogram,
                           double seconds);

#endif
