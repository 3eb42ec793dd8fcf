/* SPDX-License-Identifier: Apache-2.0
 *
 * Statistics of a comparison: block bootstrap of the steps of two runs, the test of the difference
 * of their medians, and Holm's correction for many tests.
 */
#include <math.h>
#include <stdlib.h>

#include "analyzers/base/stats.h"
#include "analyzers/diff/diff_private.h"
#include "tacho_error.h"

#define ROUNDS_MOST    2000
#define ROUNDS_LEAST   200
#define QUARTERS_LEAST 12      /* steps */
#define DRAWS_MOST     4000000 /* rounds times steps */

struct an_diff_draws {
    size_t count, rounds, block;
    uint16_t drawn[]; /* rounds x count: how often each step was drawn */
};

size_t an_diff_rounds(size_t count)
{
    size_t rounds = count ? DRAWS_MOST / count : ROUNDS_MOST;
    if (rounds > ROUNDS_MOST)
        return ROUNDS_MOST;
    return rounds < ROUNDS_LEAST ? ROUNDS_LEAST : rounds;
}

struct an_diff_draws *an_diff_draws_new(size_t count, uint64_t seed)
{
    size_t rounds = an_diff_rounds(count), block = (size_t)lround(cbrt((double)count));
    struct an_diff_draws *diff_draws;
    if (count > SIZE_MAX / rounds / sizeof(uint16_t) / 2)
        return NULL;
    diff_draws = calloc(1, sizeof *diff_draws + rounds * count * sizeof(uint16_t));
    if (!diff_draws)
        return NULL;
    diff_draws->count = count;
    diff_draws->rounds = rounds;
    diff_draws->block = block ? block : 1;
    for (size_t round = 0; round < rounds; round++) {
        uint16_t *drawn = diff_draws->drawn + round * count;
        for (size_t made = 0; made < count;) {
            size_t start = (size_t)(an_random(&seed) % count);
            for (size_t k = 0; k < block && made < count; k++, made++)
                if (drawn[(start + k) % count] < UINT16_MAX)
                    drawn[(start + k) % count]++;
        }
    }
    return diff_draws;
}

void an_diff_draws_free(struct an_diff_draws *diff_draws)
{
    free(diff_draws);
}

double an_diff_median(const double *values, size_t count, double *work)
{
    for (size_t i = 0; i < count; i++)
        work[i] = values[i];
    an_sort(work, count);
    return an_quantile(work, count, 0.5);
}

struct value {
    double number;
    size_t step;
};

static int value_order(const void *left, const void *right)
{
    const struct value *first = left, *second = right;
    if (first->number != second->number)
        return first->number < second->number ? -1 : 1;
    return (first->step > second->step) - (first->step < second->step);
}

/* Median of a resample: a walk over the sorted values by how often each was drawn. */
static double drawn_median(const struct value *sorted, size_t count, const uint16_t *drawn)
{
    size_t low = (count - 1) / 2, high = count / 2, seen = 0;
    double first = NAN;
    for (size_t i = 0; i < count; i++) {
        seen += drawn[sorted[i].step];
        if (isnan(first) && seen > low)
            first = sorted[i].number;
        if (seen > high)
            return (first + sorted[i].number) / 2;
    }
    return first;
}

/* Two-sided p of Student's t, by Wallace's normal approximation (1959): within 0.003 from 4 degrees
 * of freedom on. */
double an_diff_t_p(double t, double df)
{
    double z = (8 * df + 1) / (8 * df + 3) * sqrt(df * log1p(t * t / df));
    return erfc(z / sqrt(2));
}

/* Steps of one block are not independent. So the number of blocks decides the degrees of freedom
 * and the spread, which resampling of n blocks makes too small by a factor of (n - 1) / n. */
static double p_of(double delta, double sd, const struct an_diff_draws *good,
                   const struct an_diff_draws *bad)
{
    double good_blocks = (double)good->count / (double)good->block,
           bad_blocks = (double)bad->count / (double)bad->block,
           blocks = fmin(good_blocks, bad_blocks);
    if (!(sd > 0))
        return delta == 0 ? 1 : 0;
    return an_diff_t_p(delta / (sd * sqrt(blocks / (blocks - 1))),
                       fmax(good_blocks + bad_blocks - 2, 1));
}

