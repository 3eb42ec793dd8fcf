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
static enum an_role role_of(const struct an_context *c, size_t i)
{
    return c->gpu ? an_trace_role(c->t, c->t->slice.detail[i]) : an_slice_role(c->t, i);
}

static bool has_role(const struct an_context *c, const struct an_track *k, enum an_role role)
{
    for (size_t i = k->slice_first; i < k->slice_first + k->slice_count; i++)
        if (role_of(c, i) == role)
            return true;
    return false;
}

/* Thread with steps of a process; AN_NONE: none. */
static uint32_t main_of(const struct an_context *c, uint32_t process)
{
    for (size_t k = 0; k < c->lane_count; k++)
        if (c->lane[k].process == process && c->lane[k].track != AN_NONE)
            return c->lane[k].track;
    return AN_NONE;
}

static int add_pauses(struct an_context *c, struct an_graph_build *b, struct helpers *h,
                      uint32_t track)
{
    struct an_graph_pause *list = NULL;
    size_t n = 0;
    int rc = an_graph_cut_pauses(c, b, track, AN_CAUSE_FRAMEWORK, &list, &n);
    struct an_graph_pause *all = rc ? NULL : an_arena_zero(c->work, h->count + n, sizeof *all);
    rc = rc || all ? rc : TACHO_ENOMEM;
    if (!rc && h->count)
        memcpy(all, h->pause, h->count * sizeof *all);
    if (!rc && n)
        memcpy(all + h->count, list, n * sizeof *all);
    free(list);
    h->pause = all;
    h->count += n;
    return rc;
}

static int engine_cuts(struct an_context *c, struct an_graph_build *b)
{
    const struct an_trace *t = c->t;
    struct helpers *h = an_arena_zero(c->work, 1, sizeof *h);
    int rc = 0;
    if (!h || !(h->main = an_arena_zero(c->work, t->track_count + 1, sizeof *h->main)) ||
        !(h->posts = an_arena_zero(c->work, t->track_count + 1, sizeof *h->posts)))
        return TACHO_ENOMEM;
    for (uint32_t k = 0; k < t->track_count && !rc; k++) {
        uint32_t main = main_of(c, t->track[k].process);
        h->main[k] = AN_NONE;
        if (main == AN_NONE || main == k || strcmp(t->track[k].kind, "thread") ||
            !has_role(c, &t->track[k], AN_ROLE_COMM))
            continue;
        h->main[k] = main;
        h->posts[main] = has_role(c, &t->track[main], AN_ROLE_COMM_POST);
        rc = add_pauses(c, b, h, k);
    }
    *an_graph_state(b) = h;
    return rc;
}

/* Last piece of work of a track that ended at `time` or before; AN_NONE: none. */
static uint32_t done_before(const struct an_graph *g, uint32_t track, int64_t time)
{
    uint32_t n = an_graph_node_at(g, track, time);
    n = n == AN_NONE ? (uint32_t)g->track_first[track + 1] : n;
    while (n > g->track_first[track]) {
        n--;
        if (g->slice[n] != AN_NONE && g->kind[n] != AN_NODE_THINK)
            return n;
    }
    return AN_NONE;
}

/* The step's thread let the communication thread go when a piece of its work ended during the
 * pause. */
static int pause_edges(struct an_graph_build *b, const struct an_graph_pause *p, uint32_t main)
{
    const struct an_graph *g = an_graph_built(b);
    uint32_t from = done_before(g, main, p->end);
    if (from == AN_NONE || g->end[from] <= p->start)
        return 0;
    return an_graph_edge(b, from, an_graph_span_last(b, p->span),
                         AN_EDGE_HANDOFF | AN_EDGE_INFERRED);
}

static int wait_edges(struct an_context *c, struct an_graph_build *b, const struct helpers *h,
                      uint32_t helper)
{
    const struct an_trace *t = c->t;
    const struct an_graph *g = an_graph_built(b);
    const struct an_track *main = &t->track[h->main[helper]];
    int rc = 0;
    for (size_t i = main->slice_first; i < main->slice_first + main->slice_count && !rc; i++) {
        if (role_of(c, i) != AN_ROLE_COMM_WAIT)
            continue;
        bool said = an_trace_role(t, t->slice.detail[i]) == AN_ROLE_COMM_WAIT;
        uint32_t from = done_before(g, helper, an_slice_end(t, i));
        rc = an_graph_edge(b, from, an_graph_last_node(b, i),
                           AN_EDGE_HANDOFF | (said ? 0u : AN_EDGE_INFERRED));
    }
    return rc;
}

