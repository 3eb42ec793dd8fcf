/* SPDX-License-Identifier: Apache-2.0
 *
 * The optimizers: each backend against the reference on odd lengths, against formulas worked out by
 * hand, the bf16 copy, what an update says it costs, and the names that checkpoints carry.
 */
#include "lt_support.h"

#include "libtrain/train/optimizer.h"

#define NEAR 2e-5

/* Parameters of `count` elements of which `decayed` decay, with gradients, in memory of the test's
 * pool. */
static struct lt_parameters parameters_of(int64_t count, int64_t decayed, int shadow)
{
    struct lt_parameters p = {.value = normals(count, 2, 1),
                              .grad = normals(count, 1, 1),
                              .shadow =
                                  shadow ? pool_bytes((size_t)count * sizeof(uint16_t)) : NULL,
                              .count = (size_t)count,
                              .decayed = (size_t)decayed};
    return p;
}

static struct lt_optimizer_config config_of(int kind)
{
    return (struct lt_optimizer_config){.kind = (enum lt_optimizer_kind)kind,
                                        .weight_decay = 0.1,
                                        .beta1 = 0.9,
                                        .beta2 = 0.95,
                                        .eps = 1e-8,
                                        .momentum = 0.9};
}

/* Five updates with both backends, from the same state. */
static void backends_agree(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{1, 0},         {1, 1},     {17, 5},
                                        {16384, 16384}, {70003, 0}, {70003, 40001}};
    for (int kind = 0; kind < LT_OPTIMIZER_COUNT; kind++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            struct lt_parameters p[LT_BACKEND_COUNT];
            struct lt_optimizer o[LT_BACKEND_COUNT];
            struct lt_optimizer_config k = config_of(kind);
            struct tacho_error err = {0};
            for (int b = 0; b < LT_BACKEND_COUNT; b++) {
                struct lt_context x = {.backend = (enum lt_backend)b};
                p[b] = parameters_of(shapes[i][0], shapes[i][1], 1);
                assert_int_equal(lt_optimizer_create(&o[b], &k, &p[b], &err), 0);
                for (int made = 0; made < 5; made++)
                    lt_optimizer_update(&o[b], &x, &p[b], made, 0.01, 0.5);
            }
            for (int b = 1; b < LT_BACKEND_COUNT; b++) {
                assert_near(lt_optimizer_name(k.kind), p[b].value, p[0].value, shapes[i][0], NEAR);
                for (int s = 0; s < lt_optimizer_states(k.kind); s++)
                    assert_near("state", o[b].state[s], o[0].state[s], shapes[i][0], NEAR);
                for (int64_t j = 0; j < shapes[i][0]; j++)
                    assert_int_equal(p[b].shadow[j], lt_bf16_round(p[b].value[j]));
            }
            for (int b = 0; b < LT_BACKEND_COUNT; b++)
                lt_optimizer_destroy(&o[b]);
            pool_free(NULL);
        }
}

/* Three updates of one weight that decays and one that does not, the recurrence written out: u =
 * 0.5 u + g, p <- p - lr (u + decay p). With momentum 0 and for sgd, u = g. */
static void momentum_by_hand(void **state)
{
    (void)state;
    static const double rates[] = {0.1, 0.2, 0.05}, grads[] = {0.5, -0.25, 1.0};
    for (int b = 0; b < LT_BACKEND_COUNT; b++)
        for (int kind = LT_OPTIMIZER_MOMENTUM; kind <= LT_OPTIMIZER_SGD; kind++) {
            struct lt_context x = {.backend = (enum lt_backend)b};
            struct lt_optimizer_config k = config_of(kind);
            struct lt_parameters p = parameters_of(2, 1, 0);
            struct lt_optimizer o;
            struct tacho_error err = {0};
            double want[2] = {2, -3}, u = 0, momentum = kind == LT_OPTIMIZER_MOMENTUM ? 0.5 : 0;
            k.momentum = 0.5;
            assert_int_equal(lt_optimizer_create(&o, &k, &p, &err), 0);
            p.value[0] = 2;
            p.value[1] = -3;
            for (int i = 0; i < 3; i++) {
                p.grad[0] = p.grad[1] = (float)grads[i];
                u = momentum * u + 2 * grads[i];
                want[0] -= rates[i] * (u + 0.1 * want[0]);
                want[1] -= rates[i] * u;
                lt_optimizer_update(&o, &x, &p, i, rates[i], 2);
            }
            assert_true(fabs((double)p.value[0] - want[0]) < 1e-6 &&
                        fabs((double)p.value[1] - want[1]) < 1e-6);
            lt_optimizer_destroy(&o);
        }
}

/* A bowl, 1/2 sum h (x - x0)^2, steep in some directions and flat in others: all find x0, momentum
 * before plain descent. */