/* How far the medians of the quarters (of short runs: the halves) of a run lie apart. */
static double drift(const double *values, size_t count, double *work)
{
    size_t parts = count >= QUARTERS_LEAST ? 4 : 2;
    double low = INFINITY, high = -INFINITY;
    for (size_t k = 0; k < parts && count >= parts; k++) {
        size_t from = count * k / parts, to = count * (k + 1) / parts;
        double median = an_diff_median(values + from, to - from, work);
        low = fmin(low, median);
        high = fmax(high, median);
    }
    return count < parts ? 0 : high - low;
}

/* The values in ascending order with the step of each, for medians of resamples. */
static struct value *sorted_values(const double *values, size_t count)
{
    struct value *sorted = malloc((count + 1) * sizeof *sorted);
    if (!sorted)
        return NULL;
    for (size_t i = 0; i < count; i++)
        sorted[i] = (struct value){values[i], i};
    if (count)
        qsort(sorted, count, sizeof *sorted, value_order);
    return sorted;
}

int an_diff_test(const double *good, size_t good_count, const struct an_diff_draws *good_draws,
                 const double *bad, size_t bad_count, const struct an_diff_draws *bad_draws,
                 struct an_diff_test *out)
{
    size_t rounds = good_draws->rounds < bad_draws->rounds ? good_draws->rounds : bad_draws->rounds;
    size_t most = good_count > bad_count ? good_count : bad_count;
    struct value *good_sorted = sorted_values(good, good_count),
                 *bad_sorted = sorted_values(bad, bad_count);
    double *work = malloc((most + 1) * sizeof *work), *delta = malloc(rounds * sizeof *delta);
    int rc = TACHO_ENOMEM;
    if (!good_sorted || !bad_sorted || !work || !delta)
        goto out;
    *out = (struct an_diff_test){.good = an_diff_median(good, good_count, work),
                                 .bad = an_diff_median(bad, bad_count, work)};
    for (size_t round = 0; round < rounds; round++)
        delta[round] =
            drawn_median(bad_sorted, bad_count, bad_draws->drawn + round * bad_count) -
            drawn_median(good_sorted, good_count, good_draws->drawn + round * good_count);
    double sd = an_sd(delta, rounds), delta_seen = out->bad - out->good,
           good_drift = drift(good, good_count, work), bad_drift = drift(bad, bad_count, work);
    an_sort(delta, rounds);
    out->low = an_quantile(delta, rounds, 0.025);
    out->high = an_quantile(delta, rounds, 0.975);
    out->p = good_count > good_draws->block && bad_count > bad_draws->block
                 ? p_of(delta_seen, sd, good_draws, bad_draws)
                 : NAN;
    out->floor = fmax(good_drift, bad_drift);
    rc = 0;
out:
    free(good_sorted);
    free(bad_sorted);
    free(work);
    free(delta);
    return rc;
}

static int p_order(const void *left, const void *right)
{
    const double *const *first = left, *const *second = right;
    return (**first > **second) - (**first < **second);
}

void an_diff_holm(double *const *p_values, size_t count, size_t family)
{
    double **sorted = malloc((count + 1) * sizeof *sorted), worst = 0;
    size_t known = 0;
    for (size_t i = 0; i < count; i++)
        if (!isnan(*p_values[i]) && sorted)
            sorted[known++] = p_values[i];
    if (known)
        qsort(sorted, known, sizeof *sorted, p_order);
    for (size_t i = 0; i < known; i++) {
        double adjusted = *sorted[i] * (double)(family - i);
        worst = adjusted > worst ? adjusted : worst;
        *sorted[i] = worst > 1 ? 1 : worst;
    }
    for (size_t i = 0; !sorted && i < count;
         i++) /* no memory: the plain bound, which is never smaller */
        *p_values[i] = *p_values[i] * (double)family > 1 ? 1 : *p_values[i] * (double)family;
    free(sorted);
}
