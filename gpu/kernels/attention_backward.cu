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
    struct mt_attention_rows rows;
    const int32_t *first, *last;
    float *scores, *dscores, *lse, *d;
    size_t key, keys, stride, dim;
    float softcap, rounded_scale;
    const float *alibi;
};

/* lse and D of a block's rows, a warp a row. */
template <typename T>
static __global__ void load_rows(struct gradient g, const T *packed_dout, const T *out, const float *lse)
{
    const size_t row = (size_t)blockIdx.x * (blockDim.x / MT_WARP) + threadIdx.x / MT_WARP;
    if (row >= g.rows.kv_heads * g.rows.queries * g.rows.group)
        return;
    const unsigned lane = threadIdx.x % MT_WARP;
    size_t query, kv_head, member;
    mt_attention_place(g.rows, row, &query, &kv_head, &member);
    const size_t head = (query * g.rows.kv_heads + kv_head) * g.rows.group + member;
    float sum = 0;
    for (size_t i = lane; i < g.dim; i += MT_WARP)
        sum += mt_widen(packed_dout[row * g.dim + i]) * mt_widen(out[head * g.dim + i]);
    sum = mt_warp_sum(sum);
    if (lane == 0) {
        g.d[row] = sum;
        g.lse[row] = lse[head];
    }
}

