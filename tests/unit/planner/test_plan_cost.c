/* SPDX-License-Identifier: Apache-2.0
 *
 * Goodput against a simulation of failures, compute-optimal sizes against a search, costs against
 * sums.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analyzers/base/stats.h"
#include "planner/plan.h"

static double uniform(uint64_t *state)
{
    return ((double)(an_random(state) >> 11) + 0.5) / 9007199254740992.0;
}

/* Useful share of a job that works `interval`, writes a checkpoint, fails after times that are
 * exponential, restarts (and may fail in that) from its last checkpoint. */
static double simulate(const struct plan_failures *of, double interval, size_t segments,
                       uint64_t seed)
{
    uint64_t state = seed;
    double wall = 0, next = -of->mtbf_s * log(uniform(&state));
    for (size_t done = 0; done < segments;) {
        double end = wall + interval + of->checkpoint_s;
        if (next >= end) {
            wall = end;
            done++;
            continue;
        }
        do { /* restarts until one succeeds */
            wall = next;
            next = wall - of->mtbf_s * log(uniform(&state));
        } while (next < wall + of->restart_s);
        wall += of->restart_s;
    }
    return (double)segments * interval / wall;
}

static void near(double value, double expected, double tolerance)
{
    if (!(fabs(value / expected - 1) <= tolerance))
        fail_msg("%.9g is not %.9g", value, expected);
}

static void test_goodput(void **state)
{
    (void)state;
    static const double shares[] = {1e-4, 1e-3, 1e-2, 3e-2, 0.1};
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        struct plan_failures of = {10e3, shares[i] * 10e3, 300};
        struct plan_goodput best = plan_goodput_of(&of);
        near(simulate(&of, best.interval_s, 300000, 7 + i), best.share, 0.01);
        near(simulate(&of, 3 * best.interval_s, 300000, 17 + i),
             plan_goodput_at(&of, 3 * best.interval_s), 0.01);
        assert_true(best.share >= plan_goodput_at(&of, 1.01 * best.interval_s));
        assert_true(best.share >= plan_goodput_at(&of, 0.99 * best.interval_s));
        near(best.young_s, sqrt(2 * of.checkpoint_s * of.mtbf_s), 1e-12);
    }
    struct plan_failures none = {0, 30, 600};
    assert_true(plan_goodput_of(&none).share == 1);
}

/* The optimum of the law by trying sizes; the corrected constants give about 20 tokens each. */
static void test_law(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        double flops = 5.76e23, parameters, tokens, best = INFINITY, best_size = 0;
        plan_law_optimum(&plan_laws[k], flops, &parameters, &tokens);
        for (double size = 1e9; size < 1e12; size *= 1.001) {
            double loss = plan_law_loss(&plan_laws[k], size, flops / 6 / size);
            if (loss < best) {
                best = loss;
                best_size = size;
            }
        }
        near(parameters, best_size, 0.002);
        near(6 * parameters * tokens, flops, 1e-9);
        near(plan_law_tokens(&plan_laws[k], parameters), tokens, 1e-6);
    }
    double tokens = plan_law_tokens(&plan_laws[0], 70e9);
    assert_true(tokens / 70e9 > 15 && tokens / 70e9 < 25);
}

static void test_cost(void **state)
{
    (void)state;
    struct plan_layout layout = {.devices = 100, .global_batch = 10, .sequence = 1000};
    struct plan_rates rates = {2, 4, 500, 100, 1.5, plan_grid_of("world")};
    struct plan_failures none = {0, 0, 0};
    struct plan_cost cost;
    plan_cost_of(&layout, 3.6, 1.8, 7.2, 1e7, &rates, &none, &cost);
    near(cost.steps, 1000, 1e-12);
    near(cost.hours, 1, 1e-12);
    near(cost.hours_low, 0.5, 1e-12);
    near(cost.device_hours, 100, 1e-12);
    near(cost.money_low, 200, 1e-12);
    near(cost.money_high, 400, 1e-12);
    near(cost.kwh, 100 * 0.6 * 1.5, 1e-12);
    near(cost.kg, 90 * 0.473, 1e-12);
    rates.price_low = NAN;
    plan_cost_of(&layout, 3.6, 1.8, 7.2, 1e7, &rates, &none, &cost);
    assert_true(isnan(cost.money_low));
    assert_null(plan_grid_of("atlantis"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_goodput), cmocka_unit_test(test_law),
                                       cmocka_unit_test(test_cost)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
