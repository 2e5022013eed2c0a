/* run.c: from the job document to an engine that is ready to step. */
#include "core/train/run.h"

#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/data/from_job.h"
#include "core/device/open.h"
#include "core/device/trace.h"
#include "core/model/open.h"
#include "core/store/files.h"
#include "core/stream/from_job.h"

#include <stdlib.h>
#include <string.h>

/* --- model --------------------------------------------------------------------------------------------- */

static int open_from_scratch(struct mt_run *run, struct mt_error *error)
{
    mt_autojson json_t *keys = json_copy((json_t *)(uintptr_t)run->job->model.config);
    if (!keys)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for the model's keys");
    if (!json_object_get(keys, "vocab_size"))
        json_object_set_new(keys, "vocab_size",
                            json_integer((json_int_t)mt_tokenizer_vocab_size(run->tokenizer)));
    return mt_model_from_keys(run->job->model.architecture, keys, &run->model, error);
}

const char *mt_run_template_folder(const struct mt_job *job)
{
    const char *tokenizer = job->model.tokenizer;
    return job->model.path                                ? job->model.path
           : tokenizer && strcmp(tokenizer, "bytes") != 0 ? tokenizer
                                                          : NULL;
}

int mt_run_open_model(struct mt_run *run, struct mt_error *error)
{
    const struct mt_job_model *asked = &run->job->model;
    const char *tokenizer = asked->tokenizer ? asked->tokenizer : asked->path;
    int result = mt_tokenizer_load(tokenizer ? tokenizer : "bytes", &run->tokenizer, error);
    if (result < 0)
        return result;
    result = asked->path ? mt_model_open(asked->path, &run->model, error) : open_from_scratch(run, error);
    if (result == 0 && run->job->training.num_freeze > 0)
        result = mt_model_freeze(run->model, run->job->training.freeze, run->job->training.num_freeze, error);
    if (result == 0 && mt_tokenizer_vocab_size(run->tokenizer) > run->model->vocab_size)
        result = mt_error_set(
            error, -EINVAL, MT_REASON_BAD_MODEL,
            "the tokenizer has %zu ids, the model's vocab_size is %zu: raise vocab_size or name the "
            "model's own tokenizer",
            mt_tokenizer_vocab_size(run->tokenizer), run->model->vocab_size);
    if (result == 0)
        result =
            mt_chat_open(run->job->dataset.template, mt_run_template_folder(run->job), &run->chat, error);
    return result;
}

int mt_run_check_weights(struct mt_run *run, struct mt_error *error)
{
    return run->weights || !run->job->model.path
               ? 0
               : mt_store_open_files(run->model, run->job->model.path, &run->weights, error);
}

/* --- data ---------------------------------------------------------------------------------------------- */

static enum mt_schedule_kind schedule_of(enum mt_job_lr_scheduler scheduler)
{
    static const enum mt_schedule_kind kinds[] = {
        [MT_JOB_LR_CONSTANT] = MT_SCHEDULE_CONSTANT,
        [MT_JOB_LR_LINEAR] = MT_SCHEDULE_LINEAR,
        [MT_JOB_LR_COSINE] = MT_SCHEDULE_COSINE,
        [MT_JOB_LR_WSD] = MT_SCHEDULE_WSD,
    };
    return kinds[scheduler];
}

static int open_samplers(struct mt_run *run, struct mt_error *error)
{
    struct mt_sampler_options options = mt_sampler_options_from_job(run->job, false);
    int result = mt_sampler_new(run->dataset, &options, &run->sampler, error);
    if (result < 0 || mt_dataset_stats(run->dataset)->val_sequences == 0)
        return result;
    options = mt_sampler_options_from_job(run->job, true);
    return mt_sampler_new(run->dataset, &options, &run->validation, error);
}

