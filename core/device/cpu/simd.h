/* Eight fp32 lanes in GCC's vector types, the same on every x86-64: the compiler makes SSE2, AVX2 or AVX-512
 * instructions of them. Everything here is always_inline, so that a kernel's body becomes code of whatever
 * instruction set the function around it is compiled for (see MT_CPU_KERNEL). Reductions have a fixed order:
 * lanes first, then pairwise over the lanes. Within one instruction set the same inputs give the same bits;
 * between them they differ, since only some fuse a multiplication with an addition.
 *
 * "data" pointers are fp32 or bf16, chosen by a constant `bf16` that folds away after inlining. Counts below
 * eight touch only that many elements; the missing lanes read as zero.
 */
#ifndef MT_DEVICE_CPU_SIMD_H
#define MT_DEVICE_CPU_SIMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MT_LANES 8u
#define MT_INLINE static inline __attribute__((always_inline))

typedef float mt_vf __attribute__((vector_size(32)));
typedef int32_t mt_vi __attribute__((vector_size(32)));
typedef uint32_t mt_vu __attribute__((vector_size(32)));
typedef uint16_t mt_vh __attribute__((vector_size(16)));

/* The instruction sets that kernels are compiled for. */
enum mt_cpu_level { MT_CPU_BASELINE, MT_CPU_AVX2, MT_CPU_AVX512, MT_CPU_LEVELS };

#if defined(__x86_64__)
#define MT_TARGET_AVX2 __attribute__((target("avx2,fma,bmi,bmi2")))
#define MT_TARGET_AVX512                                                                                     \
    __attribute__((target("avx2,fma,bmi,bmi2,avx512f,avx512bw,avx512cd,avx512dq,avx512vl")))
#else
#define MT_TARGET_AVX2
#define MT_TARGET_AVX512
#endif

/* `name`_body(context, task), an always_inline function, becomes a table `name` of one function an
 * instruction set: call name[mt_cpu_level()]. */
#define MT_CPU_KERNEL(name)                                                                                  \
    static void name##_baseline(void *context, size_t task)                                                  \
    {                                                                                                        \
        name##_body(context, task);                                                                          \
    }                                                                                                        \
    MT_TARGET_AVX2 static void name##_avx2(void *context, size_t task)                                       \
    {                                                                                                        \
        name##_body(context, task);                                                                          \
    }                                                                                                        \
    MT_TARGET_AVX512 static void name##_avx512(void *context, size_t task)                                   \
    {                                                                                                        \
        name##_body(context, task);                                                                          \
    }                                                                                                        \
    static void (*const name[MT_CPU_LEVELS])(void *, size_t) = {name##_baseline, name##_avx2, name##_avx512}

/* What this processor has; chosen once. MEGATRAIN_CPU_KERNELS=baseline|avx2|avx512 asks for less. */
enum mt_cpu_level mt_cpu_level(void);
const char *mt_cpu_level_name(enum mt_cpu_level level); /* as that variable has it */

MT_INLINE mt_vf mt_vf_set(float value)
{
    return (mt_vf){value, value, value, value, value, value, value, value};
}

MT_INLINE mt_vf mt_vf_load(const float *from)
{
    mt_vf v;
    memcpy(&v, from, sizeof v);
    return v;
}

MT_INLINE void mt_vf_store(float *to, mt_vf v)
{
    memcpy(to, &v, sizeof v);
}

/* At most `count` elements; the lanes from there on are 0. */
MT_INLINE mt_vf mt_vf_load_part(const float *from, size_t count)
{
    if (__builtin_expect(count >= MT_LANES, 1))
        return mt_vf_load(from);
    mt_vf v = mt_vf_set(0);
    for (size_t i = 0; i < count; i++)
        v[i] = from[i];
    return v;
}

MT_INLINE void mt_vf_store_part(float *to, mt_vf v, size_t count)
{
    if (__builtin_expect(count >= MT_LANES, 1)) {
        mt_vf_store(to, v);
        return;
    }
    for (size_t i = 0; i < count; i++)
        to[i] = v[i];
}

MT_INLINE mt_vf mt_vf_select(mt_vi mask, mt_vf yes, mt_vf no)
{
    return (mt_vf)(((mt_vi)yes & mask) | ((mt_vi)no & ~mask));
}

/* b where a is not a number. */
MT_INLINE mt_vf mt_vf_max(mt_vf a, mt_vf b)
{
    return mt_vf_select((mt_vi)(a > b), a, b);
}

/* All ones in the lanes below `count`. */
MT_INLINE mt_vi mt_vi_below(size_t count)
{
    const mt_vi lane = {0, 1, 2, 3, 4, 5, 6, 7};
    const int32_t n = count < MT_LANES ? (int32_t)count : (int32_t)MT_LANES;
    return (mt_vi)(lane < (mt_vi){n, n, n, n, n, n, n, n});
}

MT_INLINE float mt_vf_sum(mt_vf v)
{
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

MT_INLINE float mt_vf_largest(mt_vf v)
{
    float largest = v[0];
    for (size_t i = 1; i < MT_LANES; i++)
        largest = v[i] > largest ? v[i] : largest;
    return largest;
}

MT_INLINE mt_vf mt_vf_from_bf16(mt_vh half)
{
    return (mt_vf)(__builtin_convertvector(half, mt_vu) << 16);
}

/* To nearest even; a NaN stays one. */
MT_INLINE mt_vh mt_vf_to_bf16(mt_vf v)
{
    const mt_vu bits = (mt_vu)v;
    const mt_vu rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const mt_vu quiet = (bits >> 16) | 0x40u;
    const mt_vu nan = (mt_vu)(v != v);
    return __builtin_convertvector((rounded & ~nan) | (quiet & nan), mt_vh);
}

MT_INLINE mt_vf mt_data_load(const void *data, size_t index, size_t count, bool bf16)
{
    if (!bf16)
        return mt_vf_load_part((const float *)data + index, count);
    const uint16_t *from = (const uint16_t *)data + index;
    mt_vh half = {0};
    if (__builtin_expect(count >= MT_LANES, 1))
        memcpy(&half, from, sizeof half);
    else
        for (size_t i = 0; i < count; i++)
            half[i] = from[i];
    return mt_vf_from_bf16(half);
}

MT_INLINE void mt_data_store(void *data, size_t index, mt_vf v, size_t count, bool bf16)
{
    if (!bf16) {
        mt_vf_store_part((float *)data + index, v, count);
        return;
    }
    uint16_t *to = (uint16_t *)data + index;
    const mt_vh half = mt_vf_to_bf16(v);
    if (__builtin_expect(count >= MT_LANES, 1)) {
        memcpy(to, &half, sizeof half);
        return;
    }
    for (size_t i = 0; i < count; i++)
        to[i] = half[i];
}

/* The address of an element of a data tensor. */
MT_INLINE const void *mt_data_at(const void *data, size_t index, bool bf16)
{
    return (const char *)data + index * (bf16 ? sizeof(uint16_t) : sizeof(float));
}

MT_INLINE void *mt_data_at_mutable(void *data, size_t index, bool bf16)
{
    return (char *)data + index * (bf16 ? sizeof(uint16_t) : sizeof(float));
}

#endif
