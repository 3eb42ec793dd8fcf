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
    const struct an_trace *t;
    size_t i, stop;
    int64_t end; /* of the ranges passed: the last one; INT64_MIN: none was passed */
};

/* Is the range on the thread at all: marks and what a step is marked with tell nothing of its work.
 */
static bool is_outer(const struct an_context *c, const struct an_graph *g, size_t i)
{
    const struct an_trace *t = c->t;
    return t->slice.dur[i] > 0 && t->slice.parent[i] == AN_NONE &&
           an_slice_cause(c, g->causes, i) != AN_CAUSE_THINK;
}

static bool is_marked(const struct an_trace *t, size_t i)
{
    const struct an_detail *d = an_trace_detail(t, t->slice.detail[i]);
    return (d && !strcmp(d->pass, "backward")) ||
           !strncmp(an_trace_name(t, t->slice.name[i]), "autograd::engine", 16);
}

/* Takes the turn that begins in the stillness [start, end) of the main thread, if there is one. */
static int take_turn(struct an_context *c, struct an_graph_build *b, struct outer *o, uint32_t main,
                     uint32_t other, int64_t start, int64_t end, struct turns *out)
{
    const struct an_graph *g = an_graph_built(b);
    const struct an_trace *t = c->t;
    struct turn x = {.main = main, .other = other, .pause = AN_NONE, .end = end};
    for (; o->i < o->stop && t->slice.start[o->i] < start; o->i++)
        if (is_outer(c, g, o->i) && an_slice_end(t, o->i) > o->end)
            o->end = an_slice_end(t, o->i);
    int64_t idle_since = o->end;
    bool any = false;
    for (; o->i < o->stop && t->slice.start[o->i] < end; o->i++) {
        if (!is_outer(c, g, o->i))
            continue;
        if (!any)
            x.start = t->slice.start[o->i];
        any = true;
        x.marked = x.marked || is_marked(t, o->i);
        o->end = an_slice_end(t, o->i) > o->end ? an_slice_end(t, o->i) : o->end;
    }
    if (!any || idle_since > start || x.start >= end)
        return 0;
    if (an_grow(&out->at, &out->room, out->count + 1, sizeof *out->at) ||
        an_graph_cut_span(b, main, x.start, end, AN_NONE, AN_NODE_WAIT, AN_CAUSE_FRAMEWORK,
                          &x.wait))
        return TACHO_ENOMEM;
    if (idle_since != INT64_MIN && an_graph_cut_span(b, other, idle_since, x.start, AN_NONE,
                                                     AN_NODE_WAIT, AN_CAUSE_FRAMEWORK, &x.pause))
        return TACHO_ENOMEM;
    out->at[out->count++] = x;
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
static int still_to(struct still *s, struct an_context *c, struct an_graph_build *b,
                    struct outer *o, uint32_t main, uint32_t other, int64_t time, struct turns *out)
{
    int rc = 0;
    while (!rc) {
        bool ends = s->depth && s->open[s->depth - 1] <= time;
        int64_t event = ends ? s->open[s->depth - 1] : time;
        if (event > s->since) {
            if (an_time_sub(event, s->since) >= STILL_LEAST)
                rc = take_turn(c, b, o, main, other, s->since, event, out);
            s->since = event;
        }
        if (!ends)
            break;
        s->depth--;
    }
    return rc;
}

static int find_turns(struct an_context *c, struct an_graph_build *b, uint32_t main, uint32_t other,
                      struct turns *out)
{
    const struct an_trace *t = c->t;
    const struct an_track *k = &t->track[main], *x = &t->track[other];
    struct outer o = {t, x->slice_first, x->slice_first + x->slice_count, INT64_MIN};
    struct still s = {.since = INT64_MAX};
    int rc = 0;
    for (size_t i = k->slice_first; i < k->slice_first + k->slice_count && !rc; i++) {
        if (s.since == INT64_MAX)
            s.since = t->slice.start[i];
        rc = still_to(&s, c, b, &o, main, other, t->slice.start[i], out);
        if (t->slice.dur[i] <= 0 || rc)
            continue;
        rc = an_grow(&s.open, &s.room, s.depth + 1, sizeof *s.open);
        if (!rc)
            s.open[s.depth++] = an_slice_end(t, i);
    }
    if (!rc && s.depth)
        rc = still_to(&s, c, b, &o, main, other, INT64_MAX, out);
    free(s.open);
    return rc;
}

/* ---- builder ------------------------------------------------------------------------------------------------------------- */

static bool launches(const struct an_context *c, const struct an_track *k)
{
    const struct an_devices *g = c->gpu;
    size_t i = an_launch_seek(g, k->slice_first);
    return i < g->launch_count && g->launch_slice[i] < k->slice_first + k->slice_count;
}

static int backward_cuts(struct an_context *c, struct an_graph_build *b)
{
    const struct an_trace *t = c->t;
    struct turns *out = an_arena_zero(c->work, 1, sizeof *out);
    int rc = out ? 0 : TACHO_ENOMEM;
    *an_graph_state(b) = out;
    for (size_t l = 0; l < c->lane_count && !rc && c->gpu; l++) {
        uint32_t main = c->lane[l].track;
        bool again = main == AN_NONE;
        for (size_t p = 0; p < l && !again; p++)
            again = c->lane[p].track == main; /* one thread drives several devices */
        for (uint32_t k = 0; k < t->track_count && !rc && !again; k++)
            if (k != main && t->track[k].process == t->track[main].process &&
                !strcmp(t->track[k].kind, "thread") && launches(c, &t->track[k]))
                rc = find_turns(c, b, main, k, out);
    }
    struct turn *kept = out ? an_arena_copy(c->work, out->at, out->count * sizeof *kept) : NULL;
    if (out) {
        free(out->at);
        out->at = kept;
    }
    return kept ? rc : TACHO_ENOMEM;
}

/* Last piece of work of the other thread in a turn: the one at its end, or before. */
static uint32_t last_of(const struct an_graph *g, const struct turn *x)
{
    uint32_t n = an_graph_node_at(g, x->other, x->end - 1);
    n = n == AN_NONE ? (uint32_t)g->track_first[x->other + 1] - 1 : n;
    while (n > g->track_first[x->other] && (g->start[n] >= x->end || g->slice[n] == AN_NONE))
        n--;
    return n;
}

static int backward_edges(struct an_context *c, struct an_graph_build *b)
{
    const struct turns *all = *an_graph_state(b);
    const struct an_graph *g = an_graph_built(b);
    int rc = 0;
    (void)c;
    for (size_t i = 0; i < all->count && !rc; i++) {
        const struct turn *x = &all->at[i];
        unsigned kind = AN_EDGE_HANDOFF | (x->marked ? 0u : AN_EDGE_INFERRED);
        uint32_t wait = an_graph_span_first(b, x->wait), last = an_graph_span_last(b, x->wait);
        uint32_t idle = x->pause == AN_NONE ? an_graph_node_at(g, x->other, x->start)
                                            : an_graph_span_last(b, x->pause);
        if (wait == AN_NONE || g->track_first[x->other] == g->track_first[x->other + 1])
            continue;
        rc = an_graph_edge(b, an_graph_before(g, wait), idle, kind);
        rc = rc ? rc : an_graph_edge(b, last_of(g, x), last, kind);
    }
    return rc;
}

const struct an_graph_builder an_graph_backward = {"backward", backward_cuts, backward_edges};
