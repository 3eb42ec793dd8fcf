/* SPDX-License-Identifier: Apache-2.0
 *
 * The device side of the dependency graph: launches, waits between streams, calls that wait for the
 * device, and how far the host may run ahead. What waited for what is found in device_edges.h.
 *
 * A copy that makes the host wait is launched by the very call that waits for it: from the start of
 * the copy on, the call is a piece of its own that waits; what is before it launches.
 *
 * Run-ahead: a stream holds so many launched ops that have not begun; the call that launches the
 * next one waits until the oldest of them begins, which is not before the op before that one ended.
 * Known of CUDA (1024), inferred: a limit that the times contradict is none.
 */
#include "analyzers/device/device_edges.h"
#include "analyzers/graph/graph.h"

#define QUEUE_MOST 1024

/* The piece of a call that waits for ops, by sync edge; AN_NONE: the whole call. */
static uint32_t *make_spans(struct an_context *c, const struct an_device_edges *e)
{
    uint32_t *span = an_arena_zero(c->work, e->sync_count, sizeof *span);
    for (size_t i = 0; span && i < e->sync_count; i++)
        span[i] = AN_NONE;
    return span;
}

static bool launches_itself(const struct an_context *c, const struct an_sync_edge *s)
{
    uint32_t launch = c->gpu->op.launch[s->op];
    return launch != AN_NONE && an_call_outermost(c->t, launch) == s->call;
}

/* A copying call: it launches, which takes as long as from when the stream was free until the copy
 * began, then it waits: for what its stream did or waited for before, and for its copy. */
static int cut_copy(struct an_context *c, struct an_graph_build *b, const struct an_device_edges *e,
                    const struct an_sync_edge *s, uint32_t *span)
{
    const struct an_device_ops *op = &c->gpu->op;
    int64_t start = c->t->slice.start[s->call], end = an_slice_end(c->t, s->call);
    int64_t busy = start;
    uint32_t before = e->before[s->op];
    if (before != AN_NONE && op->end[before] > busy)
        busy = op->end[before];
    for (size_t k = e->first[s->op]; k < e->first[s->op + 1]; k++)
        busy = op->end[e->from[k]] > busy ? op->end[e->from[k]] : busy;
    int64_t launching = an_time_sub(op->start[s->op], busy),
            from = an_time_add(start, launching > 0 ? launching : 1);
    int rc = an_graph_cut(b, s->call, AN_NODE_HOST, AN_CAUSE_COPY);
    return rc || from >= end ? rc
                             : an_graph_cut_span(b, an_slice_track(c->t, s->call), from, end,
                                                 s->call, AN_NODE_WAIT, AN_CAUSE_COPY, span);
}

static int device_cuts(struct an_context *c, struct an_graph_build *b)
{
    const struct an_device_edges *e;
    int rc = c->gpu ? an_device_edges_of(c, &e) : 0;
    if (!c->gpu || rc)
        return rc;
    uint32_t *span = c->device_spans = make_spans(c, e);
    if (!span)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < e->sync_count && !rc; i++) {
        const struct an_sync_edge *s = &e->sync[i];
        bool first = !i || e->sync[i - 1].call != s->call;
        if (!launches_itself(c, s))
            rc = an_graph_cut(b, s->call, AN_NODE_WAIT,
                              an_slice_api(c->t, s->call).kind == AN_API_FREE ? AN_CAUSE_ALLOCATION
                                                                              : AN_CAUSE_SYNC);
        else if (first)
            rc = cut_copy(c, b, e, s, &span[i]);
        else
            span[i] = span[i - 1];
    }
    return rc;
}

