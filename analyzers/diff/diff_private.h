/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to this folder: names, statistics and state of a comparison.
 */
#ifndef ANALYZERS_DIFF_PRIVATE_H
#define ANALYZERS_DIFF_PRIVATE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzers/diff/diff.h"

/* Writes what is left of a name without what changes from build to build and from run to run:
 * template arguments <...>, argument lists (...), [clone ...], addresses 0x..., and numbers of four
 * digits or more become #. `out` has room for strlen(name) + 1. */
void an_diff_name(char *out, const char *name);

/* A run's steps, resampled: block bootstrap. */
struct an_diff_draws;
/* count >= 1 steps in order of time; blocks of about count^(1/3) neighbours, circular. The same
 * seed draws the same. NULL: no memory. */
struct an_diff_draws *an_diff_draws_new(size_t count, uint64_t seed);
void an_diff_draws_free(struct an_diff_draws *diff_draws); /* NULL is fine */
size_t an_diff_rounds(size_t count);

struct an_diff_test {
    double good, bad; /* medians */
    double low, high; /* 95 % of the resampled differences (percentile method) */
    /* Two-sided, not adjusted: Student's t of the difference over its resampled standard deviation.
     */
    double p;
    /* The larger drift of both runs: how far the medians of a run's quarters (halves below 12
     * steps) lie apart. */
    double floor;
};
/* Difference of medians, bad - good. The draws belong to arrays of these lengths. 0 or
 * TACHO_ENOMEM. */
int an_diff_test(const double *good, size_t good_count, const struct an_diff_draws *good_draws,
                 const double *bad, size_t bad_count, const struct an_diff_draws *bad_draws,
                 struct an_diff_test *out);
/* Two-sided p of Student's t with df degrees of freedom. */
double an_diff_t_p(double t, double df);
/* NAN for count = 0; work has room for count. */
double an_diff_median(const double *values, size_t count, double *work);
/* Adjusts `count` p-values of a family of `family` >= count tests, of which the others are taken
 * for not smaller (Holm 1979). NAN stays. */
void an_diff_holm(double *const *p_values, size_t count, size_t family);

/* One of the two runs. */
struct an_diff_run {
    const struct an_result *result;
    const struct an_samples *samples;
    double devices;                                 /* whole captures: what totals are divided by */
    double *scale;                                  /* of each counted step: to the common unit */
    double *step;                                   /* counted steps in the common unit */
    struct an_diff_draws *steps_drawn, *rows_drawn; /* NULL: too few steps */
};

struct an_diff_item;

/* State of a comparison: side[0] is the baseline, side[1] the candidate. */
struct an_diff_comparison {
    struct an_diff *diff;
    struct an_diff_run side[2];
    struct an_diff_item *item;
    size_t items;
    struct an_diff_row *row; /* every name; values of its steps in ms[row * 2 + side] */
    double **ms;
    size_t rows;
    size_t ranks; /* that both have */
    bool tested;
};

/* Fills the differences of a row from its two values; nothing is tested yet. */
static inline void an_diff_row_finish(const struct an_diff *diff, struct an_diff_row *row)
{
    row->delta = row->bad - row->good;
    row->delta_pct = diff->good.step > 0 ? 100 * row->delta / diff->good.step : NAN;
    row->low = row->high = row->p = row->floor = NAN;
}
/* Captures without steps: brings the candidate's values to the work of the baseline, and notes it
 * (diff_work.c). */
void an_diff_per_work(struct an_diff_comparison *comparison);

/* Keeps the largest differences of each kind, every class and rank and `most` names, and tests
 * them. 0 or TACHO_ENOMEM. */
int an_diff_keep_and_test(struct an_diff_comparison *comparison, size_t most);
/* Lists the operators and kernels that only the candidate (`added`) or only the baseline has, the
 * largest first. 0 or TACHO_ENOMEM. */
int an_diff_list_one_sided(struct an_diff_comparison *comparison, bool added,
                           const struct an_diff_row **out, size_t *count, size_t *total);

/* Fills diff->scaling. 0 or TACHO_ENOMEM. */
int an_diff_scaling(struct an_diff *diff, const struct an_result *good,
                    const struct an_result *bad);

/* Writes diff->verdict from the step, the printed rows and all `count` rows. */
void an_diff_verdict(struct an_diff *diff, const struct an_diff_row *rows, size_t count,
                     bool tested);

#endif
