/* SPDX-License-Identifier: Apache-2.0
 *
 * Offset and drift between two clocks, from collectives that ended on both at nearly one time.
 *
 * E is the end of a collective and S its start, r the reference's clock, a the other one.
 *
 * From the ends: offset = median over collectives of E_r - E_a. Drift is the median of the slopes
 * between pairs of collectives (Theil-Sen), applied where it is beyond four of its standard errors
 * and below 0.1 %. Only the half of the collectives with the shortest participant is used, because
 * a long transfer ends unevenly.
 *
 * From causality: S_r - E_a <= offset + drift * (t - pivot) <= E_r - S_a for each collective. These
 * are half planes of (offset, drift) whose intersection holds the truth for certain, if clocks
 * drift by a line. The distance of its lines from the fitted one at both ends of the span bounds
 * the error without any assumption about noise.
 *
 * Error of the ends: 1.96 standard errors of the median, plus what a constant difference of the
 * ends would hide (the largest of the shortest participant's time, four times the scatter, because
 * ranks seldom leave late by equal times, and what waking a process takes), plus the drift's own
 * uncertainty over the span: of a drift that was seen 1.96 standard errors, of one that was not
 * applied as much as it may still be, of too few points what clocks of computers do. Standard
 * errors take into account that neighbours are off alike. Where causality's bound is less, the
 * middle of what it leaves is taken instead.
 */
#include "store/clock_fit.h"

#include <math.h>
#include <stdlib.h>

#include "tacho_error.h"

#define POINTS_MAX    400 /* pairs of them are looked at */
#define DRIFT_POINTS  16
#define DRIFT_MOST    1e-3
#define DRIFT_ASSUMED 2e-4 /* between two machines, if there are too few points */
#define WAKE          50e3 /* ns by which a process that has to be woken may always leave late */
#define CUTS          64   /* of an interval that is searched */
/* Standard error of a median, in standard errors of a mean, of normal values. */
#define MEDIAN_FACTOR 1.2533
/* Standard deviation of normal values, in median absolute deviations. */
#define MAD_FACTOR 1.4826
/* Scatters: on a busy machine a rank that left late shifted the median by 2.8 of them. */
#define HIDDEN_FACTOR 4.0

int64_t store_clock_time(int64_t offset, double drift, int64_t pivot, int64_t time)
{
    if (drift == 0)
        return (int64_t)((uint64_t)time + (uint64_t)offset);
    double more = drift * (double)(time - pivot);
    return (int64_t)((uint64_t)time + (uint64_t)offset) +
           (int64_t)(more < 0 ? more - 0.5 : more + 0.5);
}

static int by_least(const void *left_row, const void *right_row)
{
    const struct store_clock_point *left = left_row, *right = right_row;
    if (left->least != right->least)
        return left->least < right->least ? -1 : 1;
    /* Equal ones are taken from all over the run, because half of a run says little of a drift. */
    uint64_t left_hash = (uint64_t)left->at * 0x9e3779b97f4a7c15u,
             right_hash = (uint64_t)right->at * 0x9e3779b97f4a7c15u;
    return (left_hash > right_hash) - (left_hash < right_hash);
}

static int by_time(const void *left_row, const void *right_row)
{
    const struct store_clock_point *left = left_row, *right = right_row;
    return (left->at > right->at) - (left->at < right->at);
}

static int by_value(const void *left_row, const void *right_row)
{
    double left = *(const double *)left_row, right = *(const double *)right_row;
    return (left > right) - (left < right);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, by_value);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

struct fit {
    double offset, scatter;   /* at the pivot, above the first point's offset; ns */
    double slope, slope_left; /* left: what the slope may still be off by */
    double alike;             /* factor of standard errors: neighbours are off alike */
    int64_t pivot, base;      /* base: the first point's offset: doubles then hold small numbers */
};

/* The factor by which standard errors grow because neighbours in time are off alike while a machine
 * is busy. n values with correlation r say as much as n (1 - r) / (1 + r) independent ones. Of
 * normal values a share of 1/2 + asin(r) / pi of neighbours is off to the same side, which gives r.
 */
static double alike(const struct store_clock_point *point, size_t count, const struct fit *fit,
                    double slope, double middle)
{
    size_t same = 0;
    for (size_t i = 0, before = 0; i < count; i++) {
        double off = (double)(point[i].offset - fit->base) -
                     slope * (double)(point[i].at - fit->pivot) - middle;
        size_t side = off > 0 ? 1 : 2;
        same += side == before;
        before = side;
    }
    double share = count > 1 ? (double)same / (double)(count - 1) : 0;
    double r = sin(M_PI * (fmin(share, 0.95) - 0.5));
    return r > 0 ? sqrt((1 + r) / (1 - r)) : 1;
}

