/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the cpu backend: functions simple enough for the compiler to vectorise inside a loop;
 * libm's are calls.
 */
#ifndef LT_VECTOR_H
#define LT_VECTOR_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "libtrain/base/least.h"

/* a * b + c, fused where the machine does it in one instruction */
static inline float lt_fma(float a, float b, float c)
{
#ifdef __FP_FAST_FMAF
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

/* exp(x) within 2 units in the last place; below -87.3 the smallest normal number, above 88.3 about
 * 2e38. x = n ln 2 + r with |r| <= ln 2 / 2; exp(r) by its Taylor polynomial to r^7; 2^n by the
 * exponent bits. */
static inline float lt_exp(float x)
{
#ifdef LT_DOUBLE
    return exp(x);
#else
    const float round = 12582912.0f; /* 1.5 * 2^23: adding it leaves an integer in the low bits */
    x = x < -87.3f ? -87.3f : x;
    x = x > 88.3f ? 88.3f : x;
    float shifted = lt_fma(x, 1.44269504f, round);
    float n = shifted - round;
    float r = lt_fma(n, -0.693145752f, x);
    r = lt_fma(n, -1.42860677e-6f, r);
    float p = 1.98412698e-4f;
    p = lt_fma(p, r, 1.38888889e-3f);
    p = lt_fma(p, r, 8.33333333e-3f);
    p = lt_fma(p, r, 4.16666667e-2f);
    p = lt_fma(p, r, 1.66666667e-1f);
    p = lt_fma(p, r, 0.5f);
    p = lt_fma(p, r, 1.0f);
    p = lt_fma(p, r, 1.0f);
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits << 23) + 0x3f800000u;
    float power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
#endif
}

/* Largest of n >= 1 floats. In lanes, because compilers do not turn a maximum into vectors where a
 * NaN could come by. */
static inline float lt_max(const float *x, int64_t n)
{
    enum { LANES = 16 };
    float lane[LANES], max = x[0];
    int64_t i = 0;
    for (int j = 0; j < LANES; j++)
        lane[j] = x[0];
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
    for (; i < n; i++)
        max = x[i] > max ? x[i] : max;
    for (int j = 0; j < LANES; j++)
        max = lane[j] > max ? lane[j] : max;
    return max;
}

#endif
