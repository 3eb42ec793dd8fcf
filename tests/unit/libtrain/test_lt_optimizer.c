/* SPDX-License-Identifier: Apache-2.0
 *
 * The optimizers: each backend against the reference on odd lengths, against formulas worked out by
 * hand, the bf16 copy, what an update says it costs, and the names that checkpoints carry.
 */
#include "lt_support.h"

#include "libtrain/base/openmp.h"
#include "libtrain/train/clipping.h"
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
    struct lt_optimizer_config config = lt_optimizer_defaults((enum lt_optimizer_kind)kind);
    config.weight_decay = 0.1;
    return config;
}

/* Gives the arrays the tensors of a layout; what pads them is zero, as in an arena. */
static void lay_out(struct lt_parameters *p, const struct lt_parameters *layout)
{
    memcpy(p->weight, layout->weight, sizeof layout->weight);
    p->weights = layout->weights;
    for (int i = 0; i < p->weights; i++) {
        const struct lt_weight *weight = &p->weight[i];
        size_t end = i + 1 < p->weights ? weight[1].first : p->count;
        for (size_t j = weight->first + (size_t)(weight->repeat * weight->rows * weight->columns);
             j < end; j++)
            p->value[j] = p->grad[j] = 0;
    }
}

/* How near the backends come. Where a gradient is nearly 0, the first steps of Adam's relatives
 * turn its rounding into a step; Muon's products amplify rounding, and so do the differences that
 * L-BFGS keeps. */
static double near_of(enum lt_optimizer_kind kind, int matrices)
{
    if ((kind == LT_OPTIMIZER_MUON && matrices) || kind == LT_OPTIMIZER_LBFGS)
        return 1e-3;
    return kind == LT_OPTIMIZER_ADAM || kind == LT_OPTIMIZER_NADAM ? 1e-4 : NEAR;
}

/* An array of state of both backends. The moments of adamw8 are not compared, because a code may
 * fall to either side of a bound, nor the differences of L-BFGS, which are rounding where little
 * has changed. */
static void compare_state(const struct lt_optimizer *got, const struct lt_optimizer *want, int i)
{
    int64_t count = (int64_t)want->floats[i];
    assert_int_equal(got->floats[i], count);
    if (want->config.kind != LT_OPTIMIZER_ADAMW8 &&
        (want->config.kind != LT_OPTIMIZER_LBFGS || i > 0))
        assert_near(lt_optimizer_name(want->config.kind), got->state[i], want->state[i], count,
                    near_of(want->config.kind, 0));
}

/* Five updates with both backends, from the same state: of a vector, and of a layout with matrices
 * that are wide, high, repeated. */
