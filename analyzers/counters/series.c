/* SPDX-License-Identifier: Apache-2.0
 *
 * What the program counts itself (loss, learning rate, gradient norm): first, last, extremes, mean.
 */
#include <math.h>
#include <string.h>

#include "analyzers/counters/system.h"
#include "analyzers/steps/context.h"

static bool summarize(const struct an_trace *trace, const struct an_track *track,
                      struct an_series *series)
{
    double sum = 0;
    for (size_t i = track->counter_first; i < an_counter_end(track); i++) {
        double value = trace->counter.value[i];
        if (!isfinite(value)) /* `count`, smaller than the number of samples, shows a loss of NaN */
            continue;
        if (!series->count)
            series->first = series->min = series->max = value;
        series->last = value;
        series->min = value < series->min ? value : series->min;
        series->max = value > series->max ? value : series->max;
        sum += value;
        series->count++;
    }
    series->mean = series->count ? sum / (double)series->count : NAN;
    return series->count > 0;
}

static int series_run(struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    struct an_series *rows = an_arena_zero(context->arena, trace->track_count, sizeof *rows);
    size_t count = 0;
    if (!rows)
        return TACHO_ENOMEM;
    for (size_t k = 0; k < trace->track_count; k++) {
        const struct an_track *track = &trace->track[k];
        struct an_series series = {.count = 0};
        if (strcmp(track->kind, "counter") || an_system_owns(track) ||
            !summarize(trace, track, &series))
            continue;
        series.name = an_arena_text(context->arena, track->name);
        series.unit = an_arena_text(context->arena, track->unit);
        rows[count++] = series;
    }
    context->result->series = rows;
    context->result->series_count = count;
    return 0;
}

static void series_absent(struct an_context *context, const char *reason)
{
    (void)reason; /* no counters is an empty list */
    context->result->series_count = 0;
}

const struct an_analyzer an_series = {
    .name = "series",
    .help = "counters of the program: loss, learning rate ...",
    .needs = AN_INPUT_COUNTERS,
    .run = series_run,
    .absent = series_absent,
};
