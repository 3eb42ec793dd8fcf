/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/graph: the dependency graph under construction. graph.c runs the builders in
 * two phases: first all of them ask for cuts, then the nodes are made (graph_nodes.c), then all of
 * them add edges, which graph_order.c stores and sorts. graph_build.c holds what builders call.
 */
#ifndef ANALYZERS_GRAPH_PRIVATE_H
#define ANALYZERS_GRAPH_PRIVATE_H

#include "analyzers/graph/graph.h"

/* A cut that is no slice: [start, end) of a thread, as if a range were nested in what is open then.
 * `slice` is the row that its nodes name, AN_NONE for none. */
struct an_graph_span {
    int64_t start, end;
    uint32_t track, slice;
    uint32_t first_node, last_node; /* known once the nodes are made */
    uint8_t kind, cause;
};

/* A device op in pieces: it waits until `time`. */
struct an_graph_op_cut {
    int64_t time;
    uint32_t op;
};

/* Time between two outermost ranges of a thread that only works for others. */
struct an_graph_pause {
    int64_t start, end;
    uint32_t track, span;
};

struct an_graph_build {
    struct an_context *context;
    struct an_graph *graph;
    /* of every slice */
    uint8_t *cut;                     /* enum an_node_kind + 1; 0: not cut */
    uint8_t *cause;                   /* of a cut slice */
    uint32_t *first_node, *last_node; /* of a cut slice once the nodes are made, else AN_NONE */
    /* cuts that are no slices */
    struct an_graph_span *span;
    size_t span_count, span_room;
    uint32_t *span_order; /* by track and start, the longer first */
    struct an_graph_op_cut *op_cut;
    size_t op_cut_count, op_cut_room;
    struct an_graph_pause *pause;
    size_t pause_count, pause_room;
    /* edges in the order in which they were added */
    uint32_t *from, *to;
    uint8_t *kind;
    size_t edge_count, edge_room[3];
    void **state; /* where the running builder keeps what its second phase needs; starts NULL */
};

/* One source of cuts and edges. Either function may be NULL. Both return 0 or TACHO_ENOMEM. */
struct an_graph_builder {
    int (*cuts)(struct an_graph_build *build);
    int (*edges)(struct an_graph_build *build);
};
extern const struct an_graph_builder an_graph_threads, an_graph_device, an_graph_suspected,
    an_graph_backward, an_graph_engine, an_graph_loader, an_graph_collectives;

/* ---- first phase: cuts, in any order ------------------------------------------------------------------------------------------ */

/* Cuts the slice's thread at its start and end. The slice becomes one node, or several where
 * something nested in it is cut, too. Of two cuts of one slice the later one counts. */
void an_graph_cut(struct an_graph_build *build, size_t slice, enum an_node_kind kind,
                  enum an_cause cause);
/* Cuts [start, end) of a thread, which need not be a slice: the part of a call that waits for what
 * it launched, or the part of a collective after the last arrival. *span is its index in
 * build->span. 0 or TACHO_ENOMEM. */
int an_graph_cut_span(struct an_graph_build *build, uint32_t track, int64_t start, int64_t end,
                      uint32_t slice, enum an_node_kind kind, enum an_cause cause, uint32_t *span);
/* Cuts a communication kernel in three: its arrival, which lasts no time, the wait until `time`,
 * and the transfer. 0 or TACHO_ENOMEM. */
int an_graph_cut_op(struct an_graph_build *build, uint32_t op, int64_t time);
/* Cuts the time between the outermost ranges of a thread as waits, and appends them to
 * build->pause. 0 or TACHO_ENOMEM. */
int an_graph_cut_pauses(struct an_graph_build *build, uint32_t track, enum an_cause cause);

/* ---- second phase: edges ------------------------------------------------------------------------------------------------------ */

/* Adds an edge. `kind` is an enum an_edge_kind with flags; the lead follows from the recorded
 * times. Edges from or to AN_NONE and edges along program order are ignored. 0 or TACHO_ENOMEM. */
int an_graph_edge(struct an_graph_build *build, uint32_t from, uint32_t to, unsigned kind);
/* First node of a device op; graph->op_node has the last one. */
static inline uint32_t an_graph_op_start(const struct an_graph *graph, size_t op)
{
    return an_graph_head(graph, graph->op_node[op]);
}

/* ---- construction ------------------------------------------------------------------------------------------------------------- */

/* Builds a graph with a table of builders into *graph, which is zeroed. 0 or TACHO_ENOMEM. */
int an_graph_build_of(struct an_context *context, const struct an_graph_builder *const *table,
                      size_t builder_count, struct an_graph *graph);
/* Makes the nodes of all tracks from the cuts and the device ops (graph_nodes.c). 0 or
 * TACHO_ENOMEM. */
int an_graph_nodes(struct an_graph_build *build);
/* Sorts the edges by target into the columns of the graph and drops those that contradict the
 * recorded times (graph_order.c). 0 or TACHO_ENOMEM. */
int an_graph_store(struct an_graph_build *build);
/* Fills graph->order and drops edges that close a circle, inferred ones first (graph_order.c). 0 or
 * TACHO_ENOMEM. */
int an_graph_sort(struct an_graph_build *build);

#endif
