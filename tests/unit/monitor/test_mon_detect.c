/* SPDX-License-Identifier: Apache-2.0
 *
 * Detectors on series drawn by seed: false alarms with their Poisson bound, delays, what is missed.
 * The whole table: tests/bench/detectors.c.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "monitor/detect/shift.h"
#include "monitor/detect/tail.h"
#include "monitor/detect/trend.h"
#include "tests/unit/monitor/mon_series.h"

#define assert_close(value, wanted, within) assert_true(fabs((value) - (wanted)) <= (within))

#define SEED   5000000 /* not those that the rules were chosen on */
#define SERIES 40
#define STEPS  10000
#define TRIALS 500
#define BEFORE 300
#define LATEST 100

static void test_false_alarms(void **state)
{
    (void)state;
    struct mon_shift_found found;
    int64_t alarms = 0;
    for (uint64_t i = 0; i < SERIES; i++) {
        struct series series = series_begin(SEED + i, 0.024);
        struct mon_shift shift;
        mon_shift_init(&shift, &mon_shift_time, true);
        for (int64_t step = 0; step < STEPS; step++)
            alarms += mon_shift_add(&shift, series_step(&series, 1), step, &found) && found.up;
    }
    assert_true(series_poisson_upper(alarms) <= 5.0 * SERIES * STEPS / 1e4);
}

/* The 90th percentile of the steps until a change is found, and how many are not found. */
static double delay_of(double sd, double level, double *missed)
{
    static double delay[TRIALS];
    struct mon_shift_found found;
    int64_t late = 0;
    for (uint64_t i = 0; i < TRIALS; i++) {
        struct series series = series_begin(SEED + 1000 + i, sd);
        struct mon_shift shift;
        mon_shift_init(&shift, &mon_shift_time, true);
        for (int64_t step = 0; step < BEFORE; step++)
            mon_shift_add(&shift, series_step(&series, 1), step, &found);
        delay[i] = LATEST + 1;
        for (int64_t step = 0; step < LATEST && delay[i] > LATEST; step++)
            if (mon_shift_add(&shift, series_step(&series, level), BEFORE + step, &found) &&
                found.up)
                delay[i] = (double)step + 1;
        late += delay[i] > LATEST;
    }
    an_sort(delay, TRIALS);
    *missed = (double)late / TRIALS;
    return an_quantile(delay, TRIALS, 0.9);
}

static void test_delays(void **state)
{
    (void)state;
    double missed;
    assert_true(delay_of(0.024, 1.05, &missed) <= 10);
    assert_true(missed <= 0.02);
    assert_true(delay_of(0.024, 1.03, &missed) <= 15);
    assert_true(missed <= 0.02);
}

static void test_since(void **state)
{
    (void)state;
    struct mon_shift_found found = {0};
    struct series series = series_begin(SEED, 0.01);
    struct mon_shift shift;
    bool moved = false;
    series.hiccups = 0;
    mon_shift_init(&shift, &mon_shift_time, true);
    for (int64_t step = 0; step < 200; step++)
        assert_false(mon_shift_add(&shift, series_step(&series, 1), step, &found));
    for (int64_t step = 200; step < 230 && !moved; step++)
        moved = mon_shift_add(&shift, series_step(&series, 1.1), step, &found);
    assert_true(moved && found.up);
    assert_true(found.since >= 198 && found.since <= 201);
    assert_close(found.after / found.before, 1.1, 0.02);
    moved = false;
    for (int64_t step = 300; step < 400 && !moved; step++) /* it learns the new level, and back */
        moved = mon_shift_add(&shift, series_step(&series, step < 350 ? 1.1 : 1), step, &found);
    assert_true(moved && !found.up);
    assert_false(mon_shift_add(&shift, NAN, 400, &found));
    assert_false(mon_shift_add(&shift, -1, 401, &found));
}

/* A far move is dated and measured by its own values, not by those before it that were a little
 * high by chance. */
static void test_far_since(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 40; i++) {
        struct mon_shift_found found = {0};
        struct series series = series_begin(SEED + i, 0.01);
        struct mon_shift shift;
        series.hiccups = 0;
        mon_shift_init(&shift, &mon_shift_time, true);
        for (int64_t step = 0; step < 300; step++)
            mon_shift_add(&shift, series_step(&series, 1), step, &found);
        bool moved = false;
        for (int64_t step = 300; step < 310 && !moved; step++)
            moved = mon_shift_add(&shift, series_step(&series, 1.2), step, &found);
        assert_true(moved && found.up);
        assert_int_equal(found.since, 300);
        assert_close(found.after / found.before, 1.2, 0.04);
    }
}

/* What was slow for eight steps only leaves the level that was there before, without a second
 * warm-up. */
static void test_goes_back(void **state)
{
    (void)state;
    struct mon_shift_found found;
    struct series series = series_begin(SEED, 0.01);
    struct mon_shift shift;
    int up = 0, down = 0;
    series.hiccups = 0;
    mon_shift_init(&shift, &mon_shift_time, true);
    for (int64_t step = 0; step < 318; step++) {
        double level = step >= 300 && step < 308 ? 1.1 : 1;
        bool moved = mon_shift_add(&shift, series_step(&series, level), step, &found);
        up += moved && found.up;
        down += moved && !found.up;
    }
    assert_int_equal(up, 1);
    assert_int_equal(down, 0);
    assert_close(mon_shift_centre(&shift), 1, 0.01);
}

