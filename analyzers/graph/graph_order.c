/* SPDX-License-Identifier: Apache-2.0
 *
 * The edges of a dependency graph: by target, without those that contradict the times, and an order
 * of the nodes in which every one stands behind all it depends on.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/graph/graph_build.h"

/* ---- columns ------------------------------------------------------------------------------------------------------------- */

/* When a node's own work began at the latest: a wait may be let go until its end. */
static int64_t limit_of(const struct an_graph *g, uint32_t n)
{
    return an_graph_waits(g, n) ? g->end[n] : g->start[n];
}

/* ns before its end (its start) at which `from` had let `to` go; -1: the times say that it had not.
 */
static int64_t lead_of(const struct an_graph *g, uint32_t from, uint32_t to, unsigned kind)
{
    int64_t limit = limit_of(g, to), done = kind & AN_EDGE_AT_START ? g->start[from] : g->end[from];
    if (done <= limit)
        return 0;
    int64_t lead = an_time_sub(done, limit);
    return limit < g->start[from] || lead > INT32_MAX ? -1 : lead;
}

int64_t an_edge_release(const struct an_graph *g, size_t e)
{
    uint32_t from = g->in_from[e];
    return g->in_kind[e] & AN_EDGE_AT_START ? g->start[from] : g->end[from] - g->in_lead[e];
}

/* Sorts the few edges of one node: by source, kind, recorded ones first. */
static void sort_node(struct an_graph *g, size_t first, size_t stop)
{
    for (size_t i = first + 1; i < stop; i++) {
        uint32_t from = g->in_from[i];
        uint8_t kind = g->in_kind[i];
        size_t k = i;
        for (; k > first && (g->in_from[k - 1] > from ||
                             (g->in_from[k - 1] == from && g->in_kind[k - 1] > kind));
             k--) {
            g->in_from[k] = g->in_from[k - 1];
            g->in_kind[k] = g->in_kind[k - 1];
        }
        g->in_from[k] = from;
        g->in_kind[k] = kind;
    }
}

static int pair_order(const void *x, const void *y)
{
    const uint64_t *a = x, *b = y;
    return (*a > *b) - (*a < *b);
}

#define FEW 16 /* edges of a node that are sorted in place */

static int sort_many(struct an_graph *g, size_t first, size_t stop)
{
    size_t n = stop - first;
    uint64_t *x = malloc(n * sizeof *x);
    if (!x)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < n; i++)
        x[i] = (uint64_t)g->in_from[first + i] << 8 | g->in_kind[first + i];
    qsort(x, n, sizeof *x, pair_order);
    for (size_t i = 0; i < n; i++) {
        g->in_from[first + i] = (uint32_t)(x[i] >> 8);
        g->in_kind[first + i] = (uint8_t)x[i];
    }
    free(x);
    return 0;
}

/* Keeps the edges of node n that agree with the times, each once, from `out` on. Returns the place
 * behind them. */
static size_t keep_node(struct an_graph *g, uint32_t n, size_t first, size_t stop, size_t out)
{
    size_t begin = out;
    for (size_t i = first; i < stop; i++) {
        uint32_t from = g->in_from[i];
        uint8_t kind = g->in_kind[i], what = kind & (AN_EDGE_KIND_MASK | AN_EDGE_AT_START);
        bool twice = false;
        for (size_t k = out; k > begin && g->in_from[k - 1] == from && !twice; k--)
            twice = (g->in_kind[k - 1] & (AN_EDGE_KIND_MASK | AN_EDGE_AT_START)) == what;
        int64_t lead = lead_of(g, from, n, kind);
        if (twice || lead < 0) {
            g->dropped += !twice;
            continue;
        }
        g->in_from[out] = from;
        g->in_kind[out] = kind;
        g->in_lead[out++] = (int32_t)lead;
    }
    return out;
}

static void scatter(struct an_graph_build *b, uint32_t *next)
{
    struct an_graph *g = b->g;
    for (size_t i = 0; i < b->edges; i++) {
        uint32_t at = next[b->to[i]]++;
        g->in_from[at] = b->from[i];
        g->in_kind[at] = b->kind[i];
    }
}

int an_graph_store(struct an_graph_build *b)
{
    struct an_graph *g = b->g;
    struct an_arena *a = b->c->work;
    size_t out = 0;
    int rc = 0;
    uint32_t *next = malloc((g->node_count + 1) * sizeof *next);
    g->in_first = an_arena_zero(a, g->node_count + 1, sizeof *g->in_first);
    g->in_from = an_arena_zero(a, b->edges, sizeof *g->in_from);
    g->in_lead = an_arena_zero(a, b->edges, sizeof *g->in_lead);
    g->in_kind = an_arena_zero(a, b->edges, sizeof *g->in_kind);
    if (!next || !g->in_first || !g->in_from || !g->in_lead || !g->in_kind) {
        free(next);
        return TACHO_ENOMEM;
    }
    for (size_t i = 0; i < b->edges; i++)
        g->in_first[b->to[i] + 1]++;
    for (size_t n = 0; n < g->node_count; n++)
        g->in_first[n + 1] += g->in_first[n];
    memcpy(next, g->in_first, (g->node_count + 1) * sizeof *next);
    scatter(b, next);
    free(next);
    for (size_t n = 0; n < g->node_count && !rc; n++) {
        size_t first = g->in_first[n], stop = g->in_first[n + 1];
        if (stop - first > FEW)
            rc = sort_many(g, first, stop);
        else
            sort_node(g, first, stop);
        g->in_first[n] = (uint32_t)out;
        if (!rc)
            out = keep_node(g, (uint32_t)n, first, stop, out);
    }
    g->in_first[g->node_count] = (uint32_t)out;
    g->edge_count = out;
    return rc;
}

