/* The executor: its memory, and a step from the batch to the (deferred) update. */
#include "core/stream/executor.h"

#include "core/base/size.h"
#include "core/base/time.h"
#include "core/optim/norm.h"
#include "core/stream/embedding.h"
#include "core/stream/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- making one ---- */

static int check_options(const struct mt_executor_options *options, const struct mt_model *model,
                         struct mt_error *error)
{
    if (options->checkpoint_interval > MT_EXECUTOR_MAX_INTERVAL)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_JOB,
                            "memory.checkpoint_interval must be at most %u", MT_EXECUTOR_MAX_INTERVAL);
    if (!model->trainable_count)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_JOB, "nothing is left to train");
    return 0;
}

/* The lowest layer that must be differentiated. */
static size_t first_trained(const struct mt_model *model)
{
    if (model->groups[MT_GROUP_EMBEDDING].train_count && !model->tied)
        return 0;
    if (model->tied && model->groups[MT_GROUP_EMBEDDING].train_count)
        return 0;
    for (size_t i = 0; i < model->num_layers; i++)
        if (model->groups[mt_model_layer_group(i)].train_count)
            return i;
    return model->num_layers;
}

/* The output matrix is computed in tiles about as large as a layer, so that where it must be streamed it
 * takes no more room than the layers do (a 0.5B model's table is nine layers large); of equal size, and never
 * so small that products suffer. A function of the shape alone, since bits depend on it. */
#define TILE_ROWS_LEAST ((size_t)16384)
#define TILE_ROWS_UNIT ((size_t)256)
static size_t head_tile_rows(const struct mt_model *model, const struct mt_executor_options *options)
{
    size_t largest = 0;
    if (options->head_tile_rows)
        return mt_size_min(options->head_tile_rows, model->vocab_size);
    for (size_t i = 0; i < model->num_layers; i++)
        largest = mt_size_max(largest, model->groups[mt_model_layer_group(i)].count);
    const size_t most = mt_size_max(TILE_ROWS_LEAST, largest / model->hidden_size);
    const size_t rows = mt_size_ceil_div(model->vocab_size, mt_size_ceil_div(model->vocab_size, most));
    return mt_size_min(mt_size_ceil_div(rows, TILE_ROWS_UNIT) * TILE_ROWS_UNIT, model->vocab_size);
}

static int make_activations(struct mt_executor *executor, struct mt_error *error)
{
    const size_t tokens = executor->batches.max_micro_tokens;
    void *address;
    for (size_t i = 0; i < executor->model->num_layers; i++) {
        struct mt_layer_layout layout;
        int r = mt_layer_layout(&executor->rig.context, &executor->model->layers[i], tokens, &layout);
        if (r)
            return mt_error_set(error, r, MT_REASON_BAD_JOB, "a micro-batch of %zu tokens is too large",
                                tokens);
        executor->layout.activation_bytes =
            mt_size_max(executor->layout.activation_bytes, layout.activation_bytes);
        executor->layout.scratch_bytes = mt_size_max(executor->layout.scratch_bytes, layout.scratch_bytes);
    }
    size_t bytes;
    if (!mt_size_mul(executor->layout.activation_bytes, executor->interval, &bytes))
        return mt_error_set(error, -EOVERFLOW, MT_REASON_BAD_JOB, "a micro-batch of %zu tokens is too large",
                            tokens);
    MT_TRY(mt_blocks_device(&executor->blocks, bytes, "a layer's activations", &address, error));
    executor->activations = address;
    MT_TRY(mt_blocks_device(&executor->blocks, executor->layout.scratch_bytes, "a layer's scratch", &address,
                            error));
    executor->scratch = address;
    bytes = (executor->interval - 1) * tokens * executor->model->hidden_size * executor->element;
    MT_TRY(mt_blocks_device(&executor->blocks, bytes, "inputs of layers visited together", &address, error));
    executor->segment_inputs = address;
    return 0;
}

