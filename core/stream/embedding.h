/* The embedding on the host's side: its table need not be on the device. */
#ifndef MT_STREAM_EMBEDDING_H
#define MT_STREAM_EMBEDDING_H

#include "core/base/pool.h"
#include "core/store/store.h"

#include <stddef.h>
#include <stdint.h>

/* A micro-batch's first boundary (mt_model.row_size): the stream's row t is row ids[t] of the embedding table
 * times the model's embedding_scale; beside it what layers read, of its own table. In the store's compute
 * type. out: host memory, row_size * tokens elements. */
void mt_embedding_gather(const struct mt_store *store, const int32_t *ids, size_t tokens, void *out);

/* gradient[ids[t]] += embedding_scale * dx[t] in token order, but for the row of the padding id; of both
 * tables. dx: host memory, as `out` above in `dtype`; gradient: of the embedding's group. */
void mt_embedding_scatter(const struct mt_model *model, const int32_t *ids, size_t tokens, const void *dx,
                          enum mt_dtype dtype, float *gradient, struct mt_pool *pool);

#endif
