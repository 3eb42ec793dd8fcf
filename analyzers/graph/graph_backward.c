/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that work while the thread of the steps stands still: backward passes of PyTorch run on a
 * thread of their own, and backward() returns when that one is done. The step's thread hands over
 * where the other one, that was idle, begins while no range begins or ends on it, and gets back
 * when the stillness ends. Where the ops of the other thread are marked as backward, with the
 * thread of their forward, the hand-over is recorded, else it is inferred.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/graph/graph.h"

/* One turn of the other thread. */
struct turn {
    uint32_t main, other; /* tracks */
    uint32_t wait;        /* span of the main thread's wait */
    uint32_t pause;       /* span of the other one's idle time before, AN_NONE: it had not begun */
    int64_t start, end;   /* of the stillness that the turn fills */
    bool marked;
};

struct turns {
    struct turn *at;
    size_t count, room;
};

/* Outermost ranges of a thread, looked at in order. */
struct outer {
    const struct an_trace *trace;
    size_t i, stop;
    int64_t end; /* of the ranges passed: the last one; INT64_MIN: none was passed */
};

/* Is the range on the thread at all: marks and what a step is marked with tell nothing of its work.
 */
static bool is_outer(const struct an_context *context, const struct an_graph *graph, size_t i)
{
    const struct an_trace *trace = context->trace;
    return trace->slice.dur[i] > 0 && trace->slice.parent[i] == AN_NONE &&
           an_slice_cause(context, graph->causes, i) != AN_CAUSE_THINK;
}

static bool is_marked(const struct an_trace *trace, size_t i)
{
    const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[i]);
    return (detail && !strcmp(detail->pass, "backward")) ||
           !strncmp(an_trace_name(trace, trace->slice.name[i]), "autograd::engine", 16);
}

/* Takes the turn that begins in the stillness [start, end) of the main thread, if there is one. */
static int take_turn(struct an_context *context, struct an_graph_build *build, struct outer *outer,
                     uint32_t main, uint32_t other, int64_t start, int64_t end, struct turns *out)
{
    const struct an_graph *graph = an_graph_built(build);
    const struct an_trace *trace = context->trace;
    struct turn turn = {.main = main, .other = other, .pause = AN_NONE, .end = end};
    for (; outer->i < outer->stop && trace->slice.start[outer->i] < start; outer->i++)
        if (is_outer(context, graph, outer->i) && an_slice_end(trace, outer->i) > outer->end)
            outer->end = an_slice_end(trace, outer->i);
    int64_t idle_since = outer->end;
    bool any = false;
    for (; outer->i < outer->stop && trace->slice.start[outer->i] < end; outer->i++) {
        if (!is_outer(context, graph, outer->i))
            continue;
        if (!any)
            turn.start = trace->slice.start[outer->i];
        any = true;
        turn.marked = turn.marked || is_marked(trace, outer->i);
        outer->end =
            an_slice_end(trace, outer->i) > outer->end ? an_slice_end(trace, outer->i) : outer->end;
    }
    if (!any || idle_since > start || turn.start >= end)
        return 0;
    if (an_grow(&out->at, &out->room, out->count + 1, sizeof *out->at) ||
        an_graph_cut_span(build, main, turn.start, end, AN_NONE, AN_NODE_WAIT, AN_CAUSE_FRAMEWORK,
                          &turn.wait))
        return TACHO_ENOMEM;
    if (idle_since != INT64_MIN && an_graph_cut_span(build, other, idle_since, turn.start, AN_NONE,
                                                     AN_NODE_WAIT, AN_CAUSE_FRAMEWORK, &turn.pause))
        return TACHO_ENOMEM;
    out->at[out->count++] = turn;
    return 0;
}

/* ---- stillness ----------------------------------------------------------------------------------------------------------- */

#define STILL_LEAST 20000 /* ns: a thread that waits for another one is still that long */

struct still {
    int64_t *open; /* ends of the ranges that are open */
    size_t depth, room;
    int64_t since;
};

/* Passes the ends up to `time`; calls back for each stillness between two events. */
static int still_to(struct still *still, struct an_context *context, struct an_graph_build *build,
                    struct outer *outer, uint32_t main, uint32_t other, int64_t time,
                    struct turns *out)
{
    int rc = 0;
    while (!rc) {
        bool ends = still->depth && still->open[still->depth - 1] <= time;
        int64_t event = ends ? still->open[still->depth - 1] : time;
        if (event > still->since) {
            if (an_time_sub(event, still->since) >= STILL_LEAST)
                rc = take_turn(context, build, outer, main, other, still->since, event, out);
            still->since = event;
        }
        if (!ends)
            break;
        still->depth--;
    }
    return rc;
}

