/* run.c: from the job document to an engine that is ready to step. */
#include "core/train/run.h"

#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/file.h"
#include "core/base/size.h"
#include "core/data/from_job.h"
#include "core/device/open.h"
#include "core/formats/safetensors.h"
#include "core/store/files.h"

#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

/* --- model --------------------------------------------------------------------------------------------- */

static int read_config(const char *folder, json_t **config, struct mt_error *error)
{
    mt_autofree char *path = mt_path_join(folder, "config.json");
    return path ? mt_json_read(path, MT_REASON_BAD_MODEL, config, error)
                : mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to read config.json");
}

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

int mt_run_open_model(struct mt_run *run, struct mt_error *error)
{
    const struct mt_job_model *asked = &run->job->model;
    const char *tokenizer = asked->tokenizer ? asked->tokenizer : asked->path;
    int result = mt_tokenizer_load(tokenizer ? tokenizer : "bytes", &run->tokenizer, error);
    if (result < 0)
        return result;
    if (asked->path) {
        mt_autojson json_t *config = NULL;
        result = read_config(asked->path, &config, error);
        if (result == 0)
            result = mt_model_from_config(config, &run->model, error);
    } else {
        result = open_from_scratch(run, error);
    }
    if (result == 0 && run->job->training.num_freeze > 0)
        result = mt_model_freeze(run->model, run->job->training.freeze, run->job->training.num_freeze, error);
    if (result == 0 && mt_tokenizer_vocab_size(run->tokenizer) > run->model->vocab_size)
        result = mt_error_set(
            error, -EINVAL, MT_REASON_BAD_MODEL,
            "the tokenizer has %zu ids, the model's vocab_size is %zu: raise vocab_size or name the "
            "model's own tokenizer",
            mt_tokenizer_vocab_size(run->tokenizer), run->model->vocab_size);
    if (result == 0)
        result = mt_chat_open(NULL, asked->path, &run->chat, error);
    return result;
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
    const struct mt_job_training *training = &run->job->training;
    struct mt_sampler_options options = {.sequences_per_step =
                                             training->batch_size * training->gradient_accumulation_steps};
    int result = mt_sampler_new(run->dataset, &options, &run->sampler, error);
    if (result < 0 || mt_dataset_stats(run->dataset)->val_sequences == 0)
        return result;
    options = (struct mt_sampler_options){.validation = true, .sequences_per_step = training->batch_size};
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

static enum mt_choice offload_choice(enum mt_job_offload offload)
{
    static const enum mt_choice choices[] = {[MT_JOB_OFFLOAD_AUTO] = MT_CHOICE_AUTO,
                                             [MT_JOB_OFFLOAD_ON] = MT_CHOICE_ON,
                                             [MT_JOB_OFFLOAD_OFF] = MT_CHOICE_OFF};
    return choices[offload];
}

static enum mt_choice recompute_choice(enum mt_job_recompute recompute)
{
    static const enum mt_choice choices[] = {[MT_JOB_RECOMPUTE_AUTO] = MT_CHOICE_AUTO,
                                             [MT_JOB_RECOMPUTE_ALWAYS] = MT_CHOICE_ON,
                                             [MT_JOB_RECOMPUTE_NEVER] = MT_CHOICE_OFF};
    return choices[recompute];
}

static struct mt_executor_options executor_options(const struct mt_run *run)
{
    const struct mt_job *job = run->job;
    size_t sequences = job->training.batch_size * job->training.gradient_accumulation_steps;
    return (struct mt_executor_options){
        .micro_batch_size = job->training.micro_batch_size,
        .max_sequences = sequences,
        .max_sequence_tokens = job->dataset.max_seq_len,
        .checkpoint_interval = job->memory.checkpoint_interval,
        .num_grad_slabs = job->memory.num_grad_slabs,
        .activation_offload = offload_choice(job->memory.activation_offload),
        .recompute = recompute_choice(job->memory.recompute),
        .max_grad_norm = job->training.max_grad_norm,
        .max_skipped_steps = job->training.max_skipped_steps,
        .adamw = {.beta1 = job->optimizer.beta1,
                  .beta2 = job->optimizer.beta2,
                  .eps = job->optimizer.eps,
                  .weight_decay = job->training.weight_decay},
    };
}

/* Host memory that an allocation may still take without driving the machine into swap. */
static size_t available_bytes(void)
{
    mt_autofile FILE *file = fopen("/proc/meminfo", "re");
    char line[256];
    size_t kilobytes;
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "MemAvailable: %zu kB", &kilobytes) == 1)
            return kilobytes * 1024;
    }
    struct sysinfo info;
    return sysinfo(&info) == 0 ? (size_t)info.freeram * info.mem_unit : SIZE_MAX;
}

/* The largest micro-batch whose executor can be made and leaves half of the free host memory alone. */
static int settle_micro_batch_size(struct mt_run *run, struct mt_executor_options *options,
                                   struct mt_error *error)
{
    size_t available = available_bytes();
    for (size_t size = run->job->training.batch_size;; size = mt_size_ceil_div(size, 2)) {
        options->micro_batch_size = size;
        int result = mt_executor_new(run->store, run->device, run->pool, options, &run->executor, error);
        if (result < 0 && (size == 1 || !error || error->reason != MT_REASON_OUT_OF_MEMORY))
            return result;
        struct mt_executor_memory memory = {0};
        if (result == 0) {
            mt_executor_memory(run->executor, &memory);
            size_t host = memory.host.total + (run->device_info.host_memory ? memory.device.total : 0);
            if (size == 1 || host <= available / 2)
                return mt_job_set_micro_batch_size(run->job, size);
            mt_executor_free(run->executor);
            run->executor = NULL;
        }
    }
}

int mt_run_open_engine(struct mt_run *run, bool *settled, struct mt_error *error)
{
    const struct mt_job *job = run->job;
    struct mt_device_options device_options = {
        .pool = run->pool,
        .memory_limit_bytes = job->memory.device_limit_bytes,
        .bus_bytes_per_second = job->memory.bus_gbps * 1e9,
        .bus_latency_seconds = job->memory.bus_latency_us * 1e-6,
    };
    int result = mt_device_open(job->device, &device_options, &run->device, error);
    if (result < 0)
        return result;
    run->device->api->info(run->device, &run->device_info);
    struct mt_executor_options options = executor_options(run);
    bool bf16 = job->model.dtype == MT_JOB_DTYPE_BFLOAT16 ||
                (job->model.dtype == MT_JOB_DTYPE_AUTO && strncmp(run->device_info.kind, "cuda", 4) == 0);
    struct mt_store_options store_options = {
        .compute_dtype = bf16 ? MT_BF16 : MT_F32,
        .no_gradients = mt_executor_updates_in_backward(&options),
    };
    result = mt_store_new(run->model, run->device, &store_options, &run->store, error);
    if (result < 0)
        return result;
    *settled = job->training.micro_batch_size == 0;
    if (*settled)
        return settle_micro_batch_size(run, &options, error);
    return mt_executor_new(run->store, run->device, run->pool, &options, &run->executor, error);
}

int mt_run_init_weights(struct mt_run *run, struct mt_error *error)
{
    if (!run->job->model.path)
        return mt_store_init(run->store, run->job->training.seed, run->pool, error);
    struct mt_safetensors *file;
    int result = mt_safetensors_open(run->job->model.path, &file, error);
    if (result < 0)
        return result;
    result = mt_store_load_weights(run->store, file, run->pool, error);
    mt_safetensors_close(file);
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
    if (run->model)
        mt_model_free(run->model);
    *run = (struct mt_run){.job = run->job, .pool = run->pool};
}
