/* SPDX-License-Identifier: Apache-2.0
 *
 * The cpu backend but for attention and the optimizer: the templates cpu_*typed.h, once for each
 * element type.
 */
#include "libtrain/base/openmp.h"
#include "libtrain/gemm/gemm.h"
#include "libtrain/ops/kernels.h"
#include "libtrain/ops/typed.h"
#include "libtrain/ops/vector.h"

#define COLUMNS 64 /* columns that one thread sums at a time */

int lt_threads(void)
{
    return omp_get_max_threads();
}

void lt_threads_limit(int threads)
{
    omp_set_num_threads(threads);
}

/* 0.5 x (1 + tanh u) = x / (1 + exp(-2 u)) */
static inline float gelu_gate(float x)
{
    float u = LT_GELU_SCALE * x * lt_fma(LT_GELU_CUBIC * x, x, 1.0f);
    return 1.0f / (1.0f + lt_exp(-2.0f * u));
}

static inline float sigmoid(float x)
{
    return 1.0f / (1.0f + lt_exp(-x));
}

void lt_rope_turns(float *turn, int64_t t, int64_t d, double base)
{
#pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < t; at++)
        for (int64_t i = 0; i < d / 2; i++) {
            double angle = (double)at * pow(base, -2.0 * (double)i / (double)d);
            turn[at * d + i] = (float)cos(angle);
            turn[at * d + d / 2 + i] = (float)sin(angle);
        }
}

/* ---- images ------------------------------------------------------------------------------------ */

/* Shapes of a convolution: its output, the columns of one image, and the images at a time. */
struct columns {
    int64_t oh, ow, taps, images;
};

static struct columns columns_of(const struct lt_conv *conv, size_t element)
{
    struct columns columns = {.oh = lt_conv_out(conv->h, conv->k, conv->stride, conv->pad),
                              .ow = lt_conv_out(conv->w, conv->k, conv->stride, conv->pad),
                              .taps = conv->k * conv->k * conv->c};
    int64_t bytes = columns.oh * columns.ow * columns.taps * (int64_t)element,
            images = LT_CONV_COLUMNS / (bytes > 0 ? bytes : 1);
    columns.images = images < 1 ? 1 : lt_min64(images, conv->b);
    return columns;
}

/* Whether the input is its own columns. */
static int reads_input(const struct lt_conv *conv)
{
    return conv->k == 1 && conv->stride == 1 && conv->pad == 0;
}

size_t lt_conv_scratch(enum lt_dtype dtype, const struct lt_conv *conv)
{
    struct columns columns = columns_of(conv, lt_dtype_bytes(dtype));
    if (reads_input(conv))
        return 0;
    return (size_t)(columns.images * columns.oh * columns.ow * columns.taps) *
               lt_dtype_bytes(dtype) / sizeof(float) +
           1;
}

/* Two sums a column for each part of the rows. */
size_t lt_batchnorm_scratch(int64_t c)
{
    return (size_t)(LT_BATCHNORM_PARTS * 2 * c);
}

/* Rows [*from, *end) of a part. */
static void part_rows(const struct lt_batchnorm *norm, int64_t part, int64_t *from, int64_t *end)
{
    *from = norm->rows * part / LT_BATCHNORM_PARTS;
    *end = norm->rows * (part + 1) / LT_BATCHNORM_PARTS;
}

/* Column c of sum `which`, over all parts in their order. */
static float sum_parts(const struct lt_batchnorm *norm, int which, int64_t c)
{
    float sum = 0;
    for (int64_t part = 0; part < LT_BATCHNORM_PARTS; part++)
        sum += norm->scratch[(2 * part + which) * norm->c + c];
    return sum;
}

/* ---- templates --------------------------------------------------------------------------------- */

#define LT_TYPE fp32
#include "libtrain/ops/cpu_typed.h"

#include "libtrain/ops/cpu_experts_typed.h"
#include "libtrain/ops/cpu_image_typed.h"
#include "libtrain/ops/cpu_llama_typed.h"
#include "libtrain/ops/cpu_part_typed.h"
#undef LT_TYPE
#define LT_TYPE bf16
#include "libtrain/ops/cpu_typed.h"

#include "libtrain/ops/cpu_experts_typed.h"
#include "libtrain/ops/cpu_image_typed.h"
#include "libtrain/ops/cpu_llama_typed.h"
#include "libtrain/ops/cpu_part_typed.h"
#undef LT_TYPE
#define LT_TYPE fp16
#include "libtrain/ops/cpu_typed.h"

#include "libtrain/ops/cpu_experts_typed.h"
#include "libtrain/ops/cpu_image_typed.h"
#include "libtrain/ops/cpu_llama_typed.h"
#include "libtrain/ops/cpu_part_typed.h"
