/* What kernels may use on the simulated device: their place in the grid, barriers, exchanges between lanes,
 * atomics, conversions and mathematics. Rounding is as on the hardware where CUDA promises it (_rn, division,
 * square root); functions with a stated error (expf, tanhf, __expf, rsqrtf) are the C library's. */
#ifndef CUDASIM_BUILTINS_H
#define CUDASIM_BUILTINS_H

#include <cudasim/vectors.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __grid_constant__

/* ---- the place in the grid ---- */

/* Set by whoever lets a thread go on. */
#define CUDASIM_PLACE __thread uint3 __attribute__((tls_model("initial-exec")))
extern "C" {
extern CUDASIM_PLACE threadIdx, blockIdx, blockDim, gridDim;
}
#define warpSize 32

/* ---- barriers ---- */

/* Where in the source a barrier or an exchange stands: all that meet in it must have come to the same. */
struct cudasim_site {
    const char *call, *file;
    int line, number;
};
#define CUDASIM_SITE(call) (cudasim_site{call, __FILE__, __LINE__, __COUNTER__})

extern "C" {
/* Waits for all threads of the block that have not ended. Returns how many of them gave a nonzero `value`. */
int cudasim_block_barrier(struct cudasim_site site, int value);
/* Waits for the 32 lanes of the warp; returns their values, 8 bytes a lane, valid until the lane's next
 * exchange. */
const uint64_t *cudasim_warp_exchange(struct cudasim_site site, unsigned int mask, uint64_t value);
/* As that, and memory accesses before it are ordered before those after it. */
void cudasim_warp_barrier(struct cudasim_site site, unsigned int mask);
void cudasim_trap(const char *file, int line) __attribute__((noreturn));
unsigned int cudasim_lane(void);
}

#define __syncthreads() ((void)cudasim_block_barrier(CUDASIM_SITE("__syncthreads"), 0))
#define __syncthreads_count(value) cudasim_block_barrier(CUDASIM_SITE("__syncthreads_count"), (value) != 0)
#define __syncthreads_or(value) (cudasim_block_barrier(CUDASIM_SITE("__syncthreads_or"), (value) != 0) != 0)
#define __syncthreads_and(value) (cudasim_block_barrier(CUDASIM_SITE("__syncthreads_and"), (value) == 0) == 0)
#define CUDASIM_SYNCWARP(mask, ...) cudasim_warp_barrier(CUDASIM_SITE("__syncwarp"), mask)
#define __syncwarp(...) CUDASIM_SYNCWARP(__VA_ARGS__ __VA_OPT__(, ) 0xffffffffu)
#define __trap() cudasim_trap(__FILE__, __LINE__)
static inline void __threadfence(void)
{
}
static inline void __threadfence_block(void)
{
}
static inline void __nanosleep(unsigned int)
{
}

/* ---- exchanges between lanes ---- */

template <class T> static inline uint64_t cudasim_pack(T value)
{
    static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>, "lanes exchange at most 8 bytes");
    uint64_t packed = 0;
    memcpy(&packed, &value, sizeof value);
    return packed;
}
template <class T> static inline T cudasim_unpack(uint64_t packed)
{
    T value;
    memcpy(&value, &packed, sizeof value);
    return value;
}

