/* SPDX-License-Identifier: Apache-2.0
 *
 * The optimizers' formulas in double against trajectories of optax (tests/golden/
 * optimizer_reference.txt, written by optimizer_reference.py), on a problem that both build from
 * the same numbers; the codes of adamw8 against those of bitsandbytes; the schedules and the range
 * test.
 */
#include "lt_support.h"

#include "libtrain/ops/kernels.h"
#include "libtrain/train/optimizer.h"
#include "libtrain/train/range_test.h"
#include "libtrain/train/schedule.h"

#define REAL           double
#define STORED         double
#define RULE(name)     exact_##name
#define ROOT(x)        sqrt(x)
#define FUSED(a, b, c) ((a) * (b) + (c))
#define PARALLEL       0
#define PRODUCT        exact_product
#include "libtrain/ops/update_rules.h"

struct exact_view;
static void exact_product(double *c, struct exact_view a, struct exact_view b, int64_t m, int64_t n,
                          int64_t k);
#include "libtrain/ops/update_tensor.h"

static void exact_product(double *c, struct exact_view a, struct exact_view b, int64_t m, int64_t n,
                          int64_t k)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t l = 0; l < k; l++)
                sum += a.at[i * a.row + l * a.column] * b.at[l * b.row + j * b.column];
            c[i * n + j] = sum;
        }
}

enum { SAMPLES = 8, INPUTS = 4, OUTPUTS = 6, WEIGHTS = INPUTS * OUTPUTS, ALL = WEIGHTS + OUTPUTS };

/* f(W, b) = 1/16 sum c (tanh(X W + b) - Y)^2. The weights are kept output x input, as the engine's
 * are. */
struct problem {
    double x[SAMPLES][INPUTS], y[SAMPLES][OUTPUTS], c[OUTPUTS];
    double p[ALL], grad[ALL];
};

static double draw(uint32_t *seed)
{
    *seed = (1103515245u * *seed + 12345u) % 2147483648u;
    return *seed / 2147483648.0 * 2 - 1;
}

static void make_problem(struct problem *problem)
{
    uint32_t seed = 12345;
    for (int i = 0; i < SAMPLES * INPUTS; i++)
        problem->x[i / INPUTS][i % INPUTS] = draw(&seed);
    for (int i = 0; i < SAMPLES * OUTPUTS; i++)
        problem->y[i / OUTPUTS][i % OUTPUTS] = draw(&seed) * 0.5;
    for (int i = 0; i < OUTPUTS; i++)
        problem->c[i] = fabs(draw(&seed)) + 0.5;
    for (int i = 0; i < WEIGHTS; i++)
        problem->p[i % OUTPUTS * INPUTS + i / OUTPUTS] = draw(&seed);
    for (int i = 0; i < OUTPUTS; i++)
        problem->p[WEIGHTS + i] = draw(&seed) * 0.1;
}

/* The loss, and its gradient in problem->grad. */
static double loss_of(struct problem *problem)
{
    double loss = 0;
    memset(problem->grad, 0, sizeof problem->grad);
    for (int s = 0; s < SAMPLES; s++)
        for (int j = 0; j < OUTPUTS; j++) {
            double sum = problem->p[WEIGHTS + j];
            for (int i = 0; i < INPUTS; i++)
                sum += problem->x[s][i] * problem->p[j * INPUTS + i];
            double out = tanh(sum), off = out - problem->y[s][j];
            double slope = problem->c[j] * off * (1 - out * out) / SAMPLES;
            loss += 0.5 * problem->c[j] * off * off / SAMPLES;
            problem->grad[WEIGHTS + j] += slope;
            for (int i = 0; i < INPUTS; i++)
                problem->grad[j * INPUTS + i] += slope * problem->x[s][i];
        }
    return loss;
}

/* What the trajectory of a name is made with. */
struct trial {
    const char *name;
    enum lt_optimizer_kind kind;
    double weight_decay, beta2, eps, root;
};

/* One update of one of the two tensors. Arrays hold doubles here, whatever their type says. */
static void update_tensor(enum lt_optimizer_kind kind, struct lt_update *update)
{
    struct exact_terms terms = exact_terms_of(&update->terms);
    switch (kind) {
#define FLAT(X, id, name, ...) \
    case LT_OPTIMIZER_##id: \
        exact_##name##_range(update, &terms, 0, update->count, terms.decay); \
        break;
        LT_UPDATE_MAP(FLAT, )
#undef FLAT
    case LT_OPTIMIZER_LAMB:
        exact_lamb(update, &terms, terms.decay);
        break;
    case LT_OPTIMIZER_LARS:
        exact_lars(update, &terms, terms.decay);
        break;
    case LT_OPTIMIZER_ADAFACTOR:
        exact_adafactor(update, &terms, terms.decay);
        break;
    case LT_OPTIMIZER_MUON:
        exact_muon(update, &terms, terms.decay);
        break;
    default:
        fail_msg("no reference");
    }
}

