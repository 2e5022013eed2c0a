/* Causal grouped-query attention, forward.
 *
 *   S = scale * q k^T, perhaps softcap * tanh(S / softcap) or S + alibi * (key - query); P = softmax of S
 * over the keys that a query sees; out = P v; lse = log of the sum of e^S
 *
 * Products by cuBLAS, a block of queries against a block of keys; between them an online softmax (Milakov and
 * Gimelshein, 2018; Dao et al., 2022), a warp a row: the running maximum m and sum l of a row, and what has
 * been added up so far is scaled by e^(m before - m now). S, m, l and the sum of P v are fp32; P is rounded
 * to the data type, as an operand of a product must be.
 */
#include "gpu/kernels/attention.h"

#define PER_LANE (MT_CUDA_ATTENTION_KEYS / MT_WARP)

struct softmax {
    struct mt_attention_rows rows;
    const int32_t *first, *last;
    float *scores, *out, *max, *sum;
    size_t key, keys, stride, dim;
    float softcap, rounded_scale;
    const float *alibi;
    bool first_block;
};

template <typename T> static __global__ void softmax_block(struct softmax s, T *p)
{
    const size_t row = (size_t)blockIdx.x * (blockDim.x / MT_WARP) + threadIdx.x / MT_WARP;
    if (row >= s.rows.kv_heads * s.rows.queries * s.rows.group)
        return;
    const unsigned lane = threadIdx.x % MT_WARP;
    size_t query, kv_head, member;
    mt_attention_place(s.rows, row, &query, &kv_head, &member);
    const long long from = (long long)s.first[query] - (long long)s.key;
    const long long to = (long long)s.last[query] - (long long)s.key;
    const struct mt_attention_bending bending = {
        s.softcap, s.alibi ? s.alibi[kv_head * s.rows.group + member] : 0, s.rounded_scale};
    const float *scores = s.scores + row * s.stride;
    const float before = s.first_block ? -INFINITY : s.max[row];
    float v[PER_LANE], largest = -INFINITY, total = 0;
#pragma unroll
    for (unsigned j = 0; j < PER_LANE; j++) {
        const long long i = (long long)(lane + j * MT_WARP);
        const bool seen = i >= from && i < to && i < (long long)s.keys;
        v[j] = seen ? mt_attention_bend(scores[i], bending, i - (to - 1), i - from) : -INFINITY;
        largest = fmaxf(largest, v[j]);
    }
    largest = fmaxf(mt_warp_max(largest), before);
#pragma unroll
    for (unsigned j = 0; j < PER_LANE; j++) {
        const long long i = (long long)(lane + j * MT_WARP);
        const bool seen = i >= from && i < to && i < (long long)s.keys;
        const float e = seen ? expf(v[j] - largest) : 0.0f;
        total += e;
        if (i < (long long)s.stride)
            p[row * s.stride + (size_t)i] = mt_narrow<T>(e);
    }
    total = mt_warp_sum(total);
    const float factor = before == largest ? 1.0f : expf(before - largest);
    if (!s.first_block && factor != 1.0f)
        for (size_t i = lane; i < s.dim; i += MT_WARP)
            s.out[row * s.dim + i] *= factor;
    if (lane == 0) {
        s.max[row] = largest;
        s.sum[row] = s.first_block ? total : s.sum[row] * factor + total;
    }
}

template <typename T> static __global__ void finish_rows(struct softmax s, T *out, float *lse)
{
    const size_t row = (size_t)blockIdx.x * (blockDim.x / MT_WARP) + threadIdx.x / MT_WARP;
    if (row >= s.rows.kv_heads * s.rows.queries * s.rows.group)
        return;
    const unsigned lane = threadIdx.x % MT_WARP;
    size_t query, kv_head, member;
    mt_attention_place(s.rows, row, &query, &kv_head, &member);
    const size_t head = (query * s.rows.kv_heads + kv_head) * s.rows.group + member;
    const float inverse = 1.0f / s.sum[row];
    for (size_t i = lane; i < s.dim; i += MT_WARP)
        out[head * s.dim + i] = mt_narrow<T>(s.out[row * s.dim + i] * inverse);
    if (lane == 0 && lse)
        lse[head] = s.max[row] + logf(s.sum[row]);
}

