#include "core/plan/plan.h"

#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/file.h"
#include "core/base/size.h"
#include "core/device/open.h"
#include "core/model/open.h"
#include "core/plan/device.h"
#include "core/plan/preset.h"
#include "core/store/files.h"
#include "core/stream/from_job.h"
#include "core/text/tokenizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRY(call)                                                                                            \
    do {                                                                                                     \
        int try_result = (call);                                                                             \
        if (try_result)                                                                                      \
            return try_result;                                                                               \
    } while (0)

/* ---- the model ---- */

static int model_of_preset(const char *presets, const char *name, struct mt_model **model,
                           struct mt_error *error)
{
    mt_autojson json_t *preset = NULL;
    TRY(mt_preset_find(presets, name, &preset, error));
    return mt_model_from_config(json_object_get(preset, "config"), model, error);
}

/* vocab_size is the tokenizer's where the job does not say. */
static int model_from_scratch(const struct mt_job *job, struct mt_model **model, struct mt_error *error)
{
    mt_autojson json_t *keys = json_copy((json_t *)(uintptr_t)job->model.config);
    if (!keys)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for the model's keys");
    if (!json_object_get(keys, "vocab_size")) {
        struct mt_tokenizer *tokenizer = NULL;
        TRY(mt_tokenizer_load(job->model.tokenizer ? job->model.tokenizer : "bytes", &tokenizer, error));
        json_object_set_new(keys, "vocab_size", json_integer((json_int_t)mt_tokenizer_vocab_size(tokenizer)));
        mt_tokenizer_free(tokenizer);
    }
    return mt_model_from_keys(job->model.architecture, keys, model, error);
}

static int open_model(const struct mt_job *job, const char *presets, struct mt_model **model,
                      struct mt_error *error)
{
    if (job->model.path)
        TRY(mt_model_open(job->model.path, model, error));
    else if (job->model.name)
        TRY(model_of_preset(presets, job->model.name, model, error));
    else
        TRY(model_from_scratch(job, model, error));
    return job->training.num_freeze
               ? mt_model_freeze(*model, job->training.freeze, job->training.num_freeze, error)
               : 0;
}

/* ---- what a plan stands on ---- */

struct planning {
    const struct mt_job *job;
    struct mt_model *model;
    struct mt_device *device;
    struct mt_store *store;
    struct mt_executor *executor;
    struct mt_executor_options options; /* micro_batch_size settled */
    struct mt_plan *plan;
    bool host_is_hopeless; /* whatever is saved: only the device is looked at */
};

static void close_planning(struct planning *planning)
{
    mt_executor_free(planning->executor);
    mt_store_free(planning->store);
    mt_device_close(planning->device);
    if (planning->model)
        mt_model_free(planning->model);
}

static size_t host_bytes(const struct planning *planning, const struct mt_executor_memory *memory)
{
    return planning->plan->store.total + memory->host.total +
           (planning->plan->machine.borrows_memory ? memory->device.total : 0);
}

/* Whether an executor with these options, or a lower checkpoint_interval, can be made, on the device and on
 * the host. */
static bool can(struct planning *planning, const struct mt_executor_options *wanted)
{
    struct mt_executor *executor;
    struct mt_executor_options options = *wanted;
    if (mt_executor_settle(planning->store, planning->device, NULL, &options, 0, 0, &executor, NULL) < 0)
        return false;
    struct mt_executor_memory memory;
    mt_executor_memory(executor, &memory);
    mt_executor_free(executor);
    return planning->host_is_hopeless || host_bytes(planning, &memory) <= planning->plan->machine.host_bytes;
}

static bool can_with_size(struct planning *planning, struct mt_executor_options options, size_t size)
{
    options.micro_batch_size = size;
    return can(planning, &options);
}

/* The largest number of sequences that can run through a layer at a time; 0: none. */
static size_t largest_micro_batch(struct planning *planning)
{
    const size_t most = planning->options.max_sequences;
    size_t good = 0, bad = most + 1;
    if (can_with_size(planning, planning->options, most))
        return most;
    for (size_t size = 1; size < bad; size = size == 1 ? 2 : mt_size_min(2 * size, bad - 1)) {
        if (!can_with_size(planning, planning->options, size))
            bad = size;
        else if (good == size)
            break;
        else
            good = size;
    }
    while (bad - good > 1) {
        const size_t middle = good + (bad - good) / 2;
        *(can_with_size(planning, planning->options, middle) ? &good : &bad) = middle;
    }
    return good;
}

