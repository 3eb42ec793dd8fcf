/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to graph.c, graph_nodes.c, graph_order.c: the dependency graph under construction.
 * Builders use graph.h only.
 */
#ifndef ANALYZERS_GRAPH_BUILD_H
#define ANALYZERS_GRAPH_BUILD_H

#include "analyzers/graph/graph.h"

/* A cut that is no slice: [start, end) of a thread, as a range nested in what is open then. */
struct an_graph_span {
    int64_t start, end;
    uint32_t track, slice, first, last;
    uint8_t kind, cause;
};

/* A device op in pieces: it waits until `at`. */
struct an_graph_op_cut {
    int64_t at;
    uint32_t op;
};

struct an_graph_build {
    struct an_context *context;
    struct an_graph *graph;
    uint8_t *cut;           /* of every slice: enum an_node_kind + 1; 0: not cut */
    uint8_t *cause;         /* of every cut slice */
    uint32_t *first, *last; /* nodes of every cut slice; AN_NONE */
    struct an_graph_span *span;
    size_t span_count, span_room;
    uint32_t *span_order; /* by track and start, the longer first */
    struct an_graph_op_cut *op_cut;
    size_t op_cut_count, op_cut_room;
    uint32_t *from, *to; /* edges as they come */
    uint8_t *kind;
    void **state;   /* of every builder */
    size_t builder; /* the one that runs */
    size_t edges, edge_room[3];
};

/* Builds a graph with a table of builders into *g, which is zeroed. 0 or TACHO_ENOMEM. */
int an_graph_build_of(struct an_context *context, const struct an_graph_builder *const *table,
                      size_t n, struct an_graph *graph);
/* Makes the nodes of all tracks from the cuts and the device ops (graph_nodes.c). 0 or
 * TACHO_ENOMEM. */
int an_graph_nodes(struct an_graph_build *build);
/* Puts the edges into the columns, by target; drops those that contradict the times
 * (graph_order.c). 0 or TACHO_ENOMEM. */
int an_graph_store(struct an_graph_build *build);
/* Fills g->order; drops edges that close a circle, inferred ones first (graph_order.c). 0 or
 * TACHO_ENOMEM. */
int an_graph_sort(struct an_graph_build *build);

#endif
