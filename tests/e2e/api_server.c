/* api_server.c: the API in front of a daemon that only pretends, for tests/e2e/api.py. Jobs live in memory;
 * their folders are real. What a job document says decides what happens to it:
 *
 *   {"name": N}                    accepted, queued
 *   {"name": N, "state": S}        accepted, in that state from the start
 *   {"bad": true}                  INVALID with two errors     {"full": true}       DISK_FULL
 *   {"stopping": true}             UNAVAILABLE                 {"broken": true}     FAILED
 *
 * usage: api_server FOLDER [--token T] [--allow-host H] [--not-ready] ADDRESS...
 * Prints the addresses in use, one a line, then "ready"; ends on SIGTERM with 0. */
#include "api/control.h"
#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/base/id.h"
#include "core/base/time.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_JOBS 4096

struct fake_job {
    char id[MT_ID_BYTES];
    char state[16];
    char *key, *hash;
    json_t *object;
};

struct fake {
    pthread_mutex_t lock;
    const char *folder;
    bool ready;
    struct fake_job jobs[MAX_JOBS];
    size_t count;
};

static struct fake_job *find(struct fake *fake, const char *id)
{
    for (size_t i = 0; i < fake->count; i++) {
        if (strcmp(fake->jobs[i].id, id) == 0)
            return &fake->jobs[i];
    }
    return NULL;
}

static json_t *shown(const struct fake_job *job)
{
    json_t *copy = json_deep_copy(job->object);
    json_object_set_new(copy, "state", json_string(job->state));
    return copy;
}

static bool has(const json_t *document, const char *key)
{
    return json_is_true(json_object_get(document, key));
}

static enum mt_control_result submit_locked(struct fake *fake, const struct mt_control_submission *submission,
                                            json_t **object, struct mt_error *error)
{
    for (size_t i = 0; submission->idempotency_key && i < fake->count; i++) {
        struct fake_job *job = &fake->jobs[i];
        if (!job->key || strcmp(job->key, submission->idempotency_key) != 0)
            continue;
        if (strcmp(job->hash, submission->body_sha256) != 0) {
            mt_error_set(error, -EEXIST, MT_REASON_BAD_JOB, "this Idempotency-Key came with another body");
            return MT_CONTROL_CONFLICT;
        }
        *object = shown(job);
        return MT_CONTROL_OK;
    }
    if (fake->count == MAX_JOBS)
        return MT_CONTROL_DISK_FULL;
    struct fake_job *job = &fake->jobs[fake->count++];
    mt_id_new(job->id);
    const char *state = json_string_value(json_object_get(submission->document, "state"));
    const char *name = json_string_value(json_object_get(submission->document, "name"));
    snprintf(job->state, sizeof job->state, "%s", state ? state : "queued");
    job->key = submission->idempotency_key ? strdup(submission->idempotency_key) : NULL;
    job->hash = strdup(submission->body_sha256);
    char created_at[MT_TIME_TEXT_BYTES];
    job->object = json_pack(
        "{s:s, s:s, s:n, s:n, s:i, s:{}, s:i, s:s, s:n, s:n, s:{s:i, s:i, s:f}, s:n, s:n, s:O, s:{}}", "id",
        job->id, "name", name ? name : "job", "reason", "error", "priority", 0, "labels", "attempt", 1,
        "created_at", mt_time_format(mt_time_unix_microseconds(), created_at), "started_at", "finished_at",
        "progress", "step", 2, "max_steps", 10, "loss", 2.5, "device", "last_checkpoint", "config",
        submission->document, "links");
    char path[4096];
    snprintf(path, sizeof path, "%s/jobs/%s", fake->folder, job->id);
    mt_folder_create(path, 0700, NULL);
    *object = shown(job);
    return MT_CONTROL_OK;
}

static enum mt_control_result fake_submit(void *context, const struct mt_control_submission *submission,
                                          const struct mt_control_client *client, json_t **job,
                                          json_t **errors, struct mt_error *error)
{
    (void)client;
    struct fake *fake = context;
    if (has(submission->document, "bad")) {
        *errors =
            json_pack("[{s:s, s:s, s:s}, {s:s, s:s}]", "pointer", "/training/learning_rat", "detail",
                      "unknown key", "suggestion", "learning_rate", "pointer", "/model", "detail", "missing");
        return MT_CONTROL_INVALID;
    }
    if (has(submission->document, "full"))
        return MT_CONTROL_DISK_FULL;
    if (has(submission->document, "stopping"))
        return MT_CONTROL_UNAVAILABLE;
    if (has(submission->document, "broken")) {
        mt_error_set(error, -EIO, MT_REASON_IO, "the database \xff does not answer");
        return MT_CONTROL_FAILED;
    }
    pthread_mutex_lock(&fake->lock);
    enum mt_control_result result = submit_locked(fake, submission, job, error);
    pthread_mutex_unlock(&fake->lock);
    return result;
}