/* Alarms in 2,000 steps of which every n-th, and some after it, take half as long again. */
static int alarms_of_every(int64_t nth, int64_t slow)
{
    struct mon_shift_found found;
    struct series series = series_begin(SEED, 0.01);
    struct mon_shift shift;
    int alarms = 0;
    series.hiccups = 0;
    mon_shift_init(&shift, &mon_shift_time, true);
    for (int64_t step = 0; step < 2300; step++) {
        double level = step >= 300 && step % nth < slow ? 1.5 : 1;
        alarms += mon_shift_add(&shift, series_step(&series, level), step, &found) && found.up;
    }
    return alarms;
}

/* Single steps that take longer are no level, nor are three of them; every second step is one. */
static void test_single_steps(void **state)
{
    (void)state;
    assert_int_equal(alarms_of_every(8, 1), 0);
    assert_int_equal(alarms_of_every(40, 3), 0);
    assert_true(alarms_of_every(2, 1) > 0);
}

/* The tail of an exponential distribution is known. */
static void test_tail(void **state)
{
    (void)state;
    struct mon_tail tail = {.held = 0};
    uint64_t random = SEED;
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(isnan(mon_tail_limit(&tail, 1e-3)), i < MON_TAIL_VALUES);
        mon_tail_add(&tail, -log(series_uniform(&random)));
    }
    assert_close(mon_tail_limit(&tail, 1e-3), log(1e3), 0.8);
    assert_close(mon_tail_limit(&tail, 1e-5), log(1e5), 3);
    for (size_t i = 1; i < MON_TAIL_VALUES; i++)
        assert_true(tail.largest[i] <= tail.largest[i - 1]);
}

/* A loss that falls by a power law never stays on a plateau; one that stops is found. */
static void test_plateau(void **state)
{
    (void)state;
    int false_alarms = 0, found = 0;
    for (uint64_t i = 0; i < 20; i++) {
        struct series series = series_begin(SEED + i, 0.02);
        struct mon_trail trail;
        bool alarm = false, flat = false;
        mon_trail_init(&trail, 16);
        for (int64_t step = 0; step < 1000; step++)
            if (mon_trail_add(&trail, (double)step, series_loss(&series, step)))
                alarm = alarm || mon_plateau(&trail, 0.005);
        for (int64_t step = 1000; step < 1800; step++)
            if (mon_trail_add(&trail, (double)step, series_loss(&series, 1000)))
                flat = flat || mon_plateau(&trail, 0.005);
        false_alarms += alarm;
        found += flat;
    }
    assert_int_equal(false_alarms, 0);
    assert_true(found >= 19);
}

struct memory {
    double per_s, saturates_s;
};

/* Bytes at a time: what a process holds, with noise. */
static double memory_at(struct memory memory, double time_s, uint64_t *state)
{
    double grown = memory.saturates_s > 0
                       ? memory.per_s * memory.saturates_s * (1 - exp(-time_s / memory.saturates_s))
                       : memory.per_s * time_s;
    return 4e9 + grown + 2e7 * series_normal(state);
}

static int leaks(struct memory memory, uint64_t seed, double *at, double *low, double *high)
{
    struct mon_trail trail;
    struct mon_growth growth;
    struct mon_forecast forecast;
    uint64_t state = seed;
    int alarms = 0;
    mon_trail_init(&trail, 10);
    for (int i = 0; i < 3000; i++) {
        if (mon_trail_add(&trail, i, memory_at(memory, i, &state)) && mon_growth(&trail, &growth) &&
            mon_forecast(&growth, 24e9, &forecast)) {
            alarms++;
            double last = trail.place[trail.count - 1];
            *at = forecast.at + last;
            *low = forecast.soonest + last;
            *high = forecast.latest + last;
        }
    }
    return alarms;
}

static void test_leak(void **state)
{
    (void)state;
    double at, low, high;
    int quiet = 0, covered = 0;
    for (uint64_t i = 0; i < 20; i++) {
        quiet += leaks((struct memory){0, 0}, SEED + i, &at, &low, &high) > 0;
        quiet += leaks((struct memory){4e6, 200}, SEED + i, &at, &low, &high) > 3;
        assert_true(leaks((struct memory){2e6, 0}, SEED + i, &at, &low, &high) > 10);
        assert_close(at / 10000, 1, 0.05); /* 20 GB at 2 MB/s */
        covered += low <= 10000 && 10000 <= high;
    }
    assert_true(quiet <= 1);
    assert_true(covered >= 14);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_false_alarms), cmocka_unit_test(test_delays),
        cmocka_unit_test(test_since),        cmocka_unit_test(test_far_since),
        cmocka_unit_test(test_goes_back),    cmocka_unit_test(test_single_steps),
        cmocka_unit_test(test_tail),         cmocka_unit_test(test_plateau),
        cmocka_unit_test(test_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