/* Median of the slopes between all pairs of at most POINTS_MAX points, and its standard error. */
static void fit_slope(const struct store_clock_point *point, size_t count, struct fit *fit,
                      double *room)
{
    size_t every = (count + POINTS_MAX - 1) / POINTS_MAX, pairs = 0, points = 0;
    double square = 0;
    for (size_t i = 0; i < count; i += every) {
        double time = (double)(point[i].at - fit->pivot);
        square += time * time;
        points++;
        for (size_t j = i + every; j < count; j += every)
            if (point[j].at - point[i].at >
                (point[count - 1].at - point[0].at) / 8) /* near ones say little */
                room[pairs++] = (double)(point[j].offset - point[i].offset) /
                                (double)(point[j].at - point[i].at);
    }
    if (points < DRIFT_POINTS || !pairs)
        return;
    double slope = median(room, pairs);
    for (size_t i = 0; i < count; i++)
        room[i] =
            (double)(point[i].offset - fit->base) - slope * (double)(point[i].at - fit->pivot);
    double middle = median(room, count);
    fit->alike = alike(point, count, fit, slope, middle);
    for (size_t i = 0; i < count; i++)
        room[i] = fabs(room[i] - middle);
    double error =
        square > 0 ? fit->alike * MEDIAN_FACTOR * MAD_FACTOR * median(room, count) / sqrt(square)
                   : 0;
    bool seen = fabs(slope) > 4 * error && fabs(slope) < DRIFT_MOST;
    fit->slope = seen ? slope : 0;
    fit->slope_left = seen ? 1.96 * error : fmin(fabs(slope) + 1.96 * error, DRIFT_ASSUMED);
}

/* The median of the offsets without drift, and their scatter around it. */
static void fit_offset(const struct store_clock_point *point, size_t count, struct fit *fit,
                       double *room)
{
    for (size_t i = 0; i < count; i++)
        room[i] =
            (double)(point[i].offset - fit->base) - fit->slope * (double)(point[i].at - fit->pivot);
    fit->offset = median(room, count);
    for (size_t i = 0; i < count; i++)
        room[i] = fabs((double)(point[i].offset - fit->base) -
                       fit->slope * (double)(point[i].at - fit->pivot) - fit->offset);
    fit->scatter = MAD_FACTOR * median(room, count);
}

struct corner {
    double x, y; /* from the pivot, from the base */
};

/* Lines that pass above the first and below the second: what causality leaves. Of all points the
 * hull is enough. */
struct causal {
    struct corner *low, *high;
    size_t lows, highs;
};

struct range {
    double low, high; /* low > high: nothing is left */
};

/* Adds a point right of the others; side 1: the hull from above, -1: from below. */
static size_t add_corner(struct corner *hull, size_t count, struct corner corner, int side)
{
    while (count > 1) {
        const struct corner *from = &hull[count - 2], *last = &hull[count - 1];
        if (side * ((last->y - from->y) * (corner.x - from->x) -
                    (corner.y - from->y) * (last->x - from->x)) >
            0)
            break; /* the last one is outside of the line that would pass over it */
        count--;
    }
    hull[count] = corner;
    return count + 1;
}

/* The hulls of both bounds. `point` is sorted by time; `room` has place for 2 * count corners. */
static struct causal causal_of(const struct store_clock_point *point, size_t count,
                               const struct fit *fit, struct corner *room)
{
    struct causal causal = {.low = room, .high = room + count};
    for (size_t i = 0; i < count; i++) {
        double time = (double)(point[i].at - fit->pivot);
        causal.lows = add_corner(causal.low, causal.lows,
                                 (struct corner){time, (double)(point[i].low - fit->base)}, 1);
        causal.highs = add_corner(causal.high, causal.highs,
                                  (struct corner){time, (double)(point[i].high - fit->base)}, -1);
    }
    return causal;
}

/* What causality leaves for the offset at a time, if the drift is `slope`. */
static struct range offsets_at(const struct causal *causal, double slope, double time)
{
    struct range range = {-INFINITY, INFINITY};
    for (size_t i = 0; i < causal->lows; i++)
        range.low = fmax(range.low, causal->low[i].y - slope * (causal->low[i].x - time));
    for (size_t i = 0; i < causal->highs; i++)
        range.high = fmin(range.high, causal->high[i].y - slope * (causal->high[i].x - time));
    return range;
}

/* The drift of an interval at which the offset's upper end at a time is largest (side 1), its lower
 * end least (side -1), or the room between both widest (side 0). All are concave in the drift, so
 * the search can drop a third of the interval at a time. */
static double best_slope(const struct causal *causal, struct range slopes, double time, int side)
{
    for (int i = 0; i < CUTS && slopes.low < slopes.high; i++) {
        double third = (slopes.high - slopes.low) / 3, value[2] = {0, 0};
        double slope[2] = {slopes.low + third, slopes.high - third};
        for (int j = 0; j < 2; j++) {
            struct range offsets = offsets_at(causal, slope[j], time);
            if (side >= 0)
                value[j] += offsets.high;
            if (side <= 0)
                value[j] -= offsets.low;
        }
        if (value[0] < value[1])
            slopes.low = slope[0];
        else
            slopes.high = slope[1];
    }
    return (slopes.low + slopes.high) / 2;
}

