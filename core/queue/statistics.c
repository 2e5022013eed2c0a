#include "core/queue/statistics.h"

#include "core/queue/database.h"

#include <math.h>
#include <string.h>

/* Every reason for which a worker is started again, so that each series is there from the start at 0. */
static const char *const restart_reasons[] = {
    "signal", "out_of_memory", "stalled", "interrupted", "device", "disk_full",
    "io",     "internal",      "exit",    "other",
};
#define NUM_REASONS (sizeof restart_reasons / sizeof *restart_reasons)
_Static_assert(NUM_REASONS <= MT_STATISTICS_REASONS, "room for every reason");

/* Upper bounds in seconds; 0 ends a list. Bounds never change within a schema version: they are stored. */
#define STEP_BOUNDS                                                                                          \
    {                                                                                                        \
        0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600                       \
    }
#define DURATION_BOUNDS                                                                                      \
    {                                                                                                        \
        1, 10, 60, 300, 900, 1800, 3600, 7200, 14400, 28800, 86400, 172800, 345600, 604800                   \
    }

static const struct {
    const char *name;
    const char *label;
    double bounds[MT_STATISTICS_BUCKETS];
} histograms[MT_QUEUE_NUM_HISTOGRAMS] = {
    [MT_QUEUE_STEP_DURATION] = {"step_duration_seconds", "", STEP_BOUNDS},
    [MT_QUEUE_QUEUE_WAIT] = {"queue_wait_seconds", "", DURATION_BOUNDS},
    [MT_QUEUE_COMPLETED_DURATION] = {"job_duration_seconds", "completed", DURATION_BOUNDS},
    [MT_QUEUE_FAILED_DURATION] = {"job_duration_seconds", "failed", DURATION_BOUNDS},
    [MT_QUEUE_CANCELLED_DURATION] = {"job_duration_seconds", "cancelled", DURATION_BOUNDS},
};

static size_t num_bounds(size_t histogram)
{
    size_t n = 0;
    while (histograms[histogram].bounds[n] > 0)
        n++;
    return n;
}

static int find_histogram(const char *name, const char *label)
{
    for (int i = 0; i < MT_QUEUE_NUM_HISTOGRAMS; i++)
        if (strcmp(histograms[i].name, name) == 0 && strcmp(histograms[i].label, label) == 0)
            return i;
    return -1;
}

static size_t find_reason(const char *reason)
{
    for (size_t i = 0; i < NUM_REASONS; i++)
        if (strcmp(restart_reasons[i], reason) == 0)
            return i;
    return NUM_REASONS - 1;
}

static const char *column_text(sqlite3_stmt *statement, int column)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    return text ? text : "";
}

