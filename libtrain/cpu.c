/* SPDX-License-Identifier: Apache-2.0
 *
 * The cpu backend, memory-bound operations: OpenMP over rows or columns, simple inner loops the compiler vectorises.
 *
 * Every sum is taken in an order that does not depend on timing: sums over rows are split by column among the threads, so that
 * a run is repeated bit by bit, and a resumed run continues bit by bit.
 */
#include <string.h>

#include "libtrain/kernels.h"
#include "libtrain/openmp.h"
#include "libtrain/vector.h"

#define COLUMNS 64 /* columns that one thread sums at a time */

int lt_threads(void)
{
    return omp_get_max_threads();
}

void lt_threads_limit(int threads)
{
    omp_set_num_threads(threads);
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void lt_cpu_embedding_forward(const union lt_args *args)
{
    const struct lt_embedding *a = &args->embedding_forward;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < a->b * a->t; i++) {
        const float *word = a->word + a->tokens[i] * a->c, *position = a->position + i % a->t * a->c;
        float *out = a->out + i * a->c;
#pragma omp simd
        for (int64_t c = 0; c < a->c; c++)
            out[c] = word[c] + position[c];
    }
}

/* Tokens repeat, so rows of dword collide: threads take columns, each goes through all tokens. */
void lt_cpu_embedding_backward(const union lt_args *args)
{
    const struct lt_embedding *a = &args->embedding_backward;
#pragma omp parallel for schedule(static)
    for (int64_t c0 = 0; c0 < a->c; c0 += COLUMNS) {
        int64_t n = min64(COLUMNS, a->c - c0);
        for (int64_t i = 0; i < a->b * a->t; i++) {
            const float *dout = a->dout + i * a->c + c0;
            float *word = a->dword + a->tokens[i] * a->c + c0, *position = a->dposition + i % a->t * a->c + c0;
#pragma omp simd
            for (int64_t c = 0; c < n; c++) {
                word[c] += dout[c];
                position[c] += dout[c];
            }
        }
    }
}

void lt_cpu_layernorm_forward(const union lt_args *args)
{
    const struct lt_layernorm *a = &args->layernorm_forward;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < a->rows; r++) {
        const float *x = a->in + r * a->c;
        float *out = a->out + r * a->c, mean = 0, variance = 0;
#pragma omp simd reduction(+ : mean)
        for (int64_t c = 0; c < a->c; c++)
            mean += x[c];
        mean /= (float)a->c;
#pragma omp simd reduction(+ : variance)
        for (int64_t c = 0; c < a->c; c++)
            variance += (x[c] - mean) * (x[c] - mean);
        float rstd = 1.0f / sqrtf(variance / (float)a->c + LT_LAYERNORM_EPS);
#pragma omp simd
        for (int64_t c = 0; c < a->c; c++)
            out[c] = lt_fma((x[c] - mean) * rstd, a->weight[c], a->bias[c]);
        a->mean[r] = mean;
        a->rstd[r] = rstd;
    }
}

static void layernorm_backward_row(const struct lt_layernorm *a, int64_t r)
{
    const float *x = a->in + r * a->c, *dy = a->dout + r * a->c;
    float *din = a->din + r * a->c, mean = a->mean[r], rstd = a->rstd[r], sum = 0, sum_hat = 0;
#pragma omp simd reduction(+ : sum, sum_hat)
    for (int64_t c = 0; c < a->c; c++) {
        float g = dy[c] * a->weight[c];
        sum += g;
        sum_hat += g * ((x[c] - mean) * rstd);
    }
    sum /= (float)a->c;
    sum_hat /= (float)a->c;
#pragma omp simd
    for (int64_t c = 0; c < a->c; c++) {
        float hat = (x[c] - mean) * rstd, g = dy[c] * a->weight[c];
        din[c] += rstd * (g - sum - hat * sum_hat);
    }
}

