/* SPDX-License-Identifier: Apache-2.0
 *
 * Hand-overs between the thread that runs steps and a thread that communicates for it (comm-0 of the reference engine): what
 * the step's thread finishes lets a waiting communication thread begin, and what that one has done lets a comm_wait end.
 *
 * A range comm_wait says that it waits for the collectives of its step, so its edge is recorded. Which piece of backward handed
 * over a bucket only times tell.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/graph.h"

struct helpers {
    struct an_graph_pause *pause;
    size_t count;
    uint32_t *main; /* of every track: the step's thread it communicates for; AN_NONE: it does not */
};

static bool communicates(const struct an_trace *t, const struct an_track *k)
{
    for (size_t i = k->slice_first; i < k->slice_first + k->slice_count; i++)
        if (an_trace_role(t, t->slice.detail[i]) == AN_ROLE_COMM)
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

static int add_pauses(struct an_context *c, struct an_graph_build *b, struct helpers *h, uint32_t track)
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
    if (!h || !(h->main = an_arena_zero(c->work, t->track_count + 1, sizeof *h->main)))
        return TACHO_ENOMEM;
    for (uint32_t k = 0; k < t->track_count && !rc; k++) {
        uint32_t main = main_of(c, t->track[k].process);
        h->main[k] = AN_NONE;
        if (main == AN_NONE || main == k || strcmp(t->track[k].kind, "thread") || !communicates(t, &t->track[k]))
            continue;
        h->main[k] = main;
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

/* The step's thread let the communication thread go when a piece of its work ended during the pause. */
static int pause_edges(struct an_graph_build *b, const struct an_graph_pause *p, uint32_t main)
{
    const struct an_graph *g = an_graph_built(b);
    uint32_t from = done_before(g, main, p->end);
    if (from == AN_NONE || g->end[from] <= p->start)
        return 0;
    return an_graph_edge(b, from, an_graph_span_last(b, p->span), AN_EDGE_HANDOFF | AN_EDGE_INFERRED);
}

static int wait_edges(struct an_context *c, struct an_graph_build *b, const struct helpers *h, uint32_t helper)
{
    const struct an_trace *t = c->t;
    const struct an_graph *g = an_graph_built(b);
    const struct an_track *main = &t->track[h->main[helper]];
    int rc = 0;
    for (size_t i = main->slice_first; i < main->slice_first + main->slice_count && !rc; i++) {
        if (an_trace_role(t, t->slice.detail[i]) != AN_ROLE_COMM_WAIT)
            continue;
        uint32_t from = done_before(g, helper, an_slice_end(t, i));
        rc = an_graph_edge(b, from, an_graph_last_node(b, i), AN_EDGE_HANDOFF);
    }
    return rc;
}

static int engine_edges(struct an_context *c, struct an_graph_build *b)
{
    const struct helpers *h = *an_graph_state(b);
    int rc = 0;
    for (size_t i = 0; i < h->count && !rc; i++)
        rc = pause_edges(b, &h->pause[i], h->main[h->pause[i].track]);
    for (uint32_t k = 0; k < c->t->track_count && !rc; k++)
        if (h->main[k] != AN_NONE)
            rc = wait_edges(c, b, h, k);
    return rc;
}

const struct an_graph_builder an_graph_engine = {"engine", engine_cuts, engine_edges};