int mt_run_open_data(struct mt_run *run, bool (*should_stop)(void *context), void *context,
                     struct mt_error *error)
{
    const struct mt_job_training *training = &run->job->training;
    struct mt_dataset_options options = mt_dataset_options_from_job(run->job);
    options.tokenizer = run->tokenizer;
    options.chat = run->chat;
    options.pool = run->pool;
    options.max_rows = run->max_rows;
    mt_autofree char *cache_dir = mt_dataset_cache_folder();
    options.cache_dir = cache_dir;
    options.should_stop = should_stop;
    options.context = context;
    int result = mt_dataset_open(&options, &run->dataset, error);
    if (result == 0)
        result = open_samplers(run, error);
    if (result < 0)
        return result;
    run->max_steps = training->max_steps;
    if (run->max_steps == 0) {
        uint64_t steps;
        result = mt_sampler_max_steps(run->sampler, training->num_epochs, &steps, error);
        if (result < 0)
            return result;
        run->max_steps = (size_t)steps;
    }
    run->schedule = (struct mt_schedule){
        .kind = schedule_of(training->lr_scheduler),
        .learning_rate = training->learning_rate,
        .total_updates = run->max_steps,
        .warmup_updates = mt_schedule_warmup(training->warmup_ratio, run->max_steps),
    };
    return 0;
}

/* --- engine -------------------------------------------------------------------------------------------- */

int mt_run_open_engine(struct mt_run *run, bool *settled, struct mt_error *error)
{
    const struct mt_job *job = run->job;
    struct mt_device_options device_options = {
        .pool = run->pool,
        .memory_limit_bytes = job->memory.device_limit_bytes,
        .bus_bytes_per_second = job->memory.bus_gbps * 1e9,
        .bus_latency_seconds = job->memory.bus_latency_us * 1e-6,
        .note = run->note,
        .note_context = run->note_context,
    };
    int result = mt_device_open(job->device, &device_options, &run->device, error);
    if (result < 0)
        return result;
    if (run->trace)
        result = mt_trace_open(run->device, run->trace, run->model->num_layers, &run->device, error);
    if (result < 0)
        return result;
    run->device->api->info(run->device, &run->device_info);
    struct mt_executor_options options = mt_executor_options_from_job(job);
    struct mt_store_options store_options = mt_store_options_from_job(job, &options, &run->device_info);
    store_options.pool = run->pool;
    result = mt_store_new(run->model, run->device, &store_options, &run->store, error);
    if (result < 0)
        return result;
    *settled = options.micro_batch_size == 0;
    result = mt_executor_settle(run->store, run->device, run->pool, &options, job->training.batch_size,
                                mt_memory_available(), &run->executor, error);
    run->checkpoint_interval = options.checkpoint_interval;
    return result == 0 && *settled ? mt_job_set_micro_batch_size(run->job, options.micro_batch_size) : result;
}

int mt_run_init_weights(struct mt_run *run, struct mt_error *error)
{
    if (!run->job->model.path)
        return mt_store_init(run->store, run->job->training.seed, run->pool, error);
    int result = mt_run_check_weights(run, error);
    if (result == 0)
        result = mt_store_load_opened(run->store, run->weights, run->pool, error);
    mt_tensors_close(run->weights);
    run->weights = NULL;
    return result;
}

void mt_run_close(struct mt_run *run)
{
    mt_executor_free(run->executor);
    if (run->store)
        mt_store_free(run->store);
    if (run->device)
        mt_device_close(run->device);
    mt_sampler_free(run->validation);
    mt_sampler_free(run->sampler);
    mt_dataset_free(run->dataset);
    mt_chat_free(run->chat);
    mt_tokenizer_free(run->tokenizer);
    mt_tensors_close(run->weights);
    if (run->model)
        mt_model_free(run->model);
    *run = (struct mt_run){.job = run->job,
                           .pool = run->pool,
                           .trace = run->trace,
                           .note = run->note,
                           .note_context = run->note_context};
}
