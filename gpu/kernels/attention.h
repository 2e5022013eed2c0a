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

#include "gpu/kernels/elementwise.h"

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

/* Which query and head a packed row is. Rows of a block are counted in 32 bits: kernels divide by these. */
struct mt_attention_rows {
    unsigned query, queries, group, kv_heads;
};

/* A block of queries and the block of keys that it meets: what the kernels between two products look at. */
struct mt_attention_tile {
    struct mt_attention_rows rows;
    const int32_t *first, *last;
    float *scores;
    int key, keys;   /* the first, and how many */
    unsigned stride; /* elements between rows of scores, whole packs */
    size_t dim;
    float softcap, rounded_scale;
    const float *alibi;
};

/* Of a block before it has met any keys. */
struct mt_attention_tile mt_cuda_attention_tile(const struct mt_attention_plan *plan,
                                                const struct mt_attention_block *block);
/* Its keys become those from `key` on. */
void mt_cuda_attention_meet(struct mt_attention_tile *tile, const struct mt_attention_block *block,
                            size_t key);
/* Of kernels with a warp a row. */
dim3 mt_cuda_attention_grid(const struct mt_attention_tile *tile);
/* Whether packs fit rows of head_dim elements in an operand whose rows and groups lie so far apart. */
bool mt_cuda_attention_packs(const struct mt_attention_plan *plan, const void *address, size_t stride,
                             size_t group_stride);
/* to [rows, keys] = alpha * rows * keys^T: `rows` are packed, `keys` those of the batch. */
int mt_cuda_attention_score(struct mt_stream *stream, const struct mt_attention_plan *plan,
                            const struct mt_attention_tile *tile, const void *rows, const void *keys,
                            size_t key_stride, float alpha, float *to);
/* The plan's out [rows, dim] (+)= alpha * weights [rows, keys] * values, those of the batch; = at the block's
 * first keys. */
int mt_cuda_attention_gather(struct mt_stream *stream, const struct mt_attention_plan *plan,
                             const struct mt_attention_tile *tile, const void *weights, const void *values,
                             size_t value_stride, float alpha, bool first_keys);

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
static inline __device__ float mt_attention_bend(float score, const struct mt_attention_bending &by, int back,
                                                 int place)
{
    if (by.softcap > 0)
        return by.softcap * tanhf(score / by.softcap);
    if (by.rounded_scale > 0)
        return score + by.rounded_scale * mt_attention_bf16(by.slope * mt_attention_bf16((float)place));
    return score + by.slope * (float)back;
}

static inline __device__ void mt_attention_place(const struct mt_attention_rows &rows, unsigned row,
                                                 size_t *query, size_t *kv_head, size_t *member)
{
    const unsigned a_head = rows.queries * rows.group, within = row % a_head;
    *kv_head = row / a_head;
    *query = rows.query + within / rows.group;
    *member = within % rows.group;
}

/* The row of a warp. */
struct mt_attention_row {
    size_t row; /* packed */
    size_t query, kv_head, member;
    unsigned lane;
};

/* False: there are no more rows. */
static inline __device__ bool mt_attention_own_row(const struct mt_attention_rows &rows,
                                                   struct mt_attention_row *own)
{
    const unsigned row = blockIdx.x * (blockDim.x / MT_WARP) + threadIdx.x / MT_WARP;
    own->row = row;
    own->lane = threadIdx.x % MT_WARP;
    if (row >= rows.kv_heads * rows.queries * rows.group)
        return false;
    mt_attention_place(rows, row, &own->query, &own->kv_head, &own->member);
    return true;
}

/* Where the row lies among [tokens, num_heads]. */
static inline __device__ size_t mt_attention_head(const struct mt_attention_rows &rows,
                                                  const struct mt_attention_row &own)
{
    return (own.query * rows.kv_heads + own.kv_head) * rows.group + own.member;
}

/* The keys of a row that lie in the tile, and those that the query sees, counted from the tile's first. */
struct mt_attention_range {
    int from, to; /* seen: may lie outside the tile */
    int end;      /* of those in the tile */
};

static inline __device__ struct mt_attention_range mt_attention_seen(const struct mt_attention_tile &tile,
                                                                     const struct mt_attention_row &own)
{
    struct mt_attention_range range = {tile.first[own.query] - tile.key, tile.last[own.query] - tile.key, 0};
    range.end = range.to < tile.keys ? range.to : tile.keys;
    return range;
}

/* A row's elements by its warp, in packs of V where rows are whole packs: of arrays in the workspace, which
 * are aligned. */
template <int V, typename Body>
static inline __device__ void mt_attention_each(size_t dim, unsigned lane, Body body)
{
    if (dim % V == 0)
        mt_each<V>(0, dim, lane, MT_WARP, body);
    else
        mt_each<1>(0, dim, lane, MT_WARP, body);
}

static inline __device__ struct mt_attention_bending mt_attention_bends(const struct mt_attention_tile &tile,
                                                                        const struct mt_attention_row &own)
{
    const struct mt_attention_bending bending = {
        tile.softcap, tile.alibi ? tile.alibi[own.kv_head * tile.rows.group + own.member] : 0,
        tile.rounded_scale};
    return bending;
}

#endif
