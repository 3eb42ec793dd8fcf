/* SPDX-License-Identifier: Apache-2.0
 *
 * ends       offset = median over collectives of E_r - E_a. Drift is the median of the slopes between pairs of collectives
 *            (Theil-Sen), applied where it is beyond four of its standard errors and below 0.1 %.
 * causality  S_r - E_a <= offset <= E_r - S_a for each collective: the tightest of both sides is an interval that holds the
 *            offset for certain.
 * Only the half of the collectives with the shortest participant is used for the ends: a long transfer ends unevenly. Error of
 * the ends: 1.96 standard errors of the median, plus what a constant difference of the ends would hide: the larger of the
 * shortest participant's time and four times the scatter, for late leaving is seldom even. The middle of the interval is taken
 * instead where half of its width is less. Both get the drift's own uncertainty over the run: of a drift that was seen 1.96
 * standard errors, of one that was not applied as much as it may still be, of too few points what clocks of computers do.
 */
#include "store/clock_fit.h"

#include <math.h>
#include <stdlib.h>

#include "tacho_error.h"

#define POINTS_MAX    400 /* pairs of them are looked at */
#define DRIFT_POINTS  16
#define DRIFT_MOST    1e-3
#define DRIFT_ASSUMED 2e-4   /* between two machines, where too few points tell */
#define MEDIAN_FACTOR 1.2533 /* standard error of a median, in standard errors of a mean, of normal values */
#define MAD_FACTOR    1.4826
#define HIDDEN_FACTOR \
    4.0 /* scatters: on a busy machine a rank that leaves late in most collectives shifted the median by 2.8 of them */

int64_t store_clock_time(int64_t offset, double drift, int64_t pivot, int64_t t)
{
    if (drift == 0)
        return (int64_t)((uint64_t)t + (uint64_t)offset);
    double more = drift * (double)(t - pivot);
    return (int64_t)((uint64_t)t + (uint64_t)offset) + (int64_t)(more < 0 ? more - 0.5 : more + 0.5);
}

static int by_least(const void *a, const void *b)
{
    const struct store_clock_point *x = a, *y = b;
    if (x->least != y->least)
        return x->least < y->least ? -1 : 1;
    /* of equal ones any, but from all over the run: a drift is not to be told from its first half */
    uint64_t i = (uint64_t)x->at * 0x9e3779b97f4a7c15u, k = (uint64_t)y->at * 0x9e3779b97f4a7c15u;
    return (i > k) - (i < k);
}

static int by_time(const void *a, const void *b)
{
    const struct store_clock_point *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
    qsort(v, n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

struct fit {
    double offset, scatter;   /* at the pivot, above the first point's offset; ns */
    double slope, slope_left; /* left: what the slope may still be off by */
    int64_t pivot, base;      /* base: the first point's offset: doubles then hold small numbers */
};

/* Median of the slopes between all pairs of at most POINTS_MAX points, and its standard error. */
static void fit_slope(const struct store_clock_point *p, size_t n, struct fit *f, double *room)
{
    size_t every = (n + POINTS_MAX - 1) / POINTS_MAX, pairs = 0, points = 0;
    double square = 0;
    for (size_t i = 0; i < n; i += every) {
        double x = (double)(p[i].at - f->pivot);
        square += x * x;
        points++;
        for (size_t k = i + every; k < n; k += every)
            if (p[k].at - p[i].at > (p[n - 1].at - p[0].at) / 8) /* near ones say little */
                room[pairs++] = (double)(p[k].offset - p[i].offset) / (double)(p[k].at - p[i].at);
    }
    if (points < DRIFT_POINTS || !pairs)
        return;
    double slope = median(room, pairs);
    for (size_t i = 0; i < n; i++)
        room[i] = (double)(p[i].offset - f->base) - slope * (double)(p[i].at - f->pivot);
    double middle = median(room, n);
    for (size_t i = 0; i < n; i++)
        room[i] = fabs(room[i] - middle);
    double error = square > 0 ? MEDIAN_FACTOR * MAD_FACTOR * median(room, n) / sqrt(square) : 0;
    bool seen = fabs(slope) > 4 * error && fabs(slope) < DRIFT_MOST;
    f->slope = seen ? slope : 0;
    f->slope_left = seen ? 1.96 * error : fmin(fabs(slope) + 1.96 * error, DRIFT_ASSUMED);
}

static void fit_offset(const struct store_clock_point *p, size_t n, struct fit *f, double *room)
{
    for (size_t i = 0; i < n; i++)
        room[i] = (double)(p[i].offset - f->base) - f->slope * (double)(p[i].at - f->pivot);
    f->offset = median(room, n);
    for (size_t i = 0; i < n; i++)
        room[i] = fabs((double)(p[i].offset - f->base) - f->slope * (double)(p[i].at - f->pivot) - f->offset);
    f->scatter = MAD_FACTOR * median(room, n);
}

/* The interval that causality leaves, from all points. False: nothing is left (the drift is not a line). */
static bool interval(const struct store_clock_point *p, size_t n, const struct fit *f, double *low, double *high)
{
    *low = -INFINITY;
    *high = INFINITY;
    for (size_t i = 0; i < n; i++) {
        double drifted = f->slope * (double)(p[i].at - f->pivot) + (double)f->base;
        *low = fmax(*low, (double)p[i].low - drifted);
        *high = fmin(*high, (double)p[i].high - drifted);
    }
    return *low <= *high;
}

static double violation(const struct store_clock_point *p, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fmax((double)p[i].low, -(double)p[i].high));
    return most;
}

int store_clock_fit(struct store_clock_point *p, size_t n, struct store_clock_fit *out)
{
    size_t half = n > 8 ? n / 2 : n, room_of = POINTS_MAX * POINTS_MAX / 2 + n;
    struct fit f = {.slope_left = DRIFT_ASSUMED};
    double low, high, *room = malloc(room_of * sizeof *room);
    if (!room)
        return TACHO_ENOMEM;
    qsort(p, n, sizeof *p, by_least);
    int64_t least = p[half / 2].least;
    qsort(p, half, sizeof *p, by_time);
    f.pivot = p[0].at + (p[half - 1].at - p[0].at) / 2;
    f.base = p[0].offset;
    fit_slope(p, half, &f, room);
    fit_offset(p, half, &f, room);
    bool certain = interval(p, n, &f, &low, &high);
    double drifted = f.slope_left * (double)(p[half - 1].at - p[0].at) / 2;
    double error = 1.96 * MEDIAN_FACTOR * f.scatter / sqrt((double)half) + fmax((double)least, HIDDEN_FACTOR * f.scatter);
    *out = (struct store_clock_fit){.pivot = f.pivot,
                                    .drift = f.slope,
                                    .drift_error = f.slope_left,
                                    .low = low + (double)f.base,
                                    .high = high + (double)f.base,
                                    .violation = violation(p, n),
                                    .matched = (int64_t)half};
    if (!certain) {
        error += low - high;
    } else if ((high - low) / 2 <= error) {
        f.offset = (low + high) / 2;
        error = (high - low) / 2;
    } else {
        f.offset = fmin(fmax(f.offset, low), high);
    }
    free(room);
    out->offset = f.base + llround(f.offset);
    out->error = ceil(error + drifted);
    out->bound = certain ? ceil(fmax(f.offset - low, high - f.offset) + drifted) : NAN;
    return 0;
}
