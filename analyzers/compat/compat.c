/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/compat/compat.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading the trace as those tools do ---------------------------------------------------------------------------------- */

static enum an_compat_category category_of(const char *text)
{
    static const struct {
        const char *text;
        enum an_compat_category category;
    } known[] = {{"kernel", AN_COMPAT_KERNEL},         {"memcpy", AN_COMPAT_MEMCPY},
                 {"memset", AN_COMPAT_MEMSET},         {"sync", AN_COMPAT_SYNC},
                 {"annotation", AN_COMPAT_ANNOTATION}, {"op", AN_COMPAT_OP},
                 {"runtime", AN_COMPAT_RUNTIME},       {"driver", AN_COMPAT_DRIVER},
                 {"instant", AN_COMPAT_INSTANT},       {"trace", AN_COMPAT_INSTANT}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(text, known[i].text))
            return known[i].category;
    return AN_COMPAT_OTHER;
}

int an_compat_each(const struct an_compat_view *view, size_t g,
                   int (*each)(void *ctx, const struct an_compat_event *event), void *ctx)
{
    const struct an_trace *trace = view->context->trace;
    for (size_t k = 0; k < trace->track_count; k++) {
        const struct an_track *track = &trace->track[k];
        if (track->process == AN_NONE || view->group_of[track->process] != g)
            continue;
        struct an_compat_event event = {.track = track, .device = !strcmp(track->kind, "stream")};
        for (event.slice = track->slice_first;
             event.slice < track->slice_first + track->slice_count; event.slice++) {
            uint32_t category = trace->slice.category[event.slice];
            event.category = category == AN_NONE
                                 ? AN_COMPAT_OTHER
                                 : (enum an_compat_category)view->category[category];
            int rc = trace->slice.dur[event.slice] == AN_OPEN ? 0 : each(ctx, &event);
            if (rc)
                return rc;
        }
    }
    return 0;
}

/* ns / 1000 rounded to the nearest double. Through long double: a quotient by 1000 is never so
 * close to the middle between two doubles that rounding twice would matter (it is exactly there or
 * further than 2^-7 of the last place away). */
static double ns_to_us(int64_t ns)
{
    return (double)((long double)ns / 1000.0L);
}

double an_compat_ts(const struct an_compat_view *view, size_t g, size_t slice)
{
    return ns_to_us(an_time_sub(view->context->trace->slice.start[slice], view->group[g].base_ns));
}

double an_compat_dur(const struct an_compat_view *view, size_t slice)
{
    return ns_to_us(view->context->trace->slice.dur[slice]);
}

int64_t an_compat_ticks(const struct an_compat_view *view, double us)
{
    double x = ldexp(us, view->shift);
    return x >= 0x1p62 ? INT64_MAX / 2 : x <= -0x1p62 ? INT64_MIN / 2 : llrint(x);
}

double an_compat_us(const struct an_compat_view *view, int64_t ticks)
{
    return ldexp((double)ticks, -view->shift);
}

struct an_span an_compat_span(const struct an_compat_view *view, size_t g, size_t slice)
{
    double ts = an_compat_ts(view, g, slice), end = ts + an_compat_dur(view, slice);
    return (struct an_span){an_compat_ticks(view, ts), an_compat_ticks(view, end)};
}

int an_compat_spans_add(struct an_compat_spans *compat_spans, struct an_span span)
{
    if (an_grow(&compat_spans->span, &compat_spans->room, compat_spans->count + 1,
                sizeof *compat_spans->span))
        return TACHO_ENOMEM;
    compat_spans->span[compat_spans->count++] = span;
    return 0;
}

int an_compat_put(struct an_compat_view *view, int64_t rank, int64_t device, const char *section,
                  const char *key, const char *unit, double value)
{
    if (an_grow(&view->rows, &view->row_room, view->row_count + 1, sizeof *view->rows))
        return TACHO_ENOMEM;
    view->rows[view->row_count++] =
        (struct an_compat_row){.rank = rank,
                               .device = device,
                               .section = an_arena_text(view->context->arena, section),
                               .key = an_arena_text(view->context->arena, key),
                               .unit = an_arena_text(view->context->arena, unit),
                               .value = value};
    return 0;
}

/* ---- the view -------------------------------------------------------------------------------------------------------------- */

/* Times of file N = 0 had source.base_ns added; another file's own base stands in source.base_ns.N.
 */
