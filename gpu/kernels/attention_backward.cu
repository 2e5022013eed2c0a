/* Causal grouped-query attention, backward: the probabilities are computed again from q, k and lse.
 *
 *   S as in the forward pass; P = e^(S - lse); dP = dout v^T; D = sum of dout * out (a row)
 *   dS = P (dP - D), times 1 - (S / softcap)^2; dv = P^T dout; dk = scale dS^T q; dq = scale dS k
 *
 * A block of queries meets the keys that it sees, a block at a time; dq is summed over the blocks of keys, dk
 * and dv, which cuBLAS adds up in fp32, over the blocks of queries, both in order. P and dS are rounded to
 * the data type, as operands of products must be.
 */
#include "gpu/kernels/attention.h"

struct gradient {
    struct mt_attention_tile tile;
    float *dscores, *lse, *d;
};

/* lse and D of a block's rows, a warp a row. */
template <typename T>
static __global__ void load_rows(struct gradient g, const T *packed_dout, const T *out, const float *lse)
{
    struct mt_attention_row own;
    if (!mt_attention_own_row(g.tile.rows, &own))
        return;
    const size_t head = mt_attention_head(g.tile.rows, own), dim = g.tile.dim;
    float sum = 0;
    for (size_t i = own.lane; i < dim; i += MT_WARP)
        sum += mt_widen(packed_dout[own.row * dim + i]) * mt_widen(out[head * dim + i]);
    sum = mt_warp_sum(sum);
    if (own.lane == 0) {
        g.d[own.row] = sum;
        g.lse[own.row] = lse[head];
    }
}

/* Scores become P, and dP becomes dS; both 0 where a key is not seen. */
template <typename T> static __global__ void gradient_block(struct gradient g, T *p, T *ds)
{
    struct mt_attention_row own;
    if (!mt_attention_own_row(g.tile.rows, &own))
        return;
    const long long from = (long long)g.tile.first[own.query] - (long long)g.tile.key;
    const long long to = (long long)g.tile.last[own.query] - (long long)g.tile.key;
    const float lse = g.lse[own.row], d = g.d[own.row], softcap = g.tile.softcap;
    const struct mt_attention_bending bending = mt_attention_bends(g.tile, own);
    for (size_t i = own.lane; i < g.tile.stride; i += MT_WARP) {
        const size_t at = own.row * g.tile.stride + i;
        const bool seen = (long long)i >= from && (long long)i < to && i < g.tile.keys;
        float probability = 0, slope = 0;
        if (seen) {
            const float score =
                mt_attention_bend(g.tile.scores[at], bending, (long long)i - (to - 1), (long long)i - from);
            const float bent = softcap > 0 ? score / softcap : 0, turn = 1.0f - bent * bent;
            probability = expf(score - lse);
            slope = probability * (g.dscores[at] - d) * turn;
        }
        p[at] = mt_narrow<T>(probability);
        ds[at] = mt_narrow<T>(slope);
    }
}

/* Packed rows of dq to where they belong. */
template <typename T>
static __global__ void store_queries(struct gradient g, const float *dq, T *to, size_t stride,
                                     size_t group_stride)
{
    struct mt_attention_row own;
    if (!mt_attention_own_row(g.tile.rows, &own))
        return;
    const size_t dim = g.tile.dim;
    to += own.query * stride + own.kv_head * group_stride + own.member * dim;
    for (size_t i = own.lane; i < dim; i += MT_WARP)
        to[i] = mt_narrow<T>(dq[own.row * dim + i]);
}

/* [kv_heads, tokens, dim] in fp32 to the rows of dk or dv. */
template <typename T>
static __global__ void store_keys(const float *from, T *to, size_t tokens, size_t kv_heads, size_t dim,
                                  size_t stride, size_t head_stride)
{
    for (size_t t = blockIdx.x; t < tokens; t += gridDim.x)
        for (size_t i = threadIdx.x; i < kv_heads * dim; i += blockDim.x) {
            const size_t head = i / dim, at = i % dim;
            to[t * stride + head * head_stride + at] = mt_narrow<T>(from[(head * tokens + t) * dim + at]);
        }
}

struct backward {
    struct mt_attention_plan plan;
    const void *dout;
    void *dq, *dk, *dv;
    size_t dq_stride, dk_stride, dv_stride;
};

/* to [keys, dim] += alpha * rows^T [keys, rows] * values [rows, dim], all key-value heads. */
static int add_to_keys(struct mt_stream *stream, const struct mt_attention_plan *plan,
                       const struct mt_attention_tile *tile, const void *rows, const void *values, float *to,
                       float alpha)
{
    const size_t num_rows = tile->rows.queries * tile->rows.group;
    struct mt_cuda_product product = mt_cuda_attention_product(plan);
    product.a = rows;
    product.b = values;
    product.c = to + tile->key * tile->dim;
    product.m = tile->keys;
    product.n = tile->dim;
    product.k = num_rows;
    product.lda = tile->stride;
    product.ldb = tile->dim;
    product.ldc = tile->dim;
    product.transpose_a = true;
    product.alpha = alpha;
    product.beta = 1;
    product.a_step = num_rows * tile->stride;
    product.b_step = num_rows * tile->dim;
    product.c_step = plan->tokens * tile->dim;
    return mt_cuda_multiply(stream, &product, "attention_backward");
}

