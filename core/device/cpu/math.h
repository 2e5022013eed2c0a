/* Elementary functions on eight lanes, our own: the C library has no vector versions that every compiler
 * calls, and bits must not change with its version. Error bounds are in units of the last place (ulp) of
 * fp32, seen by tests/unit/device/test_math.c over dense samples.
 */
#ifndef MT_DEVICE_CPU_MATH_H
#define MT_DEVICE_CPU_MATH_H

#include "core/device/cpu/simd.h"

/* e^x to 2 ulp. 0 below -87.33 (no subnormal results), infinite from 88.37 on, NaN for NaN.
 * x = n ln 2 + r with |r| <= ln 2 / 2 (Cody and Waite's two-part ln 2); e^r by a polynomial of degree six,
 * fitted to a relative error of 3.1e-9; then times 2^n, put together in the exponent's bits. */
MT_INLINE mt_vf mt_vf_exp(mt_vf x)
{
    const mt_vf rounder = mt_vf_set(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer */
    const mt_vf below = mt_vf_set(-87.33f), above = mt_vf_set(88.37f);
    const mt_vi too_small = (mt_vi)(x < below), too_large = (mt_vi)(x > above);
    const mt_vf t = x * 1.44269504f + rounder;
    const mt_vf n = t - rounder;
    const mt_vf r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    mt_vf p = r * 0.00138144711f + 0.008368780828f;
    p = p * r + 0.041668394153f;
    p = p * r + 0.166665201033f;
    p = p * r + 0.499999934127f;
    p = p * (r * r) + r + 1.0f;
    /* Unsigned: what is too small or too large wraps here, and is replaced below. */
    const mt_vf power = (mt_vf)(((mt_vu)t - (0x4b400000u - 127)) << 23);
    mt_vf result = p * power;
    result = mt_vf_select(too_small, mt_vf_set(0), result);
    return mt_vf_select(too_large, mt_vf_set(__builtin_inff()), result);
}

/* tanh x to 3 ulp: an odd polynomial below 0.625, 1 - 2 / (e^2x + 1) above. */
MT_INLINE mt_vf mt_vf_tanh(mt_vf x)
{
    const mt_vf magnitude = (mt_vf)((mt_vi)x & 0x7fffffff);
    const mt_vf square = x * x;
    mt_vf p = square * -0.005717028533f + 0.020650571142f;
    p = p * square - 0.053743492577f;
    p = p * square + 0.133314912117f;
    p = p * square - 0.33333283922f;
    const mt_vf small = x + x * (square * p);
    const mt_vf large = 1.0f - 2.0f / (mt_vf_exp(magnitude + magnitude) + 1.0f);
    const mt_vf signed_large = (mt_vf)((mt_vi)large | ((mt_vi)x & (mt_vi)mt_vf_set(-0.0f)));
    return mt_vf_select((mt_vi)(magnitude < 0.625f), small, signed_large);
}

MT_INLINE mt_vf mt_vf_sigmoid(mt_vf x)
{
    return 1.0f / (1.0f + mt_vf_exp(-x));
}

/* erf x with an absolute error below 4e-7: 1 - e^(-x^2) Q(1 / (1 + |x| / 2)), Q of degree nine fitted to
 * e^(x^2) erfc x on [0, 4.2] to 1.6e-9 (beyond, the result is 1). */
MT_INLINE mt_vf mt_vf_erf(mt_vf x)
{
    const mt_vf magnitude = (mt_vf)((mt_vi)x & 0x7fffffff);
    const mt_vf t = 1.0f / (1.0f + 0.5f * magnitude);
    mt_vf q = t * -1.740916411776e-02f + 5.090122882641e-02f;
    q = q * t + 8.391533136393e-02f;
    q = q * t - 5.196909199442e-01f;
    q = q * t + 6.749016350488e-01f;
    q = q * t - 1.999735889575e-01f;
    q = q * t + 3.939664954123e-01f;
    q = q * t + 2.467841100936e-01f;
    q = q * t + 2.868872179245e-01f;
    q = q * t - 2.823471779639e-04f;
    const mt_vf result = 1.0f - q * mt_vf_exp(-(magnitude * magnitude));
    return (mt_vf)((mt_vi)result | ((mt_vi)x & (mt_vi)mt_vf_set(-0.0f)));
}

#endif
