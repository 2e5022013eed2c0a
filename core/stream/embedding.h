/* The embedding on the host's side: its table need not be on the device. */
#ifndef MT_STREAM_EMBEDDING_H
#define MT_STREAM_EMBEDDING_H

#include "core/base/pool.h"
#include "core/store/store.h"

#include <stddef.h>
#include <stdint.h>

/* A micro-batch's first boundary: row t of `out` is row ids[t] of the embedding table times the model's
 * embedding_scale; `beside` gets what layers read beside the stream, of its own table (mt_model.beside_size;
 * not the places of keys and values). In the store's compute type; host memory, hidden_size * tokens and
 * num_layers * layer_input_size * tokens elements. */
void mt_embedding_gather(const struct mt_store *store, const int32_t *ids, size_t tokens, void *out,
                         void *beside);

/* gradient[ids[t]] += embedding_scale * dx[t] in token order, but for the row of the padding id; of both
 * tables. dx, dbeside: host memory, as `out` and `beside` above in `dtype`; gradient: of the embedding's
 * group.
 */
void mt_embedding_scatter(const struct mt_model *model, const int32_t *ids, size_t tokens, const void *dx,
                          const void *dbeside, enum mt_dtype dtype, float *gradient, struct mt_pool *pool);

#endif
