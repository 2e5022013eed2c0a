/* Element types of tensors in memory and in files. */
#ifndef MT_BASE_DTYPE_H
#define MT_BASE_DTYPE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum mt_dtype {
    MT_F32,
    MT_BF16,
    MT_F16,
    MT_F64,
    MT_I8,
    MT_U8,
    MT_I16,
    MT_I32,
    MT_I64,
    MT_BOOL,
};

static inline size_t mt_dtype_bytes(enum mt_dtype dtype)
{
    static const uint8_t bytes[] = {4, 2, 2, 8, 1, 1, 2, 4, 8, 1};
    return bytes[dtype];
}

/* The nearest bf16, ties to even; NaN stays NaN. For activations; the split master has its own rounding. */
static inline uint16_t mt_bf16_from_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((bits >> 16) | 0x40u);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

static inline float mt_bf16_to_float(uint16_t value)
{
    uint32_t bits = (uint32_t)value << 16;
    float result;
    memcpy(&result, &bits, sizeof result);
    return result;
}

#endif