/* Activations that are kept instead of recomputed, last layers first. With `never` all of them; with `auto`
 * what fits: an eighth of the memory where it is the host's, or all that is left of a device's own but for a
 * twentieth. */
static int keep_activations(struct mt_executor *executor, struct mt_error *error)
{
    const enum mt_choice recompute = executor->options.recompute;
    if (recompute == MT_CHOICE_ON || executor->interval > 1)
        return 0;
    struct mt_device_info info;
    executor->rig.device->api->info(executor->rig.device, &info);
    size_t bytes, left = info.host_memory ? info.total_bytes / 8 : info.free_bytes - info.free_bytes / 20;
    if (!mt_size_mul(executor->layout.activation_bytes, executor->batches.max_count, &bytes))
        return mt_error_set(error, -EOVERFLOW, MT_REASON_BAD_JOB, "a step has too many tokens");
    for (size_t i = executor->model->num_layers; i-- > 0; left -= bytes) {
        void *address;
        if (recompute == MT_CHOICE_AUTO && bytes > left)
            break;
        int r = mt_blocks_device(&executor->blocks, bytes, "kept activations (memory.recompute: never)",
                                 &address, error);
        if (r == -ENOMEM && recompute == MT_CHOICE_AUTO)
            break;
        if (r)
            return r;
        executor->kept[i] = address;
        executor->num_kept++;
        if (recompute == MT_CHOICE_OFF)
            left = bytes;
    }
    return 0;
}

static int make_boundaries(struct mt_executor *executor, struct mt_error *error)
{
    const struct mt_executor_options *options = &executor->options;
    const struct mt_model *model = executor->model;
    struct mt_boundaries_options wanted = {
        .num_layers = model->num_layers,
        .interval = executor->interval,
        .row_bytes = model->hidden_size * executor->element,
        .beside_bytes = model->beside_size * executor->element,
        .side_bytes = model->num_layers * model->layer_input_size * executor->element,
        .offload = options->activation_offload == MT_CHOICE_ON,
    };
    struct mt_rig *rig = &executor->rig;
    int r = mt_boundaries_new(&wanted, &executor->batches, rig->device, rig->in, rig->compute, rig->out,
                              &executor->boundaries, error);
    if (r == -ENOMEM && options->activation_offload == MT_CHOICE_AUTO && !executor->in_place) {
        wanted.offload = true;
        r = mt_boundaries_new(&wanted, &executor->batches, rig->device, rig->in, rig->compute, rig->out,
                              &executor->boundaries, error);
    }
    return r;
}

static int build(struct mt_executor *executor, struct mt_device *device, struct mt_error *error)
{
    struct mt_executor_options *options = &executor->options;
    const struct mt_model *model = executor->model;
    struct mt_rig *rig = &executor->rig;
    const size_t interval = executor->interval;

    MT_TRY(check_options(options, model, error));
    struct mt_device_info info;
    device->api->info(device, &info);
    if (executor->element == 2 && !info.supports_bf16)
        return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_JOB, "%s cannot compute in bfloat16", info.name);
    MT_TRY(mt_rig_open(rig, device, model, mt_store_compute_dtype(executor->store),
                       options->max_sequence_tokens, error));
    MT_TRY(mt_microbatches_init(&executor->batches, &executor->blocks, !executor->in_place,
                                options->micro_batch_size, options->max_sequences,
                                options->max_sequence_tokens, error));
    executor->token_bytes_taken = executor->blocks.device_bytes;
    executor->kept = calloc(model->num_layers + 1, sizeof *executor->kept);
    if (!executor->kept)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    struct mt_weights_options weights = {
        .num_buffers =
            mt_size_max(options->num_weight_buffers ? options->num_weight_buffers : 2, interval + 1),
        .tile_rows = executor->head.streamed ? executor->head.tile_rows : model->vocab_size,
    };
    MT_TRY(
        mt_weights_new(executor->store, device, rig->in, rig->compute, &weights, &executor->weights, error));
    struct mt_gradients_options gradients = {
        /* More than there are layers would never be used. */
        .num_slabs = mt_size_min(mt_size_max(options->num_grad_slabs ? options->num_grad_slabs : 4, interval),
                                 model->num_layers),
        .tile_rows = weights.tile_rows,
        .sum_rows = executor->head.tile_rows,
    };
    MT_TRY(mt_gradients_new(executor->store, device, rig->compute, rig->out, &gradients, &executor->gradients,
                            error));
    MT_TRY(mt_head_buffers_init(executor, error));
    MT_TRY(make_activations(executor, error));
    MT_TRY(mt_head_sums_init(executor, error));
    MT_TRY(make_boundaries(executor, error));
    MT_TRY(keep_activations(executor, error));
    MT_TRY(
        mt_updater_new(executor->store, device, executor->pool, &options->adamw, &executor->updater, error));
    return 0;
}

