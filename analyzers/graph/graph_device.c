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
static uint32_t *make_spans(struct an_context *context, const struct an_device_edges *edges)
{
    uint32_t *span = an_arena_zero(context->scratch, edges->sync_count, sizeof *span);
    for (size_t i = 0; span && i < edges->sync_count; i++)
        span[i] = AN_NONE;
    return span;
}

static bool launches_itself(const struct an_context *context, const struct an_sync_edge *sync_edge)
{
    uint32_t launch = context->gpu->op.launch[sync_edge->op];
    return launch != AN_NONE && an_call_outermost(context->trace, launch) == sync_edge->call;
}

/* A copying call: it launches, which takes as long as from when the stream was free until the copy
 * began, then it waits: for what its stream did or waited for before, and for its copy. */
static int cut_copy(struct an_context *context, struct an_graph_build *build,
                    const struct an_device_edges *edges, const struct an_sync_edge *sync_edge,
                    uint32_t *span)
{
    const struct an_device_ops *op = &context->gpu->op;
    int64_t start = context->trace->slice.start[sync_edge->call],
            end = an_slice_end(context->trace, sync_edge->call);
    int64_t busy = start;
    uint32_t before = edges->before[sync_edge->op];
    if (before != AN_NONE && op->end[before] > busy)
        busy = op->end[before];
    for (size_t k = edges->first[sync_edge->op]; k < edges->first[sync_edge->op + 1]; k++)
        busy = op->end[edges->from[k]] > busy ? op->end[edges->from[k]] : busy;
    int64_t launching = an_time_sub(op->start[sync_edge->op], busy),
            from = an_time_add(start, launching > 0 ? launching : 1);
    int rc = an_graph_cut(build, sync_edge->call, AN_NODE_HOST, AN_CAUSE_COPY);
    return rc || from >= end
               ? rc
               : an_graph_cut_span(build, an_slice_track(context->trace, sync_edge->call), from,
                                   end, sync_edge->call, AN_NODE_WAIT, AN_CAUSE_COPY, span);
}

static int device_cuts(struct an_context *context, struct an_graph_build *build)
{
    const struct an_device_edges *edges;
    int rc = context->gpu ? an_device_edges_of(context->gpu, &edges) : 0;
    if (!context->gpu || rc)
        return rc;
    uint32_t *span = context->device_spans = make_spans(context, edges);
    if (!span)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < edges->sync_count && !rc; i++) {
        const struct an_sync_edge *sync_edge = &edges->sync[i];
        bool first = !i || edges->sync[i - 1].call != sync_edge->call;
        if (!launches_itself(context, sync_edge))
            rc = an_graph_cut(build, sync_edge->call, AN_NODE_WAIT,
                              an_slice_api(context->trace, sync_edge->call).kind == AN_API_FREE
                                  ? AN_CAUSE_ALLOCATION
                                  : AN_CAUSE_SYNC);
        else if (first)
            rc = cut_copy(context, build, edges, sync_edge, &span[i]);
        else
            span[i] = span[i - 1];
    }
    return rc;
}

static int launch_edges(struct an_context *context, struct an_graph_build *build,
                        const struct an_device_edges *edges)
{
    const struct an_device_ops *op = &context->gpu->op;
    int rc = 0;
    for (uint32_t i = 0; i < op->count && !rc; i++) {
        if (op->launch[i] == AN_NONE)
            continue;
        uint32_t call = an_call_outermost(context->trace, op->launch[i]);
        size_t at = an_sync_seek(edges, call);
        bool waits = at < edges->sync_count && edges->sync[at].call == call;
        uint32_t from = waits ? an_graph_first_node(build, call) : an_graph_last_node(build, call);
        rc = an_graph_edge(build, from, an_graph_op_start(build, i), AN_EDGE_LAUNCH);
    }
    return rc;
}

static int wait_edges(struct an_context *context, struct an_graph_build *build,
                      const struct an_device_edges *edges)
{
    const uint32_t *span = context->device_spans;
    int rc = 0;
    for (uint32_t i = 0; i < context->gpu->op.count && !rc; i++)
        for (size_t k = edges->first[i]; k < edges->first[i + 1] && !rc; k++)
            rc = an_graph_edge(build, an_graph_op_node(build, edges->from[k]),
                               an_graph_op_start(build, i),
                               AN_EDGE_STREAM | (edges->inferred[k] ? AN_EDGE_INFERRED : 0u));
    for (size_t i = 0; i < edges->sync_count && !rc; i++) {
        if (launches_itself(context, &edges->sync[i]) && span[i] == AN_NONE)
            continue; /* the call ended before its copy began */
        uint32_t to = span[i] == AN_NONE ? an_graph_last_node(build, edges->sync[i].call)
                                         : an_graph_span_last(build, span[i]);
        rc = an_graph_edge(build, an_graph_op_node(build, edges->sync[i].op), to,
                           AN_EDGE_SYNC | (edges->sync[i].inferred ? AN_EDGE_INFERRED : 0u));
    }
    return rc;
}

/* The last QUEUE_MOST ops of each stream, in order of launch, as a ring. */
struct queue {
    uint32_t *op;
    size_t count;
};

static int credit_edges(struct an_context *context, struct an_graph_build *build,
                        const struct an_device_edges *edges)
{
    const struct an_devices *devices = context->gpu;
    size_t *launched =
        an_arena_zero(context->scratch, context->trace->track_count, sizeof *launched);
    struct queue *queue =
        an_arena_zero(context->scratch, context->trace->track_count, sizeof *queue);
    int rc = launched && queue ? 0 : TACHO_ENOMEM;
    for (size_t i = 0; i < devices->op.count && !rc; i++)
        launched[devices->op.track[i]]++;
    for (size_t d = 0; d < devices->device_count && !rc; d++)
        for (size_t i = devices->device[d].first;
             i < devices->device[d].first + devices->by_launch_known[d] && !rc; i++) {
            uint32_t op = devices->by_launch[i], track = devices->op.track[op];
            struct queue *q = &queue[track];
            if (devices->op.launch[op] == AN_NONE || launched[track] <= QUEUE_MOST)
                continue;
            if (!q->op && !(q->op = an_arena_zero(context->scratch, QUEUE_MOST, sizeof *q->op)))
                return TACHO_ENOMEM;
            uint32_t *slot = &q->op[q->count++ % QUEUE_MOST];
            uint32_t call = an_call_outermost(context->trace, devices->op.launch[op]);
            if (q->count > QUEUE_MOST && edges->before[*slot] != AN_NONE &&
                devices->op.start[*slot] <= context->trace->slice.start[call])
                rc = an_graph_edge(build, an_graph_op_node(build, edges->before[*slot]),
                                   an_graph_first_node(build, call),
                                   AN_EDGE_CREDIT | AN_EDGE_INFERRED);
            *slot = op;
        }
    return rc;
}

static int device_edges(struct an_context *context, struct an_graph_build *build)
{
    const struct an_device_edges *edges;
    int rc = context->gpu ? an_device_edges_of(context->gpu, &edges) : 0;
    if (!context->gpu || rc)
        return rc;
    rc = launch_edges(context, build, edges);
    rc = rc ? rc : wait_edges(context, build, edges);
    return rc ? rc : credit_edges(context, build, edges);
}

const struct an_graph_builder an_graph_device = {"device", device_cuts, device_edges};
