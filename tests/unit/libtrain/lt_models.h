/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of whole models: the gradient against differences of the loss, and what the work
 * records of one step of training add up to.
 */
#ifndef LT_MODELS_H
#define LT_MODELS_H

#include "lt_support.h"

#include "libtrain/train/train.h"

/* A Llama-style shape: layers, channels, heads, groups, hidden, vocabulary, tokens, batch. */
#define LLAMA(name_, l, c, h, g, f, v, t, b) \
    { \
        .name = (name_), .help = "", .layers = (l), .channels = (c), .heads = (h), .groups = (g), \
        .hidden = (f), .vocab = (v), .seq = (t), .batch = (b) \
    }

static inline double slope(struct lt_model *m, const struct lt_context *x, const int32_t *tokens,
                           const int32_t *targets, const float *direction, const float *start,
                           double h)
{
    struct lt_parameters *p = &m->parameters;
    double side[2];
    for (int i = 0; i < 2; i++) {
        for (size_t j = 0; j < p->count; j++)
            p->value[j] = start[j] + (float)(i ? -h : h) * direction[j];
        side[i] =
            m->ops->forward(m, x, &(struct lt_batch){.tokens = tokens, .targets = targets}, 1);
    }
    memcpy(p->value, start, p->count * sizeof *start);
    return (side[0] - side[1]) / (2 * h);
}

static inline double dot(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * b[i];
    return sum;
}

/* Forward and backward of `m` from the parameters `start`; the gradient. */
static inline const float *gradient_at(struct lt_model *m, const struct lt_context *x,
                                       const float *start, const int32_t *tokens,
                                       const int32_t *targets)
{
    struct lt_parameters *p = &m->parameters;
    memcpy(p->value, start, p->count * sizeof *start);
    lt_parameters_refresh(p);
    m->ops->forward(m, x, &(struct lt_batch){.tokens = tokens, .targets = targets}, 1);
    m->ops->backward(m, x, &(struct lt_batch){.tokens = tokens}, 1);
    return p->grad;
}

/* The gradient of m against differences of the loss of `plain`, the same model in fp32: along the
 * gradient of each sixteenth of the parameters, and along random directions, which an error at
 * right angles to the gradient cannot hide from. In bf16 the gradient may be 1 % of its length off.
 */
static inline void check_model_gradient(struct lt_model *m, struct lt_model *plain,
                                        enum lt_backend backend, enum lt_dtype dtype)
{
    struct lt_context x = {.backend = backend};
    struct lt_parameters *p = &plain->parameters;
    int64_t n = m->b * m->t;
    const int32_t *tokens = words(n, 1, m->vocab), *targets = words(n, 2, m->vocab);
    double near = dtype == LT_DTYPE_FP32 ? 2e-3 : 1e-2,
           floor = dtype == LT_DTYPE_FP32 ? 5e-4 : 1e-2;
    for (size_t i = 0; i < p->count;
         i++) /* away from the flat start; values that both types have */
        p->value[i] = lt_bf16_float(lt_bf16_round(i < p->decayed ? 6 * p->value[i] : p->value[i]));
    const float *start = copy_of(p->value, (int64_t)p->count),
                *grad = gradient_at(m, &x, start, tokens, targets);
    double norm = sqrt(dot(grad, grad, p->count));
    assert_true(norm > 0);
    for (uint64_t k = 0; k < 24; k++) {
        float *direction =
            k < 16 ? zeros((int64_t)p->count) : normals((int64_t)p->count, 100 + k, 1);
        size_t from = k * p->count / 16, end = (k + 1) * p->count / 16;
        if (k < 16)
            memcpy(direction + from, grad + from, (end - from) * sizeof *grad);
        double length = sqrt(dot(direction, direction, p->count));
        for (size_t i = 0; i < p->count; i++)
            direction[i] = (float)(direction[i] / length);
        double expected = dot(grad, direction, p->count),
               got = slope(plain, &x, tokens, targets, direction, start, 5e-3);
        if (!(fabs(got - expected) <= near * fabs(expected) + floor * norm))
            fail_msg("%s, %s, direction %d: gradient says %.6g, differences %.6g",
                     lt_backend_name(backend), lt_dtype_name(dtype), (int)k, expected, got);
    }
}

/* Runs one step and returns what its work records add up to. */
static inline struct lt_timers_step one_step(struct lt_model *m, enum lt_backend backend,
                                             int micro_steps, const char *text)
{
    struct tacho_error err = {0};
    struct lt_context x = {.backend = backend};
    struct lt_train_config config = {.schedule = {.peak = 1e-3, .steps = 1},
                                     .micro_steps = micro_steps,
                                     .optimizer = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8},
                                     .seed = 1};
    size_t steps;
    assert_int_equal(lt_trace_create(&x.trace, lt_op_names(), LT_OP_COUNT, 1), 0);
    struct lt_source *source = open_text_source(text, m->t);
    struct lt_part train = lt_source_whole(source);
    if (lt_train(m, &train, NULL, &x, &config, NULL, &err))
        fail_msg("%s", err.what);
    lt_source_close(source);
    struct lt_timers_step s = *lt_trace_steps(x.trace, &steps);
    assert_int_equal(steps, 1);
    lt_trace_destroy(x.trace);
    return s;
}

/* Pairs that blocks of 64 query rows multiply out, counted the slow way. */
static inline uint64_t blocked_pairs(uint64_t t)
{
    uint64_t pairs = 0;
    for (uint64_t q = 0; q < t; q++) {
        uint64_t end = q / 64 * 64 + 64;
        pairs += end < t ? end : t;
    }
    return pairs;
}

#endif
