/* preview.c: a look at a job's data, for `POST /datasets/preview`. */
#include "core/train/preview.h"

#include "core/base/cleanup.h"
#include "daemon/worker/question.h"
#include "daemon/worker/tasks.h"

#define SHOWN_TOKENS 16384 /* the daemon holds the answer in memory */

static size_t number(const json_t *question, const char *key)
{
    const json_int_t value = json_integer_value(json_object_get(question, key));
    return value > 0 ? (size_t)value : 0;
}

/* What is wrong with data or model, in the form of a job document's errors. */
static json_t *refusal(const struct mt_job *job, const struct mt_error *error)
{
    const char *pointer = "";
    if (error->reason == MT_REASON_BAD_DATA)
        pointer = job->dataset.mix.count ? "/dataset/mix"
                  : job->dataset.name    ? "/dataset/name"
                                         : "/dataset/path";
    else if (error->reason == MT_REASON_BAD_MODEL)
        pointer = job->model.path ? "/model/path" : "/model";
    else if (job->dataset.template)
        pointer = "/dataset/template";
    return json_pack("{s:[{s:s, s:s}]}", "errors", "pointer", pointer, "detail", error->message);
}

static int answer(const json_t *question, json_t **reply, struct mt_error *error)
{
    const struct mt_job_context context = {.purpose = MT_JOB_LOAD};
    const struct mt_preview_options options = {
        .show = number(question, "show"), .max_rows = number(question, "rows"), .max_tokens = SHOWN_TOKENS};
    struct mt_job_errors errors = {0};
    struct mt_job *job = NULL;
    json_t *preview = NULL;
    if (mt_job_parse(json_object_get(question, "job"), &context, &job, &errors) < 0) {
        *reply = json_pack("{s:o}", "errors", mt_job_errors_json(&errors));
        mt_job_errors_free(&errors);
        return 0;
    }
    mt_job_errors_free(&errors);
    struct mt_pool *pool = mt_pool_new(0);
    const int r = pool ? mt_preview_make(job, &options, pool, &preview, error)
                       : mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for threads");
    mt_pool_free(pool);
    const bool theirs = error->reason == MT_REASON_BAD_DATA || error->reason == MT_REASON_BAD_MODEL ||
                        error->reason == MT_REASON_BAD_JOB;
    if (r == 0)
        *reply = json_pack("{s:o}", "preview", preview);
    else if (theirs)
        *reply = refusal(job, error);
    mt_job_free(job);
    return theirs ? 0 : r;
}

int mt_worker_preview(void)
{
    return mt_worker_reply(MT_WORKER_STDIN, answer);
}
