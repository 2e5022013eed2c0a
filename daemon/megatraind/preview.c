/* preview.c: `POST /datasets/preview`. A worker reads the data; here its document is checked as a submitted
 * one is. */
#include "core/base/cleanup.h"
#include "core/job/job.h"
#include "daemon/megatraind/ask.h"
#include "daemon/megatraind/control.h"

#include <pthread.h>

/* Reading rows takes longer than reading a config. A thread of the API waits, so there is one at a time. */
#define PREVIEW_SECONDS 20.0

static pthread_mutex_t under_way = PTHREAD_MUTEX_INITIALIZER;

static enum mt_control_result ask(const struct mt_daemon *daemon, const struct mt_job *job,
                                  const struct mt_control_preview *wish, json_t **preview, json_t **errors,
                                  struct mt_error *error)
{
    mt_autojson json_t *question = json_pack("{s:O, s:I, s:I}", "job", mt_job_frozen(job), "show",
                                             (json_int_t)wish->show, "rows", (json_int_t)wish->rows);
    mt_autojson json_t *reply = NULL;
    if (!question ||
        mt_ask_worker(daemon->worker_program, "preview", question, PREVIEW_SECONDS, &reply, error) < 0)
        return MT_CONTROL_FAILED;
    *preview = json_incref(json_object_get(reply, "preview"));
    *errors = json_incref(json_object_get(reply, "errors"));
    if (json_is_object(*preview))
        return MT_CONTROL_OK;
    if (json_is_array(*errors)) {
        mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA, "the data cannot be shown: %s",
                     json_string_value(json_object_get(json_array_get(*errors, 0), "detail")));
        return MT_CONTROL_INVALID;
    }
    mt_error_set(error, -EBADMSG, MT_REASON_INTERNAL, "the worker's answer has another form");
    return MT_CONTROL_FAILED;
}

enum mt_control_result mt_preview(void *context, const json_t *document,
                                  const struct mt_control_preview *wish, json_t **preview, json_t **errors,
                                  struct mt_error *error)
{
    const struct mt_daemon *daemon = context;
    struct mt_job_errors found = {0};
    struct mt_job *job = NULL;
    *preview = *errors = NULL;
    if (mt_control_parse(daemon, document, MT_JOB_RUN, &job, &found) < 0)
        return mt_control_refuse(&found, errors, error);
    mt_job_errors_free(&found);
    enum mt_control_result result = MT_CONTROL_UNAVAILABLE;
    if (pthread_mutex_trylock(&under_way) == 0) {
        result = ask(daemon, job, wish, preview, errors, error);
        pthread_mutex_unlock(&under_way);
    } else {
        mt_error_set(error, -EBUSY, MT_REASON_INTERNAL, "another look at data is under way");
    }
    mt_job_free(job);
    return result;
}
