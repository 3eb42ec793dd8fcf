/* SPDX-License-Identifier: Apache-2.0
 *
 * Activation functions in vector code: each in terms of lt_exp (ops/vector.h), so that a loop over
 * them becomes vectors. Errors are below 3e-6 of the result or 5e-7, whichever is more.
 */
#include "libtrain/calibrate/activations.h"

#include "libtrain/ops/typed.h"
#include "libtrain/ops/vector.h"

#define LEAK        0.01f
#define GELU_CUBIC  0.044715f
#define GELU_SCALE  0.797884561f /* sqrt(2 / pi) */
#define ROOT_HALF   0.707106781f
#define NORMAL_PEAK 0.398942280f /* 1 / sqrt(2 pi) */

/* ---- the functions and their slopes ----------------------------------------------------------- */

static inline float sigmoid_value(float x)
{
    return 1.0f / (1.0f + lt_exp(-x));
}

static inline float sigmoid_slope(float x)
{
    float y = sigmoid_value(x);
    return y * (1.0f - y);
}

static inline float relu_value(float x)
{
    return x > 0 ? x : 0;
}

static inline float relu_slope(float x)
{
    return x > 0 ? 1.0f : 0;
}

static inline float leaky_relu_value(float x)
{
    return x > 0 ? x : LEAK * x;
}

static inline float leaky_relu_slope(float x)
{
    return x > 0 ? 1.0f : LEAK;
}

/* 0.5 x (1 + tanh u) = x / (1 + exp(-2 u)) */
static inline float gelu_value(float x)
{
    return x * sigmoid_value(2.0f * GELU_SCALE * x * lt_fma(GELU_CUBIC * x, x, 1.0f));
}

static inline float gelu_slope(float x)
{
    float s = sigmoid_value(2.0f * GELU_SCALE * x * lt_fma(GELU_CUBIC * x, x, 1.0f));
    float slope = 2.0f * GELU_SCALE * lt_fma(3.0f * GELU_CUBIC * x, x, 1.0f);
    return lt_fma(x * s * (1.0f - s), slope, s);
}

/* erf within 1.5e-7 (Abramowitz and Stegun, 7.1.26). */
static inline float vector_erf(float x)
{
    float size = fabsf(x), t = 1.0f / lt_fma(0.3275911f, size, 1.0f);
    float p = 1.061405429f;
    p = lt_fma(p, t, -1.453152027f);
    p = lt_fma(p, t, 1.421413741f);
    p = lt_fma(p, t, -0.284496736f);
    p = lt_fma(p, t, 0.254829592f);
    return copysignf(1.0f - p * t * lt_exp(-x * x), x);
}

static inline float gelu_exact_value(float x)
{
    return 0.5f * x * (1.0f + vector_erf(ROOT_HALF * x));
}

static inline float gelu_exact_slope(float x)
{
    return lt_fma(x, NORMAL_PEAK * lt_exp(-0.5f * x * x),
                  0.5f * (1.0f + vector_erf(ROOT_HALF * x)));
}

static inline float silu_value(float x)
{
    return x * sigmoid_value(x);
}

static inline float silu_slope(float x)
{
    float s = sigmoid_value(x);
    return s * lt_fma(x, 1.0f - s, 1.0f);
}

static inline float tanh_value(float x)
{
    return lt_fma(2.0f, sigmoid_value(2.0f * x), -1.0f);
}

static inline float tanh_slope(float x)
{
    float y = tanh_value(x);
    return lt_fma(-y, y, 1.0f);
}

/* max(x, 0) + log(1 + e^-|x|); with z = e / (2 + e), log(1 + e) = 2 atanh z, and z is at most a
 * third. */
static inline float softplus_value(float x)
{
    float e = lt_exp(-fabsf(x)), z = e / (2.0f + e), square = z * z;
    float p = 2.0f / 13.0f;
    p = lt_fma(p, square, 2.0f / 11.0f);
    p = lt_fma(p, square, 2.0f / 9.0f);
    p = lt_fma(p, square, 2.0f / 7.0f);
    p = lt_fma(p, square, 2.0f / 5.0f);
    p = lt_fma(p, square, 2.0f / 3.0f);
    p = lt_fma(p, square, 2.0f);
    return lt_fma(p, z, relu_value(x));
}

static inline float softplus_slope(float x)
{
    return sigmoid_value(x);
}

/* ---- loops, for each type --------------------------------------------------------------------- */

#define LT_TYPE fp32
#include "libtrain/calibrate/activations_typed.h"
#undef LT_TYPE
#define LT_TYPE bf16
#include "libtrain/calibrate/activations_typed.h"
#undef LT_TYPE
#define LT_TYPE fp16
#include "libtrain/calibrate/activations_typed.h"

static const struct {
    const char *name;
    int flops[2];
    void (*forward[LT_DTYPE_COUNT])(const void *in, void *out, int64_t rows, int64_t columns);
    void (*backward[LT_DTYPE_COUNT])(const void *in, const void *dout, void *din, int64_t rows,
                                     int64_t columns);
} table[LT_ACTIVATION_COUNT] = {
#define ROW(id, function, text, ahead, back) \
    [LT_ACTIVATION_## \
        id] = {text, \
               {ahead, back}, \
               {function##_forward_fp32, function##_forward_bf16, function##_forward_fp16}, \
               {function##_backward_fp32, function##_backward_bf16, function##_backward_fp16}},
    LT_ACTIVATION_MAP(ROW)
#undef ROW
};

const char *lt_activation_name(enum lt_activation activation)
{
    return table[activation].name;
}

int lt_activation_flops(enum lt_activation activation, int backward)
{
    return table[activation].flops[backward != 0];
}

void lt_activation_forward(enum lt_activation activation, enum lt_dtype dtype, const void *in,
                           void *out, int64_t rows, int64_t columns)
{
    table[activation].forward[dtype](in, out, rows, columns);
}

void lt_activation_backward(enum lt_activation activation, enum lt_dtype dtype, const void *in,
                            const void *dout, void *din, int64_t rows, int64_t columns)
{
    table[activation].backward[dtype](in, dout, din, rows, columns);
}
