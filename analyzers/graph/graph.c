/* SPDX-License-Identifier: Apache-2.0
 *
 * The dependency graph: the table of builders, and what they build with. First all of them say
 * where threads are cut, then the nodes are made, then all of them give edges.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/graph/graph_build.h"

static const struct an_graph_builder *const builders[] = {
    &an_graph_threads,  &an_graph_device, &an_graph_engine,
    &an_graph_backward, &an_graph_loader, &an_graph_collectives,
};
#define BUILDERS (sizeof builders / sizeof *builders)

const char *an_cause_key(enum an_cause c)
{
    static const char *const keys[] = {
#define CAUSE_KEY(name, key, text) key,
        AN_CAUSE_MAP(CAUSE_KEY)
#undef CAUSE_KEY
    };
    return c < AN_CAUSE_COUNT ? keys[c] : "";
}

const char *an_cause_text(enum an_cause c)
{
    static const char *const texts[] = {
#define CAUSE_TEXT(name, key, text) text,
        AN_CAUSE_MAP(CAUSE_TEXT)
#undef CAUSE_TEXT
    };
    return c < AN_CAUSE_COUNT ? texts[c] : "";
}

const char *an_edge_key(enum an_edge_kind k)
{
    static const char *const keys[] = {
#define EDGE_KEY(name, key) key,
        AN_EDGE_MAP(EDGE_KEY)
#undef EDGE_KEY
    };
    return k < AN_EDGE_KINDS ? keys[k] : "";
}

/* ---- what builders call -------------------------------------------------------------------------------------------------- */

int an_graph_cut(struct an_graph_build *b, size_t slice, enum an_node_kind kind,
                 enum an_cause cause)
{
    b->cut[slice] = (uint8_t)(kind + 1);
    b->cause[slice] = (uint8_t)cause;
    return 0;
}

int an_graph_cut_span(struct an_graph_build *b, uint32_t track, int64_t start, int64_t end,
                      uint32_t slice, enum an_node_kind kind, enum an_cause cause, uint32_t *span)
{
    if (an_grow(&b->span, &b->span_room, b->span_count + 1, sizeof *b->span))
        return TACHO_ENOMEM;
    *span = (uint32_t)b->span_count;
    b->span[b->span_count++] = (struct an_graph_span){.start = start,
                                                      .end = end,
                                                      .track = track,
                                                      .slice = slice,
                                                      .first = AN_NONE,
                                                      .last = AN_NONE,
                                                      .kind = (uint8_t)kind,
                                                      .cause = (uint8_t)cause};
    return 0;
}

int an_graph_cut_op(struct an_graph_build *b, uint32_t op, int64_t at)
{
    if (an_grow(&b->op_cut, &b->op_cut_room, b->op_cut_count + 1, sizeof *b->op_cut))
        return TACHO_ENOMEM;
    b->op_cut[b->op_cut_count++] = (struct an_graph_op_cut){at, op};
    return 0;
}

uint32_t an_graph_first_node(const struct an_graph_build *b, size_t slice)
{
    return b->first[slice];
}

uint32_t an_graph_last_node(const struct an_graph_build *b, size_t slice)
{
    return b->last[slice];
}

uint32_t an_graph_span_first(const struct an_graph_build *b, uint32_t span)
{
    return b->span[span].first;
}

uint32_t an_graph_span_last(const struct an_graph_build *b, uint32_t span)
{
    return b->span[span].last;
}

uint32_t an_graph_op_node(const struct an_graph_build *b, size_t op)
{
    return b->g->op_node[op];
}

uint32_t an_graph_op_start(const struct an_graph_build *b, size_t op)
{
    return an_graph_head(b->g, b->g->op_node[op]);
}

void **an_graph_state(struct an_graph_build *b)
{
    return &b->state[b->builder];
}

const struct an_graph *an_graph_built(const struct an_graph_build *b)
{
    return b->g;
}

uint32_t an_graph_node_at(const struct an_graph *g, uint32_t track, int64_t time)
{
    size_t low = g->track_first[track], high = g->track_first[track + 1], stop = high;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (g->end[middle] <= time)
            low = middle + 1;
        else
            high = middle;
    }
    return low < stop ? (uint32_t)low : AN_NONE;
}

