/* plan.c: `POST /plan`. A worker makes the plan; here its document is checked as a submitted one is, but that
 * nothing need be on this machine. */
#include "core/base/cleanup.h"
#include "core/job/job.h"
#include "daemon/megatraind/ask.h"
#include "daemon/megatraind/control.h"

static enum mt_control_result ask(const struct mt_daemon *daemon, const struct mt_job *job,
                                  const json_t *machine, json_t **plan, json_t **errors,
                                  struct mt_error *error)
{
    mt_autojson json_t *question = json_pack("{s:O, s:O?}", "job", mt_job_frozen(job), "machine", machine);
    mt_autojson json_t *reply = NULL;
    if (!question ||
        mt_ask_worker(daemon->worker_program, "plan", question, MT_ASK_SECONDS, &reply, error) < 0)
        return MT_CONTROL_FAILED;
    *plan = json_incref(json_object_get(reply, "plan"));
    *errors = json_incref(json_object_get(reply, "errors"));
    const char *usage = json_string_value(json_object_get(reply, "usage"));
    if (json_is_object(*plan))
        return MT_CONTROL_OK;
    if (usage) {
        mt_error_set(error, -EINVAL, MT_REASON_USAGE, "%s", usage);
        return MT_CONTROL_BAD_CURSOR;
    }
    if (json_is_array(*errors)) {
        mt_error_set(error, -EINVAL, MT_REASON_BAD_JOB, "the job cannot be planned: %s",
                     json_string_value(json_object_get(json_array_get(*errors, 0), "detail")));
        return MT_CONTROL_INVALID;
    }
    mt_error_set(error, -EBADMSG, MT_REASON_INTERNAL, "the worker's answer has another form");
    return MT_CONTROL_FAILED;
}

enum mt_control_result mt_plan(void *context, const json_t *document, const json_t *machine, json_t **plan,
                               json_t **errors, struct mt_error *error)
{
    const struct mt_daemon *daemon = context;
    struct mt_job_errors found = {0};
    struct mt_job *job = NULL;
    *plan = *errors = NULL;
    if (mt_control_parse(daemon, document, MT_JOB_PLAN, &job, &found) < 0)
        return mt_control_refuse(&found, errors, error);
    mt_job_errors_free(&found);
    enum mt_control_result result = ask(daemon, job, machine, plan, errors, error);
    mt_job_free(job);
    return result;
}
