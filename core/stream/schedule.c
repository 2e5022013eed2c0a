/* The visits: each layer once forward and once backward, with all micro-batches of the step inside the visit.
 * The host puts operations, copies and events into the three streams and runs ahead of them; it waits for
 * deferred updates, group by group, since nothing that an update still writes may be read or overwritten. */
#include "core/base/size.h"
#include "core/stream/internal.h"

/* The slab of a layer's group is whole from here on. */
static int prefetch_layer(struct mt_executor *executor, size_t layer)
{
    mt_updater_wait(executor->updater, mt_model_layer_group(layer));
    return mt_weights_prefetch(executor->weights, mt_weights_layer(executor->weights, layer), NULL);
}

int mt_schedule_start(struct mt_executor *executor)
{
    return prefetch_layer(executor, 0);
}

/* A micro-batch's rows, with what they have beside the stream. */
static struct mt_rows rows_of(const struct mt_executor *executor, size_t micro)
{
    struct mt_rows rows = executor->batches.items[micro].rows;
    rows.beside = mt_boundaries_beside(executor->boundaries, micro);
    rows.beside_gradient = mt_boundaries_beside_gradient(executor->boundaries, micro);
    return rows;
}

int mt_schedule_forward(struct mt_executor *executor, bool keep)
{
    const struct mt_model *model = executor->model;
    struct mt_boundaries *boundaries = executor->boundaries;
    for (size_t i = 0; i < model->num_layers; i++) {
        const size_t cargo = mt_weights_layer(executor->weights, i);
        const void *weights;
        mt_stream_mark(executor->rig.device, executor->rig.compute, MT_STAGE_FORWARD, i);
        MT_TRY(mt_weights_acquire(executor->weights, cargo, &weights));
        for (size_t m = 0; m < executor->batches.count; m++) {
            char *activations = keep && executor->kept[i] ? mt_executor_activations(executor, i, 0, m)
                                                          : executor->activations;
            const struct mt_rows rows = rows_of(executor, m);
            MT_TRY(mt_boundaries_before_write(boundaries, i + 1, m));
            MT_TRY(mt_layer_forward(&executor->rig.context, &model->layers[i], weights, &rows,
                                    mt_boundaries_at(boundaries, i, m),
                                    mt_boundaries_at(boundaries, i + 1, m), activations, executor->scratch));
            MT_TRY(mt_boundaries_after_write(boundaries, i + 1, m));
        }
        MT_TRY(mt_weights_release(executor->weights, cargo));
        if (i + 1 < model->num_layers)
            MT_TRY(prefetch_layer(executor, i + 1));
    }
    return 0;
}

/* Layers first to last - 1 that are visited together in the backward pass. */
struct segment {
    size_t first, last;
    const void **weights; /* [last - first] */
    float **gradients;
};

static int open_segment(struct mt_executor *executor, struct segment *segment)
{
    for (size_t i = segment->last; i-- > segment->first;) {
        const size_t cargo = mt_weights_layer(executor->weights, i), slot = i - segment->first;
        MT_TRY(mt_weights_acquire(executor->weights, cargo, &segment->weights[slot]));
        MT_TRY(mt_gradients_begin(executor->gradients, cargo, &segment->gradients[slot]));
    }
    return 0;
}

/* What the next segments need, as far as buffers are free. Where inputs come back on the same stream, one
 * layer's weights go between them, a share a micro-batch, so that no input waits behind a whole layer. */
static int prefetch_next(struct mt_executor *executor, const struct segment *segment, size_t micro)
{
    const bool shared = mt_boundaries_fetches(executor->boundaries);
    bool started = true;
    if (!shared && micro > 0)
        return 0;
    for (size_t i = segment->first; started && i-- > executor->first_trained;) {
        MT_TRY(mt_weights_prefetch_share(executor->weights, mt_weights_layer(executor->weights, i),
                                         shared ? micro : 0, shared ? executor->batches.count : 1, &started));
        if (shared)
            break;
    }
    return 0;
}