/* The last drift on the way from `in`, which leaves some offset possible, to `out` that still does.
 */
static double last_possible(const struct causal *causal, double in, double out)
{
    for (int i = 0; i < CUTS; i++) {
        double middle = (in + out) / 2;
        struct range range = offsets_at(causal, middle, 0);
        *(range.low <= range.high ? &in : &out) = middle;
    }
    return out;
}

/* What causality leaves for offset - slope * x over both ends of the span, of all drifts up to
 * `most`; *drift: how far they go.
 */
static struct range causality(const struct causal *causal, const struct fit *fit,
                              const double end[2], double most, double *drift)
{
    struct range all = {INFINITY, -INFINITY}, slopes = {-most, most};
    double in = best_slope(causal, slopes, 0, 0);
    struct range left = offsets_at(causal, in, 0);
    if (left.low > left.high)
        return left;
    slopes = (struct range){last_possible(causal, in, -most), last_possible(causal, in, most)};
    *drift = fmax(slopes.high - fit->slope, fit->slope - slopes.low);
    for (int i = 0; i < 2; i++) {
        double high = best_slope(causal, slopes, end[i], 1);
        double low = best_slope(causal, slopes, end[i], -1), fitted = fit->slope * end[i];
        all.high = fmax(all.high, offsets_at(causal, high, end[i]).high - fitted);
        all.low = fmin(all.low, offsets_at(causal, low, end[i]).low - fitted);
    }
    return all;
}

/* By how much the points break causality if both clocks are taken as they are. */
static double violation(const struct store_clock_point *point, size_t count)
{
    double most = 0;
    for (size_t i = 0; i < count; i++)
        most = fmax(most, fmax((double)point[i].low, -(double)point[i].high));
    return most;
}

int store_clock_fit(struct store_clock_point *point, size_t count, struct store_clock_fit *out)
{
    size_t half = count > 8 ? count / 2 : count, room_of = POINTS_MAX * POINTS_MAX / 2 + count;
    struct fit fit = {.slope_left = DRIFT_ASSUMED, .alike = 1};
    double *room = malloc(room_of * sizeof *room);
    struct corner *corners = malloc(2 * count * sizeof *corners);
    if (!room || !corners) {
        free(room);
        free(corners);
        return TACHO_ENOMEM;
    }
    qsort(point, count, sizeof *point, by_least);
    int64_t least = point[half / 2].least;
    qsort(point, half, sizeof *point, by_time);
    fit.pivot = point[0].at + (point[half - 1].at - point[0].at) / 2;
    fit.base = point[0].offset;
    fit_slope(point, half, &fit, room);
    fit_offset(point, half, &fit, room);
    qsort(point, count, sizeof *point, by_time);
    /* The span is wider than the points: a step begins before its collective and ends after it. */
    double apart = (double)(point[count - 1].at - point[0].at) / (double)count,
           end[2] = {(double)(point[0].at - fit.pivot) - apart,
                     (double)(point[count - 1].at - fit.pivot) + apart};
    const struct causal causal = causal_of(point, count, &fit, corners);
    double drift = NAN;
    struct range left =
        causality(&causal, &fit, end, count < DRIFT_POINTS ? DRIFT_ASSUMED : DRIFT_MOST, &drift);
    bool certain = left.low <= left.high;
    double drifted = fit.slope_left * fmax(-end[0], end[1]);
    double hidden = fmax(fmax((double)least, HIDDEN_FACTOR * fit.scatter), WAKE);
    double error =
        1.96 * fit.alike * MEDIAN_FACTOR * fit.scatter / sqrt((double)half) + hidden + drifted;
    *out = (struct store_clock_fit){.pivot = fit.pivot,
                                    .drift = fit.slope,
                                    .drift_error = fit.slope_left,
                                    .low = left.low + (double)fit.base,
                                    .high = left.high + (double)fit.base,
                                    .violation = violation(point, count),
                                    .matched = (int64_t)half};
    if (!certain) {
        error += left.low - left.high;
    } else if ((left.high - left.low) / 2 <= error) {
        fit.offset = (left.low + left.high) / 2;
        error = (left.high - left.low) / 2;
        out->drift_error = drift;
    } else {
        fit.offset = fmin(fmax(fit.offset, left.low), left.high);
    }
    free(room);
    free(corners);
    out->offset = fit.base + llround(fit.offset);
    out->error = ceil(error);
    out->bound = certain ? ceil(fmax(fit.offset - left.low, left.high - fit.offset)) : NAN;
    return 0;
}
