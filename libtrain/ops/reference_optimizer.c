/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference backend: norm of the gradient, optimizers, zeroing, each as its formula, one
 * thread, in double.
 */
#include <math.h>
#include <string.h>

#include "libtrain/ops/kernels.h"

void lt_reference_norm(const union lt_args *args)
{
    const struct lt_norm *a = &args->norm;
    double sum = 0;
    for (int64_t i = 0; i < a->count; i++)
        sum += (double)a->x[i] * a->x[i];
    *a->sum = sum;
}

static void shadow_all(uint16_t *shadow, const float *param, int64_t count)
{
    for (int64_t i = 0; shadow && i < count; i++)
        shadow[i] = lt_bf16_round(param[i]);
}

void lt_reference_adamw(const union lt_args *args)
{
    const struct lt_adamw *a = &args->adamw;
    for (int64_t i = 0; i < a->count; i++) {
        double g = (double)a->grad[i] * a->grad_scale;
        double m = a->beta1 * (double)a->m[i] + (1 - (double)a->beta1) * g;
        double v = a->beta2 * (double)a->v[i] + (1 - (double)a->beta2) * g * g;
        double decay = i < a->decayed ? (double)a->weight_decay * a->param[i] : 0;
        double update = m / a->correction1 / (sqrt(v / a->correction2) + a->eps) + decay;
        a->m[i] = (float)m;
        a->v[i] = (float)v;
        a->param[i] = (float)(a->param[i] - a->lr * update);
    }
    shadow_all(a->shadow, a->param, a->count);
}

void lt_reference_momentum(const union lt_args *args)
{
    const struct lt_momentum *a = &args->momentum;
    for (int64_t i = 0; i < a->count; i++) {
        double u = a->momentum * (double)a->velocity[i] + (double)a->grad[i] * a->grad_scale;
        double decay = i < a->decayed ? (double)a->weight_decay * a->param[i] : 0;
        a->velocity[i] = (float)u;
        a->param[i] = (float)(a->param[i] - a->lr * (u + decay));
    }
    shadow_all(a->shadow, a->param, a->count);
}

void lt_reference_sgd(const union lt_args *args)
{
    const struct lt_sgd *a = &args->sgd;
    for (int64_t i = 0; i < a->count; i++) {
        double decay = i < a->decayed ? (double)a->weight_decay * a->param[i] : 0;
        a->param[i] = (float)(a->param[i] - a->lr * ((double)a->grad[i] * a->grad_scale + decay));
    }
    shadow_all(a->shadow, a->param, a->count);
}

void lt_reference_zero(const union lt_args *args)
{
    memset(args->zero.x, 0, (size_t)args->zero.count * sizeof(float));
}
