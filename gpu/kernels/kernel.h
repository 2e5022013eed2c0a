/* What kernels share: elements in packs of up to 128 bits, and sums over a warp or a block in an order that
 * the shape alone fixes.
 *
 * A kernel is compiled for packs of V elements (16 bytes) and for single ones; mt_cuda_packs says whether
 * packs fit the addresses and strides of a call. All arithmetic is in fp32.
 */
#ifndef MT_GPU_KERNELS_KERNEL_H
#define MT_GPU_KERNELS_KERNEL_H

#include "gpu/cuda.h"
#include "gpu/launch.h"

#include <initializer_list>
#include <math.h>

#define MT_WARP 32

typedef __nv_bfloat16 mt_bf16;

/* ---- elements ---- */

static inline __device__ float mt_widen(float value)
{
    return value;
}
static inline __device__ float mt_widen(mt_bf16 value)
{
    return __bfloat162float(value);
}

template <typename T> static inline __device__ T mt_narrow(float value);
template <> inline __device__ float mt_narrow<float>(float value)
{
    return value;
}
template <> inline __device__ mt_bf16 mt_narrow<mt_bf16>(float value)
{
    return __float2bfloat16(value);
}

template <typename T, int V> struct __align__(sizeof(T) * V) mt_pack
{
    T at[V];
};

/* Of V elements, those that are accessed at once: what 16 bytes hold. */
template <typename T, int V> struct mt_access {
    static constexpr int count = V * (int)sizeof(T) > 16 ? 16 / (int)sizeof(T) : V;
};

template <typename T, int V> static inline __device__ void mt_load(const T *from, float *to)
{
    constexpr int W = mt_access<T, V>::count;
#pragma unroll
    for (int at = 0; at < V; at += W) {
        const mt_pack<T, W> pack = *reinterpret_cast<const mt_pack<T, W> *>(from + at);
#pragma unroll
        for (int i = 0; i < W; i++)
            to[at + i] = mt_widen(pack.at[i]);
    }
}

template <typename T, int V> static inline __device__ void mt_store(T *to, const float *from)
{
    constexpr int W = mt_access<T, V>::count;
#pragma unroll
    for (int at = 0; at < V; at += W) {
        mt_pack<T, W> pack;
#pragma unroll
        for (int i = 0; i < W; i++)
            pack.at[i] = mt_narrow<T>(from[at + i]);
        *reinterpret_cast<mt_pack<T, W> *>(to + at) = pack;
    }
}

/* An operand: its address, and what its rows lie apart, in elements (0: it has no rows). */
struct mt_cuda_lines {
    const void *address;
    size_t stride;
};

/* Whether packs of 16 bytes fit operands of this type; NULL always fits. */
static inline bool mt_cuda_packs(enum mt_dtype dtype, std::initializer_list<struct mt_cuda_lines> operands)
{
    for (const struct mt_cuda_lines &lines : operands)
        if (lines.address &&
            (reinterpret_cast<uintptr_t>(lines.address) % 16 || lines.stride * mt_dtype_bytes(dtype) % 16))
            return false;
    return true;
}

/* ---- sums ---- */

static inline __device__ float mt_warp_sum(float value)
{
#pragma unroll
    for (int apart = MT_WARP / 2; apart > 0; apart /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, apart);
    return value;
}

static inline __device__ float mt_warp_max(float value)
{
#pragma unroll
    for (int apart = MT_WARP / 2; apart > 0; apart /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, apart));
    return value;
}

/* Over the blockDim.x threads of a row of the block; all of the block must come. blockDim.x is 32 (each row
 * a warp of its own), or the block has one row only. */
static inline __device__ float mt_row_sum(float value)
{
    value = mt_warp_sum(value);
    if (blockDim.x == MT_WARP)
        return value;
    MT_SHARED(float, sums, [MT_WARP]);
    const int lane = threadIdx.x % MT_WARP, warp = threadIdx.x / MT_WARP;
    const int warps = (int)blockDim.x / MT_WARP;
    if (lane == 0)
        sums[warp] = value;
    __syncthreads();
    float total = 0;
    for (int i = 0; i < warps; i++)
        total += sums[i];
    __syncthreads(); /* before the next one writes */
    return total;
}

static inline __device__ double mt_block_sum(double value)
{
#pragma unroll
    for (int apart = MT_WARP / 2; apart > 0; apart /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, apart);
    MT_SHARED(double, sums, [MT_WARP]);
    const int lane = threadIdx.x % MT_WARP, warp = threadIdx.x / MT_WARP;
    const int warps = (int)blockDim.x / MT_WARP;
    if (lane == 0)
        sums[warp] = value;
    __syncthreads();
    double total = 0;
    for (int i = 0; i < warps; i++)
        total += sums[i];
    __syncthreads();
    return total;
}

/* ---- faults ---- */

static inline __device__ void mt_fault(volatile unsigned long long *word, enum mt_cuda_fault_kind kind,
                                       size_t index, int value)
{
    *word = (unsigned long long)kind << 56 | (unsigned long long)(index & 0xffffffu) << 32 | (unsigned)value;
}

/* ---- launches ---- */

/* Blocks in one direction; kernels loop over what is left. */
static inline unsigned mt_cuda_blocks(size_t wanted, size_t most)
{
    return static_cast<unsigned>(wanted < 1 ? 1 : wanted < most ? wanted : most);
}

static inline size_t mt_cuda_ceil_div(size_t a, size_t b)
{
    return a / b + (a % b != 0);
}

/* Calls function(T{}, pack size) for the data type at hand: `body` is a generic lambda. */
template <typename T, int V> struct mt_kind {
    typedef T type;
    static constexpr int packs = V;
};

template <typename Body> static inline void mt_cuda_dispatch(enum mt_dtype dtype, bool packs, Body body)
{
    if (dtype == MT_BF16) {
        if (packs)
            body(mt_kind<mt_bf16, 8>{});
        else
            body(mt_kind<mt_bf16, 1>{});
    } else {
        if (packs)
            body(mt_kind<float, 4>{});
        else
            body(mt_kind<float, 1>{});
    }
}

#endif
