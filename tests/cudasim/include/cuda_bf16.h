/* Stands in for CUDA's header of this name: bf16 as the hardware rounds it, to nearest even, every NaN to
 * 0x7fff. Arithmetic is in fp32, rounded after each operation. */
#ifndef CUDASIM_CUDA_BF16_H
#define CUDASIM_CUDA_BF16_H

#include <cudasim/builtins.h>

struct __nv_bfloat16_raw {
    unsigned short x;
};

static inline unsigned short cudasim_bf16_from_float(float value)
{
    const unsigned int bits = __float_as_uint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return 0x7fff;
    return (unsigned short)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

struct __align__(2) __nv_bfloat16
{
    unsigned short __x;

    __nv_bfloat16() = default;
    __nv_bfloat16(float value) : __x(cudasim_bf16_from_float(value))
    {
    }
    __nv_bfloat16(double value) : __nv_bfloat16((float)value)
    {
    }
    __nv_bfloat16(const __nv_bfloat16_raw &raw) : __x(raw.x)
    {
    }
    operator float() const
    {
        return __uint_as_float((unsigned int)__x << 16);
    }
};
typedef __nv_bfloat16 nv_bfloat16;

struct __align__(4) __nv_bfloat162
{
    __nv_bfloat16 x, y;

    __nv_bfloat162() = default;
    __nv_bfloat162(const __nv_bfloat16 &first, const __nv_bfloat16 &second) : x(first), y(second)
    {
    }
};
typedef __nv_bfloat162 nv_bfloat162;

static inline float __bfloat162float(__nv_bfloat16 value)
{
    return (float)value;
}
static inline __nv_bfloat16 __float2bfloat16(float value)
{
    return __nv_bfloat16(value);
}
static inline __nv_bfloat16 __float2bfloat16_rn(float value)
{
    return __nv_bfloat16(value);
}
static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value)
{
    return value.__x;
}
static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits)
{
    return __nv_bfloat16(__nv_bfloat16_raw{bits});
}
static inline __nv_bfloat162 __floats2bfloat162_rn(float first, float second)
{
    return __nv_bfloat162(__nv_bfloat16(first), __nv_bfloat16(second));
}
static inline __nv_bfloat162 __float22bfloat162_rn(float2 values)
{
    return __floats2bfloat162_rn(values.x, values.y);
}
static inline float2 __bfloat1622float2(__nv_bfloat162 values)
{
    return make_float2((float)values.x, (float)values.y);
}
static inline float __low2float(__nv_bfloat162 values)
{
    return (float)values.x;
}
static inline float __high2float(__nv_bfloat162 values)
{
    return (float)values.y;
}
static inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 first, __nv_bfloat16 second)
{
    return __nv_bfloat162(first, second);
}
static inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 value)
{
    return __nv_bfloat162(value, value);
}
static inline __nv_bfloat16 __hadd(__nv_bfloat16 a, __nv_bfloat16 b)
{
    return __nv_bfloat16((float)a + (float)b);
}
static inline __nv_bfloat16 __hsub(__nv_bfloat16 a, __nv_bfloat16 b)
{
    return __nv_bfloat16((float)a - (float)b);
}
static inline __nv_bfloat16 __hmul(__nv_bfloat16 a, __nv_bfloat16 b)
{
    return __nv_bfloat16((float)a * (float)b);
}

#endif
