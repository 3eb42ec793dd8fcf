/* SPDX-License-Identifier: Apache-2.0
 *
 * The dependency graph (graph.h): the table of builders and the order in which a graph is built.
 * All builders ask for cuts first, then the nodes are made, then all builders add edges.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/graph/graph_private.h"

static const struct an_graph_builder *const builders[] = {
    &an_graph_threads,  &an_graph_device, &an_graph_suspected,   &an_graph_engine,
    &an_graph_backward, &an_graph_loader, &an_graph_collectives,
};

static int allocate(struct an_graph_build *build)
{
    size_t slice_count = build->context->trace->slice.count + 1;
    build->cut = calloc(slice_count, sizeof *build->cut);
    build->cause = malloc(slice_count * sizeof *build->cause);
    build->first_node = malloc(slice_count * sizeof *build->first_node);
    build->last_node = malloc(slice_count * sizeof *build->last_node);
    if (!build->cut || !build->cause || !build->first_node || !build->last_node)
        return TACHO_ENOMEM;
    memset(build->first_node, 0xff, slice_count * sizeof *build->first_node);
    memset(build->last_node, 0xff, slice_count * sizeof *build->last_node);
    return 0;
}

static void release(struct an_graph_build *build)
{
    free(build->cut);
    free(build->cause);
    free(build->first_node);
    free(build->last_node);
    free(build->span);
    free(build->op_cut);
    free(build->pause);
    free(build->from);
    free(build->to);
    free(build->kind);
}

static void count_edges(struct an_graph *graph)
{
    for (size_t edge = 0; edge < graph->edge_count; edge++) {
        unsigned kind = graph->in_kind[edge] & AN_EDGE_KIND_MASK;
        graph->by_kind[kind]++;
        graph->inferred[kind] += (graph->in_kind[edge] & AN_EDGE_INFERRED) != 0;
    }
    graph->has_launches = graph->by_kind[AN_EDGE_LAUNCH] > graph->inferred[AN_EDGE_LAUNCH];
    graph->has_syncs = graph->by_kind[AN_EDGE_SYNC] > graph->inferred[AN_EDGE_SYNC];
}

int an_graph_build_of(struct an_context *context, const struct an_graph_builder *const *table,
                      size_t builder_count, struct an_graph *graph)
{
    struct an_graph_build build = {.context = context, .graph = graph};
    int rc = allocate(&build);
    rc = rc ? rc : an_causes_make(context, &graph->causes);
    void **states = an_arena_zero(context->scratch, builder_count + 1, sizeof *states);
    rc = states ? rc : TACHO_ENOMEM;
    for (size_t i = 0; i < builder_count && !rc; i++) {
        build.state = &states[i];
        rc = table[i]->cuts ? table[i]->cuts(&build) : 0;
    }
    rc = rc ? rc : an_graph_nodes(&build);
    for (size_t i = 0; i < builder_count && !rc; i++) {
        build.state = &states[i];
        rc = table[i]->edges ? table[i]->edges(&build) : 0;
    }
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
        int rc =
            graph ? an_graph_build_of(context, builders, sizeof builders / sizeof *builders, graph)
                  : TACHO_ENOMEM;
        if (rc)
            return rc;
        context->graph = graph;
    }
    if (context->graph->node_count)
        *out = context->graph;
    else
        *why = "no range has a known kind and no accelerator was recorded: no graph can be built";
    return 0;
}
