/* metrics.c: the page of /metrics, made afresh at each scrape from the daemon's snapshot, the step series of
 * the jobs that run, the requests measured here, and /proc/self.
 *
 * Label values that are known stand there at 0 from the start, so that the first event is an increase and not
 * a new series. Only jobs that run have series of their own. */
#include "api/metrics.h"

#include "api/durations.h"
#include "api/exposition.h"
#include "api/problem.h"
#include "api/process.h"
#include "api/rows.h"
#include "api/server.h"
#include "core/base/cleanup.h"
#include "core/queue/state.h"

#include <stdlib.h>
#include <string.h>

#define RECENT_ROWS 500
#define RECENT_BYTES ((off_t)512 << 10) /* of metrics.jsonl, more than so many rows take */
#define LAST_ROW_BYTES ((off_t)16 << 10)

static const char *const ended_states[] = {"completed", "failed", "cancelled"};
static const char *const restart_reasons[] = {"out_of_memory", "signal", "stalled"};

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])
#define LABELS(...)                                                                                          \
    (const char *const[])                                                                                    \
    {                                                                                                        \
        __VA_ARGS__, NULL                                                                                    \
    }

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static void plain(struct mt_exposition *page, const char *name, const char *type, const char *help,
                  double value)
{
    mt_exposition_family(page, name, type, help);
    mt_exposition_sample(page, name, NULL, value);
}

static void write_queue(struct mt_exposition *page, const json_t *snapshot)
{
    const json_t *jobs = json_object_get(snapshot, "jobs"), *counters = json_object_get(snapshot, "counters"),
                 *restarts = json_object_get(counters, "worker_restarts_total"),
                 *histograms = json_object_get(snapshot, "histograms"),
                 *durations = json_object_get(histograms, "job_duration_seconds");
    const char *version = json_string_value(json_object_get(snapshot, "version"));

    mt_exposition_family(page, "megatrain_build_info", "info", "What runs here.");
    mt_exposition_sample(page, "megatrain_build_info", LABELS("version", version ? version : ""), 1);

    mt_exposition_family(page, "megatrain_jobs", "gauge", "Jobs by state.");
    for (enum mt_queue_state i = 0; i < MT_QUEUE_NUM_STATES; i++) {
        const char *state = mt_queue_state_name(i);
        mt_exposition_sample(page, "megatrain_jobs", LABELS("state", state), number(jobs, state));
    }

    plain(page, "megatrain_trained_tokens_total", "counter", "Real tokens that went through training steps.",
          number(counters, "trained_tokens_total"));
    plain(page, "megatrain_steps_total", "counter", "Optimizer steps made.", number(counters, "steps_total"));

    mt_exposition_family(page, "megatrain_worker_restarts_total", "counter",
                         "Workers that were started again, by what ended them.");
    for (size_t i = 0; i < LENGTH(restart_reasons); i++)
        mt_exposition_sample(page, "megatrain_worker_restarts_total", LABELS("reason", restart_reasons[i]),
                             number(restarts, restart_reasons[i]));
    const char *reason;
    json_t *count;
    json_object_foreach((json_t *)restarts, reason, count)
    {
        bool known = false;
        for (size_t i = 0; i < LENGTH(restart_reasons); i++)
            known = known || strcmp(reason, restart_reasons[i]) == 0;
        if (!known)
            mt_exposition_sample(page, "megatrain_worker_restarts_total", LABELS("reason", reason),
                                 json_number_value(count));
    }

    mt_exposition_family(page, "megatrain_step_duration_seconds", "histogram", "Time of a training step.");
    mt_exposition_histogram(page, "megatrain_step_duration_seconds", NULL,
                            json_object_get(histograms, "step_duration_seconds"));
    mt_exposition_family(page, "megatrain_queue_wait_seconds", "histogram", "From submission to start.");
    mt_exposition_histogram(page, "megatrain_queue_wait_seconds", NULL,
                            json_object_get(histograms, "queue_wait_seconds"));
    mt_exposition_family(page, "megatrain_job_duration_seconds", "histogram",
                         "From start to end, by final state.");
    for (size_t i = 0; i < LENGTH(ended_states); i++)
        mt_exposition_histogram(page, "megatrain_job_duration_seconds", LABELS("state", ended_states[i]),
                                json_object_get(durations, ended_states[i]));
}

