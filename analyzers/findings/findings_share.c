/* SPDX-License-Identifier: Apache-2.0
 *
 * Shares of time that no class of the step budget holds alone: of each step on each device, or of
 * the capture where there are no steps.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/device/api.h"
#include "analyzers/findings/findings.h"

/* The time that is asked for, on device d; in the work arena. */
typedef int (*set_of)(struct an_context *c, size_t d, struct an_set *out);

static int subtract(struct an_context *c, struct an_set a, struct an_set b, struct an_set *out)
{
    out->span = an_arena_zero(c->work, a.count + b.count + 1, sizeof *out->span);
    if (!out->span)
        return TACHO_ENOMEM;
    out->count = an_spans_subtract(a.span, a.count, b.span, b.count, out->span);
    return 0;
}

static int add(struct an_context *c, struct an_set *a, struct an_set b)
{
    struct an_span *both = an_arena_zero(c->work, a->count + b.count + 1, sizeof *both);
    if (!both)
        return TACHO_ENOMEM;
    *a = (struct an_set){both, an_spans_union(a->span, a->count, b.span, b.count, both)};
    return 0;
}

/* The steps of the lanes of device d. */
static void device_steps(const struct an_context *c, size_t d, struct an_set set, double *x,
                         size_t *n)
{
    for (size_t i = 0; i < c->step_count; i++) {
        const struct an_step *s = &c->step[i];
        int64_t ns = c->lane[s->lane].device == d && an_step_detailed(s) ? an_step_ns(s) : 0;
        if (ns > 0)
            x[(*n)++] =
                100 * (double)an_spans_within(set.span, set.count, s->start, s->end) / (double)ns;
    }
}

static int share_of(struct an_context *c, set_of get, struct an_class_share *out)
{
    double *x = malloc((c->step_count + 1) * sizeof *x), all = 0, span = 0;
    size_t n = 0;
    int rc = x ? 0 : TACHO_ENOMEM;
    for (size_t d = 0; d < c->gpu->device_count && !rc; d++) {
        struct an_set set;
        const struct an_device *v = &c->gpu->device[d];
        if (!v->count || (rc = get(c, d, &set)))
            continue;
        device_steps(c, d, set, x, &n);
        all += (double)an_spans_within(set.span, set.count, c->gpu->split[d].start,
                                       c->gpu->split[d].end);
        span += (double)an_time_sub(c->gpu->split[d].end, c->gpu->split[d].start);
    }
    if (!rc && n)
        *out = an_share_of_values(x, n);
    else
        *out = (struct an_class_share){.mean = span > 0 ? 100 * all / span : 0, .ms = all / 1e6};
    free(x);
    return rc;
}

/* ---- synchronise calls ---------------------------------------------------------------------------------------------------- */

static bool is_sync(const struct an_trace *t, size_t i)
{
    return t->slice.dur[i] > 0 && an_slice_api(t, i).kind == AN_API_SYNC &&
           an_category_is_call(an_slice_category(t, i));
}

/* When any thread of a process is in a synchronise call. */
static int sync_calls(struct an_context *c, uint32_t process, struct an_set *out)
{
    const struct an_trace *t = c->t;
    struct an_span *span = NULL;
    size_t n = 0, room = 0;
    int rc = 0;
    for (size_t k = 0; k < t->track_count && !rc; k++) {
        const struct an_track *track = &t->track[k];
        if (track->process != process || strcmp(track->kind, "thread") != 0)
            continue;
        for (size_t i = track->slice_first; i < track->slice_first + track->slice_count && !rc; i++)
            if (is_sync(t, i) && !(rc = an_grow(&span, &room, n + 1, sizeof *span)))
                span[n++] = (struct an_span){t->slice.start[i], an_slice_end(t, i)};
    }
    n = an_spans_normalize(span, n);
    *out = (struct an_set){.count = n};
    if (!rc && !(out->span = an_arena_copy(c->work, span, n * sizeof *span)))
        rc = TACHO_ENOMEM;
    free(span);
    return rc;
}

static int sync_idle(struct an_context *c, size_t d, struct an_set *out)
{
    struct an_set busy = {0}, calls;
    int rc = 0;
    for (size_t k = 0; k < c->gpu->device_count && !rc; k++)
        if (c->gpu->device[k].process == c->gpu->device[d].process)
            rc = add(c, &busy, c->gpu->split[k].busy);
    rc = rc ? rc : sync_calls(c, c->gpu->device[d].process, &calls);
    return rc ? rc : subtract(c, calls, busy, out);
}

int an_sync_idle_share(struct an_context *c, struct an_class_share *s)
{
    return share_of(c, sync_idle, s);
}

/* ---- pageable copies ------------------------------------------------------------------------------------------------------ */

static int pageable(struct an_context *c, size_t d, struct an_set *out)
{
    const struct an_device *v = &c->gpu->device[d];
    struct an_set copies = {0}, rest;
    copies.span = an_arena_zero(c->work, v->count + 1, sizeof *copies.span);
    if (!copies.span)
        return TACHO_ENOMEM;
    for (size_t i = v->first; i < v->first + v->count; i++) {
        const struct an_detail *x = an_trace_detail(c->t, c->t->slice.detail[c->gpu->op.slice[i]]);
        if (c->gpu->op.class[i] == AN_DEVICE_COPY && x && !strcmp(x->copy_kind, "HtoD") &&
            !strcmp(x->kind, "pageable"))
            copies.span[copies.count++] = (struct an_span){c->gpu->op.start[i], c->gpu->op.end[i]};
    }
    copies.count = an_spans_normalize(copies.span, copies.count);
    int rc = subtract(c, copies, c->gpu->split[d].compute, &rest);
    return rc ? rc : subtract(c, rest, c->gpu->split[d].comm, out);
}

int an_pageable_share(struct an_context *c, struct an_class_share *s)
{
    return share_of(c, pageable, s);
}
