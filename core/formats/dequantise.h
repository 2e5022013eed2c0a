/* Numbers of GGUF's block types as fp32. A block is a few scales in binary16 and small integers; all types
 * but Q8_0 pack the integers' bits. q stands for the integer of an element, d and m for its block's scales,
 * and in the K types (blocks of 256) s and t for the small integer scales of its group of 16 or 32:
 *
 *     Q4_0, Q5_0     d * (q - 8), d * (q - 16)
 *     Q4_1, Q5_1     d * q + m
 *     Q8_0           d * q
 *     Q2_K           (d * s) * q - (m * t)             groups of 16
 *     Q3_K           (d * (s - 32)) * (q - 4)          groups of 16
 *     Q4_K, Q5_K     (d * s) * q - (m * t)             groups of 32
 *     Q6_K           (d * s) * (q - 32)                groups of 16
 *
 * Each operation is rounded to fp32 in this order, so results equal the package `gguf`'s bit for bit. Layouts
 * stand beside the code. */
#ifndef MT_FORMATS_DEQUANTISE_H
#define MT_FORMATS_DEQUANTISE_H

#include <stddef.h>
#include <stdint.h>

/* `out` gets num_blocks times the elements of a block. */
typedef void mt_dequantise_function(const unsigned char *blocks, size_t num_blocks, float *out);

mt_dequantise_function mt_dequantise_f16, mt_dequantise_bf16; /* blocks of one */
mt_dequantise_function mt_dequantise_q4_0, mt_dequantise_q4_1, mt_dequantise_q5_0, mt_dequantise_q5_1,
    mt_dequantise_q8_0; /* of 32 */
mt_dequantise_function mt_dequantise_q2_k, mt_dequantise_q3_k, mt_dequantise_q4_k, mt_dequantise_q5_k,
    mt_dequantise_q6_k; /* of 256 */

/* --- for the implementations --------------------------------------------------------------------------- */

#include <string.h>

/* binary16 without a branch, so that loops over it become vector code. Exact: the product with 2^112 moves
 * the exponent's bias, subnormal numbers too; infinities and NaNs get fp32's exponent. */
static inline float mt_half_at(const unsigned char *data)
{
    uint16_t half;
    memcpy(&half, data, sizeof half);
    const uint32_t magnitude = (uint32_t)(half & 0x7fffu) << 13;
    float value;
    memcpy(&value, &magnitude, sizeof value);
    value *= 0x1p112f;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t special = (uint32_t) - (int32_t)(magnitude >= 0x0f800000u); /* all ones, or none */
    bits = (bits & ~special) | ((magnitude | 0x7f800000u) & special) | (uint32_t)(half & 0x8000u) << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Defines mt_dequantise_<type> from an always_inline <type>_blocks, compiled for AVX2 as well where there is
 * such a thing. The bits are the same: nothing is reordered, and products are not fused with sums
 * (-ffp-contract=off). */
#if defined(__x86_64__) && !defined(__AVX2__)
#define MT_DEQUANTISE(type)                                                                                  \
    __attribute__((target("avx2"))) static void type##_avx2(const unsigned char *blocks, size_t num_blocks,  \
                                                            float *out)                                      \
    {                                                                                                        \
        type##_blocks(blocks, num_blocks, out);                                                              \
    }                                                                                                        \
    void mt_dequantise_##type(const unsigned char *blocks, size_t num_blocks, float *out)                    \
    {                                                                                                        \
        if (__builtin_cpu_supports("avx2"))                                                                  \
            type##_avx2(blocks, num_blocks, out);                                                            \
        else                                                                                                 \
            type##_blocks(blocks, num_blocks, out);                                                          \
    }
#else
#define MT_DEQUANTISE(type)                                                                                  \
    void mt_dequantise_##type(const unsigned char *blocks, size_t num_blocks, float *out)                    \
    {                                                                                                        \
        type##_blocks(blocks, num_blocks, out);                                                              \
    }
#endif
#define MT_DEQUANTISE_BLOCKS __attribute__((always_inline)) static inline

#endif
