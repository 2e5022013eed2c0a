/* What lies between layers: the residual stream, and what layers read beside it (mt_model.beside_size), of
 * which there is one copy for all layers, on the device. Each layer's input is kept for the backward pass,
 * every interval-th of them, on the device or offloaded to the host and fetched back ahead of its use;
 * between two layers it stands in one of two buffers for the step's tokens, and the gradient that comes back
 * in a third place.
 *
 * Boundary i is the input of layer i; boundary num_layers is the head's. One thread drives it. */
#ifndef MT_STREAM_BOUNDARIES_H
#define MT_STREAM_BOUNDARIES_H

#include "core/base/error.h"
#include "core/device/device.h"
#include "core/stream/device_util.h"
#include "core/stream/microbatch.h"

#include <stdbool.h>

struct mt_boundaries;

struct mt_boundaries_options {
    size_t num_layers, interval;
    size_t row_bytes;                /* hidden_size elements */
    size_t beside_bytes, side_bytes; /* of a token: all that is beside, and what of it the embedding gives */
    bool offload;                    /* only where the device's memory is apart */
    bool forward_only;               /* nothing is ever kept */
};

int mt_boundaries_new(const struct mt_boundaries_options *options, const struct mt_microbatches *batches,
                      struct mt_device *device, struct mt_stream *in, struct mt_stream *compute,
                      struct mt_stream *out, struct mt_boundaries **boundaries, struct mt_error *error);
/* All streams must be idle. */
void mt_boundaries_free(struct mt_boundaries *boundaries);

/* Starts a pass. `keep`: a backward pass will follow. */
void mt_boundaries_start(struct mt_boundaries *boundaries, bool keep);
/* Host memory for the embedding's rows of a micro-batch, boundary 0, and for what it gives beside them; and
 * their way to the device once all stand there. */
void *mt_boundaries_staging(struct mt_boundaries *boundaries, size_t micro);
void *mt_boundaries_beside_staging(struct mt_boundaries *boundaries, size_t micro);
int mt_boundaries_upload(struct mt_boundaries *boundaries);

/* Where boundary i of a micro-batch stands while the layers around it are visited forward. */
void *mt_boundaries_at(const struct mt_boundaries *boundaries, size_t i, size_t micro);
/* What is beside the stream, and its gradient. */
void *mt_boundaries_beside(const struct mt_boundaries *boundaries, size_t micro);
void *mt_boundaries_beside_gradient(const struct mt_boundaries *boundaries, size_t micro);
/* Around the operations that write a boundary. */
int mt_boundaries_before_write(struct mt_boundaries *boundaries, size_t i, size_t micro);
int mt_boundaries_after_write(struct mt_boundaries *boundaries, size_t i, size_t micro);

/* Backward: kept boundaries in the order of the segments from the last to the first, micro-batches from 0 in
 * each. */
int mt_boundaries_fetch(struct mt_boundaries *boundaries, size_t i, size_t micro, const void **x);
int mt_boundaries_fetched_done(struct mt_boundaries *boundaries, size_t i, size_t micro);

/* The gradient of the boundary at work; to be called once a micro-batch before the head writes the first one.
 */
int mt_boundaries_before_gradient(struct mt_boundaries *boundaries, size_t micro);
void *mt_boundaries_gradient(const struct mt_boundaries *boundaries, size_t micro);
/* Puts the way of boundary 0's gradient to the host into the out stream; once that has done it, the gradient
 * lies in the other two's memory. */
int mt_boundaries_download_gradient(struct mt_boundaries *boundaries);
const void *mt_boundaries_downloaded(const struct mt_boundaries *boundaries, size_t micro);
const void *mt_boundaries_beside_downloaded(const struct mt_boundaries *boundaries, size_t micro);

/* Whether inputs come back from the host, on the stream of the weights. */
bool mt_boundaries_fetches(const struct mt_boundaries *boundaries);
size_t mt_boundaries_device_bytes(const struct mt_boundaries *boundaries);
size_t mt_boundaries_host_bytes(const struct mt_boundaries *boundaries);
void mt_boundaries_copied_bytes(const struct mt_boundaries *boundaries, size_t *in, size_t *out);

#endif
