/* The streaming executor: one optimizer step at a time through a device that holds the layer at work and the
 * next one on its way. The schedule is DESIGN section 3: three streams ordered by events, each layer visited
 * once forward and once backward with all micro-batches of the step inside the visit, recomputed and
 * differentiated in one visit, head and loss in chunks, updates deferred into the next step's forward pass.
 *
 * One thread calls it. Bits depend on the job and the device's kernels alone: not on buffers, slabs, offload,
 * recomputation, deferral, checkpoint_interval or the number of threads. */
#ifndef MT_STREAM_EXECUTOR_H
#define MT_STREAM_EXECUTOR_H

#include "core/base/dtype.h"
#include "core/base/error.h"
#include "core/base/pool.h"
#include "core/data/batch.h"
#include "core/device/device.h"
#include "core/optim/adamw.h"
#include "core/store/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mt_executor;

enum mt_choice {
    MT_CHOICE_AUTO,
    MT_CHOICE_ON,  /* activation_offload: on; recompute: always */
    MT_CHOICE_OFF, /* activation_offload: off; recompute: never */
};

struct mt_executor_options {
    size_t micro_batch_size;    /* sequences that run through a layer at a time, at least 1 */
    size_t max_sequences;       /* of a step, and of a batch to evaluate: sizes memory */
    size_t max_sequence_tokens; /* longest sequence: sizes memory and the rope tables */

    size_t checkpoint_interval; /* keep every k-th layer input; 0 or 1: each */
    size_t num_grad_slabs;      /* gradients on their way out of the device; 0: 4 */
    size_t num_weight_buffers;  /* 0: 2 */
    enum mt_choice activation_offload;
    enum mt_choice recompute;
    size_t head_chunk_tokens;   /* 0: chosen */
    size_t head_tile_rows;      /* of the vocabulary at a time; 0: chosen by the model's shape */
    enum mt_choice stream_head; /* the output matrix comes tile by tile, twice a step; auto: where all of it
                                   does not fit */
    bool immediate_update;      /* update everything before mt_executor_step returns */

    double max_grad_norm;     /* 0: no clipping */
    size_t max_skipped_steps; /* 0 together with max_grad_norm 0: updates run in the backward pass, and the
                                 first gradient that is not finite is an error of mt_executor_step */
    struct mt_adamw adamw;
};

struct mt_step_result {
    double loss;      /* mean over the step's target tokens, in nats */
    double grad_norm; /* before clipping */
    bool skipped; /* loss or gradient was not finite: parameters, moments and step count stay as they were */
    size_t tokens, target_tokens;
    double seconds;
};

/* What the memory is for, in bytes, as allocated. */
struct mt_executor_memory {
    struct {
        size_t weights, gradients, activations, boundaries, head, tables, total;
    } device; /* zero for what is bound in place */
    struct {
        size_t boundaries, gradients, staging, total;
    } host; /* beside the store's */
    bool pinned;
};

/* The store must have been made for the device and the same compute dtype, with gradients unless updates run
 * in the backward pass (mt_executor_updates_in_backward). All must outlive the executor. Errors:
 * MT_REASON_OUT_OF_MEMORY, MT_REASON_BAD_JOB, MT_REASON_DEVICE. */
int mt_executor_new(struct mt_store *store, struct mt_device *device, struct mt_pool *pool,
                    const struct mt_executor_options *options, struct mt_executor **executor,
                    struct mt_error *error);
/* Waits for everything; deferred updates are made. NULL is fine. */
void mt_executor_free(struct mt_executor *executor);

/* Whether these options need no gradients in the store (mt_store_options.no_gradients). */
static inline bool mt_executor_updates_in_backward(const struct mt_executor_options *options)
{
    return options->max_grad_norm == 0 && options->max_skipped_steps == 0;
}

/* One optimizer step. A batch with no target token is refused (-EINVAL, MT_REASON_BAD_DATA). Ids and labels
 * outside the vocabulary are refused before anything runs. An update that made a parameter not finite is
 * reported by the step after it, or by finish. After that, or a fault, the executor can only be freed. */
int mt_executor_step(struct mt_executor *executor, const struct mt_batch *batch, double learning_rate,
                     struct mt_step_result *result, struct mt_error *error);

/* Forward only. *loss_sum is the sum over target tokens. Sees every update of the steps before. */
int mt_executor_evaluate(struct mt_executor *executor, const struct mt_batch *batch, double *loss_sum,
                         size_t *target_tokens, struct mt_error *error);

/* The same pass, and what it computes on the way: all logits as fp32 in host memory, [batch->tokens,
 * vocab_size]. For tests and small models: exactly what training does not keep. */
int mt_executor_logits(struct mt_executor *executor, const struct mt_batch *batch, float *logits,
                       struct mt_error *error);

/* Waits for deferred updates. After it the store is whole: for checkpoints, at the end, at a pause. An update
 * that made a parameter not finite is an error (MT_REASON_NON_FINITE_LOSS). */
int mt_executor_finish(struct mt_executor *executor, struct mt_error *error);

void mt_executor_memory(const struct mt_executor *executor, struct mt_executor_memory *memory);
/* In how many pieces the output matrix comes to the device: 1 is all at once. */
size_t mt_executor_head_pieces(const struct mt_executor *executor);
/* Bytes over the bus since the start: weights and boundaries in, gradients and boundaries out. */
void mt_executor_traffic(const struct mt_executor *executor, size_t *weights_in, size_t *in, size_t *out);

#endif
