/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host did in the segments of a critical path. The innermost range decides; a range that
 * has no cause of its own takes the cause of the range around it. Only the ranges under the
 * segments of the path are looked at, not all ranges of the trace.
 */
#include <stdlib.h>

#include "analyzers/graph/critical_path.h"

struct labeller {
    const struct an_context *context;
    const struct an_graph *graph;
    struct an_path_segment *segment; /* labelled so far */
    size_t count, room;
};

/* Range i or the innermost one around it that is open at `time`; AN_NONE: none is. */
static uint32_t open_at(const struct an_trace *trace, uint32_t slice, int64_t time)
{
    for (int depth = 0; slice != AN_NONE && depth < AN_DEPTH_MAX;
         depth++, slice = trace->slice.parent[slice])
        if (trace->slice.start[slice] <= time && an_slice_end(trace, slice) > time)
            return slice;
    return AN_NONE;
}

static bool is_weak(enum an_cause cause)
{
    return cause == AN_CAUSE_FRAMEWORK || cause == AN_CAUSE_UNTRACED;
}

/* Cause of time in range i: its own, else that of a range around it; a phase takes all in it. */
static enum an_cause cause_in(const struct labeller *labeller, uint32_t slice)
{
    enum an_cause best = AN_CAUSE_UNTRACED;
    for (int depth = 0; slice != AN_NONE && depth < AN_DEPTH_MAX;
         depth++, slice = labeller->context->trace->slice.parent[slice]) {
        enum an_cause own = an_slice_cause(labeller->context, labeller->graph->causes, slice);
        if (own == AN_CAUSE_PHASE)
            return own;
        if (is_weak(best) && (!is_weak(own) || best == AN_CAUSE_UNTRACED))
            best = own;
    }
    return best;
}

/* Appends a piece; it extends the piece before if both are of the same range and node. */
static int add(struct labeller *labeller, struct an_path_segment segment)
{
    struct an_path_segment *last = labeller->count ? &labeller->segment[labeller->count - 1] : NULL;
    if (segment.cause == AN_CAUSE_UNTRACED && segment.how == AN_PATH_RECORDED)
        segment.how = AN_PATH_INFERRED; /* what the thread did is not known */
    if (last && last->link == AN_PATH_SAME && last->node == segment.node &&
        last->slice == segment.slice && last->cause == segment.cause) {
        last->end = segment.end;
        last->link = segment.link;
        return 0;
    }
    if (an_grow(&labeller->segment, &labeller->room, labeller->count + 1,
                sizeof *labeller->segment))
        return TACHO_ENOMEM;
    labeller->segment[labeller->count++] = segment;
    return 0;
}

static int add_piece(struct labeller *labeller, const struct an_path_segment *segment,
                     int64_t start, int64_t end, uint32_t slice)
{
    struct an_path_segment piece = *segment;
    bool waits = an_graph_waits(labeller->graph, segment->node);
    piece.start = start;
    piece.end = end;
    piece.slice = slice;
    piece.cause = (uint8_t)(waits ? segment->cause : cause_in(labeller, slice));
    if (slice != AN_NONE && piece.how == AN_PATH_RECORDED &&
        an_slice_inferred(labeller->context->trace, slice))
        piece.how = AN_PATH_INFERRED;
    piece.link = end == segment->end ? segment->link : AN_PATH_SAME;
    return add(labeller, piece);
}

/* Splits a host segment where the innermost open range changes, and adds one piece for each
 * range. */
static int label_host(struct labeller *labeller, const struct an_path_segment *segment)
{
    const struct an_trace *trace = labeller->context->trace;
    const struct an_track *track = &trace->track[labeller->graph->track[segment->node]];
    size_t i = an_slice_seek(trace, track, segment->start),
           end = track->slice_first + track->slice_count;
    uint32_t innermost =
        i > track->slice_first ? open_at(trace, (uint32_t)i - 1, segment->start) : AN_NONE;
    int64_t time = segment->start;
    int rc = 0;
    while (!rc && time < segment->end) {
        int64_t next =
            i < end && trace->slice.start[i] < segment->end ? trace->slice.start[i] : segment->end;
        int64_t until = innermost != AN_NONE && an_slice_end(trace, innermost) < next
                            ? an_slice_end(trace, innermost)
                            : next;
        if (until > time)
            rc = add_piece(labeller, segment, time, until, innermost);
        time = until;
        if (time < next) {
            innermost = open_at(trace, trace->slice.parent[innermost], time);
        } else if (time < segment->end) {
            if (trace->slice.dur[i] != 0)
                innermost = (uint32_t)i;
            i++;
        }
    }
    return rc;
}

/* Drops a segment that lasts no time: the segment before it now leads to the one after it. A link
 * by an edge says more than one by program order, so it is the one that stays. */
static void drop_empty(struct labeller *labeller, const struct an_path_segment *segment)
{
    struct an_path_segment *last = labeller->count ? &labeller->segment[labeller->count - 1] : NULL;
    if (!last || last->link == AN_PATH_NONE)
        return;
    if (last->link == AN_PATH_ORDER || last->link == AN_PATH_SAME ||
        segment->link >= AN_PATH_NEAREST || segment->link == AN_EDGE_COLLECTIVE)
        last->link = segment->link;
    if (segment->how == AN_PATH_INFERRED && last->how == AN_PATH_RECORDED)
        last->how = segment->how;
}

int an_path_label(const struct an_context *context, const struct an_graph *graph,
                  struct an_path_walk *walk)
{
    struct labeller labeller = {.context = context, .graph = graph};
    int rc = 0;
    for (size_t i = 0; i < walk->count && !rc; i++) {
        const struct an_path_segment *segment = &walk->segment[i];
        if (segment->start == segment->end) {
            drop_empty(&labeller, segment);
            continue;
        }
        if (segment->cause == AN_CAUSE_DISPATCH || segment->cause == AN_CAUSE_OPAQUE) {
            struct an_path_segment piece = *segment;
            piece.slice = AN_NONE;
            rc = add(&labeller, piece);
        } else if (segment->node == AN_NONE || an_graph_on_device(graph, segment->node)) {
            struct an_path_segment piece = *segment;
            piece.slice = segment->node == AN_NONE ? AN_NONE : graph->slice[segment->node];
            rc = add(&labeller, piece);
        } else {
            rc = label_host(&labeller, segment);
        }
    }
    free(walk->segment);
    walk->segment = labeller.segment;
    walk->count = labeller.count;
    walk->room = labeller.room;
    return rc;
}
