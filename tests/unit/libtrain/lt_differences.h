/* SPDX-License-Identifier: Apache-2.0
 *
 * Finite differences in double. The reference backend's templates (reference_*typed.h) are included
 * once more, with doubles as elements: their forward is the function whose slopes every backend and
 * type is held to. Arrays of elements are doubles here; parameters and statistics stay floats,
 * which the function reads exactly. What it writes as floats (losses, gates) is rounded once, so
 * its differences take larger steps.
 */
#ifndef LT_DIFFERENCES_H
#define LT_DIFFERENCES_H

#include "lt_support.h"

#include "libtrain/ops/kernels.h"
#include "libtrain/ops/reference.h"
#include "libtrain/ops/typed.h"

typedef double lt_fp64, lt_real_fp64;

static inline double lt_get_fp64(double x)
{
    return x;
}

static inline double lt_put_fp64(double x)
{
    return x;
}

#define DECLARE(id, function, name, pass, kind) \
    void LT_KERNEL(pass, lt_reference_##function, fp64)(const union lt_args *args);
LT_OP_MAP(DECLARE)
#undef DECLARE

#define LT_TYPE fp64
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion" /* sums of gradients of parameters are floats */
#pragma GCC diagnostic ignored "-Wfloat-conversion"
#include "libtrain/ops/reference_typed.h"

#include "libtrain/ops/reference_experts_typed.h"
#include "libtrain/ops/reference_image_typed.h"
#include "libtrain/ops/reference_llama_typed.h"
#include "libtrain/ops/reference_part_typed.h"
#pragma GCC diagnostic pop
#undef LT_TYPE

static inline void run_in_double(enum lt_op_id op, const union lt_args *args)
{
    static void (*const table[LT_OP_COUNT])(const union lt_args *) = {
#define ROW(id, function, name, pass, kind) \
    [LT_OP_##id] = LT_KERNEL(pass, lt_reference_##function, fp64),
        LT_OP_MAP(ROW)
#undef ROW
    };
    table[op](args);
}

/* Of the differences: 2^-7 is exact for inputs of few bits; their error is about STEP^4 / 30. */
#define STEP        0x1p-7
#define STEP_FLOATS 0x1p-4 /* where the output is floats */
#define SLOPE_NEAR  3e-5
#define TRIES       40

/* Tolerance of the type: fp32 that of its own sums; in bf16 and fp16 each rounding is 2^-9 at the
 * most, and a gradient goes through a few. */
static inline double near_of(const struct lt_context *x)
{
    return x->dtype == LT_DTYPE_FP32 ? SLOPE_NEAR : SLOPE_NEAR + 3 * 0x1p-9;
}

/* Normal numbers that all types have, and to which a step can be added exactly. */
static inline float *inputs(int64_t n, uint64_t key, float deviation)
{
    float *x = normals(n, key, deviation);
    for (int64_t i = 0; i < n; i++)
        x[i] = lt_bf16_float(lt_bf16_round(x[i]));
    return x;
}

/* As inputs, but no two are nearer than 1/4, and none is nearer to 0 than 1/8. */
static inline float *apart(int64_t n, uint64_t key)
{
    float *x = zeros(n);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)i / 4 - (float)(n / 8) + 0.125f;
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = (int64_t)(lt_random_bits(key, (uint64_t)i) % (uint64_t)(i + 1));
        float kept = x[i];
        x[i] = x[j];
        x[j] = kept;
    }
    return x;
}

static inline double *doubles(const float *x, int64_t n)
{
    double *y = pool_bytes((size_t)n * sizeof *y);
    for (int64_t i = 0; i < n; i++)
        y[i] = (double)x[i];
    return y;
}

static inline double *zero_doubles(int64_t n)
{
    return pool_bytes((size_t)n * sizeof(double));
}

/* One scalar, sum of probe * output, as a function of the arrays in args. output: doubles, or
 * floats if so. The join of a divided classifier comes after its part. */
struct scalar {
    enum lt_op_id op;
    const union lt_args *args;
    const void *output;
    const float *probe;
    int64_t outputs;
    int floats;
};

