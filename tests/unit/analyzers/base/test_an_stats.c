/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzers/base/stats.h"

static void near(double a, double b, double within)
{
    if (!(fabs(a - b) <= within))
        fail_msg("%.17g is not %.17g", a, b);
}

static void test_quantiles(void **state)
{
    double x[] = {9, 1, 4, 16, 25};
    (void)state;
    an_sort(x, 5);
    near(an_quantile(x, 5, 0.5), 9, 0);
    near(an_quantile(x, 5, 0), 1, 0);
    near(an_quantile(x, 5, 1), 25, 0);
    near(an_quantile(x, 5, 0.95), 23.2, 1e-12); /* 0.95 * 4 = 3.8: 16 + 0.8 * 9 */
    near(an_quantile(x, 4, 0.5), 6.5, 0);       /* 1 4 9 16 */
    near(an_quantile(x, 1, 0.3), 1, 0);
    assert_true(isnan(an_quantile(x, 0, 0.5)));
}

static int by_value(const void *first, const void *second)
{
    double left = *(const double *)first, right = *(const double *)second;
    return (left > right) - (left < right);
}

/* Many numbers are sorted by their digits: signs, sizes and equal ones as when they are compared.
 */
static void test_sort_many(void **state)
{
    static const double odd[] = {0, -1, INFINITY, -INFINITY, 5e-324, -5e-324, 1e308, -1e308};
    static double x[10000], y[10000];
    uint64_t seed = 7;
    (void)state;
    for (size_t i = 0; i < 10000; i++) {
        double size = ldexp(1, (int)(an_random(&seed) % 40) - 20);
        x[i] = i % 10 ? ((double)(an_random(&seed) % 2001) - 1000) * size : odd[i / 10 % 8];
    }
    memcpy(y, x, sizeof x);
    an_sort(x, 10000);
    qsort(y, 10000, sizeof *y, by_value);
    assert_memory_equal(x, y, sizeof x);
    for (size_t i = 0; i < 10000; i++)
        x[i] = 3;
    an_sort(x, 10000);
    for (size_t i = 0; i < 10000; i++)
        near(x[i], 3, 0);
}

static void test_spread(void **state)
{
    double x[] = {2, 4, 4, 4, 5, 5, 7, 9}, work[8];
    (void)state;
    near(an_mean(x, 8), 5, 0);
    near(an_sd(x, 8), sqrt(32.0 / 7), 1e-12);
    assert_true(isnan(an_sd(x, 1)));
    near(an_mad(x, 8, 4.5, work), 0.5, 1e-12); /* 2.5 .5 .5 .5 .5 .5 2.5 4.5 */
}

/* Box-Muller. */
static double normal(uint64_t *seed)
{
    double u = ((double)(an_random(seed) >> 11) + 1) / 9007199254740993.0,
           v = (double)(an_random(seed) >> 11) / 9007199254740992.0;
    return sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * v);
}

/* Steps of 100 ms with a true overhead of 1 %: how often the 95 % interval holds it. Medians of
 * small samples are coarse, so the percentile method covers a little more or less than it says: 90
 * % is what the report may be held to. */
static void coverage(size_t on, size_t off, double noise, int rounds, uint64_t seed, double least)
{
    int held = 0;
    double *a = malloc(on * sizeof *a), *b = malloc(off * sizeof *b);
    assert_true(a && b);
    for (int r = 0; r < rounds; r++) {
        struct an_interval i;
        for (size_t k = 0; k < on; k++)
            a[k] = 101e6 * (1 + noise * normal(&seed));
        for (size_t k = 0; k < off; k++)
            b[k] = 100e6 * (1 + noise * normal(&seed));
        assert_int_equal(an_bootstrap_ratio(a, on, b, off, (uint64_t)r, &i), 0);
        assert_true(i.low <= i.estimate + 1e-9 && i.estimate <= i.high + 1e-9);
        held += i.low <= 1 && 1 <= i.high;
    }
    free(a);
    free(b);
    print_message("coverage %zu recorded, %zu paused: %.1f %%\n", on, off, 100.0 * held / rounds);
    if (held < least * rounds)
        fail_msg("the interval held the truth in %d of %d runs", held, rounds);
}

static void test_bootstrap_coverage(void **state)
{
    (void)state;
    coverage(190, 10, 0.02, 300, 1, 0.90);
    coverage(95, 25, 0.05, 300, 2, 0.90);
}

static void test_bootstrap_repeats(void **state)
{
    double a[] = {3, 1, 2, 5, 4}, b[] = {2, 1, 2, 3, 2}, c[] = {5, 4, 3, 2, 1},
           d[] = {3, 2, 2, 2, 1};
    struct an_interval x, y;
    (void)state;
    assert_int_equal(an_bootstrap_ratio(a, 5, b, 5, 9, &x), 0);
    assert_int_equal(an_bootstrap_ratio(c, 5, d, 5, 9, &y), 0);
    near(x.estimate, 50, 1e-12);
    assert_memory_equal(&x, &y, sizeof x); /* the order of the samples does not matter */
}

static void test_distinct(void **state)
{
    int64_t numbers[] = {3, -1, 3, INT64_MAX, INT64_MIN, -1, 3}, none[1];
    static const int64_t left[] = {INT64_MIN, -1, 3, INT64_MAX};
    (void)state;
    assert_int_equal(an_distinct(numbers, sizeof numbers / sizeof *numbers), 4);
    assert_memory_equal(numbers, left, sizeof left);
    assert_int_equal(an_distinct(none, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distinct),           cmocka_unit_test(test_quantiles),
        cmocka_unit_test(test_sort_many),          cmocka_unit_test(test_spread),
        cmocka_unit_test(test_bootstrap_coverage), cmocka_unit_test(test_bootstrap_repeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