/* Inlined where n is a constant, the two sums stay in registers. */
static inline __attribute__((always_inline)) void layernorm_backward_columns(const struct lt_layernorm *a, int64_t c0,
                                                                             int64_t n)
{
    float dweight[COLUMNS] = {0}, dbias[COLUMNS] = {0};
    for (int64_t r = 0; r < a->rows; r++) {
        const float *x = a->in + r * a->c + c0, *dy = a->dout + r * a->c + c0;
        float mean = a->mean[r], rstd = a->rstd[r];
#pragma omp simd
        for (int64_t c = 0; c < n; c++) {
            dweight[c] += dy[c] * ((x[c] - mean) * rstd);
            dbias[c] += dy[c];
        }
    }
    for (int64_t c = 0; c < n; c++) {
        a->dweight[c0 + c] += dweight[c];
        a->dbias[c0 + c] += dbias[c];
    }
}

void lt_cpu_layernorm_backward(const union lt_args *args)
{
    const struct lt_layernorm *a = &args->layernorm_backward;
#pragma omp parallel
    {
#pragma omp for schedule(static) nowait
        for (int64_t r = 0; r < a->rows; r++)
            layernorm_backward_row(a, r);
#pragma omp for schedule(static)
        for (int64_t c0 = 0; c0 < a->c; c0 += COLUMNS)
            if (a->c - c0 >= COLUMNS)
                layernorm_backward_columns(a, c0, COLUMNS);
            else
                layernorm_backward_columns(a, c0, a->c - c0);
    }
}

/* 0.5 x (1 + tanh u) = x / (1 + exp(-2 u)) */
static inline float gelu_gate(float x)
{
    float u = LT_GELU_SCALE * x * lt_fma(LT_GELU_CUBIC * x, x, 1.0f);
    return 1.0f / (1.0f + lt_exp(-2.0f * u));
}

void lt_cpu_gelu_forward(const union lt_args *args)
{
    const struct lt_gelu *a = &args->gelu_forward;
    const float *in = a->in;
    float *out = a->out;
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < a->count; i++)
        out[i] = in[i] * gelu_gate(in[i]);
}

/* With s = 1 / (1 + exp(-2 u)): tanh u = 2 s - 1 and 1 - tanh^2 u = 4 s (1 - s). */
void lt_cpu_gelu_backward(const union lt_args *args)
{
    const struct lt_gelu *a = &args->gelu_backward;
    const float *in = a->in, *dout = a->dout;
    float *din = a->din;
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < a->count; i++) {
        float x = in[i], s = gelu_gate(x);
        float slope = 2.0f * LT_GELU_SCALE * lt_fma(3.0f * LT_GELU_CUBIC * x, x, 1.0f);
        din[i] = dout[i] * lt_fma(x * s * (1.0f - s), slope, s);
    }
}

void lt_cpu_residual_forward(const union lt_args *args)
{
    const struct lt_residual *a = &args->residual_forward;
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < a->count; i++)
        a->out[i] = a->a[i] + a->b[i];
}

static void classifier_row(const struct lt_classifier *a, int64_t r)
{
    float *x = a->logits + r * a->v, max = lt_max(x, a->v), sum = 0;
    int32_t target = a->targets[r];
    float hit = x[target] - max;
    if (!a->backward) {
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < a->v; i++)
            sum += lt_exp(x[i] - max);
        a->losses[r] = logf(sum) - hit;
        return;
    }
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < a->v; i++) {
        x[i] = lt_exp(x[i] - max);
        sum += x[i];
    }
    a->losses[r] = logf(sum) - hit;
    float scale = a->scale / sum;
#pragma omp simd
    for (int64_t i = 0; i < a->v; i++)
        x[i] *= scale;
    x[target] -= a->scale;
}

void lt_cpu_classifier(const union lt_args *args)
{
    const struct lt_classifier *a = &args->classifier;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < a->rows; r++)
        classifier_row(a, r);
}
