/* SPDX-License-Identifier: Apache-2.0
 *
 * Dependencies between the thread that runs steps and a thread that communicates for it (comm-0 of
 * the reference engine). What the step's thread finishes lets a waiting communication thread begin,
 * and what that thread has done lets a comm_wait end.
 *
 * A range comm_wait says that it waits for the collectives of its step, and a range comm_post says
 * how many of them the step's thread posts, in order: these edges are recorded. Without comm_post
 * only times say which piece of backward posted a bucket of gradients.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/graph/graph_private.h"

/* Of every track. */
struct helpers {
    uint32_t *main; /* the step's thread that it communicates for; AN_NONE: it does not */
    bool *posts;    /* comm_post ranges lie on it */
};

/* The role of a range. In traces of other tools it comes from the name; where there is a device,
 * names on the host only say what the host asks for, so they do not count. */
static enum an_role role_of(const struct an_context *context, size_t i)
{
    return context->gpu ? an_trace_role(context->trace, context->trace->slice.detail[i])
                        : an_slice_role(context->trace, i);
}

static bool has_role(const struct an_context *context, const struct an_track *track,
                     enum an_role role)
{
    for (size_t i = track->slice_first; i < track->slice_first + track->slice_count; i++)
        if (role_of(context, i) == role)
            return true;
    return false;
}

static int engine_cuts(struct an_graph_build *build)
{
    struct an_context *context = build->context;
    const struct an_trace *trace = context->trace;
    struct helpers *helpers = an_arena_zero(context->scratch, 1, sizeof *helpers);
    size_t tracks = trace->track_count + 1;
    int rc = 0;
    if (!helpers ||
        !(helpers->main = an_arena_zero(context->scratch, tracks, sizeof *helpers->main)) ||
        !(helpers->posts = an_arena_zero(context->scratch, tracks, sizeof *helpers->posts)))
        return TACHO_ENOMEM;
    for (uint32_t track = 0; track < trace->track_count && !rc; track++) {
        uint32_t main = an_main_track(context, trace->track[track].process);
        helpers->main[track] = AN_NONE;
        if (main == AN_NONE || main == track || strcmp(trace->track[track].kind, "thread") ||
            !has_role(context, &trace->track[track], AN_ROLE_COMM))
            continue;
        helpers->main[track] = main;
        helpers->posts[main] = has_role(context, &trace->track[main], AN_ROLE_COMM_POST);
        rc = an_graph_cut_pauses(build, track, AN_CAUSE_FRAMEWORK);
    }
    *build->state = helpers;
    return rc;
}

/* The last piece of work of a track that ended at `time` or before; AN_NONE: none exists. */
static uint32_t done_before(const struct an_graph *graph, uint32_t track, int64_t time)
{
    uint32_t node = an_graph_node_at(graph, track, time);
    node = node == AN_NONE ? (uint32_t)graph->track_first[track + 1] : node;
    while (node > graph->track_first[track]) {
        node--;
        if (graph->slice[node] != AN_NONE && graph->kind[node] != AN_NODE_UNTRACED)
            return node;
    }
    return AN_NONE;
}

/* The step's thread released the communication thread when a piece of its work ended during the
 * pause. */
static int pause_edges(struct an_graph_build *build, const struct an_graph_pause *pause,
                       uint32_t main)
{
    const struct an_graph *graph = build->graph;
    uint32_t from = done_before(graph, main, pause->end);
    if (from == AN_NONE || graph->end[from] <= pause->start)
        return 0;
    return an_graph_edge(build, from, build->span[pause->span].last_node,
                         AN_EDGE_HANDOFF | AN_EDGE_INFERRED);
}

/* Edges from the helper's last work before each comm_wait of the step's thread ends to that wait.
 */
static int wait_edges(struct an_graph_build *build, const struct helpers *helpers, uint32_t helper)
{
    const struct an_trace *trace = build->context->trace;
    const struct an_graph *graph = build->graph;
    const struct an_track *main = &trace->track[helpers->main[helper]];
    int rc = 0;
    for (size_t i = main->slice_first; i < main->slice_first + main->slice_count && !rc; i++) {
        if (role_of(build->context, i) != AN_ROLE_COMM_WAIT)
            continue;
        bool recorded = an_trace_role(trace, trace->slice.detail[i]) == AN_ROLE_COMM_WAIT;
        uint32_t from = done_before(graph, helper, an_slice_end(trace, i));
        rc = an_graph_edge(build, from, build->last_node[i],
                           AN_EDGE_HANDOFF | (recorded ? 0u : AN_EDGE_INFERRED));
    }
    return rc;
}

