/* preview.c: a look at a job's data, for `POST /datasets/preview`. */
#include "core/train/preview.h"

#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "daemon/worker/tasks.h"

#include <stdio.h>
#include <stdlib.h>

#define QUESTION_BYTES ((size_t)4 << 20)
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

static int answer(const json_t *question, struct mt_pool *pool, json_t **reply, struct mt_error *error)
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
    int r = mt_preview_make(job, &options, pool, &preview, error);
    const bool theirs = error->reason == MT_REASON_BAD_DATA || error->reason == MT_REASON_BAD_MODEL ||
                        error->reason == MT_REASON_BAD_JOB;
    if (r == 0)
        *reply = json_pack("{s:o}", "preview", preview);
    else if (theirs)
        *reply = refusal(job, error);
    mt_job_free(job);
    if (r < 0 && !theirs)
        return r;
    return *reply ? 0 : mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for the answer");
}

int mt_worker_preview(void)
{
    struct mt_error error = {0};
    mt_autojson json_t *question = NULL, *reply = NULL;
    mt_autofree char *text = NULL;
    size_t bytes;
    int r = mt_file_read("/dev/stdin", QUESTION_BYTES, &text, &bytes, &error);
    r = r < 0 ? r : mt_json_parse(text, bytes, "the question", &question, &error);
    if (r == 0) {
        struct mt_pool *pool = mt_pool_new(0);
        r = answer(question, pool, &reply, &error);
        mt_pool_free(pool);
    }
    mt_autofree char *said = r == 0 ? json_dumps(reply, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    if (!said) {
        mt_log(LOG_ERR, "%s", r < 0 ? error.message : "no memory for the answer");
        return mt_reason_exit_code(r < 0 ? error.reason : MT_REASON_OUT_OF_MEMORY);
    }
    puts(said);
    return 0;
}
