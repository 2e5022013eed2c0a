/* Sums over many terms in parts: what is summed is cut by its number alone, each part is summed in a fixed
 * order by one block, and the parts are added in order (of columns) or in a tree of fixed shape (of one
 * number). So nothing is atomic and the bits are the same each time. The parts stand in the stream's scratch.
 */
#ifndef MT_GPU_KERNELS_PARTS_H
#define MT_GPU_KERNELS_PARTS_H

#include "gpu/kernels/elementwise.h"

#define MT_PARTS_THREADS 256

struct mt_cut {
    size_t parts, each; /* terms: `each` a part, fewer in the last one */
};

/* At most `most` parts, of about `least` terms at least, whole `unit`s of them. No parts for no terms, or
 * where none are allowed. */
static inline struct mt_cut mt_cuda_cut(size_t count, size_t most, size_t least, size_t unit)
{
    struct mt_cut cut = {mt_size_min(most, mt_cuda_ceil_div(count, least)), 0};
    if (!cut.parts)
        return cut;
    cut.each = mt_cuda_ceil_div(mt_cuda_ceil_div(count, cut.parts), unit) * unit;
    cut.parts = mt_cuda_ceil_div(count, cut.each);
    return cut;
}

/* The terms of this block's part, by blockIdx.x or blockIdx.y. */
static inline __device__ void mt_part_of(size_t part, const struct mt_cut &cut, size_t count, size_t *first,
                                         size_t *last)
{
    *first = part * cut.each;
    *last = *first + cut.each < count ? *first + cut.each : count;
}

/* ---- columns ---- */

/* N sums a column, parts [parts, N, own] in fp32. Room for at least one part, or the parts are 0. */
static inline struct mt_cut mt_cuda_cut_columns(size_t terms, size_t sums, size_t own, size_t most,
                                                size_t least)
{
    return mt_cuda_cut(terms, mt_size_min(most, MT_CUDA_PARTS_BYTES / sizeof(float) / (sums * own)), least,
                       1);
}

/* V columns a thread; a block's rows of threads take turns with the terms of its part. */
template <int V> static inline dim3 mt_parts_block(size_t cols)
{
    const unsigned across = mt_threads_across(mt_cuda_ceil_div(cols, V), MT_WARP);
    return dim3(across, MT_PARTS_THREADS / across);
}

template <int V> static inline dim3 mt_parts_grid(size_t cols, size_t parts, size_t groups)
{
    return dim3(static_cast<unsigned>(mt_cuda_ceil_div(cols, (size_t)V * mt_parts_block<V>(cols).x)),
                static_cast<unsigned>(parts), static_cast<unsigned>(groups));
}

/* The part blockIdx.y of N sums of V columns from this thread's on, which are written to to[n * own + j]:
 * add(term, sums) adds a term's share to sums[N][V]. All threads of a block come; `inside`: this one has
 * columns. */
template <int V, int N, typename Add>
static inline __device__ void mt_column_part(const struct mt_cut &cut, size_t count, bool inside, float *to,
                                             size_t own, Add add)
{
    MT_SHARED(float, shared, [N][V][MT_PARTS_THREADS]);
    const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
    size_t first, last;
    float sums[N][V];
    mt_part_of(blockIdx.y, cut, count, &first, &last);
    for (int n = 0; n < N; n++)
        for (int j = 0; j < V; j++)
            sums[n][j] = 0;
    for (size_t term = first + threadIdx.y; inside && term < last; term += blockDim.y)
        add(term, sums);
    for (int n = 0; n < N; n++)
        for (int j = 0; j < V; j++)
            shared[n][j][thread] = sums[n][j];
    __syncthreads();
    if (threadIdx.y || !inside)
        return;
    for (int n = 0; n < N; n++) {
        for (int j = 0; j < V; j++)
            for (unsigned other = 1; other < blockDim.y; other++)
                sums[n][j] += shared[n][j][other * blockDim.x + threadIdx.x];
        for (int j = 0; j < V; j++)
            to[n * own + j] = sums[n][j];
    }
}

/* first[own] (=|+=) the parts of the first sum in order, second likewise those of the second, whose parts lie
 * `own` behind; either may be NULL. Parts are `stride` apart. parts.cu. */
void mt_cuda_add_parts(struct mt_stream *stream, const float *parts, size_t num_parts, size_t stride,
                       size_t own, float *first, float *second, bool accumulate);

/* ---- numbers ---- */

/* A block a number: the sum of parts[i * numbers + number], in fp64, is handed to finish(number, sum). */
template <typename Finish>
static __global__ void mt_total_of_parts(const double *parts, size_t num_parts, Finish finish)
{
    double own = 0;
    for (size_t i = threadIdx.x; i < num_parts; i += blockDim.x)
        own += parts[i * gridDim.x + blockIdx.x];
    own = mt_block_sum(own);
    if (threadIdx.x == 0)
        finish(blockIdx.x, own);
}

template <typename Finish>
static inline void mt_cuda_total_of_parts(struct mt_stream *stream, const double *parts, size_t num_parts,
                                          unsigned numbers, const Finish &finish)
{
    MT_LAUNCH((mt_total_of_parts<Finish>), dim3(numbers), dim3(MT_PARTS_THREADS), 0, stream->handle, parts,
              num_parts, finish);
}

#endif
