/* SPDX-License-Identifier: Apache-2.0
 *
 * TraceLens' gpu_timeline (its GPUEventAnalyser, 2026-08): unions of kernels, memsets and copies of
 * one trace, whatever launched them and whichever device they ran on.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "analyzers/compat/compat.h"

#define MICRO_IDLE_US 10.0

enum kind { COMPUTE, COMM, COPY, KINDS };

struct timeline {
    const struct an_compat_view *v;
    size_t g;
    struct an_compat_spans all, kind[KINDS];
};

static bool contains_ignoring_case(const char *text, const char *part)
{
    return strcasestr(text, part) != NULL;
}

static bool is_any(const char *name, const char *const *names, size_t n)
{
    size_t length = strlen(name);
    if (length > 3 && !strcmp(name + length - 3, ".kd"))
        length -= 3;
    for (size_t i = 0; i < n; i++)
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

static enum kind kind_of(const struct an_compat_event *e, const char *name)
{
    if (e->category == AN_COMPAT_MEMCPY || (e->category == AN_COMPAT_KERNEL && is_rocm_copy(name)))
        return COPY;
    return contains_ignoring_case(name, "nccl") || contains_ignoring_case(name, "rccl") ||
                   contains_ignoring_case(name, "cross_device_reduce")
               ? COMM
               : COMPUTE;
}

static int collect(void *ctx, const struct an_compat_event *e)
{
    struct timeline *x = ctx;
    const struct an_trace *t = x->v->c->t;
    if (!e->device || (e->category != AN_COMPAT_KERNEL && e->category != AN_COMPAT_MEMCPY &&
                       e->category != AN_COMPAT_MEMSET))
        return 0;
    struct an_span s = an_compat_span(x->v, x->g, e->slice);
    enum kind k = kind_of(e, an_trace_name(t, t->slice.name[e->slice]));
    int rc = an_compat_spans_add(&x->all, s);
    return rc ? rc : an_compat_spans_add(&x->kind[k], s);
}

static int start_order(const void *a, const void *b)
{
    const struct an_span *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

struct idle {
    int64_t total, micro, macro;
};

/* Gaps between events, an event without duration splits one too. */
static struct idle idle_of(const struct an_compat_view *v, struct an_compat_spans *all)
{
    struct idle r = {0, 0, 0};
    qsort(all->span, all->count, sizeof *all->span, start_order);
    int64_t first = all->span[0].start, end = all->span[0].end;
    for (size_t i = 1; i < all->count; i++) {
        int64_t gap = all->span[i].start - end;
        if (gap > 0)
            *(an_compat_us(v, gap) < MICRO_IDLE_US ? &r.micro : &r.macro) += gap;
        end = all->span[i].end > end ? all->span[i].end : end;
    }
    r.total = end - first;
    return r;
}

/* a \ b, normalised, in a new array. */
static int subtract(const struct an_compat_spans *a, const struct an_compat_spans *b,
                    struct an_compat_spans *out)
{
    if (an_grow(&out->span, &out->room, a->count + b->count + 1, sizeof *out->span))
        return TACHO_ENOMEM;
    out->count = an_spans_subtract(a->span, a->count, b->span, b->count, out->span);
    return 0;
}

static int timeline_rows(struct an_compat_view *v, struct timeline *x)
{
    struct an_compat_spans comm = {0}, copy = {0}, copy_left = {0};
    int64_t rank = v->group[x->g].rank;
    struct idle idle = idle_of(v, &x->all);
    for (int k = 0; k < KINDS; k++)
        x->kind[k].count = an_spans_normalize(x->kind[k].span, x->kind[k].count);
    x->all.count = an_spans_normalize(x->all.span, x->all.count);
    int rc = subtract(&x->kind[COMM], &x->kind[COMPUTE], &comm);
    if (!rc)
        rc = subtract(&x->kind[COPY], &x->kind[COMPUTE], &copy);
    if (!rc)
        rc = subtract(&copy, &x->kind[COMM], &copy_left);
    int64_t busy = an_spans_measure(x->all.span, x->all.count);
    const struct {
        const char *key;
        int64_t ticks;
    } rows[] = {
        {"computation_time", an_spans_measure(x->kind[COMPUTE].span, x->kind[COMPUTE].count)},
        {"exposed_comm_time", an_spans_measure(comm.span, comm.count)},
        {"exposed_memcpy_time", an_spans_measure(copy_left.span, copy_left.count)},
        {"busy_time", busy},
        {"idle_time", idle.total - busy},
        {"total_time", idle.total},
        {"total_comm_time", an_spans_measure(x->kind[COMM].span, x->kind[COMM].count)},
        {"total_memcpy_time", an_spans_measure(x->kind[COPY].span, x->kind[COPY].count)},
        {"micro_idle_time(<10us)", idle.micro},
        {"macro_idle_time", idle.macro}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !rc; i++)
        rc = an_compat_put(v, rank, STORE_ABSENT, "gpu_timeline", rows[i].key, "us",
                           an_compat_us(v, rows[i].ticks));
    free(comm.span);
    free(copy.span);
    free(copy_left.span);
    return rc;
}

int an_compat_tracelens(struct an_compat_view *v)
{
    int rc = 0;
    for (size_t g = 0; g < v->group_count && !rc; g++) {
        struct timeline x = {.v = v, .g = g};
        rc = an_compat_each(v, g, collect, &x);
        if (!rc && x.all.count)
            rc = timeline_rows(v, &x);
        free(x.all.span);
        for (int k = 0; k < KINDS; k++)
            free(x.kind[k].span);
    }
    return rc;
}