static enum mt_control_result fake_job(void *context, const char *id, json_t **job, struct mt_error *error)
{
    struct fake *fake = context;
    (void)error;
    pthread_mutex_lock(&fake->lock);
    struct fake_job *found = find(fake, id);
    *job = found ? shown(found) : NULL;
    pthread_mutex_unlock(&fake->lock);
    return found ? MT_CONTROL_OK : MT_CONTROL_NOT_FOUND;
}

static enum mt_control_result fake_list(void *context, const struct mt_control_list_query *query,
                                        json_t **page, struct mt_error *error)
{
    struct fake *fake = context;
    (void)error;
    pthread_mutex_lock(&fake->lock);
    size_t from = fake->count;
    struct fake_job *after = query->after ? find(fake, query->after) : NULL;
    if (after)
        from = (size_t)(after - fake->jobs);
    json_t *data = json_array();
    const char *next = NULL;
    bool has_more = false;
    for (size_t i = from; i-- > 0 && !has_more;) {
        if (query->state && strcmp(query->state, fake->jobs[i].state) != 0)
            continue;
        if (json_array_size(data) == query->limit) {
            has_more = true;
        } else {
            json_array_append_new(data, shown(&fake->jobs[i]));
            next = fake->jobs[i].id;
        }
    }
    *page = json_pack("{s:o, s:b, s:s?}", "data", data, "has_more", has_more, "next", has_more ? next : NULL);
    pthread_mutex_unlock(&fake->lock);
    return query->after && !after ? MT_CONTROL_BAD_CURSOR : MT_CONTROL_OK;
}

static enum mt_control_result fake_act(void *context, const char *id, enum mt_control_action action,
                                       json_t **job, struct mt_error *error)
{
    static const struct {
        const char *from, *to;
    } moves[] = {
        [MT_CONTROL_CANCEL] = {"queued running paused", "cancelled"},
        [MT_CONTROL_PAUSE] = {"queued running", "paused"},
        [MT_CONTROL_RESUME] = {"paused failed", "queued"},
        [MT_CONTROL_CHECKPOINT] = {"running", "running"},
    };
    struct fake *fake = context;
    enum mt_control_result result = MT_CONTROL_OK;
    pthread_mutex_lock(&fake->lock);
    struct fake_job *found = find(fake, id);
    if (!found) {
        result = MT_CONTROL_NOT_FOUND;
    } else if (!strstr(moves[action].from, found->state)) {
        mt_error_set(error, -EBUSY, MT_REASON_USAGE, "a job that is %s cannot do this", found->state);
        result = MT_CONTROL_CONFLICT;
    } else {
        strcpy(found->state, moves[action].to);
        *job = shown(found);
    }
    pthread_mutex_unlock(&fake->lock);
    return result;
}

static enum mt_control_result fake_remove(void *context, const char *id, struct mt_error *error)
{
    struct fake *fake = context;
    (void)error;
    enum mt_control_result result = MT_CONTROL_OK;
    pthread_mutex_lock(&fake->lock);
    struct fake_job *found = find(fake, id);
    if (!found)
        result = MT_CONTROL_NOT_FOUND;
    else if (!strstr("completed failed cancelled", found->state))
        result = MT_CONTROL_CONFLICT;
    else
        found->id[0] = '\0';
    pthread_mutex_unlock(&fake->lock);
    return result;
}

static char *fake_folder(void *context, const char *id)
{
    struct fake *fake = context;
    char *path = NULL;
    pthread_mutex_lock(&fake->lock);
    bool known = find(fake, id) != NULL;
    pthread_mutex_unlock(&fake->lock);
    return known && asprintf(&path, "%s/jobs/%s", fake->folder, id) > 0 ? path : NULL;
}

