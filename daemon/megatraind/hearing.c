/* What workers say. A worker is our own program, but a crashed or foreign one may say anything: every field
 * is checked, and what does not fit is left out. */
#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/time.h"
#include "daemon/megatraind/run.h"

#include <math.h>
#include <string.h>

#define LOG_LINES 20     /* of a worker in ... */
#define LOG_SECONDS 10.0 /* ... so much time go on to the daemon's log */
#define MAX_STEP INT64_C(1000000000000)

static const char *text_of(const json_t *message, const char *key, size_t max_bytes)
{
    const char *text = json_string_value(json_object_get(message, key));
    return text && strlen(text) <= max_bytes ? text : NULL;
}

static bool whole_number_of(const json_t *message, const char *key, int64_t maximum, int64_t *value)
{
    json_t *number = json_object_get(message, key);
    if (!json_is_integer(number) || json_integer_value(number) < 0 || json_integer_value(number) > maximum)
        return false;
    *value = json_integer_value(number);
    return true;
}

static double number_of(const json_t *message, const char *key)
{
    json_t *number = json_object_get(message, key);
    return json_is_number(number) ? json_number_value(number) : NAN;
}

/* Steps and tokens since the last line. A worker's first line says where it begins; when that was lost, the
 * line after a step counts that step. */
static void count(struct mt_run *run, const json_t *message, int64_t step)
{
    double seconds = number_of(message, "step_seconds");
    bool after_step = isfinite(seconds);
    int64_t tokens = run->counted_tokens;
    bool has_tokens = whole_number_of(message, "trained_tokens", INT64_MAX / 2, &tokens);
    if (!run->has_baseline) {
        double rate = number_of(message, "tokens_per_second");
        double last = after_step && isfinite(rate) ? round(rate * seconds) : 0;
        int64_t before = last > 0 && last < 1e15 ? (int64_t)last : 0;
        run->counted_step = after_step && step > 0 ? step - 1 : step;
        run->counted_tokens = tokens > before ? tokens - before : 0;
        run->has_baseline = true;
    }
    if (step > run->counted_step) {
        int64_t new_tokens = has_tokens && tokens > run->counted_tokens ? tokens - run->counted_tokens : 0;
        mt_queue_count_steps(run->daemon->queue, step - run->counted_step, new_tokens);
        if (after_step)
            mt_queue_observe(run->daemon->queue, MT_QUEUE_STEP_DURATION, seconds);
    }
    run->counted_step = step;
    run->counted_tokens = tokens;
}

static void hear_progress(struct mt_run *run, const json_t *message)
{
    static const char *const numbers[] = {"max_steps",     "epoch",          "loss",
                                          "learning_rate", "grad_norm",      "step_seconds",
                                          "eta_seconds",   "trained_tokens", "tokens_per_second",
                                          "skipped_steps", "val_loss"};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        json_t *value = json_object_get(message, numbers[i]);
        if (json_is_number(value) || json_is_null(value))
            json_object_set(run->progress, numbers[i], value);
    }
    const char *phase = text_of(message, "phase", 32);
    if (phase) {
        json_object_set_new(run->progress, "phase", json_string(phase));
        run->saving = strcmp(phase, "saving") == 0;
    }
    const char *device = text_of(message, "device", 128);
    if (device && (!run->device || strcmp(device, run->device) != 0)) {
        free(run->device);
        run->device = strdup(device);
    }
    int64_t step;
    if (whole_number_of(message, "step", MAX_STEP, &step)) {
        count(run, message, step);
        run->step = step;
        json_object_set_new(run->progress, "step", json_integer(step));
    }
    run->dirty = true;
}

/* The path is made from the step, whatever the worker says it is: nothing outside the job's folder ever gets
 * into the database. */
static void hear_checkpoint(struct mt_run *run, const json_t *message)
{
    struct mt_error error = {0};
    int64_t step, bytes = 0;
    if (!whole_number_of(message, "step", MAX_STEP, &step))
        return;
    (void)whole_number_of(message, "bytes", INT64_MAX / 2, &bytes);
    char path[4096], now[MT_TIME_TEXT_BYTES];
    if (snprintf(path, sizeof path, "%s/checkpoints/step-%08lld", run->folder, (long long)step) >=
        (int)sizeof path)
        return;
    const char *created = text_of(message, "created_at", 40);
    struct mt_queue_checkpoint checkpoint = {
        .step = step,
        .path = path,
        .bytes = bytes,
        .loss = number_of(message, "loss"),
        .created_at = created ? created : mt_time_format(mt_time_unix_microseconds(), now),
        .verified = json_is_true(json_object_get(message, "verified")),
    };
    if (mt_queue_add_checkpoint(run->daemon->queue, run->worker.job_id, &checkpoint, &error) < 0)
        mt_log(LOG_WARNING, "job %s: checkpoint %lld: %s; it will be found on disk later", run->worker.job_id,
               (long long)step, error.message);
    /* Making a new one is when old ones are removed. */
    mt_run_reconcile_checkpoints(run);
}

