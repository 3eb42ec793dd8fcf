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
    const struct lt_norm *norm = &args->norm;
    double sum = 0;
    for (int64_t i = 0; i < norm->count; i++)
        sum += (double)norm->x[i] * norm->x[i];
    *norm->sum = sum;
}

static void shadow_all(uint16_t *shadow, const float *param, int64_t count)
{
    for (int64_t i = 0; shadow && i < count; i++)
        shadow[i] = lt_bf16_round(param[i]);
}

void lt_reference_adamw(const union lt_args *args)
{
    const struct lt_adamw *adamw = &args->adamw;
    for (int64_t i = 0; i < adamw->count; i++) {
        double g = (double)adamw->grad[i] * adamw->grad_scale;
        double m = adamw->beta1 * (double)adamw->m[i] + (1 - (double)adamw->beta1) * g;
        double v = adamw->beta2 * (double)adamw->v[i] + (1 - (double)adamw->beta2) * g * g;
        double decay = i < adamw->decayed ? (double)adamw->weight_decay * adamw->param[i] : 0;
        double update =
            m / adamw->correction1 / (sqrt(v / adamw->correction2) + adamw->eps) + decay;
        adamw->m[i] = (float)m;
        adamw->v[i] = (float)v;
        adamw->param[i] = (float)(adamw->param[i] - adamw->lr * update);
    }
    shadow_all(adamw->shadow, adamw->param, adamw->count);
}

void lt_reference_momentum(const union lt_args *args)
{
    const struct lt_momentum *momentum = &args->momentum;
    for (int64_t i = 0; i < momentum->count; i++) {
        double u = momentum->momentum * (double)momentum->velocity[i] +
                   (double)momentum->grad[i] * momentum->grad_scale;
        double decay =
            i < momentum->decayed ? (double)momentum->weight_decay * momentum->param[i] : 0;
        momentum->velocity[i] = (float)u;
        momentum->param[i] = (float)(momentum->param[i] - momentum->lr * (u + decay));
    }
    shadow_all(momentum->shadow, momentum->param, momentum->count);
}

void lt_reference_sgd(const union lt_args *args)
{
    const struct lt_sgd *sgd = &args->sgd;
    for (int64_t i = 0; i < sgd->count; i++) {
        double decay = i < sgd->decayed ? (double)sgd->weight_decay * sgd->param[i] : 0;
        sgd->param[i] =
            (float)(sgd->param[i] - sgd->lr * ((double)sgd->grad[i] * sgd->grad_scale + decay));
    }
    shadow_all(sgd->shadow, sgd->param, sgd->count);
}

void lt_reference_zero(const union lt_args *args)
{
    memset(args->zero.x, 0, (size_t)args->zero.count * sizeof(float));
}