int an_graph_edge(struct an_graph_build *b, uint32_t from, uint32_t to, unsigned kind)
{
    if (from == AN_NONE || to == AN_NONE)
        return 0;
    if (b->g->track[from] == b->g->track[to] && from < to) /* program order says it */
        return 0;
    if (an_grow(&b->from, &b->edge_room[0], b->edges + 1, sizeof *b->from) ||
        an_grow(&b->to, &b->edge_room[1], b->edges + 1, sizeof *b->to) ||
        an_grow(&b->kind, &b->edge_room[2], b->edges + 1, sizeof *b->kind))
        return TACHO_ENOMEM;
    b->from[b->edges] = from;
    b->to[b->edges] = to;
    b->kind[b->edges++] = (uint8_t)kind;
    return 0;
}

/* ---- building ------------------------------------------------------------------------------------------------------------ */

static int allocate(struct an_graph_build *b)
{
    size_t n = b->c->t->slice.count + 1;
    b->cut = calloc(n, sizeof *b->cut);
    b->cause = malloc(n * sizeof *b->cause);
    b->first = malloc(n * sizeof *b->first);
    b->last = malloc(n * sizeof *b->last);
    if (!b->cut || !b->cause || !b->first || !b->last)
        return TACHO_ENOMEM;
    memset(b->first, 0xff, n * sizeof *b->first);
    memset(b->last, 0xff, n * sizeof *b->last);
    return 0;
}

static void release(struct an_graph_build *b)
{
    free(b->cut);
    free(b->cause);
    free(b->first);
    free(b->last);
    free(b->span);
    free(b->op_cut);
    free(b->from);
    free(b->to);
    free(b->kind);
}

static void count_edges(struct an_graph *g)
{
    for (size_t e = 0; e < g->edge_count; e++) {
        unsigned kind = g->in_kind[e] & AN_EDGE_KIND_MASK;
        g->by_kind[kind]++;
        g->inferred[kind] += (g->in_kind[e] & AN_EDGE_INFERRED) != 0;
    }
    g->has_launches = g->by_kind[AN_EDGE_LAUNCH] > g->inferred[AN_EDGE_LAUNCH];
    g->has_syncs = g->by_kind[AN_EDGE_SYNC] > g->inferred[AN_EDGE_SYNC];
}

int an_graph_build_of(struct an_context *c, const struct an_graph_builder *const *table, size_t n,
                      struct an_graph *g)
{
    struct an_graph_build b = {.c = c, .g = g};
    int rc = allocate(&b);
    rc = rc ? rc : an_causes_make(c, &g->causes);
    b.state = an_arena_zero(c->work, n + 1, sizeof *b.state);
    rc = b.state ? rc : TACHO_ENOMEM;
    for (b.builder = 0; b.builder < n && !rc; b.builder++)
        rc = table[b.builder]->cuts ? table[b.builder]->cuts(c, &b) : 0;
    rc = rc ? rc : an_graph_nodes(&b);
    for (b.builder = 0; b.builder < n && !rc; b.builder++)
        rc = table[b.builder]->edges ? table[b.builder]->edges(c, &b) : 0;
    rc = rc ? rc : an_graph_store(&b);
    rc = rc ? rc : an_graph_sort(&b);
    if (!rc)
        count_edges(g);
    release(&b);
    return rc;
}

int an_graph_of(struct an_context *c, const struct an_graph **out, const char **why)
{
    *out = NULL;
    *why = NULL;
    if (!c->graph) {
        struct an_graph *g = an_arena_zero(c->work, 1, sizeof *g);
        int rc = g ? an_graph_build_of(c, builders, BUILDERS, g) : TACHO_ENOMEM;
        if (rc)
            return rc;
        c->graph = g;
    }
    if (c->graph->node_count)
        *out = c->graph;
    else
        *why = "no range says what it is, and no accelerator was recorded: there is nothing to "
               "build a graph from";
    return 0;
}