/* 20 updates; returns the last loss. */
static double train(struct problem *problem, const struct trial *trial)
{
    double state[LT_UPDATE_STATES][ALL] = {{0}}, scratch[4 * WEIGHTS + 2 * INPUTS * INPUTS];
    struct lt_optimizer optimizer = {.config = lt_optimizer_defaults(trial->kind)};
    optimizer.config.weight_decay = trial->weight_decay;
    optimizer.config.beta2 = trial->beta2;
    optimizer.config.eps = trial->eps;
    optimizer.config.root = trial->root;
    if (trial->kind == LT_OPTIMIZER_SCHEDULE_FREE) {
        memcpy(state[0], problem->p, sizeof problem->p);
        memcpy(state[2], problem->p, sizeof problem->p);
    }
    for (int made = 0; made < 20; made++) {
        loss_of(problem);
        lt_optimizer_remember(&optimizer, 0.01);
        for (int tensor = 0; tensor < 2; tensor++) {
            int first = tensor * WEIGHTS;
            struct lt_update update = {.repeat = 1,
                                       .rows = tensor ? 1 : OUTPUTS,
                                       .columns = tensor ? OUTPUTS : INPUTS,
                                       .role = tensor ? LT_WEIGHT_VECTOR : LT_WEIGHT_HIDDEN,
                                       .param = (float *)(void *)(problem->p + first),
                                       .grad = (float *)(void *)(problem->grad + first),
                                       .scratch = (float *)(void *)scratch,
                                       .terms = lt_optimizer_terms(&optimizer, made, 0.01, 1)};
            update.count = update.rows * update.columns;
            for (int i = 0; i < LT_UPDATE_STATES; i++)
                update.state[i] = (float *)(void *)(state[i] + first);
            /* beside Muon, optax moves vectors by NAdam */
            update_tensor(trial->kind == LT_OPTIMIZER_MUON && tensor ? LT_OPTIMIZER_NADAM
                                                                     : trial->kind,
                          &update);
        }
    }
    return loss_of(problem);
}

/* 20 updates of both tensors together. */
static double train_lbfgs(struct problem *problem)
{
    double pairs[2 * LT_LBFGS_PAIRS * ALL] = {0}, newest[2 * ALL] = {0}, direction[ALL] = {0};
    struct lt_optimizer optimizer = {.config = lt_optimizer_defaults(LT_OPTIMIZER_LBFGS)};
    for (int made = 0; made < 20; made++) {
        loss_of(problem);
        struct lt_update update = {
            .count = ALL,
            .param = (float *)(void *)problem->p,
            .grad = (float *)(void *)problem->grad,
            .state = {(float *)(void *)pairs, (float *)(void *)newest, (float *)(void *)direction},
            .terms = lt_optimizer_terms(&optimizer, made, 0.5, 1)};
        struct exact_terms terms = exact_terms_of(&update.terms);
        exact_lbfgs(&update, &terms, 0);
    }
    return loss_of(problem);
}

/* Reads the row of the name: losses before and after, W as input x output, b. */
static void read_reference(const char *name, double *before, double *after, double p[ALL])
{
    char path[512], word[64];
    snprintf(path, sizeof path, "%s/tests/golden/optimizer_reference.txt",
             getenv("SRC") ? getenv("SRC") : ".");
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fscanf(file, "%63s", word) == 1)
        if (strcmp(word, name) == 0) {
            assert_int_equal(fscanf(file, "%lf %lf", before, after), 2);
            for (int i = 0; i < WEIGHTS; i++)
                assert_int_equal(fscanf(file, "%lf", &p[i % OUTPUTS * INPUTS + i / OUTPUTS]), 1);
            for (int i = 0; i < OUTPUTS; i++)
                assert_int_equal(fscanf(file, "%lf", &p[WEIGHTS + i]), 1);
            fclose(file);
            return;
        }
    fail_msg("%s: no row of %s", path, name);
}

