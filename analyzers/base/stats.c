/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/base/stats.h"

#include <math.h>
#include <stdlib.h>

#include "analyzers/base/interval.h"
#include "tacho_error.h"

#define BOOTSTRAP_ROUNDS 2000

static int double_order(const void *first, const void *second)
{
    double left = *(const double *)first, right = *(const double *)second;
    return AN_COMPARE(left, right);
}

void an_sort(double *x, size_t n)
{
    if (n > 1)
        qsort(x, n, sizeof *x, double_order);
}

double an_quantile(const double *sorted, size_t n, double q)
{
    if (!n)
        return NAN;
    double at = q * (double)(n - 1);
    size_t low = (size_t)at;
    if (low + 1 >= n)
        return sorted[n - 1];
    return sorted[low] + (at - (double)low) * (sorted[low + 1] - sorted[low]);
}

double an_mean(const double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return n ? sum / (double)n : NAN;
}

double an_sd(const double *x, size_t n)
{
    if (n < 2)
        return NAN;
    double mean = an_mean(x, n), sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (x[i] - mean) * (x[i] - mean);
    return sqrt(sum / (double)(n - 1));
}

double an_mad(const double *x, size_t n, double centre, double *work)
{
    for (size_t i = 0; i < n; i++)
        work[i] = fabs(x[i] - centre);
    an_sort(work, n);
    return an_quantile(work, n, 0.5);
}

uint64_t an_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Puts the element that sorting would put at k there, smaller ones before it, larger ones behind it
 * (Hoare's FIND). Pivots are random: no order of the input is slow. */
static void select_at(double *x, size_t n, size_t k)
{
    uint64_t state = n;
    ptrdiff_t low = 0, high = (ptrdiff_t)n - 1, at = (ptrdiff_t)k;
    while (low < high) {
        double pivot = x[low + (ptrdiff_t)(an_random(&state) % (uint64_t)(high - low + 1))];
        ptrdiff_t i = low, j = high;
        while (i <= j) {
            while (x[i] < pivot)
                i++;
            while (x[j] > pivot)
                j--;
            if (i <= j) {
                double swap = x[i];
                x[i++] = x[j];
                x[j--] = swap;
            }
        }
        if (j < at)
            low = i;
        if (i > at)
            high = j;
    }
}

double an_quantile_of(double *x, size_t n, double q)
{
    if (!n)
        return NAN;
    double at = q * (double)(n - 1), next = INFINITY;
    size_t low = (size_t)at;
    select_at(x, n, low);
    if (low + 1 >= n)
        return x[low];
    for (size_t i = low + 1; i < n; i++)
        next = x[i] < next ? x[i] : next;
    return x[low] + (at - (double)low) * (next - x[low]);
}

void an_tally_add(struct an_tally *tally, int64_t x)
{
    unsigned __int128 size = x < 0 ? -(unsigned __int128)x : (unsigned __int128)x;
    tally->min = !tally->count || x < tally->min ? x : tally->min;
    tally->max = !tally->count || x > tally->max ? x : tally->max;
    tally->count++;
    tally->inexact |= __builtin_add_overflow(tally->sum, x, &tally->sum);
    tally->inexact |= __builtin_add_overflow(tally->squares, size * size, &tally->squares);
}

double an_tally_sd(const struct an_tally *tally)
{
    if (tally->count < 2 || tally->inexact)
        return NAN;
    /* sum of squares - sum^2 / n, the quotient split into its whole part and the rest, so that
     * nothing cancels */
    unsigned __int128 n = (unsigned __int128)tally->count;
    unsigned __int128 sum =
        tally->sum < 0 ? -(unsigned __int128)tally->sum : (unsigned __int128)tally->sum;
    unsigned __int128 square = sum * sum;
    long double spread =
        (long double)(tally->squares - square / n) - (long double)(square % n) / (long double)n;
    return (double)sqrtl(spread > 0 ? spread / (long double)(tally->count - 1) : 0);
}

/* Index of the next of n equally likely ones (Lemire's multiply-shift; its bias of n / 2^32 does
 * not matter here). */
static size_t random_below(uint64_t *state, size_t n)
{
    return (size_t)(((an_random(state) >> 32) * (uint64_t)n) >> 32);
}

/* Median of a resample of a sorted sample. Counting how often each index was drawn replaces sorting
 * the resample. */
static double resampled_median(const double *sorted, size_t n, uint32_t *drawn, uint64_t *state)
{
    for (size_t i = 0; i < n; i++)
        drawn[i] = 0;
    for (size_t i = 0; i < n; i++)
        drawn[random_below(state, n)]++;
    size_t low = (n - 1) / 2, high = n / 2, seen = 0;
    double first = NAN;
    for (size_t i = 0; i < n; i++) {
        seen += drawn[i];
        if (isnan(first) && seen > low)
            first = sorted[i];
        if (seen > high)
            return (first + sorted[i]) / 2;
    }
    return first;
}

int an_bootstrap_ratio(double *a, size_t na, double *b, size_t nb, uint64_t seed,
                       struct an_interval *out)
{
    size_t most = na > nb ? na : nb;
    uint32_t *drawn = malloc(most * sizeof *drawn);
    double *rounds = malloc(BOOTSTRAP_ROUNDS * sizeof *rounds);
    int rc = TACHO_ENOMEM;
    if (!drawn || !rounds)
        goto out;
    an_sort(a, na);
    an_sort(b, nb);
    out->estimate = 100 * (an_quantile(a, na, 0.5) / an_quantile(b, nb, 0.5) - 1);
    for (size_t i = 0; i < BOOTSTRAP_ROUNDS; i++) {
        double top = resampled_median(a, na, drawn, &seed),
               bottom = resampled_median(b, nb, drawn, &seed);
        rounds[i] = 100 * (top / bottom - 1);
    }
    an_sort(rounds, BOOTSTRAP_ROUNDS);
    out->low = an_quantile(rounds, BOOTSTRAP_ROUNDS, 0.025);
    out->high = an_quantile(rounds, BOOTSTRAP_ROUNDS, 0.975);
    rc = 0;
out:
    free(drawn);
    free(rounds);
    return rc;
}
