/* SPDX-License-Identifier: Apache-2.0
 *
 * What the program counts itself (loss, learning rate, gradient norm): first, last, extremes, mean.
 */
#include <math.h>
#include <string.h>

#include "analyzers/counters/system.h"
#include "analyzers/steps/analyzer.h"

static bool summarize(const struct an_trace *t, const struct an_track *k, struct an_series *s)
{
    double sum = 0;
    for (size_t i = k->counter_first; i < k->counter_first + k->counter_count; i++) {
        double v = t->counter.value[i];
        if (!isfinite(v)) /* a loss of NaN is said by the count: it is smaller than the number of
                             samples */
            continue;
        if (!s->count)
            s->first = s->min = s->max = v;
        s->last = v;
        s->min = v < s->min ? v : s->min;
        s->max = v > s->max ? v : s->max;
        sum += v;
        s->count++;
    }
    s->mean = s->count ? sum / (double)s->count : NAN;
    return s->count > 0;
}

static int series_run(struct an_context *c)
{
    const struct an_trace *t = c->t;
    struct an_series *rows = an_arena_zero(c->a, t->track_count, sizeof *rows);
    size_t n = 0;
    if (!rows)
        return TACHO_ENOMEM;
    for (size_t k = 0; k < t->track_count; k++) {
        const struct an_track *track = &t->track[k];
        struct an_series s = {.count = 0};
        if (strcmp(track->kind, "counter") || an_system_owns(track) || !summarize(t, track, &s))
            continue;
        s.name = an_arena_text(c->a, track->name);
        s.unit = an_arena_text(c->a, track->unit);
        rows[n++] = s;
    }
    c->r->series = rows;
    c->r->series_count = n;
    return 0;
}

static void series_absent(struct an_context *c, const char *reason)
{
    (void)reason; /* no counters is an empty list */
    c->r->series_count = 0;
}

const struct an_analyzer an_series = {"series", "counters of the program: loss, learning rate ...",
                                      AN_INPUT_COUNTERS, series_run, series_absent};