static void trajectories(void **state)
{
    (void)state;
    static const struct trial trials[] = {
        {"sgd", LT_OPTIMIZER_SGD, 0, 0.999, 1e-8, 0},
        {"momentum", LT_OPTIMIZER_MOMENTUM, 0, 0.999, 1e-8, 0},
        {"nesterov", LT_OPTIMIZER_NESTEROV, 0, 0.999, 1e-8, 0},
        {"adagrad", LT_OPTIMIZER_ADAGRAD, 0, 0.999, 0, 1e-7},
        {"rmsprop", LT_OPTIMIZER_RMSPROP, 0, 0.99, 1e-8, 0},
        {"rmsprop-root", LT_OPTIMIZER_RMSPROP, 0, 0.99, 0, 1e-8},
        {"adam", LT_OPTIMIZER_ADAM, 0, 0.999, 1e-8, 0},
        {"adamw", LT_OPTIMIZER_ADAMW, 0.1, 0.999, 1e-8, 0},
        {"nadam", LT_OPTIMIZER_NADAM, 0, 0.999, 1e-8, 0},
        {"radam", LT_OPTIMIZER_RADAM, 0, 0.999, 1e-8, 0},
        {"lion", LT_OPTIMIZER_LION, 0.1, 0.99, 1e-8, 0},
        {"lamb", LT_OPTIMIZER_LAMB, 0.01, 0.999, 1e-6, 0},
        {"lars", LT_OPTIMIZER_LARS, 1e-4, 0.999, 1e-8, 0},
        {"adafactor", LT_OPTIMIZER_ADAFACTOR, 0, 0.999, 1e-8, 0},
        {"muon", LT_OPTIMIZER_MUON, 0, 0.999, 1e-8, 0},
        {"schedule-free", LT_OPTIMIZER_SCHEDULE_FREE, 0, 0.999, 1e-8, 0},
        {"lbfgs", LT_OPTIMIZER_LBFGS, 0, 0.999, 1e-8, 0},
    };
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) {
        struct problem problem;
        double before, after, want[ALL], worst = 0;
        make_problem(&problem);
        read_reference(trials[i].name, &before, &after, want);
        assert_true(fabs(loss_of(&problem) - before) < 1e-12);
        double last = trials[i].kind == LT_OPTIMIZER_LBFGS ? train_lbfgs(&problem)
                                                           : train(&problem, &trials[i]);
        for (int j = 0; j < ALL; j++)
            worst = fmax(worst, fabs(problem.p[j] - want[j]));
        if (!(worst < 1e-9) || !(fabs(last - after) < 1e-9))
            fail_msg("%s: parameters differ by %g, the loss by %g", trials[i].name, worst,
                     fabs(last - after));
    }
}

/* Codes of create_dynamic_map in bitsandbytes 0.50.2. */
static void codes(void **state)
{
    (void)state;
    static const struct {
        int is_signed, index;
        double code;
    } wanted[] = {{1, 0, -0.992968738079071},
                  {1, 1, -0.9789062738418579},
                  {1, 63, -0.10703125596046448},
                  {1, 126, -5.500000384017767e-07},
                  {1, 127, 0},
                  {1, 129, 3.250000190746505e-06},
                  {1, 200, 0.23359374701976776},
                  {1, 254, 0.992968738079071},
                  {1, 255, 1},
                  {0, 0, 0},
                  {0, 1, 3.2500003044333425e-07},
                  {0, 63, 0.010703125968575478},
                  {0, 126, 0.09929687529802322},
                  {0, 127, 0.103515625},
                  {0, 200, 0.6167968511581421},
                  {0, 254, 0.9964843988418579}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        double code = (double)lt_adamw8_codes(wanted[i].is_signed)[wanted[i].index];
        assert_true(fabs(code - wanted[i].code) <= 2e-7 * fabs(wanted[i].code));
    }
    for (int is_signed = 0; is_signed < 2; is_signed++)
        for (int i = 1; i < 256; i++)
            assert_true(lt_adamw8_codes(is_signed)[i - 1] < lt_adamw8_codes(is_signed)[i]);
}

/* Values of optax 0.2.8 (warmup_cosine_decay_schedule, linear and constant schedules joined,
 * piecewise formulas of inverse-sqrt and wsd) and PyTorch's OneCycleLR. */
