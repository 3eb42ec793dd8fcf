/* SPDX-License-Identifier: Apache-2.0
 *
 * The gain of pairs of runs, and what it says about a predicted one.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyzers/diff/pairs.h"

/* ln 2 in each pair; then 2 and 4, whose mean is 2 * sqrt(2). */
static void test_gain(void **state)
{
    (void)state;
    struct an_interval same = an_pairs_gain((double[]){2, 4, 6}, (double[]){1, 2, 3}, 3);
    assert_true(fabs(same.estimate - 100) < 1e-9 && fabs(same.low - 100) < 1e-9);
    struct an_interval two = an_pairs_gain((double[]){2, 4}, (double[]){1, 1}, 2);
    assert_true(fabs(two.estimate - 100 * (sqrt(8) - 1)) < 1e-9);
    double half = 12.7062 * log(2) / 2; /* Student's t of one degree, times the standard error */
    assert_true(fabs(log1p(two.high / 100) - log(sqrt(8)) - half) < 1e-3);
    assert_true(isnan(an_pairs_gain((double[]){2}, (double[]){1}, 1).low));
}

static void is_outcome(double low, double estimate, double high, bool ceiling,
                       enum an_pairs_outcome expected)
{
    struct an_gain gain = {.low = {10, NULL, true},
                           .expected = {15, NULL, true},
                           .high = {20, NULL, true},
                           .ceiling = ceiling};
    struct an_interval measured = {.estimate = estimate, .low = low, .high = high};
    assert_int_equal(an_pairs_judge(&gain, &measured).outcome, expected);
}

static void test_outcome(void **state)
{
    (void)state;
    is_outcome(8, 12, 16, false, AN_PAIRS_HELD);
    is_outcome(21, 22, 23, false, AN_PAIRS_FAILED);
    is_outcome(-2, 1, 4, false, AN_PAIRS_FAILED);
    is_outcome(-2, 9, 18, false, AN_PAIRS_OPEN);
    is_outcome(5, 8, 11, false, AN_PAIRS_OPEN);
    is_outcome(NAN, 15, NAN, false, AN_PAIRS_OPEN);
    is_outcome(-2, 1, 4, true, AN_PAIRS_HELD);
    is_outcome(21, 22, 23, true, AN_PAIRS_FAILED);
    assert_int_equal(an_pairs_judge(&(struct an_gain){0}, &(struct an_interval){.low = 1}).outcome,
                     AN_PAIRS_OPEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gain),
        cmocka_unit_test(test_outcome),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