static int make(struct mt_store *store, struct mt_device *device, struct mt_pool *pool,
                const struct mt_executor_options *options, bool stream_head,
                struct mt_executor **executor_out, struct mt_error *error)
{
    struct mt_executor *executor = calloc(1, sizeof *executor);
    struct mt_device_info info;
    if (!executor)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    device->api->info(device, &info);
    const struct mt_model *model = mt_store_model(store);
    *executor = (struct mt_executor){
        .store = store,
        .model = model,
        .pool = pool,
        .options = *options,
        .element = mt_dtype_bytes(mt_store_compute_dtype(store)),
        .in_place = info.host_memory,
        .in_backward = mt_executor_updates_in_backward(options),
        .first_trained = first_trained(model),
        .interval = mt_size_max(1, mt_size_min(options->checkpoint_interval, model->num_layers)),
        .head = {.tile_rows = head_tile_rows(model, options), .streamed = stream_head},
    };
    mt_blocks_init(&executor->blocks, device);
    int r = build(executor, device, error);
    if (r) {
        mt_executor_free(executor);
        return r;
    }
    *executor_out = executor;
    return 0;
}

int mt_executor_new(struct mt_store *store, struct mt_device *device, struct mt_pool *pool,
                    const struct mt_executor_options *options, struct mt_executor **executor,
                    struct mt_error *error)
{
    const struct mt_model *model = mt_store_model(store);
    const enum mt_choice stream_head =
        head_tile_rows(model, options) < model->vocab_size ? options->stream_head : MT_CHOICE_OFF;
    *executor = NULL;
    int r = make(store, device, pool, options, stream_head == MT_CHOICE_ON, executor, error);
    if (r == -ENOMEM && stream_head == MT_CHOICE_AUTO)
        r = make(store, device, pool, options, true, executor, error);
    return r;
}

void mt_executor_free(struct mt_executor *executor)
{
    if (!executor)
        return;
    if (executor->rig.device)
        mt_rig_synchronize(&executor->rig, NULL);
    mt_updater_free(executor->updater);
    mt_boundaries_free(executor->boundaries);
    mt_gradients_free(executor->gradients);
    mt_weights_free(executor->weights);
    mt_rig_close(&executor->rig);
    mt_microbatches_clear(&executor->batches);
    mt_blocks_free(&executor->blocks);
    free(executor->kept);
    free(executor);
}

/* ---- a pass ---- */

/* A fault leaves work in the streams; it is waited for, so that its memory can be freed. */
static int broken(struct mt_executor *executor, int code, struct mt_error *error)
{
    executor->broken = true;
    int r = mt_device_report(executor->rig.device, code, error);
    mt_rig_synchronize(&executor->rig, NULL);
    return r;
}

static int refuse_broken(const struct mt_executor *executor, struct mt_error *error)
{
    return executor->broken ? mt_error_set(error, -EIO, MT_REASON_DEVICE, "the executor failed before") : 0;
}

