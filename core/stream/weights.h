/* Weights on their way in: bound in place where device memory is the host's, else copied into one of a few
 * buffers on a stream of their own, ahead of their use. Used by the executor and by generation.
 *
 * What travels as one is a cargo: a layer's slab, the head's small part (the final norm), a tile of the
 * output table. One thread drives it. For each cargo in the order of use: prefetch (ahead, while buffers are
 * free), acquire (operations put into the compute stream from now on may use it), release (after the last of
 * them was put there). A cargo that is still in its buffer is not copied again until mt_weights_invalidate.
 */
#ifndef MT_STREAM_WEIGHTS_H
#define MT_STREAM_WEIGHTS_H

#include "core/base/error.h"
#include "core/device/device.h"
#include "core/store/store.h"

struct mt_weights;

struct mt_weights_options {
    size_t num_buffers; /* for layers; 0: 2 */
    size_t tile_rows;   /* of the output table; 0: all of it is one tile */
};

/* The streams must outlive it. No device memory is taken when the device is the host. */
int mt_weights_new(struct mt_store *store, struct mt_device *device, struct mt_stream *copy_stream,
                   struct mt_stream *compute, const struct mt_weights_options *options,
                   struct mt_weights **weights, struct mt_error *error);
/* Both streams must be idle. */
void mt_weights_free(struct mt_weights *weights);

/* Cargoes by number. */
size_t mt_weights_layer(const struct mt_weights *weights, size_t layer);
size_t mt_weights_norm(const struct mt_weights *weights);
size_t mt_weights_tile(const struct mt_weights *weights, size_t tile);

size_t mt_weights_num_tiles(const struct mt_weights *weights);
size_t mt_weights_tile_rows(const struct mt_weights *weights); /* of each but the last */

/* Starts the copy if a buffer is free: *started (may be NULL) tells whether the cargo is there or on its way.
 */
int mt_weights_prefetch(struct mt_weights *weights, size_t cargo, bool *started);
/* The same in shares, so that other copies on this stream can pass between them: up to share `part` (from 0)
 * of `parts`. What is missing when the cargo is acquired is copied then. */
int mt_weights_prefetch_share(struct mt_weights *weights, size_t cargo, size_t part, size_t parts,
                              bool *started);
/* A layer's slab, the head group's slab (of which only the final norm may be touched), or the tile's first
 * row. */
int mt_weights_acquire(struct mt_weights *weights, size_t cargo, const void **address);
int mt_weights_release(struct mt_weights *weights, size_t cargo);
/* The store's masters have changed or are about to: what lies in the buffers is no longer used. Nothing may
 * be acquired. */
void mt_weights_invalidate(struct mt_weights *weights);

size_t mt_weights_copied_bytes(const struct mt_weights *weights); /* since the start */
size_t mt_weights_device_bytes(const struct mt_weights *weights);

#endif
