/* Cross entropy in tiles of the vocabulary, so that full logits never exist.
 *
 *   statistics  a tile's share of max and sum of exp(logit - max), a block a row (online: Milakov and
 *               Gimelshein, 2018), and the label's logit where this tile has it
 *   finish      lse = max + log(sum); loss = lse - target, 0 where ignored; *loss_sum (=|+=) their sum, in
 *               fp64 by one block
 *   backward    logits become grad_scale * (exp(logit - lse) - onehot), 0 where ignored
 */
#include "gpu/kernels/kernel.h"

#define THREADS 256

struct running {
    float max, sum; /* of exp(logit - max) */
};

/* Of nothing: max -inf, sum 0. */
static __device__ struct running merge(struct running a, struct running b)
{
    struct running r;
    r.max = fmaxf(a.max, b.max);
    r.sum = (a.max == r.max ? a.sum : a.sum * expf(a.max - r.max)) +
            (b.max == r.max ? b.sum : b.sum * expf(b.max - r.max));
    return r;
}

/* All threads of the block come, and all get the result. */
static __device__ struct running block_merge(struct running own)
{
    MT_SHARED(struct running, all, [MT_WARP]);
#pragma unroll
    for (int apart = MT_WARP / 2; apart > 0; apart /= 2) {
        struct running other;
        other.max = __shfl_xor_sync(0xffffffffu, own.max, apart);
        other.sum = __shfl_xor_sync(0xffffffffu, own.sum, apart);
        own = merge(own, other);
    }
    const int lane = threadIdx.x % MT_WARP, warp = threadIdx.x / MT_WARP;
    if (lane == 0)
        all[warp] = own;
    __syncthreads();
    struct running total = all[0];
    for (int i = 1; i < (int)blockDim.x / MT_WARP; i++)
        total = merge(total, all[i]);
    __syncthreads();
    return total;
}

template <typename T, int V>
static __global__ void statistics(const T *logits, const int32_t *labels, float *max, float *sum,
                                  float *target, size_t cols, size_t vocab_offset, size_t vocab_size,
                                  bool first, volatile unsigned long long *fault)
{
    const size_t row = blockIdx.x;
    const T *own = logits + row * cols;
    struct running r = {-INFINITY, 0};
    for (size_t i = (size_t)threadIdx.x * V; i < cols; i += (size_t)blockDim.x * V) {
        float v[V];
        mt_load<T, V>(own + i, v);
        float largest = r.max; /* NaN does not count here, it shows in the sum */
        for (int j = 0; j < V; j++)
            largest = fmaxf(largest, v[j]);
        if (largest != r.max) {
            r.sum *= expf(r.max - largest);
            r.max = largest;
        }
        for (int j = 0; j < V; j++)
            r.sum += expf(v[j] - r.max);
    }
    r = block_merge(r);
    if (threadIdx.x)
        return;
    if (!first) {
        const struct running before = {max[row], sum[row]};
        r = merge(before, r);
    }
    max[row] = r.max;
    sum[row] = r.sum;
    const int32_t label = labels[row];
    const long long here = (long long)label - (long long)vocab_offset;
    if (label != MT_LABEL_IGNORED && (label < 0 || (size_t)label >= vocab_size))
        mt_fault(fault, MT_CUDA_FAULT_LABEL, row, label);
    if (label >= 0 && here >= 0 && here < (long long)cols)
        target[row] = mt_widen(own[here]);
    else if (first)
        target[row] = 0;
}

int mt_cuda_cross_entropy_statistics(struct mt_stream *stream,
                                     const struct mt_cross_entropy_statistics_args *a)
{
    if (!mt_cuda_data_dtype(a->dtype) || !a->cols || a->vocab_offset > a->vocab_size ||
        a->cols > a->vocab_size - a->vocab_offset)
        return -EINVAL;
    if (!a->rows)
        return 0;
    if (!a->logits || !a->labels || !a->max || !a->sum || !a->target)
        return -EINVAL;
    const int code = mt_cuda_begin(stream);
    if (code)
        return code;
    const bool packs = mt_cuda_packs(a->dtype, {{a->logits, a->cols}});
    mt_cuda_dispatch(a->dtype, packs, [&](auto kind) {
        typedef typename decltype(kind)::type T;
        constexpr int V = decltype(kind)::packs;
        MT_LAUNCH((statistics<T, V>), dim3(static_cast<unsigned>(a->rows)), dim3(THREADS), 0, stream->handle,
                  static_cast<const T *>(a->logits), a->labels, a->max, a->sum, a->target, a->cols,
                  a->vocab_offset, a->vocab_size, a->first, stream->device->fault_word);
    });
    return mt_cuda_end(stream, "cross_entropy_statistics");
}