/* ---- recorded hand-overs --------------------------------------------------------------------------------------------------- */

/* First piece of a thread's job whose collective is slice i: the pause before it, or before what
 * packs its buffer. */
static uint32_t job_begins(const struct an_context *c, const struct an_graph_build *b,
                           const struct an_track *k, size_t i)
{
    const struct an_trace *t = c->t;
    if (i > k->slice_first && an_trace_role(t, t->slice.detail[i - 1]) == AN_ROLE_HOST &&
        !strcmp(an_trace_name(t, t->slice.name[i - 1]), "pack"))
        i--;
    uint32_t first = an_graph_first_node(b, i);
    const struct an_graph *g = an_graph_built(b);
    uint32_t before = first != AN_NONE ? an_graph_before(g, first) : AN_NONE;
    return before != AN_NONE && g->kind[before] == AN_NODE_WAIT && g->slice[before] == AN_NONE
               ? before
               : first;
}

/* Next collective of a thread from row i that starts at `from` or later; the row behind its last
 * one: none. */
static size_t next_collective(const struct an_trace *t, const struct an_track *k, size_t i,
                              int64_t from)
{
    while (i < k->slice_first + k->slice_count &&
           (an_trace_role(t, t->slice.detail[i]) != AN_ROLE_COMM || t->slice.start[i] < from))
        i++;
    return i;
}

/* Row of the first comm_wait behind row i of the step's thread, which ends when all collectives
 * handed over before it are done.
 */
static size_t next_wait(const struct an_trace *t, const struct an_track *main, size_t i)
{
    while (i < main->slice_first + main->slice_count &&
           an_trace_role(t, t->slice.detail[i]) != AN_ROLE_COMM_WAIT)
        i++;
    return i;
}

/* The collectives of a step, which begin before its comm_wait ends, belong to its comm_posts in
 * order. */
static int post_edges(struct an_context *c, struct an_graph_build *b, const struct helpers *h,
                      uint32_t helper)
{
    const struct an_trace *t = c->t;
    const struct an_track *main = &t->track[h->main[helper]], *k = &t->track[helper];
    size_t job = k->slice_first, end = k->slice_first + k->slice_count,
           last = main->slice_first + main->slice_count, wait = 0;
    int rc = 0;
    for (size_t i = main->slice_first; i < last && !rc; i++) {
        if (an_trace_role(t, t->slice.detail[i]) != AN_ROLE_COMM_POST)
            continue;
        int64_t jobs = an_trace_detail(t, t->slice.detail[i])->samples;
        wait = wait < i ? next_wait(t, main, i) : wait;
        int64_t until = wait < last ? an_slice_end(t, wait) : INT64_MAX;
        for (; jobs > 0 && !rc; jobs--, job++) {
            job = next_collective(t, k, job, t->slice.start[i]);
            if (job == end || t->slice.start[job] >= until)
                break;
            rc = an_graph_edge(b, an_graph_last_node(b, i), job_begins(c, b, k, job),
                               AN_EDGE_HANDOFF);
        }
    }
    return rc;
}

static int engine_edges(struct an_context *c, struct an_graph_build *b)
{
    const struct helpers *h = *an_graph_state(b);
    int rc = 0;
    for (size_t i = 0; i < h->count && !rc; i++)
        if (!h->posts[h->main[h->pause[i].track]])
            rc = pause_edges(b, &h->pause[i], h->main[h->pause[i].track]);
    for (uint32_t k = 0; k < c->t->track_count && !rc; k++)
        if (h->main[k] != AN_NONE) {
            rc = wait_edges(c, b, h, k);
            rc = rc || !h->posts[h->main[k]] ? rc : post_edges(c, b, h, k);
        }
    return rc;
}

const struct an_graph_builder an_graph_engine = {"engine", engine_cuts, engine_edges};