static int64_t base_of_file(const struct an_trace *trace, size_t file)
{
    char key[48];
    snprintf(key, sizeof key, "source.base_ns.%zu", file);
    const char *text = file ? an_trace_key(trace, key) : NULL;
    text = text ? text : an_trace_key(trace, "source.base_ns");
    return text ? strtoll(text, NULL, 10) : 0;
}

/* Processes of one rank are one group; those without a rank are one group together. */
static int find_groups(struct an_compat_view *view)
{
    const struct an_trace *trace = view->context->trace;
    view->group_of =
        an_arena_zero(view->context->scratch, trace->process_count, sizeof *view->group_of);
    view->group = an_arena_zero(view->context->scratch, trace->process_count, sizeof *view->group);
    if (!view->group_of || !view->group)
        return TACHO_ENOMEM;
    for (size_t p = 0; p < trace->process_count; p++) {
        size_t g = 0;
        while (g < view->group_count && view->group[g].rank != trace->process[p].rank)
            g++;
        if (g == view->group_count)
            view->group[view->group_count++] = (struct an_compat_group){
                .rank = trace->process[p].rank, .base_ns = base_of_file(trace, g)};
        view->group_of[p] = (uint32_t)g;
    }
    return 0;
}

/* As many binary places as keep the largest time inside int64. */
static int ticks_shift(const struct an_compat_view *view)
{
    double most = 1;
    for (size_t g = 0; g < view->group_count; g++) {
        double a = fabs(ns_to_us(an_time_sub(view->context->trace->t0, view->group[g].base_ns)));
        double b = fabs(ns_to_us(an_time_sub(view->context->trace->t1, view->group[g].base_ns)));
        most = fmax(most, fmax(a, b));
    }
    int exponent;
    frexp(most, &exponent);
    return exponent > 61 ? 0 : 61 - exponent < 24 ? 61 - exponent : 24;
}

static int view_open(struct an_compat_view *view)
{
    const struct an_trace *trace = view->context->trace;
    view->category =
        an_arena_zero(view->context->scratch, trace->string_count, sizeof *view->category);
    if (!view->category || find_groups(view))
        return TACHO_ENOMEM;
    for (size_t i = 0; i < trace->string_count; i++)
        view->category[i] = (uint8_t)category_of(trace->string[i]);
    view->shift = ticks_shift(view);
    return 0;
}

/* ---- the analyzer ---------------------------------------------------------------------------------------------------------- */

static void compat_absent(struct an_context *context, const char *reason)
{
    context->result->compat.reason =
        context->options->compat == AN_COMPAT_NONE ? "not asked for" : reason;
}

static int compat_run(struct an_context *context)
{
    static const char *const tools[] = {
        [AN_COMPAT_TRACELENS] = "TraceLens gpu_timeline",
        [AN_COMPAT_HTA] = "HTA temporal breakdown and overlap",
        [AN_COMPAT_HTA_LAST] = "HTA temporal breakdown and overlap, include_last_profiler_step",
        [AN_COMPAT_TB] = "TensorBoard plugin step time breakdown",
    };
    struct an_compat_table *compat_table = &context->result->compat;
    struct an_compat_view view = {.context = context};
    if (context->options->compat == AN_COMPAT_NONE) {
        compat_absent(context, NULL);
        return 0;
    }
    int rc = view_open(&view);
    if (!rc)
        rc = context->options->compat == AN_COMPAT_TRACELENS  ? an_compat_tracelens(&view)
             : context->options->compat == AN_COMPAT_HTA      ? an_compat_hta(&view, false)
             : context->options->compat == AN_COMPAT_HTA_LAST ? an_compat_hta(&view, true)
                                                              : an_compat_tb(&view);
    if (!rc) {
        compat_table->tool = tools[context->options->compat];
        compat_table->rows =
            an_arena_copy(context->arena, view.rows, view.row_count * sizeof *view.rows);
        compat_table->row_count = view.row_count;
        compat_table->reason = view.row_count ? NULL : "the tool finds no event that it looks at";
        rc = compat_table->rows ? 0 : TACHO_ENOMEM;
    }
    free(view.rows);
    return rc;
}

const struct an_analyzer an_compat = {
    .name = "compat",
    .help = "the arithmetic of TraceLens, HTA or the TensorBoard plugin, when asked for",
    .needs = AN_INPUT_DEVICES,
    .run = compat_run,
    .absent = compat_absent,
};
