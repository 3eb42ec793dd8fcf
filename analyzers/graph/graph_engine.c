/* SPDX-License-Identifier: Apache-2.0
 *
 * Hand-overs between the thread that runs steps and a thread that communicates for it (comm-0 of
 * the reference engine): what the step's thread finishes lets a waiting communication thread begin,
 * and what that one has done lets a comm_wait end.
 *
 * A range comm_wait says that it waits for the collectives of its step, and ranges comm_post how
 * many of them the step's thread hands over, in order: these edges are recorded. Without comm_post
 * only times tell which piece of backward handed over a bucket.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/graph/graph.h"

struct helpers {
    struct an_graph_pause *pause;
    size_t count;
    uint32_t
        *main;   /* of every track: the step's thread it communicates for; AN_NONE: it does not */
    bool *posts; /* of every track: comm_post ranges lie on it */
};

/* Of traces of other tools the names tell it; beside a device they name what the host only asks
 * for. */
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

/* Thread with steps of a process; AN_NONE: none. */
static uint32_t main_of(const struct an_context *context, uint32_t process)
{
    for (size_t k = 0; k < context->lane_count; k++)
        if (context->lane[k].process == process && context->lane[k].track != AN_NONE)
            return context->lane[k].track;
    return AN_NONE;
}

static int add_pauses(struct an_context *context, struct an_graph_build *build,
                      struct helpers *helpers, uint32_t track)
{
    struct an_graph_pause *list = NULL;
    size_t n = 0;
    int rc = an_graph_cut_pauses(context, build, track, AN_CAUSE_FRAMEWORK, &list, &n);
    struct an_graph_pause *all =
        rc ? NULL : an_arena_zero(context->scratch, helpers->count + n, sizeof *all);
    rc = rc || all ? rc : TACHO_ENOMEM;
    if (!rc && helpers->count)
        memcpy(all, helpers->pause, helpers->count * sizeof *all);
    if (!rc && n)
        memcpy(all + helpers->count, list, n * sizeof *all);
    free(list);
    helpers->pause = all;
    helpers->count += n;
    return rc;
}

static int engine_cuts(struct an_context *context, struct an_graph_build *build)
{
    const struct an_trace *trace = context->trace;
    struct helpers *helpers = an_arena_zero(context->scratch, 1, sizeof *helpers);
    int rc = 0;
    if (!helpers ||
        !(helpers->main =
              an_arena_zero(context->scratch, trace->track_count + 1, sizeof *helpers->main)) ||
        !(helpers->posts =
              an_arena_zero(context->scratch, trace->track_count + 1, sizeof *helpers->posts)))
        return TACHO_ENOMEM;
    for (uint32_t k = 0; k < trace->track_count && !rc; k++) {
        uint32_t main = main_of(context, trace->track[k].process);
        helpers->main[k] = AN_NONE;
        if (main == AN_NONE || main == k || strcmp(trace->track[k].kind, "thread") ||
            !has_role(context, &trace->track[k], AN_ROLE_COMM))
            continue;
        helpers->main[k] = main;
        helpers->posts[main] = has_role(context, &trace->track[main], AN_ROLE_COMM_POST);
        rc = add_pauses(context, build, helpers, k);
    }
    *an_graph_state(build) = helpers;
    return rc;
}

/* Last piece of work of a track that ended at `time` or before; AN_NONE: none. */
static uint32_t done_before(const struct an_graph *graph, uint32_t track, int64_t time)
{
    uint32_t n = an_graph_node_at(graph, track, time);
    n = n == AN_NONE ? (uint32_t)graph->track_first[track + 1] : n;
    while (n > graph->track_first[track]) {
        n--;
        if (graph->slice[n] != AN_NONE && graph->kind[n] != AN_NODE_THINK)
            return n;
    }
    return AN_NONE;
}

/* The step's thread let the communication thread go when a piece of its work ended during the
 * pause. */
static int pause_edges(struct an_graph_build *build, const struct an_graph_pause *graph_pause,
                       uint32_t main)
{
    const struct an_graph *graph = an_graph_built(build);
    uint32_t from = done_before(graph, main, graph_pause->end);
    if (from == AN_NONE || graph->end[from] <= graph_pause->start)
        return 0;
    return an_graph_edge(build, from, an_graph_span_last(build, graph_pause->span),
                         AN_EDGE_HANDOFF | AN_EDGE_INFERRED);
}

