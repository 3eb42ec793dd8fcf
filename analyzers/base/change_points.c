/* SPDX-License-Identifier: Apache-2.0
 *
 * E-divisive with a permutation test, and how well the place of each change is known.
 */
#include "analyzers/base/change_points.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "tacho_error.h"

#define PERMUTATIONS 499
#define COVERAGE     0.90

/* A segment whose best split is looked for. */
struct segment {
    const double *value;
    size_t count;
    double *distance; /* count x count: |x_i - x_j| */
    double *row_sum;  /* of each row of it */
    double total;     /* of all pairs */
    size_t *order;    /* a permutation of the values */
};

static void measure_distances(struct segment *segment)
{
    size_t count = segment->count;
    segment->total = 0;
    for (size_t i = 0; i < count; i++) {
        segment->order[i] = i;
        segment->row_sum[i] = 0;
        for (size_t j = 0; j < count; j++) {
            segment->distance[i * count + j] = fabs(segment->value[i] - segment->value[j]);
            segment->row_sum[i] += segment->distance[i * count + j];
        }
        segment->total += segment->row_sum[i] / 2;
    }
}

/* The largest n m / (n + m) * E over all splits of the values in segment->order, where E = 2 mean
 * |x - y| - mean |x - x'| - mean |y - y'|. Sets `at` to the first value after the best split. */
static double best_split(const struct segment *segment, size_t *at)
{
    size_t count = segment->count;
    double best = -INFINITY, left = 0, rows = 0; /* left: distances between values on the left */
    for (size_t k = 0; k + AN_CHANGE_LEAST < count; k++) {
        const double *distance = segment->distance + segment->order[k] * count;
        for (size_t i = 0; i < k; i++)
            left += distance[segment->order[i]];
        rows += segment->row_sum[segment->order[k]];
        if (k + 1 < AN_CHANGE_LEAST)
            continue;
        double m = (double)(k + 1), n = (double)(count - k - 1);
        double across = rows - 2 * left, right = segment->total - left - across;
        double energy = 2 * across / (m * n) - 2 * left / (m * (m - 1)) - 2 * right / (n * (n - 1));
        double weighted = energy * m * n / (m + n);
        if (weighted > best) {
            best = weighted;
            *at = k + 1;
        }
    }
    return best;
}