/* Of the step: what the embedding gives. */
static size_t embedded_bytes(const struct mt_executor *executor)
{
    const struct mt_model *model = executor->model;
    return executor->batches.tokens * executor->element *
           (model->hidden_size + model->num_layers * model->layer_input_size);
}

/* Tokens, labels and the embedding's rows to the device. */
static int load_inputs(struct mt_executor *executor, bool keep)
{
    struct mt_rig *rig = &executor->rig;
    size_t longest = 0;
    for (size_t t = 0; t < executor->batches.tokens; t++)
        longest = mt_size_max(longest, (size_t)executor->batches.positions[t] + 1);
    MT_TRY(mt_rig_set_longest(rig, 0, longest, NULL));
    mt_weights_invalidate(executor->weights);
    mt_boundaries_start(executor->boundaries, keep);
    MT_TRY(mt_microbatches_upload(&executor->batches, rig->device, rig->in));
    mt_updater_wait(executor->updater, MT_GROUP_EMBEDDING);
    const struct mt_host_work gather = {.stage = MT_STAGE_EMBEDDING, .bytes = 2 * embedded_bytes(executor)};
    if (mt_host_begin(rig->device, &gather)) {
        for (size_t m = 0; m < executor->batches.count; m++) {
            const struct mt_microbatch *item = &executor->batches.items[m];
            mt_embedding_gather(executor->store, executor->batches.ids + item->first, item->rows.tokens,
                                mt_boundaries_staging(executor->boundaries, m),
                                mt_boundaries_beside_staging(executor->boundaries, m));
        }
        mt_host_end(rig->device, &gather);
    }
    MT_TRY(mt_schedule_start(executor)); /* the larger copy first */
    return mt_boundaries_upload(executor->boundaries);
}

/* What is not finished on the device: the embedding's gradient, in token order, on top of the head's part
 * when tied. Its sum of squares joins the others. */
static int finish_embedding(struct mt_executor *executor)
{
    const struct mt_model *model = executor->model;
    const struct mt_group *group = &model->groups[MT_GROUP_EMBEDDING];
    float *gradient = mt_gradients_host(executor->gradients, MT_GROUP_EMBEDDING);
    if (!gradient)
        return 0;
    struct mt_device *device = executor->rig.device;
    const struct mt_host_work scatter = {.stage = MT_STAGE_EMBEDDING,
                                         .bytes = embedded_bytes(executor) / executor->element *
                                                      (executor->element + 2 * sizeof(float)) +
                                                  group->train_count * sizeof(float)};
    if (!mt_host_begin(device, &scatter))
        return 0;
    for (size_t m = 0; m < executor->batches.count; m++) {
        const struct mt_microbatch *item = &executor->batches.items[m];
        mt_embedding_scatter(model, executor->batches.ids + item->first, item->rows.tokens,
                             mt_boundaries_downloaded(executor->boundaries, m),
                             mt_boundaries_beside_downloaded(executor->boundaries, m),
                             mt_store_compute_dtype(executor->store), gradient, executor->pool);
    }
    int r = 0;
    for (size_t i = 0; i < group->num_parameters && !r; i++) {
        const struct mt_parameter *p = &model->parameters[group->first_parameter + i];
        if (!p->frozen)
            r = mt_norm_sum_squares(gradient + p->train_offset, p->count, executor->pool,
                                    &mt_gradients_sums(executor->gradients)[p->index]);
    }
    mt_host_end(device, &scatter);
    return r;
}

/* In the order of the parameters. */
static double total_norm(const struct mt_executor *executor)
{
    const double *sums = mt_gradients_sums(executor->gradients);
    double sum = 0;
    for (size_t i = 0; i < executor->model->num_parameters; i++)
        if (!executor->model->parameters[i].frozen)
            sum += sums[i];
    return sqrt(sum);
}

/* Lowest layer first: the order of the next forward pass. */
static void post_updates(struct mt_executor *executor)
{
    for (size_t g = 0; g < executor->model->num_groups; g++) {
        const float *gradient = mt_gradients_host(executor->gradients, g);
        if (gradient)
            mt_updater_post(
                executor->updater,
                &(struct mt_update){.group = g, .gradient = gradient, .step = executor->adamw_step});
    }
}

