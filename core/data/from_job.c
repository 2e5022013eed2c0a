#include "core/data/from_job.h"

static enum mt_overlong overlong(enum mt_job_overlong value)
{
    switch (value) {
    case MT_JOB_OVERLONG_DROP:
        return MT_OVERLONG_DROP;
    case MT_JOB_OVERLONG_ERROR:
        return MT_OVERLONG_ERROR;
    case MT_JOB_OVERLONG_TRUNCATE:
        break;
    }
    return MT_OVERLONG_TRUNCATE;
}

struct mt_dataset_options mt_dataset_options_from_job(const struct mt_job *job)
{
    const struct mt_job_dataset *dataset = &job->dataset;
    return (struct mt_dataset_options){
        .paths = dataset->paths,
        .num_paths = dataset->num_paths,
        .name = dataset->name,
        .dataset_dir = dataset->dataset_dir,
        .columns = {.prompt = dataset->columns.prompt, .response = dataset->columns.response},
        .max_seq_len = dataset->max_seq_len,
        .packing = dataset->packing,
        .overlong = overlong(dataset->overlong),
        .train_on_prompt = dataset->train_on_prompt || job->method == MT_JOB_PRETRAIN,
        .val_size = dataset->val_size,
        .seed = job->training.seed,
    };
}

struct mt_sampler_options mt_sampler_options_from_job(const struct mt_job *job, bool validation)
{
    return (struct mt_sampler_options){
        .validation = validation,
        .sequences_per_step = job->training.batch_size * job->training.gradient_accumulation_steps,
    };
}
