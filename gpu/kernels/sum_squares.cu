/* *sum (=|+=) sum of x[i]^2 in fp64: each block a stretch that the number of elements alone fixes, then the
 * blocks' parts in a tree of fixed shape. */
#include "gpu/kernels/kernel.h"

#define THREADS 256
#define PARTS 1024u
/* A part has at least so many elements. */
#define LEAST 4096u

static __global__ void square_parts(const float *x, double *parts, size_t count, size_t a_part)
{
    const size_t first = (size_t)blockIdx.x * a_part;
    const size_t last = first + a_part < count ? first + a_part : count;
    double sum = 0;
    for (size_t i = first + threadIdx.x; i < last; i += blockDim.x)
        sum += (double)x[i] * (double)x[i];
    sum = mt_block_sum(sum);
    if (threadIdx.x == 0)
        parts[blockIdx.x] = sum;
}

static __global__ void sum_parts(const double *parts, double *sum, size_t count, bool accumulate)
{
    double own = 0;
    for (size_t i = threadIdx.x; i < count; i += blockDim.x)
        own += parts[i];
    own = mt_block_sum(own);
    if (threadIdx.x == 0)
        *sum = accumulate ? *sum + own : own;
}

int mt_cuda_sum_squares(struct mt_stream *stream, const struct mt_sum_squares_args *a)
{
    if (!a->sum || (a->count && !a->x))
        return -EINVAL;
    const int code = mt_cuda_begin(stream);
    if (code)
        return code;
    double *parts = reinterpret_cast<double *>(mt_cuda_parts(stream));
    if (!parts)
        return -EIO;
    const size_t a_part = mt_size_max(LEAST, mt_cuda_ceil_div(a->count, PARTS));
    const size_t num_parts = mt_cuda_ceil_div(a->count, a_part);
    if (num_parts)
        MT_LAUNCH(square_parts, dim3(static_cast<unsigned>(num_parts)), dim3(THREADS), 0, stream->handle,
                  a->x, parts, a->count, a_part);
    MT_LAUNCH(sum_parts, dim3(1), dim3(THREADS), 0, stream->handle, static_cast<const double *>(parts),
              a->sum, num_parts, a->accumulate);
    return mt_cuda_end(stream, "sum_squares");
}
