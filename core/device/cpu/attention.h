/* What the two passes of attention share: how documents are cut into blocks. */
#ifndef MT_DEVICE_CPU_ATTENTION_H
#define MT_DEVICE_CPU_ATTENTION_H

#include "core/base/dtype.h"
#include "core/base/size.h"
#include "core/device/cpu/cpu.h"

/* Keys a block. */
#define MT_ATTENTION_KEYS 128u
/* The backward pass deals the key blocks of a document out to so many slices, each with a dq of its own. */
#define MT_ATTENTION_SLICES 4u

/* A block of queries with all query heads of one key-value head: rows (query, head) in that order. */
struct mt_attention_block {
    size_t query, queries;       /* in the batch */
    size_t key, keys;            /* the document's keys, in the batch */
    size_t position;             /* of the first query among the document's keys */
    size_t visible, visible_end; /* keys of the document that any query of the block sees */
};

struct mt_attention_range {
    size_t first, last; /* [first, last) of the document's keys that a query sees */
};

static inline size_t mt_attention_group(const struct mt_attention_args *a)
{
    return a->num_heads / a->num_kv_heads;
}

/* Columns of a row: the queries, or the keys and values, up to the last of the heads' own. */
static inline size_t mt_attention_q_cols(const struct mt_attention_args *a)
{
    return (a->num_kv_heads - 1) * a->q_group_stride + mt_attention_group(a) * a->head_dim;
}
static inline size_t mt_attention_k_cols(const struct mt_attention_args *a)
{
    return (a->num_kv_heads - 1) * a->kv_head_stride + a->head_dim;
}

/* Queries a block: so that a block has about 192 rows whatever the number of heads that share keys. */
static inline size_t mt_attention_queries(const struct mt_attention_args *a)
{
    return mt_size_min(128, mt_size_max(16, 192 / mt_attention_group(a)));
}

static inline struct mt_attention_range mt_attention_sees(const struct mt_attention_args *a, size_t position)
{
    const size_t first = a->window && position + 1 > a->window ? position + 1 - a->window : 0;
    return (struct mt_attention_range){first, position + 1};
}

/* Block `index` of document `document`. */
struct mt_attention_block mt_attention_block(const struct mt_attention_args *a, size_t document,
                                             size_t index);

/* Checks shapes and document bounds (which must be host memory) and fills in the strides; -EINVAL, -EIO. */
int mt_attention_check(struct mt_stream *stream, const char *operation, struct mt_attention_args *a);

/* Rows (query, head) of a [T, heads, head_dim] tensor, widened, times `scale`, into `to`
 * [queries * group, head_dim]. */
MT_INLINE void mt_attention_gather(float *to, const void *from, size_t stride, size_t query, size_t queries,
                                   size_t first_col, size_t cols, float scale, bool narrow)
{
    for (size_t t = 0; t < queries; t++)
        for (size_t i = 0; i < cols; i += MT_LANES)
            mt_vf_store_part(
                to + t * cols + i,
                scale * mt_data_load(from, (query + t) * stride + first_col + i, cols - i, narrow), cols - i);
}

/* A block of keys or values of one head: in place when they are fp32, else widened into `room`
 * [keys, head_dim]. */
MT_INLINE const float *mt_attention_keys(float *room, const void *from, size_t stride, size_t key,
                                         size_t keys, size_t first_col, size_t cols, bool narrow,
                                         size_t *row_stride)
{
    if (!narrow) {
        *row_stride = stride;
        return (const float *)from + key * stride + first_col;
    }
    mt_attention_gather(room, from, stride, key, keys, first_col, cols, 1, true);
    *row_stride = cols;
    return room;
}

MT_INLINE float mt_attention_bf16(float value)
{
    return mt_bf16_to_float(mt_bf16_from_float(value));
}

/* scores [queries * group, keys] of a block of queries against the document's keys from `key` on. Where a key
 * is not seen, the sum is not used. */
MT_INLINE void mt_attention_add_alibi(const struct mt_attention_args *a, float *scores,
                                      const struct mt_attention_block *block, size_t kv_head, size_t key,
                                      size_t keys)
{
    const size_t group = mt_attention_group(a);
    for (size_t row = 0; row < block->queries * group; row++) {
        const float slope = a->alibi[kv_head * group + row % group];
        const size_t query = block->position + row / group;
        const float place = (float)key - (float)query;
        if (a->alibi_bf16)
            for (size_t i = 0; i < keys; i++)
                scores[row * keys + i] +=
                    a->scale * mt_attention_bf16(slope * mt_attention_bf16((float)(key + i)));
        else
            for (size_t i = 0; i < keys; i++)
                scores[row * keys + i] += slope * (place + (float)i);
    }
}

#endif
