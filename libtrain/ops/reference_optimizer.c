/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference backend: norm of the gradient, optimizers, clipping, zeroing, each as its formula,
 * one thread, in double.
 */
#include <math.h>
#include <string.h>

#include "libtrain/base/exact.h"
#include "libtrain/ops/kernels.h"
#include "libtrain/ops/random.h"

#define REAL           double
#define STORED         float
#define RULE(name)     reference_##name
#define ROOT(x)        sqrt(x)
#define FUSED(a, b, c) ((a) * (b) + (c))
#define PARALLEL       0
#define PRODUCT        reference_product
#include "libtrain/ops/update_rules.h"

struct reference_view;
static void reference_product(float *c, struct reference_view a, struct reference_view b, int64_t m,
                              int64_t n, int64_t k);
#include "libtrain/ops/update_tensor.h"

/* c[m,n] = a[m,k] b[k,n]. */
static void reference_product(float *c, struct reference_view a, struct reference_view b, int64_t m,
                              int64_t n, int64_t k)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t l = 0; l < k; l++)
                sum += (double)a.at[i * a.row + l * a.column] * b.at[l * b.row + j * b.column];
            c[i * n + j] = (float)sum;
        }
}

void lt_reference_norm(const union lt_args *args)
{
    const struct lt_norm *norm = &args->norm;
    if (norm->exact) {
        lt_exact_squares(norm->exact, norm->x, (size_t)norm->count);
        return;
    }
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

#define FLAT(X, id, name, text, states, flops, decay_flops) \
    void lt_reference_##name(const union lt_args *args) \
    { \
        const struct lt_update *update = &args->name; \
        struct reference_terms terms = reference_terms_of(&update->terms); \
        reference_##name##_range(update, &terms, 0, update->decayed, terms.decay); \
        reference_##name##_range(update, &terms, update->decayed, update->count, 0); \
        shadow_all(update->shadow, update->param, update->count); \
    }
LT_UPDATE_MAP(FLAT, )
#undef FLAT

static void reference_adamw8(const struct lt_update *update, const struct reference_terms *terms,
                             double decay)
{
    (void)terms, (void)decay;
    lt_adamw8(update, 0);
}

#define TENSOR(X, id, name, text, kind) \
    void lt_reference_##name(const union lt_args *args) \
    { \
        const struct lt_update *update = &args->name; \
        struct reference_terms terms = reference_terms_of(&update->terms); \
        reference_##name(update, &terms, update->decayed ? terms.decay : 0); \
        shadow_all(update->shadow, update->param, update->count); \
    }
LT_UPDATE_TENSOR_MAP(TENSOR, )
#undef TENSOR

void lt_reference_lookahead(const union lt_args *args)
{
    const struct lt_average *average = &args->lookahead;
    for (int64_t i = 0; i < average->count; i++)
        average->param[i] = average->other[i] =
            (float)((double)average->other[i] +
                    average->share * ((double)average->param[i] - (double)average->other[i]));
    shadow_all(average->shadow, average->param, average->count);
}

void lt_reference_exchange(const union lt_args *args)
{
    const struct lt_average *average = &args->exchange;
    for (int64_t i = 0; i < average->count; i++) {
        float kept = average->param[i];
        average->param[i] = average->other[i];
        average->other[i] = kept;
    }
    shadow_all(average->shadow, average->param, average->count);
}

void lt_reference_clip(const union lt_args *args)
{
    const struct lt_clip *clip = &args->clip;
    for (int64_t i = 0; i < clip->count; i++)
        clip->x[i] =
            (float)fmin(fmax((double)clip->x[i] * clip->scale, -(double)clip->bound), clip->bound);
}

void lt_reference_centre(const union lt_args *args)
{
    const struct lt_centre *centre = &args->centre;
    for (int64_t i = 0; i < centre->rows; i++) {
        float *row = centre->x + i * centre->columns;
        double sum = 0;
        for (int64_t j = 0; j < centre->columns; j++)
            sum += (double)row[j];
        for (int64_t j = 0; j < centre->columns; j++)
            row[j] = (float)((double)row[j] - sum / (double)centre->columns);
    }
}

void lt_reference_rounding(const union lt_args *args)
{
    const struct lt_rounding *rounding = &args->rounding;
    for (int64_t i = 0; i < rounding->count; i++) {
        uint32_t chance = (uint32_t)(lt_random_bits(rounding->key, (uint64_t)i) >> 48);
        uint16_t value = rounding->stochastic ? lt_bf16_chance(rounding->x[i], chance)
                                              : lt_bf16_round(rounding->x[i]);
        rounding->x[i] = lt_bf16_float(value);
        if (rounding->shadow)
            rounding->shadow[i] = value;
    }
}

void lt_reference_zero(const union lt_args *args)
{
    memset(args->zero.x, 0, (size_t)args->zero.count * sizeof(float));
}
