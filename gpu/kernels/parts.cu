/* The end of sums over columns: parts in order. A column a thread: neighbours read neighbours, and the parts
 * are at most some MiB that were just written. */
#include "gpu/kernels/parts.h"

static __global__ void add_parts(const float *parts, size_t num_parts, size_t stride, size_t own,
                                 float *first, float *second, bool accumulate)
{
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    float *to = blockIdx.y ? second : first;
    if (i >= own || !to)
        return;
    float sum = 0;
    for (size_t part = 0; part < num_parts; part++)
        sum += parts[part * stride + blockIdx.y * own + i];
    to[i] = accumulate ? to[i] + sum : sum;
}

void mt_cuda_add_parts(struct mt_stream *stream, const float *parts, size_t num_parts, size_t stride,
                       size_t own, float *first, float *second, bool accumulate)
{
    const dim3 grid(static_cast<unsigned>(mt_cuda_ceil_div(own, MT_PARTS_THREADS)), second ? 2 : 1);
    MT_LAUNCH(add_parts, grid, dim3(MT_PARTS_THREADS), 0, stream->handle, parts, num_parts, stride, own,
              first, second, accumulate);
}
