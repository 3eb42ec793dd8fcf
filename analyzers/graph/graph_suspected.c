/* SPDX-License-Identifier: Apache-2.0
 *
 * Suspected waits: a library that polls inside a range waits for the device without any call that
 * says so. It shows as long time of a thread outside of every call of the API, while the device
 * works off what was launched before, and it ends when the last of that ends, or a while later
 * where its name says that it waits. Time that only looks like work of the host must not become a
 * limit of the step: it is cut as a wait for that op, and the edge is inferred.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/device/device_edges.h"
#include "analyzers/device/value_wait.h"
#include "analyzers/graph/graph_private.h"

#define LEAST_NS      200000 /* shorter pieces are not looked at */
#define MEETS_NS      100000 /* from the end of the op to the end of the piece, at most */
#define BUSY_PCT      90     /* of the piece, the devices of the process work */
#define SAID_BUSY_PCT 50     /* where its name says that it waits */
#define STREAMS_MOST  16
#define BACK_MOST     256 /* launches before the piece that are looked at */

/* A piece of a thread and the op that it waited for. */
struct suspected {
    uint32_t span, op;
};

struct suspects {
    struct suspected *found;
    size_t count, room;
};

/* Of the last ops that were launched on each stream of a device before `start`, the one that ended
 * last. It was queued when the piece began, or running where the name says that the piece waits,
 * and it ends near the end of the piece, or anywhere in it where the name says so. AN_NONE: none.
 */
static uint32_t awaited_of(const struct an_devices *gpu, size_t device, int64_t start, int64_t end,
                           bool says_so)
{
    int64_t meets = says_so ? INT64_MAX : MEETS_NS;
    uint32_t seen[STREAMS_MOST], best = AN_NONE;
    size_t streams = 0, first = gpu->device[device].first;
    size_t place = an_device_launch_seek(gpu, device, start);
    for (int back = 0; back < BACK_MOST && place > first && streams < STREAMS_MOST; back++) {
        uint32_t op = gpu->by_launch[--place];
        size_t stream = 0;
        while (stream < streams && seen[stream] != gpu->op.track[op])
            stream++;
        if (stream < streams)
            continue;
        seen[streams++] = gpu->op.track[op];
        bool queued = (says_so ? gpu->op.end[op] : gpu->op.start[op]) > start;
        if (queued && gpu->op.end[op] <= an_time_add(end, AN_EDGE_SLACK_NS) &&
            an_time_sub(end, gpu->op.end[op]) <= meets &&
            (best == AN_NONE || gpu->op.end[op] > gpu->op.end[best]))
            best = op;
    }
    return best;
}

/* The op that the piece [start, end) of a thread of that process waited for, AN_NONE: none. */
static uint32_t awaited(const struct an_context *context, uint32_t process, int64_t start,
                        int64_t end, bool says_so)
{
    const struct an_devices *gpu = context->gpu;
    for (size_t device = 0; device < gpu->device_count; device++) {
        const struct an_set *busy = &gpu->split[device].busy;
        if (gpu->device[device].process != process ||
            an_spans_within(busy->span, busy->count, start, end) <
                an_time_sub(end, start) / 100 * (says_so ? SAID_BUSY_PCT : BUSY_PCT))
            continue;
        uint32_t op = awaited_of(gpu, device, start, end, says_so);
        if (op != AN_NONE)
            return op;
    }
    return AN_NONE;
}

/* The innermost range of a thread at a time, AN_NONE: none, or one that only marks a step. */
static uint32_t range_at(const struct an_context *context, const struct an_causes *causes,
                         const struct an_track *track, int64_t time)
{
    const struct an_trace *trace = context->trace;
    size_t after = an_slice_seek(trace, track, an_time_add(time, 1));
    uint32_t slice = after > track->slice_first ? (uint32_t)(after - 1) : AN_NONE;
    for (int level = 0; slice != AN_NONE && an_slice_end(trace, slice) <= time; level++)
        slice = level < AN_DEPTH_MAX ? trace->slice.parent[slice] : AN_NONE;
    return slice == AN_NONE || an_slice_name_kind(context, causes, slice) == AN_TEXT_STEP ? AN_NONE
                                                                                          : slice;
}

