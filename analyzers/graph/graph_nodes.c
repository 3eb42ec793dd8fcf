/* SPDX-License-Identifier: Apache-2.0
 *
 * The nodes of a dependency graph: device ops, and the pieces of threads. The cuts of a thread are
 * passed in order of start with a stack of those that are open; every piece belongs to the
 * innermost one. There are two passes: the first one only counts.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/graph/graph_private.h"

/* A cut that is open while the sweep passes. */
struct open_cut {
    int64_t end;
    uint32_t slice;
    uint32_t *first, *last; /* where its nodes are noted */
    uint8_t kind, cause;
};

struct sweep {
    struct an_graph_build *build;
    struct an_graph *graph;
    struct open_cut *open;
    size_t depth, room, next_node; /* n: the next node */
    uint32_t track;
    int64_t time;
    bool count_only; /* only count */
};

static void emit(struct sweep *sweep, int64_t until, const struct open_cut *cut)
{
    struct an_graph *graph = sweep->graph;
    size_t node = sweep->next_node++;
    if (!sweep->count_only) {
        graph->start[node] = sweep->time;
        graph->end[node] = until;
        graph->track[node] = sweep->track;
        graph->slice[node] = cut ? cut->slice : AN_NONE;
        graph->kind[node] = cut ? cut->kind : AN_NODE_UNTRACED;
        graph->cause[node] = cut ? cut->cause : AN_CAUSE_UNTRACED;
    }
    sweep->time = until;
}

static void close_top(struct sweep *sweep)
{
    const struct open_cut *cut = &sweep->open[--sweep->depth];
    if (*cut->first ==
        sweep->next_node) /* it lasts no time, or lies where another one ended late */
        emit(sweep, sweep->time, cut);
    *cut->last = (uint32_t)sweep->next_node - 1;
}

/* Emits the pieces up to `time`, each for the cut that is innermost then, and closes the cuts that
 * end. */
static void sweep_to(struct sweep *sweep, int64_t time)
{
    while (sweep->depth) {
        const struct open_cut *top = &sweep->open[sweep->depth - 1];
        int64_t until = top->end < time ? top->end : time;
        if (until > sweep->time)
            emit(sweep, until, top);
        if (top->end > time)
            return;
        close_top(sweep);
    }
    if (time > sweep->time)
        emit(sweep, time, NULL);
}

static int open_cut(struct sweep *sweep, int64_t start, struct open_cut cut)
{
    if (sweep->time == INT64_MIN)
        sweep->time = start; /* a thread begins with its first cut */
    sweep_to(sweep, start);
    if (an_grow(&sweep->open, &sweep->room, sweep->depth + 1, sizeof *sweep->open))
        return TACHO_ENOMEM;
    if (cut.end < start)
        cut.end = start;
    *cut.first = (uint32_t)sweep->next_node;
    sweep->open[sweep->depth++] = cut;
    return 0;
}

/* Ends the sweep of a thread at the last cut's end. */
static void finish_thread(struct sweep *sweep)
{
    while (sweep->depth) {
        int64_t end = sweep->open[sweep->depth - 1].end;
        sweep_to(sweep, end > sweep->time ? end : sweep->time);
    }
}

static struct open_cut cut_of_slice(struct an_graph_build *build, size_t i)
{
    return (struct open_cut){.end = an_slice_end(build->context->trace, i),
                             .slice = (uint32_t)i,
                             .first = &build->first_node[i],
                             .last = &build->last_node[i],
                             .kind = (uint8_t)(build->cut[i] - 1),
                             .cause = build->cause[i]};
}

static struct open_cut cut_of_span(struct an_graph_span *span)
{
    return (struct open_cut){span->end,        span->slice, &span->first_node,
                             &span->last_node, span->kind,  span->cause};
}

