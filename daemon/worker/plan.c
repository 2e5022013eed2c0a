/* plan.c: answers what a job would take, for `POST /plan` and for the look at a submitted job. Nothing is
 * read but config.json, and no memory is taken. */
#include "core/plan/plan.h"

#include "core/base/cleanup.h"
#include "core/plan/preset.h"
#include "daemon/worker/question.h"
#include "daemon/worker/tasks.h"

#include <stdlib.h>
#include <string.h>

int mt_worker_plan_job(const struct mt_job *job, const json_t *machine, bool measure, struct mt_plan *plan,
                       struct mt_error *error)
{
    mt_autofree char *presets = mt_preset_folder();
    struct mt_plan_wish wish;
    struct mt_plan_machine planned;
    int r = mt_plan_wish_from_json(machine, &wish, error);
    r = r ? r : mt_plan_machine_choose(job, &wish, measure, &planned, error);
    return r ? r : mt_plan_make(job, &planned, presets, plan, error);
}

/* What is wrong with the question, in the form of a job document's errors. */
static json_t *refusal(const char *pointer, const char *sentence)
{
    return json_pack("{s:[{s:s, s:s}]}", "errors", "pointer", pointer, "detail", sentence);
}

static int answer(const json_t *question, json_t **reply, struct mt_error *error)
{
    const struct mt_job_context context = {.purpose = MT_JOB_PLAN, .default_name = "plan"};
    struct mt_job_errors errors = {0};
    struct mt_job *job = NULL;
    struct mt_plan plan;
    int r = mt_job_parse(json_object_get(question, "job"), &context, &job, &errors);
    if (r < 0) {
        mt_autojson json_t *found = mt_job_errors_json(&errors);
        mt_job_errors_free(&errors);
        *reply = json_pack("{s:O}", "errors", found);
        return 0;
    }
    mt_job_errors_free(&errors);
    r = mt_worker_plan_job(job, json_object_get(question, "machine"), true, &plan, error);
    const bool by_name = job->model.name != NULL, by_path = job->model.path != NULL;
    mt_job_free(job);
    if (r == 0)
        *reply = json_pack("{s:o}", "plan", mt_plan_json(&plan));
    else if (error->reason == MT_REASON_USAGE)
        *reply = json_pack("{s:s}", "usage", error->message);
    else if (error->reason == MT_REASON_BAD_MODEL)
        *reply = refusal(by_name ? "/model/name" : by_path ? "/model/path" : "/model", error->message);
    else if (error->reason == MT_REASON_BAD_JOB)
        *reply = refusal("", error->message);
    else
        return r;
    return 0;
}

int mt_worker_plan(void)
{
    return mt_worker_reply(MT_WORKER_STDIN, answer);
}
