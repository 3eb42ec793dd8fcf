/* SPDX-License-Identifier: Apache-2.0
 *
 * The cpu backend's memory-bound operations and linear layers: cpu_typed.h and cpu_llama_typed.h,
 * once for each element type.
 */
#include "libtrain/ops/gemm.h"
#include "libtrain/ops/kernels.h"
#include "libtrain/ops/openmp.h"
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

#define LT_TYPE fp32
#include "libtrain/ops/cpu_llama_typed.h"
#include "libtrain/ops/cpu_typed.h"
#undef LT_TYPE
#define LT_TYPE bf16
#include "libtrain/ops/cpu_llama_typed.h"
#include "libtrain/ops/cpu_typed.h"
#undef LT_TYPE
#define LT_TYPE fp16
#include "libtrain/ops/cpu_llama_typed.h"
#include "libtrain/ops/cpu_typed.h"
