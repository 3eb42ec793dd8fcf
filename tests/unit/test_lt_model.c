/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole model: its gradient against differences of its loss, one backend against the other, micro-batches against one big
 * batch, and the FLOPs of a step, summed over the work records of its ops, against closed forms.
 */
#include "lt_support.h"

#include "libtrain/gpt2.h"
#include "libtrain/train.h"

static const struct lt_gpt2_config small = {"small", "", 2, 24, 3, 40, 9, 9, 2};

static struct lt_model *make(const struct lt_gpt2_config *k, int64_t b, int64_t t)
{
    struct tacho_error err = {0};
    struct lt_model *m = NULL;
    if (lt_gpt2_create(&m, k, (struct lt_gpt2_mode){0}, b, t, 7, &err))
        fail_msg("%s", err.what);
    return m;
}

static double slope(struct lt_model *m, const struct lt_context *x, const int32_t *tokens, const int32_t *targets,
                    const float *direction, const float *start, double h)
{
    struct lt_parameters *p = &m->parameters;
    double side[2];
    for (int i = 0; i < 2; i++) {
        for (size_t j = 0; j < p->count; j++)
            p->value[j] = start[j] + (float)(i ? -h : h) * direction[j];
        side[i] = m->ops->forward(m, x, &(struct lt_batch){.tokens = tokens, .targets = targets}, 1);
    }
    memcpy(p->value, start, p->count * sizeof *start);
    return (side[0] - side[1]) / (2 * h);
}

static double dot(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * b[i];
    return sum;
}

/* Along the gradient of each sixteenth of the parameters, and along random directions, which an error at right angles to the
 * gradient cannot hide from. */
static void gradient_of_backend(enum lt_backend backend)
{
    struct lt_model *m = make(&small, 2, 9);
    struct lt_context x = {.backend = backend};
    struct lt_parameters *p = &m->parameters;
    const int32_t *tokens = words(18, 1, small.vocab), *targets = words(18, 2, small.vocab);
    for (size_t i = 0; i < p->decayed; i++)
        p->value[i] *= 6; /* away from the flat start */
    float *start = copy_of(p->value, (int64_t)p->count);
    m->ops->forward(m, &x, &(struct lt_batch){.tokens = tokens, .targets = targets}, 1);
    m->ops->backward(m, &x, &(struct lt_batch){.tokens = tokens}, 1);
    float *grad = copy_of(p->grad, (int64_t)p->count);
    double norm = sqrt(dot(grad, grad, p->count));
    for (uint64_t k = 0; k < 24; k++) {
        float *direction = k < 16 ? zeros((int64_t)p->count) : normals((int64_t)p->count, 100 + k, 1);
        size_t from = k * p->count / 16, end = (k + 1) * p->count / 16;
        if (k < 16)
            memcpy(direction + from, grad + from, (end - from) * sizeof *grad);
        double length = sqrt(dot(direction, direction, p->count));
        for (size_t i = 0; i < p->count; i++)
            direction[i] = (float)(direction[i] / length);
        double expected = dot(grad, direction, p->count), got = slope(m, &x, tokens, targets, direction, start, 5e-3);
        if (!(fabs(got - expected) <= 2e-3 * fabs(expected) + 5e-4 * norm))
            fail_msg("%s, direction %d: gradient says %.6g, differences %.6g", lt_backend_name(backend), (int)k, expected, got);
    }
    lt_model_destroy(m);
}

static void model_gradient(void **state)
{
    (void)state;
    for (int i = 0; i < LT_BACKEND_COUNT; i++)
        gradient_of_backend((enum lt_backend)i);
}

static void backends_agree(void **state)
{
    (void)state;
    static const struct lt_gpt2_config odd = {"odd", "", 3, 60, 4, 97, 70, 70, 3};
    const int32_t *tokens = words(210, 1, odd.vocab), *targets = words(210, 2, odd.vocab);
    float *want = NULL;
    double loss = 0;
    for (int i = 0; i < LT_BACKEND_COUNT; i++) {
        struct lt_context x = {.backend = (enum lt_backend)i};
        struct lt_model *m = make(&odd, 3, 70);
        double got = m->ops->forward(m, &x, &(struct lt_batch){.tokens = tokens, .targets = targets}, 1);
        m->ops->backward(m, &x, &(struct lt_batch){.tokens = tokens}, 1);
        if (want) {
            assert_true(fabs(got - loss) < 1e-5);
            assert_near("gradient", m->parameters.grad, want, (int64_t)m->parameters.count, 1e-4);
        } else {
            want = copy_of(m->parameters.grad, (int64_t)m->parameters.count);
            loss = got;
        }
        lt_model_destroy(m);
    }
    assert_true(fabs(loss - log(97)) < 0.2); /* an untrained model knows nothing */
}

