/* The split master: fp32 = bf16 high half + signed 16-bit remainder, exactly.
 *
 * high = (bits + 0x8000) >> 16: the nearest bf16, ties away from zero, so that the difference of the bit
 * patterns fits an int16. remainder = bits - (high << 16), modulo 2^32. Every one of the 2^32 patterns
 * survives; a value of magnitude beyond the largest bf16 gets an infinite high half, which a step must
 * refuse. */
#ifndef MT_STORE_SPLIT_H
#define MT_STORE_SPLIT_H

#include <stdint.h>
#include <string.h>

static inline uint16_t mt_split_high(uint32_t bits)
{
    return (uint16_t)((bits + 0x8000u) >> 16);
}

static inline int16_t mt_split_remainder(uint32_t bits)
{
    return (int16_t)(uint16_t)(bits - ((uint32_t)mt_split_high(bits) << 16));
}

static inline uint32_t mt_split_join(uint16_t high, int16_t remainder)
{
    return ((uint32_t)high << 16) + (uint32_t)(int32_t)remainder;
}

#endif
