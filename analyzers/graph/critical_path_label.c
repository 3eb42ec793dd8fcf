/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host did in the segments of a critical path: the innermost range decides, and one that
 * does not say what it is takes after the range around it. Only the path's own segments are looked
 * at, not all ranges of the trace.
 */
#include <stdlib.h>

#include "analyzers/graph/critical_path.h"

struct labeller {
    const struct an_context *c;
    const struct an_graph *g;
    struct an_path_segment *at; /* labelled so far */
    size_t count, room;
};

/* Range i or the innermost one around it that is open at `time`; AN_NONE: none is. */
static uint32_t open_at(const struct an_trace *t, uint32_t i, int64_t time)
{
    for (int depth = 0; i != AN_NONE && depth < AN_DEPTH_MAX; depth++, i = t->slice.parent[i])
        if (t->slice.start[i] <= time && an_slice_end(t, i) > time)
            return i;
    return AN_NONE;
}

static bool is_weak(enum an_cause c)
{
    return c == AN_CAUSE_FRAMEWORK || c == AN_CAUSE_THINK;
}

/* Cause of time in range i: its own, else that of a range around it; a phase takes all in it. */
static enum an_cause cause_in(const struct labeller *x, uint32_t i)
{
    enum an_cause best = AN_CAUSE_THINK;
    for (int depth = 0; i != AN_NONE && depth < AN_DEPTH_MAX;
         depth++, i = x->c->t->slice.parent[i]) {
        enum an_cause own = an_slice_cause(x->c, x->g->causes, i);
        if (own == AN_CAUSE_PHASE)
            return own;
        if (is_weak(best) && (!is_weak(own) || best == AN_CAUSE_THINK))
            best = own;
    }
    return best;
}

/* A piece with the link of its segment; it joins the one before if that is of the same range. */
static int add(struct labeller *x, struct an_path_segment s)
{
    struct an_path_segment *last = x->count ? &x->at[x->count - 1] : NULL;
    if (s.cause == AN_CAUSE_THINK && s.how == AN_PATH_RECORDED)
        s.how = AN_PATH_INFERRED; /* what the thread did is not known */
    if (last && last->link == AN_PATH_SAME && last->node == s.node && last->slice == s.slice &&
        last->cause == s.cause) {
        last->end = s.end;
        last->link = s.link;
        return 0;
    }
    if (an_grow(&x->at, &x->room, x->count + 1, sizeof *x->at))
        return TACHO_ENOMEM;
    x->at[x->count++] = s;
    return 0;
}

static int add_piece(struct labeller *x, const struct an_path_segment *s, int64_t start,
                     int64_t end, uint32_t slice)
{
    struct an_path_segment piece = *s;
    bool waits = an_graph_waits(x->g, s->node);
    piece.start = start;
    piece.end = end;
    piece.slice = slice;
    piece.cause = (uint8_t)(waits ? s->cause : cause_in(x, slice));
    if (slice != AN_NONE && piece.how == AN_PATH_RECORDED && an_slice_inferred(x->c->t, slice))
        piece.how = AN_PATH_INFERRED;
    piece.link = end == s->end ? s->link : AN_PATH_SAME;
    return add(x, piece);
}

static int label_host(struct labeller *x, const struct an_path_segment *s)
{
    const struct an_trace *t = x->c->t;
    const struct an_track *k = &t->track[x->g->track[s->node]];
    size_t i = an_slice_seek(t, k, s->start), stop = k->slice_first + k->slice_count;
    uint32_t top = i > k->slice_first ? open_at(t, (uint32_t)i - 1, s->start) : AN_NONE;
    int64_t at = s->start;
    int rc = 0;
    while (!rc && at < s->end) {
        int64_t next = i < stop && t->slice.start[i] < s->end ? t->slice.start[i] : s->end;
        int64_t until = top != AN_NONE && an_slice_end(t, top) < next ? an_slice_end(t, top) : next;
        if (until > at)
            rc = add_piece(x, s, at, until, top);
        at = until;
        if (at < next) {
            top = open_at(t, t->slice.parent[top], at);
        } else if (at < s->end) {
            if (t->slice.dur[i] != 0)
                top = (uint32_t)i;
            i++;
        }
    }
    return rc;
}

/* A node that lasts no time goes: what hands over to it hands over to what comes behind. An edge
 * says more than program order.
 */
static void hand_on(struct labeller *x, const struct an_path_segment *s)
{
    struct an_path_segment *last = x->count ? &x->at[x->count - 1] : NULL;
    if (!last || last->link == AN_PATH_NONE)
        return;
    if (last->link == AN_PATH_ORDER || last->link == AN_PATH_SAME || s->link >= AN_PATH_NEAREST ||
        s->link == AN_EDGE_COLLECTIVE)
        last->link = s->link;
    if (s->how == AN_PATH_INFERRED && last->how == AN_PATH_RECORDED)
        last->how = s->how;
}

int an_path_label(const struct an_context *c, const struct an_graph *g, struct an_path_walk *p)
{
    struct labeller x = {.c = c, .g = g};
    int rc = 0;
    for (size_t i = 0; i < p->count && !rc; i++) {
        const struct an_path_segment *s = &p->at[i];
        if (s->start == s->end) {
            hand_on(&x, s);
            continue;
        }
        if (s->cause == AN_CAUSE_DISPATCH || s->cause == AN_CAUSE_OPAQUE) {
            struct an_path_segment piece = *s;
            piece.slice = AN_NONE;
            rc = add(&x, piece);
        } else if (s->node == AN_NONE || an_graph_on_device(g, s->node)) {
            struct an_path_segment piece = *s;
            piece.slice = s->node == AN_NONE ? AN_NONE : g->slice[s->node];
            rc = add(&x, piece);
        } else {
            rc = label_host(&x, s);
        }
    }
    free(p->at);
    p->at = x.at;
    p->count = x.count;
    p->room = x.room;
    return rc;
}