template <class T>
static inline T cudasim_shfl_xor(cudasim_site site, unsigned int mask, T value, int lane_mask, int width = 32)
{
    const uint64_t *lanes = cudasim_warp_exchange(site, mask, cudasim_pack(value));
    const unsigned int lane = cudasim_lane(), from = lane ^ (unsigned int)lane_mask;
    /* A lane of a later segment is out of reach, one of an earlier segment is not. */
    const unsigned int segment_end = (lane & ~((unsigned int)width - 1)) + (unsigned int)width;
    return from < segment_end ? cudasim_unpack<T>(lanes[from]) : value;
}
template <class T>
static inline T cudasim_shfl_down(cudasim_site site, unsigned int mask, T value, unsigned int delta,
                                  int width = 32)
{
    const uint64_t *lanes = cudasim_warp_exchange(site, mask, cudasim_pack(value));
    const unsigned int lane = cudasim_lane(), within = lane & ((unsigned int)width - 1);
    return within + delta < (unsigned int)width ? cudasim_unpack<T>(lanes[lane + delta]) : value;
}
template <class T>
static inline T cudasim_shfl_up(cudasim_site site, unsigned int mask, T value, unsigned int delta,
                                int width = 32)
{
    const uint64_t *lanes = cudasim_warp_exchange(site, mask, cudasim_pack(value));
    const unsigned int lane = cudasim_lane(), within = lane & ((unsigned int)width - 1);
    return within >= delta ? cudasim_unpack<T>(lanes[lane - delta]) : value;
}
template <class T>
static inline T cudasim_shfl(cudasim_site site, unsigned int mask, T value, int from, int width = 32)
{
    const uint64_t *lanes = cudasim_warp_exchange(site, mask, cudasim_pack(value));
    const unsigned int within = (unsigned int)width - 1;
    return cudasim_unpack<T>(lanes[(cudasim_lane() & ~within) + ((unsigned int)from & within)]);
}
static inline unsigned int cudasim_ballot(cudasim_site site, unsigned int mask, bool value)
{
    const uint64_t *lanes = cudasim_warp_exchange(site, mask, value);
    unsigned int ballot = 0;
    for (unsigned int lane = 0; lane < 32; lane++)
        ballot |= (unsigned int)lanes[lane] << lane;
    return ballot;
}

#define __shfl_sync(...) cudasim_shfl(CUDASIM_SITE("__shfl_sync"), __VA_ARGS__)
#define __shfl_xor_sync(...) cudasim_shfl_xor(CUDASIM_SITE("__shfl_xor_sync"), __VA_ARGS__)
#define __shfl_down_sync(...) cudasim_shfl_down(CUDASIM_SITE("__shfl_down_sync"), __VA_ARGS__)
#define __shfl_up_sync(...) cudasim_shfl_up(CUDASIM_SITE("__shfl_up_sync"), __VA_ARGS__)
#define __ballot_sync(mask, value) cudasim_ballot(CUDASIM_SITE("__ballot_sync"), mask, (value) != 0)
#define __any_sync(mask, value) (cudasim_ballot(CUDASIM_SITE("__any_sync"), mask, (value) != 0) != 0)
#define __all_sync(mask, value)                                                                              \
    (cudasim_ballot(CUDASIM_SITE("__all_sync"), mask, (value) != 0) == 0xffffffffu)

/* ---- atomics: relaxed, they order nothing else ---- */

