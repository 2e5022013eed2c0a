/* A step's sequences cut into micro-batches: host arrays of all tokens one after another, and their copies on
 * the device where that is another memory. */
#ifndef MT_STREAM_MICROBATCH_H
#define MT_STREAM_MICROBATCH_H

#include "core/base/error.h"
#include "core/data/batch.h"
#include "core/model/layer.h"
#include "core/stream/device_util.h"

struct mt_microbatch {
    size_t first;        /* token, among all of the step */
    struct mt_rows rows; /* its own */
};

struct mt_microbatches {
    size_t max_tokens, max_micro_tokens, max_count, micro_batch_size;
    size_t count, tokens, target_tokens;
    struct mt_microbatch *items;               /* [max_count] */
    int32_t *ids;                              /* host, [max_tokens] */
    int32_t *labels, *positions;               /* host, [max_tokens] */
    int32_t *device_labels, *device_positions; /* the same arrays where the device is the host */
    int32_t *document_starts;                  /* host, [max_tokens + max_count] */
};

/* Memory from `blocks`; `separate`: the device has its own. */
int mt_microbatches_init(struct mt_microbatches *all, struct mt_blocks *blocks, bool separate,
                         size_t micro_batch_size, size_t max_sequences, size_t max_sequence_tokens,
                         struct mt_error *error);
void mt_microbatches_clear(struct mt_microbatches *all);

/* Cuts a batch. Refuses what does not fit (-E2BIG) and what no data reader may hand over (-EINVAL): an id or
 * a label outside the vocabulary, an empty sequence, broken document bounds. */
int mt_microbatches_load(struct mt_microbatches *all, const struct mt_batch *batch, size_t vocab_size,
                         struct mt_error *error);
/* Puts labels and positions on the device. */
int mt_microbatches_upload(const struct mt_microbatches *all, struct mt_device *device,
                           struct mt_stream *stream);

#endif