static void finds_the_minimum(void **state)
{
    (void)state;
    double left[LT_OPTIMIZER_COUNT];
    for (int kind = 0; kind < LT_OPTIMIZER_COUNT; kind++) {
        struct lt_context x = {.backend = LT_BACKEND_CPU};
        struct lt_optimizer_config k = config_of(kind);
        int64_t n = 100;
        struct lt_parameters p = parameters_of(n, 0, 0);
        const float *goal = normals(n, 3, 1);
        struct lt_optimizer o;
        struct tacho_error err = {0};
        assert_int_equal(lt_optimizer_create(&o, &k, &p, &err), 0);
        for (int i = 0; i < 400; i++) {
            for (int64_t j = 0; j < n; j++)
                p.grad[j] = (0.02f + 0.01f * (float)j) * (p.value[j] - goal[j]);
            lt_optimizer_update(&o, &x, &p, i, kind == LT_OPTIMIZER_ADAMW ? 0.02 : 0.1, 1);
        }
        left[kind] = 0;
        for (int64_t j = 0; j < n; j++)
            left[kind] += pow((double)p.value[j] - (double)goal[j], 2);
        lt_optimizer_destroy(&o);
    }
    assert_true(left[LT_OPTIMIZER_ADAMW] < 1e-2 && left[LT_OPTIMIZER_MOMENTUM] < 1e-2);
    assert_true(left[LT_OPTIMIZER_SGD] >
                10 * left[LT_OPTIMIZER_MOMENTUM]); /* its flat directions are not there yet */
}

/* bf16 keeps 8 bits of the significand: ties go to even, overflow to infinity, NaN stays NaN. */
static void rounding(void **state)
{
    (void)state;
    static const struct {
        float x;
        uint16_t bits;
    } cases[] = {
        {0.0f, 0},           {-0.0f, 0x8000},       {1.0f, 0x3f80},       {0x1.01p0f, 0x3f80},
        {0x1.03p0f, 0x3f82}, {0x1.0101p0f, 0x3f81}, {-0x1.03p0f, 0xbf82}, {0x1.fffp0f, 0x4000},
        {3.4e38f, 0x7f80},   {INFINITY, 0x7f80},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(lt_bf16_round(cases[i].x), cases[i].bits);
    assert_true(isnan(lt_bf16_float(lt_bf16_round(NAN))));
    assert_true(isnan(lt_bf16_float(lt_bf16_round(-NAN))));
    const float *x = normals(10000, 4, 100);
    for (int i = 0; i < 10000; i++)
        assert_true(fabsf(lt_bf16_float(lt_bf16_round(x[i])) - x[i]) <= 0x1p-8f * fabsf(x[i]));
    struct lt_parameters p = parameters_of(10000, 0, 1);
    lt_parameters_refresh(&p);
    for (int i = 0; i < 10000; i++)
        assert_int_equal(p.shadow[i], lt_bf16_round(p.value[i]));
}

/* Arithmetic and traffic an element, with decay on 30 of 100. A shadow is 2 bytes more. */
static void costs(void **state)
{
    (void)state;
    uint16_t copy;
    struct tacho_work w;
    const struct lt_context cpu = {.backend = LT_BACKEND_CPU};
    for (int shadow = 0; shadow < 2; shadow++) {
        union lt_args a = {.adamw = {.count = 100, .decayed = 30, .shadow = shadow ? &copy : NULL}};
        lt_op_work(LT_OP_ADAMW, &cpu, &a, &w);
        assert_int_equal(w.flops, 15 * 100 + 30);
        assert_int_equal(w.bytes_read + w.bytes_written, 28 * 100 + 200 * shadow);
        union lt_args m = {
            .momentum = {.count = 100, .decayed = 30, .shadow = shadow ? &copy : NULL}};
        lt_op_work(LT_OP_MOMENTUM, &cpu, &m, &w);
        assert_int_equal(w.flops, 5 * 100 + 30);
        assert_int_equal(w.bytes_read + w.bytes_written, 20 * 100 + 200 * shadow);
        union lt_args s = {.sgd = {.count = 100, .decayed = 30, .shadow = shadow ? &copy : NULL}};
        lt_op_work(LT_OP_SGD, &cpu, &s, &w);
        assert_int_equal(w.flops, 3 * 100 + 30);
        assert_int_equal(w.bytes_read + w.bytes_written, 12 * 100 + 200 * shadow);
        assert_int_equal(w.pass, TACHO_PASS_OPTIMIZER);
        assert_int_equal(w.model_flops + w.palm_flops, 0);
    }
}

static void names_and_states(void **state)
{
    (void)state;
    static const int states[] = {
        [LT_OPTIMIZER_ADAMW] = 2, [LT_OPTIMIZER_MOMENTUM] = 1, [LT_OPTIMIZER_SGD] = 0};
    struct lt_parameters p = parameters_of(5000000, 0, 0);
    struct tacho_error err = {0};
    struct lt_memory before, held, after;
    for (int kind = 0; kind < LT_OPTIMIZER_COUNT; kind++) {
        struct lt_optimizer_config k = config_of(kind);
        struct lt_optimizer o;
        assert_int_equal(lt_optimizer_find(lt_optimizer_name(k.kind)), kind);
        assert_int_equal(lt_optimizer_states(k.kind), states[kind]);
        lt_memory_read(&before);
        assert_int_equal(lt_optimizer_create(&o, &k, &p, &err), 0);
        lt_memory_read(&held);
        int64_t bytes = held.tag[LT_MEMORY_OPTIMIZER] - before.tag[LT_MEMORY_OPTIMIZER],
                exact = 20000000LL * states[kind];
        assert_true(bytes >= exact && bytes < exact + states[kind] * 4096 + 1);
        lt_optimizer_destroy(&o);
        lt_memory_read(&after);
        assert_int_equal(after.total, before.total);
    }
    assert_int_equal(lt_optimizer_find("adam"), -1);
}

#define TEST(name) cmocka_unit_test_teardown(name, pool_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(backends_agree), TEST(momentum_by_hand), TEST(finds_the_minimum), TEST(rounding),
        TEST(costs),          TEST(names_and_states),
    };
    calm_openmp();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