/* The whole pass into the streams, then wait for it. */
static int run_step(struct mt_executor *executor, struct mt_error *error)
{
    const float grad_scale = (float)(1.0 / (double)executor->batches.target_tokens);
    float *embedding = mt_gradients_host(executor->gradients, MT_GROUP_EMBEDDING);
    int r = load_inputs(executor, true);
    r = r ? r : mt_schedule_forward(executor, true);
    r = r ? r : mt_head_pass(executor, true, grad_scale, NULL);
    r = r ? r : mt_schedule_backward(executor);
    r = r ? r : mt_boundaries_download_gradient(executor->boundaries);
    if (r)
        return broken(executor, r, error);
    const struct mt_host_work clear = {.stage = MT_STAGE_EMBEDDING,
                                       .bytes = executor->model->groups[MT_GROUP_EMBEDDING].train_count *
                                                sizeof *embedding};
    /* While the device is at work; the head's part of a tied table comes from there. */
    const struct mt_parameter *after =
        executor->model->groups[MT_GROUP_EMBEDDING].by_role[MT_ROLE_LAYER_EMBEDDING];
    if (embedding && executor->model->tied && after && !after->frozen)
        memset(embedding + after->train_offset, 0, after->count * sizeof *embedding);
    if (embedding && !executor->model->tied && mt_host_begin(executor->rig.device, &clear)) {
        memset(embedding, 0, clear.bytes);
        mt_host_end(executor->rig.device, &clear);
    }
    r = mt_rig_synchronize(&executor->rig, error);
    /* The updates of the step before are all made by now: none may have spoilt a parameter. */
    r = r || executor->in_backward ? r : mt_updater_check(executor->updater, error);
    if (r)
        executor->broken = true;
    return r;
}

static int apply_step(struct mt_executor *executor, struct mt_step_result *result, struct mt_error *error)
{
    struct mt_store *store = executor->store;
    if (!isfinite(result->loss) || !isfinite(result->grad_norm)) {
        result->skipped = true;
        if (!executor->in_backward)
            return 0;
        /* Some groups may have been updated: this state must not be saved. */
        executor->broken = true;
        mt_updater_drain(executor->updater, NULL);
        return mt_error_set(error, -ERANGE, MT_REASON_NON_FINITE_LOSS, "update %llu: the %s is not finite",
                            (unsigned long long)executor->adamw_step.update,
                            isfinite(result->loss) ? "gradient" : "loss");
    }
    mt_store_set_updates(store, executor->adamw_step.update);
    if (executor->in_backward) {
        const float *gradient = mt_gradients_host(executor->gradients, MT_GROUP_EMBEDDING);
        if (gradient)
            mt_updater_post(executor->updater, &(struct mt_update){.group = MT_GROUP_EMBEDDING,
                                                                   .gradient = gradient,
                                                                   .step = executor->adamw_step});
    } else {
        executor->adamw_step.grad_scale = mt_clip_factor(executor->options.max_grad_norm, result->grad_norm);
        post_updates(executor);
    }
    return executor->options.immediate_update ? mt_executor_finish(executor, error) : 0;
}

int mt_executor_step(struct mt_executor *executor, const struct mt_batch *batch, double learning_rate,
                     struct mt_step_result *result, struct mt_error *error)
{
    const double start = mt_time_monotonic();
    *result = (struct mt_step_result){0};
    MT_TRY(refuse_broken(executor, error));
    MT_TRY(mt_microbatches_load(&executor->batches, batch, executor->model->vocab_size, error));
    if (!executor->batches.target_tokens)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA, "a step without any target token");

    executor->adamw_step = (struct mt_adamw_step){
        .learning_rate = learning_rate, .grad_scale = 1, .update = mt_store_updates(executor->store) + 1};
    MT_TRY(run_step(executor, error));
    int r = finish_embedding(executor);
    if (r)
        return broken(executor, r, error);

    result->tokens = executor->batches.tokens;
    result->target_tokens = executor->batches.target_tokens;
    result->loss = *executor->head.host_loss_sum / (double)executor->batches.target_tokens;
    result->grad_norm = total_norm(executor);
    r = apply_step(executor, result, error);
    result->seconds = mt_time_monotonic() - start;
    return r;
}

