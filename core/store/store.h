/* The host parameter store: for each group of the model one contiguous slab of host memory that holds the
 * fp32 master, both Adam moments and the gradient. When the device computes in bf16 the master is split: an
 * array of bf16 high halves, which is what travels to the device, and an array of int16 remainders from which
 * the fp32 bits are rebuilt exactly (split.h). So a parameter costs 12 bytes plus its gradient either way.
 *
 * Not locked: callers see to it that a group is not updated while it is read (the executor's
 * mt_executor_finish). */
#ifndef MT_STORE_STORE_H
#define MT_STORE_STORE_H

#include "core/base/error.h"
#include "core/base/pool.h"
#include "core/device/device.h"
#include "core/model/model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mt_store;

struct mt_store_options {
    enum mt_dtype compute_dtype; /* MT_F32: plain master; MT_BF16: split master */
    bool weights_only;           /* no moments, no gradients: evaluation, generation, export */
    bool no_gradients;    /* moments but no gradients: updates in the backward pass consume them from the
                             executor's slabs */
    struct mt_pool *pool; /* whose threads take a new store's memory; NULL: the caller's does */
};

enum mt_store_part {
    MT_STORE_MASTER,
    MT_STORE_MOMENT1,  /* exp_avg */
    MT_STORE_MOMENT2,  /* exp_avg_sq */
    MT_STORE_GRADIENT, /* of the last step, before clipping */
};

/* One group's arrays. Weights are indexed by mt_parameter.offset, the others by train_offset. */
struct mt_slab {
    float *master;            /* [group->count], or NULL when split */
    uint16_t *high;           /* [group->count], or NULL when plain */
    int16_t *remainder;       /* [group->count], or NULL when plain */
    float *moment1, *moment2; /* [group->train_count] or NULL */
    float *gradient;          /* [group->train_count] or NULL */
};

/* Allocates all slabs through the device (pinned where that helps), zeroed. The model and the device must
 * outlive the store. Errors: MT_REASON_OUT_OF_MEMORY with the bytes. */
int mt_store_new(const struct mt_model *model, struct mt_device *device,
                 const struct mt_store_options *options, struct mt_store **store, struct mt_error *error);
void mt_store_free(struct mt_store *store);

const struct mt_model *mt_store_model(const struct mt_store *store);
const struct mt_slab *mt_store_slab(const struct mt_store *store, size_t group);
enum mt_dtype mt_store_compute_dtype(const struct mt_store *store);

/* What travels to the device for a group, in the compute type. */
const void *mt_store_transfer_source(const struct mt_store *store, size_t group, size_t *bytes);

/* Elements first .. first + count - 1 of a parameter as fp32. Reading moments or gradients that are not there
 * (frozen, weights_only, no_gradients): -ENODATA. Writing a master that is not finite, or whose high half
 * would not be when split: -ERANGE, naming the parameter. */
int mt_store_read(const struct mt_store *store, const struct mt_parameter *parameter, enum mt_store_part part,
                  size_t first, size_t count, float *values, struct mt_error *error);
int mt_store_write(struct mt_store *store, const struct mt_parameter *parameter, enum mt_store_part part,
                   size_t first, size_t count, const float *values, struct mt_error *error);
/* The same for who can make values where they shall stand: *values is the master's own memory. NULL where it
 * is split. What was made is to be checked, by elements as above. */
int mt_store_begin_write(struct mt_store *store, const struct mt_parameter *parameter, size_t first,
                         size_t count, float **values, struct mt_error *error);
int mt_store_check_write(const struct mt_store *store, const struct mt_parameter *parameter, size_t first,
                         size_t count, struct mt_error *error);

/* All masters set to mt_model_init_values; moments 0, updates 0. The same bits for every number of threads.
 */
int mt_store_init(struct mt_store *store, uint64_t seed, struct mt_pool *pool, struct mt_error *error);

/* Optimizer updates made so far: Adam's step count. Saved and restored by checkpoints. */
uint64_t mt_store_updates(const struct mt_store *store);
void mt_store_set_updates(struct mt_store *store, uint64_t updates);

/* Host bytes by purpose, as allocated. */
struct mt_store_bytes {
    size_t master, moments, gradients, total;
};
void mt_store_count_bytes(const struct mt_model *model, const struct mt_store_options *options,
                          struct mt_store_bytes *bytes);

#endif
