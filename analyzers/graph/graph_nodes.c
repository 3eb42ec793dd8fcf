/* SPDX-License-Identifier: Apache-2.0
 *
 * The nodes of a dependency graph: device ops, and threads in pieces. A thread's cuts are swept in
 * order of start with a stack of what is open; every piece belongs to the innermost cut. Two
 * passes: the first one counts.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/graph/graph_build.h"

/* A cut that is open while the sweep passes. */
struct open_cut {
    int64_t end;
    uint32_t slice;
    uint32_t *first, *last; /* where its nodes are noted */
    uint8_t kind, cause;
};

struct sweep {
    struct an_graph_build *b;
    struct an_graph *g;
    struct open_cut *open;
    size_t depth, room, n; /* n: the next node */
    uint32_t track;
    int64_t at;
    bool count; /* only count */
};

static void emit(struct sweep *w, int64_t until, const struct open_cut *x)
{
    struct an_graph *g = w->g;
    size_t n = w->n++;
    if (!w->count) {
        g->start[n] = w->at;
        g->end[n] = until;
        g->track[n] = w->track;
        g->slice[n] = x ? x->slice : AN_NONE;
        g->kind[n] = x ? x->kind : AN_NODE_THINK;
        g->cause[n] = x ? x->cause : AN_CAUSE_THINK;
    }
    w->at = until;
}

static void close_top(struct sweep *w)
{
    const struct open_cut *x = &w->open[--w->depth];
    if (*x->first == w->n) /* it lasts no time, or lies where another one ended late */
        emit(w, w->at, x);
    *x->last = (uint32_t)w->n - 1;
}

/* Gives the time up to `time` to the cuts that are innermost meanwhile, and closes those that end.
 */
static void sweep_to(struct sweep *w, int64_t time)
{
    while (w->depth) {
        const struct open_cut *top = &w->open[w->depth - 1];
        int64_t until = top->end < time ? top->end : time;
        if (until > w->at)
            emit(w, until, top);
        if (top->end > time)
            return;
        close_top(w);
    }
    if (time > w->at)
        emit(w, time, NULL);
}

static int open_cut(struct sweep *w, int64_t start, struct open_cut x)
{
    if (w->at == INT64_MIN)
        w->at = start; /* a thread begins with its first cut */
    sweep_to(w, start);
    if (an_grow(&w->open, &w->room, w->depth + 1, sizeof *w->open))
        return TACHO_ENOMEM;
    if (x.end < start)
        x.end = start;
    *x.first = (uint32_t)w->n;
    w->open[w->depth++] = x;
    return 0;
}

/* Ends the sweep of a thread at the last cut's end. */
static void finish_thread(struct sweep *w)
{
    while (w->depth) {
        int64_t end = w->open[w->depth - 1].end;
        sweep_to(w, end > w->at ? end : w->at);
    }
}

static struct open_cut cut_of_slice(struct an_graph_build *b, size_t i)
{
    return (struct open_cut){.end = an_slice_end(b->c->t, i),
                             .slice = (uint32_t)i,
                             .first = &b->first[i],
                             .last = &b->last[i],
                             .kind = (uint8_t)(b->cut[i] - 1),
                             .cause = b->cause[i]};
}

static struct open_cut cut_of_span(struct an_graph_span *s)
{
    return (struct open_cut){s->end, s->slice, &s->first, &s->last, s->kind, s->cause};
}

/* Pieces of a thread: its slices and spans come in order of start, the longer first. */
static int sweep_thread(struct sweep *w, uint32_t track, size_t *span)
{
    struct an_graph_build *b = w->b;
    const struct an_trace *t = b->c->t;
    size_t i = t->track[track].slice_first, stop = i + t->track[track].slice_count;
    int rc = 0;
    w->track = track;
    w->at = INT64_MIN;
    while (!rc) {
        while (i < stop && !b->cut[i])
            i++;
        struct an_graph_span *s = *span < b->span_count ? &b->span[b->span_order[*span]] : NULL;
        if (s && s->track != track)
            s = NULL;
        if (s && i < stop &&
            (t->slice.start[i] < s->start ||
             (t->slice.start[i] == s->start && an_slice_end(t, i) >= s->end)))
            s = NULL;
        if (s)
            rc = open_cut(w, s->start, cut_of_span(s));
        else if (i < stop)
            rc = open_cut(w, t->slice.start[i], cut_of_slice(b, i));
        else
            break;
        *span += s != NULL;
        i += s == NULL;
    }
    finish_thread(w);
    return rc;
}

static void place(struct an_graph *g, size_t n, uint32_t track, uint32_t slice,
                  enum an_node_kind kind, enum an_cause cause)
{
    g->track[n] = track;
    g->slice[n] = slice;
    g->kind[n] = (uint8_t)kind;
    g->cause[n] = (uint8_t)cause;
}

/* The pieces of a communication kernel: it arrives, waits for the others, goes on. Returns the node
 * of the last one. */
static size_t place_pieces(struct an_graph *g, size_t n, uint32_t track, uint32_t slice, int64_t at)
{
    int64_t end = g->end[n], start = g->start[n];
    place(g, n, track, slice, AN_NODE_DEVICE, AN_CAUSE_TRANSFER);
    place(g, n + 1, track, slice, AN_NODE_WAIT, AN_CAUSE_PEERS);
    place(g, n + 2, track, slice, AN_NODE_COLLECTIVE, AN_CAUSE_TRANSFER);
    g->end[n] = g->start[n + 1] = start;
    g->end[n + 1] = g->start[n + 2] = at < start ? start : at < end ? at : end;
    g->end[n + 2] = end;
    return n + 2;
}

