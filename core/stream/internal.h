/* What the executor's files share. */
#ifndef MT_STREAM_INTERNAL_H
#define MT_STREAM_INTERNAL_H

#include "core/model/head.h"
#include "core/model/layer.h"
#include "core/stream/boundaries.h"
#include "core/stream/device_util.h"
#include "core/stream/executor.h"
#include "core/stream/gradients.h"
#include "core/stream/microbatch.h"
#include "core/stream/updater.h"
#include "core/stream/weights.h"

/* A rope's table in device memory, cosines before sines. Where it depends on the longest sequence of a batch,
 * some tables that were made are kept on the host. */
#define MT_RIG_ROPE_CACHE 4u
struct mt_rig_rope {
    float *device;
    size_t length_class, first, end; /* mt_rope_length_class of the rows that it holds; which rows */
    size_t num_cached;
    struct mt_rig_cached_rope {
        float *host; /* cosines and sines of all positions */
        bool filled;
        size_t length_class, used; /* when it was used last */
    } cached[MT_RIG_ROPE_CACHE];
    size_t clock;
};

/* Streams and tables that training and generation set up alike. */
struct mt_rig {
    struct mt_device *device;
    struct mt_stream *in, *compute, *out; /* weights in, compute, gradients out */
    struct mt_rope_table ropes[MT_MODEL_MAX_ROPES];
    struct mt_rig_rope rope_tables[MT_MODEL_MAX_ROPES];
    float *alibi, *sines; /* the other tables, in device memory; NULL */
    struct mt_layer_context context;
    struct mt_blocks blocks;
};

/* Rope tables for `num_positions`. */
int mt_rig_open(struct mt_rig *rig, struct mt_device *device, const struct mt_model *model,
                enum mt_dtype dtype, size_t num_positions, struct mt_error *error);
/* Before a batch whose longest sequence has so many tokens, and that reads positions from `first` on: some
 * ropes depend on it. All streams are idle. */
int mt_rig_set_longest(struct mt_rig *rig, size_t first, size_t longest, struct mt_error *error);
void mt_rig_close(struct mt_rig *rig);
/* Waits until all three streams are idle. */
int mt_rig_synchronize(struct mt_rig *rig, struct mt_error *error);

/* The head's buffers, in device memory. */
struct mt_head_buffers {
    size_t chunk_tokens;
    size_t tile_rows;      /* of the vocabulary that are computed at a time: a function of the shape alone */
    bool streamed;         /* a tile is what comes to the device at a time too */
    char *normed, *logits; /* of a chunk; of all tiles unless streamed */
    char *projected;       /* of a chunk, where the model projects */
    char *normed_rows;     /* what comes to the device at a time of a matrix whose rows the model norms */
    float *rows_rstd, *wide_rows; /* likewise */
    float *wide; /* sums of dx over tiles: of a chunk, of all tokens when streamed; NULL: none needed */
    float *rstd, *mean, *max, *sum, *target, *lse, *losses; /* [max_tokens] each */
    double *loss_sum, *host_loss_sum;
};

#define MT_EXECUTOR_MAX_INTERVAL 64u

struct mt_executor {
    struct mt_store *store;
    const struct mt_model *model;
    struct mt_pool *pool;
    struct mt_executor_options options;
    size_t element; /* bytes of the compute type */
    bool in_place;
    bool broken;      /* after a fault it can only be freed */
    bool in_backward; /* updates run in the backward pass */

    struct mt_rig rig;
    struct mt_blocks blocks; /* activations, head, tokens */
    struct mt_microbatches batches;
    struct mt_weights *weights;
    struct mt_gradients *gradients;
    struct mt_boundaries *boundaries;
    struct mt_updater *updater;

    struct mt_layer_layout layout; /* the largest of all layers, for a micro-batch */
    size_t interval;               /* layers that are visited together in the backward pass */
    char *activations;             /* [interval] of activation_bytes */
    char *scratch;
    char *segment_inputs; /* [interval - 1] of a micro-batch's boundary */
    size_t num_kept;      /* last layers whose activations are kept for all micro-batches */
    char **kept;          /* [num_layers]: [max_count] of activation_bytes, or NULL */
    struct mt_head_buffers head;
    size_t head_bytes_taken, token_bytes_taken;

    size_t first_trained; /* lowest layer that is differentiated */
    struct mt_adamw_step adamw_step;
};

/* schedule.c: put one pass into the streams. They wait for deferred updates, group by group, and for nothing
 * else. */
int mt_schedule_start(struct mt_executor *executor); /* the first layer's weights on their way */
int mt_schedule_forward(struct mt_executor *executor, bool keep);
int mt_schedule_backward(struct mt_executor *executor);

/* head_pass.c: after the last layer. `train`: gradients too, scaled by grad_scale. `logits` (host, may be
 * NULL): all logits as fp32; then it waits chunk by chunk. */
int mt_head_pass(struct mt_executor *executor, bool train, float grad_scale, float *logits);
int mt_head_buffers_init(struct mt_executor *executor, struct mt_error *error);
/* Once there are activations: no layer is visited while the head is, so the sums of dx may lie in them. */
int mt_head_sums_init(struct mt_executor *executor, struct mt_error *error);

/* What a layer's activations of a micro-batch lie in: kept ones, or place `slot` of the recomputed. */
static inline char *mt_executor_activations(const struct mt_executor *executor, size_t layer, size_t slot,
                                            size_t micro)
{
    if (executor->kept[layer])
        return executor->kept[layer] + micro * executor->layout.activation_bytes;
    return executor->activations + slot * executor->layout.activation_bytes;
}

#endif
