/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear layers of the backend cpu: products by the library behind gemm.h, biases here.
 */
#include "libtrain/gemm.h"
#include "libtrain/kernels.h"

#define COLUMNS 64 /* columns that one thread sums at a time */

static void add_bias(const struct lt_matmul *a)
{
    if (!a->bias)
        return;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < a->rows; r++) {
        float *out = a->out + r * a->n;
#pragma omp simd
        for (int64_t n = 0; n < a->n; n++)
            out[n] += a->bias[n];
    }
}

static void bias_columns(const struct lt_matmul *a, int64_t n0)
{
    float sum[COLUMNS] = {0};
    int64_t count = a->n - n0 < COLUMNS ? a->n - n0 : COLUMNS;
    for (int64_t r = 0; r < a->rows; r++) {
        const float *dout = a->dout + r * a->n + n0;
#pragma omp simd
        for (int64_t n = 0; n < count; n++)
            sum[n] += dout[n];
    }
    for (int64_t n = 0; n < count; n++)
        a->dbias[n0 + n] = (a->accumulate ? a->dbias[n0 + n] : 0.0f) + sum[n];
}

static void bias_gradient(const struct lt_matmul *a)
{
    if (!a->dbias)
        return;
#pragma omp parallel for schedule(static)
    for (int64_t n0 = 0; n0 < a->n; n0 += COLUMNS)
        bias_columns(a, n0);
}

void lt_cpu_matmul_forward(const union lt_args *args)
{
    const struct lt_matmul *a = &args->matmul_forward;
    struct lt_matrix in = {a->in, a->k, 1}, weight = {a->weight, 1, a->k};
    lt_gemm(a->rows, a->n, a->k, 1.0f, in, weight, 0.0f, a->out, a->n);
    add_bias(a);
}

void lt_cpu_matmul_backward(const union lt_args *args)
{
    const struct lt_matmul *a = &args->matmul_backward;
    struct lt_matrix dout = {a->dout, a->n, 1}, turned = {a->dout, 1, a->n}, weight = {a->weight, a->k, 1},
                     in = {a->in, a->k, 1};
    if (a->din)
        lt_gemm(a->rows, a->k, a->n, 1.0f, dout, weight, 0.0f, a->din, a->k);
    lt_gemm(a->n, a->k, a->rows, 1.0f, turned, in, a->accumulate ? 1.0f : 0.0f, a->dweight, a->k);
    bias_gradient(a);
}