static void schedules(void **state)
{
    (void)state;
    static const struct {
        enum lt_schedule_kind kind;
        int64_t step;
        double rate;
    } wanted[] = {
        {LT_SCHEDULE_COSINE, 0, 0.00042857142857142833},
        {LT_SCHEDULE_COSINE, 3, 0.0017142857142857142},
        {LT_SCHEDULE_LINEAR, 3, 0.0017142857142857142},
        {LT_SCHEDULE_CONSTANT, 3, 0.0017142857142857142},
        {LT_SCHEDULE_INVERSE_SQRT, 3, 0.0017142857142857142},
        {LT_SCHEDULE_WSD, 3, 0.0017142857142857142},
        {LT_SCHEDULE_COSINE, 6, 0.0030000000000000001},
        {LT_SCHEDULE_COSINE, 7, 0.0030000000000000001},
        {LT_SCHEDULE_LINEAR, 7, 0.0030000000000000001},
        {LT_SCHEDULE_COSINE, 8, 0.002999183831312644},
        {LT_SCHEDULE_LINEAR, 8, 0.0029695652173913041},
        {LT_SCHEDULE_COSINE, 50, 0.0017431698085188482},
        {LT_SCHEDULE_LINEAR, 50, 0.0016913043478260868},
        {LT_SCHEDULE_COSINE, 98, 0.00020081616868735636},
        {LT_SCHEDULE_LINEAR, 98, 0.00023043478260869579},
        {LT_SCHEDULE_COSINE, 99, 0.00020000000000000001},
        {LT_SCHEDULE_LINEAR, 99, 0.00020000000000000001},
        {LT_SCHEDULE_CONSTANT, 60, 0.0030000000000000001},
        {LT_SCHEDULE_INVERSE_SQRT, 7, 0.0028062430400804562},
        {LT_SCHEDULE_INVERSE_SQRT, 27, 0.0015},
        {LT_SCHEDULE_INVERSE_SQRT, 99, 0.00079372539331937729},
        {LT_SCHEDULE_WSD, 50, 0.0030000000000000001},
        {LT_SCHEDULE_WSD, 79, 0.0030000000000000001},
        {LT_SCHEDULE_WSD, 80, 0.0028600000000000001},
        {LT_SCHEDULE_WSD, 89, 0.0016000000000000001},
        {LT_SCHEDULE_WSD, 99, 0.00020000000000000001},
        {LT_SCHEDULE_ONE_CYCLE, 0, 0.00011999999999999988},
        {LT_SCHEDULE_ONE_CYCLE, 10, 0.00088549184539230214},
        {LT_SCHEDULE_ONE_CYCLE, 29, 0.0030000000000000001},
        {LT_SCHEDULE_ONE_CYCLE, 30, 0.0029984896058535731},
        {LT_SCHEDULE_ONE_CYCLE, 60, 0.0017678402708565862},
        {LT_SCHEDULE_ONE_CYCLE, 99, 1.2e-08},
        {LT_SCHEDULE_RANGE, 0, 0.0002},
        {LT_SCHEDULE_RANGE, 50, 0.0007852636241256507},
        {LT_SCHEDULE_RANGE, 99, 0.003},
    };
    struct lt_schedule schedule = {.peak = 3e-3, .floor = 2e-4, .warmup = 7, .steps = 100};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        schedule.kind = wanted[i].kind;
        double rate = lt_schedule_rate(&schedule, wanted[i].step);
        if (!(fabs(rate - wanted[i].rate) <= 1e-12))
            fail_msg("row %zu: %.17g, not %.17g", i, rate, wanted[i].rate);
    }
    for (int kind = 0; kind < LT_SCHEDULE_COUNT; kind++)
        for (int64_t steps = 1; steps < 12; steps++)
            for (int64_t step = 0; step < steps + 2; step++) {
                struct lt_schedule few = {
                    .kind = (enum lt_schedule_kind)kind, .peak = 1, .floor = 0.1, .warmup = 2};
                few.steps = steps;
                double rate = lt_schedule_rate(&few, step);
                assert_true(rate >= 0 && rate <= 1);
            }
}

/* Losses that fall fastest at a rate of 1e-3, and leave above 0.1; in between they are noisy. The
 * test ends where they have left, and suggests that rate within the width of its smoothing. */
static void range_test(void **state)
{
    (void)state;
    struct lt_schedule schedule = {
        .kind = LT_SCHEDULE_RANGE, .peak = 10, .floor = 1e-6, .steps = 400};
    struct lt_range_test *test = lt_range_test_create(schedule.steps);
    int64_t made = 0;
    for (int over = 0; !over && made < schedule.steps; made++) {
        double rate = lt_schedule_rate(&schedule, made), x = log(rate / 1e-3),
               noise = 0.02 * (double)lt_random_normal(3, (uint64_t)made),
               loss = 5 - 3 / (1 + exp(-2 * x)) + (rate > 0.1 ? 20 * (rate - 0.1) : 0) + noise;
        over = lt_range_test_add(test, rate, loss);
    }
    double rate = lt_range_test_rate(test), last = lt_schedule_rate(&schedule, made - 1);
    assert_true(rate > 5e-4 && rate < 4e-3);
    assert_true(last > 0.1 && last < 0.5);
    lt_range_test_destroy(test);
    test = lt_range_test_create(40); /* never falls */
    for (int i = 0; i < 40; i++)
        assert_int_equal(lt_range_test_add(test, 1e-3 * (i + 1), 2 + 0.01 * i), 0);
    assert_true(isnan(lt_range_test_rate(test)));
    assert_int_equal(lt_range_test_add(test, 1, 2), 1); /* no place is left */
    lt_range_test_destroy(test);
}

#define TEST(name) cmocka_unit_test_teardown(name, pool_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(trajectories),
        TEST(codes),
        TEST(schedules),
        TEST(range_test),
    };
    calm_openmp();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