/* The input of a layer of the segment: the kept one, or what recomputing the layer before made. */
static const void *input_of(const struct mt_executor *executor, const struct segment *segment, size_t layer,
                            const void *kept)
{
    const size_t bytes =
        executor->batches.max_micro_tokens * executor->model->hidden_size * executor->element;
    return layer == segment->first ? kept : executor->segment_inputs + (layer - segment->first - 1) * bytes;
}

/* Recomputes and differentiates one micro-batch through the segment. */
static int visit(struct mt_executor *executor, const struct segment *segment, size_t micro)
{
    const struct mt_model *model = executor->model;
    const struct mt_layer_context *context = &executor->rig.context;
    struct mt_rows rows = rows_of(executor, micro);
    rows.recomputed = true;
    const bool final = micro + 1 == executor->batches.count;
    const void *kept;
    MT_TRY(mt_boundaries_fetch(executor->boundaries, segment->first, micro, &kept));
    MT_TRY(prefetch_next(executor, segment, micro));
    for (size_t i = segment->first; i < segment->last; i++) {
        if (executor->kept[i])
            continue;
        mt_stream_mark(context->device, context->stream, MT_STAGE_RECOMPUTE, i);
        const size_t slot = i - segment->first;
        void *y = i + 1 < segment->last ? (void *)(uintptr_t)input_of(executor, segment, i + 1, NULL) : NULL;
        MT_TRY(mt_layer_forward(context, &model->layers[i], segment->weights[slot], &rows,
                                input_of(executor, segment, i, kept), y,
                                mt_executor_activations(executor, i, slot, micro), executor->scratch));
    }
    for (size_t i = segment->last; i-- > segment->first;) {
        const size_t slot = i - segment->first, cargo = mt_weights_layer(executor->weights, i);
        mt_stream_mark(context->device, context->stream, MT_STAGE_BACKWARD, i);
        if (i >= executor->first_trained)
            MT_TRY(mt_layer_backward(context, &model->layers[i], segment->weights[slot],
                                     segment->gradients[slot], micro > 0, &rows,
                                     input_of(executor, segment, i, kept),
                                     mt_boundaries_gradient(executor->boundaries, micro),
                                     mt_executor_activations(executor, i, slot, micro), executor->scratch));
        if (final) {
            MT_TRY(mt_weights_release(executor->weights, cargo));
            MT_TRY(mt_gradients_end(executor->gradients, cargo));
        }
    }
    return mt_boundaries_fetched_done(executor->boundaries, segment->first, micro);
}

static void give_back(void *context, size_t group)
{
    mt_gradients_give_back(context, group);
}

/* Without a finite check for the whole step, a group is updated as soon as its gradient is there. */
static void post_in_backward(struct mt_executor *executor, size_t group)
{
    const float *gradient = mt_gradients_host(executor->gradients, group);
    if (!executor->in_backward || !gradient)
        return;
    mt_updater_post(executor->updater, &(struct mt_update){
                                           .group = group,
                                           .gradient = gradient,
                                           .landed = mt_gradients_landed(executor->gradients, group),
                                           .sums = mt_gradients_sums(executor->gradients),
                                           .step = executor->adamw_step,
                                           .done = give_back,
                                           .context = executor->gradients,
                                       });
}

int mt_schedule_backward(struct mt_executor *executor)
{
    const size_t interval = executor->interval, layers = executor->model->num_layers;
    const void *weights[MT_EXECUTOR_MAX_INTERVAL];
    float *gradients[MT_EXECUTOR_MAX_INTERVAL];
    post_in_backward(executor, mt_model_head_group(executor->model));
    for (size_t last = layers; last > executor->first_trained;) {
        const size_t first = (last - 1) / interval * interval;
        struct segment segment = {.first = first, .last = last, .weights = weights, .gradients = gradients};
        MT_TRY(open_segment(executor, &segment));
        for (size_t m = 0; m < executor->batches.count; m++)
            MT_TRY(visit(executor, &segment, m));
        for (size_t i = last; i-- > first;)
            post_in_backward(executor, mt_model_layer_group(i));
        last = first;
    }
    return 0;
}