static inline double evaluate(const struct scalar *s)
{
    double sum = 0;
    if (s->op == LT_OP_CLASSIFIER_JOIN)
        run_in_double(LT_OP_CLASSIFIER_PART, s->args);
    run_in_double(s->op, s->args);
    for (int64_t i = 0; i < s->outputs; i++)
        sum += (double)s->probe[i] *
               (s->floats ? (double)((const float *)s->output)[i] : ((const double *)s->output)[i]);
    return sum;
}

/* Element i of the array, moved by `by`; 0: as it was. */
static inline double moved(const struct scalar *s, void *array, int is_float, int64_t i, double by)
{
    double kept = is_float ? (double)((float *)array)[i] : ((double *)array)[i];
    if (is_float)
        ((float *)array)[i] = (float)(kept + by);
    else
        ((double *)array)[i] = kept + by;
    double value = evaluate(s);
    if (is_float)
        ((float *)array)[i] = (float)kept;
    else
        ((double *)array)[i] = kept;
    return value;
}

/* Operations whose slopes have been compared. */
static char checked[LT_OP_COUNT];

/* Every operation of forward among [first, last] has been checked, but for `but`, whose gradient is
 * none or that of its output. */
static inline void assert_checked(enum lt_op_id first, enum lt_op_id last, enum lt_op_id but)
{
    static const char *const passes[LT_OP_COUNT] = {
#define ROW(id, function, name, pass, kind) [LT_OP_##id] = #pass,
        LT_OP_MAP(ROW)
#undef ROW
    };
    for (enum lt_op_id op = first; op <= last; op++)
        if (strcmp(passes[op], "FORWARD") == 0 && op != but && !checked[op])
            fail_msg("%s: its gradient is not checked", lt_op_names()[op]);
}

/* gradient[i] must be d evaluate / d array[i]; TRIES elements drawn at random. */
static inline void check_slope(const struct lt_context *context, const char *what,
                               const struct scalar *s, void *array, int is_float,
                               const float *gradient, int64_t n)
{
    checked[s->op] = 1;
    if (s->op == LT_OP_CLASSIFIER_JOIN)
        checked[LT_OP_CLASSIFIER_PART] = 1;
    double largest = 0, h = s->floats ? STEP_FLOATS : STEP;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)gradient[i]));
    assert_true(largest > 0);
    for (uint64_t k = 0; k < TRIES; k++) {
        int64_t i = (int64_t)(lt_random_bits(99, k) % (uint64_t)n);
        double once = moved(s, array, is_float, i, h) - moved(s, array, is_float, i, -h),
               twice = moved(s, array, is_float, i, 2 * h) - moved(s, array, is_float, i, -2 * h),
               slope = (8 * once - twice) / (12 * h);
        if (!(fabs(slope - (double)gradient[i]) <= near_of(context) * (largest + fabs(slope))))
            fail_msg("%s, %s, %s: gradient %lld is %.8g, differences say %.8g", what,
                     lt_backend_name(context->backend), lt_dtype_name(context->dtype), (long long)i,
                     (double)gradient[i], slope);
    }
    evaluate(s);
}

static inline void check_elements(const struct lt_context *context, const char *what,
                                  const struct scalar *s, const void *array, const float *gradient,
                                  int64_t n)
{
    check_slope(context, what, s, (void *)(uintptr_t)array, 0, gradient, n);
}

static inline void check_floats(const struct lt_context *context, const char *what,
                                const struct scalar *s, const float *array, const float *gradient,
                                int64_t n)
{
    check_slope(context, what, s, (void *)(uintptr_t)array, 1, gradient, n);
}

/* A backward that was run twice and adds has left twice what it left once. */
static inline void assert_doubled(const struct lt_context *x, const char *what, const void *twice,
                                  float *once, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        once[i] *= 2;
    assert_near(what, floats(x->dtype, twice, n), once, n,
                x->dtype == LT_DTYPE_FP32 ? 1e-6 : 0x1p-8);
}

static inline void for_each_context(void (*check)(const struct lt_context *))
{
    for (int b = 0; b < LT_BACKEND_COUNT; b++)
        for (int d = 0; d < LT_DTYPE_COUNT; d++)
            check(&(struct lt_context){.backend = (enum lt_backend)b, .dtype = (enum lt_dtype)d});
}

#endif
