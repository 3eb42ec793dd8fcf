/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a trace the way those tools read the JSON: the events of a group, their times as doubles in
 * us and as ticks, and the rows of the result. The three tools call this file.
 */
#include "analyzers/compat/compat_private.h"

#include <math.h>

int an_compat_each(const struct an_compat_view *view, size_t group,
                   int (*each)(void *ctx, const struct an_compat_event *event), void *ctx)
{
    const struct an_trace *trace = view->context->trace;
    for (size_t i = 0; i < trace->track_count; i++) {
        const struct an_track *track = &trace->track[i];
        if (track->process == AN_NONE || view->group_of[track->process] != group)
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

double an_compat_ts(const struct an_compat_view *view, size_t group, size_t slice)
{
    return ns_to_us(
        an_time_sub(view->context->trace->slice.start[slice], view->group[group].base_ns));
}

double an_compat_dur(const struct an_compat_view *view, size_t slice)
{
    return ns_to_us(view->context->trace->slice.dur[slice]);
}

int64_t an_compat_ticks(const struct an_compat_view *view, double us)
{
    double ticks = ldexp(us, view->shift);
    if (fabs(ticks) >= 0x1p62)
        return ticks > 0 ? INT64_MAX / 2 : INT64_MIN / 2;
    return llrint(ticks);
}

double an_compat_us(const struct an_compat_view *view, int64_t ticks)
{
    return ldexp((double)ticks, -view->shift);
}

struct an_span an_compat_span(const struct an_compat_view *view, size_t group, size_t slice)
{
    double ts = an_compat_ts(view, group, slice), end = ts + an_compat_dur(view, slice);
    return (struct an_span){an_compat_ticks(view, ts), an_compat_ticks(view, end)};
}

int an_compat_spans_add(struct an_compat_spans *spans, struct an_span span)
{
    if (an_grow(&spans->span, &spans->room, spans->count + 1, sizeof *spans->span))
        return TACHO_ENOMEM;
    spans->span[spans->count++] = span;
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

/* As many binary places as keep the largest time inside int64. */
int an_compat_shift(const struct an_compat_view *view)
{
    double most = 1;
    for (size_t group = 0; group < view->group_count; group++) {
        double from_start =
            fabs(ns_to_us(an_time_sub(view->context->trace->t0, view->group[group].base_ns)));
        double to_end =
            fabs(ns_to_us(an_time_sub(view->context->trace->t1, view->group[group].base_ns)));
        most = fmax(most, fmax(from_start, to_end));
    }
    int exponent;
    frexp(most, &exponent);
    if (exponent > 61)
        return 0;
    return 61 - exponent < 24 ? 61 - exponent : 24;
}
