/* Weights on their way in: the slabs of groups, bound in place where device memory is the host's, else copied
 * into one of a few buffers on a stream of their own, ahead of their use. Used by the executor and by
 * generation.
 *
 * One thread drives it. Protocol: for each group in the order of use: prefetch (any number ahead, while
 * buffers are free), acquire (its operations may now be put into the compute stream), release (after the last
 * of them was put there). */
#ifndef MT_STREAM_WEIGHTS_H
#define MT_STREAM_WEIGHTS_H

#include "core/base/error.h"
#include "core/device/device.h"
#include "core/store/store.h"

struct mt_weights;

/* `num_buffers` of the largest size among the model's layers (0: 2), and one for each of the embedding and
 * the head where `tables_resident`. Device memory is taken only when the device is not the host.
 * `copy_stream` carries the copies, `compute` the uses; both must outlive it. */
int mt_weights_new(struct mt_store *store, struct mt_device *device, struct mt_stream *copy_stream,
                   struct mt_stream *compute, size_t num_buffers, struct mt_weights **weights,
                   struct mt_error *error);
void mt_weights_free(struct mt_weights *weights);

/* Starts the copy of a group if a buffer is free; does nothing where it is already there or on its way.
 * Returns false when no buffer was free. */
bool mt_weights_prefetch(struct mt_weights *weights, size_t group);

/* The group's slab in device memory, usable by operations put into the compute stream from now on. */
int mt_weights_acquire(struct mt_weights *weights, size_t group, const void **slab);
/* After the last use was put into the compute stream. */
int mt_weights_release(struct mt_weights *weights, size_t group);

/* Bytes of weights that have crossed so far. */
size_t mt_weights_copied_bytes(const struct mt_weights *weights);
size_t mt_weights_device_bytes(const struct mt_weights *weights);

#endif