/* Cuts what of [start, end) of a thread, which holds no call of the API, lies in the range around
 * its middle, where it is a suspected wait. */
static int look_at(struct an_graph_build *build, struct suspects *suspects, uint32_t track,
                   int64_t start, int64_t end)
{
    struct an_context *context = build->context;
    const struct an_trace *trace = context->trace;
    const struct an_track *thread = &trace->track[track];
    uint32_t span, op,
        slice = range_at(context, build->graph->causes, thread,
                         an_time_add(start, an_time_sub(end, start) / 2));
    if (slice == AN_NONE)
        return 0;
    start = trace->slice.start[slice] > start ? trace->slice.start[slice] : start;
    end = an_slice_end(trace, slice) < end ? an_slice_end(trace, slice) : end;
    if (an_time_sub(end, start) < LEAST_NS ||
        (op = awaited(context, thread->process, start, end,
                      an_slice_says_wait(context->trace, slice))) == AN_NONE)
        return 0;
    if (an_graph_cut_span(build, track, start, end, slice, AN_NODE_WAIT, AN_CAUSE_SUSPECTED,
                          &span) ||
        an_grow(&suspects->found, &suspects->room, suspects->count + 1, sizeof *suspects->found))
        return TACHO_ENOMEM;
    suspects->found[suspects->count++] = (struct suspected){span, op};
    return 0;
}

/* Looks at the pieces between the calls of the API on one thread. */
static int find_on_track(struct an_graph_build *build, struct suspects *suspects, uint32_t track)
{
    const struct an_context *context = build->context;
    const struct an_trace *trace = context->trace;
    const struct an_track *thread = &trace->track[track];
    int64_t until = INT64_MIN;
    int rc = 0;
    for (size_t i = thread->slice_first; i < an_track_end(thread) && !rc; i++) {
        if (an_slice_category_kind(context, build->graph->causes, i) != AN_TEXT_API)
            continue;
        if (until != INT64_MIN && an_time_sub(trace->slice.start[i], until) >= LEAST_NS)
            rc = look_at(build, suspects, track, until, trace->slice.start[i]);
        until = an_slice_end(trace, i) > until ? an_slice_end(trace, i) : until;
    }
    if (!rc && until != INT64_MIN && an_time_sub(trace->t1, until) >= LEAST_NS)
        rc = look_at(build, suspects, track, until, trace->t1);
    return rc;
}

/* Finds the suspected waits of all threads and cuts them. */
static int suspected_cuts(struct an_graph_build *build)
{
    struct an_context *context = build->context;
    struct suspects *suspects = an_arena_zero(context->scratch, 1, sizeof *suspects);
    struct suspected *found = NULL;
    int rc = suspects ? 0 : TACHO_ENOMEM;
    *build->state = suspects;
    for (uint32_t track = 0; context->gpu && track < context->trace->track_count && !rc; track++)
        if (!strcmp(context->trace->track[track].kind, "thread"))
            rc = find_on_track(build, suspects, track);
    if (!rc && suspects->count &&
        !(found = an_arena_copy(context->scratch, suspects->found,
                                suspects->count * sizeof *suspects->found)))
        rc = TACHO_ENOMEM;
    if (suspects)
        free(suspects->found);
    if (suspects)
        suspects->found = found;
    return rc;
}

static int suspected_edges(struct an_graph_build *build)
{
    const struct suspects *suspects = *build->state;
    int rc = 0;
    for (size_t i = 0; i < suspects->count && !rc; i++)
        rc = an_graph_edge(build, build->graph->op_node[suspects->found[i].op],
                           build->span[suspects->found[i].span].last_node,
                           AN_EDGE_SYNC | AN_EDGE_INFERRED);
    return rc;
}

const struct an_graph_builder an_graph_suspected = {suspected_cuts, suspected_edges};