/* Four micro-batches of one sequence are one batch of four. The order of sums differs: 1e-4. */
static void accumulation(void **state)
{
    (void)state;
    struct lt_context x = {.backend = LT_BACKEND_CPU};
    struct lt_model *big = make(&small, 4, 9), *one = make(&small, 1, 9);
    const int32_t *tokens = words(36, 1, small.vocab), *targets = words(36, 2, small.vocab);
    int64_t count = (int64_t)big->parameters.count;
    one->ops->forward(one, &x, &(struct lt_batch){.tokens = targets, .targets = tokens}, 1);
    one->ops->backward(one, &x, &(struct lt_batch){.tokens = targets},
                       1); /* another gradient lies there: the first micro-step must overwrite it */
    double loss = big->ops->forward(big, &x, &(struct lt_batch){.tokens = tokens, .targets = targets}, 1), sum = 0;
    big->ops->backward(big, &x, &(struct lt_batch){.tokens = tokens}, 1);
    for (int64_t i = 0; i < 4; i++) {
        sum += one->ops->forward(one, &x, &(struct lt_batch){.tokens = tokens + 9 * i, .targets = targets + 9 * i}, 4);
        one->ops->backward(one, &x, &(struct lt_batch){.tokens = tokens + 9 * i}, i == 0);
    }
    assert_true(fabs(loss - sum / 4) < 1e-6);
    assert_near("gradient", one->parameters.grad, big->parameters.grad, count, 1e-4);
    lt_model_destroy(big);
    lt_model_destroy(one);
}

static void evaluation_changes_nothing(void **state)
{
    (void)state;
    struct lt_context train = {.backend = LT_BACKEND_CPU}, look = {.backend = LT_BACKEND_CPU, .evaluation = 1};
    struct lt_model *m = make(&small, 2, 9);
    const int32_t *tokens = words(18, 1, small.vocab), *targets = words(18, 2, small.vocab);
    double a = m->ops->forward(m, &train, &(struct lt_batch){.tokens = tokens, .targets = targets}, 1);
    m->ops->backward(m, &train, &(struct lt_batch){.tokens = tokens}, 1);
    float *grad = copy_of(m->parameters.grad, (int64_t)m->parameters.count);
    assert_true(fabs(a - m->ops->forward(m, &look, &(struct lt_batch){.tokens = tokens, .targets = targets}, 1)) < 1e-6);
    assert_memory_equal(grad, m->parameters.grad, m->parameters.count * sizeof *grad);
    lt_model_destroy(m);
}

static void impossible_shapes(void **state)
{
    (void)state;
    static const struct lt_gpt2_config bad[] = {
        {"heads", "", 2, 24, 5, 40, 9, 9, 2}, {"layers", "", 0, 24, 3, 40, 9, 9, 2}, {"vocab", "", 2, 24, 3, 0, 9, 9, 2}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct tacho_error err = {0};
        struct lt_model *m = NULL;
        assert_int_equal(lt_gpt2_create(&m, &bad[i], (struct lt_gpt2_mode){0}, 2, 9, 1, &err), TACHO_EUSAGE);
        assert_null(m);
        assert_true(strlen(err.what) > 0 && strlen(err.hint) > 0);
    }
}

static void parameter_counts(void **state)
{
    (void)state;
    struct lt_model *m = make(&small, 1, 9);
    uint64_t l = 2, c = 24, v = 40, p = 9;
    assert_int_equal(m->parameters.trainable, v * c + p * c + l * (12 * c * c + 13 * c) + 2 * c);
    assert_int_equal(m->parameters.matrix, 12 * l * c * c + v * c);
    lt_model_destroy(m);
}

/* ---- FLOPs of a step -------------------------------------------------------------------------------------------------------- */

