/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: the learning-rate range test (Smith 2017): the rate grows from step to step
 * by one factor (the schedule `range`), and the losses say which rate is good.
 */
#ifndef LT_RANGE_TEST_H
#define LT_RANGE_TEST_H

#include <stdint.h>

struct lt_range_test;

/* For a run of `steps` steps; NULL: no memory. The caller frees with lt_range_test_destroy. */
struct lt_range_test *lt_range_test_create(int64_t steps);

/* The loss of a step at a rate, in the order of steps. Returns 1 when the test is over, because the
 * smoothed loss is half more than its least, or not finite. */
int lt_range_test_add(struct lt_range_test *test, double rate, double loss);

/* The rate at which the smoothed loss fell fastest with the logarithm of the rate, without the
 * first tenth of the steps, whose losses are those of the initial weights. NAN: too few steps, or
 * it never fell. */
double lt_range_test_rate(const struct lt_range_test *test);

/* Accepts NULL. */
void lt_range_test_destroy(struct lt_range_test *test);

#endif
