/* AdamW (Loshchilov and Hutter, 2019) as torch.optim.AdamW computes it in fp32 on one tensor at a time, in
 * one fused pass over a slab: the gradient is read once, moments and master are read and written once. */
#ifndef MT_OPTIM_ADAMW_H
#define MT_OPTIM_ADAMW_H

#include "core/base/pool.h"
#include "core/store/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mt_adamw {
    double beta1, beta2, eps, weight_decay;
};

/* What one update is made with. */
struct mt_adamw_step {
    double learning_rate;
    double grad_scale; /* the clip factor; 1 for none */
    uint64_t update;   /* number of this update, from 1: the bias corrections' exponent */
};

/* Updates one group from `gradient` (indexed by train_offset; the store's own or a slab of the executor's).
 * Returns false when a new master is not finite, or its high half is not when split: the state is then spoilt
 * and must not be saved. The bits do not depend on the number of threads. */
bool mt_adamw_update(const struct mt_adamw *adamw, const struct mt_adamw_step *step, struct mt_store *store,
                     size_t group, const float *gradient, struct mt_pool *pool);

/* The pass itself over plain arrays, on the calling thread; for benchmarks and tests. */
bool mt_adamw_pass(const struct mt_adamw *adamw, const struct mt_adamw_step *step, bool decay, float *master,
                   float *moment1, float *moment2, const float *gradient, size_t count);

/* min(1, max_norm / (norm + 1e-6)), in fp32 as clip_grad_norm_ has it; 1 when max_norm is 0. */
double mt_clip_factor(double max_norm, double norm);

#endif
