#include "core/stream/from_job.h"

#include "core/base/size.h"
#include "core/device/open.h"
#include "core/device/paper.h"

#include <string.h>

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

struct mt_executor_options mt_executor_options_from_job(const struct mt_job *job)
{
    return (struct mt_executor_options){
        .micro_batch_size = job->training.micro_batch_size,
        .max_sequences = job->training.batch_size * job->training.gradient_accumulation_steps,
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

struct mt_store_options mt_store_options_from_job(const struct mt_job *job,
                                                  const struct mt_executor_options *options,
                                                  const struct mt_device_info *device)
{
    const bool bf16 = job->model.dtype == MT_JOB_DTYPE_BFLOAT16 ||
                      (job->model.dtype == MT_JOB_DTYPE_AUTO && strncmp(device->kind, "cuda", 4) == 0);
    return (struct mt_store_options){
        .compute_dtype = bf16 ? MT_BF16 : MT_F32,
        .no_gradients = mt_executor_updates_in_backward(options),
    };
}

/* With checkpoint_interval lowered until the device has room: it changes no bit, and fewer sequences at a
 * time would. */
static int make_lowered(struct mt_store *store, struct mt_device *device, struct mt_pool *pool,
                        struct mt_executor_options *options, struct mt_executor **executor,
                        struct mt_error *error)
{
    const size_t asked = options->checkpoint_interval;
    options->checkpoint_interval = mt_size_min(asked, mt_store_model(store)->num_layers);
    for (;; options->checkpoint_interval /= 2) {
        struct mt_error failure = {0};
        const int r = mt_executor_new(store, device, pool, options, executor, &failure);
        if (r < 0 && failure.reason == MT_REASON_OUT_OF_MEMORY && options->checkpoint_interval > 1)
            continue;
        if (r < 0 && error)
            *error = failure;
        if (r < 0 || options->checkpoint_interval == mt_store_model(store)->num_layers)
            options->checkpoint_interval = asked; /* larger ones are the same */
        return r;
    }
}

/* Whether an executor with these options leaves half of `available_bytes` of host memory alone. */
static bool is_modest(const struct mt_executor *executor, struct mt_device *device, size_t available_bytes)
{
    struct mt_executor_memory memory;
    struct mt_device_info info;
    device->api->info(device, &info);
    mt_executor_memory(executor, &memory);
    return memory.host.total + (info.host_memory ? memory.device.total : 0) <= available_bytes / 2;
}

/* The largest of options->micro_batch_size, half of it rounded up and so on with which an executor can be
 * made and is modest, or 1, with the executor. */
static int make_smaller(struct mt_store *store, struct mt_device *device, struct mt_pool *pool,
                        struct mt_executor_options *options, size_t available_bytes,
                        struct mt_executor **executor, struct mt_error *error)
{
    const size_t interval = options->checkpoint_interval;
    for (;; options->micro_batch_size = mt_size_ceil_div(options->micro_batch_size, 2)) {
        struct mt_error failure = {0};
        const bool least = options->micro_batch_size == 1;
        options->checkpoint_interval = interval;
        int r = make_lowered(store, device, pool, options, executor, &failure);
        if (r < 0 && (least || failure.reason != MT_REASON_OUT_OF_MEMORY)) {
            if (error)
                *error = failure;
            return r;
        }
        if (r == 0 && (least || is_modest(*executor, device, available_bytes)))
            return 0;
        if (r == 0)
            mt_executor_free(*executor);
        *executor = NULL;
    }
}

/* The same on paper: no device is filled to be emptied again. What does not come out well there is left to
 * the device itself. */
static void settle_on_paper(struct mt_store *store, struct mt_device *device,
                            struct mt_executor_options *options, size_t available_bytes)
{
    struct mt_device *paper;
    struct mt_executor *executor;
    struct mt_executor_options tried = *options;
    if (mt_paper_device_open(device, &paper, NULL) < 0)
        return;
    if (make_smaller(store, paper, NULL, &tried, available_bytes, &executor, NULL) == 0) {
        options->micro_batch_size = tried.micro_batch_size;
        mt_executor_free(executor);
    }
    mt_device_close(paper);
}

int mt_executor_settle(struct mt_store *store, struct mt_device *device, struct mt_pool *pool,
                       struct mt_executor_options *options, size_t most, size_t available_bytes,
                       struct mt_executor **executor, struct mt_error *error)
{
    struct mt_device_info info;
    if (options->micro_batch_size)
        return make_lowered(store, device, pool, options, executor, error);
    device->api->info(device, &info);
    options->micro_batch_size = most;
    if (!info.simulated)
        settle_on_paper(store, device, options, available_bytes);
    return make_smaller(store, device, pool, options, available_bytes, executor, error);
}