static bool fake_active(void *context, const char *id)
{
    struct fake *fake = context;
    pthread_mutex_lock(&fake->lock);
    struct fake_job *found = find(fake, id);
    bool active = found && strcmp(found->state, "running") == 0;
    pthread_mutex_unlock(&fake->lock);
    return active;
}

static json_t *fake_snapshot(void *context)
{
    struct fake *fake = context;
    char now[MT_TIME_TEXT_BYTES];
    json_t *running = json_array(), *jobs = json_object();
    pthread_mutex_lock(&fake->lock);
    for (size_t i = 0; i < fake->count; i++) {
        struct fake_job *job = &fake->jobs[i];
        if (!job->id[0])
            continue;
        json_int_t before = json_integer_value(json_object_get(jobs, job->state));
        json_object_set_new(jobs, job->state, json_integer(before + 1));
        if (strcmp(job->state, "running") == 0)
            json_array_append_new(running, json_pack("{s:s, s:O, s:O}", "id", job->id, "name",
                                                     json_object_get(job->object, "name"), "progress",
                                                     json_object_get(job->object, "progress")));
    }
    pthread_mutex_unlock(&fake->lock);
    return json_pack(
        "{s:s, s:s, s:o, s:o, s:{s:i, s:i, s:{s:i, s:i}}, s:{s:{s:[[f,i],[f,i]], s:f, s:i}}, s:[], "
        "s:{s:I, s:I, s:I}, s:{s:I, s:I}}",
        "time", mt_time_format(mt_time_unix_microseconds(), now), "version", "0.1.0-test", "jobs", jobs,
        "running", running, "counters", "trained_tokens_total", 12345, "steps_total", 67,
        "worker_restarts_total", "signal", 2, "odd\"reason\\", 1, "histograms", "step_duration_seconds",
        "buckets", 0.5, 3, 1.0, 5, "sum", 3.25, "count", 6, "devices", "memory", "resident_bytes",
        (json_int_t)1, "total_bytes", (json_int_t)1 << 34, "available_bytes", (json_int_t)1 << 33, "disk",
        "total_bytes", (json_int_t)1 << 40, "free_bytes", (json_int_t)1 << 39);
}

static enum mt_control_result fake_plan(void *context, const json_t *document, const json_t *machine,
                                        const struct mt_control_client *client, json_t **plan,
                                        json_t **errors, struct mt_error *error)
{
    (void)client;
    (void)context;
    const char *memory = json_string_value(json_object_get(machine, "gpu_memory"));
    if (memory && strcmp(memory, "lots") == 0) {
        mt_error_set(error, -EINVAL, MT_REASON_USAGE, "gpu_memory takes a size, found \"lots\"");
        return MT_CONTROL_BAD_CURSOR;
    }
    if (has(document, "invalid")) {
        *errors = json_pack("[{s:s, s:s}]", "pointer", "/model", "detail", "the model is not known yet");
        return MT_CONTROL_INVALID;
    }
    *plan = json_pack("{s:b, s:O, s:O, s:i, s:i, s:i, s:i, s:i, s:{s:s, s:i}, s:{s:i}, s:{s:i}, s:{s:i, s:i},"
                      " s:f, s:{s:f}, s:s, s:f, s:f}",
                      "fits", 1, "document", document, "machine", machine, "parameters", 10,
                      "trainable_parameters", 10, "tokens_per_step", 4, "micro_batch_size", 1,
                      "largest_micro_batch_size", 1, "device", "kind", "cpu", "total_bytes", 1, "host",
                      "total_bytes", 1, "disk", "total_bytes", 1, "bus_bytes_per_step", "in", 0, "out", 0,
                      "flops_per_step", 1e9, "stages", "forward", 0.5, "bound_by", "forward", "step_seconds",
                      1.5, "tokens_per_second", 2.5);
    return MT_CONTROL_OK;
}