/* The worker settled what the document left open and rewrote job.json. */
static void hear_config(struct mt_run *run)
{
    struct mt_error error = {0};
    mt_autofree char *path = mt_path_join(run->folder, "job.json");
    mt_autofree char *text = NULL;
    mt_autojson json_t *document = NULL;
    size_t bytes;
    if (!path || mt_file_read(path, 4 << 20, &text, &bytes, &error) < 0 ||
        mt_json_parse(text, bytes, path, &document, &error) < 0 ||
        mt_queue_set_document(run->daemon->queue, run->worker.job_id, document, &error) < 0)
        mt_log(LOG_WARNING, "job %s: %s", run->worker.job_id, error.message);
}

/* Warnings and errors go on to the daemon's log; a flood of them does not. */
static void hear_log(struct mt_run *run, const json_t *message)
{
    const char *name = text_of(message, "level", 16);
    const char *text = text_of(message, "message", MT_WORKER_LINE_BYTES);
    int level = name ? mt_log_level_parse(name) : -1;
    if (!text || level < 0 || level > LOG_WARNING)
        return;
    double now = mt_time_monotonic();
    if (now - run->log_budget_at > LOG_SECONDS) {
        run->log_budget = LOG_LINES;
        run->log_budget_at = now;
    }
    if (run->log_budget > 0)
        mt_log(level, "job %s: %.1000s", run->worker.job_id, text);
    else if (run->log_budget == 0)
        mt_log(LOG_WARNING, "job %s: more lines follow in its own log", run->worker.job_id);
    if (run->log_budget >= 0)
        run->log_budget--;
}

static void hear_last_word(struct mt_run *run, json_t *message, const char *type)
{
    struct mt_worker *worker = &run->worker;
    const char *state = text_of(message, "state", 16);
    if (worker->word != MT_WORKER_SAID_NOTHING)
        return; /* the first last word counts */
    if (strcmp(type, "failed") == 0)
        worker->word = MT_WORKER_FAILED;
    else if (state && strcmp(state, "completed") == 0)
        worker->word = MT_WORKER_COMPLETED;
    else if (state && strcmp(state, "paused") == 0)
        worker->word = MT_WORKER_PAUSED;
    else if (state && strcmp(state, "cancelled") == 0)
        worker->word = MT_WORKER_CANCELLED;
    else
        return;
    worker->last_message = json_incref(message);
    run->word_at = mt_time_monotonic();
    int64_t step;
    if (whole_number_of(message, "step", MAX_STEP, &step) && step > run->step) {
        run->step = step;
        json_object_set_new(run->progress, "step", json_integer(step));
        run->dirty = true;
    }
}

void mt_run_hear(void *context, struct mt_worker *worker, json_t *message)
{
    struct mt_run *run = context;
    const char *type = text_of(message, "type", 32);
    if (!type) {
        worker->bad_lines++;
        return;
    }
    /* A log line is no sign of life: a worker that only chatters has stalled. */
    if (strcmp(type, "log") == 0) {
        hear_log(run, message);
        return;
    }
    bool known = true;
    if (strcmp(type, "progress") == 0)
        hear_progress(run, message);
    else if (strcmp(type, "checkpoint") == 0)
        hear_checkpoint(run, message);
    else if (strcmp(type, "config") == 0)
        hear_config(run);
    else if (strcmp(type, "done") == 0 || strcmp(type, "failed") == 0)
        hear_last_word(run, message, type);
    else
        known = false; /* of a newer worker, perhaps */
    if (known)
        run->heard_at = mt_time_monotonic();
    else
        worker->bad_lines++;
}

int mt_run_flush(struct mt_run *run, struct mt_error *error)
{
    struct mt_queue_progress progress = {
        .id = run->worker.job_id, .step = run->step, .device = run->device, .progress = run->progress};
    int r = mt_queue_record(run->daemon->queue, &progress, 1, error);
    if (r == 0)
        run->dirty = false;
    return r;
}
