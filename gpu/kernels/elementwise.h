/* Plain arrays, element by element: packs as far as they go, the rest one by one. */
#ifndef MT_GPU_KERNELS_ELEMENTWISE_H
#define MT_GPU_KERNELS_ELEMENTWISE_H

#include "gpu/kernels/kernel.h"

#define MT_ELEMENTWISE_THREADS 256

/* Blocks for `count` elements, V a thread. */
static inline dim3 mt_elementwise_grid(size_t count, size_t packs)
{
    return dim3(mt_cuda_blocks(mt_cuda_ceil_div(count, packs * MT_ELEMENTWISE_THREADS), 1u << 20));
}

#endif
