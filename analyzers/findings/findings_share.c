/* SPDX-License-Identifier: Apache-2.0
 *
 * Shares of time that no class of the step budget holds alone: of each step on each device, or of
 * the capture where there are no steps.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/device/api.h"
#include "analyzers/findings/findings_private.h"

/* The time that is asked for, on device d; in the work arena. */
typedef int (*set_of)(struct an_context *c, size_t d, struct an_set *out);

static int subtract(struct an_context *context, struct an_set a, struct an_set b,
                    struct an_set *out)
{
    out->span = an_arena_zero(context->scratch, a.count + b.count + 1, sizeof *out->span);
    if (!out->span)
        return TACHO_ENOMEM;
    out->count = an_spans_subtract(a.span, a.count, b.span, b.count, out->span);
    return 0;
}

static int add(struct an_context *context, struct an_set *a, struct an_set b)
{
    struct an_span *both = an_arena_zero(context->scratch, a->count + b.count + 1, sizeof *both);
    if (!both)
        return TACHO_ENOMEM;
    *a = (struct an_set){both, an_spans_union(a->span, a->count, b.span, b.count, both)};
    return 0;
}

/* The steps of the lanes of device d. */
static void device_steps(const struct an_context *context, size_t d, struct an_set set, double *x,
                         size_t *n)
{
    for (size_t i = 0; i < context->step_count; i++) {
        const struct an_step *step = &context->step[i];
        int64_t ns =
            context->lane[step->lane].device == d && an_step_detailed(step) ? an_step_ns(step) : 0;
        if (ns > 0)
            x[(*n)++] = 100 * (double)an_spans_within(set.span, set.count, step->start, step->end) /
                        (double)ns;
    }
}

static int share_of(struct an_context *context, set_of get, struct an_class_share *out)
{
    double *x = malloc((context->step_count + 1) * sizeof *x), all = 0, span = 0;
    size_t n = 0;
    int rc = x ? 0 : TACHO_ENOMEM;
    for (size_t d = 0; d < context->gpu->device_count && !rc; d++) {
        struct an_set set;
        const struct an_device *device = &context->gpu->device[d];
        if (!device->count || (rc = get(context, d, &set)))
            continue;
        device_steps(context, d, set, x, &n);
        all += (double)an_spans_within(set.span, set.count, context->gpu->split[d].start,
                                       context->gpu->split[d].end);
        span += (double)an_time_sub(context->gpu->split[d].end, context->gpu->split[d].start);
    }
    if (!rc && n)
        *out = an_share_of_values(x, n);
    else
        *out = (struct an_class_share){.mean = span > 0 ? 100 * all / span : 0, .ms = all / 1e6};
    free(x);
    return rc;
}

/* ---- synchronise calls ---------------------------------------------------------------------------------------------------- */

static bool is_sync(const struct an_trace *trace, size_t i)
{
    return trace->slice.dur[i] > 0 && an_slice_api(trace, i).kind == AN_API_SYNC &&
           an_category_is_call(an_slice_category(trace, i));
}

/* When any thread of a process is in a synchronise call. */
static int sync_calls(struct an_context *context, uint32_t process, struct an_set *out)
{
    const struct an_trace *trace = context->trace;
    struct an_span *span = NULL;
    size_t n = 0, room = 0;
    int rc = 0;
    for (size_t k = 0; k < trace->track_count && !rc; k++) {
        const struct an_track *track = &trace->track[k];
        if (track->process != process || strcmp(track->kind, "thread") != 0)
            continue;
        for (size_t i = track->slice_first; i < track->slice_first + track->slice_count && !rc; i++)
            if (is_sync(trace, i) && !(rc = an_grow(&span, &room, n + 1, sizeof *span)))
                span[n++] = (struct an_span){trace->slice.start[i], an_slice_end(trace, i)};
    }
    n = an_spans_normalize(span, n);
    *out = (struct an_set){.count = n};
    if (!rc && !(out->span = an_arena_copy(context->scratch, span, n * sizeof *span)))
        rc = TACHO_ENOMEM;
    free(span);
    return rc;
}

static int sync_idle(struct an_context *context, size_t d, struct an_set *out)
{
    struct an_set busy = {0}, calls;
    int rc = 0;
    for (size_t k = 0; k < context->gpu->device_count && !rc; k++)
        if (context->gpu->device[k].process == context->gpu->device[d].process)
            rc = add(context, &busy, context->gpu->split[k].busy);
    rc = rc ? rc : sync_calls(context, context->gpu->device[d].process, &calls);
    return rc ? rc : subtract(context, calls, busy, out);
}

int an_sync_idle_share(struct an_context *context, struct an_class_share *share)
{
    return share_of(context, sync_idle, share);
}

/* ---- pageable copies ------------------------------------------------------------------------------------------------------ */

static int pageable(struct an_context *context, size_t d, struct an_set *out)
{
    const struct an_device *device = &context->gpu->device[d];
    struct an_set copies = {0}, rest;
    copies.span = an_arena_zero(context->scratch, device->count + 1, sizeof *copies.span);
    if (!copies.span)
        return TACHO_ENOMEM;
    for (size_t i = device->first; i < device->first + device->count; i++) {
        const struct an_detail *detail = an_trace_detail(
            context->trace, context->trace->slice.detail[context->gpu->op.slice[i]]);
        if (context->gpu->op.class[i] == AN_DEVICE_COPY && detail &&
            !strcmp(detail->copy_kind, "HtoD") && !strcmp(detail->kind, "pageable"))
            copies.span[copies.count++] =
                (struct an_span){context->gpu->op.start[i], context->gpu->op.end[i]};
    }
    copies.count = an_spans_normalize(copies.span, copies.count);
    int rc = subtract(context, copies, context->gpu->split[d].compute, &rest);
    return rc ? rc : subtract(context, rest, context->gpu->split[d].comm, out);
}

int an_pageable_share(struct an_context *context, struct an_class_share *share)
{
    return share_of(context, pageable, share);
}
