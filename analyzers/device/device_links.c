/* SPDX-License-Identifier: Apache-2.0
 *
 * Device ops and the host calls that launched them: by (process, correlation), both ways. Calls and
 * ops are sorted by it and merged. A correlation may name several ops (a graph) and, in long or
 * damaged traces, several calls.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/device/device_build.h"

size_t an_launch_seek(const struct an_devices *g, size_t slice)
{
    size_t low = 0, high = g->launch_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (g->launch_slice[middle] < slice)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* A call or an op in the sort by process and correlation. */
static int pairs_by_correlation(struct builder *b, size_t n, bool ops)
{
    const struct an_trace *t = b->c->t;
    an_pairs_sort(b->pair, b->work, n);
    if (t->process_count < 2)
        return 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t track = ops ? b->g->op.track[b->pair[i].value] : b->pair[i].extra;
        b->pair[i].key = t->track[track].process;
    }
    an_pairs_sort(b->pair, b->work, n);
    return 0;
}

struct key {
    uint32_t process;
    int64_t correlation;
};

static int key_order(struct key a, struct key b)
{
    if (a.process != b.process)
        return a.process < b.process ? -1 : 1;
    return (a.correlation > b.correlation) - (a.correlation < b.correlation);
}

static struct key call_key(const struct an_trace *t, const struct an_pair *call)
{
    return (struct key){t->track[call->extra].process, t->slice.correlation[call->value]};
}

static int start_order(const void *x, const void *y, void *ctx)
{
    const struct an_trace *t = ctx;
    const struct an_pair *a = x, *b = y;
    int64_t sa = t->slice.start[a->value], sb = t->slice.start[b->value];
    return (sa > sb) - (sa < sb);
}

/* Of calls that share a correlation (it was used again), the last one that began before the op;
 * else the first. */
static uint32_t choose_call(const struct an_trace *t, const struct an_pair *call, size_t n,
                            int64_t start)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (t->slice.start[call[middle].value] <= start)
            low = middle + 1;
        else
            high = middle;
    }
    return call[low ? low - 1 : 0].value;
}

/* Every call that has a correlation, as (slice, track). */
static int list_calls(struct builder *b, struct an_pair **out, size_t *count)
{
    const struct an_trace *t = b->c->t;
    size_t n = 0, room = 0;
    struct an_pair *call = NULL;
    for (uint32_t k = 0; k < t->track_count; k++) {
        const struct an_track *s = &t->track[k];
        for (size_t i = s->slice_first; i < s->slice_first + s->slice_count; i++) {
            if (an_row_of(b, i) != ROW_CALL || t->slice.correlation[i] == STORE_ABSENT)
                continue;
            if (n == room && an_grow(&call, &room, n + 1, sizeof *call)) {
                free(call);
                return TACHO_ENOMEM;
            }
            call[n++] = (struct an_pair){an_pair_key(t->slice.correlation[i]), (uint32_t)i, k};
        }
    }
    *out = call;
    *count = n;
    return 0;
}

/* Fills op.launch by merging calls and ops in order of process and correlation. */
static void merge_launches(struct builder *b, struct an_pair *call, size_t calls,
                           const struct an_pair *pair, size_t ops)
{
    const struct an_trace *t = b->c->t;
    struct an_device_ops *op = &b->g->op;
    for (size_t i = 0, k = 0, next; i < calls && k < ops; i = next) {
        struct key key = call_key(t, &call[i]);
        for (next = i + 1; next < calls && !key_order(call_key(t, &call[next]), key);)
            next++;
        bool ordered = next == i + 1;
        for (; k < ops; k++) {
            uint32_t o = pair[k].value;
            int order = key_order(
                (struct key){t->track[op->track[o]].process, t->slice.correlation[op->slice[o]]},
                key);
            if (order > 0)
                break;
            if (order < 0)
                continue;
            if (!ordered)
                qsort_r(call + i, next - i, sizeof *call, start_order, (void *)(uintptr_t)t);
            ordered = true;
            op->launch[o] = choose_call(t, call + i, next - i, op->start[o]);
        }
    }
}

