/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that work while the thread of the steps stands still. PyTorch runs backward passes on a
 * thread of its own, and backward() returns when that thread is done. The step's thread gives it a
 * turn where the other thread, idle until then, begins while no range begins or ends on the step's
 * thread; the turn ends when the stillness ends. Where the ops of the other thread are marked as
 * backward, with the thread of their forward, the dependency is recorded, else it is inferred.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/graph/graph_private.h"

#define STILL_LEAST 20000 /* ns: a thread that waits for another one is still for that long */

/* One turn of the other thread. */
struct turn {
    uint32_t main, other; /* tracks */
    uint32_t wait;        /* span of the main thread's wait */
    uint32_t pause;       /* span of the other one's idle time before; AN_NONE: it had not begun */
    int64_t start, end;   /* of the stillness that the turn fills */
    bool marked;
};

struct turns {
    struct turn *turn;
    size_t count, room;
};

/* The search for the turns of one other thread. Its outermost ranges are passed in order while the
 * main thread's ranges are. */
struct search {
    struct an_graph_build *build;
    uint32_t main, other;
    size_t next, stop;  /* ranges of the other thread */
    int64_t busy_until; /* end of the ranges of the other thread passed so far; INT64_MIN: none */
    int64_t *open;      /* ends of the main thread's open ranges */
    size_t depth, room;
    int64_t still_since; /* when a range last began or ended on the main thread */
    struct turns *found;
};

/* Is it an outermost range of the other thread that says what the thread did? Marks and step
 * markers do not. */
static bool is_outer(const struct search *search, size_t i)
{
    const struct an_context *context = search->build->context;
    const struct an_trace *trace = context->trace;
    return trace->slice.dur[i] > 0 && trace->slice.parent[i] == AN_NONE &&
           an_slice_cause(context, search->build->graph->causes, i) != AN_CAUSE_UNTRACED;
}

static bool is_marked(const struct an_trace *trace, size_t i)
{
    const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[i]);
    return (detail && !strcmp(detail->pass, "backward")) ||
           !strncmp(an_trace_name(trace, trace->slice.name[i]), "autograd::engine", 16);
}

/* Passes the outermost ranges of the other thread that start before `time`. The start of the first
 * of them goes to *first , and *marked becomes true if one of them is marked as
 * backward. Returns whether there was any. */
static bool pass_ranges(struct search *search, int64_t time, int64_t *first, bool *marked)
{
    const struct an_trace *trace = search->build->context->trace;
    bool any = false;
    for (; search->next < search->stop && trace->slice.start[search->next] < time; search->next++) {
        size_t i = search->next;
        if (!is_outer(search, i))
            continue;
        if (!any)
            *first = trace->slice.start[i];
        any = true;
        *marked = *marked || is_marked(trace, i);
        if (an_slice_end(trace, i) > search->busy_until)
            search->busy_until = an_slice_end(trace, i);
    }
    return any;
}

/* Adds the turn that begins in the stillness [start, end) of the main thread, if there is one: the
 * other thread was idle when the stillness began, and a range begins on it before it ends. */
static int add_turn(struct search *search, int64_t start, int64_t end)
{
    struct an_graph_build *build = search->build;
    struct turns *found = search->found;
    struct turn turn = {.main = search->main, .other = search->other, .pause = AN_NONE, .end = end};
    pass_ranges(search, start, &turn.start, &turn.marked);
    int64_t idle_since = search->busy_until;
    turn.marked = false;
    if (!pass_ranges(search, end, &turn.start, &turn.marked) || idle_since > start ||
        turn.start >= end)
        return 0;
    if (an_grow(&found->turn, &found->room, found->count + 1, sizeof turn) ||
        an_graph_cut_span(build, turn.main, turn.start, end, AN_NONE, AN_NODE_WAIT,
                          AN_CAUSE_FRAMEWORK, &turn.wait))
        return TACHO_ENOMEM;
    if (idle_since != INT64_MIN &&
        an_graph_cut_span(build, turn.other, idle_since, turn.start, AN_NONE, AN_NODE_WAIT,
                          AN_CAUSE_FRAMEWORK, &turn.pause))
        return TACHO_ENOMEM;
    found->turn[found->count++] = turn;
    return 0;
}

/* Closes the main thread's ranges that end before `time`, and looks for a turn in every stillness
 * between two events of that thread. */
static int advance(struct search *search, int64_t time)
{
    for (;;) {
        bool ends = search->depth && search->open[search->depth - 1] <= time;
        int64_t event = ends ? search->open[search->depth - 1] : time;
        if (event > search->still_since) {
            if (an_time_sub(event, search->still_since) >= STILL_LEAST &&
                add_turn(search, search->still_since, event))
                return TACHO_ENOMEM;
            search->still_since = event;
        }
        if (!ends)
            return 0;
        search->depth--;
    }
}

