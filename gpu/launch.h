/* How the sources of gpu/ start kernels and take shared memory, so that one text compiles with nvcc and, by
 * g++, for the simulated device of tests/cudasim/.
 *
 *   MT_LAUNCH((kernel<float>), grid, block, shared_bytes, stream, arguments...)
 *       kernel<float><<<grid, block, shared_bytes, stream>>>(arguments...). A kernel with template arguments
 *       stands in parentheses. Arguments are trivially copyable and copied at the call. As with <<<>>>, a
 *       launch that is refused is told by cudaGetLastError(). The stream is never the default one.
 *   MT_SHARED(float, rows, [32][33]);
 *       shared memory of a size known to the compiler. Not initialised (NaN on the simulated device). Leave
 *       the last argument empty for a single variable.
 *   MT_DYNAMIC_SHARED(float, rows);
 *       the shared memory asked for at the launch, as a pointer, aligned to 16.
 *
 * Kernels that are to run on the simulated device keep to: whole warps where lanes exchange values (blocks of
 * a multiple of 32 threads, full masks), __syncthreads() that all threads reach at one place in the source,
 * no spinning between blocks, no inline assembly, no wmma, no cooperative groups. Types of kernels' arguments
 * have names of their own among all sources: launches are templates over them.
 */
#ifndef MT_GPU_LAUNCH_H
#define MT_GPU_LAUNCH_H

#if defined(__CUDACC__)

#define MT_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                            \
    (kernel)<<<(grid), (block), (shared_bytes), (stream)>>>(__VA_ARGS__)

#define MT_SHARED(type, name, extent) __shared__ __align__(16) type name extent

#define MT_DYNAMIC_SHARED(type, name)                                                                        \
    extern __shared__ __align__(16) unsigned char mt_dynamic_shared_bytes[];                                 \
    type *const name = reinterpret_cast<type *>(mt_dynamic_shared_bytes)

#else

#include <cudasim/launch.h>

#endif
#endif