static int wait_edges(struct an_context *context, struct an_graph_build *build,
                      const struct helpers *helpers, uint32_t helper)
{
    const struct an_trace *trace = context->trace;
    const struct an_graph *graph = an_graph_built(build);
    const struct an_track *main = &trace->track[helpers->main[helper]];
    int rc = 0;
    for (size_t i = main->slice_first; i < main->slice_first + main->slice_count && !rc; i++) {
        if (role_of(context, i) != AN_ROLE_COMM_WAIT)
            continue;
        bool said = an_trace_role(trace, trace->slice.detail[i]) == AN_ROLE_COMM_WAIT;
        uint32_t from = done_before(graph, helper, an_slice_end(trace, i));
        rc = an_graph_edge(build, from, an_graph_last_node(build, i),
                           AN_EDGE_HANDOFF | (said ? 0u : AN_EDGE_INFERRED));
    }
    return rc;
}

/* ---- recorded hand-overs --------------------------------------------------------------------------------------------------- */

/* First piece of a thread's job whose collective is slice i: the pause before it, or before what
 * packs its buffer. */
static uint32_t job_begins(const struct an_context *context, const struct an_graph_build *build,
                           const struct an_track *track, size_t i)
{
    const struct an_trace *trace = context->trace;
    if (i > track->slice_first &&
        an_trace_role(trace, trace->slice.detail[i - 1]) == AN_ROLE_HOST &&
        !strcmp(an_trace_name(trace, trace->slice.name[i - 1]), "pack"))
        i--;
    uint32_t first = an_graph_first_node(build, i);
    const struct an_graph *graph = an_graph_built(build);
    uint32_t before = first != AN_NONE ? an_graph_before(graph, first) : AN_NONE;
    return before != AN_NONE && graph->kind[before] == AN_NODE_WAIT &&
                   graph->slice[before] == AN_NONE
               ? before
               : first;
}

/* Next collective of a thread from row i that starts at `from` or later; the row behind its last
 * one: none. */
static size_t next_collective(const struct an_trace *trace, const struct an_track *track, size_t i,
                              int64_t from)
{
    while (i < track->slice_first + track->slice_count &&
           (an_trace_role(trace, trace->slice.detail[i]) != AN_ROLE_COMM ||
            trace->slice.start[i] < from))
        i++;
    return i;
}

/* Row of the first comm_wait behind row i of the step's thread, which ends when all collectives
 * handed over before it are done.
 */
static size_t next_wait(const struct an_trace *trace, const struct an_track *main, size_t i)
{
    while (i < main->slice_first + main->slice_count &&
           an_trace_role(trace, trace->slice.detail[i]) != AN_ROLE_COMM_WAIT)
        i++;
    return i;
}

/* The collectives of a step, which begin before its comm_wait ends, belong to its comm_posts in
 * order. */
static int post_edges(struct an_context *context, struct an_graph_build *build,
                      const struct helpers *helpers, uint32_t helper)
{
    const struct an_trace *trace = context->trace;
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
            rc = an_graph_edge(build, an_graph_last_node(build, i),
                               job_begins(context, build, track, job), AN_EDGE_HANDOFF);
        }
    }
    return rc;
}

static int engine_edges(struct an_context *context, struct an_graph_build *build)
{
    const struct helpers *helpers = *an_graph_state(build);
    int rc = 0;
    for (size_t i = 0; i < helpers->count && !rc; i++)
        if (!helpers->posts[helpers->main[helpers->pause[i].track]])
            rc = pause_edges(build, &helpers->pause[i], helpers->main[helpers->pause[i].track]);
    for (uint32_t k = 0; k < context->trace->track_count && !rc; k++)
        if (helpers->main[k] != AN_NONE) {
            rc = wait_edges(context, build, helpers, k);
            rc = rc || !helpers->posts[helpers->main[k]] ? rc
                                                         : post_edges(context, build, helpers, k);
        }
    return rc;
}

const struct an_graph_builder an_graph_engine = {"engine", engine_cuts, engine_edges};