/* Scores become P, and dP becomes dS; both 0 where a key is not seen. */
template <typename T> static __global__ void gradient_block(struct gradient g, T *p, T *ds)
{
    const size_t row = (size_t)blockIdx.x * (blockDim.x / MT_WARP) + threadIdx.x / MT_WARP;
    if (row >= g.rows.kv_heads * g.rows.queries * g.rows.group)
        return;
    size_t query, kv_head, member;
    mt_attention_place(g.rows, row, &query, &kv_head, &member);
    const long long from = (long long)g.first[query] - (long long)g.key;
    const long long to = (long long)g.last[query] - (long long)g.key;
    const float lse = g.lse[row], d = g.d[row];
    const struct mt_attention_bending bending = {
        g.softcap, g.alibi ? g.alibi[kv_head * g.rows.group + member] : 0, g.rounded_scale};
    for (size_t i = threadIdx.x % MT_WARP; i < g.stride; i += MT_WARP) {
        const size_t at = row * g.stride + i;
        const bool seen = (long long)i >= from && (long long)i < to && i < g.keys;
        float probability = 0, slope = 0;
        if (seen) {
            const float score =
                mt_attention_bend(g.scores[at], bending, (long long)i - (to - 1), (long long)i - from);
            const float bent = g.softcap > 0 ? score / g.softcap : 0, turn = 1.0f - bent * bent;
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
    const size_t row = (size_t)blockIdx.x * (blockDim.x / MT_WARP) + threadIdx.x / MT_WARP;
    if (row >= g.rows.kv_heads * g.rows.queries * g.rows.group)
        return;
    size_t query, kv_head, member;
    mt_attention_place(g.rows, row, &query, &kv_head, &member);
    for (size_t i = threadIdx.x % MT_WARP; i < g.dim; i += MT_WARP)
        to[query * stride + kv_head * group_stride + member * g.dim + i] = mt_narrow<T>(dq[row * g.dim + i]);
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

/* Where a block of keys begins in the sums of dk or dv. */
static float *sum_at(const struct mt_attention_plan *plan, float *sums, size_t key)
{
    return sums + key * plan->args.head_dim;
}

/* to [keys, dim] += alpha * rows^T [keys, rows] * values [rows, dim], all key-value heads. */
static int add_to_keys(struct mt_stream *stream, const struct mt_attention_plan *plan,
                       const struct gradient *g, const void *rows, const void *values, float *to,
                       size_t num_rows, float alpha)
{
    struct mt_cuda_product product = mt_cuda_attention_product(plan);
    product.a = rows;
    product.b = values;
    product.c = sum_at(plan, to, g->key);
    product.m = g->keys;
    product.n = g->dim;
    product.k = num_rows;
    product.lda = g->stride;
    product.ldb = g->dim;
    product.ldc = g->dim;
    product.transpose_a = true;
    product.alpha = alpha;
    product.beta = 1;
    product.a_step = num_rows * g->stride;
    product.b_step = num_rows * g->dim;
    product.c_step = plan->tokens * g->dim;
    return mt_cuda_multiply(stream, &product, "attention_backward");
}

/* to [rows, keys] = alpha * rows of a block * keys^T. */
static int score(struct mt_stream *stream, const struct mt_attention_plan *plan, const struct gradient *g,
                 const void *rows, const void *keys, size_t key_stride, float *to, size_t num_rows,
                 float alpha)
{
    struct mt_cuda_product product = mt_cuda_attention_product(plan);
    product.a = rows;
    product.b = static_cast<const char *>(keys) + g->key * key_stride * mt_dtype_bytes(plan->args.dtype);
    product.c = to;
    product.m = num_rows;
    product.n = g->keys;
    product.k = g->dim;
    product.lda = g->dim;
    product.ldb = key_stride;
    product.ldc = g->stride;
    product.transpose_b = true;
    product.alpha = alpha;
    product.a_step = num_rows * g->dim;
    product.b_step = plan->args.kv_head_stride;
    product.c_step = num_rows * g->stride;
    return mt_cuda_multiply(stream, &product, "attention_backward");
}

static int add_to_queries(struct mt_stream *stream, const struct mt_attention_plan *plan,
                          const struct gradient *g, size_t num_rows, bool first)
{
    const struct mt_attention_args *a = &plan->args;
    struct mt_cuda_product product = mt_cuda_attention_product(plan);
    product.a = plan->ds;
    product.b = static_cast<const char *>(a->k) + g->key * a->k_stride * mt_dtype_bytes(a->dtype);
    product.c = plan->out;
    product.m = num_rows;
    product.n = g->dim;
    product.k = g->keys;
    product.lda = g->stride;
    product.ldb = a->k_stride;
    product.ldc = g->dim;
    product.alpha = a->scale;
    product.beta = first ? 0.0f : 1.0f;
    product.a_step = num_rows * g->stride;
    product.b_step = a->kv_head_stride;
    product.c_step = num_rows * g->dim;
    return mt_cuda_multiply(stream, &product, "attention_backward");
}

template <typename T>
static int run_block(struct mt_stream *stream, const struct backward *b,
                     const struct mt_attention_block *block)
{
    const struct mt_attention_plan *plan = &b->plan;
    const struct mt_attention_args *a = &plan->args;
    const size_t rows = block->queries * plan->group, dim = a->head_dim;
    const dim3 grid(
        static_cast<unsigned>(mt_cuda_ceil_div(rows * a->num_kv_heads, MT_ATTENTION_THREADS / MT_WARP))),
        threads(MT_ATTENTION_THREADS);
    struct gradient g = {};
    g.rows = {block->query, block->queries, plan->group, a->num_kv_heads};
    g.first = plan->first;
    g.last = plan->last;
    g.scores = plan->scores;
    g.dscores = plan->dscores;
    g.lse = plan->lse;
    g.d = plan->d;
    g.dim = dim;
    g.softcap = a->softcap;
    g.alibi = a->alibi;
    g.rounded_scale = a->alibi_bf16 ? a->scale : 0;
    mt_cuda_attention_pack(stream, plan, block, plan->q, a->q, a->q_stride, a->q_group_stride);
    mt_cuda_attention_pack(stream, plan, block, plan->dout, b->dout, a->num_heads * dim, plan->group * dim);
    MT_LAUNCH((load_rows<T>), grid, threads, 0, stream->handle, g, static_cast<const T *>(plan->dout),
              static_cast<const T *>(a->out), static_cast<const float *>(a->lse));
    for (size_t key = block->key; key < block->key_end; key += MT_CUDA_ATTENTION_KEYS) {
        g.key = key;
        g.keys = mt_size_min(MT_CUDA_ATTENTION_KEYS, block->key_end - key);
        g.stride = mt_cuda_attention_score_stride(g.keys);
        int code = score(stream, plan, &g, plan->q, a->k, a->k_stride, plan->scores, rows, a->scale);
        if (!code)
            code = score(stream, plan, &g, plan->dout, a->v, a->v_stride, plan->dscores, rows, 1);
        if (code)
            return code;
        MT_LAUNCH((gradient_block<T>), grid, threads, 0, stream->handle, g, static_cast<T *>(plan->p),
                  static_cast<T *>(plan->ds));
        code = add_to_keys(stream, plan, &g, plan->p, plan->dout, plan->dv, rows, 1);
        if (!code)
            code = add_to_keys(stream, plan, &g, plan->ds, plan->q, plan->dk, rows, a->scale);
        if (!code)
            code = add_to_queries(stream, plan, &g, rows, key == block->key);
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
