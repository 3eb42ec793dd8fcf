/* SPDX-License-Identifier: Apache-2.0
 *
 * The learning-rate range test: losses smoothed by an exponential mean, whose start is corrected as
 * Adam's moments are.
 */
#include "libtrain/train/range_test.h"

#include <math.h>
#include <stdlib.h>

#define SMOOTH 0.9
#define OVER   1.5 /* of the least smoothed loss: the end */
#define LEAST  20  /* steps, for a rate to be told */

struct lt_range_test {
    double *rate, *smoothed;
    int64_t count, cap;
    double mean, weight, least;
};

struct lt_range_test *lt_range_test_create(int64_t steps)
{
    struct lt_range_test *test = calloc(1, sizeof *test);
    if (!test)
        return NULL;
    *test = (struct lt_range_test){.rate = calloc((size_t)steps, sizeof *test->rate),
                                   .smoothed = calloc((size_t)steps, sizeof *test->smoothed),
                                   .cap = steps,
                                   .least = INFINITY};
    if (test->rate && test->smoothed)
        return test;
    lt_range_test_destroy(test);
    return NULL;
}

int lt_range_test_add(struct lt_range_test *test, double rate, double loss)
{
    if (test->count == test->cap || !isfinite(loss))
        return 1;
    test->mean = SMOOTH * test->mean + (1 - SMOOTH) * loss;
    test->weight = SMOOTH * test->weight + (1 - SMOOTH);
    double smoothed = test->mean / test->weight;
    test->rate[test->count] = rate;
    test->smoothed[test->count++] = smoothed;
    test->least = fmin(test->least, smoothed);
    return test->count >= LEAST && smoothed > OVER * test->least;
}

double lt_range_test_rate(const struct lt_range_test *test)
{
    int64_t apart = test->count / 20 + 1, first = test->count / 10;
    double steepest = 0, rate = (double)NAN;
    if (test->count < LEAST)
        return rate;
    for (int64_t i = first; i + apart < test->count; i++) {
        double slope = (test->smoothed[i + apart] - test->smoothed[i]) /
                       log(test->rate[i + apart] / test->rate[i]);
        if (slope >= steepest)
            continue;
        steepest = slope;
        rate = sqrt(test->rate[i] * test->rate[i + apart]);
    }
    return rate;
}

void lt_range_test_destroy(struct lt_range_test *test)
{
    if (!test)
        return;
    free(test->rate);
    free(test->smoothed);
    free(test);
}
