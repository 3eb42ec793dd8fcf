/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the step at which a run became slower or faster, by Pettitt's test for one change in a
 * series: U(k) = 2 (sum of the ranks of the first k values) - k (n + 1), K = max |U(k)|, p = 2
 * exp(-6 K^2 / (n^3 + n^2)).
 */
#include "tui/views/step_change.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reports/words/number.h"
#include "reports/words/phrase.h"

#define SIDE_LEAST  8    /* steps on each side */
#define RATIO_LEAST 1.25 /* of the medians, in either direction */
#define P_MOST      1e-4
#define PART_LEAST  0.3 /* of the change that a class must have to be named */
#define ROUNDS      8

struct ranked {
    double ms;
    size_t place;
};

static int by_ms(const void *left, const void *right)
{
    const struct ranked *a = left, *b = right;
    return (a->ms > b->ms) - (a->ms < b->ms);
}

static double median_of(const struct an_step_point *step, size_t count, struct ranked *scratch)
{
    for (size_t i = 0; i < count; i++)
        scratch[i] = (struct ranked){.ms = step[i].ms};
    qsort(scratch, count, sizeof *scratch, by_ms);
    return (scratch[(count - 1) / 2].ms + scratch[count / 2].ms) / 2;
}

/* Gives each value its rank among all; equal ones get the mean of their ranks. */
static void rank_values(struct ranked *sorted, size_t count, double *rank)
{
    qsort(sorted, count, sizeof *sorted, by_ms);
    for (size_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && !(sorted[end].ms > sorted[first].ms);)
            end++;
        for (size_t i = first; i < end; i++)
            rank[sorted[i].place] = ((double)first + (double)end + 1) / 2;
    }
}

/* The steps before the change among these; 0: there is none. */
static size_t split(const struct an_step_point *step, size_t count, struct ranked *scratch,
                    double *rank)
{
    double sum = 0, most = 0, n = (double)count;
    size_t best = 0;
    for (size_t i = 0; i < count; i++)
        scratch[i] = (struct ranked){step[i].ms, i};
    rank_values(scratch, count, rank);
    for (size_t k = 1; k < count; k++) {
        sum += rank[k - 1];
        double u = fabs(2 * sum - (double)k * (n + 1));
        if (u > most) {
            most = u;
            best = k;
        }
    }
    double p = 2 * exp(-6 * most * most / (n * n * n + n * n));
    if (p >= P_MOST || best < SIDE_LEAST || count - best < SIDE_LEAST)
        return 0;
    double before = median_of(step, best, scratch),
           after = median_of(step + best, count - best, scratch);
    double ratio = after > before ? after / before : before / after;
    return ratio >= RATIO_LEAST ? best : 0;
}

/* Mean time in a class over the steps whose parts are known; NAN: of none. */
static double class_mean(const struct an_step_point *step, size_t count, int class)
{
    double sum = 0;
    size_t known = 0;
    for (size_t i = 0; i < count; i++)
        if (step[i].detailed) {
            sum += step[i].class_ms[class];
            known++;
        }
    return known ? sum / (double)known : NAN;
}

/* The class that changed most, where it has a good part of the change. */
static void name_class(struct tui_change *change, const struct an_step_point *step, size_t before,
                       size_t count)
{
    double all = change->after_ms - change->before_ms;
    change->class = -1;
    AN_EACH_CLASS(class) {
        double more =
            class_mean(step + before, count - before, class) - class_mean(step, before, class);
        if (isfinite(more) && more / all >= PART_LEAST &&
            (change->class < 0 || more / all > change->class_ms / all)) {
            change->class = class;
            change->class_ms = more;
        }
    }
}

/* Mean of the series in a span of time; NAN: it has no value there. */
static double series_mean(const struct tui_series *series, double from_s, double to_s)
{
    double sum = 0;
    size_t known = 0;
    for (size_t i = 0; series && i < series->count; i++)
        if (series->time_s[i] >= from_s && series->time_s[i] < to_s && isfinite(series->value[i])) {
            sum += series->value[i];
            known++;
        }
    return known ? sum / (double)known : NAN;
}

bool tui_change_find(const struct tui_model *model, const struct an_step_point *step, size_t count,
                     struct tui_change *change)
{
    while (count && step->excluded) { /* the first steps are slow in every run */
        step++;
        count--;
    }
    struct ranked *scratch = count ? calloc(count, sizeof *scratch) : NULL;
    double *rank = count ? calloc(count, sizeof *rank) : NULL;
    size_t at = 0, first = 0, part = 1;
    /* the newest one: in what follows a change there may be another */
    for (int i = 0; scratch && rank && part && i < ROUNDS; i++) {
        part = count - at < 2 * SIDE_LEAST ? 0 : split(step + at, count - at, scratch, rank);
        first = part ? at : first;
        at += part;
    }
    if (at) {
        *change = (struct tui_change){.index = step[at].index,
                                      .start_s = step[at].start_s,
                                      .before_ms = median_of(step + first, at - first, scratch),
                                      .after_ms = median_of(step + at, count - at, scratch)};
        name_class(change, step + first, at - first, count - first);
        const struct tui_series *busy = tui_model_series(model, "cpu_busy");
        change->busy_before_pct = series_mean(busy, step[first].start_s, step[at].start_s);
        change->busy_after_pct = series_mean(busy, step[at].start_s, INFINITY);
    }
    free(scratch);
    free(rank);
    return at > 0;
}

const char *tui_change_text(const struct tui_change *change, const char *arrow, char text[200])
{
    double ratio = change->after_ms / change->before_ms;
    int used = snprintf(text, 200, "step time ");
    if (fabs(ratio - 2) < 0.1)
        used += snprintf(text + used, 200 - (size_t)used, "doubled");
    else if (fabs(ratio - 0.5) < 0.025)
        used += snprintf(text + used, 200 - (size_t)used, "halved");
    else if (ratio >= 3)
        used += snprintf(text + used, 200 - (size_t)used, "%.1f times as long", ratio);
    else
        used += snprintf(text + used, 200 - (size_t)used, "%+.0f %%", 100 * (ratio - 1));
    used +=
        snprintf(text + used, 200 - (size_t)used, " at step %" PRId64 ": %s %s %s", change->index,
                 TIME_TEXT(change->before_ms * 1e6), arrow, TIME_TEXT(change->after_ms * 1e6));
    double busy = change->busy_after_pct - change->busy_before_pct;
    if (change->class >= 0 && change->class != AN_CLASS_COMPUTE)
        snprintf(text + used, 200 - (size_t)used, "; %s %s%s",
                 an_class_label((enum an_class)change->class), change->class_ms > 0 ? "+" : "-",
                 TIME_TEXT(fabs(change->class_ms) * 1e6));
    else if (fabs(busy) >= 15)
        snprintf(text + used, 200 - (size_t)used, "; machine %.0f %% busy, was %.0f %%",
                 change->busy_after_pct, change->busy_before_pct);
    else if (change->class >= 0)
        snprintf(text + used, 200 - (size_t)used, "; compute %s%s",
                 change->class_ms > 0 ? "+" : "-", TIME_TEXT(fabs(change->class_ms) * 1e6));
    return text;
}
