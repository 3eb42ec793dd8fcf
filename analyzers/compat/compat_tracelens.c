/* SPDX-License-Identifier: Apache-2.0
 *
 * TraceLens' gpu_timeline (its GPUEventAnalyser, 2026-08): unions of kernels, memsets and copies of
 * one trace, whatever launched them and whichever device they ran on.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "analyzers/compat/compat_private.h"

#define MICRO_IDLE_US 10.0

enum kind { COMPUTE, COMM, COPY, KINDS };

struct timeline {
    const struct an_compat_view *view;
    size_t group;
    struct an_compat_spans all, kind[KINDS];
};

static bool contains_ignoring_case(const char *text, const char *part)
{
    return strcasestr(text, part) != NULL;
}

static bool is_any(const char *name, const char *const *names, size_t count)
{
    size_t length = strlen(name);
    if (length > 3 && !strcmp(name + length - 3, ".kd"))
        length -= 3;
    for (size_t i = 0; i < count; i++)
        if (strlen(names[i]) == length && !strncmp(name, names[i], length))
            return true;
    return false;
}

/* ROCm up to 7.1 recorded its copies as kernels. Its fills are computation like any memset, which
 * they are here anyway. */
static bool is_rocm_copy(const char *name)
{
    static const char *const names[] = {
        "MEMORY_COPY_HOST_TO_DEVICE",        "MEMORY_COPY_DEVICE_TO_HOST",
        "MEMORY_COPY_DEVICE_TO_DEVICE",      "__amd_rocclr_copyBuffer",
        "__amd_rocclr_copyBufferRect",       "__amd_rocclr_copyBufferAligned",
        "__amd_rocclr_copyBufferRectAligned"};
    return is_any(name, names, sizeof names / sizeof *names);
}

static enum kind kind_of(const struct an_compat_event *event, const char *name)
{
    if (event->category == AN_COMPAT_MEMCPY ||
        (event->category == AN_COMPAT_KERNEL && is_rocm_copy(name)))
        return COPY;
    return contains_ignoring_case(name, "nccl") || contains_ignoring_case(name, "rccl") ||
                   contains_ignoring_case(name, "cross_device_reduce")
               ? COMM
               : COMPUTE;
}

/* Sorts an event of a device into its kind. */
static int collect(void *ctx, const struct an_compat_event *event)
{
    struct timeline *timeline = ctx;
    const struct an_trace *trace = timeline->view->context->trace;
    if (!event->device ||
        (event->category != AN_COMPAT_KERNEL && event->category != AN_COMPAT_MEMCPY &&
         event->category != AN_COMPAT_MEMSET))
        return 0;
    struct an_span span = an_compat_span(timeline->view, timeline->group, event->slice);
    enum kind kind = kind_of(event, an_trace_name(trace, trace->slice.name[event->slice]));
    int rc = an_compat_spans_add(&timeline->all, span);
    return rc ? rc : an_compat_spans_add(&timeline->kind[kind], span);
}

static int start_order(const void *left, const void *right)
{
    const struct an_span *first = left, *second = right;
    return (first->start > second->start) - (first->start < second->start);
}

struct idle {
    int64_t total, micro, macro;
};

/* The gaps between events. An event without duration splits a gap, too. */
static struct idle idle_of(const struct an_compat_view *view, struct an_compat_spans *all)
{
    struct idle idle = {0, 0, 0};
    qsort(all->span, all->count, sizeof *all->span, start_order);
    int64_t first = all->span[0].start, end = all->span[0].end;
    for (size_t i = 1; i < all->count; i++) {
        int64_t gap = all->span[i].start - end;
        if (gap > 0)
            *(an_compat_us(view, gap) < MICRO_IDLE_US ? &idle.micro : &idle.macro) += gap;
        if (all->span[i].end > end)
            end = all->span[i].end;
    }
    idle.total = end - first;
    return idle;
}

/* The difference of two normalised sets, in a new array. */
static int subtract(const struct an_compat_spans *from, const struct an_compat_spans *removed,
                    struct an_compat_spans *out)
{
    if (an_grow(&out->span, &out->room, from->count + removed->count + 1, sizeof *out->span))
        return TACHO_ENOMEM;
    out->count =
        an_spans_subtract(from->span, from->count, removed->span, removed->count, out->span);
    return 0;
}

static int64_t measure(const struct an_compat_spans *spans)
{
    return an_spans_measure(spans->span, spans->count);
}

/* Communication is exposed where nothing computes, copies where nothing computes or communicates;
 * micro and macro idle are gaps below and from 10 us. */
static int timeline_rows(struct an_compat_view *view, struct timeline *timeline)
{
    struct an_compat_spans comm = {0}, copy = {0}, copy_left = {0};
    int64_t rank = view->group[timeline->group].rank;
    struct idle idle = idle_of(view, &timeline->all);
    for (int k = 0; k < KINDS; k++)
        timeline->kind[k].count =
            an_spans_normalize(timeline->kind[k].span, timeline->kind[k].count);
    timeline->all.count = an_spans_normalize(timeline->all.span, timeline->all.count);
    int rc = subtract(&timeline->kind[COMM], &timeline->kind[COMPUTE], &comm);
    if (!rc)
        rc = subtract(&timeline->kind[COPY], &timeline->kind[COMPUTE], &copy);
    if (!rc)
        rc = subtract(&copy, &timeline->kind[COMM], &copy_left);
    int64_t busy = measure(&timeline->all);
    const struct {
        const char *key;
        int64_t ticks;
    } rows[] = {{"computation_time", measure(&timeline->kind[COMPUTE])},
                {"exposed_comm_time", measure(&comm)},
                {"exposed_memcpy_time", measure(&copy_left)},
                {"busy_time", busy},
                {"idle_time", idle.total - busy},
                {"total_time", idle.total},
                {"total_comm_time", measure(&timeline->kind[COMM])},
                {"total_memcpy_time", measure(&timeline->kind[COPY])},
                {"micro_idle_time(<10us)", idle.micro},
                {"macro_idle_time", idle.macro}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !rc; i++)
        rc = an_compat_put(view, rank, STORE_ABSENT, "gpu_timeline", rows[i].key, "us",
                           an_compat_us(view, rows[i].ticks));
    free(comm.span);
    free(copy.span);
    free(copy_left.span);
    return rc;
}

int an_compat_tracelens(struct an_compat_view *view)
{
    int rc = 0;
    for (size_t group = 0; group < view->group_count && !rc; group++) {
        struct timeline timeline = {.view = view, .group = group};
        rc = an_compat_each(view, group, collect, &timeline);
        if (!rc && timeline.all.count)
            rc = timeline_rows(view, &timeline);
        free(timeline.all.span);
        for (int k = 0; k < KINDS; k++)
            free(timeline.kind[k].span);
    }
    return rc;
}
