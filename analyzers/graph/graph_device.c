/* SPDX-License-Identifier: Apache-2.0
 *
 * The device side of the dependency graph: launches, waits between streams, calls that wait for the
 * device, and how far the host may run ahead. device_edges.h finds what waited for what.
 *
 * A copy that makes the host wait is launched by the same call that waits for it. The call is cut
 * where the copy starts: the piece before launches, the piece from there on waits.
 *
 * Run-ahead: a stream holds a limited number of launched ops that have not begun. The call that
 * launches one more waits until the oldest of them begins, which is not before the op ahead of that
 * one ended. The limit is known for CUDA (1024); the edges are inferred, and those that contradict
 * the recorded times are dropped like all others.
 */
#include "analyzers/device/device_edges.h"
#include "analyzers/graph/graph_private.h"

#define QUEUE_MOST 1024

static bool launches_itself(const struct an_context *context, const struct an_sync_edge *sync_edge)
{
    uint32_t launch = context->gpu->op.launch[sync_edge->op];
    return launch != AN_NONE && an_call_outermost(context->trace, launch) == sync_edge->call;
}

/* When the stream of `op` was free for it: the end of the last op that it had to wait for, or
 * `time`. */
static int64_t stream_free(const struct an_device_ops *ops, const struct an_device_edges *edges,
                           uint32_t op, int64_t time)
{
    uint32_t before = edges->before[op];
    if (before != AN_NONE && ops->end[before] > time)
        time = ops->end[before];
    for (size_t k = edges->first[op]; k < edges->first[op + 1]; k++)
        time = ops->end[edges->from[k]] > time ? ops->end[edges->from[k]] : time;
    return time;
}

/* Cuts a copying call in two. Its launching takes as long as from when the stream was free until
 * the copy began; then it waits for what its stream did or waited for before, and for its copy. */
static int cut_copy(struct an_graph_build *build, const struct an_device_edges *edges,
                    const struct an_sync_edge *sync_edge, uint32_t *span)
{
    struct an_context *context = build->context;
    const struct an_device_ops *ops = &context->gpu->op;
    int64_t start = context->trace->slice.start[sync_edge->call],
            end = an_slice_end(context->trace, sync_edge->call);
    int64_t launching = an_time_sub(ops->start[sync_edge->op],
                                    stream_free(ops, edges, sync_edge->op, start)),
            wait_start = an_time_add(start, launching > 0 ? launching : 1);
    an_graph_cut(build, sync_edge->call, AN_NODE_HOST, AN_CAUSE_COPY);
    return wait_start >= end
               ? 0
               : an_graph_cut_span(build, an_slice_track(context->trace, sync_edge->call),
                                   wait_start, end, sync_edge->call, AN_NODE_WAIT, AN_CAUSE_COPY,
                                   span);
}

/* Cuts the calls that wait for the device. The builder's state is, of every sync edge, the span of
 * the call that waits; AN_NONE: the whole call does. */
static int device_cuts(struct an_graph_build *build)
{
    struct an_context *context = build->context;
    const struct an_device_edges *edges;
    int rc = context->gpu ? an_device_edges_of(context->gpu, &edges) : 0;
    if (!context->gpu || rc)
        return rc;
    uint32_t *span = *build->state =
        an_arena_zero(context->scratch, edges->sync_count, sizeof *span);
    if (!span)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < edges->sync_count && !rc; i++) {
        const struct an_sync_edge *sync_edge = &edges->sync[i];
        bool first = !i || edges->sync[i - 1].call != sync_edge->call;
        span[i] = AN_NONE;
        if (!launches_itself(context, sync_edge))
            an_graph_cut(build, sync_edge->call, AN_NODE_WAIT,
                         an_slice_api(context->trace, sync_edge->call).kind == AN_API_FREE
                             ? AN_CAUSE_ALLOCATION
                             : AN_CAUSE_SYNC);
        else if (first)
            rc = cut_copy(build, edges, sync_edge, &span[i]);
        else
            span[i] = span[i - 1];
    }
    return rc;
}

static int launch_edges(struct an_graph_build *build, const struct an_device_edges *edges)
{
    const struct an_trace *trace = build->context->trace;
    const struct an_device_ops *ops = &build->context->gpu->op;
    int rc = 0;
    for (uint32_t op = 0; op < ops->count && !rc; op++) {
        if (ops->launch[op] == AN_NONE)
            continue;
        uint32_t call = an_call_outermost(trace, ops->launch[op]);
        size_t sync = an_sync_seek(edges, call);
        bool waits = sync < edges->sync_count && edges->sync[sync].call == call;
        rc = an_graph_edge(build, waits ? build->first_node[call] : build->last_node[call],
                           an_graph_op_start(build->graph, op), AN_EDGE_LAUNCH);
    }
    return rc;
}