static int link_ops(struct builder *b)
{
    const struct an_trace *t = b->c->t;
    struct an_device_ops *op = &b->g->op;
    struct an_pair *call = NULL;
    size_t calls = 0, n = 0;
    for (size_t i = 0; i < op->count; i++)
        op->launch[i] = AN_NONE;
    int rc = list_calls(b, &call, &calls);
    if (rc || (rc = an_builder_scratch(b, calls)))
        goto out;
    if (calls)
        memcpy(b->pair, call, calls * sizeof *call);
    pairs_by_correlation(b, calls, false);
    if (calls)
        memcpy(call, b->pair, calls * sizeof *call);
    if ((rc = an_builder_scratch(b, op->count)))
        goto out;
    for (size_t i = 0; i < op->count; i++)
        if (t->slice.correlation[op->slice[i]] != STORE_ABSENT)
            b->pair[n++] =
                (struct an_pair){an_pair_key(t->slice.correlation[op->slice[i]]), (uint32_t)i, 0};
    pairs_by_correlation(b, n, true);
    merge_launches(b, call, calls, b->pair, n);
out:
    free(call);
    return rc;
}

/* The links from calls to ops. */
static int invert_launches(struct builder *b)
{
    struct an_devices *g = b->g;
    size_t n = 0;
    for (size_t i = 0; i < g->op.count; i++)
        if (g->op.launch[i] != AN_NONE)
            b->pair[n++] = (struct an_pair){g->op.launch[i], (uint32_t)i, 0};
    an_pairs_sort(b->pair, b->work, n);
    for (size_t i = 0; i < n; i++)
        g->launch_count += !i || b->pair[i].key != b->pair[i - 1].key;
    g->launch_op = an_arena_zero(b->c->work, n, sizeof *g->launch_op);
    g->launch_slice = an_arena_zero(b->c->work, g->launch_count, sizeof *g->launch_slice);
    g->launch_first = an_arena_zero(b->c->work, g->launch_count + 1, sizeof *g->launch_first);
    if (!g->launch_op || !g->launch_slice || !g->launch_first)
        return TACHO_ENOMEM;
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        if (!i || b->pair[i].key != b->pair[i - 1].key) {
            g->launch_slice[k] = (uint32_t)b->pair[i].key;
            g->launch_first[k++] = (uint32_t)i;
        }
        g->launch_op[i] = b->pair[i].value;
    }
    g->launch_first[k] = (uint32_t)n;
    return 0;
}

/* Launching calls without an op; a call inside another launching call is part of it. */
static void count_lost(struct builder *b)
{
    const struct an_trace *t = b->c->t;
    struct an_devices *g = b->g;
    size_t k = 0;
    for (size_t i = 0; i < t->slice.count; i++) {
        while (k < g->launch_count && g->launch_slice[k] < i)
            k++;
        if (an_row_of(b, i) != ROW_CALL || !an_api_launches(an_slice_api(t, i)))
            continue;
        uint32_t parent = t->slice.parent[i];
        bool inside = parent != AN_NONE && an_row_of(b, parent) == ROW_CALL;
        g->launches_lost += !inside && (k == g->launch_count || g->launch_slice[k] != i);
    }
}

/* The ops of each device in order of their launches. */
static int order_launches(struct builder *b)
{
    const struct an_trace *t = b->c->t;
    struct an_devices *g = b->g;
    g->by_launch = an_arena_zero(b->c->work, g->op.count, sizeof *g->by_launch);
    g->by_launch_known = an_arena_zero(b->c->work, g->device_count, sizeof *g->by_launch_known);
    if (!g->by_launch || !g->by_launch_known)
        return TACHO_ENOMEM;
    for (size_t d = 0; d < g->device_count; d++) {
        const struct an_device *v = &g->device[d];
        size_t n = 0;
        for (size_t i = v->first; i < v->first + v->count; i++)
            if (g->op.launch[i] != AN_NONE)
                b->pair[n++] =
                    (struct an_pair){an_pair_key(t->slice.start[g->op.launch[i]]), (uint32_t)i, 0};
        for (size_t i = v->first; !n && i < v->first + v->count; i++)
            g->by_launch[i] = (uint32_t)i;
        an_pairs_sort(b->pair, b->work, n);
        for (size_t i = 0; i < n; i++)
            g->by_launch[v->first + i] = b->pair[i].value;
        g->by_launch_known[d] = n ? n : v->count;
    }
    return 0;
}

int64_t an_device_launch_time(const struct an_context *c, size_t i)
{
    const struct an_device_ops *op = &c->gpu->op;
    return op->launch[i] == AN_NONE ? op->start[i] : c->t->slice.start[op->launch[i]];
}

size_t an_device_launch_seek(const struct an_context *c, size_t d, int64_t time)
{
    size_t low = c->gpu->device[d].first, high = low + c->gpu->by_launch_known[d];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (an_device_launch_time(c, c->gpu->by_launch[middle]) < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int an_builder_links(struct builder *b)
{
    int rc = link_ops(b);
    rc = rc ? rc : invert_launches(b);
    rc = rc ? rc : order_launches(b);
    if (!rc)
        count_lost(b);
    return rc;
}