static __global__ void finish(const float *max, const float *sum, const float *target, const int32_t *labels,
                              float *lse, float *losses, double *loss_sum, size_t rows, bool accumulate)
{
    double own = 0;
    for (size_t row = threadIdx.x; row < rows; row += blockDim.x) {
        const float l = max[row] + logf(sum[row]);
        const float loss = labels[row] == MT_LABEL_IGNORED ? 0 : l - target[row];
        lse[row] = l;
        losses[row] = loss;
        own += (double)loss;
    }
    own = mt_block_sum(own);
    if (threadIdx.x == 0)
        *loss_sum = accumulate ? *loss_sum + own : own;
}

int mt_cuda_cross_entropy_finish(struct mt_stream *stream, const struct mt_cross_entropy_finish_args *a)
{
    if (!a->loss_sum ||
        (a->rows && (!a->max || !a->sum || !a->target || !a->labels || !a->lse || !a->losses)))
        return -EINVAL;
    const int code = mt_cuda_begin(stream);
    if (code)
        return code;
    MT_LAUNCH(finish, dim3(1), dim3(THREADS), 0, stream->handle, a->max, a->sum, a->target, a->labels, a->lse,
              a->losses, a->loss_sum, a->rows, a->accumulate);
    return mt_cuda_end(stream, "cross_entropy_finish");
}

template <typename T, int V>
static __global__ void backward(T *logits, const int32_t *labels, const float *lse, size_t cols,
                                size_t vocab_offset, float grad_scale, float inverse_square)
{
    const size_t row = blockIdx.x;
    const int32_t label = labels[row];
    const bool ignored = label == MT_LABEL_IGNORED;
    const long long here = (long long)label - (long long)vocab_offset;
    const float own_lse = lse[row];
    T *own = logits + row * cols;
    for (size_t i = (size_t)threadIdx.x * V; i < cols; i += (size_t)blockDim.x * V) {
        float v[V];
        mt_load<T, V>(own + i, v);
        for (int j = 0; j < V; j++) {
            /* Less one before anything is rounded: in bf16 the difference would be lost. */
            const float p = expf(v[j] - own_lse) - ((long long)(i + j) == here ? 1.0f : 0.0f);
            const float gradient = grad_scale * (p * (1.0f - v[j] * v[j] * inverse_square));
            v[j] = ignored ? 0.0f : gradient;
        }
        mt_store<T, V>(own + i, v);
    }
}

int mt_cuda_cross_entropy_backward(struct mt_stream *stream, const struct mt_cross_entropy_backward_args *a)
{
    if (!mt_cuda_data_dtype(a->dtype) || !a->cols)
        return -EINVAL;
    if (!a->rows)
        return 0;
    if (!a->logits || !a->labels || !a->lse)
        return -EINVAL;
    const int code = mt_cuda_begin(stream);
    if (code)
        return code;
    const bool packs = mt_cuda_packs(a->dtype, {{a->logits, a->cols}});
    const float inverse_square = a->softcap > 0 ? 1.0f / (a->softcap * a->softcap) : 0;
    mt_cuda_dispatch(a->dtype, packs, [&](auto kind) {
        typedef typename decltype(kind)::type T;
        constexpr int V = decltype(kind)::packs;
        MT_LAUNCH((backward<T, V>), dim3(static_cast<unsigned>(a->rows)), dim3(THREADS), 0, stream->handle,
                  static_cast<T *>(a->logits), a->labels, a->lse, a->cols, a->vocab_offset, a->grad_scale,
                  inverse_square);
    });
    return mt_cuda_end(stream, "cross_entropy_backward");
}
