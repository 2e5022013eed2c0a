/* Loops over elements, packs as far as they go and the rest one by one. The body is compiled for both: it is
 * called with an mt_width, whose count is how many elements it has to take.
 */
#ifndef MT_GPU_KERNELS_ELEMENTWISE_H
#define MT_GPU_KERNELS_ELEMENTWISE_H

#include "gpu/kernels/kernel.h"

#define MT_ELEMENTWISE_THREADS 256
#define MT_ROWS_THREADS 128

template <int V> struct mt_width {
    static constexpr int count = V;
};

/* ---- one after another ---- */

/* Elements [first, last), of which packs fit at first; `threads` threads take turns. */
template <int V, typename Body>
static inline __device__ void mt_each(size_t first, size_t last, size_t thread, size_t threads, Body body)
{
    const size_t whole = V > 1 ? first + (last - first) / V * V : last;
    for (size_t i = first + thread * V; i < whole; i += threads * V)
        body(mt_width<V>{}, i);
    if (V > 1)
        for (size_t i = whole + thread; i < last; i += threads)
            body(mt_width<1>{}, i);
}

/* Elements [0, count), all threads of the grid. */
template <int V, typename Body> static inline __device__ void mt_each_of_all(size_t count, Body body)
{
    mt_each<V>(0, count, (size_t)blockIdx.x * blockDim.x + threadIdx.x, (size_t)gridDim.x * blockDim.x, body);
}

/* Blocks for `count` elements, V a thread. */
static inline dim3 mt_elementwise_grid(size_t count, size_t packs)
{
    return dim3(mt_cuda_blocks(mt_cuda_ceil_div(count, packs * MT_ELEMENTWISE_THREADS), 1u << 20));
}

/* ---- rows ---- */

/* The smallest power of two of threads that holds so many packs, at most `most`. */
static inline unsigned mt_threads_across(size_t packs, unsigned most)
{
    unsigned threads = 1;
    while (threads < most && threads < packs)
        threads *= 2;
    return threads;
}

/* Each column's pack a thread, short rows side by side in a block; few enough blocks that each may go on to
 * other rows. */
static inline dim3 mt_rows_block(size_t cols, size_t packs)
{
    const unsigned across = mt_threads_across(mt_cuda_ceil_div(cols, packs), MT_ROWS_THREADS);
    return dim3(across, MT_ROWS_THREADS / across);
}

static inline dim3 mt_rows_grid(size_t rows, size_t cols, size_t packs)
{
    const dim3 block = mt_rows_block(cols, packs);
    return dim3(static_cast<unsigned>(mt_cuda_ceil_div(cols, packs * block.x)),
                mt_cuda_blocks(mt_cuda_ceil_div(rows, block.y), 65535));
}

/* Rows of `cols` elements at whose beginnings packs fit: body(width, row, column). */
template <int V, typename Body>
static inline __device__ void mt_each_of_rows(size_t rows, size_t cols, Body body)
{
    const size_t i = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * V;
    for (size_t row = (size_t)blockIdx.y * blockDim.y + threadIdx.y; row < rows;
         row += (size_t)gridDim.y * blockDim.y) {
        if (i + V <= cols)
            body(mt_width<V>{}, row, i);
        else
            for (size_t j = i; j < cols; j++)
                body(mt_width<1>{}, row, j);
    }
}

#endif
