/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/budget/absent.h"

#include <stdlib.h>

#define DISPATCH_MOST_NS \
    100000 /* what starts later than this behind its release waited for something that is not in \
              the file */

int an_span_list_add(struct an_span_list *l, int64_t start, int64_t end)
{
    if (end <= start)
        return 0;
    int rc = an_grow(&l->span, &l->room, l->count + 1, sizeof *l->span);
    if (!rc)
        l->span[l->count++] = (struct an_span){start, end};
    return rc;
}

/* What is found while the gaps of a device are walked. */
struct walk {
    struct an_context *c;
    const struct an_device_edges *e;
    const struct an_device *d;
    const struct an_device_split *x;
    struct an_span_list part[AN_ABSENT_PARTS], unlinked, drained, proven, inferred, unknown;
    struct an_starved *starved;
    size_t starved_count, starved_room;
};

static int64_t issued_at(const struct an_context *c, uint32_t op)
{
    const struct an_device_ops *o = &c->gpu->op;
    int64_t end = an_slice_end(c->t, o->launch[op]);
    return end < o->start[op] ? end : o->start[op];
}

/* The compute op that starts at `time`: of several, the first that was issued; AN_NONE: none. */
static uint32_t next_kernel(const struct walk *w, int64_t time)
{
    const struct an_device_ops *op = &w->c->gpu->op;
    uint32_t best = AN_NONE;
    for (size_t i = an_device_op_seek(w->c->gpu, w->d, time);
         i < w->d->first + w->d->count && op->start[i] == time; i++) {
        if (!(AN_DEVICE_COMPUTE_MASK >> op->class[i] & 1) || op->end[i] <= time)
            continue;
        bool known = op->launch[i] != AN_NONE;
        if (best == AN_NONE || (known && op->launch[best] == AN_NONE) ||
            (known && op->launch[best] != AN_NONE &&
             issued_at(w->c, (uint32_t)i) < issued_at(w->c, best)))
            best = (uint32_t)i;
    }
    return best;
}

/* End of the last op that op q depends on directly, INT64_MIN: none is known. */
static int64_t released_at(const struct walk *w, uint32_t q)
{
    const struct an_device_ops *op = &w->c->gpu->op;
    int64_t last = w->e->before[q] == AN_NONE ? INT64_MIN : op->end[w->e->before[q]];
    for (size_t k = w->e->first[q]; k < w->e->first[q + 1]; k++)
        last = op->end[w->e->from[k]] > last ? op->end[w->e->from[k]] : last;
    return last < op->start[q] ? last : op->start[q];
}

/* Did the thread of a launch come back from a call that waits, after `since`? */
static bool came_back(const struct walk *w, uint32_t launch, int64_t since)
{
    const struct an_trace *t = w->c->t;
    size_t i = an_sync_seek(w->e, an_call_outermost(t, launch));
    if (!i)
        return false;
    uint32_t call = w->e->sync[i - 1].call;
    const struct an_track *k = &t->track[an_slice_track(t, launch)];
    return call >= k->slice_first && an_slice_end(t, call) > since;
}

static int starve(struct walk *w, uint32_t q, int64_t start, int64_t end)
{
    if (end <= start)
        return 0;
    if (an_grow(&w->starved, &w->starved_room, w->starved_count + 1, sizeof *w->starved))
        return TACHO_ENOMEM;
    uint32_t launch = w->c->gpu->op.launch[q];
    w->starved[w->starved_count++] =
        (struct an_starved){{start, end}, an_slice_track(w->c->t, launch)};
    int rc = an_span_list_add(&w->part[AN_ABSENT_LAUNCH_STARVED], start, end);
    return rc || !came_back(w, launch, start) ? rc : an_span_list_add(&w->drained, start, end);
}

static int split_gap(struct walk *w, int64_t a, int64_t b, uint32_t q)
{
    if (q == AN_NONE || w->c->gpu->op.launch[q] == AN_NONE) {
        int rc = an_span_list_add(&w->part[AN_ABSENT_DEPENDENCY], a, b);
        return rc ? rc : an_span_list_add(&w->unlinked, a, b);
    }
    int64_t issued = issued_at(w->c, q), released = released_at(w, q);
    issued = issued < a ? a : issued;
    released = released < issued ? issued : released;
    int rc = starve(w, q, a, issued);
    rc = rc ? rc : an_span_list_add(&w->part[AN_ABSENT_BLOCKED], issued, released);
    bool dispatch = !w->e->unresolved[q] && an_time_sub(b, released) <= DISPATCH_MOST_NS;
    enum an_absent_part rest = dispatch ? AN_ABSENT_DISPATCH : AN_ABSENT_DEPENDENCY;
    return rc ? rc : an_span_list_add(&w->part[rest], released, b);
}

static int walk_gap(struct walk *w, int64_t a, int64_t b)
{
    if (b <= a)
        return 0;
    uint32_t q = next_kernel(w, b);
    int rc = split_gap(w, a, b, q);
    if (rc || !an_spans_within(w->x->exposed_comm.span, w->x->exposed_comm.count, a, b))
        return rc;
    if (q == AN_NONE || w->c->gpu->op.launch[q] == AN_NONE || w->e->unresolved[q])
        rc = an_span_list_add(&w->unknown, a, b);
    return rc || q == AN_NONE ? rc
                              : an_blocking_gap(w->c, w->e, (struct an_compute_gap){a, b, q},
                                                &w->proven, &w->inferred);
}

