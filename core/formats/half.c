/* IEEE binary16 by integer arithmetic: the same bits on every machine, with or without F16C. */
#include "core/formats/safetensors.h"

float mt_f16_to_float(uint16_t value)
{
    const uint32_t sign = (uint32_t)(value & 0x8000u) << 16;
    uint32_t exponent = (value >> 10) & 0x1fu;
    uint32_t mantissa = value & 0x3ffu;
    uint32_t bits;

    if (exponent == 0x1f) { /* infinite or NaN, whose payload is kept */
        bits = sign | 0x7f800000u | mantissa << 13;
    } else if (exponent) {
        bits = sign | (exponent + 112) << 23 | mantissa << 13;
    } else { /* subnormal: mantissa x 2^-24, exact in fp32 */
        const float magnitude = (float)mantissa * 0x1p-24f;
        memcpy(&bits, &magnitude, sizeof bits);
        bits |= sign;
    }

    float result;
    memcpy(&result, &bits, sizeof result);
    return result;
}

/* value >> shift, to nearest with ties to even; 0 < shift < 32. */
static uint32_t shift_right_rounded(uint32_t value, uint32_t shift)
{
    const uint32_t rest = value & ((1u << shift) - 1);
    const uint32_t half = 1u << (shift - 1);
    const uint32_t quotient = value >> shift;
    return quotient + (rest > half || (rest == half && (quotient & 1u)));
}

uint16_t mt_f16_from_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000u;
    bits &= 0x7fffffffu;

    uint32_t half;
    if (bits > 0x7f800000u) {
        half = 0x7e00u | (bits >> 13 & 0x1ffu);
    } else if (bits >= 0x47800000u) { /* 2^16 and above, infinity too */
        half = 0x7c00u;
    } else if (bits >= 0x38800000u) { /* normal; rounding may carry up to infinity, which is right */
        half = shift_right_rounded(bits - 0x38000000u, 13);
    } else {
        const uint32_t exponent = bits >> 23;
        /* In units of 2^-24; below half a unit it is zero. */
        half = exponent < 102 ? 0 : shift_right_rounded((bits & 0x7fffffu) | 0x800000u, 126 - exponent);
    }
    return (uint16_t)(sign | half);
}
