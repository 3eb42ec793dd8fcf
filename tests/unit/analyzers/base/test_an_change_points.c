/* SPDX-License-Identifier: Apache-2.0
 *
 * Change points: how many unchanged series show one, how many real changes are found and where, and
 * whether the stated places hold them. Series of 60 runs that differ by 2.4 %, as those of this
 * project's machines do; tests/bench/change_points.c compares with other programs.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analyzers/base/change_points.h"
#include "analyzers/base/stats.h"

#define RUNS 60

static double uniform(uint64_t *state)
{
    return ((double)(an_random(state) >> 11) + 0.5) / 9007199254740992.0;
}

/* Box and Muller. */
static double normal(uint64_t *state)
{
    double radius = sqrt(-2 * log(uniform(state)));
    return radius * cos(2 * 3.14159265358979323846 * uniform(state));
}

/* Of many series: how many show a change, where the one nearest to the true place lies, and how
 * often its range holds that place. */
struct counts {
    int found, within_1, within_5, held;
};

static struct counts try_series(int series, double change, double (*noise)(uint64_t *))
{
    struct counts counts = {0};
    uint64_t state = 2026;
    for (int i = 0; i < series; i++) {
        double value[RUNS];
        int at = 20 + (int)(an_random(&state) % 21);
        for (int k = 0; k < RUNS; k++)
            value[k] = log(47.0) + log1p(0.024 * noise(&state)) + (k >= at ? log1p(change) : 0);
        struct an_change_point *point;
        size_t count, best = 0;
        assert_int_equal(an_change_points(value, RUNS, &point, &count), 0);
        for (size_t k = 1; k < count; k++)
            if (labs((long)point[k].at - at) < labs((long)point[best].at - at))
                best = k;
        if (count) {
            long away = labs((long)point[best].at - at);
            counts.found++;
            counts.within_1 += away <= 1;
            counts.within_5 += away <= 5;
            counts.held += (int)point[best].low <= at && at <= (int)point[best].high;
            assert_true(point[best].low >= 1 && point[best].high < RUNS);
            assert_true(point[best].low <= point[best].at && point[best].at <= point[best].high);
        }
        free(point);
    }
    return counts;
}

/* The bars of the project: false in 2 % of the unchanged at most, 95 % of +5 % and 78 % of +3 %. */
static void test_unchanged(void **state)
{
    (void)state;
    assert_in_range(try_series(500, 0, normal).found, 0, 10);
}

static void test_changed(void **state)
{
    (void)state;
    struct counts five = try_series(200, 0.05, normal), three = try_series(200, 0.03, normal);
    assert_in_range(five.found, 190, 200);
    assert_true(five.within_1 >= 0.80 * five.found);
    assert_true(five.held >= 0.88 * five.found);
    assert_in_range(three.found, 156, 200);
    assert_true(three.within_5 >= 0.75 * three.found);
    assert_true(three.held >= 0.85 * three.found);
}

/* One run in twenty takes half as long again: a neighbour, a cold cache. */
static double with_outliers(uint64_t *state)
{
    return uniform(state) < 0.05 ? 20 : normal(state);
}

static void test_outliers(void **state)
{
    (void)state;
    assert_in_range(try_series(300, 0, with_outliers).found, 0, 8);
    assert_true(try_series(50, 0.10, with_outliers).found >= 48);
}

static void test_two_changes(void **state)
{
    (void)state;
    double value[90];
    uint64_t random = 3;
    for (int i = 0; i < 90; i++)
        value[i] = (i >= 30 && i < 60 ? 110 : 100) + normal(&random);
    struct an_change_point *point;
    size_t count;
    assert_int_equal(an_change_points(value, 90, &point, &count), 0);
    assert_int_equal(count, 2);
    assert_int_equal(point[0].at, 30);
    assert_int_equal(point[1].at, 60);
    assert_true(fabs(point[0].after - 110) < 1 && fabs(point[1].after - 100) < 1);
    free(point);
}

/* Few values, equal values, a step without noise, more values than are looked at. */
static void test_odd(void **state)
{
    (void)state;
    double value[1000];
    struct an_change_point *point;
    size_t count;
    for (size_t i = 0; i < 1000; i++)
        value[i] = 5;
    for (size_t n = 0; n < 12; n++) {
        assert_int_equal(an_change_points(value, n, &point, &count), 0);
        assert_int_equal(count, 0);
        free(point);
    }
    assert_int_equal(an_change_points(value, 1000, &point, &count), 0);
    assert_int_equal(count, 0);
    free(point);
    for (size_t i = 900; i < 1000; i++)
        value[i] = 6;
    assert_int_equal(an_change_points(value, 1000, &point, &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(point[0].at, 900);
    assert_int_equal(point[0].low, 900);
    assert_int_equal(point[0].high, 900);
    free(point);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unchanged), cmocka_unit_test(test_changed),
        cmocka_unit_test(test_outliers),  cmocka_unit_test(test_two_changes),
        cmocka_unit_test(test_odd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