static int load_counters(struct mt_statistics *statistics, sqlite3 *db, struct mt_error *error)
{
    mt_autostatement sqlite3_stmt *statement = NULL;
    int r = mt_database_prepare(db, "SELECT name, label, value FROM counters", &statement, error);
    if (r < 0)
        return r;
    while ((r = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *name = column_text(statement, 0);
        int64_t value = sqlite3_column_int64(statement, 2);
        if (strcmp(name, "trained_tokens_total") == 0)
            statistics->trained_tokens = value;
        else if (strcmp(name, "steps_total") == 0)
            statistics->steps = value;
        else if (strcmp(name, "worker_restarts_total") == 0)
            statistics->restarts[find_reason(column_text(statement, 1))] += value;
    }
    return r == SQLITE_DONE ? 0 : mt_database_fail(db, error, "read");
}

static int load_histograms(struct mt_statistics *statistics, sqlite3 *db, struct mt_error *error)
{
    mt_autostatement sqlite3_stmt *buckets = NULL, *sums = NULL;
    int r = mt_database_prepare(db, "SELECT name, label, position, count FROM histogram_buckets", &buckets,
                                error);
    if (r == 0)
        r = mt_database_prepare(db, "SELECT name, label, sum FROM histogram_sums", &sums, error);
    if (r < 0)
        return r;
    while ((r = sqlite3_step(buckets)) == SQLITE_ROW) {
        int histogram = find_histogram(column_text(buckets, 0), column_text(buckets, 1));
        int64_t position = sqlite3_column_int64(buckets, 2);
        if (histogram >= 0 && position >= 0 && position < MT_STATISTICS_BUCKETS)
            statistics->histograms[histogram].counts[position] = sqlite3_column_int64(buckets, 3);
    }
    if (r != SQLITE_DONE)
        return mt_database_fail(db, error, "read");
    while ((r = sqlite3_step(sums)) == SQLITE_ROW) {
        int histogram = find_histogram(column_text(sums, 0), column_text(sums, 1));
        if (histogram >= 0)
            statistics->histograms[histogram].sum = sqlite3_column_double(sums, 2);
    }
    return r == SQLITE_DONE ? 0 : mt_database_fail(db, error, "read");
}

int mt_statistics_load(struct mt_statistics *statistics, sqlite3 *db, struct mt_error *error)
{
    memset(statistics, 0, sizeof *statistics);
    int r = load_counters(statistics, db, error);
    return r < 0 ? r : load_histograms(statistics, db, error);
}

static int save_counter(sqlite3 *db, sqlite3_stmt *statement, const char *name, const char *label,
                        int64_t value, struct mt_error *error)
{
    sqlite3_reset(statement);
    mt_bind_text(statement, 1, name);
    mt_bind_text(statement, 2, label);
    mt_bind_integer(statement, 3, value);
    return mt_database_run(db, statement, error);
}

static int save_counters(const struct mt_statistics *statistics, sqlite3 *db, struct mt_error *error)
{
    mt_autostatement sqlite3_stmt *statement = NULL;
    int r = mt_database_prepare(db, "INSERT OR REPLACE INTO counters (name, label, value) VALUES (?, ?, ?)",
                                &statement, error);
    if (r == 0)
        r = save_counter(db, statement, "trained_tokens_total", "", statistics->trained_tokens, error);
    if (r == 0)
        r = save_counter(db, statement, "steps_total", "", statistics->steps, error);
    for (size_t i = 0; r == 0 && i < NUM_REASONS; i++)
        r = save_counter(db, statement, "worker_restarts_total", restart_reasons[i], statistics->restarts[i],
                         error);
    return r;
}

static int save_histogram(const struct mt_statistics *statistics, size_t histogram, sqlite3 *db,
                          struct mt_error *error)
{
    mt_autostatement sqlite3_stmt *bucket = NULL, *sum = NULL;
    int r =
        mt_database_prepare(db,
                            "INSERT OR REPLACE INTO histogram_buckets (name, label, position, upper_bound, "
                            "count) VALUES (?, ?, ?, ?, ?)",
                            &bucket, error);
    if (r == 0)
        r = mt_database_prepare(
            db, "INSERT OR REPLACE INTO histogram_sums (name, label, sum) VALUES (?, ?, ?)", &sum, error);
    size_t bounds = num_bounds(histogram);
    for (size_t i = 0; r == 0 && i <= bounds; i++) {
        sqlite3_reset(bucket);
        mt_bind_text(bucket, 1, histograms[histogram].name);
        mt_bind_text(bucket, 2, histograms[histogram].label);
        mt_bind_integer(bucket, 3, (int64_t)i);
        if (i < bounds)
            sqlite3_bind_double(bucket, 4, histograms[histogram].bounds[i]);
        else
            sqlite3_bind_null(bucket, 4);
        mt_bind_integer(bucket, 5, statistics->histograms[histogram].counts[i]);
        r = mt_database_run(db, bucket, error);
    }
    if (r < 0)
        return r;
    mt_bind_text(sum, 1, histograms[histogram].name);
    mt_bind_text(sum, 2, histograms[histogram].label);
    sqlite3_bind_double(sum, 3, statistics->histograms[histogram].sum);
    return mt_database_run(db, sum, error);
}

int mt_statistics_save(const struct mt_statistics *statistics, sqlite3 *db, struct mt_error *error)
{
    int r = statistics->counters_dirty ? save_counters(statistics, db, error) : 0;
    for (size_t i = 0; r == 0 && i < MT_QUEUE_NUM_HISTOGRAMS; i++)
        if (statistics->histogram_dirty[i])
            r = save_histogram(statistics, i, db, error);
    return r;
}

void mt_statistics_saved(struct mt_statistics *statistics)
{
    statistics->counters_dirty = false;
    memset(statistics->histogram_dirty, 0, sizeof statistics->histogram_dirty);
}

void mt_queue_count_steps(struct mt_queue *queue, int64_t steps, int64_t tokens)
{
    MT_QUEUE_LOCK(queue);
    queue->statistics.steps += steps;
    queue->statistics.trained_tokens += tokens;
    queue->statistics.counters_dirty = true;
}

void mt_queue_count_restart(struct mt_queue *queue, const char *reason)
{
    MT_QUEUE_LOCK(queue);
    queue->statistics.restarts[find_reason(reason)]++;
    queue->statistics.counters_dirty = true;
}

void mt_statistics_observe(struct mt_statistics *statistics, enum mt_queue_histogram histogram,
                           double seconds)
{
    if (!isfinite(seconds) || seconds < 0)
        return;
    size_t bounds = num_bounds(histogram), bucket = 0;
    while (bucket < bounds && seconds > histograms[histogram].bounds[bucket])
        bucket++;
    statistics->histograms[histogram].counts[bucket]++;
    statistics->histograms[histogram].sum += seconds;
    statistics->histogram_dirty[histogram] = true;
}

void mt_queue_observe(struct mt_queue *queue, enum mt_queue_histogram histogram, double seconds)
{
    MT_QUEUE_LOCK(queue);
    mt_statistics_observe(&queue->statistics, histogram, seconds);
}

/* {"buckets": [[le, cumulative], ...], "sum", "count"}; the bucket without a bound is `count`. */
static json_t *histogram_object(const struct mt_statistics *statistics, size_t histogram)
{
    json_t *buckets = json_array();
    int64_t cumulative = 0;
    size_t bounds = num_bounds(histogram);
    for (size_t i = 0; i < bounds; i++) {
        cumulative += statistics->histograms[histogram].counts[i];
        json_array_append_new(buckets,
                              json_pack("[f, I]", histograms[histogram].bounds[i], (json_int_t)cumulative));
    }
    cumulative += statistics->histograms[histogram].counts[bounds];
    return json_pack("{s:o, s:f, s:I}", "buckets", buckets, "sum", statistics->histograms[histogram].sum,
                     "count", (json_int_t)cumulative);
}

int mt_queue_statistics(struct mt_queue *queue, json_t *object)
{
    MT_QUEUE_LOCK(queue);
    const struct mt_statistics *statistics = &queue->statistics;
    json_t *restarts = json_object(), *durations = json_object();
    for (size_t i = 0; i < NUM_REASONS; i++)
        json_object_set_new(restarts, restart_reasons[i], json_integer(statistics->restarts[i]));
    for (size_t i = MT_QUEUE_COMPLETED_DURATION; i <= MT_QUEUE_CANCELLED_DURATION; i++)
        json_object_set_new(durations, histograms[i].label, histogram_object(statistics, i));
    json_t *counters =
        json_pack("{s:I, s:I, s:o}", "trained_tokens_total", (json_int_t)statistics->trained_tokens,
                  "steps_total", (json_int_t)statistics->steps, "worker_restarts_total", restarts);
    json_t *all =
        json_pack("{s:o, s:o, s:o}", "step_duration_seconds",
                  histogram_object(statistics, MT_QUEUE_STEP_DURATION), "queue_wait_seconds",
                  histogram_object(statistics, MT_QUEUE_QUEUE_WAIT), "job_duration_seconds", durations);
    if (json_object_set_new(object, "counters", counters) < 0 ||
        json_object_set_new(object, "histograms", all) < 0)
        return -ENOMEM;
    return 0;
}
