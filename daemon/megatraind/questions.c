/* questions.c: `POST /plan`, `POST /datasets/preview`, `GET /devices` and `GET /models`. A short-lived worker
 * answers each; a job document is checked here as a submitted one is. */
#include "core/base/cleanup.h"
#include "core/base/time.h"
#include "core/job/job.h"
#include "daemon/megatraind/ask.h"
#include "daemon/megatraind/control.h"

#include <pthread.h>

#define PREVIEW_SECONDS 20.0 /* rows of data, with their tokens */
#define DEVICES_SECONDS 15.0 /* a driver that sets itself up */
#define MODELS_SECONDS 20.0  /* headers of many files on a slow disk */

/* Each look at devices sets every driver up, for a picture that is as old as that takes. */
#define DEVICES_FRESH_SECONDS 2.0

/* What the worker's reply says: *answer gets its member `name`, *errors and `error` what is wrong with the
 * document or, as a usage, with the question; `about` begins the sentence. */
static enum mt_control_result read_reply(const json_t *reply, const char *name, const char *about,
                                         json_t **answer, json_t **errors, struct mt_error *error)
{
    const char *usage = json_string_value(json_object_get(reply, "usage"));
    *answer = json_incref(json_object_get(reply, name));
    *errors = json_incref(json_object_get(reply, "errors"));
    if (json_is_object(*answer))
        return MT_CONTROL_OK;
    if (usage) {
        mt_error_set(error, -EINVAL, MT_REASON_USAGE, "%s", usage);
        return MT_CONTROL_BAD_CURSOR;
    }
    const char *detail = json_string_value(json_object_get(json_array_get(*errors, 0), "detail"));
    if (detail) {
        mt_error_set(error, -EINVAL, MT_REASON_BAD_JOB, "%s: %s", about, detail);
        return MT_CONTROL_INVALID;
    }
    mt_error_set(error, -EBADMSG, MT_REASON_INTERNAL, "the worker's answer has another form");
    return MT_CONTROL_FAILED;
}

/* The document as the worker gets it, in *job. */
static enum mt_control_result parse(const struct mt_daemon *daemon, const json_t *document,
                                    enum mt_job_purpose purpose, json_t **job, json_t **errors,
                                    struct mt_error *error)
{
    struct mt_job_errors found = {0};
    struct mt_job *parsed = NULL;
    if (mt_control_parse(daemon, document, purpose, &parsed, &found) < 0)
        return mt_control_refuse(&found, errors, error);
    mt_job_errors_free(&found);
    *job = json_incref((json_t *)(uintptr_t)mt_job_frozen(parsed));
    mt_job_free(parsed);
    return MT_CONTROL_OK;
}

enum mt_control_result mt_plan(void *context, const json_t *document, const json_t *machine,
                               const struct mt_control_client *client, json_t **plan, json_t **errors,
                               struct mt_error *error)
{
    const struct mt_daemon *daemon = context;
    mt_autojson json_t *job = NULL, *reply = NULL;
    *plan = *errors = NULL;
    enum mt_control_result result = parse(daemon, document, MT_JOB_PLAN, &job, errors, error);
    if (result != MT_CONTROL_OK)
        return result;
    mt_autojson json_t *question = json_pack("{s:O, s:O?}", "job", job, "machine", machine);
    result =
        mt_ask_for_client(daemon->worker_program, "plan", question, MT_ASK_SECONDS, client, &reply, error);
    return result != MT_CONTROL_OK
               ? result
               : read_reply(reply, "plan", "the job cannot be planned", plan, errors, error);
}

enum mt_control_result mt_preview(void *context, const json_t *document,
                                  const struct mt_control_preview *wish,
                                  const struct mt_control_client *client, json_t **preview, json_t **errors,
                                  struct mt_error *error)
{
    const struct mt_daemon *daemon = context;
    mt_autojson json_t *job = NULL, *reply = NULL;
    *preview = *errors = NULL;
    enum mt_control_result result = parse(daemon, document, MT_JOB_RUN, &job, errors, error);
    if (result != MT_CONTROL_OK)
        return result;
    mt_autojson json_t *question = json_pack("{s:O, s:I, s:I}", "job", job, "show", (json_int_t)wish->show,
                                             "rows", (json_int_t)wish->rows);
    result = mt_ask_for_client(daemon->worker_program, "preview", question, PREVIEW_SECONDS, client, &reply,
                               error);
    return result != MT_CONTROL_OK
               ? result
               : read_reply(reply, "preview", "the data cannot be shown", preview, errors, error);
}

/* An answer that is a list. */
static enum mt_control_result ask_for_list(const struct mt_daemon *daemon, const char *task,
                                           const json_t *question, double seconds,
                                           const struct mt_control_client *client, json_t **list,
                                           struct mt_error *error)
{
    const enum mt_control_result result =
        mt_ask_for_client(daemon->worker_program, task, question, seconds, client, list, error);
    if (result != MT_CONTROL_OK || json_is_array(json_object_get(*list, "data")))
        return result;
    json_decref(*list);
    *list = NULL;
    mt_error_set(error, -EBADMSG, MT_REASON_INTERNAL, "the worker's answer has another form");
    return MT_CONTROL_FAILED;
}

enum mt_control_result mt_devices(void *context, const struct mt_control_client *client, json_t **devices,
                                  struct mt_error *error)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static char *last; /* as text: values are not shared between threads */
    static double fresh_until;
    const struct mt_daemon *daemon = context;
    pthread_mutex_lock(&lock);
    *devices = last && mt_time_monotonic() < fresh_until ? json_loads(last, 0, NULL) : NULL;
    pthread_mutex_unlock(&lock);
    if (*devices)
        return MT_CONTROL_OK;
    mt_autojson json_t *question = json_object();
    const enum mt_control_result result =
        ask_for_list(daemon, "devices", question, DEVICES_SECONDS, client, devices, error);
    if (result == MT_CONTROL_OK) {
        pthread_mutex_lock(&lock);
        free(last);
        last = json_dumps(*devices, JSON_COMPACT | JSON_REAL_PRECISION(17));
        fresh_until = mt_time_monotonic() + DEVICES_FRESH_SECONDS;
        pthread_mutex_unlock(&lock);
    }
    return result;
}

enum mt_control_result mt_models(void *context, const struct mt_control_client *client, json_t **models,
                                 struct mt_error *error)
{
    const struct mt_daemon *daemon = context;
    mt_autojson json_t *question = json_pack("{s:s}", "models_folder", daemon->models_folder);
    return ask_for_list(daemon, "models", question, MODELS_SECONDS, client, models, error);
}
