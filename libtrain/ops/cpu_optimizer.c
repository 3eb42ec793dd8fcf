/* SPDX-License-Identifier: Apache-2.0
 *
 * The cpu backend, passes over all parameters or over one tensor: norm of the gradient, clipping,
 * the optimizers, zeroing. All but Muon are bound by memory; the flat ones read and write each
 * element once. The order of sums does not depend on the number of threads.
 */
#include <string.h>

#include "libtrain/base/exact.h"
#include "libtrain/gemm/gemm.h"
#include "libtrain/ops/kernels.h"
#include "libtrain/ops/random.h"
#include "libtrain/ops/vector.h"

#define REAL           float
#define STORED         float
#define RULE(name)     cpu_##name
#define ROOT(x)        sqrtf(x)
#define FUSED(a, b, c) lt_fma(a, b, c)
#define PARALLEL       1
#define PRODUCT        cpu_product
#include "libtrain/ops/update_rules.h"

struct cpu_view;
static void cpu_product(float *c, struct cpu_view a, struct cpu_view b, int64_t m, int64_t n,
                        int64_t k);
#include "libtrain/ops/update_tensor.h"

static void cpu_product(float *c, struct cpu_view a, struct cpu_view b, int64_t m, int64_t n,
                        int64_t k)
{
    lt_gemm_floats(m, n, k, (struct lt_matrix){a.at, a.row, a.column},
                   (struct lt_matrix){b.at, b.row, b.column}, c, 0);
}

#define BLOCK ((int64_t)16384) /* elements a thread updates at a time */

size_t lt_norm_partials(int64_t count)
{
    return (size_t)((count + LT_NORM_BLOCK - 1) / LT_NORM_BLOCK);
}

void lt_cpu_norm(const union lt_args *args)
{
    const struct lt_norm *norm = &args->norm;
    if (norm->exact) {
        lt_exact_squares(norm->exact, norm->x, (size_t)norm->count);
        return;
    }
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

static void shadow_fp16(uint16_t *restrict shadow, const float *restrict param, int64_t count)
{
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < count; i++)
        shadow[i] = lt_fp16_round(param[i]);
}

void lt_shadow_refresh(uint16_t *shadow, enum lt_dtype dtype, const float *param, int64_t count)
{
    if (shadow && dtype == LT_DTYPE_FP16) {
        shadow_fp16(shadow, param, count);
        return;
    }
#pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < count; at += BLOCK)
        shadow_range(shadow, param, at, lt_min64(at + BLOCK, count));
}

/* Where a block [at, end) stops to decay. */
static int64_t split_of(int64_t first, int64_t end, int64_t decayed)
{
    return decayed < first ? first : lt_min64(decayed, end);
}

#define FLAT(X, id, name, text, states, flops, decay_flops) \
    void lt_cpu_##name(const union lt_args *args) \
    { \
        const struct lt_update *update = &args->name; \
        const struct cpu_terms terms = cpu_terms_of(&update->terms); \
        _Pragma("omp parallel for schedule(static)") for (int64_t at = 0; at < update->count; \
                                                          at += BLOCK) \
        { \
            int64_t end = lt_min64(at + BLOCK, update->count), \
                    split = split_of(at, end, update->decayed); \
            cpu_##name##_range(update, &terms, at, split, terms.decay); \
            cpu_##name##_range(update, &terms, split, end, 0); \
            shadow_range(update->shadow, update->param, at, end); \
        } \
    }
LT_UPDATE_MAP(FLAT, )
#undef FLAT

static void cpu_adamw8(const struct lt_update *update, const struct cpu_terms *terms, float decay)
{
    (void)terms, (void)decay;
    lt_adamw8(update, 1);
}

#define TENSOR(X, id, name, text, kind) \
    void lt_cpu_##name(const union lt_args *args) \
    { \
        const struct lt_update *update = &args->name; \
        const struct cpu_terms terms = cpu_terms_of(&update->terms); \
        cpu_##name(update, &terms, update->decayed ? terms.decay : 0); \
        lt_shadow_refresh(update->shadow, LT_DTYPE_BF16, update->param, update->count); \
    }
LT_UPDATE_TENSOR_MAP(TENSOR, )
#undef TENSOR

void lt_cpu_lookahead(const union lt_args *args)
{
    const struct lt_average *average = &args->lookahead;
    float *restrict param = average->param, *restrict other = average->other;
    float share = (float)average->share;
#pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < average->count; at += BLOCK) {
        int64_t end = lt_min64(at + BLOCK, average->count);
        for (int64_t i = at; i < end; i++)
            param[i] = other[i] = lt_fma(share, param[i] - other[i], other[i]);
        shadow_range(average->shadow, param, at, end);
    }
}

void lt_cpu_exchange(const union lt_args *args)
{
    const struct lt_average *average = &args->exchange;
    float *restrict param = average->param, *restrict other = average->other;
#pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < average->count; at += BLOCK) {
        int64_t end = lt_min64(at + BLOCK, average->count);
        for (int64_t i = at; i < end; i++) {
            float kept = param[i];
            param[i] = other[i];
            other[i] = kept;
        }
        shadow_range(average->shadow, param, at, end);
    }
}

void lt_cpu_clip(const union lt_args *args)
{
    const struct lt_clip *clip = &args->clip;
    float *x = clip->x, scale = (float)clip->scale, bound = (float)clip->bound;
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < clip->count; i++) {
        float scaled = x[i] * scale;
        scaled = scaled > bound ? bound : scaled;
        x[i] = scaled < -bound ? -bound : scaled;
    }
}

void lt_cpu_centre(const union lt_args *args)
{
    const struct lt_centre *centre = &args->centre;
    int64_t columns = centre->columns;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < centre->rows; i++) {
        float *row = centre->x + i * columns;
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < columns; j++)
            sum += (double)row[j];
        float mean = (float)(sum / (double)columns);
#pragma omp simd
        for (int64_t j = 0; j < columns; j++)
            row[j] -= mean;
    }
}

void lt_cpu_rounding(const union lt_args *args)
{
    const struct lt_rounding *rounding = &args->rounding;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < rounding->count; i++) {
        uint32_t chance = (uint32_t)(lt_random_bits(rounding->key, (uint64_t)i) >> 48);
        uint16_t value = rounding->stochastic ? lt_bf16_chance(rounding->x[i], chance)
                                              : lt_bf16_round(rounding->x[i]);
        rounding->x[i] = lt_bf16_float(value);
        if (rounding->shadow)
            rounding->shadow[i] = value;
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