static int find_turns(struct an_context *context, struct an_graph_build *build, uint32_t main,
                      uint32_t other, struct turns *out)
{
    const struct an_trace *trace = context->trace;
    const struct an_track *k = &trace->track[main], *x = &trace->track[other];
    struct outer outer = {trace, x->slice_first, x->slice_first + x->slice_count, INT64_MIN};
    struct still still = {.since = INT64_MAX};
    int rc = 0;
    for (size_t i = k->slice_first; i < k->slice_first + k->slice_count && !rc; i++) {
        if (still.since == INT64_MAX)
            still.since = trace->slice.start[i];
        rc = still_to(&still, context, build, &outer, main, other, trace->slice.start[i], out);
        if (trace->slice.dur[i] <= 0 || rc)
            continue;
        rc = an_grow(&still.open, &still.room, still.depth + 1, sizeof *still.open);
        if (!rc)
            still.open[still.depth++] = an_slice_end(trace, i);
    }
    if (!rc && still.depth)
        rc = still_to(&still, context, build, &outer, main, other, INT64_MAX, out);
    free(still.open);
    return rc;
}

/* ---- builder ------------------------------------------------------------------------------------------------------------- */

static bool launches(const struct an_context *context, const struct an_track *track)
{
    const struct an_devices *devices = context->gpu;
    size_t i = an_launch_seek(devices, track->slice_first);
    return i < devices->launch_count &&
           devices->launch_slice[i] < track->slice_first + track->slice_count;
}

static int backward_cuts(struct an_context *context, struct an_graph_build *build)
{
    const struct an_trace *trace = context->trace;
    struct turns *out = an_arena_zero(context->scratch, 1, sizeof *out);
    int rc = out ? 0 : TACHO_ENOMEM;
    *an_graph_state(build) = out;
    for (size_t l = 0; l < context->lane_count && !rc && context->gpu; l++) {
        uint32_t main = context->lane[l].track;
        bool again = main == AN_NONE;
        for (size_t p = 0; p < l && !again; p++)
            again = context->lane[p].track == main; /* one thread drives several devices */
        for (uint32_t k = 0; k < trace->track_count && !rc && !again; k++)
            if (k != main && trace->track[k].process == trace->track[main].process &&
                !strcmp(trace->track[k].kind, "thread") && launches(context, &trace->track[k]))
                rc = find_turns(context, build, main, k, out);
    }
    struct turn *kept =
        out ? an_arena_copy(context->scratch, out->at, out->count * sizeof *kept) : NULL;
    if (out) {
        free(out->at);
        out->at = kept;
    }
    return kept ? rc : TACHO_ENOMEM;
}

/* Last piece of work of the other thread in a turn: the one at its end, or before. */
static uint32_t last_of(const struct an_graph *graph, const struct turn *turn)
{
    uint32_t n = an_graph_node_at(graph, turn->other, turn->end - 1);
    n = n == AN_NONE ? (uint32_t)graph->track_first[turn->other + 1] - 1 : n;
    while (n > graph->track_first[turn->other] &&
           (graph->start[n] >= turn->end || graph->slice[n] == AN_NONE))
        n--;
    return n;
}

static int backward_edges(struct an_context *context, struct an_graph_build *build)
{
    const struct turns *all = *an_graph_state(build);
    const struct an_graph *graph = an_graph_built(build);
    int rc = 0;
    (void)context;
    for (size_t i = 0; i < all->count && !rc; i++) {
        const struct turn *turn = &all->at[i];
        unsigned kind = AN_EDGE_HANDOFF | (turn->marked ? 0u : AN_EDGE_INFERRED);
        uint32_t wait = an_graph_span_first(build, turn->wait),
                 last = an_graph_span_last(build, turn->wait);
        uint32_t idle = turn->pause == AN_NONE ? an_graph_node_at(graph, turn->other, turn->start)
                                               : an_graph_span_last(build, turn->pause);
        if (wait == AN_NONE ||
            graph->track_first[turn->other] == graph->track_first[turn->other + 1])
            continue;
        rc = an_graph_edge(build, an_graph_before(graph, wait), idle, kind);
        rc = rc ? rc : an_graph_edge(build, last_of(graph, turn), last, kind);
    }
    return rc;
}

const struct an_graph_builder an_graph_backward = {"backward", backward_cuts, backward_edges};