/* ---- order --------------------------------------------------------------------------------------------------------------- */

/* Every track is a queue, ordered up to `done`. To go on, its head needs the nodes that its edges
 * come from: then their tracks are taken up to these first. A track stands on the stack once at
 * most; an edge to one that is there closes a circle. */
struct frame {
    uint32_t track, edge; /* edge: the one that is waited for */
    size_t goal;          /* the track is to be ordered up to here */
};

struct sorter {
    struct an_graph *g;
    size_t *done;        /* of every track: the next node to be ordered */
    uint32_t *place;     /* of every track: its place on the stack + 1; 0: it is not there */
    struct frame *stack; /* one for every track */
    size_t depth, ordered;
    uint8_t *cut; /* of every edge: it closes a circle */
};

/* Node that an edge waits for: what starts with its thread's piece waits for the piece before.
 * AN_NONE: none. */
static uint32_t needed(const struct an_graph *g, uint32_t e)
{
    uint32_t from = g->in_from[e];
    return g->in_kind[e] & AN_EDGE_AT_START ? an_graph_before(g, from) : from;
}

/* First edge of node n whose source is not ordered yet; in_first[n + 1]: none. */
static uint32_t blocking(const struct sorter *s, uint32_t n, uint32_t e)
{
    const struct an_graph *g = s->g;
    for (; e < g->in_first[n + 1]; e++) {
        uint32_t from = needed(g, e);
        if (from != AN_NONE && !s->cut[e] && from >= s->done[g->track[from]])
            break;
    }
    return e;
}

static void push(struct sorter *s, uint32_t track, size_t goal)
{
    s->stack[s->depth] = (struct frame){track, 0, goal};
    s->place[track] = (uint32_t)++s->depth;
}

static void pop_to(struct sorter *s, size_t depth)
{
    while (s->depth > depth)
        s->place[s->stack[--s->depth].track] = 0;
}

/* The frames from `place` on wait for each other in a circle: one of their edges goes, an inferred
 * one if there is one. */
static void break_circle(struct sorter *s, size_t place)
{
    size_t weakest = s->depth - 1;
    for (size_t i = place; i < s->depth; i++)
        if (s->g->in_kind[s->stack[i].edge] & AN_EDGE_INFERRED)
            weakest = i;
    s->cut[s->stack[weakest].edge] = 1;
    s->g->dropped++;
    pop_to(s, weakest + 1);
}

static void order_track(struct sorter *s, uint32_t track)
{
    struct an_graph *g = s->g;
    push(s, track, g->track_first[track + 1]);
    while (s->depth) {
        struct frame *f = &s->stack[s->depth - 1];
        size_t n = s->done[f->track];
        if (n >= f->goal) {
            pop_to(s, s->depth - 1);
            continue;
        }
        uint32_t e = blocking(s, (uint32_t)n, f->edge > g->in_first[n] ? f->edge : g->in_first[n]);
        if (e == g->in_first[n + 1]) {
            g->order[s->ordered++] = (uint32_t)n;
            s->done[f->track]++;
            continue;
        }
        uint32_t from = needed(g, e);
        f->edge = e;
        if (s->place[g->track[from]])
            break_circle(s, s->place[g->track[from]] - 1);
        else
            push(s, g->track[from], (size_t)from + 1);
    }
}

/* Takes the edges that were cut out of the columns. */
static void close_up(struct an_graph *g, const uint8_t *cut)
{
    size_t out = 0;
    for (size_t n = 0; n < g->node_count; n++) {
        size_t first = g->in_first[n];
        g->in_first[n] = (uint32_t)out;
        for (size_t e = first; e < (n + 1 < g->node_count ? g->in_first[n + 1] : g->edge_count);
             e++)
            if (!cut[e]) {
                g->in_from[out] = g->in_from[e];
                g->in_lead[out] = g->in_lead[e];
                g->in_kind[out++] = g->in_kind[e];
            }
    }
    g->in_first[g->node_count] = (uint32_t)out;
    g->edge_count = out;
}

int an_graph_sort(struct an_graph_build *b)
{
    struct an_graph *g = b->g;
    size_t tracks = b->c->t->track_count, dropped = g->dropped;
    struct sorter s = {.g = g,
                       .done = malloc((tracks + 1) * sizeof *s.done),
                       .place = calloc(tracks + 1, sizeof *s.place),
                       .stack = malloc((tracks + 1) * sizeof *s.stack),
                       .cut = calloc(g->edge_count + 1, 1)};
    g->order = an_arena_zero(b->c->work, g->node_count, sizeof *g->order);
    int rc = s.done && s.place && s.stack && s.cut && g->order ? 0 : TACHO_ENOMEM;
    if (!rc) {
        memcpy(s.done, g->track_first, (tracks + 1) * sizeof *s.done);
        for (uint32_t k = 0; k < tracks; k++)
            order_track(&s, k);
        if (g->dropped > dropped)
            close_up(g, s.cut);
    }
    free(s.done);
    free(s.place);
    free(s.stack);
    free(s.cut);
    return rc;
}
