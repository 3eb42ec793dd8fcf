/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: names and statistics of a comparison.
 */
#ifndef ANALYZERS_DIFF_PRIVATE_H
#define ANALYZERS_DIFF_PRIVATE_H

#include <stddef.h>
#include <stdint.h>

#include "analyzers/diff/diff.h"

/* Writes what is left of a name without what changes from build to build and from run to run:
 * template arguments <...>, argument lists (...), [clone ...], addresses 0x..., and numbers of four
 * digits or more become #. `out` has room for strlen(name) + 1. */
void an_diff_name(char *out, const char *name);

/* A run's steps, resampled: block bootstrap. */
struct an_diff_draws;
/* n >= 1 steps in order of time; blocks of about n^(1/3) neighbours, circular. The same seed draws
 * the same. NULL: no memory.
 */
struct an_diff_draws *an_diff_draws_new(size_t count, uint64_t seed);
void an_diff_draws_free(struct an_diff_draws *diff_draws); /* NULL is fine */
size_t an_diff_rounds(size_t count);

struct an_diff_test {
    double good, bad; /* medians */
    double low, high; /* 95 % of the resampled differences (percentile method) */
    double p; /* two-sided, not adjusted: Student's t of the difference over its resampled standard
                 deviation */
    double floor; /* the larger of both runs' drift: how far the medians of its quarters (halves
                     below 12 steps) lie apart */
};
/* Difference of medians, b - a. The draws belong to arrays of these lengths. 0 or TACHO_ENOMEM. */
int an_diff_test(const double *good, size_t good_count, const struct an_diff_draws *good_draws,
                 const double *bad, size_t bad_count, const struct an_diff_draws *bad_draws,
                 struct an_diff_test *out);
double an_diff_median(const double *values, size_t count,
                      double *work); /* NAN for n = 0; work has room for n */
/* Adjusts n p-values of a family of `family` >= n tests, of which the others are taken for not
 * smaller (Holm 1979). NAN stays.
 */
void an_diff_holm(double *const *p_values, size_t count, size_t family);

/* Fills d->scaling. 0 or TACHO_ENOMEM. */
int an_diff_scaling(struct an_diff *diff, const struct an_result *good,
                    const struct an_result *bad);

/* Writes d->verdict from the step, the printed rows and all `count` rows. */
void an_diff_verdict(struct an_diff *diff, const struct an_diff_row *rows, size_t count,
                     bool tested);

#endif
