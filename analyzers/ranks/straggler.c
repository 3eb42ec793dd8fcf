/* SPDX-License-Identifier: Apache-2.0
 *
 * The statistical test behind "straggler": is a rank slower than its peers, or was it only
 * unlucky? Steps are not independent, because slow periods last for several of them, so whole
 * blocks of consecutive steps are drawn (circular block bootstrap, Politis & Romano 1992). Many
 * ranks are many chances for a false alarm, so the p-values are corrected (Holm 1979).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/ranks/ranks_compare.h"

#define ALPHA           0.05
#define ROUNDS          2000
#define STRETCHES_LEAST 5
#define STRETCHES_MOST  8
#define ROUNDS_MOST     65536
/* Values drawn in one test: with more rows above the margin only the largest are tested. */
#define DRAWS_MOST 5e8

/* ---- peers -------------------------------------------------------------------------------------------------------------- */

struct entry {
    double value;
    size_t rank;
};

static int entry_order(const void *left, const void *right)
{
    const struct entry *first = left, *second = right;
    if (first->value != second->value)
        return first->value < second->value ? -1 : 1;
    return (first->rank > second->rank) - (first->rank < second->rank);
}

/* Median of n sorted values without the one at `place`. */
static double median_without(const struct entry *entry, size_t count, size_t place)
{
    size_t left = count - 1, low = (left - 1) / 2, high = left / 2;
    low += low >= place;
    high += high >= place;
    return (entry[low].value + entry[high].value) / 2;
}

int an_excess_of_peers(const double *values, size_t ranks, size_t steps, const double *scale,
                       double *excess_pct)
{
    struct entry *entry = malloc(ranks * sizeof *entry);
    if (!entry)
        return TACHO_ENOMEM;
    for (size_t step = 0; step < steps; step++) {
        for (size_t rank = 0; rank < ranks; rank++)
            entry[rank] = (struct entry){values[rank * steps + step], rank};
        qsort(entry, ranks, sizeof *entry, entry_order);
        for (size_t place = 0; place < ranks; place++) {
            double peers = median_without(entry, ranks, place),
                   *out = &excess_pct[entry[place].rank * steps + step];
            if (scale)
                *out = scale[step] > 0 ? 100 * (entry[place].value - peers) / scale[step] : 0;
            else
                *out = peers > 0 ? 100 * (entry[place].value / peers - 1) : 0;
        }
    }
    free(entry);
    return 0;
}

/* ---- bootstrap ---------------------------------------------------------------------------------------------------------- */

struct bootstrap {
    size_t steps, block, rounds;
    struct entry *sorted; /* of a row */
    size_t *place;        /* of step s in sorted */
    uint32_t *drawn;
    double *median; /* of each round */
    uint64_t seed;
};

/* The median of a resample, from how often each of the sorted steps was drawn. */
static double resampled_median(const struct bootstrap *bootstrap, size_t total)
{
    size_t low = (total - 1) / 2, high = total / 2, seen = 0;
    double first = NAN;
    for (size_t i = 0; i < bootstrap->steps; i++) {
        seen += bootstrap->drawn[i];
        if (isnan(first) && seen > low)
            first = bootstrap->sorted[i].value;
        if (seen > high)
            return (first + bootstrap->sorted[i].value) / 2;
    }
    return first;
}

/* Length of a block for values whose neighbours correlate by f, as of a process with memory of one
 * step: (6 f^2 / (1 - f^2)^2 n) ^ (1/3) (Politis & White 2004, circular bootstrap), n^(1/3) at
 * least and a quarter of the steps at most. */
static size_t block_length(const double *values, size_t count)
{
    double mean = an_mean(values, count), square = 0, product = 0, least = cbrt((double)count);
    for (size_t i = 0; i < count; i++) {
        square += (values[i] - mean) * (values[i] - mean);
        product += i ? (values[i] - mean) * (values[i - 1] - mean) : 0;
    }
    double correlation = square > 0 ? fmin(fmax(product / square, 0), 0.95) : 0;
    double length =
        cbrt(6 * correlation * correlation /
             ((1 - correlation * correlation) * (1 - correlation * correlation)) * (double)count);
    return (size_t)ceil(fmax(least, fmin(length, (double)count / 4)));
}

