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

/* Eight scores a lane at a time: twice two times 16 bytes in, twice 16 bytes of bf16 out. */
#define PACK 8

struct gradient {
    struct mt_attention_tile tile;
    float *dscores, *lse, *d;
};

/* lse and D of a block's rows, a warp a row. */
template <typename T, int V>
static __global__ void load_rows(struct gradient g, const T *packed_dout, const T *out, const float *lse)
{
    struct mt_attention_row own;
    if (!mt_attention_own_row(g.tile.rows, &own))
        return;
    const size_t head = mt_attention_head(g.tile.rows, own), dim = g.tile.dim;
    float sum = 0;
    packed_dout += own.row * dim;
    out += head * dim;
    mt_each<V>(0, dim, own.lane, MT_WARP, [&](auto width, size_t i) {
        constexpr int W = decltype(width)::count;
        float a[W], b[W];
        mt_load<T, W>(packed_dout + i, a);
        mt_load<T, W>(out + i, b);
        for (int j = 0; j < W; j++)
            sum += a[j] * b[j];
    });
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
    const struct mt_attention_range seen = mt_attention_seen(g.tile, own);
    const float lse = g.lse[own.row], d = g.d[own.row], softcap = g.tile.softcap;
    const float inverse = softcap > 0 ? 1.0f / softcap : 0;
    const struct mt_attention_bending bending = mt_attention_bends(g.tile, own);
    const size_t row = own.row * g.tile.stride;
    for (int first = (int)own.lane * PACK; first < (int)g.tile.stride; first += MT_WARP * PACK) {
        const bool any = first < seen.end && first + PACK > seen.from; /* else nothing of it is read */
        float score[PACK], slope[PACK];
        if (any) {
            mt_load<float, PACK>(g.tile.scores + row + first, score);
            mt_load<float, PACK>(g.dscores + row + first, slope);
        }
#pragma unroll
        for (int j = 0; j < PACK; j++) {
            const int i = first + j;
            if (any && i >= seen.from && i < seen.end) {
                const float bent = mt_attention_bend(score[j], bending, i - (seen.to - 1), i - seen.from);
                const float turn = 1.0f - bent * inverse * (bent * inverse);
                score[j] = expf(bent - lse);
                slope[j] = score[j] * (slope[j] - d) * turn;
            } else {
                score[j] = slope[j] = 0;
            }
        }
        mt_store<T, PACK>(p + row + first, score);
        mt_store<T, PACK>(ds + row + first, slope);
    }
}

/* An element's pack from fp32 to the data type. */
template <typename T, int W> static __device__ void narrow_pack(const float *from, T *to)
{
    float v[W];
    mt_load<float, W>(from, v);
    mt_store<T, W>(to, v);
}

/* Packed rows of dq to where they belong. */
template <typename T, int V>
static __global__ void store_queries(struct gradient g, const float *dq, T *to, size_t stride,
                                     size_t group_stride)
{
    struct mt_attention_row own;
    if (!mt_attention_own_row(g.tile.rows, &own))
        return;
    const size_t dim = g.tile.dim;
    dq += own.row * dim;
    to += own.query * stride + own.kv_head * group_stride + own.member * dim;
    mt_each<V>(0, dim, own.lane, MT_WARP,
               [&](auto width, size_t i) { narrow_pack<T, decltype(width)::count>(dq + i, to + i); });
}

/* [kv_heads, tokens, dim] in fp32 to the rows of dk and dv: blockIdx.y is a head, blockIdx.z one of both. */
struct keys {
    const float *from[2];
    void *to[2];
    size_t tokens, dim, stride[2], head_stride;
};

template <typename T, int V> static __global__ void store_keys(struct keys k)
{
    const size_t t = (size_t)blockIdx.x * blockDim.y + threadIdx.y, head = blockIdx.y;
    const unsigned which = blockIdx.z;
    if (t >= k.tokens)
        return;
    const float *from = k.from[which] + (head * k.tokens + t) * k.dim;
    T *to = static_cast<T *>(k.to[which]) + t * k.stride[which] + head * k.head_stride;
    mt_each<V>(0, k.dim, threadIdx.x, blockDim.x,
               [&](auto width, size_t i) { narrow_pack<T, decltype(width)::count>(from + i, to + i); });
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
    const size_t num_rows = (size_t)tile->rows.queries * tile->rows.group;
    struct mt_cuda_product product = mt_cuda_attention_product(plan);
    product.a = rows;
    product.b = values;
    product.c = to + static_cast<size_t>(tile->key) * tile->dim;
    product.m = static_cast<size_t>(tile->keys);
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
    mt_cuda_dispatch(a->dtype, mt_cuda_attention_packs(plan, a->out, a->head_dim, 0), [&](auto kind) {
        typedef typename decltype(kind)::type Out;
        MT_LAUNCH((load_rows<Out, decltype(kind)::packs>), grid, threads, 0, stream->handle, g,
                  static_cast<const Out *>(plan->dout), static_cast<const Out *>(a->out),
                  static_cast<const float *>(a->lse));
    });
    for (size_t key = block->key; key < block->key_end; key += MT_CUDA_ATTENTION_KEYS) {
        mt_cuda_attention_meet(&g.tile, block, key);
        const int code = meet_keys<T>(stream, plan, &g, grid, key == block->key);
        if (code)
            return code;
    }
    const bool packs = mt_cuda_attention_packs(plan, b->dq, b->dq_stride, a->q_group_stride);
    mt_cuda_dispatch(a->dtype, packs, [&](auto kind) {
        typedef typename decltype(kind)::type Out;
        MT_LAUNCH((store_queries<Out, decltype(kind)::packs>), grid, threads, 0, stream->handle, g,
                  static_cast<const float *>(plan->out), static_cast<Out *>(b->dq), b->dq_stride,
                  a->q_group_stride);
    });
    return 0;
}

static void store_keys_of(struct mt_stream *stream, const struct backward *b)
{
    const struct mt_attention_plan *plan = &b->plan;
    const struct mt_attention_args *a = &plan->args;
    const struct keys k = {{plan->dk, plan->dv},         {b->dk, b->dv},   plan->tokens, a->head_dim,
                           {b->dk_stride, b->dv_stride}, a->kv_head_stride};
    const bool packs = mt_cuda_attention_packs(plan, b->dk, b->dk_stride, a->kv_head_stride) &&
                       mt_cuda_attention_packs(plan, b->dv, b->dv_stride, a->kv_head_stride);
    const dim3 grid(static_cast<unsigned>(mt_cuda_ceil_div(plan->tokens, 16)),
                    static_cast<unsigned>(a->num_kv_heads), 2);
    mt_cuda_dispatch(a->dtype, packs, [&](auto kind) {
        MT_LAUNCH((store_keys<typename decltype(kind)::type, decltype(kind)::packs>), grid, dim3(16, 16), 0,
                  stream->handle, k);
    });
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
    store_keys_of(stream, b);
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
