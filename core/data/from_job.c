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

static enum mt_formatting formatting(enum mt_job_formatting value)
{
    switch (value) {
    case MT_JOB_FORMATTING_ALPACA:
        return MT_FORMATTING_ALPACA;
    case MT_JOB_FORMATTING_SHAREGPT:
        return MT_FORMATTING_SHAREGPT;
    case MT_JOB_FORMATTING_OPENAI:
        return MT_FORMATTING_OPENAI;
    case MT_JOB_FORMATTING_OPEN:
        break;
    }
    return MT_FORMATTING_OPEN;
}

static struct mt_columns columns_of(const struct mt_job_dataset *dataset)
{
    const struct mt_job_columns *columns = &dataset->columns;
    const struct mt_job_tags *tags = &dataset->tags;
    const bool ranking = columns->chosen || columns->rejected;
    return (struct mt_columns){
        .prompt = columns->prompt,
        .query = columns->query,
        .response = columns->response,
        .system = columns->system,
        .history = columns->history,
        .text = columns->text,
        .messages = columns->messages,
        .tools = columns->tools,
        .chosen = columns->chosen ? columns->chosen
                  : ranking       ? "chosen"
                                  : NULL,
        .rejected = columns->rejected ? columns->rejected
                    : ranking         ? "rejected"
                                      : NULL,
        .formatting = formatting(dataset->formatting),
        .tags = {.role = tags->role,
                 .content = tags->content,
                 .user = tags->user,
                 .assistant = tags->assistant,
                 .observation = tags->observation,
                 .function = tags->function,
                 .system = tags->system},
        .ranking = ranking,
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
        .group_by_length = job->dataset.group_by_length,
        .sequences_per_step = job->training.batch_size * job->training.gradient_accumulation_steps,
    };
}