/* Finds the turns of thread `other` while the thread `main` is still. */
static int find_turns(struct an_graph_build *build, uint32_t main, uint32_t other,
                      struct turns *found)
{
    const struct an_trace *trace = build->context->trace;
    const struct an_track *main_track = &trace->track[main], *other_track = &trace->track[other];
    struct search search = {.build = build,
                            .main = main,
                            .other = other,
                            .next = other_track->slice_first,
                            .stop = other_track->slice_first + other_track->slice_count,
                            .busy_until = INT64_MIN,
                            .still_since = INT64_MAX,
                            .found = found};
    size_t i = main_track->slice_first, end = i + main_track->slice_count;
    int rc = 0;
    if (i < end)
        search.still_since = trace->slice.start[i];
    for (; i < end && !rc; i++) {
        rc = advance(&search, trace->slice.start[i]);
        if (trace->slice.dur[i] <= 0 || rc)
            continue;
        rc = an_grow(&search.open, &search.room, search.depth + 1, sizeof *search.open);
        if (!rc)
            search.open[search.depth++] = an_slice_end(trace, i);
    }
    if (!rc && search.depth)
        rc = advance(&search, INT64_MAX);
    free(search.open);
    return rc;
}

/* Does a call on the thread launch device work? */
static bool launches(const struct an_context *context, const struct an_track *track)
{
    const struct an_devices *devices = context->gpu;
    size_t i = an_launch_seek(devices, track->slice_first);
    return i < devices->launch_count &&
           devices->launch_slice[i] < track->slice_first + track->slice_count;
}

/* Looks for turns of all threads that launch device work beside a thread that runs steps. */
static int backward_cuts(struct an_graph_build *build)
{
    struct an_context *context = build->context;
    const struct an_trace *trace = context->trace;
    struct turns *found = an_arena_zero(context->scratch, 1, sizeof *found);
    int rc = found ? 0 : TACHO_ENOMEM;
    *build->state = found;
    for (size_t lane = 0; lane < context->lane_count && !rc && context->gpu; lane++) {
        uint32_t main = context->lane[lane].track;
        bool skip = main == AN_NONE;
        for (size_t i = 0; i < lane && !skip; i++)
            skip = context->lane[i].track == main; /* one thread drives several devices */
        for (uint32_t other = 0; other < trace->track_count && !rc && !skip; other++)
            if (other != main && trace->track[other].process == trace->track[main].process &&
                !strcmp(trace->track[other].kind, "thread") &&
                launches(context, &trace->track[other]))
                rc = find_turns(build, main, other, found);
    }
    if (!found)
        return rc;
    struct turn *kept = an_arena_copy(context->scratch, found->turn, found->count * sizeof *kept);
    free(found->turn);
    found->turn = kept;
    return kept ? rc : TACHO_ENOMEM;
}

/* The other thread's last piece of work in a turn: the one at its end, or before. */
static uint32_t last_work(const struct an_graph *graph, const struct turn *turn)
{
    uint32_t node = an_graph_node_at(graph, turn->other, turn->end - 1);
    node = node == AN_NONE ? (uint32_t)graph->track_first[turn->other + 1] - 1 : node;
    while (node > graph->track_first[turn->other] &&
           (graph->start[node] >= turn->end || graph->slice[node] == AN_NONE))
        node--;
    return node;
}

/* Two edges a turn: from what the main thread did before its wait to the other thread's idle time,
 * and from the other thread's last work to the end of the wait. */
static int backward_edges(struct an_graph_build *build)
{
    const struct turns *found = *build->state;
    const struct an_graph *graph = build->graph;
    int rc = 0;
    for (size_t i = 0; i < found->count && !rc; i++) {
        const struct turn *turn = &found->turn[i];
        const struct an_graph_span *wait = &build->span[turn->wait];
        unsigned kind = AN_EDGE_HANDOFF | (turn->marked ? 0u : AN_EDGE_INFERRED);
        uint32_t idle = turn->pause == AN_NONE ? an_graph_node_at(graph, turn->other, turn->start)
                                               : build->span[turn->pause].last_node;
        if (wait->first_node == AN_NONE ||
            graph->track_first[turn->other] == graph->track_first[turn->other + 1])
            continue;
        rc = an_graph_edge(build, an_graph_before(graph, wait->first_node), idle, kind);
        rc = rc ? rc : an_graph_edge(build, last_work(graph, turn), wait->last_node, kind);
    }
    return rc;
}

const struct an_graph_builder an_graph_backward = {backward_cuts, backward_edges};