static void backends_agree(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{1, 0},         {1, 1},     {17, 5},
                                        {16384, 16384}, {70003, 0}, {70003, 70003}};
    for (int kind = 0; kind < LT_OPTIMIZER_COUNT; kind++)
        for (size_t i = 0; i <= sizeof shapes / sizeof *shapes; i++) {
            struct lt_parameters p[LT_BACKEND_COUNT], layout = {0};
            struct lt_optimizer o[LT_BACKEND_COUNT];
            struct lt_optimizer_config k = config_of(kind);
            struct tacho_error err = {0};
            if (!lt_optimizer_suits(&k, &layout)) /* K-FAC: test_lt_kfac.c */
                continue;
            k.lookahead_every = i % 2 ? 2 : 0;
            lt_parameters_add(&layout, (struct lt_weight){0, 1, 40, 16, LT_WEIGHT_OUTER, 0, 0, 0},
                              1);
            lt_parameters_add(&layout, (struct lt_weight){0, 3, 48, 20, LT_WEIGHT_HIDDEN, 0, 0, 0},
                              1);
            lt_parameters_add(&layout, (struct lt_weight){0, 2, 20, 48, LT_WEIGHT_HIDDEN, 0, 0, 0},
                              1);
            lt_parameters_add(&layout, (struct lt_weight){0, 2, 1, 37, LT_WEIGHT_VECTOR, 0, 0, 0},
                              0);
            int flat = i < sizeof shapes / sizeof *shapes;
            int64_t count = flat ? shapes[i][0] : (int64_t)layout.count,
                    decayed = flat ? shapes[i][1] : (int64_t)layout.decayed;
            for (int b = 0; b < LT_BACKEND_COUNT; b++) {
                struct lt_context x = {.backend = (enum lt_backend)b};
                p[b] = parameters_of(count, decayed, 1);
                if (!flat)
                    lay_out(&p[b], &layout);
                assert_int_equal(lt_optimizer_create(&o[b], &k, &p[b], &err), 0);
                for (int made = 0; made < 5; made++)
                    lt_optimizer_update(&o[b], &x, &p[b], made, 0.01, 0.5);
            }
            for (int b = 1; b < LT_BACKEND_COUNT; b++) {
                assert_near(lt_optimizer_name(k.kind), p[b].value, p[0].value, count,
                            near_of(k.kind, !flat));
                for (int s = 0; s < LT_OPTIMIZER_STATES; s++)
                    compare_state(&o[b], &o[0], s);
                for (int64_t j = 0; j < count; j++)
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

/* A bowl, 1/2 sum h (x - x0)^2, steep in some directions and flat in others: all come nearer to x0,
 * momentum before plain descent. */
static void finds_the_minimum(void **state)
{
    (void)state;
    static const double rates[LT_OPTIMIZER_COUNT] = {
        [LT_OPTIMIZER_SGD] = 0.1,     [LT_OPTIMIZER_MOMENTUM] = 0.1,  [LT_OPTIMIZER_NESTEROV] = 0.1,
        [LT_OPTIMIZER_ADAGRAD] = 0.2, [LT_OPTIMIZER_ADAFACTOR] = 0.1, [LT_OPTIMIZER_LARS] = 1,
        [LT_OPTIMIZER_LAMB] = 0.02};
    double left[LT_OPTIMIZER_COUNT], begun = 0;
    for (int kind = 0; kind < LT_OPTIMIZER_COUNT; kind++) {
        struct lt_context x = {.backend = LT_BACKEND_CPU};
        struct lt_optimizer_config k = config_of(kind);
        int64_t n = 100;
        struct lt_parameters p = parameters_of(n, 0, 0);
        const float *goal = normals(n, 3, 1);
        struct lt_optimizer o;
        struct tacho_error err = {0};
        begun = 0;
        if (!lt_optimizer_suits(&k, &p))
            continue;
        for (int64_t j = 0; j < n; j++)
            begun += pow((double)p.value[j] - (double)goal[j], 2);
        assert_int_equal(lt_optimizer_create(&o, &k, &p, &err), 0);
        for (int i = 0; i < 400; i++) {
            for (int64_t j = 0; j < n; j++)
                p.grad[j] = (0.02f + 0.01f * (float)j) * (p.value[j] - goal[j]);
            lt_optimizer_update(&o, &x, &p, i, rates[kind] > 0 ? rates[kind] : 0.02, 1);
        }
        lt_optimizer_exchange(&o, &x, &p);
        left[kind] = 0;
        for (int64_t j = 0; j < n; j++)
            left[kind] += pow((double)p.value[j] - (double)goal[j], 2);
        if (!(left[kind] < 0.1 * begun))
            fail_msg("%s: %g of %g is left", lt_optimizer_name(k.kind), left[kind], begun);
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

static struct tacho_work work_of(enum lt_op_id op, const struct lt_update *update)
{
    const struct lt_context cpu = {.backend = LT_BACKEND_CPU};
    struct tacho_work work;
    lt_op_work(op, &cpu, &(union lt_args){.adamw = *update}, &work);
    assert_int_equal(work.pass, TACHO_PASS_OPTIMIZER);
    assert_int_equal(work.model_flops + work.palm_flops, 0);
    return work;
}

/* Arithmetic and traffic an element, with decay on 30 of 100. A shadow is 2 bytes more. */
static void costs(void **state)
{
    (void)state;
    static const struct {
        enum lt_op_id op;
        uint64_t flops, decay, bytes;
    } want[] = {{LT_OP_ADAMW, 15, 1, 28}, {LT_OP_MOMENTUM, 5, 1, 20},      {LT_OP_SGD, 3, 1, 12},
                {LT_OP_LION, 10, 1, 20},  {LT_OP_ADAGRAD, 9, 1, 20},       {LT_OP_ADAM, 15, 2, 28},
                {LT_OP_NADAM, 17, 1, 28}, {LT_OP_SCHEDULE_FREE, 17, 2, 36}};
    uint16_t copy;
    for (int shadow = 0; shadow < 2; shadow++)
        for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
            struct lt_update update = {
                .count = 100, .decayed = 30, .shadow = shadow ? &copy : NULL};
            struct tacho_work w = work_of(want[i].op, &update);
            assert_int_equal(w.flops, want[i].flops * 100 + want[i].decay * 30);
            assert_int_equal(w.bytes_read + w.bytes_written,
                             want[i].bytes * 100 + 200 * (unsigned)shadow);
        }
    struct lt_update matrix = {
        .count = 2 * 30 * 20, .repeat = 2, .rows = 30, .columns = 20, .role = LT_WEIGHT_HIDDEN};
    /* five rounds of two matrices: 20 x 30 x 20, its square, 20 x 20 x 30 */
    assert_int_equal(work_of(LT_OP_MUON, &matrix).flops,
                     12 * 1200 + 5 * 2 * (2 * 20 * 30 * 20 + 2 * 20 * 20 * 20 + 2 * 20 * 20 * 30));
    /* 16 bytes of parameters and gradient, 2 + 2 of codes, 2 x 8 of each block's magnitudes */
    /* ten pairs: 24 floats read an element, 6 written */
    struct tacho_work pairs = work_of(LT_OP_LBFGS, &(struct lt_update){.count = 512});
    assert_int_equal(pairs.flops, 110 * 512);
    assert_int_equal(pairs.bytes_read + pairs.bytes_written, 512 * 120);
    struct tacho_work bytes = work_of(LT_OP_ADAMW8, &(struct lt_update){.count = 512});
    assert_int_equal(bytes.bytes_read + bytes.bytes_written, 512 * 16 + 2 * 2 * 8);
}

/* Bytes of state of each kind, for 3 matrices of 256 x 512 and a vector of 1,000. */
static void names_and_states(void **state)
{
    (void)state;
    uint64_t matrix = 3 * 256 * 512, vector = 1008, all = matrix + vector;
    const uint64_t wanted[LT_OPTIMIZER_COUNT][LT_OPTIMIZER_STATES] = {
        [LT_OPTIMIZER_ADAMW] = {all, all},
        [LT_OPTIMIZER_MOMENTUM] = {all},
        [LT_OPTIMIZER_NESTEROV] = {all},
        [LT_OPTIMIZER_ADAGRAD] = {all},
        [LT_OPTIMIZER_RMSPROP] = {all},
        [LT_OPTIMIZER_ADAM] = {all, all},
        [LT_OPTIMIZER_NADAM] = {all, all},
        [LT_OPTIMIZER_RADAM] = {all, all},
        [LT_OPTIMIZER_LION] = {all},
        [LT_OPTIMIZER_SCHEDULE_FREE] = {all, all, all},
        [LT_OPTIMIZER_LAMB] = {all, all},
        [LT_OPTIMIZER_LARS] = {all},
        [LT_OPTIMIZER_ADAFACTOR] = {3 * 256 + vector, 3 * 512},
        [LT_OPTIMIZER_MUON] = {all, vector},
        [LT_OPTIMIZER_LBFGS] = {20 * all, 2 * all, all},
        [LT_OPTIMIZER_ADAMW8] = {98560, 98560, 3088}, /* bytes / 4, and 2 a block, padded */
    };
    struct lt_parameters p = {0};
    struct tacho_error err = {0};
    struct lt_memory before, held, after;
    lt_parameters_add(&p, (struct lt_weight){0, 3, 256, 512, LT_WEIGHT_HIDDEN, 0, 0, 0}, 1);
    lt_parameters_add(&p, (struct lt_weight){0, 1, 1, 1000, LT_WEIGHT_VECTOR, 0, 0, 0}, 0);
    p.value = zeros((int64_t)p.count);
    for (int kind = 0; kind < LT_OPTIMIZER_COUNT; kind++) {
        struct lt_optimizer_config k = config_of(kind);
        struct lt_optimizer o;
        int64_t exact = 0;
        assert_int_equal(lt_optimizer_find(lt_optimizer_name(k.kind)), kind);
        if (!lt_optimizer_suits(&k, &p))
            continue;
        lt_memory_read(&before);
        assert_int_equal(lt_optimizer_create(&o, &k, &p, &err), 0);
        lt_memory_read(&held);
        for (int i = 0; i < LT_OPTIMIZER_STATES; i++) {
            assert_int_equal(o.floats[i], wanted[kind][i]);
            exact += 4 * (int64_t)wanted[kind][i];
        }
        int64_t bytes = held.tag[LT_MEMORY_OPTIMIZER] - before.tag[LT_MEMORY_OPTIMIZER];
        assert_true(bytes >= exact && bytes < exact + LT_OPTIMIZER_STATES * 4096);
        lt_optimizer_destroy(&o);
        lt_memory_read(&after);
        assert_int_equal(after.total, before.total);
    }
    assert_int_equal(lt_optimizer_find("nonsense"), -1);
}

/* Evaluations look at the average of the schedule-free method, and training goes on from where it
 * was, bit by bit. */
static void exchanges_and_goes_back(void **state)
{
    (void)state;
    struct lt_context x = {.backend = LT_BACKEND_CPU};
    struct lt_optimizer_config k = config_of(LT_OPTIMIZER_SCHEDULE_FREE);
    struct lt_parameters p = parameters_of(1000, 0, 1);
    struct lt_optimizer o;
    struct tacho_error err = {0};
    assert_int_equal(lt_optimizer_create(&o, &k, &p, &err), 0);
    for (int made = 0; made < 3; made++)
        lt_optimizer_update(&o, &x, &p, made, 0.01, 1);
    const float *trained = copy_of(p.value, 1000), *average = copy_of(o.state[2], 1000);
    lt_optimizer_exchange(&o, &x, &p);
    assert_memory_equal(p.value, average, 4000);
    assert_int_equal(p.shadow[7], lt_bf16_round(average[7]));
    lt_optimizer_exchange(&o, &x, &p);
    assert_memory_equal(p.value, trained, 4000);
    lt_optimizer_destroy(&o);
}

/* Every second update the parameters go half of the way back to where they were two updates ago. */
static void lookahead_by_hand(void **state)
{
    (void)state;
    for (int b = 0; b < LT_BACKEND_COUNT; b++) {
        struct lt_context x = {.backend = (enum lt_backend)b};
        struct lt_optimizer_config k = config_of(LT_OPTIMIZER_SGD);
        struct lt_parameters p = parameters_of(1, 0, 0);
        struct lt_optimizer o;
        struct tacho_error err = {0};
        k.lookahead_every = 2;
        p.value[0] = 1;
        p.grad[0] = 1;
        assert_int_equal(lt_optimizer_create(&o, &k, &p, &err), 0);
        static const double wanted[] = {0.75, 0.75, 0.5, 0.5};
        for (int made = 0; made < 4; made++) {
            lt_optimizer_update(&o, &x, &p, made, 0.25, 1);
            assert_true(fabs((double)p.value[0] - wanted[made]) < 1e-6);
        }
        lt_optimizer_destroy(&o);
    }
}

/* Each row of each hidden matrix has mean 0 afterwards, and nothing else is changed: embeddings and
 * vectors keep their gradient. */
static void centralised(void **state)
{
    (void)state;
    struct lt_parameters layout = {0};
    lt_parameters_add(&layout, (struct lt_weight){0, 1, 40, 16, LT_WEIGHT_OUTER, 0, 0, 0}, 1);
    lt_parameters_add(&layout, (struct lt_weight){0, 3, 5, 33, LT_WEIGHT_HIDDEN, 0, 0, 0}, 1);
    lt_parameters_add(&layout, (struct lt_weight){0, 1, 1, 20, LT_WEIGHT_VECTOR, 0, 0, 0}, 0);
    struct lt_parameters p = parameters_of((int64_t)layout.count, 0, 0);
    lay_out(&p, &layout);
    const float *before = copy_of(p.grad, (int64_t)p.count);
    float *got[LT_BACKEND_COUNT];
    size_t first = layout.weight[1].first;
    for (int b = 0; b < LT_BACKEND_COUNT; b++) {
        struct lt_context x = {.backend = (enum lt_backend)b};
        p.grad = got[b] = copy_of(before, (int64_t)p.count);
        lt_centre_matrices(&x, &p);
        for (size_t i = 0; i < p.count; i++)
            if (i < first || i >= first + 15 * 33)
                assert_true(got[b][i] == before[i]);
        for (size_t row = 0; row < 15; row++) {
            double old = 0, mean = 0;
            for (size_t i = first + 33 * row; i < first + 33 * (row + 1); i++) {
                old += (double)before[i] / 33;
                mean += (double)got[b][i] / 33;
            }
            assert_true(fabs(mean) < 1e-7);
            for (size_t i = first + 33 * row; i < first + 33 * (row + 1); i++)
                assert_true(fabs((double)got[b][i] - ((double)before[i] - old)) < 1e-6);
        }
    }
    assert_near("centre", got[0], got[1], (int64_t)p.count, 1e-6);
}

/* Weights that are rounded by chance are values of bf16 around the old ones, whose mean is the old
 * one; both backends draw alike, and another key draws otherwise. */
static void rounded_by_chance(void **state)
{
    (void)state;
    enum { COUNT = 40000 };
    float *old = normals(COUNT, 5, 1), *got[LT_BACKEND_COUNT];
    uint16_t *shadow = pool_bytes(COUNT * sizeof *shadow);
    for (int i = 0; i < COUNT / 2; i++)
        old[i] = 1 + 0x1p-9f; /* a quarter of the way from 1 to 1 + 2^-7 */
    for (int b = 0; b < LT_BACKEND_COUNT; b++) {
        struct lt_context x = {.backend = (enum lt_backend)b};
        got[b] = copy_of(old, COUNT);
        struct lt_rounding args = {
            .x = got[b], .shadow = shadow, .count = COUNT, .key = 1, .stochastic = 1};
        lt_op(&x, LT_OP_ROUNDING, &(union lt_args){.rounding = args});
        double up = 0;
        for (int i = 0; i < COUNT; i++) {
            assert_true(lt_bf16_float(shadow[i]) == got[b][i]);
            assert_true(fabsf(got[b][i] - old[i]) <= fabsf(old[i]) * 0x1p-7f);
            up += i < COUNT / 2 && got[b][i] > 1;
        }
        /* 5000 of 20000, whose deviation is 61 */
        assert_true(fabs(up - COUNT / 8) < 400);
        const float *again = copy_of(got[b], COUNT);
        lt_op(&x, LT_OP_ROUNDING, &(union lt_args){.rounding = args});
        assert_memory_equal(got[b], again, COUNT * sizeof *again); /* what is bf16 stays */
    }
    assert_memory_equal(got[0], got[1], COUNT * sizeof(float));
    struct lt_context x = {0};
    float *other = copy_of(old, COUNT);
    struct lt_rounding args = {.x = other, .count = COUNT, .key = 2, .stochastic = 1};
    lt_op(&x, LT_OP_ROUNDING, &(union lt_args){.rounding = args});
    assert_memory_not_equal(other, got[0], COUNT * sizeof(float));
    args.x = other = copy_of(old, COUNT);
    args.stochastic = 0;
    lt_op(&x, LT_OP_ROUNDING, &(union lt_args){.rounding = args});
    for (int i = 0; i < COUNT; i++)
        assert_true(other[i] == lt_bf16_float(lt_bf16_round(old[i])));
}

/* The norm of a gradient that is announced in pieces, in several orders, with some of them never
 * announced, is that of one pass, bit for bit. */
static void norm_of_pieces(void **state)
{
    enum { COUNT = 5 * 65536 + 123, PIECES = 9 };
    const struct lt_context cpu = {.backend = LT_BACKEND_CPU};
    static const int64_t from[PIECES + 1] = {0,      7,      65536,  131072, 131073,
                                             200000, 262144, 262150, 327680, COUNT};
    const float *x = normals(COUNT, 7, 1);
    size_t bytes = lt_norm_partials(COUNT) * sizeof(double);
    double *partial = pool_bytes(bytes), *early = pool_bytes(bytes);
    double norm = lt_clip_norm(&cpu, x, COUNT, partial);
    struct lt_early_norm pieces;
    (void)state;
    assert_int_equal(lt_early_norm_open(&pieces, &cpu, x, COUNT, early), 0);
    for (int step = 1; step < PIECES; step++) { /* a factor of PIECES: some come twice, so none */
        memset(early, 0xff, bytes);
        for (int i = 0; step % 3 && i < PIECES; i++) {
            int at = i * step % PIECES;
            if (at != step)
                lt_early_norm_ready(&pieces, (size_t)from[at], (size_t)(from[at + 1] - from[at]));
        }
        assert_true(lt_early_norm_end(&pieces) == norm);
        assert_memory_equal(early, partial, bytes);
    }
    memset(early, 0xff, bytes);
    lt_early_norm_ready(&pieces, 0, COUNT);
    if (omp_get_max_threads() <= 6) /* all six blocks at once */
        assert_memory_equal(early, partial, bytes);
    assert_true(lt_early_norm_end(&pieces) == norm);
    lt_early_norm_close(&pieces);
}

#define TEST(name) cmocka_unit_test_teardown(name, pool_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(backends_agree),
        TEST(momentum_by_hand),
        TEST(finds_the_minimum),
        TEST(rounding),
        TEST(costs),
        TEST(names_and_states),
        TEST(exchanges_and_goes_back),
        TEST(lookahead_by_hand),
        TEST(centralised),
        TEST(norm_of_pieces),
        TEST(rounded_by_chance),
    };
    calm_openmp();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
