/* The embedding on the host's side: its table need not be on the device. */
#ifndef MT_STREAM_EMBEDDING_H
#define MT_STREAM_EMBEDDING_H

#include "core/base/pool.h"
#include "core/store/store.h"

#include <stddef.h>
#include <stdint.h>

/* out[t] = row ids[t] of the embedding table times the model's embedding_scale, in the store's compute type.
 * out: host memory, [tokens, hidden]. */
void mt_embedding_gather(const struct mt_store *store, const int32_t *ids, size_t tokens, void *out);

/* gradient[ids[t]] += embedding_scale * dx[t] in token order, but for the row of the padding id. dx: host
 * memory, [tokens, hidden] in `dtype`; gradient: [vocab_size, hidden]. */
void mt_embedding_scatter(const struct mt_model *model, const int32_t *ids, size_t tokens, const void *dx,
                          enum mt_dtype dtype, float *gradient, struct mt_pool *pool);

#endif
