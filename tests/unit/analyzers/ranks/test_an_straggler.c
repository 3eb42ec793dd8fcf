/* SPDX-License-Identifier: Apache-2.0
 *
 * The test for a straggler: how often it cries wolf over identical ranks (simulated, with and
 * without memory from step to step), how often it finds one, and what peers are.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzers/base/stats.h"
#include "analyzers/ranks/ranks_compare.h"

#define RANKS_MOST 64
#define STEPS_MOST 200

static const struct an_excess_limits straggler = {AN_RANKS_MARGIN_PCT, AN_RANKS_MARGIN_PCT},
                                     stage = {AN_RANKS_MARGIN_PCT, 0};

static double normal(uint64_t *seed)
{
    double u = ((double)(an_random(seed) >> 11) + 0.5) / 9007199254740992.0,
           v = (double)(an_random(seed) >> 11) / 9007199254740992.0;
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* Own times of ranks: 10 ms, a relative standard deviation, an autocorrelation, now and then a
 * stall; rank 0 is slower. */
struct world {
    int ranks, steps;
    double sd, memory, stalls, slow;
};

static void simulate(const struct world *w, uint64_t *seed, double *x)
{
    for (int r = 0; r < w->ranks; r++) {
        double state = normal(seed);
        for (int s = 0; s < w->steps; s++) {
            state = w->memory * state + sqrt(1 - w->memory * w->memory) * normal(seed);
            double stall = (double)(an_random(seed) >> 11) / 9007199254740992.0 < w->stalls ? 3 : 0;
            x[r * w->steps + s] =
                10 * fmax(0.2, (1 + w->sd * state) * (1 + stall) * (r ? 1 : 1 + w->slow));
        }
    }
}

/* Share of runs in which some rank is called a straggler; *right: in which that is rank 0 and
 * nobody else. */
static double rate(struct world w, int runs, double *right)
{
    static double x[RANKS_MOST * STEPS_MOST], y[RANKS_MOST * STEPS_MOST];
    struct an_excess e[RANKS_MOST];
    uint64_t seed = 7;
    int alarms = 0, exact = 0;
    for (int i = 0; i < runs; i++) {
        int found = 0;
        simulate(&w, &seed, x);
        assert_int_equal(an_excess_of_peers(x, (size_t)w.ranks, (size_t)w.steps, NULL, y), 0);
        assert_int_equal(an_excess_test(y, (size_t)w.ranks, (size_t)w.steps, &straggler, 1, e), 0);
        for (int r = 0; r < w.ranks; r++)
            found += e[r].significant;
        alarms += found > 0;
        exact += found == 1 && e[0].significant;
    }
    if (right)
        *right = (double)exact / runs;
    return (double)alarms / runs;
}

/* The same by the limits of a stage: of seven stages a forward and a backward pass take time, a
 * third and two thirds of the step, each with the noise of the whole; rank 0 is slower in forward,
 * by w.slow of the step. */
static double stage_rate(struct world w, int runs, double *right)
{
    enum { STAGES = 7 };
    static double x[RANKS_MOST * STEPS_MOST], y[STAGES * RANKS_MOST * STEPS_MOST];
    static struct an_excess e[STAGES * RANKS_MOST];
    size_t ranks = (size_t)w.ranks, steps = (size_t)w.steps, cells = ranks * steps;
    uint64_t seed = 7;
    int alarms = 0, exact = 0;
    for (int i = 0; i < runs; i++) {
        int found = 0;
        memset(y, 0, sizeof y);
        for (size_t pass = 0; pass < 2; pass++) {
            struct world part = w;
            part.slow = pass ? 0 : 3 * w.slow;
            simulate(&part, &seed, x);
            assert_int_equal(an_excess_of_peers(x, ranks, steps, NULL, y + pass * cells), 0);
            for (size_t k = 0; k < cells; k++)
                y[pass * cells + k] *= pass ? 2.0 / 3 : 1.0 / 3;
        }
        assert_int_equal(an_excess_test(y, STAGES * ranks, steps, &stage, 1, e), 0);
        for (size_t row = 0; row < STAGES * ranks; row++)
            found += e[row].significant;
        alarms += found > 0;
        exact += found == 1 && e[0].significant;
    }
    if (right)
        *right = (double)exact / runs;
    return (double)alarms / runs;
}

