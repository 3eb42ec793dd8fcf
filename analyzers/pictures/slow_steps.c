/* SPDX-License-Identifier: Apache-2.0
 *
 * What was longer in the slow steps: for each of them the range whose own time on the thread of the
 * steps is furthest above what it is in the median step, or the time outside of all ranges.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/budget/budget.h"

#define OUTSIDE        0u /* instead of the index of a string: outside of every range */
#define DEEPEST        64
#define EXPLAINED_MOST 20  /* slow steps, the slowest first */
#define STEPS_MOST     400 /* that the usual times are taken from */

/* Own time of a step by name: index of the string + 1, or OUTSIDE. */
struct own_times {
    int64_t *ns;     /* by name */
    uint32_t *named; /* names that have some, each once */
    size_t count;
};

struct frame {
    int64_t end;
    uint32_t name;
};

static void add(struct own_times *times, uint32_t name, int64_t ns)
{
    if (ns <= 0)
        return;
    if (!times->ns[name])
        times->named[times->count++] = name;
    times->ns[name] = an_time_add(times->ns[name], ns);
}

static void clear(struct own_times *times)
{
    for (size_t i = 0; i < times->count; i++)
        times->ns[times->named[i]] = 0;
    times->count = 0;
}

/* Fills in the own time of each name in a step: the innermost open range has each instant. */
static void sum_step(const struct an_context *context, const struct an_step *step,
                     struct own_times *times)
{
    const struct an_trace *trace = context->trace;
    const struct an_track *track = &trace->track[context->lane[step->lane].track];
    struct frame open[DEEPEST + 1] = {{step->host_end, OUTSIDE}};
    size_t depth = 0;
    int64_t at = step->host_start;
    clear(times);
    for (size_t i = an_slice_seek(trace, track, step->host_start); i < an_track_end(track); i++) {
        int64_t start = trace->slice.start[i];
        if (start >= step->host_end)
            break;
        if (i == step->slice || trace->slice.dur[i] == AN_OPEN)
            continue;
        for (; depth && open[depth].end <= start; depth--) {
            add(times, open[depth].name, open[depth].end - at);
            at = open[depth].end > at ? open[depth].end : at;
        }
        add(times, open[depth].name, start - at);
        at = start > at ? start : at;
        if (depth == DEEPEST)
            continue;
        int64_t end = an_slice_end(trace, i);
        open[++depth] =
            (struct frame){end < step->host_end ? end : step->host_end,
                           trace->slice.name[i] == AN_NONE ? OUTSIDE : trace->slice.name[i] + 1};
    }
    for (;; depth--) {
        add(times, open[depth].name, open[depth].end - at);
        at = open[depth].end > at ? open[depth].end : at;
        if (!depth)
            return;
    }
}

static bool is_looked_at(const struct an_context *context, const struct an_step *step)
{
    return an_step_detailed(step) && context->lane[step->lane].track != AN_NONE;
}

/* The median of the own time of a name over the steps of its lane that are looked at. */
static double usual_ns(const struct an_context *context, const struct an_lane *lane, uint32_t name,
                       struct own_times *times, double *values)
{
    size_t count = 0, every = 1 + lane->count / STEPS_MOST;
    for (size_t k = lane->first; k < an_lane_end(lane) && count < STEPS_MOST; k += every) {
        if (!is_looked_at(context, &context->step[k]))
            continue;
        sum_step(context, &context->step[k], times);
        values[count++] = (double)times->ns[name];
    }
    return count ? an_quantile_of(values, count, 0.5) : 0;
}

/* The names with most own time in a slow step are candidates: what was longer by much is long. */
#define CANDIDATES 3

static void largest_names(const struct own_times *times, uint32_t name[CANDIDATES],
                          int64_t ns[CANDIDATES], size_t *count)
{
    *count = 0;
    for (size_t i = 0; i < times->count; i++) {
        int64_t own = times->ns[times->named[i]];
        size_t at = *count;
        while (at > 0 && ns[at - 1] < own)
            at--;
        if (at == CANDIDATES)
            continue;
        size_t kept = *count < CANDIDATES ? *count : CANDIDATES - 1;
        memmove(name + at + 1, name + at, (kept - at) * sizeof *name);
        memmove(ns + at + 1, ns + at, (kept - at) * sizeof *ns);
        name[at] = times->named[i];
        ns[at] = own;
        *count = kept + 1;
    }
}

/* Finds what was longer in one slow step. */
static void explain(struct an_context *context, const struct an_step *step, struct own_times *times,
                    double *values, struct an_step_outlier *outlier)
{
    uint32_t name[CANDIDATES];
    int64_t ns[CANDIDATES];
    size_t count;
    sum_step(context, step, times);
    largest_names(times, name, ns, &count);
    for (size_t i = 0; i < count; i++) {
        double usual = usual_ns(context, &context->lane[step->lane], name[i], times, values);
        double more = ((double)ns[i] - usual) / 1e6;
        if (more <= outlier->cause_ms)
            continue;
        outlier->cause_ms = more;
        outlier->cause =
            name[i] == OUTSIDE
                ? "outside of all ranges"
                : an_arena_text(context->arena, an_trace_name(context->trace, name[i] - 1));
    }
}

static const struct an_step *step_of(const struct an_context *context,
                                     const struct an_step_outlier *outlier)
{
    for (size_t i = 0; i < context->step_count; i++)
        if (context->step[i].index == outlier->index &&
            context->lane[context->step[i].lane].rank == outlier->rank)
            return &context->step[i];
    return NULL;
}

static int slow_steps_run(struct an_context *context)
{
    const struct an_steps *steps = &context->result->steps;
    size_t names = context->trace->string_count + 1;
    struct own_times times = {.ns = an_arena_zero(context->scratch, names, sizeof *times.ns),
                              .named = an_arena_zero(context->scratch, names, sizeof *times.named)};
    double *values = an_arena_zero(context->scratch, STEPS_MOST, sizeof *values);
    if (!times.ns || !times.named || !values)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < steps->outlier_count && i < EXPLAINED_MOST; i++) {
        const struct an_step *step = step_of(context, &steps->outliers[i]);
        if (step && is_looked_at(context, step))
            explain(context, step, &times, values, &steps->outliers[i]);
    }
    return 0;
}

static void absent(struct an_context *context, const char *reason)
{
    (void)context, (void)reason; /* a slow step without a cause has none in the result */
}

const struct an_analyzer an_slow_steps = {
    .name = "slow steps",
    .help = "what was longer in the slow steps",
    .after = "steps",
    .needs = AN_INPUT_DETAIL,
    .run = slow_steps_run,
    .absent = absent,
};
