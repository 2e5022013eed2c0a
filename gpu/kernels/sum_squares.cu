/* *sum (=|+=) sum of x[i]^2 in fp64: each block a stretch that the number of elements alone fixes, then the
 * blocks' parts in a tree of fixed shape. */
#include "gpu/kernels/parts.h"

#define PARTS 1024u
#define LEAST 4096u

template <int V>
static __global__ void square_parts(const float *x, double *parts, size_t count, struct mt_cut cut)
{
    size_t first, last;
    double sum = 0;
    mt_part_of(blockIdx.x, cut, count, &first, &last);
    mt_each<V>(first, last, threadIdx.x, blockDim.x, [&](auto width, size_t i) {
        constexpr int W = decltype(width)::count;
        float v[W];
        mt_load<float, W>(x + i, v);
        for (int j = 0; j < W; j++)
            sum += (double)v[j] * (double)v[j];
    });
    sum = mt_block_sum(sum);
    if (threadIdx.x == 0)
        parts[blockIdx.x] = sum;
}

struct squares_finish {
    double *sum;
    bool accumulate;

    __device__ void operator()(unsigned, double total) const
    {
        *sum = accumulate ? *sum + total : total;
    }
};

int mt_cuda_sum_squares(struct mt_stream *stream, const struct mt_sum_squares_args *a)
{
    if (!a->sum || (a->count && !a->x))
        return -EINVAL;
    const int code = mt_cuda_begin(stream);
    if (code)
        return code;
    double *parts = reinterpret_cast<double *>(mt_cuda_parts(stream));
    if (!parts)
        return mt_cuda_fault_code(stream->device);
    const struct mt_cut cut = mt_cuda_cut(a->count, PARTS, LEAST, 4);
    if (cut.parts) {
        const dim3 grid(static_cast<unsigned>(cut.parts)), threads(MT_PARTS_THREADS);
        if (mt_cuda_packs(MT_F32, {{a->x, 0}}))
            MT_LAUNCH((square_parts<4>), grid, threads, 0, stream->handle, a->x, parts, a->count, cut);
        else
            MT_LAUNCH((square_parts<1>), grid, threads, 0, stream->handle, a->x, parts, a->count, cut);
    }
    mt_cuda_total_of_parts(stream, parts, cut.parts, 1, squares_finish{a->sum, a->accumulate});
    return mt_cuda_end(stream, "sum_squares");
}
