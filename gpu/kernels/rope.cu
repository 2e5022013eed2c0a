/* Rotary position embedding in place (Su et al., 2021). A pair (a, b) at angle p becomes
 *
 *   (a cos p - b sin p, b cos p + a sin p);  inverse: the sign of sin p turns round
 *
 * A block is a token; rows of its threads are heads, and a thread takes V pairs of one at a time. What is
 * read twice, angles, is fp32 and shared by all heads: it stays in the cache.
 */
#include "gpu/kernels/elementwise.h"

#include <limits.h>

#define THREADS 128

struct rope {
    const int32_t *positions;
    const float *cos, *sin;
    size_t head_dim, pairs, x_stride, num_positions, run_stride;
    unsigned heads, run; /* run: all heads, or what runs hold */
    float sign;
    volatile unsigned long long *fault;
};

/* V pairs (i, i + pairs). */
template <typename T, int V>
static __device__ void rotate_halves(T *head, const float *cos, const float *sin, size_t pairs, float sign)
{
    float a[V], b[V], c_of[V], s_of[V];
    mt_load<T, V>(head, a);
    mt_load<T, V>(head + pairs, b);
    mt_load<float, V>(cos, c_of);
    mt_load<float, V>(sin, s_of);
    for (int i = 0; i < V; i++) {
        const float c = c_of[i], s = sign * s_of[i], x = a[i];
        a[i] = x * c - b[i] * s;
        b[i] = b[i] * c + x * s;
    }
    mt_store<T, V>(head, a);
    mt_store<T, V>(head + pairs, b);
}

/* V pairs (2i, 2i + 1). */
template <typename T, int V>
static __device__ void rotate_neighbours(T *head, const float *cos, const float *sin, float sign)
{
    constexpr int W = V == 1 ? 1 : 2 * V; /* single elements need not lie as pairs do */
    float v[2 * V], c_of[V], s_of[V];
    for (int i = 0; i < 2 * V; i += W)
        mt_load<T, W>(head + i, v + i);
    mt_load<float, V>(cos, c_of);
    mt_load<float, V>(sin, s_of);
    for (int i = 0; i < V; i++) {
        const float c = c_of[i], s = sign * s_of[i], x = v[2 * i];
        v[2 * i] = x * c - v[2 * i + 1] * s;
        v[2 * i + 1] = v[2 * i + 1] * c + x * s;
    }
    for (int i = 0; i < 2 * V; i += W)
        mt_store<T, W>(head + i, v + i);
}

template <typename T, int V, bool interleaved>
static __global__ void rope_kernel(T *x, size_t tokens, struct rope r)
{
    for (size_t t = blockIdx.x; t < tokens; t += gridDim.x) {
        const int32_t position = r.positions[t];
        if (position < 0 || (size_t)position >= r.num_positions) {
            if (threadIdx.x == 0 && threadIdx.y == 0)
                mt_fault(r.fault, MT_CUDA_FAULT_POSITION, t, position);
            continue;
        }
        const float *cos = r.cos + (size_t)position * r.pairs, *sin = r.sin + (size_t)position * r.pairs;
        for (unsigned head = threadIdx.y; head < r.heads; head += blockDim.y) {
            const size_t within = r.run == r.heads ? head * r.head_dim
                                                   : head / r.run * r.run_stride + head % r.run * r.head_dim;
            T *at = x + t * r.x_stride + within;
            for (size_t i = (size_t)threadIdx.x * V; i < r.pairs; i += (size_t)blockDim.x * V) {
                if (interleaved)
                    rotate_neighbours<T, V>(at + 2 * i, cos + i, sin + i, r.sign);
                else
                    rotate_halves<T, V>(at + i, cos + i, sin + i, r.pairs, r.sign);
            }
        }
    }
}

template <typename T, int V>
static void launch(struct mt_stream *stream, const struct mt_rope_args *a, const struct rope &r)
{
    const unsigned across = mt_threads_across(mt_cuda_ceil_div(r.pairs, V), MT_WARP);
    const dim3 grid(mt_cuda_blocks(a->tokens, 65535)), block(across, THREADS / across);
    if (a->interleaved)
        MT_LAUNCH((rope_kernel<T, V, true>), grid, block, 0, stream->handle, static_cast<T *>(a->x),
                  a->tokens, r);
    else
        MT_LAUNCH((rope_kernel<T, V, false>), grid, block, 0, stream->handle, static_cast<T *>(a->x),
                  a->tokens, r);
}

int mt_cuda_rope(struct mt_stream *stream, const struct mt_rope_args *args)
{
    struct mt_rope_args a = *args;
    a.run = a.run ? a.run : a.heads;
    a.run_stride = a.run_stride ? a.run_stride : a.run * a.head_dim;
    const size_t width = a.heads ? (a.heads / a.run - 1) * a.run_stride + a.run * a.head_dim : 0;
    a.x_stride = a.x_stride ? a.x_stride : width;
    if (!mt_cuda_data_dtype(a.dtype) || a.rotary_dim % 2 || a.rotary_dim > a.head_dim || a.x_stride < width ||
        a.heads > INT_MAX || (a.heads && a.heads % a.run) || a.run_stride < a.run * a.head_dim)
        return -EINVAL;
    if (!a.tokens || !a.heads || !a.rotary_dim)
        return 0;
    if (!a.x || !a.positions || !a.cos || !a.sin)
        return -EINVAL;
    const int code = mt_cuda_begin(stream);
    if (code)
        return code;
    struct rope r = {};
    r.positions = a.positions;
    r.cos = a.cos;
    r.sin = a.sin;
    r.heads = static_cast<unsigned>(a.heads);
    r.head_dim = a.head_dim;
    r.pairs = a.rotary_dim / 2;
    r.x_stride = a.x_stride;
    r.num_positions = a.num_positions;
    r.run = static_cast<unsigned>(a.run);
    r.run_stride = a.run_stride;
    r.sign = a.inverse ? -1.0f : 1.0f;
    r.fault = stream->device->fault_word;
    /* In packs, a thread of neighbours has 16 bytes, one of halves twice 16 bytes. */
    const size_t n = 16 / mt_dtype_bytes(a.dtype);
    const bool packs = mt_cuda_packs(a.dtype, {{a.x, a.x_stride}}) &&
                       mt_cuda_packs(MT_F32, {{a.cos, 0}, {a.sin, 0}}) && a.run_stride % n == 0 &&
                       a.head_dim % n == 0 && (a.interleaved ? a.rotary_dim : r.pairs) % n == 0;
    if (a.dtype == MT_BF16) {
        if (!packs)
            launch<mt_bf16, 1>(stream, &a, r);
        else if (a.interleaved)
            launch<mt_bf16, 4>(stream, &a, r);
        else
            launch<mt_bf16, 8>(stream, &a, r);
    } else {
        if (!packs)
            launch<float, 1>(stream, &a, r);
        else if (a.interleaved)
            launch<float, 2>(stream, &a, r);
        else
            launch<float, 4>(stream, &a, r);
    }
    return mt_cuda_end(stream, "rope");
}