/* Draws blocks of steps `rounds` times and sorts the medians of the resamples. Only counts are
 * kept: the values are sorted once, and each draw adds one at its place. */
static void resample(struct bootstrap *bootstrap, const double *excess_pct)
{
    size_t steps = bootstrap->steps;
    bootstrap->block = block_length(excess_pct, steps);
    for (size_t step = 0; step < steps; step++)
        bootstrap->sorted[step] = (struct entry){excess_pct[step], step};
    qsort(bootstrap->sorted, steps, sizeof *bootstrap->sorted, entry_order);
    for (size_t i = 0; i < steps; i++)
        bootstrap->place[bootstrap->sorted[i].rank] = i;
    for (size_t round = 0; round < bootstrap->rounds; round++) {
        memset(bootstrap->drawn, 0, steps * sizeof *bootstrap->drawn);
        for (size_t total = 0; total < steps;) {
            size_t start = (size_t)(((an_random(&bootstrap->seed) >> 32) * (uint64_t)steps) >> 32);
            for (size_t j = 0; j < bootstrap->block && total < steps; j++, total++)
                bootstrap->drawn[bootstrap->place[(start + j) % steps]]++;
        }
        bootstrap->median[round] = resampled_median(bootstrap, steps);
    }
    an_sort(bootstrap->median, bootstrap->rounds);
}

/* How many long segments a run is divided into. */
static size_t batches_of(size_t steps)
{
    return steps >= 5 * STRETCHES_MOST ? STRETCHES_MOST : STRETCHES_LEAST;
}

/* Medians of n segments of y. work: room for `steps` values. */
static void batch_medians(const double *values, size_t steps, size_t stretch_count, double *work,
                          double *medians)
{
    for (size_t i = 0; i < stretch_count; i++) {
        size_t first = i * steps / stretch_count, last = (i + 1) * steps / stretch_count;
        memcpy(work, &values[first], (last - first) * sizeof *work);
        medians[i] = an_quantile_of(work, last - first, 0.5);
    }
}

/* By how many per cent the peers' own time drifts: 1.4826 times the median deviation of their
 * segments from the middle one. */
static double drift_of(const double *own, const double *excess_pct, size_t steps,
                       size_t stretch_count, double *work)
{
    double medians[STRETCHES_MOST], *peers = work + steps;
    for (size_t step = 0; step < steps; step++)
        peers[step] = own[step] / (1 + excess_pct[step] / 100);
    batch_medians(peers, steps, stretch_count, work, medians);
    double middle = an_quantile_of(medians, stretch_count, 0.5);
    for (size_t i = 0; i < stretch_count; i++)
        medians[i] = fabs(medians[i] - middle);
    return middle > 0 ? 100 * 1.4826 * an_quantile_of(medians, stretch_count, 0.5) / middle : 0;
}

bool an_excess_is_steady(const double *own, const double *excess_pct, size_t steps, double margin,
                         double estimate, double *work)
{
    double medians[STRETCHES_MOST];
    size_t stretch_count = batches_of(steps), above = 0;
    if (steps < 2 * stretch_count)
        return true;
    batch_medians(excess_pct, steps, stretch_count, work, medians);
    for (size_t i = 0; i < stretch_count; i++)
        above += medians[i] > margin;
    return above == stretch_count ||
           estimate > drift_of(own, excess_pct, steps, stretch_count, work);
}

/* Slow periods may be longer than any block that a short run has room for: another program may slow
 * one rank for a second. So the medians of a few long segments of the run must agree, too (batch
 * means). */
static void test_batch_means(const double *excess_pct, size_t steps, size_t rows, double margin,
                             double *work, struct an_excess *out)
{
    double medians[STRETCHES_MOST];
    size_t stretch_count = batches_of(steps);
    if (steps < 2 * stretch_count)
        return;
    batch_medians(excess_pct, steps, stretch_count, work, medians);
    double mean = an_mean(medians, stretch_count),
           error = an_sd(medians, stretch_count) / sqrt((double)stretch_count),
           quantile = an_quantile_of_tail(an_student_tail, ALPHA / (double)rows,
                                          (double)stretch_count - 1);
    double p = mean <= margin;
    if (mean > margin && error > 0)
        p = an_student_tail((mean - margin) / error, (double)stretch_count - 1);
    out->p = fmax(out->p, p);
    out->low = fmin(out->low, mean - quantile * error);
    out->high = fmax(out->high, mean + quantile * error);
}