/* Pieces of a thread: its slices and spans come in order of start, the longer first. */
static int sweep_thread(struct sweep *sweep, uint32_t track, size_t *span)
{
    struct an_graph_build *build = sweep->build;
    const struct an_trace *trace = build->context->trace;
    size_t i = trace->track[track].slice_first, stop = i + trace->track[track].slice_count;
    int rc = 0;
    sweep->track = track;
    sweep->time = INT64_MIN;
    while (!rc) {
        while (i < stop && !build->cut[i])
            i++;
        struct an_graph_span *next_span =
            *span < build->span_count ? &build->span[build->span_order[*span]] : NULL;
        if (next_span && next_span->track != track)
            next_span = NULL;
        if (next_span && i < stop &&
            (trace->slice.start[i] < next_span->start ||
             (trace->slice.start[i] == next_span->start &&
              an_slice_end(trace, i) >= next_span->end)))
            next_span = NULL;
        if (next_span)
            rc = open_cut(sweep, next_span->start, cut_of_span(next_span));
        else if (i < stop)
            rc = open_cut(sweep, trace->slice.start[i], cut_of_slice(build, i));
        else
            break;
        *span += next_span != NULL;
        i += next_span == NULL;
    }
    finish_thread(sweep);
    return rc;
}

static void place(struct an_graph *graph, size_t node, uint32_t track, uint32_t slice,
                  enum an_node_kind kind, enum an_cause cause)
{
    graph->track[node] = track;
    graph->slice[node] = slice;
    graph->kind[node] = (uint8_t)kind;
    graph->cause[node] = (uint8_t)cause;
}

/* The three nodes of a communication kernel: its arrival, the wait for the others, the transfer.
 * Returns the last of them. */
static size_t place_pieces(struct an_graph *graph, size_t node, uint32_t track, uint32_t slice,
                           int64_t wait_end)
{
    int64_t end = graph->end[node], start = graph->start[node];
    place(graph, node, track, slice, AN_NODE_DEVICE, AN_CAUSE_TRANSFER);
    place(graph, node + 1, track, slice, AN_NODE_WAIT, AN_CAUSE_PEERS);
    place(graph, node + 2, track, slice, AN_NODE_COLLECTIVE, AN_CAUSE_TRANSFER);
    graph->end[node] = graph->start[node + 1] = start;
    if (wait_end > end)
        wait_end = end;
    graph->end[node + 1] = graph->start[node + 2] = wait_end < start ? start : wait_end;
    graph->end[node + 2] = end;
    return node + 2;
}

/* Makes the nodes of the device ops. Ops are sorted by device and start, so those of one stream
 * come in order. */
static void place_ops(struct an_graph_build *build, size_t *next)
{
    const struct an_devices *gpu = build->context->gpu;
    struct an_graph *graph = build->graph;
    const struct an_graph_op_cut *cut = build->op_cut, *stop = cut + build->op_cut_count;
    static const uint8_t causes[AN_DEVICE_CLASS_COUNT] = {
        [AN_DEVICE_COMM] = AN_CAUSE_TRANSFER, [AN_DEVICE_COPY] = AN_CAUSE_COPY};
    for (size_t i = 0; i < gpu->op.count; i++) {
        size_t node = next[gpu->op.track[i]]++;
        graph->start[node] = gpu->op.start[i];
        graph->end[node] = gpu->op.end[i];
        if (cut < stop && cut->op == i) {
            node = place_pieces(graph, node, gpu->op.track[i], gpu->op.slice[i], cut++->time);
            next[gpu->op.track[i]] = node + 1;
        } else {
            place(graph, node, gpu->op.track[i], gpu->op.slice[i], AN_NODE_DEVICE,
                  causes[gpu->op.class[i]]); /* 0: compute */
        }
        graph->op_node[i] = (uint32_t)node;
    }
}

static int op_order(const void *left, const void *right)
{
    const struct an_graph_op_cut *first = left, *second = right;
    return (first->op > second->op) - (first->op < second->op);
}

/* Sorts the cuts of ops by op and leaves one of each. */
static void sort_op_cuts(struct an_graph_build *build)
{
    size_t kept = 0;
    if (build->op_cut_count)
        qsort(build->op_cut, build->op_cut_count, sizeof *build->op_cut, op_order);
    for (size_t i = 0; i < build->op_cut_count; i++)
        if (!kept || build->op_cut[kept - 1].op != build->op_cut[i].op)
            build->op_cut[kept++] = build->op_cut[i];
    build->op_cut_count = kept;
}

static int span_order(const void *left, const void *right, void *spans)
{
    const struct an_graph_span *first =
                                   (const struct an_graph_span *)spans + *(const uint32_t *)left,
                               *second =
                                   (const struct an_graph_span *)spans + *(const uint32_t *)right;
    if (first->track != second->track)
        return first->track < second->track ? -1 : 1;
    if (first->start != second->start)
        return first->start < second->start ? -1 : 1;
    return (first->end < second->end) - (first->end > second->end);
}