/* ---- what would fit ---- */

/* Settings that cost memory, in the order in which saving on them hurts. checkpoint_interval is lowered by
 * any run. */
enum saving { MICRO_BATCH, RECOMPUTE, OFFLOAD, GRAD_SLABS, SEQUENCES, TOKENS, NUM_SAVINGS };

static const struct {
    const char *key;
    size_t least;
} savings[NUM_SAVINGS] = {
    [MICRO_BATCH] = {"training.micro_batch_size", 1}, [RECOMPUTE] = {"memory.recompute", 0},
    [OFFLOAD] = {"memory.activation_offload", 0},     [GRAD_SLABS] = {"memory.num_grad_slabs", 1},
    [SEQUENCES] = {"training.batch_size", 1},         [TOKENS] = {"dataset.max_seq_len", 64},
};

static size_t setting(const struct mt_executor_options *options, enum saving saving)
{
    const size_t values[NUM_SAVINGS] = {
        [MICRO_BATCH] = options->micro_batch_size,
        [RECOMPUTE] = options->recompute == MT_CHOICE_OFF, /* to auto */
        [OFFLOAD] = options->activation_offload == MT_CHOICE_OFF,
        [GRAD_SLABS] = options->num_grad_slabs,
        [SEQUENCES] = options->max_sequences,
        [TOKENS] = options->max_sequence_tokens,
    };
    return values[saving];
}

static void set(struct mt_executor_options *options, enum saving saving, size_t value)
{
    switch (saving) {
    case MICRO_BATCH:
        options->micro_batch_size = value;
        break;
    case RECOMPUTE:
        options->recompute = value ? MT_CHOICE_OFF : MT_CHOICE_AUTO;
        break;
    case OFFLOAD:
        options->activation_offload = value ? MT_CHOICE_OFF : MT_CHOICE_AUTO;
        break;
    case GRAD_SLABS:
        options->num_grad_slabs = value;
        break;
    case SEQUENCES:
        options->max_sequences = value;
        break;
    case TOKENS:
        options->max_sequence_tokens = value;
        break;
    case NUM_SAVINGS:
        break;
    }
}

/* Halves one setting after the other until it fits. */
static bool save(struct planning *planning, struct mt_executor_options *options)
{
    for (enum saving i = 0; i < NUM_SAVINGS; i++) {
        while (setting(options, i) > savings[i].least) {
            set(options, i, mt_size_max(setting(options, i) / 2, savings[i].least));
            if (can(planning, options))
                return true;
        }
    }
    return false;
}

static void note_change(struct planning *planning, enum saving saving, size_t value)
{
    struct mt_plan *plan = planning->plan;
    struct mt_plan_change *added = &plan->changes[plan->num_changes++];
    added->key = savings[saving].key;
    if (saving == RECOMPUTE || saving == OFFLOAD)
        snprintf(added->value, sizeof added->value, "auto");
    else
        snprintf(added->value, sizeof added->value, "%zu", value);
    if (saving == SEQUENCES && planning->job->training.gradient_accumulation_steps > 1) {
        struct mt_plan_change *steps = &plan->changes[plan->num_changes++];
        steps->key = "training.gradient_accumulation_steps";
        snprintf(steps->value, sizeof steps->value, "1");
    }
}

/* Few changes that would make it fit: those that turn out not to be needed are taken back. */
static void find_changes(struct planning *planning)
{
    const struct mt_executor_options *asked = &planning->options;
    struct mt_executor_options options = *asked;
    if (!save(planning, &options))
        return;
    for (enum saving i = 0; i < NUM_SAVINGS; i++) {
        const size_t saved = setting(&options, i);
        set(&options, i, setting(asked, i));
        if (!can(planning, &options))
            set(&options, i, saved);
    }
    for (enum saving i = 0; i < NUM_SAVINGS; i++)
        if (setting(&options, i) != setting(asked, i))
            note_change(planning, i, setting(&options, i));
}

