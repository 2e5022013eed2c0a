/* What the two passes of attention share: how the work is cut into blocks, where things lie in the workspace,
 * and the kernels that bring rows into order.
 *
 * A block of queries is a stretch of the batch's tokens with all heads; its rows (key-value head, query, head
 * of the group) are packed one after another, so that one batch of products, a member a key-value head,
 * serves it. It meets the keys that any of its queries sees, a block at a time; what single rows do not see
 * is masked by two numbers a query, the first and the last key that it sees. So documents cost no launches of
 * their own, and the memory is linear in the length.
 */
#ifndef MT_GPU_KERNELS_ATTENTION_H
#define MT_GPU_KERNELS_ATTENTION_H

#include "gpu/kernels/kernel.h"

#define MT_ATTENTION_THREADS 256 /* eight warps, a row each */

/* With strides filled in, counted in elements. */
struct mt_attention_plan {
    struct mt_attention_args args;
    size_t tokens, keys, group;
    bool cut_at_documents; /* decoding: documents have long keys and few queries */
    /* In the workspace: */
    int32_t *first, *last; /* [tokens]: the keys that a query sees are [first, last) */
    void *q;               /* [heads * queries, head_dim] */
    float *scores;         /* [heads * queries, MT_CUDA_ATTENTION_KEYS] */
    void *p;               /* likewise, data; the scores themselves in fp32 */
    float *out;            /* [heads * queries, head_dim] */
    float *max, *sum;      /* [heads * queries] */
    void *dout;            /* as q; the rest for the backward pass */
    float *dscores;        /* as scores */
    void *ds;              /* as p */
    float *lse, *d;        /* [heads * queries] */
    float *dk, *dv;        /* [kv_heads, tokens, head_dim] */
};

/* Queries [query, query + queries) and the keys that any of them sees. */
struct mt_attention_block {
    size_t query, queries, key, key_end;
};

/* Fills in strides and bounds; -EINVAL as the reference does. */
int mt_cuda_attention_plan(struct mt_attention_plan *plan, const struct mt_attention_args *args,
                           bool backward);
/* The ranges of all queries, into the workspace. */
void mt_cuda_attention_ranges(struct mt_stream *stream, const struct mt_attention_plan *plan);
/* The next block from *query on, of document *document; both move on. False at the end. */
bool mt_cuda_attention_next(const struct mt_attention_plan *plan, size_t *query, size_t *document,
                            struct mt_attention_block *block);

/* q's rows (or dout's) of a block, packed. */
void mt_cuda_attention_pack(struct mt_stream *stream, const struct mt_attention_plan *plan,
                            const struct mt_attention_block *block, void *to, const void *from, size_t stride,
                            size_t group_stride);

/* One product for all key-value heads: rows of a block against keys. */
static inline struct mt_cuda_product mt_cuda_attention_product(const struct mt_attention_plan *plan)
{
    struct mt_cuda_product product = {};
    product.batch = plan->args.num_kv_heads;
    product.alpha = 1;
    product.operands = plan->args.dtype;
    product.result = MT_F32;
    return product;
}

/* Elements between rows of scores: whole packs. */
static inline size_t mt_cuda_attention_score_stride(size_t keys)
{
    return (keys + 7) / 8 * 8;
}

/* ---- in kernels ---- */

static inline __device__ float mt_attention_bf16(float value)
{
    return mt_widen(mt_narrow<mt_bf16>(value));
}

/* Of one head: at most one of softcap and slope is not 0. */
struct mt_attention_bending {
    float softcap, slope;
    float rounded_scale; /* > 0: alibi_bf16, and this is the scale */
};

/* What becomes of a scaled score. `back` is how far the key lies behind the query (0 or below), `place` how
 * far behind its document's first key. */
static inline __device__ float mt_attention_bend(float score, const struct mt_attention_bending &by,
                                                 long long back, long long place)
{
    if (by.softcap > 0)
        return by.softcap * tanhf(score / by.softcap);
    if (by.rounded_scale > 0)
        return score + by.rounded_scale * mt_attention_bf16(by.slope * mt_attention_bf16((float)place));
    return score + by.slope * (float)back;
}

/* Which query and head a packed row is. */
struct mt_attention_rows {
    size_t query, queries, group, kv_heads;
};

static inline __device__ void mt_attention_place(const struct mt_attention_rows &rows, size_t row,
                                                 size_t *query, size_t *kv_head, size_t *member)
{
    const size_t a_head = rows.queries * rows.group;
    *kv_head = row / a_head;
    *query = rows.query + row % a_head / rows.group;
    *member = row % rows.group;
}

#endif
