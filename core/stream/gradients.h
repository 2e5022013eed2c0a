/* Gradients on their way out. A gradient is summed over the step's micro-batches in one slab of device
 * memory, its parameters' sums of squares are taken there, and it leaves once, by one copy, to its place on
 * the host: the store, or, where updates consume it during the backward pass, one of a few landing slabs. On
 * a device whose memory is the host's it is summed in its place.
 *
 * A parcel is what leaves as one; parcels have the numbers of the cargoes of weights.h: a layer, the final
 * norm, a tile of the output table. One thread drives it but for mt_gradients_give_back. */
#ifndef MT_STREAM_GRADIENTS_H
#define MT_STREAM_GRADIENTS_H

#include "core/base/error.h"
#include "core/device/device.h"
#include "core/store/store.h"

struct mt_gradients;

struct mt_gradients_options {
    size_t num_slabs; /* on the device, and landing slabs; 0: 4 */
    size_t tile_rows; /* as the weights' */
    size_t sum_rows;  /* of a table whose squares are summed at a time: bits depend on it; 0: tile_rows */
};

/* Landing slabs are made where the store keeps no gradients. */
int mt_gradients_new(struct mt_store *store, struct mt_device *device, struct mt_stream *compute,
                     struct mt_stream *out, const struct mt_gradients_options *options,
                     struct mt_gradients **gradients, struct mt_error *error);
/* Both streams must be idle and no update under way. */
void mt_gradients_free(struct mt_gradients *gradients);

/* Where operations of the compute stream may write from now on: a layer's slab, the head group's slab (of
 * which only the final norm may be touched), or the tile's first row. NULL where all of it is frozen. May
 * wait on the host for a landing slab that an update still reads. */
int mt_gradients_begin(struct mt_gradients *gradients, size_t parcel, float **slab);
/* After the last of them was put into the stream. */
int mt_gradients_end(struct mt_gradients *gradients, size_t parcel);

/* Of a whole group, once its parcels have ended: where its gradient will lie on the host, and the event after
 * which it does (its sums too). NULL where all of it is frozen. */
float *mt_gradients_host(const struct mt_gradients *gradients, size_t group);
struct mt_event *mt_gradients_landed(const struct mt_gradients *gradients, size_t group);
/* Sums of squares on the host, by parameter index; not set for the embedding's table, which is finished on
 * the host. */
double *mt_gradients_sums(const struct mt_gradients *gradients);

/* The update of a group has read its gradient: the landing slab is free again. From any thread. */
void mt_gradients_give_back(struct mt_gradients *gradients, size_t group);

size_t mt_gradients_device_bytes(const struct mt_gradients *gradients);
size_t mt_gradients_host_bytes(const struct mt_gradients *gradients);
size_t mt_gradients_copied_bytes(const struct mt_gradients *gradients);

#endif