static void shuffle(size_t *order, size_t count, uint64_t *state)
{
    for (size_t i = count - 1; i > 0; i--) {
        size_t other = (size_t)(an_random(state) % (i + 1)), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

/* p of the best split, or 1 as soon as it must be above AN_CHANGE_ALPHA. */
static double test_split(struct segment *segment, double best)
{
    uint64_t state = segment->count;
    size_t above = 0, ignored;
    for (int i = 0; i < PERMUTATIONS; i++) {
        shuffle(segment->order, segment->count, &state);
        above += best_split(segment, &ignored) >= best * (1 - 1e-12);
        if ((double)(above + 1) > AN_CHANGE_ALPHA * (PERMUTATIONS + 1))
            return 1;
    }
    return (double)(above + 1) / (PERMUTATIONS + 1);
}

/* Sums of squares about the mean, from sums: of a part with that many values. */
static double squares_about_mean(double sum, double squares, size_t count)
{
    return fmax(squares - sum * sum / (double)count, 0);
}

/* The shortest range around point->at that holds the place of the change with a probability of
 * COVERAGE: each place has the posterior of a change of the mean of normal values, with an unknown
 * level before, level after and variance and flat priors (Smith 1975), which is proportional to
 * (residual squares)^-((n - 2) / 2) / sqrt(m (n - m)). `weight` has room for `count`. */
static void locate(const double *value, size_t count, struct an_change_point *point, double *weight)
{
    double all = 0, all_squares = 0, left = 0, left_squares = 0, sum = 0;
    for (size_t i = 0; i < count; i++) {
        all += value[i] - value[0];
        all_squares += (value[i] - value[0]) * (value[i] - value[0]);
    }
    double least = INFINITY;
    for (int pass = 0; pass < 2; pass++) {
        left = left_squares = 0;
        for (size_t i = 1; i < count; i++) {
            double x = value[i - 1] - value[0];
            left += x;
            left_squares += x * x;
            double residual = squares_about_mean(left, left_squares, i) +
                              squares_about_mean(all - left, all_squares - left_squares, count - i);
            residual = fmax(residual, 1e-12 * all_squares + 1e-300);
            least = fmin(least, residual);
            if (!pass)
                continue;
            weight[i] = exp(-0.5 * ((double)count - 2) * log(residual / least)) /
                        sqrt((double)i * (double)(count - i));
            sum += weight[i];
        }
    }
    double held = weight[point->at];
    point->low = point->high = point->at;
    while (held < COVERAGE * sum) {
        double before = point->low > 1 ? weight[point->low - 1] : -1;
        double after = point->high + 1 < count ? weight[point->high + 1] : -1;
        if (before >= after)
            point->low--;
        else
            point->high++;
        held += fmax(before, after);
    }
}

struct search {
    const double *value;
    struct segment segment; /* room for all of them */
    struct an_change_point *point;
    size_t point_count;
};

/* Adds the changes of value[begin..end), in order. */
static void split_segment(struct search *search, size_t begin, size_t end)
{
    if (end - begin < 2 * AN_CHANGE_LEAST)
        return;
    struct segment *segment = &search->segment;
    struct an_change_point found = {0};
    segment->value = search->value + begin;
    segment->count = end - begin;
    measure_distances(segment);
    double best = best_split(segment, &found.at);
    found.p = best > 0 ? test_split(segment, best) : 1;
    if (found.p > AN_CHANGE_ALPHA)
        return;
    found.at += begin;
    split_segment(search, begin, found.at);
    search->point[search->point_count++] = found;
    split_segment(search, found.at, end);
}

static double median_of(const double *value, size_t count, double *work)
{
    memcpy(work, value, count * sizeof *work);
    return an_quantile_of(work, count, 0.5);
}

/* What is known of each change from the segments on both of its sides. */
static void describe(struct search *search, size_t count, double *work)
{
    for (size_t i = 0; i < search->point_count; i++) {
        struct an_change_point *point = &search->point[i];
        size_t begin = i ? point[-1].at : 0;
        size_t end = i + 1 < search->point_count ? point[1].at : count;
        point->before = median_of(search->value + begin, point->at - begin, work);
        point->after = median_of(search->value + point->at, end - point->at, work);
        point->at -= begin;
        locate(search->value + begin, end - begin, point, work);
        point->at += begin;
        point->low += begin;
        point->high += begin;
    }
}

int an_change_points(const double *values, size_t count, struct an_change_point **points,
                     size_t *point_count)
{
    size_t skipped = count > AN_CHANGE_MOST ? count - AN_CHANGE_MOST : 0;
    size_t used = count - skipped, room = used + 1;
    struct search search = {.value = values + skipped};
    search.point = malloc(room * sizeof *search.point);
    double *work = malloc(room * sizeof *work);
    search.segment.distance = malloc(room * room * sizeof(double));
    search.segment.row_sum = malloc(room * sizeof(double));
    search.segment.order = malloc(room * sizeof(size_t));
    bool enough = search.point && work && search.segment.distance && search.segment.row_sum &&
                  search.segment.order;
    if (enough) {
        split_segment(&search, 0, used);
        describe(&search, used, work);
    }
    for (size_t i = 0; enough && i < search.point_count; i++) {
        search.point[i].at += skipped;
        search.point[i].low += skipped;
        search.point[i].high += skipped;
    }
    free(search.segment.order);
    free(search.segment.row_sum);
    free(search.segment.distance);
    free(work);
    if (!enough) {
        free(search.point);
        return TACHO_ENOMEM;
    }
    *points = search.point;
    *point_count = search.point_count;
    return 0;
}