static enum mt_control_result fake_preview(void *context, const json_t *document,
                                           const struct mt_control_preview *wish,
                                           const struct mt_control_client *client, json_t **preview,
                                           json_t **errors, struct mt_error *error)
{
    (void)client;
    (void)context;
    (void)error;
    if (has(document, "invalid")) {
        *errors = json_pack("[{s:s, s:s}]", "pointer", "/dataset/path", "detail", "the data set is empty");
        return MT_CONTROL_INVALID;
    }
    *preview =
        json_pack("{s:i, s:b, s:I, s:[{s:s, s:i, s:[i]}], s:i, s:i, s:i, s:{s:i, s:i, s:f, s:[[i,i]]}, "
                  "s:[{s:I, s:[i,i], s:[i,i], s:s}]}",
                  "samples", 1, "complete", 1, "rows", (json_int_t)wish->rows, "dropped", "reason", "empty",
                  "count", 1, "rows", 0, "truncated", 0, "tokens", 2, "target_tokens", 1, "lengths", "min", 2,
                  "max", 2, "mean", 2.0, "histogram", 2, 1, "show", "row", (json_int_t)wish->show, "ids", 1,
                  2, "learned", 0, 1, "text", "ab");
    return MT_CONTROL_OK;
}

static enum mt_control_result fake_devices(void *context, const struct mt_control_client *client,
                                           json_t **devices, struct mt_error *error)
{
    (void)client;
    (void)context;
    (void)error;
    *devices = json_pack("{s:[{s:s, s:s, s:s, s:b, s:n, s:I, s:I}], s:b, s:n, s:{s:n, s:s}}", "data", "id",
                         "cpu", "kind", "cpu", "name", "CPU", "usable", 1, "reason", "total_bytes",
                         (json_int_t)2, "free_bytes", (json_int_t)1, "has_more", 0, "next", "cuda",
                         "versions", "unavailable", "there is no module");
    return MT_CONTROL_OK;
}

static enum mt_control_result fake_models(void *context, const struct mt_control_client *client,
                                          json_t **models, struct mt_error *error)
{
    (void)client;
    (void)context;
    (void)error;
    *models = json_pack("{s:[{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:b, s:n}], s:b, s:n}", "data", "id",
                        "Org/Tiny", "path", "/models/Org/Tiny", "source", "models", "format", "huggingface",
                        "model_type", "llama", "parameters", (json_int_t)12, "bytes", (json_int_t)48,
                        "usable", 1, "reason", "has_more", 0, "next");
    return MT_CONTROL_OK;
}

static bool fake_ready(void *context, struct mt_error *error)
{
    struct fake *fake = context;
    if (!fake->ready)
        mt_error_set(error, -EAGAIN, MT_REASON_INTERNAL, "the database does not answer");
    return fake->ready;
}

int main(int argc, char **argv)
{
    static struct fake fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .ready = true};
    const char *listen[16], *hosts[4];
    struct mt_api_options options = {.version = "0.1.0-test", .listen = listen, .allow_hosts = hosts};
    const struct mt_control control = {.context = &fake,
                                       .submit = fake_submit,
                                       .job = fake_job,
                                       .list = fake_list,
                                       .act = fake_act,
                                       .remove = fake_remove,
                                       .job_folder = fake_folder,
                                       .job_active = fake_active,
                                       .snapshot = fake_snapshot,
                                       .ready = fake_ready,
                                       .plan = fake_plan,
                                       .preview = fake_preview,
                                       .devices = fake_devices,
                                       .models = fake_models};
    if (argc < 3)
        return 64;
    fake.folder = argv[1];
    for (int i = 2; i < argc && options.num_listen < 16; i++) {
        if (strcmp(argv[i], "--token") == 0 && i + 1 < argc)
            options.token = argv[++i];
        else if (strcmp(argv[i], "--allow-host") == 0 && i + 1 < argc && options.num_allow_hosts < 4)
            hosts[options.num_allow_hosts++] = argv[++i];
        else if (strcmp(argv[i], "--not-ready") == 0)
            fake.ready = false;
        else
            listen[options.num_listen++] = argv[i];
    }
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);

    struct mt_api *api;
    struct mt_error error = {0};
    if (mt_api_start(&control, &options, &api, &error) < 0) {
        fprintf(stderr, "%s\n", error.message);
        return error.code == -EADDRINUSE ? 69 : 78;
    }
    const char *const *addresses;
    size_t count = mt_api_addresses(api, &addresses);
    for (size_t i = 0; i < count; i++)
        printf("%s\n", addresses[i]);
    printf("ready\n");
    fflush(stdout);
    int caught;
    sigwait(&signals, &caught);
    mt_api_stop(api);
    for (size_t i = 0; i < fake.count; i++) {
        free(fake.jobs[i].key);
        free(fake.jobs[i].hash);
        json_decref(fake.jobs[i].object);
    }
    return 0;
}
