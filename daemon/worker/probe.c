/* probe.c: what of a submitted job only model, data and machine can tell, found out before the job is
 * accepted: its config.json, tokenizer and weights, the beginning of each data file, and whether it can ever
 * fit. Nothing is tokenised, no tensor read. */
#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/data/from_job.h"
#include "core/job/model_folder.h"
#include "core/store/files.h"
#include "core/train/run.h"
#include "daemon/worker/question.h"
#include "daemon/worker/tasks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check_model(struct mt_job *job, struct mt_error *error)
{
    struct mt_run run = {.job = job};
    int result = mt_run_open_model(&run, error);
    if (result == 0)
        result = mt_run_check_weights(&run, error);
    mt_run_close(&run);
    return result;
}

/* Whether this machine will ever hold the job, and what of it would fit. */
static int check_fit(const struct mt_job *job, json_t *findings, struct mt_error *error)
{
    struct mt_plan plan;
    int result = mt_worker_plan_job(job, NULL, false, &plan, error);
    if (result < 0 || plan.fits)
        return result;
    char pointer[64] = "/model", suggestion[64];
    if (plan.num_changes > 0) {
        snprintf(pointer, sizeof pointer, "/%s", plan.changes[0].key);
        *strchr(pointer, '.') = '/';
        snprintf(suggestion, sizeof suggestion, "%s", plan.changes[0].value);
    }
    json_t *finding = json_pack("{s:s, s:s}", "pointer", pointer, "detail", plan.problem);
    if (plan.num_changes > 0)
        json_object_set_new(finding, "suggestion", json_string(suggestion));
    json_array_append_new(findings, finding);
    return 0;
}

/* An error of the job becomes a finding; only what is no fault of the job (memory) is an error here. */
static int note(json_t *findings, const struct mt_job *job, const char *pointer, int result,
                struct mt_error *error)
{
    if (result == 0)
        return 0;
    if (error->reason == MT_REASON_BAD_JOB && job->dataset.template)
        pointer = "/dataset/template";
    if (error->reason == MT_REASON_OUT_OF_MEMORY)
        return result;
    json_array_append_new(findings, json_pack("{s:s, s:s}", "pointer", pointer, "detail", error->message));
    *error = (struct mt_error){0};
    return 0;
}

static int answer(const json_t *document, json_t **reply, struct mt_error *error)
{
    json_t *findings = *reply = json_array();
    const struct mt_job_context context = {.purpose = MT_JOB_LOAD};
    struct mt_job_errors errors = {0};
    struct mt_job *job = NULL;
    int result = mt_job_parse(document, &context, &job, &errors);
    if (result < 0) {
        mt_autojson json_t *found = mt_job_errors_json(&errors);
        mt_job_errors_free(&errors);
        return found && json_array_extend(findings, found) == 0
                   ? 0
                   : mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to check the job");
    }
    mt_job_errors_free(&errors);
    const bool is_to_come = job->model.download &&
                            mt_model_is_to_come(job->model.path, job->model.file); /* the worker fetches it */
    if (!is_to_come)
        result =
            note(findings, job, job->model.path ? "/model/path" : "/model", check_model(job, error), error);
    struct mt_dataset_options options = mt_dataset_options_from_job(job);
    options.data_may_come = getenv(MT_WORKER_ALLOW_DOWNLOAD) != NULL;
    if (result == 0)
        result = note(findings, job,
                      options.num_mix ? "/dataset/mix"
                      : options.name  ? "/dataset/name"
                                      : "/dataset/path",
                      mt_dataset_probe(&options, error), error);
    if (result == 0 && json_array_size(findings) == 0 && !is_to_come)
        result = check_fit(job, findings, error);
    mt_job_free(job);
    return result;
}

int mt_worker_probe(void)
{
    return mt_worker_reply(MT_WORKER_STDIN, answer);
}