static void tell_problem(struct mt_plan *plan)
{
    char needed[32], there[32];
    const bool hopeless = plan->store.total > plan->machine.host_bytes;
    size_t used = 0;
    plan->problem[0] = '\0';
    if (!plan->device_fits)
        used += (size_t)snprintf(
            plan->problem, sizeof plan->problem, "the device needs %s and has %s",
            mt_size_format(plan->device_bytes, needed, sizeof needed),
            mt_size_format(plan->machine.device_bytes - plan->machine.reserved_bytes, there, sizeof there));
    if (!plan->host_fits)
        used += (size_t)snprintf(plan->problem + used, sizeof plan->problem - used,
                                 "%sthe host needs %s of memory and has %s", used ? "; " : "",
                                 mt_size_format(plan->host_bytes, needed, sizeof needed),
                                 mt_size_format(plan->machine.host_bytes, there, sizeof there));
    for (size_t i = 0; i < plan->num_changes && used < sizeof plan->problem; i++)
        used += (size_t)snprintf(plan->problem + used, sizeof plan->problem - used, "%s%s: %s",
                                 i          ? ", "
                                 : hopeless ? "; it would fit on the device with "
                                            : "; it would fit with ",
                                 plan->changes[i].key, plan->changes[i].value);
    if (plan->num_changes == 0 && used < sizeof plan->problem)
        snprintf(plan->problem + used, sizeof plan->problem - used,
                 "; no setting makes it fit: it takes a %s with more memory or a smaller model",
                 plan->host_fits ? "device" : "machine");
}

/* ---- memory ---- */

static void take_stock(struct planning *planning)
{
    struct mt_plan *plan = planning->plan;
    mt_executor_memory(planning->executor, &plan->memory);
    plan->micro_batch_size = planning->options.micro_batch_size;
    plan->checkpoint_interval = planning->options.checkpoint_interval;
    plan->head_pieces = mt_executor_head_pieces(planning->executor);
    /* Of a GPU's memory also what no part counts: the scratch, and what blocks are rounded up by. */
    struct mt_plan_account account;
    mt_plan_device_account(planning->device, &account);
    plan->device_bytes = plan->machine.scratch_bytes ? account.device_bytes : plan->memory.device.total;
    plan->host_bytes = host_bytes(planning, &plan->memory);
    plan->host_fits = plan->host_bytes <= plan->machine.host_bytes;
}

/* Makes the executor as a run would; where it does not fit, one on a device without end, to say what it would
 * take. */
static int fit(struct planning *planning, struct mt_error *error)
{
    struct mt_plan *plan = planning->plan;
    struct mt_executor_options *options = &planning->options;
    const size_t available =
        plan->machine.available_bytes - mt_size_min(plan->machine.available_bytes, plan->store.total);
    struct mt_error failure = {0};
    plan->largest_micro_batch_size = largest_micro_batch(planning);
    int r = mt_executor_settle(planning->store, planning->device, NULL, options,
                               planning->job->training.batch_size, available, &planning->executor, &failure);
    if (r && failure.reason != MT_REASON_OUT_OF_MEMORY) {
        *error = failure;
        return r;
    }
    plan->device_fits = r == 0;
    if (r == 0)
        take_stock(planning);
    plan->fits = plan->device_fits && plan->host_fits;
    if (plan->fits)
        return 0;
    mt_executor_free(planning->executor);
    planning->executor = NULL;
    planning->host_is_hopeless = plan->store.total > plan->machine.host_bytes;
    if (!planning->host_is_hopeless || !plan->device_fits)
        find_changes(planning);
    if (!plan->device_fits) {
        mt_plan_device_lift_limit(planning->device);
        if (options->recompute == MT_CHOICE_AUTO)
            options->recompute = MT_CHOICE_ON; /* auto keeps what fits: here that would be everything */
        if (options->activation_offload == MT_CHOICE_AUTO)
            options->activation_offload = MT_CHOICE_ON;
        options->checkpoint_interval = 1; /* and these go as low as they can */
        options->stream_head = MT_CHOICE_ON;
    }
    r = mt_executor_new(planning->store, planning->device, NULL, options, &planning->executor, error);
    if (r == 0) {
        take_stock(planning);
        tell_problem(plan);
    }
    return r;
}

/* ---- time ---- */