template <typename T>
static int meet_keys(struct mt_stream *stream, const struct mt_attention_plan *plan, const struct gradient *g,
                     dim3 grid, bool first_keys)
{
    const struct mt_attention_args *a = &plan->args;
    const struct mt_attention_tile *tile = &g->tile;
    int code =
        mt_cuda_attention_score(stream, plan, tile, plan->q, a->k, a->k_stride, a->scale, plan->scores);
    if (!code)
        code = mt_cuda_attention_score(stream, plan, tile, plan->dout, a->v, a->v_stride, 1, plan->dscores);
    if (code)
        return code;
    MT_LAUNCH((gradient_block<T>), grid, dim3(MT_ATTENTION_THREADS), 0, stream->handle, *g,
              static_cast<T *>(plan->p), static_cast<T *>(plan->ds));
    code = add_to_keys(stream, plan, tile, plan->p, plan->dout, plan->dv, 1);
    if (!code)
        code = add_to_keys(stream, plan, tile, plan->ds, plan->q, plan->dk, a->scale);
    return code ? code
                : mt_cuda_attention_gather(stream, plan, tile, plan->ds, a->k, a->k_stride, a->scale,
                                           first_keys);
}

template <typename T>
static int run_block(struct mt_stream *stream, const struct backward *b,
                     const struct mt_attention_block *block)
{
    const struct mt_attention_plan *plan = &b->plan;
    const struct mt_attention_args *a = &plan->args;
    struct gradient g = {mt_cuda_attention_tile(plan, block), plan->dscores, plan->lse, plan->d};
    const dim3 grid = mt_cuda_attention_grid(&g.tile), threads(MT_ATTENTION_THREADS);
    mt_cuda_attention_pack(stream, plan, block, plan->q, a->q, a->q_stride, a->q_group_stride);
    mt_cuda_attention_pack(stream, plan, block, plan->dout, b->dout, a->num_heads * a->head_dim,
                           plan->group * a->head_dim);
    MT_LAUNCH((load_rows<T>), grid, threads, 0, stream->handle, g, static_cast<const T *>(plan->dout),
              static_cast<const T *>(a->out), static_cast<const float *>(a->lse));
    for (size_t key = block->key; key < block->key_end; key += MT_CUDA_ATTENTION_KEYS) {
        mt_cuda_attention_meet(&g.tile, block, key);
        const int code = meet_keys<T>(stream, plan, &g, grid, key == block->key);
        if (code)
            return code;
    }
    MT_LAUNCH((store_queries<T>), grid, threads, 0, stream->handle, g, static_cast<const float *>(plan->out),
              static_cast<T *>(b->dq), b->dq_stride, a->q_group_stride);
    return 0;
}

template <typename T> static int run(struct mt_stream *stream, const struct backward *b)
{
    const struct mt_attention_plan *plan = &b->plan;
    const struct mt_attention_args *a = &plan->args;
    const size_t sums = plan->tokens * a->num_kv_heads * a->head_dim * sizeof(float);
    mt_cuda_attention_ranges(stream, plan);
    int code = mt_cuda_fill_zero(stream, plan->dk, sums);
    if (!code)
        code = mt_cuda_fill_zero(stream, plan->dv, sums);
    struct mt_attention_block block;
    size_t query = 0, document = 0;
    while (!code && mt_cuda_attention_next(plan, &query, &document, &block))
        code = run_block<T>(stream, b, &block);
    if (code)
        return code;
    const dim3 grid(mt_cuda_blocks(plan->tokens, 65535)), threads(MT_ATTENTION_THREADS);
    MT_LAUNCH((store_keys<T>), grid, threads, 0, stream->handle, static_cast<const float *>(plan->dk),
              static_cast<T *>(b->dk), plan->tokens, a->num_kv_heads, a->head_dim, b->dk_stride,
              a->kv_head_stride);
    MT_LAUNCH((store_keys<T>), grid, threads, 0, stream->handle, static_cast<const float *>(plan->dv),
              static_cast<T *>(b->dv), plan->tokens, a->num_kv_heads, a->head_dim, b->dv_stride,
              a->kv_head_stride);
    return mt_cuda_end(stream, "attention_backward");
}

int mt_cuda_attention_backward(struct mt_stream *stream, const struct mt_attention_backward_args *args)
{
    struct backward b = {};
    if (!args->forward.num_documents)
        return 0;
    int code = mt_cuda_attention_plan(&b.plan, &args->forward, true);
    if (code)
        return code;
    const struct mt_attention_args *a = &b.plan.args;
    const size_t q_cols = (a->num_kv_heads - 1) * a->q_group_stride + b.plan.group * a->head_dim;
    const size_t k_cols = (a->num_kv_heads - 1) * a->kv_head_stride + a->head_dim;
    b.dout = args->dout;
    b.dq = args->dq;
    b.dk = args->dk;
    b.dv = args->dv;
    b.dq_stride = args->dq_stride ? args->dq_stride : q_cols;
    b.dk_stride = args->dk_stride ? args->dk_stride : k_cols;
    b.dv_stride = args->dv_stride ? args->dv_stride : k_cols;
    /* Gradients of keys whose queries are not all there would be incomplete. */
    if (b.plan.cut_at_documents || b.dq_stride < q_cols || b.dk_stride < k_cols || b.dv_stride < k_cols)
        return -EINVAL;
    if (!b.plan.tokens)
        return 0;
    if (!b.dout || !b.dq || !b.dk || !b.dv || !a->lse)
        return -EINVAL;
    code = mt_cuda_begin(stream);
    if (code)
        return code;
    return a->dtype == MT_BF16 ? run<mt_bf16>(stream, &b) : run<float>(stream, &b);
}