/* Edges from ops to the ops of other streams, and to the calls, that wait for them. */
static int wait_edges(struct an_graph_build *build, const struct an_device_edges *edges)
{
    const struct an_graph *graph = build->graph;
    const uint32_t *span = *build->state;
    int rc = 0;
    for (uint32_t op = 0; op < build->context->gpu->op.count && !rc; op++)
        for (size_t k = edges->first[op]; k < edges->first[op + 1] && !rc; k++)
            rc = an_graph_edge(build, graph->op_node[edges->from[k]], an_graph_op_start(graph, op),
                               AN_EDGE_STREAM | (edges->inferred[k] ? AN_EDGE_INFERRED : 0u));
    for (size_t i = 0; i < edges->sync_count && !rc; i++) {
        const struct an_sync_edge *sync_edge = &edges->sync[i];
        if (launches_itself(build->context, sync_edge) && span[i] == AN_NONE)
            continue; /* the call ended before its copy began */
        uint32_t to =
            span[i] == AN_NONE ? build->last_node[sync_edge->call] : build->span[span[i]].last_node;
        rc = an_graph_edge(build, graph->op_node[sync_edge->op], to,
                           AN_EDGE_SYNC | (sync_edge->inferred ? AN_EDGE_INFERRED : 0u));
    }
    return rc;
}

/* The last QUEUE_MOST ops of a stream in order of launch, as a ring. */
struct queue {
    uint32_t *op;
    size_t count;
};

/* Adds `op` to its stream's ring. Where the ring is full, the op that it replaces had to begin
 * before this one could be launched: an edge from the op ahead of that one to the launching call.
 */
static int queue_op(struct an_graph_build *build, const struct an_device_edges *edges,
                    struct queue *queue, uint32_t op)
{
    struct an_context *context = build->context;
    const struct an_device_ops *ops = &context->gpu->op;
    int rc = 0;
    if (!queue->op && !(queue->op = an_arena_zero(context->scratch, QUEUE_MOST, sizeof *queue->op)))
        return TACHO_ENOMEM;
    uint32_t *oldest = &queue->op[queue->count++ % QUEUE_MOST];
    uint32_t call = an_call_outermost(context->trace, ops->launch[op]);
    if (queue->count > QUEUE_MOST && edges->before[*oldest] != AN_NONE &&
        ops->start[*oldest] <= context->trace->slice.start[call])
        rc = an_graph_edge(build, build->graph->op_node[edges->before[*oldest]],
                           build->first_node[call], AN_EDGE_CREDIT | AN_EDGE_INFERRED);
    *oldest = op;
    return rc;
}

static int credit_edges(struct an_graph_build *build, const struct an_device_edges *edges)
{
    struct an_context *context = build->context;
    const struct an_devices *devices = context->gpu;
    size_t tracks = context->trace->track_count;
    size_t *launched = an_arena_zero(context->scratch, tracks, sizeof *launched);
    struct queue *queues = an_arena_zero(context->scratch, tracks, sizeof *queues);
    int rc = launched && queues ? 0 : TACHO_ENOMEM;
    for (size_t i = 0; i < devices->op.count && !rc; i++)
        launched[devices->op.track[i]]++;
    for (size_t d = 0; d < devices->device_count; d++) {
        size_t first = devices->device[d].first;
        for (size_t i = first; i < first + devices->by_launch_known[d] && !rc; i++) {
            uint32_t op = devices->by_launch[i], track = devices->op.track[op];
            if (devices->op.launch[op] != AN_NONE && launched[track] > QUEUE_MOST)
                rc = queue_op(build, edges, &queues[track], op);
        }
    }
    return rc;
}

static int device_edges(struct an_graph_build *build)
{
    const struct an_device_edges *edges;
    struct an_devices *devices = build->context->gpu;
    int rc = devices ? an_device_edges_of(devices, &edges) : 0;
    if (!devices || rc)
        return rc;
    rc = launch_edges(build, edges);
    rc = rc ? rc : wait_edges(build, edges);
    return rc ? rc : credit_edges(build, edges);
}

const struct an_graph_builder an_graph_device = {device_cuts, device_edges};