static int launch_edges(struct an_context *c, struct an_graph_build *b,
                        const struct an_device_edges *e)
{
    const struct an_device_ops *op = &c->gpu->op;
    int rc = 0;
    for (uint32_t i = 0; i < op->count && !rc; i++) {
        if (op->launch[i] == AN_NONE)
            continue;
        uint32_t call = an_call_outermost(c->t, op->launch[i]);
        size_t at = an_sync_seek(e, call);
        bool waits = at < e->sync_count && e->sync[at].call == call;
        uint32_t from = waits ? an_graph_first_node(b, call) : an_graph_last_node(b, call);
        rc = an_graph_edge(b, from, an_graph_op_start(b, i), AN_EDGE_LAUNCH);
    }
    return rc;
}

static int wait_edges(struct an_context *c, struct an_graph_build *b,
                      const struct an_device_edges *e)
{
    const uint32_t *span = c->device_spans;
    int rc = 0;
    for (uint32_t i = 0; i < c->gpu->op.count && !rc; i++)
        for (size_t k = e->first[i]; k < e->first[i + 1] && !rc; k++)
            rc = an_graph_edge(b, an_graph_op_node(b, e->from[k]), an_graph_op_start(b, i),
                               AN_EDGE_STREAM | (e->inferred[k] ? AN_EDGE_INFERRED : 0u));
    for (size_t i = 0; i < e->sync_count && !rc; i++) {
        if (launches_itself(c, &e->sync[i]) && span[i] == AN_NONE)
            continue; /* the call ended before its copy began */
        uint32_t to = span[i] == AN_NONE ? an_graph_last_node(b, e->sync[i].call)
                                         : an_graph_span_last(b, span[i]);
        rc = an_graph_edge(b, an_graph_op_node(b, e->sync[i].op), to,
                           AN_EDGE_SYNC | (e->sync[i].inferred ? AN_EDGE_INFERRED : 0u));
    }
    return rc;
}

/* The last QUEUE_MOST ops of each stream, in order of launch, as a ring. */
struct queue {
    uint32_t *op;
    size_t count;
};

static int credit_edges(struct an_context *c, struct an_graph_build *b,
                        const struct an_device_edges *e)
{
    const struct an_devices *g = c->gpu;
    size_t *launched = an_arena_zero(c->work, c->t->track_count, sizeof *launched);
    struct queue *queue = an_arena_zero(c->work, c->t->track_count, sizeof *queue);
    int rc = launched && queue ? 0 : TACHO_ENOMEM;
    for (size_t i = 0; i < g->op.count && !rc; i++)
        launched[g->op.track[i]]++;
    for (size_t d = 0; d < g->device_count && !rc; d++)
        for (size_t i = g->device[d].first; i < g->device[d].first + g->by_launch_known[d] && !rc;
             i++) {
            uint32_t op = g->by_launch[i], track = g->op.track[op];
            struct queue *q = &queue[track];
            if (g->op.launch[op] == AN_NONE || launched[track] <= QUEUE_MOST)
                continue;
            if (!q->op && !(q->op = an_arena_zero(c->work, QUEUE_MOST, sizeof *q->op)))
                return TACHO_ENOMEM;
            uint32_t *slot = &q->op[q->count++ % QUEUE_MOST];
            uint32_t call = an_call_outermost(c->t, g->op.launch[op]);
            if (q->count > QUEUE_MOST && e->before[*slot] != AN_NONE &&
                g->op.start[*slot] <= c->t->slice.start[call])
                rc = an_graph_edge(b, an_graph_op_node(b, e->before[*slot]),
                                   an_graph_first_node(b, call), AN_EDGE_CREDIT | AN_EDGE_INFERRED);
            *slot = op;
        }
    return rc;
}

static int device_edges(struct an_context *c, struct an_graph_build *b)
{
    const struct an_device_edges *e;
    int rc = c->gpu ? an_device_edges_of(c, &e) : 0;
    if (!c->gpu || rc)
        return rc;
    rc = launch_edges(c, b, e);
    rc = rc ? rc : wait_edges(c, b, e);
    return rc ? rc : credit_edges(c, b, e);
}

const struct an_graph_builder an_graph_device = {"device", device_cuts, device_edges};