/* Runs one step and returns what its work records add up to. */
static struct lt_timers_step one_step(const struct lt_gpt2_config *k, enum lt_backend backend, int64_t b, int64_t t,
                                      int micro_steps, const char *text, size_t *count, size_t *decayed)
{
    struct tacho_error err = {0};
    struct lt_model *m = make(k, b, t);
    struct lt_context x = {.backend = backend};
    struct lt_train_config config = {.schedule = {.peak = 1e-3, .steps = 1},
                                     .micro_steps = micro_steps,
                                     .optimizer = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8},
                                     .seed = 1};
    size_t steps;
    assert_int_equal(lt_trace_create(&x.trace, lt_op_names(), LT_OP_COUNT, 1), 0);
    struct lt_source *source = open_text_source(text, t);
    struct lt_part train = lt_source_whole(source);
    if (lt_train(m, &train, NULL, &x, &config, NULL, &err))
        fail_msg("%s", err.what);
    lt_source_close(source);
    struct lt_timers_step s = *lt_trace_steps(x.trace, &steps);
    assert_int_equal(steps, 1);
    *count = m->parameters.count;
    *decayed = m->parameters.decayed;
    lt_trace_destroy(x.trace);
    lt_model_destroy(m);
    return s;
}

/* Pairs that blocks of 64 query rows multiply out, counted the slow way. */
static uint64_t blocked_pairs(uint64_t t)
{
    uint64_t pairs = 0;
    for (uint64_t q = 0; q < t; q++) {
        uint64_t end = q / 64 * 64 + 64;
        pairs += end < t ? end : t;
    }
    return pairs;
}

static void flops_are_closed_forms(void **state)
{
    (void)state;
    /* layers, channels, heads, vocab; b, t, micro-steps */
    static const uint64_t shapes[][7] = {
        {1, 8, 1, 256, 1, 1, 1},     {2, 24, 3, 300, 3, 65, 1}, {1, 20, 4, 257, 2, 64, 3},  {3, 36, 3, 256, 1, 129, 2},
        {4, 128, 4, 256, 8, 128, 1}, {2, 10, 5, 999, 5, 7, 4},  {1, 64, 1, 256, 3, 200, 1},
    };
    char path[300];
    const char *folder = scratch_folder();
    snprintf(path, sizeof path, "%s/text", folder);
    write_text(path, 5000, 3);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int backend = 0; backend < LT_BACKEND_COUNT; backend++) {
            uint64_t l = shapes[i][0], c = shapes[i][1], v = shapes[i][3], b = shapes[i][4], t = shapes[i][5],
                     micro = shapes[i][6];
            struct lt_gpt2_config k = {"shape",    "",         (int64_t)l, (int64_t)c, (int64_t)shapes[i][2],
                                       (int64_t)v, (int64_t)t, (int64_t)t, (int64_t)b};
            size_t count, decayed;
            if (backend == LT_BACKEND_REFERENCE && l * c * c * b * t * micro > 2000000)
                continue; /* slow, and its counts are the same functions */
            struct lt_timers_step s =
                one_step(&k, (enum lt_backend)backend, (int64_t)b, (int64_t)t, (int)micro, path, &count, &decayed);
            uint64_t n = b * t, pairs = backend == LT_BACKEND_REFERENCE ? t * (t + 1) / 2 : blocked_pairs(t);
            uint64_t matrix = 6 * (12 * l * c * c + v * c) * n * micro;
            uint64_t issued = matrix + 14 * l * c * pairs * b * micro;
            uint64_t rest =
                micro * (3 * n * c + 22 * n * c * (2 * l + 1) + 114 * n * c * l + 7 * n * v + 4 * n) + 17 * count + decayed;
            assert_int_equal(s.model_flops, matrix + 6 * l * c * t * (t + 1) * b * micro);
            assert_int_equal(s.palm_flops, matrix + 12 * l * c * t * t * b * micro);
            assert_int_equal(s.matrix_flops, issued);
            assert_int_equal(s.flops, issued + rest);
            struct lt_gpt2_flops f =
                lt_gpt2_flops(&k, (enum lt_backend)backend, (struct lt_gpt2_mode){0}, (int64_t)b, (int64_t)t, (int64_t)micro);
            assert_int_equal(f.model, s.model_flops);
            assert_int_equal(f.palm, s.palm_flops);
            assert_int_equal(f.issued, s.matrix_flops);
            assert_true(s.matrix_flops >= s.model_flops);
        }
    unlink(path);
    rmdir(folder);
}

#define TEST(name) cmocka_unit_test_teardown(name, pool_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(model_gradient),    TEST(backends_agree),   TEST(accumulation),           TEST(evaluation_changes_nothing),
        TEST(impossible_shapes), TEST(parameter_counts), TEST(flops_are_closed_forms),
    };
    calm_openmp();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
