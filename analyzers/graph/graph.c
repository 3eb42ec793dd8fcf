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

int an_graph_cut(struct an_graph_build *build, size_t slice, enum an_node_kind kind,
                 enum an_cause cause)
{
    build->cut[slice] = (uint8_t)(kind + 1);
    build->cause[slice] = (uint8_t)cause;
    return 0;
}

int an_graph_cut_span(struct an_graph_build *build, uint32_t track, int64_t start, int64_t end,
                      uint32_t slice, enum an_node_kind kind, enum an_cause cause, uint32_t *span)
{
    if (an_grow(&build->span, &build->span_room, build->span_count + 1, sizeof *build->span))
        return TACHO_ENOMEM;
    *span = (uint32_t)build->span_count;
    build->span[build->span_count++] = (struct an_graph_span){.start = start,
                                                              .end = end,
                                                              .track = track,
                                                              .slice = slice,
                                                              .first = AN_NONE,
                                                              .last = AN_NONE,
                                                              .kind = (uint8_t)kind,
                                                              .cause = (uint8_t)cause};
    return 0;
}

int an_graph_cut_op(struct an_graph_build *build, uint32_t op, int64_t at)
{
    if (an_grow(&build->op_cut, &build->op_cut_room, build->op_cut_count + 1,
                sizeof *build->op_cut))
        return TACHO_ENOMEM;
    build->op_cut[build->op_cut_count++] = (struct an_graph_op_cut){at, op};
    return 0;
}

uint32_t an_graph_first_node(const struct an_graph_build *build, size_t slice)
{
    return build->first[slice];
}

uint32_t an_graph_last_node(const struct an_graph_build *build, size_t slice)
{
    return build->last[slice];
}

uint32_t an_graph_span_first(const struct an_graph_build *build, uint32_t span)
{
    return build->span[span].first;
}

uint32_t an_graph_span_last(const struct an_graph_build *build, uint32_t span)
{
    return build->span[span].last;
}

uint32_t an_graph_op_node(const struct an_graph_build *build, size_t op)
{
    return build->graph->op_node[op];
}

uint32_t an_graph_op_start(const struct an_graph_build *build, size_t op)
{
    return an_graph_head(build->graph, build->graph->op_node[op]);
}

void **an_graph_state(struct an_graph_build *build)
{
    return &build->state[build->builder];
}

const struct an_graph *an_graph_built(const struct an_graph_build *build)
{
    return build->graph;
}

uint32_t an_graph_node_at(const struct an_graph *graph, uint32_t track, int64_t time)
{
    size_t low = graph->track_first[track], high = graph->track_first[track + 1], stop = high;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (graph->end[middle] <= time)
            low = middle + 1;
        else
            high = middle;
    }
    return low < stop ? (uint32_t)low : AN_NONE;
}

int an_graph_edge(struct an_graph_build *build, uint32_t from, uint32_t to, unsigned kind)
{
    if (from == AN_NONE || to == AN_NONE)
        return 0;
    if (build->graph->track[from] == build->graph->track[to] &&
        from < to) /* program order says it */
        return 0;
    if (an_grow(&build->from, &build->edge_room[0], build->edges + 1, sizeof *build->from) ||
        an_grow(&build->to, &build->edge_room[1], build->edges + 1, sizeof *build->to) ||
        an_grow(&build->kind, &build->edge_room[2], build->edges + 1, sizeof *build->kind))
        return TACHO_ENOMEM;
    build->from[build->edges] = from;
    build->to[build->edges] = to;
    build->kind[build->edges++] = (uint8_t)kind;
    return 0;
}

/* ---- building ------------------------------------------------------------------------------------------------------------ */

static int allocate(struct an_graph_build *build)
{
    size_t n = build->context->trace->slice.count + 1;
    build->cut = calloc(n, sizeof *build->cut);
    build->cause = malloc(n * sizeof *build->cause);
    build->first = malloc(n * sizeof *build->first);
    build->last = malloc(n * sizeof *build->last);
    if (!build->cut || !build->cause || !build->first || !build->last)
        return TACHO_ENOMEM;
    memset(build->first, 0xff, n * sizeof *build->first);
    memset(build->last, 0xff, n * sizeof *build->last);
    return 0;
}

static void release(struct an_graph_build *build)
{
    free(build->cut);
    free(build->cause);
    free(build->first);
    free(build->last);
    free(build->span);
    free(build->op_cut);
    free(build->from);
    free(build->to);
    free(build->kind);
}

static void count_edges(struct an_graph *graph)
{
    for (size_t e = 0; e < graph->edge_count; e++) {
        unsigned kind = graph->in_kind[e] & AN_EDGE_KIND_MASK;
        graph->by_kind[kind]++;
        graph->inferred[kind] += (graph->in_kind[e] & AN_EDGE_INFERRED) != 0;
    }
    graph->has_launches = graph->by_kind[AN_EDGE_LAUNCH] > graph->inferred[AN_EDGE_LAUNCH];
    graph->has_syncs = graph->by_kind[AN_EDGE_SYNC] > graph->inferred[AN_EDGE_SYNC];
}

int an_graph_build_of(struct an_context *context, const struct an_graph_builder *const *table,
                      size_t n, struct an_graph *graph)
{
    struct an_graph_build build = {.context = context, .graph = graph};
    int rc = allocate(&build);
    rc = rc ? rc : an_causes_make(context, &graph->causes);
    build.state = an_arena_zero(context->scratch, n + 1, sizeof *build.state);
    rc = build.state ? rc : TACHO_ENOMEM;
    for (build.builder = 0; build.builder < n && !rc; build.builder++)
        rc = table[build.builder]->cuts ? table[build.builder]->cuts(context, &build) : 0;
    rc = rc ? rc : an_graph_nodes(&build);
    for (build.builder = 0; build.builder < n && !rc; build.builder++)
        rc = table[build.builder]->edges ? table[build.builder]->edges(context, &build) : 0;
    rc = rc ? rc : an_graph_store(&build);
    rc = rc ? rc : an_graph_sort(&build);
    if (!rc)
        count_edges(graph);
    release(&build);
    return rc;
}

int an_graph_of(struct an_context *context, const struct an_graph **out, const char **why)
{
    *out = NULL;
    *why = NULL;
    if (!context->graph) {
        struct an_graph *graph = an_arena_zero(context->scratch, 1, sizeof *graph);
        int rc = graph ? an_graph_build_of(context, builders, BUILDERS, graph) : TACHO_ENOMEM;
        if (rc)
            return rc;
        context->graph = graph;
    }
    if (context->graph->node_count)
        *out = context->graph;
    else
        *why = "no range says what it is, and no accelerator was recorded: there is nothing to "
               "build a graph from";
    return 0;
}
