/* SPDX-License-Identifier: Apache-2.0
 *
 * Communication that the next kernel waits for (docs/definitions.md). From the kernel that ends a
 * gap the walk goes back over the ops that it depends on, as long as they ended inside the gap: by
 * the order of streams, by waits between streams, and by calls of the launching thread that waited
 * for an op. Communication on such a way blocks. It is proven if the file records every part of
 * the way, and inferred if a part follows from times only, or from a wait of another thread of the
 * process.
 */
#include "analyzers/budget/noncompute.h"

#define OPS_MOST 256 /* on the ways back from one kernel */

struct way {
    struct an_context *context;
    const struct an_device_edges *edges;
    struct an_compute_gap gap;
    bool inferred; /* follow inferred edges too */
    uint32_t op[OPS_MOST];
    size_t count;
};

/* Adds the op to the way if it ended inside the gap; then the way goes on from it. */
static void reach(struct way *way, uint32_t op)
{
    if (way->context->gpu->op.end[op] <= way->gap.start || way->count == OPS_MOST)
        return;
    for (size_t i = 0; i < way->count; i++)
        if (way->op[i] == op)
            return;
    way->op[way->count++] = op;
}

static void reach_sync(struct way *way, size_t i, int64_t until)
{
    if ((way->inferred || !way->edges->sync[i].inferred) &&
        way->context->gpu->op.end[way->edges->sync[i].op] <= until)
        reach(way, way->edges->sync[i].op);
}

/* Follows the calls of a thread that returned inside the gap and before `launched`. */
static void reach_thread(struct way *way, uint32_t track, int64_t launched)
{
    const struct an_trace *trace = way->context->trace;
    const struct an_track *thread = &trace->track[track];
    size_t i = an_sync_seek(way->edges, an_slice_seek(trace, thread, launched));
    while (i-- > 0 && way->edges->sync[i].call >= thread->slice_first) {
        int64_t end = an_slice_end(trace, way->edges->sync[i].call);
        if (end <= way->gap.start)
            break;
        if (end <= launched)
            reach_sync(way, i, an_time_add(end, AN_EDGE_SLACK_NS));
    }
}

/* Follows the calls that waited before the op was launched and returned inside the gap: those
 * of the launching thread, and where inferred ways count those of the other threads of its
 * process. */
static void reach_host(struct way *way, uint32_t op)
{
    const struct an_trace *trace = way->context->trace;
    const struct an_device_edges *edges = way->edges;
    uint32_t launch = way->context->gpu->op.launch[op];
    if (launch == AN_NONE)
        return;
    uint32_t thread = an_slice_track(trace, launch);
    size_t process = an_edge_process(trace, thread);
    if (!way->inferred)
        reach_thread(way, thread, trace->slice.start[launch]);
    for (size_t k = edges->sync_of[process]; k < edges->sync_of[process + 1] && way->inferred; k++)
        reach_thread(way, edges->sync_track[k], trace->slice.start[launch]);
}

static void walk_back(struct way *way)
{
    way->count = 0;
    way->op[way->count++] = way->gap.next;
    for (size_t i = 0; i < way->count; i++) {
        uint32_t op = way->op[i];
        if (way->edges->before[op] != AN_NONE)
            reach(way, way->edges->before[op]);
        for (size_t k = way->edges->first[op]; k < way->edges->first[op + 1]; k++)
            if (way->inferred || !way->edges->inferred[k])
                reach(way, way->edges->from[k]);
        reach_host(way, op);
    }
}

int an_blocking_gap(struct an_context *context, const struct an_device_edges *edges,
                    struct an_compute_gap gap, struct an_span_list *proven,
                    struct an_span_list *inferred)
{
    const struct an_device_ops *ops = &context->gpu->op;
    struct way way = {.context = context, .edges = edges, .gap = gap};
    int rc = 0;
    for (int pass = 0; pass < 2 && !rc; pass++) {
        way.inferred = pass;
        walk_back(&way);
        for (size_t i = 0; i < way.count && !rc; i++) {
            uint32_t op = way.op[i];
            int64_t start = ops->start[op] > gap.start ? ops->start[op] : gap.start;
            int64_t end = ops->end[op] < gap.end ? ops->end[op] : gap.end;
            if (ops->class[op] == AN_DEVICE_COMM)
                rc = an_span_list_add(pass ? inferred : proven, start, end);
        }
    }
    return rc;
}