static int sort_spans(struct an_graph_build *build)
{
    build->span_order =
        an_arena_zero(build->context->scratch, build->span_count + 1, sizeof *build->span_order);
    if (!build->span_order)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < build->span_count; i++)
        build->span_order[i] = (uint32_t)i;
    if (build->span_count)
        qsort_r(build->span_order, build->span_count, sizeof *build->span_order, span_order,
                build->span);
    return 0;
}

/* One pass over all threads. Counting fills track_first[k + 1] with the nodes of track k. */
static int sweep_all(struct an_graph_build *build, bool count_only)
{
    const struct an_trace *trace = build->context->trace;
    struct an_graph *graph = build->graph;
    struct sweep sweep = {.build = build, .graph = graph, .count_only = count_only};
    size_t span = 0;
    int rc = 0;
    for (uint32_t track = 0; track < trace->track_count && !rc; track++) {
        if (graph->stream[track])
            continue;
        sweep.next_node = count_only ? 0 : graph->track_first[track];
        rc = sweep_thread(&sweep, track, &span);
        if (count_only)
            graph->track_first[track + 1] = sweep.next_node;
    }
    free(sweep.open);
    return rc;
}

static int allocate(struct an_graph *graph, struct an_arena *arena)
{
    size_t node_count = graph->node_count;
    graph->start = an_arena_zero(arena, node_count, sizeof *graph->start);
    graph->end = an_arena_zero(arena, node_count, sizeof *graph->end);
    graph->track = an_arena_zero(arena, node_count, sizeof *graph->track);
    graph->slice = an_arena_zero(arena, node_count, sizeof *graph->slice);
    graph->kind = an_arena_zero(arena, node_count, sizeof *graph->kind);
    graph->cause = an_arena_zero(arena, node_count, sizeof *graph->cause);
    return graph->start && graph->end && graph->track && graph->slice && graph->kind && graph->cause
               ? 0
               : TACHO_ENOMEM;
}

int an_graph_nodes(struct an_graph_build *build)
{
    const struct an_devices *gpu = build->context->gpu;
    struct an_graph *graph = build->graph;
    struct an_arena *arena = build->context->scratch;
    size_t tracks = build->context->trace->track_count;
    graph->track_first = an_arena_zero(arena, tracks + 1, sizeof *graph->track_first);
    graph->op_node = an_arena_zero(arena, (gpu ? gpu->op.count : 0) + 1, sizeof *graph->op_node);
    graph->stream = an_arena_zero(arena, tracks + 1, 1);
    size_t *next = an_arena_zero(arena, tracks + 1, sizeof *next);
    if (!graph->track_first || !graph->op_node || !graph->stream || !next || sort_spans(build))
        return TACHO_ENOMEM;
    for (size_t track = 0; track < tracks; track++)
        graph->stream[track] = !strcmp(build->context->trace->track[track].kind, "stream");
    sort_op_cuts(build);
    int rc = sweep_all(build, true);
    for (size_t i = 0; gpu && i < gpu->op.count; i++)
        graph->track_first[gpu->op.track[i] + 1]++;
    for (size_t i = 0; gpu && i < build->op_cut_count; i++)
        graph->track_first[gpu->op.track[build->op_cut[i].op] + 1] += 2;
    for (size_t track = 0; track < tracks; track++)
        graph->track_first[track + 1] += graph->track_first[track];
    graph->node_count = graph->track_first[tracks];
    if (rc || graph->node_count >= AN_NONE || allocate(graph, arena))
        return TACHO_ENOMEM;
    if (tracks)
        memcpy(next, graph->track_first, tracks * sizeof *next);
    if (gpu)
        place_ops(build, next);
    return sweep_all(build, false);
}

uint32_t an_graph_node_at(const struct an_graph *graph, uint32_t track, int64_t time)
{
    size_t low = graph->track_first[track], high = graph->track_first[track + 1], stop = high;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (graph->end[middle] <= time)
            low = middle + 1;
        else
            high = middle;
    }
    return low < stop ? (uint32_t)low : AN_NONE;
}