static void test_false_alarms(void **state)
{
    static const struct world worlds[] = {
        {2, 20, 0.05, 0, 0, 0},     {2, 20, 0.15, 0, 0, 0},       {4, 20, 0.05, 0.5, 0, 0},
        {4, 60, 0.1, 0.5, 0.05, 0}, {4, 60, 0.05, 0.8, 0, 0},     {8, 25, 0.03, 0, 0.1, 0},
        {64, 24, 0.01, 0, 0, 0},    {64, 24, 0.05, 0.3, 0.02, 0}, {64, 100, 0.1, 0.5, 0.1, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        const struct world *w = &worlds[i];
        int runs = w->ranks > 8 ? 40 : 300;
        double alarms = rate(*w, runs, NULL), slow = stage_rate(*w, runs, NULL);
        printf("false alarms: %2d ranks, %3d steps, noise %4.1f %%, memory %.1f, stalls %2.0f %%: "
               "%.1f %% of runs, %.1f %% by the limits of a stage\n",
               w->ranks, w->steps, 100 * w->sd, w->memory, 100 * w->stalls, 100 * alarms,
               100 * slow);
        assert_true(alarms <= 0.05 && slow <= 0.05);
    }
}

/* Two ranks on a machine that other programs use: own time (ms) and excess (%) in eight stretches,
 * as recorded from identical ranks. The test over steps calls one slower; it is not in every
 * stretch, and not by more than both drift. If it is in every stretch, or both are steady, it
 * stands. */
static void test_drift(void **state)
{
    static const double first[] = {1.21, 1.60, 1.73, 1.94, 2.38, 1.83, 2.71, 3.35};
    static const struct {
        double more[8];
        bool steady, stands;
    } world[] = {
        {{-3, 5, 36, 11, 22, 35, 18, 14}, false, false},
        {{3, 5, 36, 11, 22, 35, 18, 14}, false, true},
        {{-3, 5, 36, 11, 22, 35, 18, 14}, true, true},
    };
    enum { STEPS = 160 };
    double x[2 * STEPS], y[2 * STEPS], work[2 * STEPS];
    struct an_excess e[2];
    (void)state;
    for (size_t i = 0; i < sizeof world / sizeof *world; i++) {
        for (size_t s = 0; s < STEPS; s++) {
            x[s] = world[i].steady ? 2 + 0.01 * (double)(s % 3) : first[s / 20];
            x[STEPS + s] = x[s] * (1 + world[i].more[s / 20] / 100);
        }
        assert_int_equal(an_excess_of_peers(x, 2, STEPS, NULL, y), 0);
        assert_int_equal(an_excess_test(y, 2, STEPS, &straggler, 1, e), 0);
        assert_true(e[1].significant);
        assert_int_equal(an_excess_is_steady(x + STEPS, y + STEPS, STEPS, AN_RANKS_MARGIN_PCT,
                                             e[1].estimate, work),
                         world[i].stands);
    }
}

static void test_power(void **state)
{
    static const struct world worlds[] = {{2, 20, 0.03, 0, 0, 0.1},
                                          {4, 24, 0.05, 0.5, 0.05, 0.2},
                                          {64, 24, 0.02, 0.3, 0.02, 0.1},
                                          {64, 60, 0.01, 0, 0, 0.05}};
    (void)state;
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        const struct world *w = &worlds[i];
        double right;
        rate(*w, w->ranks > 8 ? 40 : 200, &right);
        printf("found: %2d ranks, %3d steps, noise %4.1f %%, slower by %2.0f %%: %.1f %% of runs\n",
               w->ranks, w->steps, 100 * w->sd, 100 * w->slow, 100 * right);
        assert_true(right >= 0.95);
    }
}

/* An excess that is hardly above the margin is no straggler for sure, but a slow stage. */
static void test_small(void **state)
{
    static const struct world world = {2, 140, 0.05, 0, 0, 0.035};
    double sure, right;
    (void)state;
    rate(world, 200, &sure);
    stage_rate(world, 200, &right);
    printf("slower by 3.5 %%: a straggler in %.1f %% of runs, a slow stage in %.1f %%\n",
           100 * sure, 100 * right);
    assert_true(right >= 0.8 && sure <= 0.4);
}

/* Two of them and an even number: by hand. */
static void test_peers(void **state)
{
    const double x[] = {10, 11, 10, 22, 12, 10}; /* 3 ranks, 2 steps */
    const double scale[] = {50, 100};
    double y[6];
    (void)state;
    assert_int_equal(an_excess_of_peers(x, 3, 2, NULL, y), 0);
    assert_true(fabs(y[0] - 100 * (10 / 11.0 - 1)) < 1e-9); /* of 10, 12 */
    assert_true(fabs(y[3] - 100 * (22 / 10.5 - 1)) < 1e-9); /* of 11, 10 */
    assert_int_equal(an_excess_of_peers(x, 3, 2, scale, y), 0);
    assert_true(fabs(y[3] - 11.5) < 1e-9);
    assert_int_equal(an_excess_of_peers(x, 2, 2, NULL, y), 0);
    assert_true(fabs(y[3] - 100) < 1e-9 && fabs(y[1] + 50) < 1e-9);
}

/* A constant excess is found with any number of steps, and its bounds are itself. */
static void test_constant(void **state)
{
    double y[3 * 20];
    struct an_excess e[3];
    (void)state;
    for (int i = 0; i < 60; i++)
        y[i] = i < 20 ? 0 : i < 40 ? 5 : 1.9;
    assert_int_equal(an_excess_test(y, 3, 20, &straggler, 1, e), 0);
    assert_false(e[0].significant || e[2].significant);
    assert_true(e[1].significant && e[1].low == 5 && e[1].high == 5 && e[1].estimate == 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_peers),        cmocka_unit_test(test_constant),
        cmocka_unit_test(test_false_alarms), cmocka_unit_test(test_drift),
        cmocka_unit_test(test_power),        cmocka_unit_test(test_small)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
