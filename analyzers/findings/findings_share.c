/* SPDX-License-Identifier: Apache-2.0
 *
 * Shares of time that are no class of the step budget: synchronise calls that wait for an idle
 * device, exposed copies from pageable memory, and kernels shorter than their launch. A share is
 * one of each step on each device, or one of the capture where there are no steps.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/device/api.h"
#include "analyzers/findings/findings_private.h"

/* Finds the instants of some time on a device, in the scratch arena. 0 or TACHO_ENOMEM. */
typedef int (*find_set)(struct an_context *context, size_t device, struct an_set *out);

static int subtract(struct an_context *context, struct an_set from, struct an_set removed,
                    struct an_set *out)
{
    out->span = an_arena_zero(context->scratch, from.count + removed.count + 1, sizeof *out->span);
    if (!out->span)
        return TACHO_ENOMEM;
    out->count = an_spans_subtract(from.span, from.count, removed.span, removed.count, out->span);
    return 0;
}

static int add(struct an_context *context, struct an_set *sum, struct an_set added)
{
    struct an_span *both =
        an_arena_zero(context->scratch, sum->count + added.count + 1, sizeof *both);
    if (!both)
        return TACHO_ENOMEM;
    *sum =
        (struct an_set){both, an_spans_union(sum->span, sum->count, added.span, added.count, both)};
    return 0;
}

/* Appends the share of `set` in each detailed step that runs on the device. */
static void device_steps(const struct an_context *context, size_t device, struct an_set set,
                         double *values, size_t *count)
{
    for (size_t i = 0; i < context->step_count; i++) {
        const struct an_step *step = &context->step[i];
        bool here = context->lane[step->lane].device == device && an_step_detailed(step);
        int64_t ns = here ? an_step_ns(step) : 0;
        if (ns > 0)
            values[(*count)++] =
                100 * (double)an_spans_within(set.span, set.count, step->start, step->end) /
                (double)ns;
    }
}

/* The share over all devices: a value of each step where there are steps, else of the capture. */
static int share_of(struct an_context *context, find_set find, struct an_class_share *out)
{
    const struct an_devices *gpu = context->gpu;
    double *values = malloc((context->step_count + 1) * sizeof *values), all = 0, span = 0;
    size_t count = 0;
    int rc = values ? 0 : TACHO_ENOMEM;
    for (size_t device = 0; device < gpu->device_count && !rc; device++) {
        struct an_set set;
        if (!gpu->device[device].count || (rc = find(context, device, &set)))
            continue;
        device_steps(context, device, set, values, &count);
        int64_t start = gpu->split[device].start, end = gpu->split[device].end;
        all += (double)an_spans_within(set.span, set.count, start, end);
        span += (double)an_time_sub(end, start);
    }
    if (!rc && count)
        *out = an_share_of_values(values, count);
    else
        *out = (struct an_class_share){.mean = an_percent(all, span), .ms = all / 1e6};
    free(values);
    return rc;
}

/* ---- synchronise calls ----------------------------------------------------------------------- */

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
    size_t count = 0, room = 0;
    int rc = 0;
    for (size_t track_index = 0; track_index < trace->track_count && !rc; track_index++) {
        const struct an_track *track = &trace->track[track_index];
        if (track->process != process || strcmp(track->kind, "thread") != 0)
            continue;
        for (size_t i = track->slice_first; i < track->slice_first + track->slice_count && !rc; i++)
            if (is_sync(trace, i) && !(rc = an_grow(&span, &room, count + 1, sizeof *span)))
                span[count++] = (struct an_span){trace->slice.start[i], an_slice_end(trace, i)};
    }
    count = an_spans_normalize(span, count);
    *out = (struct an_set){.count = count};
    if (!rc && !(out->span = an_arena_copy(context->scratch, span, count * sizeof *span)))
        rc = TACHO_ENOMEM;
    free(span);
    return rc;
}

/* A device is idle for its process only while no other device of the process works either. */
static int sync_idle(struct an_context *context, size_t device, struct an_set *out)
{
    const struct an_devices *gpu = context->gpu;
    uint32_t process = gpu->device[device].process;
    struct an_set busy = {0}, calls;
    int rc = 0;
    for (size_t i = 0; i < gpu->device_count && !rc; i++)
        if (gpu->device[i].process == process)
            rc = add(context, &busy, gpu->split[i].busy);
    rc = rc ? rc : sync_calls(context, process, &calls);
    return rc ? rc : subtract(context, calls, busy, out);
}

int an_sync_idle_share(struct an_context *context, struct an_class_share *share)
{
    return share_of(context, sync_idle, share);
}

/* ---- pageable copies ------------------------------------------------------------------------- */

/* The copies from pageable memory, without the time in which the device computes or communicates.
 */
static int pageable(struct an_context *context, size_t device_index, struct an_set *out)
{
    const struct an_devices *gpu = context->gpu;
    const struct an_device *device = &gpu->device[device_index];
    struct an_set copies = {0}, rest;
    copies.span = an_arena_zero(context->scratch, device->count + 1, sizeof *copies.span);
    if (!copies.span)
        return TACHO_ENOMEM;
    for (size_t i = device->first; i < device->first + device->count; i++) {
        const struct an_detail *detail =
            an_trace_detail(context->trace, context->trace->slice.detail[gpu->op.slice[i]]);
        if (gpu->op.class[i] == AN_DEVICE_COPY && detail && !strcmp(detail->copy_kind, "HtoD") &&
            !strcmp(detail->kind, "pageable"))
            copies.span[copies.count++] = (struct an_span){gpu->op.start[i], gpu->op.end[i]};
    }
    copies.count = an_spans_normalize(copies.span, copies.count);
    int rc = subtract(context, copies, gpu->split[device_index].compute, &rest);
    return rc ? rc : subtract(context, rest, gpu->split[device_index].comm, out);
}

int an_pageable_share(struct an_context *context, struct an_class_share *share)
{
    return share_of(context, pageable, share);
}

/* ---- small kernels --------------------------------------------------------------------------- */

/* Kernels that are shorter than AN_BOUND_SHORT_NS, without the time in which longer ones compute.
 */
static int small(struct an_context *context, size_t device_index, struct an_set *out)
{
    const struct an_devices *gpu = context->gpu;
    const struct an_device *device = &gpu->device[device_index];
    struct an_set kernels[2] = {{0}, {0}}; /* short ones, long ones */
    for (size_t i = 0; i < 2; i++)
        if (!(kernels[i].span =
                  an_arena_zero(context->scratch, device->count + 1, sizeof *kernels[i].span)))
            return TACHO_ENOMEM;
    for (size_t i = device->first; i < an_device_end(device); i++) {
        struct an_set *set =
            &kernels[an_time_sub(gpu->op.end[i], gpu->op.start[i]) >= AN_BOUND_SHORT_NS];
        if (1u << gpu->op.class[i] & AN_DEVICE_COMPUTE_MASK)
            set->span[set->count++] = (struct an_span){gpu->op.start[i], gpu->op.end[i]};
    }
    for (size_t i = 0; i < 2; i++)
        kernels[i].count = an_spans_normalize(kernels[i].span, kernels[i].count);
    return subtract(context, kernels[0], kernels[1], out);
}

int an_small_share(struct an_context *context, struct an_class_share *share)
{
    return share_of(context, small, share);
}
