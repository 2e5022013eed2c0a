/* Stands in for CUDA's header of this name: the runtime's calls, and what kernels may use. */
#ifndef CUDASIM_CUDA_RUNTIME_H
#define CUDASIM_CUDA_RUNTIME_H

#include <cuda_runtime_api.h>
#include <cudasim/builtins.h>
#include <cudasim/launch.h>

/* The typed forms that C++ callers have. */
template <class T> static inline cudaError_t cudaMalloc(T **devPtr, size_t size)
{
    return cudaMalloc((void **)(void *)devPtr, size);
}
template <class T> static inline cudaError_t cudaMallocHost(T **ptr, size_t size)
{
    return cudaMallocHost((void **)(void *)ptr, size);
}
template <class T> static inline cudaError_t cudaHostAlloc(T **ptr, size_t size, unsigned int flags)
{
    return cudaHostAlloc((void **)(void *)ptr, size, flags);
}
template <class T> static inline cudaError_t cudaMallocAsync(T **ptr, size_t size, cudaStream_t stream)
{
    return cudaMallocAsync((void **)(void *)ptr, size, stream);
}
template <class R, class... P>
static inline cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr, R (*func)(P...))
{
    return cudaFuncGetAttributes(attr, (const void *)func);
}
template <class R, class... P>
static inline cudaError_t cudaFuncSetAttribute(R (*func)(P...), enum cudaFuncAttribute attr, int value)
{
    return cudaFuncSetAttribute((const void *)func, attr, value);
}
template <class R, class... P>
static inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, R (*func)(P...),
                                                                        int blockSize, size_t dynamicSMemSize)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(numBlocks, (const void *)func, blockSize,
                                                         dynamicSMemSize);
}
template <class R, class... P>
static inline cudaError_t cudaOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize,
                                                             R (*func)(P...), size_t dynamicSMemSize = 0,
                                                             int blockSizeLimit = 0)
{
    return cudaOccupancyMaxPotentialBlockSizeC(minGridSize, blockSize, (const void *)func, dynamicSMemSize,
                                               blockSizeLimit);
}
template <class... P, class... A>
static inline cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(P...),
                                             A... args)
{
    return cudasim_launch(kernel, "kernel (cudaLaunchKernelEx)", config->gridDim, config->blockDim,
                          config->dynamicSmemBytes, config->stream, args...);
}

#endif