/* A step of full sequences, one document each: what takes most. All share one row of tokens. */
struct made_up {
    struct mt_batch batch;
    int32_t *tokens, starts[2];
};

static int make_batch(const struct mt_executor_options *options, struct made_up *made, struct mt_error *error)
{
    const size_t count = options->max_sequences, tokens = options->max_sequence_tokens;
    made->tokens = calloc(tokens, sizeof *made->tokens);
    made->batch = (struct mt_batch){.num_sequences = count, .tokens = count * tokens};
    made->batch.sequences = calloc(count, sizeof *made->batch.sequences);
    made->starts[0] = 0;
    made->starts[1] = (int32_t)tokens;
    if (!made->tokens || !made->batch.sequences)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for a step's tokens");
    for (size_t i = 0; i < count; i++)
        made->batch.sequences[i] = (struct mt_sequence){
            .tokens = tokens,
            .ids = made->tokens,
            .labels = made->tokens,
            .num_documents = 1,
            .document_starts = made->starts,
            .row = i,
        };
    return 0;
}

/* Two steps: the second one begins, like all later ones, with the updates of the one before. */
static int time_step(struct planning *planning, struct mt_error *error)
{
    struct mt_plan *plan = planning->plan;
    struct made_up made = {0};
    struct mt_plan_account before, after;
    size_t weights, in[2], out[2];
    int r = make_batch(&planning->options, &made, error);
    for (int step = 0; step < 2 && r == 0; step++) {
        struct mt_step_result result;
        mt_plan_device_account(planning->device, &before);
        mt_executor_traffic(planning->executor, &weights, &in[0], &out[0]);
        r = mt_executor_step(planning->executor, &made.batch, 1e-5, &result, error);
    }
    free(made.tokens);
    free(made.batch.sequences);
    if (r)
        return r;
    mt_plan_device_account(planning->device, &after);
    mt_executor_traffic(planning->executor, &weights, &in[1], &out[1]);
    plan->bus_in = in[1] - in[0];
    plan->bus_out = out[1] - out[0];
    plan->flops = after.flops - before.flops;
    plan->step_seconds = after.now - before.now;
    plan->tokens_per_second = (double)plan->tokens_per_step / plan->step_seconds;
    for (size_t i = 0; i < MT_NUM_STAGES; i++) {
        plan->stages[i] = after.busy[i] - before.busy[i];
        plan->critical[i] = fmax(0, after.path[i] - before.path[i]);
        if (plan->critical[i] > plan->critical[plan->bound_by])
            plan->bound_by = (enum mt_stage)i;
    }
    return 0;
}

/* ---- a plan ---- */

static int make(struct planning *planning, const char *presets, struct mt_error *error)
{
    const struct mt_job *job = planning->job;
    struct mt_plan *plan = planning->plan;
    struct mt_device_info info;
    TRY(open_model(job, presets, &planning->model, error));
    TRY(mt_plan_device_open(&plan->machine, &planning->device, error));
    planning->device->api->info(planning->device, &info);
    planning->options = mt_executor_options_from_job(job);
    const struct mt_store_options store = mt_store_options_from_job(job, &planning->options, &info);
    TRY(mt_store_new(planning->model, planning->device, &store, &planning->store, error));
    mt_store_count_bytes(planning->model, &store, &plan->store);
    plan->compute_dtype = store.compute_dtype;
    plan->parameters = planning->model->total_count - planning->model->buffer_count;
    plan->trainable_parameters = planning->model->trainable_count;
    plan->sequences_per_step = planning->options.max_sequences;
    plan->tokens_per_step = plan->sequences_per_step * planning->options.max_sequence_tokens;
    plan->checkpoint_bytes = mt_store_saved_bytes(planning->model);
    plan->num_checkpoints = job->checkpoint.keep;
    plan->asked_interval = job->memory.checkpoint_interval;
    TRY(fit(planning, error));
    return time_step(planning, error);
}

int mt_plan_make(const struct mt_job *job, const struct mt_plan_machine *machine, const char *presets,
                 struct mt_plan *plan, struct mt_error *error)
{
    *plan = (struct mt_plan){.machine = *machine};
    struct planning planning = {.job = job, .plan = plan};
    int r = make(&planning, presets, error);
    close_planning(&planning);
    return r;
}