static int run_block(struct mt_stream *stream, const struct mt_attention_plan *plan,
                     const struct mt_attention_block *block)
{
    const struct mt_attention_args *a = &plan->args;
    const size_t rows = block->queries * plan->group, dim = a->head_dim, element = mt_dtype_bytes(a->dtype);
    const dim3 grid(
        static_cast<unsigned>(mt_cuda_ceil_div(rows * a->num_kv_heads, MT_ATTENTION_THREADS / MT_WARP))),
        threads(MT_ATTENTION_THREADS);
    struct softmax s = {};
    s.rows = {block->query, block->queries, plan->group, a->num_kv_heads};
    s.first = plan->first;
    s.last = plan->last;
    s.scores = plan->scores;
    s.out = plan->out;
    s.max = plan->max;
    s.sum = plan->sum;
    s.dim = dim;
    s.softcap = a->softcap;
    s.alibi = a->alibi;
    s.rounded_scale = a->alibi_bf16 ? a->scale : 0;
    mt_cuda_attention_pack(stream, plan, block, plan->q, a->q, a->q_stride, a->q_group_stride);
    for (size_t key = block->key; key < block->key_end; key += MT_CUDA_ATTENTION_KEYS) {
        s.key = key;
        s.keys = mt_size_min(MT_CUDA_ATTENTION_KEYS, block->key_end - key);
        s.stride = mt_cuda_attention_score_stride(s.keys);
        s.first_block = key == block->key;
        struct mt_cuda_product product = mt_cuda_attention_product(plan);
        product.a = plan->q;
        product.b = static_cast<const char *>(a->k) + key * a->k_stride * element;
        product.c = plan->scores;
        product.m = rows;
        product.n = s.keys;
        product.k = dim;
        product.lda = dim;
        product.ldb = a->k_stride;
        product.ldc = s.stride;
        product.transpose_b = true;
        product.alpha = a->scale;
        product.a_step = rows * dim;
        product.b_step = a->kv_head_stride;
        product.c_step = rows * s.stride;
        int code = mt_cuda_multiply(stream, &product, "attention");
        if (code)
            return code;
        if (a->dtype == MT_BF16)
            MT_LAUNCH((softmax_block<mt_bf16>), grid, threads, 0, stream->handle, s,
                      static_cast<mt_bf16 *>(plan->p));
        else
            MT_LAUNCH((softmax_block<float>), grid, threads, 0, stream->handle, s,
                      static_cast<float *>(plan->p));
        product = mt_cuda_attention_product(plan);
        product.a = plan->p;
        product.b = static_cast<const char *>(a->v) + key * a->v_stride * element;
        product.c = plan->out;
        product.m = rows;
        product.n = dim;
        product.k = s.keys;
        product.lda = s.stride;
        product.ldb = a->v_stride;
        product.ldc = dim;
        product.beta = s.first_block ? 0.0f : 1.0f;
        product.a_step = rows * s.stride;
        product.b_step = a->kv_head_stride;
        product.c_step = rows * dim;
        code = mt_cuda_multiply(stream, &product, "attention");
        if (code)
            return code;
    }
    if (a->dtype == MT_BF16)
        MT_LAUNCH((finish_rows<mt_bf16>), grid, threads, 0, stream->handle, s, static_cast<mt_bf16 *>(a->out),
                  a->lse);
    else
        MT_LAUNCH((finish_rows<float>), grid, threads, 0, stream->handle, s, static_cast<float *>(a->out),
                  a->lse);
    return 0;
}

int mt_cuda_attention(struct mt_stream *stream, const struct mt_attention_args *args)
{
    struct mt_attention_plan plan = {};
    if (!args->num_documents)
        return 0;
    int code = mt_cuda_attention_plan(&plan, args, false);
    if (code || !plan.tokens)
        return code;
    code = mt_cuda_begin(stream);
    if (code)
        return code;
    mt_cuda_attention_ranges(stream, &plan);
    struct mt_attention_block block;
    size_t query = 0, document = 0;
    while (!code && mt_cuda_attention_next(&plan, &query, &document, &block))
        code = run_block(stream, &plan, &block);
    return code ? code : mt_cuda_end(stream, "attention");
}