/* ---- the sets ---------------------------------------------------------------------------------------------------------------- */

static int keep(struct an_context *c, struct an_span_list *l, struct an_set *out)
{
    out->count = an_spans_normalize(l->span, l->count);
    out->span = an_arena_copy(c->work, l->span, out->count * sizeof *out->span);
    return out->span ? 0 : TACHO_ENOMEM;
}

typedef size_t set_operation(const struct an_span *, size_t, const struct an_span *, size_t,
                             struct an_span *);

static int combine(struct an_context *c, set_operation *operation, struct an_set a, struct an_set b,
                   struct an_set *out)
{
    struct an_span *s = an_arena_zero(c->work, a.count + b.count, sizeof *s);
    *out = (struct an_set){s, s ? operation(a.span, a.count, b.span, b.count, s) : 0};
    return s ? 0 : TACHO_ENOMEM;
}

/* Proven, inferred without what is proven, and what cannot be told without both; all inside of
 * exposed communication. */
static int keep_blocking(struct walk *w, struct an_absence *out)
{
    struct an_context *c = w->c;
    struct an_set raw[AN_BLOCKING_COUNT], both;
    int rc = keep(c, &w->proven, &raw[AN_BLOCKING_PROVEN]);
    rc = rc ? rc : keep(c, &w->inferred, &raw[AN_BLOCKING_INFERRED]);
    rc = rc ? rc : keep(c, &w->unknown, &raw[AN_BLOCKING_UNKNOWN]);
    for (int k = 0; k < AN_BLOCKING_COUNT && !rc; k++)
        rc = combine(c, an_spans_intersect, raw[k], w->x->exposed_comm, &out->blocking[k]);
    rc = rc ? rc
            : combine(c, an_spans_subtract, out->blocking[AN_BLOCKING_INFERRED],
                      out->blocking[AN_BLOCKING_PROVEN], &out->blocking[AN_BLOCKING_INFERRED]);
    rc = rc ? rc
            : combine(c, an_spans_union, out->blocking[AN_BLOCKING_PROVEN],
                      out->blocking[AN_BLOCKING_INFERRED], &both);
    return rc ? rc
              : combine(c, an_spans_subtract, out->blocking[AN_BLOCKING_UNKNOWN], both,
                        &out->blocking[AN_BLOCKING_UNKNOWN]);
}

/* Is there anything in the file that tells what waits for what on device d? */
static const char *why_no_blocking(const struct walk *w)
{
    const struct an_device_ops *op = &w->c->gpu->op;
    if (!w->x->exposed_comm.count || w->e->count || w->e->sync_count || w->e->waits)
        return NULL;
    for (size_t i = w->d->first; i < w->d->first + w->d->count;
         i++) { /* order of a stream that does both */
        uint32_t p = w->e->before[i];
        if (p != AN_NONE && (op->class[p] == AN_DEVICE_COMM) != (op->class[i] == AN_DEVICE_COMM))
            return NULL;
    }
    return "the trace holds no event, stream wait or synchronise call: record them (tacho run "
           "does; torch.profiler with "
           "experimental_config=_ExperimentalConfig(enable_cuda_sync_events=True))";
}

int an_absence_of(struct an_context *c, size_t d, struct an_absence *out)
{
    struct walk w = {.c = c, .d = &c->gpu->device[d], .x = &c->gpu->split[d]};
    const struct an_set *compute = &w.x->compute;
    int rc = an_device_edges_of(c, &w.e);
    *out = (struct an_absence){.reason = NULL};
    int64_t at = w.x->start;
    for (size_t i = 0; i <= compute->count && !rc && w.d->count; i++) {
        rc = walk_gap(&w, at, i < compute->count ? compute->span[i].start : w.x->end);
        at = i < compute->count ? compute->span[i].end : at;
    }
    for (int k = 0; k < AN_ABSENT_PARTS && !rc; k++)
        rc = keep(c, &w.part[k], &out->part[k]);
    rc = rc ? rc : keep(c, &w.unlinked, &out->unlinked);
    rc = rc ? rc : keep(c, &w.drained, &out->drained);
    rc = rc ? rc : keep_blocking(&w, out);
    if (!rc) {
        bool linked = false;
        for (size_t i = w.d->first; i < w.d->first + w.d->count && !linked; i++)
            linked = c->gpu->op.launch[i] != AN_NONE;
        out->starved_count = w.starved_count;
        out->starved = an_arena_copy(c->work, w.starved, w.starved_count * sizeof *w.starved);
        out->reason = linked ? NULL
                             : "no launch of this device's ops is in the file: record the calls of "
                               "the runtime too (tacho "
                               "run, nsys --trace=cuda, torch.profiler with ProfilerActivity.CPU)";
        out->blocking_reason = why_no_blocking(&w);
        rc = out->starved ? 0 : TACHO_ENOMEM;
    }
    for (int k = 0; k < AN_ABSENT_PARTS; k++)
        free(w.part[k].span);
    free(w.unlinked.span);
    free(w.drained.span);
    free(w.proven.span);
    free(w.inferred.span);
    free(w.unknown.span);
    free(w.starved);
    return rc;
}
