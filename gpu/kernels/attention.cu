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

/* Eight scores a lane at a time: two times 16 bytes in, 16 bytes of bf16 out. */
#define PACK 8
#define STEPS (MT_CUDA_ATTENTION_KEYS / (MT_WARP * PACK))

struct softmax {
    struct mt_attention_tile tile;
    float *out, *max, *sum;
    bool first_block;
};

template <typename T> static __global__ void softmax_block(struct softmax s, T *p)
{
    struct mt_attention_row own;
    if (!mt_attention_own_row(s.tile.rows, &own))
        return;
    const size_t row = own.row;
    const int lane = (int)own.lane, stride = (int)s.tile.stride;
    const struct mt_attention_range seen = mt_attention_seen(s.tile, own);
    const struct mt_attention_bending bending = mt_attention_bends(s.tile, own);
    const float *scores = s.tile.scores + row * s.tile.stride;
    const float before = s.first_block ? -INFINITY : s.max[row];
    float v[STEPS][PACK], largest = -INFINITY, total = 0;
#pragma unroll
    for (int step = 0; step < (int)STEPS; step++) {
        const int first = (step * MT_WARP + lane) * PACK;
        const bool any = first < seen.end && first + PACK > seen.from; /* else nothing of it is read */
        if (any)
            mt_load<float, PACK>(scores + first, v[step]);
#pragma unroll
        for (int j = 0; j < PACK; j++) {
            const int i = first + j;
            v[step][j] = any && i >= seen.from && i < seen.end
                             ? mt_attention_bend(v[step][j], bending, i - (seen.to - 1), i - seen.from)
                             : -INFINITY;
            largest = fmaxf(largest, v[step][j]);
        }
    }
    largest = fmaxf(mt_warp_max(largest), before);
#pragma unroll
    for (int step = 0; step < (int)STEPS; step++) {
        const int first = (step * MT_WARP + lane) * PACK;
#pragma unroll
        for (int j = 0; j < PACK; j++) {
            /* A score that is not a number stays one. */
            v[step][j] = v[step][j] == -INFINITY ? 0.0f : expf(v[step][j] - largest);
            total += v[step][j];
        }
        if (first < stride)
            mt_store<T, PACK>(p + row * s.tile.stride + first, v[step]);
    }
    total = mt_warp_sum(total);
    const float factor = before == largest ? 1.0f : expf(before - largest);
    if (!s.first_block && factor != 1.0f) {
        float *out = s.out + row * s.tile.dim;
        mt_attention_each<4>(s.tile.dim, own.lane, [&](auto width, size_t i) {
            constexpr int W = decltype(width)::count;
            float o[W];
            mt_load<float, W>(out + i, o);
            for (int j = 0; j < W; j++)
                o[j] *= factor;
            mt_store<float, W>(out + i, o);
        });
    }
    __syncwarp(); /* all have read what the row was before */
    if (lane == 0) {
        s.max[row] = largest;
        s.sum[row] = s.first_block ? total : s.sum[row] * factor + total;
    }
}

template <typename T, int V> static __global__ void finish_rows(struct softmax s, T *out, float *lse)
{
    struct mt_attention_row own;
    if (!mt_attention_own_row(s.tile.rows, &own))
        return;
    const size_t head = mt_attention_head(s.tile.rows, own), dim = s.tile.dim;
    const float inverse = 1.0f / s.sum[own.row];
    const float *from = s.out + own.row * dim;
    T *to = out + head * dim;
    mt_each<V>(0, dim, own.lane, MT_WARP, [&](auto width, size_t i) {
        constexpr int W = decltype(width)::count;
        float o[W];
        mt_load<float, W>(from + i, o);
        for (int j = 0; j < W; j++)
            o[j] *= inverse;
        mt_store<T, W>(to + i, o);
    });
    if (own.lane == 0 && lse)
        lse[head] = s.max[own.row] + logf(s.sum[own.row]);
}

template <typename T>
static int run_block(struct mt_stream *stream, const struct mt_attention_plan *plan,
                     const struct mt_attention_block *block)
{
    const struct mt_attention_args *a = &plan->args;
    struct softmax s = {mt_cuda_attention_tile(plan, block), plan->out, plan->max, plan->sum, true};
    const dim3 grid = mt_cuda_attention_grid(&s.tile), threads(MT_ATTENTION_THREADS);
    mt_cuda_attention_pack(stream, plan, block, plan->q, a->q, a->q_stride, a->q_group_stride);
    for (size_t key = block->key; key < block->key_end; key += MT_CUDA_ATTENTION_KEYS) {
        mt_cuda_attention_meet(&s.tile, block, key);
        s.first_block = key == block->key;
        int code = mt_cuda_attention_score(stream, plan, &s.tile, plan->q, a->k, a->k_stride, a->scale,
                                           plan->scores);
        if (code)
            return code;
        MT_LAUNCH((softmax_block<T>), grid, threads, 0, stream->handle, s, static_cast<T *>(plan->p));
        code = mt_cuda_attention_gather(stream, plan, &s.tile, plan->p, a->v, a->v_stride, 1, s.first_block);
        if (code)
            return code;
    }
    mt_cuda_dispatch(a->dtype, mt_cuda_attention_packs(plan, a->out, a->head_dim, 0), [&](auto kind) {
        typedef typename decltype(kind)::type Out;
        MT_LAUNCH((finish_rows<Out, decltype(kind)::packs>), grid, threads, 0, stream->handle, s,
                  static_cast<Out *>(a->out), a->lse);
    });
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
        code = args->dtype == MT_BF16 ? run_block<mt_bf16>(stream, &plan, &block)
                                      : run_block<float>(stream, &plan, &block);
    return code ? code : mt_cuda_end(stream, "attention");
}
