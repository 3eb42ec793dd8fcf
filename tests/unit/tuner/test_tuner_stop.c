/* SPDX-License-Identifier: Apache-2.0
 *
 * Trials that are ended early: the warm-up is found, equal settings are run to their end, and in
 * 200 searches the best setting is hardly ever lost while a third of the steps is saved.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analyzers/base/stats.h"
#include "tuner/stop.h"

#define STEPS    60
#define SETTINGS 30
#define SEARCHES 200

static double uniform(uint64_t *random)
{
    return ((double)(an_random(random) >> 11) + 0.5) * 0x1p-53;
}

static double normal(uint64_t *random) /* Box & Muller 1958 */
{
    double radius = sqrt(-2 * log(uniform(random)));
    return radius * cos(2 * M_PI * uniform(random));
}

/* Steps of a run: 8 % apart, one in 50 much longer, the first five three times as long. */
static void make_run(double *cost, size_t count, double mean, uint64_t *random)
{
    for (size_t i = 0; i < count; i++) {
        cost[i] = mean * exp(0.08 * normal(random));
        cost[i] *= uniform(random) < 0.02 ? 2 : 1;
        cost[i] *= i < 5 ? 3 : 1;
    }
}

static void test_warm_up(void **state)
{
    (void)state;
    double cost[STEPS];
    int right = 0;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        uint64_t random = seed;
        make_run(cost, STEPS, 10, &random);
        size_t cut = tuner_stop_warm_up(cost, STEPS);
        right += cut >= 5 && cut <= STEPS / 2;
    }
    assert_in_range(right, 98, 100);
    assert_int_equal(tuner_stop_warm_up(cost, 0), 0);
}

static void test_bound(void **state)
{
    (void)state;
    double cost[STEPS], mean, low;
    uint64_t random = 1;
    make_run(cost, STEPS, 10, &random);
    tuner_stop_bound(cost, 8, 0.01, &mean, &low);
    assert_true(isinf(low) && !tuner_stop_is_worse(cost, 8, 1, 0.01)); /* too few to say */
    tuner_stop_bound(cost, STEPS, 0.01, &mean, &low);
    assert_true(fabs(mean - 10.3) < 1 && low < mean && low > 8);
    assert_true(tuner_stop_is_worse(cost, STEPS, 5, 0.01));
    assert_false(tuner_stop_is_worse(cost, STEPS, 10, 0.01));
}

/* Steps that differ by 8 % tell their mean to 5 % long before they tell it to 2 %, and it is right.
 */
static void test_known(void **state)
{
    (void)state;
    static double cost[4000];
    int wrong = 0;
    size_t few = 0, many = 0;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        uint64_t random = seed;
        size_t coarse = 0, fine = 0;
        double mean, low;
        make_run(cost, 4000, 10, &random);
        while (coarse < 4000 && !tuner_stop_is_known(cost, coarse, 0.05, 0.05))
            coarse++;
        tuner_stop_bound(cost, coarse, 0.05, &mean, &low);
        wrong += fabs(mean / (10 * 1.0232) - 1) > 0.05; /* exp(0.08^2 / 2), and one of 50 twice */
        for (fine = coarse; fine < 4000 && !tuner_stop_is_known(cost, fine, 0.02, 0.05);)
            fine += 10;
        assert_true(coarse >= 12 && fine < 4000);
        few += coarse;
        many += fine;
    }
    assert_true(few < 100 * 100 && many > 5 * few);
    assert_in_range(wrong, 0, 5);
}

/* The interval holds at every count at once: the means of a long run, looked at after each step. */
static void test_any_time(void **state)
{
    (void)state;
    static double cost[400];
    int missed = 0;
    for (uint64_t seed = 1; seed <= 500; seed++) {
        uint64_t random = seed;
        bool above = false;
        for (size_t i = 0; i < 400; i++)
            cost[i] = 10 + normal(&random);
        for (size_t count = 12; count <= 400; count += 4) {
            double mean, low;
            tuner_stop_bound(cost, count, 0.05, &mean, &low);
            above = above || low > 10;
        }
        missed += above;
    }
    assert_in_range(missed, 0, 25); /* 5 % of 500 */
}

/* Runs a setting until it is ended: the steps that it took. Its mean then. */
static size_t run_setting(double true_mean, double leader, uint64_t *random, double *mean)
{
    double cost[STEPS], low;
    /* two runs of one setting differ by 2.4 % */
    make_run(cost, STEPS, true_mean * exp(0.024 * normal(random)), random);
    for (size_t count = 1; count < STEPS; count++)
        if (tuner_stop_is_worse(cost, count, leader, 0.05 / SETTINGS))
            return count;
    tuner_stop_bound(cost, STEPS, 0.05, mean, &low);
    return STEPS;
}

static void test_searches(void **state)
{
    (void)state;
    int lost = 0;
    size_t steps = 0;
    for (uint64_t seed = 1; seed <= SEARCHES; seed++) {
        uint64_t random = seed;
        size_t best = an_random(&random) % SETTINGS;
        double leader = INFINITY;
        for (size_t i = 0; i < SETTINGS; i++) {
            double true_mean = 10, mean = NAN;
            if (i != best)
                true_mean *= 1 + 0.8 * uniform(&random);
            size_t ran = run_setting(true_mean, leader, &random, &mean);
            steps += ran;
            lost += i == best && ran < STEPS;
            leader = fmin(leader, mean); /* of a number and NAN the number */
        }
    }
    assert_in_range(lost, 0, SEARCHES / 20);
    assert_in_range(steps, 0, (size_t)STEPS * SETTINGS * SEARCHES * 2 / 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_warm_up),  cmocka_unit_test(test_bound),
        cmocka_unit_test(test_known),    cmocka_unit_test(test_any_time),
        cmocka_unit_test(test_searches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
