#include "core/data/from_job.h"

static struct mt_columns columns_of(const struct mt_job_dataset *dataset)
{
    const struct mt_job_columns *columns = &dataset->columns;
    return (struct mt_columns){
        .prompt = columns->prompt,
        .query = columns->query,
        .response = columns->response,
        .system = columns->system,
        .history = columns->history,
        .text = columns->text,
        .messages = columns->messages,
        .tools = columns->tools,
        .formatting = dataset->formatting,
        .tags = dataset->tags,
        .preference = columns->chosen || columns->rejected ? MT_PREFERENCE_RANKING : MT_PREFERENCE_NONE,
    };
}

struct mt_dataset_options mt_dataset_options_from_job(const struct mt_job *job)
{
    const struct mt_job_dataset *dataset = &job->dataset;
    return (struct mt_dataset_options){
        .paths = dataset->paths,
        .num_paths = dataset->num_paths,
        .name = dataset->name,
        .dataset_dir = dataset->dataset_dir,
        .mix = dataset->mix.parts,
        .num_mix = dataset->mix.count,
        .mix_strategy = dataset->mix_strategy,
        .columns = columns_of(dataset),
        .max_seq_len = dataset->max_seq_len,
        .packing = dataset->packing,
        .overlong = dataset->overlong,
        .train_on_prompt = dataset->train_on_prompt || job->method == MT_JOB_PRETRAIN,
        .val_size = dataset->val_size,
        .seed = job->training.seed,
    };
}

struct mt_sampler_options mt_sampler_options_from_job(const struct mt_job *job, bool validation)
{
    return (struct mt_sampler_options){
        .validation = validation,
        .group_by_length = job->dataset.group_by_length,
        .sequences_per_step = job->training.batch_size * job->training.gradient_accumulation_steps,
    };
}
