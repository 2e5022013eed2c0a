/* probe.c: what of a submitted job only model, data and machine can tell, found out before the job is
 * accepted: its config.json, tokenizer and weights, the beginning of each data file, and whether it can ever
 * fit. Nothing is tokenised, no tensor read. */
#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/data/from_job.h"
#include "core/store/files.h"
#include "core/train/run.h"
#include "daemon/worker/tasks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DOCUMENT_BYTES ((size_t)4 << 20)

static int read_document(const char *job_folder, json_t **document, struct mt_error *error)
{
    mt_autofree char *path = job_folder ? mt_path_join(job_folder, "job.json") : strdup("/dev/stdin");
    mt_autofree char *text = NULL;
    size_t bytes;
    if (!path)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to read the job");
    int result = mt_file_read(path, DOCUMENT_BYTES, &text, &bytes, error);
    return result < 0 ? result : mt_json_parse(text, bytes, "the job", document, error);
}

static int check_model(struct mt_job *job, struct mt_error *error)
{
    struct mt_run run = {.job = job};
    int result = mt_run_open_model(&run, error);
    if (result == 0 && job->model.path)
        result = mt_store_check_files(run.model, job->model.path, error);
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

static int probe(const char *job_folder, json_t *findings, struct mt_error *error)
{
    mt_autojson json_t *document = NULL;
    int result = read_document(job_folder, &document, error);
    if (result < 0)
        return result;
    const struct mt_job_context context = {.purpose = MT_JOB_LOAD};
    struct mt_job_errors errors = {0};
    struct mt_job *job = NULL;
    result = mt_job_parse(document, &context, &job, &errors);
    if (result < 0) {
        mt_autojson json_t *found = mt_job_errors_json(&errors);
        mt_job_errors_free(&errors);
        return found && json_array_extend(findings, found) == 0
                   ? 0
                   : mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to check the job");
    }
    mt_job_errors_free(&errors);
    const bool is_to_come =
        job->model.download && !mt_path_exists(job->model.path); /* the worker fetches it */
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

int mt_worker_probe(const struct mt_worker_options *options)
{
    struct mt_error error = {0};
    mt_autojson json_t *findings = json_array();
    int result = probe(options->job_folder, findings, &error);
    mt_autofree char *text = result == 0 ? json_dumps(findings, JSON_COMPACT) : NULL;
    if (!text) {
        mt_log(LOG_ERR, "%s", result < 0 ? error.message : "no memory for the answer");
        return mt_reason_exit_code(result < 0 ? error.reason : MT_REASON_OUT_OF_MEMORY);
    }
    puts(text);
    return 0;
}