/* ---- recorded dependencies ------------------------------------------------------------------------------------------------- */

/* The first node of the job whose collective is slice `i`: the pause before it, or before the range
 * that packs its buffer. */
static uint32_t job_begins(const struct an_graph_build *build, const struct an_track *track,
                           size_t i)
{
    const struct an_trace *trace = build->context->trace;
    if (i > track->slice_first &&
        an_trace_role(trace, trace->slice.detail[i - 1]) == AN_ROLE_HOST &&
        !strcmp(an_trace_name(trace, trace->slice.name[i - 1]), "pack"))
        i--;
    uint32_t first = build->first_node[i];
    const struct an_graph *graph = build->graph;
    uint32_t before = first != AN_NONE ? an_graph_before(graph, first) : AN_NONE;
    return before != AN_NONE && graph->kind[before] == AN_NODE_WAIT &&
                   graph->slice[before] == AN_NONE
               ? before
               : first;
}

/* The next collective of a thread from row `i` on that starts at `time` or later; the row after the
 * thread's last one if none exists. */
static size_t next_collective(const struct an_trace *trace, const struct an_track *track, size_t i,
                              int64_t time)
{
    while (i < track->slice_first + track->slice_count &&
           (an_trace_role(trace, trace->slice.detail[i]) != AN_ROLE_COMM ||
            trace->slice.start[i] < time))
        i++;
    return i;
}

/* The first comm_wait of the step's thread from row `i` on; it ends when all collectives posted
 * before it are done. */
static size_t next_wait(const struct an_trace *trace, const struct an_track *main, size_t i)
{
    while (i < main->slice_first + main->slice_count &&
           an_trace_role(trace, trace->slice.detail[i]) != AN_ROLE_COMM_WAIT)
        i++;
    return i;
}

/* Edges from every comm_post to the collectives that it posted: those of a step, which begin before
 * its comm_wait ends, belong to its comm_posts in order. */
static int post_edges(struct an_graph_build *build, const struct helpers *helpers, uint32_t helper)
{
    const struct an_trace *trace = build->context->trace;
    const struct an_track *main = &trace->track[helpers->main[helper]],
                          *track = &trace->track[helper];
    size_t job = track->slice_first, end = track->slice_first + track->slice_count,
           last = main->slice_first + main->slice_count, wait = 0;
    int rc = 0;
    for (size_t i = main->slice_first; i < last && !rc; i++) {
        if (an_trace_role(trace, trace->slice.detail[i]) != AN_ROLE_COMM_POST)
            continue;
        int64_t jobs = an_trace_detail(trace, trace->slice.detail[i])->samples;
        wait = wait < i ? next_wait(trace, main, i) : wait;
        int64_t until = wait < last ? an_slice_end(trace, wait) : INT64_MAX;
        for (; jobs > 0 && !rc; jobs--, job++) {
            job = next_collective(trace, track, job, trace->slice.start[i]);
            if (job == end || trace->slice.start[job] >= until)
                break;
            rc = an_graph_edge(build, build->last_node[i], job_begins(build, track, job),
                               AN_EDGE_HANDOFF);
        }
    }
    return rc;
}

static int engine_edges(struct an_graph_build *build)
{
    const struct helpers *helpers = *build->state;
    int rc = 0;
    for (size_t i = 0; i < build->pause_count && !rc; i++) {
        uint32_t main = helpers->main[build->pause[i].track];
        if (main != AN_NONE && !helpers->posts[main])
            rc = pause_edges(build, &build->pause[i], main);
    }
    for (uint32_t track = 0; track < build->context->trace->track_count && !rc; track++)
        if (helpers->main[track] != AN_NONE) {
            rc = wait_edges(build, helpers, track);
            if (!rc && helpers->posts[helpers->main[track]])
                rc = post_edges(build, helpers, track);
        }
    return rc;
}

const struct an_graph_builder an_graph_engine = {engine_cuts, engine_edges};