static void write_machine(struct mt_exposition *page, const json_t *snapshot)
{
    const json_t *memory = json_object_get(snapshot, "memory"), *disk = json_object_get(snapshot, "disk");
    plain(page, "megatrain_memory_total_bytes", "gauge", "Host memory that may be used.",
          number(memory, "total_bytes"));
    plain(page, "megatrain_memory_available_bytes", "gauge", "Host memory that is available.",
          number(memory, "available_bytes"));
    plain(page, "megatrain_disk_total_bytes", "gauge", "Size of the state folder's file system.",
          number(disk, "total_bytes"));
    plain(page, "megatrain_disk_free_bytes", "gauge", "Free space there.", number(disk, "free_bytes"));
}

/* ---- the jobs that run ---- */

static int open_series(struct mt_api *api, const json_t *job, struct mt_rows *rows)
{
    const char *id = json_string_value(json_object_get(job, "id"));
    mt_autofree char *folder = id ? api->control->job_folder(api->control->context, id) : NULL;
    return folder ? mt_rows_open(rows, folder, "metrics.jsonl") : -ENOENT;
}

/* The last row of a job's step series; NULL when there is none. */
static json_t *last_row(struct mt_api *api, const json_t *job)
{
    struct mt_rows rows;
    struct mt_row row;
    json_t *last = NULL;
    if (open_series(api, job, &rows) < 0)
        return NULL;
    mt_rows_seek_tail(&rows, LAST_ROW_BYTES);
    while (mt_rows_next(&rows, &row)) {
        json_decref(last);
        last = row.value;
    }
    mt_rows_close(&rows);
    return last;
}

static const struct job_gauge {
    const char *name, *help, *member;
    bool in_row; /* of metrics.jsonl; else of the job's progress */
} job_gauges[] = {
    {"megatrain_job_step", "Steps made.", "step", false},
    {"megatrain_job_max_steps", "Steps to make.", "max_steps", false},
    {"megatrain_job_loss", "Loss of the last step, in nats.", "loss", false},
    {"megatrain_job_learning_rate", "Learning rate of the last step.", "learning_rate", true},
    {"megatrain_job_grad_norm", "Gradient norm of the last step, before clipping.", "grad_norm", true},
    {"megatrain_job_tokens_per_second", "Real tokens per second.", "tokens_per_second", false},
};

static const char *job_id(const json_t *job)
{
    const char *id = json_string_value(json_object_get(job, "id"));
    return id ? id : "";
}

static void write_jobs(struct mt_exposition *page, struct mt_api *api, const json_t *running)
{
    size_t i, count = json_array_size(running);
    json_t *job;
    mt_autojson json_t *rows = json_array();
    json_array_foreach(running, i, job)
    {
        json_t *row = last_row(api, job);
        json_array_append_new(rows, row ? row : json_null());
    }
    for (size_t g = 0; g < LENGTH(job_gauges) && count > 0; g++) {
        mt_exposition_family(page, job_gauges[g].name, "gauge", job_gauges[g].help);
        json_array_foreach(running, i, job)
        {
            const json_t *from =
                job_gauges[g].in_row ? json_array_get(rows, i) : json_object_get(job, "progress");
            const json_t *value = json_object_get(from, job_gauges[g].member);
            if (json_is_number(value))
                mt_exposition_sample(page, job_gauges[g].name, LABELS("job", job_id(job)),
                                     json_number_value(value));
        }
    }
    if (count > 0)
        mt_exposition_family(page, "megatrain_job_progress_ratio", "gauge", "Share of the steps made.");
    json_array_foreach(running, i, job)
    {
        const json_t *progress = json_object_get(job, "progress");
        double max_steps = number(progress, "max_steps");
        if (max_steps > 0)
            mt_exposition_sample(page, "megatrain_job_progress_ratio", LABELS("job", job_id(job)),
                                 number(progress, "step") / max_steps);
    }
}

/* ---- requests ---- */

static void write_duration(void *context, const struct mt_duration_series *series)
{
    char code[16];
    double cumulative = 0;
    mt_autojson json_t *buckets = json_array();
    for (size_t i = 0; i < MT_DURATION_BUCKETS; i++) {
        cumulative += (double)series->buckets[i];
        json_array_append_new(buckets, json_pack("[f, f]", mt_duration_bounds[i], cumulative));
    }
    mt_autojson json_t *histogram =
        json_pack("{s:O, s:f, s:f}", "buckets", buckets, "sum", series->sum, "count", (double)series->count);
    snprintf(code, sizeof code, "%u", series->code);
    mt_exposition_histogram(context, "megatrain_http_request_duration_seconds",
                            LABELS("route", series->route, "method", series->method, "code", code),
                            histogram);
}