/* Tests whether the median of one row is above the margin: by block bootstrap, then by batch
 * means. */
static void test_row(struct bootstrap *bootstrap, const double *excess_pct, size_t rows,
                     double margin, double *work, struct an_excess *out)
{
    size_t below = 0;
    resample(bootstrap, excess_pct);
    while (below < bootstrap->rounds && bootstrap->median[below] <= margin)
        below++;
    out->p = (double)(below + 1) / (double)(bootstrap->rounds + 1);
    out->low = an_quantile(bootstrap->median, bootstrap->rounds, ALPHA / (double)rows);
    out->high = an_quantile(bootstrap->median, bootstrap->rounds, 1 - ALPHA / (double)rows);
    test_batch_means(excess_pct, bootstrap->steps, rows, margin, work, out);
}

/* By p; of equal p the larger estimate first. */
static int excess_order(const void *left, const void *right)
{
    const struct an_excess *first = *(const struct an_excess *const *)left,
                           *second = *(const struct an_excess *const *)right;
    if (first->p != second->p)
        return first->p < second->p ? -1 : 1;
    return (first->estimate < second->estimate) - (first->estimate > second->estimate);
}

/* Holm's correction: the k-th smallest p is compared with alpha / (rows - k), until one fails. */
static void holm(struct an_excess **order, size_t rows)
{
    qsort(order, rows, sizeof *order, excess_order);
    for (size_t place = 0; place < rows && order[place]->p <= ALPHA / (double)(rows - place);
         place++)
        order[place]->significant = true;
}

static int bootstrap_open(struct bootstrap *bootstrap, size_t rows, size_t steps, uint64_t seed)
{
    double wanted = 2 * (double)rows / ALPHA;
    *bootstrap = (struct bootstrap){.steps = steps, .seed = seed};
    bootstrap->rounds = (size_t)fmax(ROUNDS, fmin(wanted, ROUNDS_MOST));
    bootstrap->sorted = malloc(steps * sizeof *bootstrap->sorted);
    bootstrap->place = malloc(steps * sizeof *bootstrap->place);
    bootstrap->drawn = malloc(steps * sizeof *bootstrap->drawn);
    bootstrap->median = malloc(bootstrap->rounds * sizeof *bootstrap->median);
    return bootstrap->sorted && bootstrap->place && bootstrap->drawn && bootstrap->median
               ? 0
               : TACHO_ENOMEM;
}

static void bootstrap_close(struct bootstrap *bootstrap)
{
    free(bootstrap->sorted);
    free(bootstrap->place);
    free(bootstrap->drawn);
    free(bootstrap->median);
}

int an_excess_test(const double *excess_pct, size_t rows, size_t steps,
                   const struct an_excess_limits *limits, uint64_t seed, struct an_excess *out)
{
    struct bootstrap bootstrap;
    struct an_excess **order = malloc(rows * sizeof *order);
    double *work = malloc(steps * sizeof *work);
    int rc = bootstrap_open(&bootstrap, rows, steps, seed);
    if (rc || !order || !work) {
        rc = TACHO_ENOMEM;
        goto out;
    }
    for (size_t row = 0; row < rows; row++) {
        memcpy(work, &excess_pct[row * steps], steps * sizeof *work);
        double estimate = an_quantile_of(work, steps, 0.5);
        out[row] = (struct an_excess){.estimate = estimate, .low = NAN, .high = NAN, .p = 1};
        order[row] = &out[row];
    }
    qsort(order, rows, sizeof *order, excess_order); /* by estimate: every p is 1 */
    double draws = DRAWS_MOST / ((double)bootstrap.rounds * (double)steps);
    for (size_t place = 0;
         place < rows && order[place]->estimate > limits->median && (double)place < fmax(draws, 4);
         place++)
        test_row(&bootstrap, &excess_pct[(size_t)(order[place] - out) * steps], rows, limits->bound,
                 work, order[place]);
    holm(order, rows);
out:
    bootstrap_close(&bootstrap);
    free(order);
    free(work);
    return rc;
}
