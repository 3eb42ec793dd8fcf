/* SPDX-License-Identifier: Apache-2.0
 *
 * The cpu backend, flat passes over all parameters: norm of the gradient, the optimizers, zeroing.
 * All are bound by memory; each element is read and written once. The order of sums does not depend
 * on the number of threads.
 */
#include <string.h>

#include "libtrain/ops/kernels.h"
#include "libtrain/ops/vector.h"

#define BLOCK ((int64_t)16384) /* elements a thread updates at a time */

size_t lt_norm_partials(int64_t count)
{
    return (size_t)((count + LT_NORM_BLOCK - 1) / LT_NORM_BLOCK);
}

void lt_cpu_norm(const union lt_args *args)
{
    const struct lt_norm *norm = &args->norm;
    int64_t blocks = (int64_t)lt_norm_partials(norm->count);
#pragma omp parallel for schedule(static)
    for (int64_t index = 0; index < blocks; index++) {
        const float *x = norm->x + index * LT_NORM_BLOCK;
        int64_t count = lt_min64(LT_NORM_BLOCK, norm->count - index * LT_NORM_BLOCK);
        double block = 0;
        for (int64_t i = 0; i < count;
             i += 1024) { /* floats add up 1024 terms over the vector's lanes, doubles the rest */
            int64_t end = lt_min64(i + 1024, count);
            float sum = 0;
#pragma omp simd reduction(+ : sum)
            for (int64_t j = i; j < end; j++)
                sum += x[j] * x[j];
            block += (double)sum;
        }
        norm->partial[index] = block;
    }
    double sum = 0;
    for (int64_t i = 0; i < blocks; i++)
        sum += norm->partial[i];
    *norm->sum = sum;
}

/* Writes the bf16 copy of what was just written, while it is in the cache. */
static void shadow_range(uint16_t *restrict shadow, const float *restrict param, int64_t from,
                         int64_t to)
{
    if (!shadow)
        return;
#pragma omp simd
    for (int64_t i = from; i < to; i++)
        shadow[i] = lt_bf16_round(param[i]);
}

void lt_shadow_refresh(uint16_t *shadow, const float *param, int64_t count)
{
#pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < count; at += BLOCK)
        shadow_range(shadow, param, at, lt_min64(at + BLOCK, count));
}

/* Where a block [at, end) stops to decay. */
static int64_t split_of(int64_t first, int64_t end, int64_t decayed)
{
    return decayed < first ? first : lt_min64(decayed, end);
}

/* m = beta1 m + (1 - beta1) g and v = beta2 v + (1 - beta2) g^2, each as one fused step; then p =
 * p (1 - lr decay) - lr m^ / (sqrt(v^) + eps), with the corrected moments m^ and v^. */
static void adamw_range(const struct lt_adamw *adamw, int64_t from, int64_t to, float weight_decay)
{
    float *restrict param = adamw->param, *restrict ms = adamw->m, *restrict vs = adamw->v;
    const float *restrict grad = adamw->grad;
    float beta1 = adamw->beta1, beta2 = adamw->beta2, scale = adamw->grad_scale, eps = adamw->eps,
          shrink = 1.0f - adamw->lr * weight_decay;
    float rate = adamw->lr / adamw->correction1, inverse2 = 1.0f / adamw->correction2;
#pragma omp simd
    for (int64_t i = from; i < to; i++) {
        float g = grad[i] * scale;
        float m = lt_fma(beta1, ms[i] - g, g);
        float v = lt_fma(beta2, vs[i] - g * g, g * g);
        ms[i] = m;
        vs[i] = v;
        param[i] = param[i] * shrink - rate * m / (sqrtf(v * inverse2) + eps);
    }
}

void lt_cpu_adamw(const union lt_args *args)
{
    const struct lt_adamw *adamw = &args->adamw;
#pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < adamw->count; at += BLOCK) {
        int64_t end = lt_min64(at + BLOCK, adamw->count), split = split_of(at, end, adamw->decayed);
        adamw_range(adamw, at, split, adamw->weight_decay);
        adamw_range(adamw, split, end, 0.0f);
        shadow_range(adamw->shadow, adamw->param, at, end);
    }
}

/* u = momentum u + g; p = p (1 - lr decay) - lr u. */
static void momentum_range(const struct lt_momentum *momentum_args, int64_t from, int64_t to,
                           float weight_decay)
{
    float *restrict param = momentum_args->param, *restrict us = momentum_args->velocity;
    const float *restrict grad = momentum_args->grad;
    float momentum = momentum_args->momentum, scale = momentum_args->grad_scale,
          lr = momentum_args->lr, shrink = 1.0f - momentum_args->lr * weight_decay;
#pragma omp simd
    for (int64_t i = from; i < to; i++) {
        float u = lt_fma(momentum, us[i], grad[i] * scale);
        us[i] = u;
        param[i] = param[i] * shrink - lr * u;
    }
}

void lt_cpu_momentum(const union lt_args *args)
{
    const struct lt_momentum *momentum = &args->momentum;
#pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < momentum->count; at += BLOCK) {
        int64_t end = lt_min64(at + BLOCK, momentum->count),
                split = split_of(at, end, momentum->decayed);
        momentum_range(momentum, at, split, momentum->weight_decay);
        momentum_range(momentum, split, end, 0.0f);
        shadow_range(momentum->shadow, momentum->param, at, end);
    }
}

static void sgd_range(const struct lt_sgd *sgd, int64_t from, int64_t to, float weight_decay)
{
    float *restrict param = sgd->param;
    const float *restrict grad = sgd->grad;
    float rate = sgd->lr, scale = sgd->grad_scale, shrink = 1.0f - sgd->lr * weight_decay;
#pragma omp simd
    for (int64_t i = from; i < to; i++)
        param[i] = param[i] * shrink - rate * (grad[i] * scale);
}

void lt_cpu_sgd(const union lt_args *args)
{
    const struct lt_sgd *sgd = &args->sgd;
#pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < sgd->count; at += BLOCK) {
        int64_t end = lt_min64(at + BLOCK, sgd->count), split = split_of(at, end, sgd->decayed);
        sgd_range(sgd, at, split, sgd->weight_decay);
        sgd_range(sgd, split, end, 0.0f);
        shadow_range(sgd->shadow, sgd->param, at, end);
    }
}

void lt_cpu_zero(const union lt_args *args)
{
    const struct lt_zero *zero = &args->zero;
    const int64_t block = 65536;
#pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < zero->count; at += block)
        memset(zero->x + at, 0, (size_t)lt_min64(block, zero->count - at) * sizeof(float));
}