static void write_process(struct mt_exposition *page)
{
    struct mt_process process;
    mt_process_read(&process);
    plain(page, "process_cpu_seconds_total", "counter", "CPU time of the daemon itself.",
          process.cpu_seconds);
    plain(page, "process_open_fds", "gauge", "Open file descriptors.", process.open_fds);
    plain(page, "process_max_fds", "gauge", "File descriptors that may be open.", process.max_fds);
    plain(page, "process_virtual_memory_bytes", "gauge", "Virtual memory.", process.virtual_bytes);
    plain(page, "process_resident_memory_bytes", "gauge", "Resident memory.", process.resident_bytes);
    plain(page, "process_start_time_seconds", "gauge", "Start, in seconds since 1970.",
          process.start_seconds);
}

static void reply_text(struct mt_request *request, const json_t *snapshot, bool open_metrics)
{
    struct mt_api *api = request->listener->api;
    struct mt_exposition page = {.open_metrics = open_metrics};
    write_queue(&page, snapshot);
    write_jobs(&page, api, json_object_get(snapshot, "running"));
    write_machine(&page, snapshot);
    mt_exposition_family(&page, "megatrain_http_request_duration_seconds", "histogram",
                         "From a request's headers to its answer's start.");
    mt_durations_each(api->durations, write_duration, &page);
    write_process(&page);
    mt_exposition_end(&page);
    mt_reply_text(request, 200,
                  open_metrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                               : "text/plain; version=0.0.4; charset=utf-8",
                  &page.text);
}

/* ---- JSON ---- */

/* [{"step", "loss"}, ...] of the last rows. */
static json_t *recent_losses(struct mt_api *api, const json_t *job)
{
    struct mt_rows rows;
    struct mt_row row;
    json_t *recent = json_array();
    if (open_series(api, job, &rows) < 0)
        return recent;
    mt_rows_seek_tail(&rows, RECENT_BYTES);
    while (mt_rows_next(&rows, &row)) {
        json_t *loss = json_object_get(row.value, "loss");
        json_array_append_new(recent, json_pack("{s:I, s:O}", "step", (json_int_t)mt_row_step(&row), "loss",
                                                loss ? loss : json_null()));
        json_decref(row.value);
    }
    mt_rows_close(&rows);
    size_t count = json_array_size(recent);
    if (count <= RECENT_ROWS)
        return recent;
    json_t *last = json_array();
    for (size_t i = count - RECENT_ROWS; i < count; i++)
        json_array_append(last, json_array_get(recent, i));
    json_decref(recent);
    return last;
}

static void reply_json(struct mt_request *request, const json_t *snapshot)
{
    static const char *const members[] = {"time", "version", "jobs", "running", "devices", "memory", "disk"};
    mt_autojson json_t *body = json_object();
    for (size_t i = 0; i < LENGTH(members); i++) {
        json_t *value = json_object_get(snapshot, members[i]);
        json_object_set(body, members[i], value ? value : json_null());
    }
    json_t *jobs = json_copy(json_object_get(snapshot, "jobs")), *job;
    for (enum mt_queue_state i = 0; i < MT_QUEUE_NUM_STATES; i++) {
        if (!json_object_get(jobs, mt_queue_state_name(i)))
            json_object_set_new(jobs, mt_queue_state_name(i), json_integer(0));
    }
    if (jobs)
        json_object_set_new(body, "jobs", jobs);
    size_t i;
    json_array_foreach(json_object_get(body, "running"), i, job)
    {
        json_object_set_new(job, "recent", recent_losses(request->listener->api, job));
    }
    mt_reply_json(request, 200, body);
}

void mt_metrics(struct mt_request *request)
{
    static const char *const types[] = {"text/plain", "application/openmetrics-text", "application/json",
                                        NULL};
    enum { PROMETHEUS, OPEN_METRICS, JSON };
    const struct mt_control *control = request->listener->api->control;
    mt_autojson json_t *snapshot = control->snapshot(control->context);
    if (!snapshot) {
        mt_problem(request, 503, "The daemon's figures are not available just now.");
        return;
    }
    size_t type = mt_request_accepts(request, types);
    if (type == JSON)
        reply_json(request, snapshot);
    else
        reply_text(request, snapshot, type == OPEN_METRICS);
}
