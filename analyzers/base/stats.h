/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: order statistics and resampling. Arrays of doubles without NaN; results
 * are NAN where n is too small.
 */
#ifndef ANALYZERS_STATS_H
#define ANALYZERS_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Half widths, in standard deviations, of the central 90 % and 95 % of a normal distribution. */
#define AN_Z90 1.645
#define AN_Z95 1.96

void an_sort(double *values, size_t count);
/* Sorts numbers and drops those that are there already; how many different ones are left. */
size_t an_distinct(int64_t *numbers, size_t count);
/* For qsort and bsearch of int64_t. */
int an_number_order(const void *left, const void *right);
/* Quantile q in 0..1 of a sorted array, linear between neighbours (type 7 of Hyndman & Fan 1996,
 * the default of R and numpy). */
double an_quantile(const double *sorted, size_t count, double quantile);
double an_mean(const double *values, size_t count);
/* Sample standard deviation, n - 1; NAN for n < 2. */
double an_sd(const double *values, size_t count);
/* Median of |x - centre|; `work` has room for n. */
double an_mad(const double *values, size_t count, double centre, double *work);

/* Weighted mean of those of two values that are known; NAN: none is. */
double an_known_mean(double first, double first_weight, double second, double second_weight);
/* Merges neighbouring points pairwise into their means, so that a series of half as many points
 * covers the same places; an odd last one stays. How many there are then. */
size_t an_halve_points(double *place, double *value, size_t count);

struct an_interval {
    double estimate, low, high;
};

/* Relative difference of two samples, in per cent: 100 * (median(a) / median(b) - 1), with a 95 %
 * bootstrap interval (both samples resampled with replacement, percentile method, 2,000 rounds; the
 * same seed gives the same interval). `a` and `b` get sorted. Returns 0 or TACHO_ENOMEM. na, nb >=
 * 1, median(b) > 0. */
int an_bootstrap_ratio(double *candidate, size_t candidate_count, double *baseline,
                       size_t baseline_count, uint64_t seed, struct an_interval *out);

/* How many of `count` neighbouring values make a segment: the root of their number, rounded up. */
size_t an_segment_length(size_t count);
/* How far segments of a series differ from all of it: of the levels of every `length` neighbouring
 * values, 1 <= length <= count, as a share of `whole`, 95 % lie in *interval. The level is the
 * median where `middle`, else the mean. The state of a machine may last longer than a run, so
 * another run differs from this one at least as much as its segments differ from each other.
 * `room` is for 2 * count values. */
void an_segments_interval(const double *values, size_t count, size_t length, bool middle,
                          double whole, double *room, struct an_interval *interval);

/* an_quantile of an unsorted array, in linear time; reorders it. */
double an_quantile_of(double *values, size_t count, double quantile);

/* Count, sum, extremes and sum of squares of times in ns, exact in integers. Start with zeroes. */
struct an_tally {
    int64_t count, sum, min, max;
    unsigned __int128 squares;
    bool inexact; /* a sum did not fit */
};
void an_tally_add(struct an_tally *tally, int64_t value);
/* Sample standard deviation, n - 1: exact up to the last division and root; NAN for n < 2 and where
 * a sum did not fit. */
double an_tally_sd(const struct an_tally *tally);

/* The t that a distribution exceeds with probability p, between 0 and 1e6, by bisection. `tail` is
 * P(T >= t) for that many degrees of freedom. */
double an_quantile_of_tail(double (*tail)(double t, double freedom), double p, double freedom);

/* Probability that Student's t with that many degrees of freedom, an integer, is above t >= 0
 * (Abramowitz & Stegun 26.7.3, 26.7.4). */
double an_student_tail(double t, double freedom);

/* splitmix64: the next number of a stream that starts at *state. */
uint64_t an_random(uint64_t *state);

#endif