/* Ops stand by device and start, so those of one stream come in order. */
static void place_ops(struct an_graph_build *b, size_t *next)
{
    const struct an_devices *gpu = b->c->gpu;
    struct an_graph *g = b->g;
    const struct an_graph_op_cut *cut = b->op_cut, *stop = cut + b->op_cut_count;
    static const uint8_t causes[AN_DEVICE_CLASS_COUNT] = {
        [AN_DEVICE_COMM] = AN_CAUSE_TRANSFER, [AN_DEVICE_COPY] = AN_CAUSE_COPY};
    for (size_t i = 0; i < gpu->op.count; i++) {
        size_t n = next[gpu->op.track[i]]++;
        g->start[n] = gpu->op.start[i];
        g->end[n] = gpu->op.end[i];
        if (cut < stop && cut->op == i) {
            n = place_pieces(g, n, gpu->op.track[i], gpu->op.slice[i], cut++->at);
            next[gpu->op.track[i]] = n + 1;
        } else {
            place(g, n, gpu->op.track[i], gpu->op.slice[i], AN_NODE_DEVICE,
                  causes[gpu->op.class[i]]); /* 0: compute */
        }
        g->op_node[i] = (uint32_t)n;
    }
}

static int op_order(const void *x, const void *y)
{
    const struct an_graph_op_cut *a = x, *b = y;
    return (a->op > b->op) - (a->op < b->op);
}

/* Cuts by op, each once. */
static void sort_op_cuts(struct an_graph_build *b)
{
    size_t n = 0;
    if (b->op_cut_count)
        qsort(b->op_cut, b->op_cut_count, sizeof *b->op_cut, op_order);
    for (size_t i = 0; i < b->op_cut_count; i++)
        if (!n || b->op_cut[n - 1].op != b->op_cut[i].op)
            b->op_cut[n++] = b->op_cut[i];
    b->op_cut_count = n;
}

static int span_order(const void *x, const void *y, void *spans)
{
    const struct an_graph_span *a = (const struct an_graph_span *)spans + *(const uint32_t *)x,
                               *b = (const struct an_graph_span *)spans + *(const uint32_t *)y;
    if (a->track != b->track)
        return a->track < b->track ? -1 : 1;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return (a->end < b->end) - (a->end > b->end);
}

static int sort_spans(struct an_graph_build *b)
{
    b->span_order = an_arena_zero(b->c->work, b->span_count + 1, sizeof *b->span_order);
    if (!b->span_order)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < b->span_count; i++)
        b->span_order[i] = (uint32_t)i;
    if (b->span_count)
        qsort_r(b->span_order, b->span_count, sizeof *b->span_order, span_order, b->span);
    return 0;
}

/* One pass over all threads. Counting fills track_first[k + 1] with the nodes of track k. */
static int sweep_all(struct an_graph_build *b, bool count)
{
    const struct an_trace *t = b->c->t;
    struct an_graph *g = b->g;
    struct sweep w = {.b = b, .g = g, .count = count};
    size_t span = 0;
    int rc = 0;
    for (uint32_t k = 0; k < t->track_count && !rc; k++) {
        if (g->stream[k])
            continue;
        w.n = count ? 0 : g->track_first[k];
        rc = sweep_thread(&w, k, &span);
        if (count)
            g->track_first[k + 1] = w.n;
    }
    free(w.open);
    return rc;
}

static int allocate(struct an_graph *g, struct an_arena *a)
{
    size_t n = g->node_count;
    g->start = an_arena_zero(a, n, sizeof *g->start);
    g->end = an_arena_zero(a, n, sizeof *g->end);
    g->track = an_arena_zero(a, n, sizeof *g->track);
    g->slice = an_arena_zero(a, n, sizeof *g->slice);
    g->kind = an_arena_zero(a, n, sizeof *g->kind);
    g->cause = an_arena_zero(a, n, sizeof *g->cause);
    return g->start && g->end && g->track && g->slice && g->kind && g->cause ? 0 : TACHO_ENOMEM;
}

int an_graph_nodes(struct an_graph_build *b)
{
    const struct an_devices *gpu = b->c->gpu;
    struct an_graph *g = b->g;
    struct an_arena *a = b->c->work;
    size_t tracks = b->c->t->track_count;
    g->track_first = an_arena_zero(a, tracks + 1, sizeof *g->track_first);
    g->op_node = an_arena_zero(a, (gpu ? gpu->op.count : 0) + 1, sizeof *g->op_node);
    g->stream = an_arena_zero(a, tracks + 1, 1);
    size_t *next = an_arena_zero(a, tracks + 1, sizeof *next);
    if (!g->track_first || !g->op_node || !g->stream || !next || sort_spans(b))
        return TACHO_ENOMEM;
    for (size_t k = 0; k < tracks; k++)
        g->stream[k] = !strcmp(b->c->t->track[k].kind, "stream");
    sort_op_cuts(b);
    int rc = sweep_all(b, true);
    for (size_t i = 0; gpu && i < gpu->op.count; i++)
        g->track_first[gpu->op.track[i] + 1]++;
    for (size_t i = 0; i < b->op_cut_count; i++)
        g->track_first[gpu->op.track[b->op_cut[i].op] + 1] += 2;
    for (size_t k = 0; k < tracks; k++)
        g->track_first[k + 1] += g->track_first[k];
    g->node_count = g->track_first[tracks];
    if (rc || g->node_count >= AN_NONE || (rc = allocate(g, a)))
        return TACHO_ENOMEM;
    if (tracks)
        memcpy(next, g->track_first, tracks * sizeof *next);
    if (gpu)
        place_ops(b, next);
    return sweep_all(b, false);
}