template <class T, class F> static inline T cudasim_atomic(T *address, F change)
{
    T old, wanted;
    __atomic_load(address, &old, __ATOMIC_RELAXED);
    do
        wanted = change(old);
    while (!__atomic_compare_exchange(address, &old, &wanted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return old;
}
template <class T> static inline T atomicAdd(T *address, std::common_type_t<T> value)
{
    return cudasim_atomic(address, [value](T old) { return (T)(old + value); });
}
template <class T> static inline T atomicSub(T *address, std::common_type_t<T> value)
{
    return cudasim_atomic(address, [value](T old) { return (T)(old - value); });
}
template <class T> static inline T atomicMax(T *address, std::common_type_t<T> value)
{
    return cudasim_atomic(address, [value](T old) { return old > value ? old : value; });
}
template <class T> static inline T atomicMin(T *address, std::common_type_t<T> value)
{
    return cudasim_atomic(address, [value](T old) { return old < value ? old : value; });
}
template <class T> static inline T atomicOr(T *address, std::common_type_t<T> value)
{
    return cudasim_atomic(address, [value](T old) { return (T)(old | value); });
}
template <class T> static inline T atomicExch(T *address, std::common_type_t<T> value)
{
    return cudasim_atomic(address, [value](T) { return value; });
}
template <class T>
static inline T atomicCAS(T *address, std::common_type_t<T> expected, std::common_type_t<T> value)
{
    __atomic_compare_exchange(address, &expected, &value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}

/* ---- loads and stores with a hint to the cache ---- */

template <class T> static inline T __ldg(const T *address)
{
    return *address;
}
template <class T> static inline T __ldcs(const T *address)
{
    return *address;
}
template <class T> static inline T __ldcg(const T *address)
{
    return *address;
}
template <class T> static inline void __stcs(T *address, T value)
{
    *address = value;
}
template <class T> static inline void __stcg(T *address, T value)
{
    *address = value;
}

/* ---- bits ---- */

static inline float __uint_as_float(unsigned int bits)
{
    return cudasim_unpack<float>(bits);
}
static inline unsigned int __float_as_uint(float value)
{
    return (unsigned int)cudasim_pack(value);
}
static inline float __int_as_float(int bits)
{
    return __uint_as_float((unsigned int)bits);
}
static inline int __float_as_int(float value)
{
    return (int)__float_as_uint(value);
}
static inline int __popc(unsigned int bits)
{
    return __builtin_popcount(bits);
}
static inline int __clz(int bits)
{
    return bits ? __builtin_clz((unsigned int)bits) : 32;
}
static inline int __ffs(int bits)
{
    return __builtin_ffs(bits);
}

/* ---- arithmetic ---- */

static inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}
static inline float __fadd_rn(float a, float b)
{
    return a + b;
}
static inline float __fsub_rn(float a, float b)
{
    return a - b;
}
static inline float __fmul_rn(float a, float b)
{
    return a * b;
}
static inline float __fdiv_rn(float a, float b)
{
    return a / b;
}
static inline float __fsqrt_rn(float a)
{
    return sqrtf(a);
}
static inline float __frcp_rn(float a)
{
    return 1.0f / a;
}
static inline double __fma_rn(double a, double b, double c)
{
    return fma(a, b, c);
}
static inline double __dadd_rn(double a, double b)
{
    return a + b;
}
static inline double __dmul_rn(double a, double b)
{
    return a * b;
}
static inline float rsqrtf(float a)
{
    return (float)(1.0 / sqrt((double)a));
}
static inline double rsqrt(double a)
{
    return 1.0 / sqrt(a);
}
static inline float normcdff(float a)
{
    return 0.5f * erfcf(-a * 0.70710678118654752f);
}
static inline float __saturatef(float a)
{
    return a > 1.0f ? 1.0f : a > 0.0f ? a : 0.0f;
}
/* The C library has names of its own that look like these. */
#define __expf(a) (expf(a))
#define __exp2f(a) (exp2f(a))
#define __logf(a) (logf(a))
#define __log2f(a) (log2f(a))
#define __log10f(a) (log10f(a))
#define __sinf(a) (sinf(a))
#define __cosf(a) (cosf(a))
#define __sincosf(a, s, c) (sincosf(a, s, c))
#define __powf(a, b) (powf(a, b))
#define __tanhf(a) (tanhf(a))
#define __fdividef(a, b) ((a) / (b))
#define __frsqrt_rn(a) (rsqrtf(a))

#define CUDASIM_MIN_MAX(type)                                                                                \
    static inline type min(type a, type b)                                                                   \
    {                                                                                                        \
        return a < b ? a : b;                                                                                \
    }                                                                                                        \
    static inline type max(type a, type b)                                                                   \
    {                                                                                                        \
        return a > b ? a : b;                                                                                \
    }
CUDASIM_MIN_MAX(int)
CUDASIM_MIN_MAX(unsigned int)
CUDASIM_MIN_MAX(long)
CUDASIM_MIN_MAX(unsigned long)
CUDASIM_MIN_MAX(long long)
CUDASIM_MIN_MAX(unsigned long long)
#undef CUDASIM_MIN_MAX
/* A number stands before what is none. */
static inline float min(float a, float b)
{
    return fminf(a, b);
}
static inline float max(float a, float b)
{
    return fmaxf(a, b);
}
static inline double min(double a, double b)
{
    return fmin(a, b);
}
static inline double max(double a, double b)
{
    return fmax(a, b);
}

#endif