/* ---- forward only ---- */

static int evaluate(struct mt_executor *executor, const struct mt_batch *batch, double *loss_sum,
                    size_t *target_tokens, float *logits, struct mt_error *error)
{
    MT_TRY(refuse_broken(executor, error));
    MT_TRY(mt_microbatches_load(&executor->batches, batch, executor->model->vocab_size, error));
    int r = load_inputs(executor, false);
    r = r ? r : mt_schedule_forward(executor, false);
    r = r ? r : mt_head_pass(executor, false, 0, logits);
    if (r)
        return broken(executor, r, error);
    r = mt_rig_synchronize(&executor->rig, error);
    r = r ? r : mt_updater_check(executor->updater, error);
    if (r) {
        executor->broken = true;
        return r;
    }
    *loss_sum = *executor->head.host_loss_sum;
    *target_tokens = executor->batches.target_tokens;
    return 0;
}

int mt_executor_evaluate(struct mt_executor *executor, const struct mt_batch *batch, double *loss_sum,
                         size_t *target_tokens, struct mt_error *error)
{
    return evaluate(executor, batch, loss_sum, target_tokens, NULL, error);
}

int mt_executor_logits(struct mt_executor *executor, const struct mt_batch *batch, float *logits,
                       struct mt_error *error)
{
    double loss_sum;
    size_t target_tokens;
    return evaluate(executor, batch, &loss_sum, &target_tokens, logits, error);
}

int mt_executor_finish(struct mt_executor *executor, struct mt_error *error)
{
    int r = mt_updater_drain(executor->updater, error);
    if (r)
        executor->broken = true;
    return r ? r : refuse_broken(executor, error);
}

/* ---- accounts ---- */

void mt_executor_memory(const struct mt_executor *executor, struct mt_executor_memory *memory)
{
    *memory = (struct mt_executor_memory){
        .device =
            {
                .weights = mt_weights_device_bytes(executor->weights),
                .gradients = mt_gradients_device_bytes(executor->gradients),
                .boundaries = mt_boundaries_device_bytes(executor->boundaries),
                .head = executor->head_bytes_taken,
                .tables = executor->rig.blocks.device_bytes + executor->token_bytes_taken,
                .activations =
                    executor->blocks.device_bytes - executor->head_bytes_taken - executor->token_bytes_taken,
            },
        .host =
            {
                .boundaries = mt_boundaries_host_bytes(executor->boundaries),
                .gradients = mt_gradients_host_bytes(executor->gradients),
                .staging = executor->blocks.host_bytes + executor->rig.blocks.host_bytes,
            },
        .pinned = executor->blocks.pinned,
    };
    memory->device.total = memory->device.weights + memory->device.gradients + memory->device.boundaries +
                           memory->device.head + memory->device.tables + memory->device.activations;
    memory->host.total = memory->host.boundaries + memory->host.gradients + memory->host.staging;
}

size_t mt_executor_head_pieces(const struct mt_executor *executor)
{
    return mt_weights_num_tiles(executor->weights);
}

void mt_executor_traffic(const struct mt_executor *executor, size_t *weights_in, size_t *in, size_t *out)
{
    size_t boundaries_in, boundaries_out;
    mt_boundaries_copied_bytes(executor->boundaries, &boundaries_in, &boundaries_out);
    *weights_in = mt_weights_copied_bytes(executor->weights);
    *in = *weights_in + boundaries_in;
    *out = mt_gradients_copied_bytes(executor->gradients) + boundaries_out;
}
