/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: the dependency graph of a run, as columns. It is built once (graph.c); the
 * critical path, the idle breakdown, blocking communication and the replay read it.
 *
 * A node is a device op, or a piece of a thread's time. The nodes of one track are neighbours, in
 * order of start. The predecessor of a node in program order is the node before it, if that lies on
 * the same track; this edge is not stored. A thread is cut where something else can depend on it,
 * or it on something else: at calls of the accelerator's API and at ranges with a role (work,
 * steps, loader stages, collectives, waits). So there are about as many nodes as such slices and
 * device ops, however many frames of Python a trace holds. The pieces of a thread cover it without
 * holes from its first cut to its last; time that no range covers is a node of kind UNTRACED.
 *
 * A communication kernel that is matched over the ranks is three nodes of its stream: its arrival
 * (DEVICE, 0 ns), the WAIT until the last rank has arrived, and the transfer (COLLECTIVE).
 *
 * All other edges are stored by the node they lead to. An edge releases its target: the target's
 * own work cannot begin before end(from) - lead, with AN_EDGE_AT_START before start(from). The lead
 * is how long before its end `from` had released the target when it was recorded: a launching call
 * may return after its kernel began. Edges that follow from the file are recorded; edges that
 * follow from times alone are AN_EDGE_INFERRED.
 *
 * Memory: 34 bytes a node, 9 an edge; 10 bytes a slice and 9 an edge while it is built (budget: 200
 * MB for a window of 2 M events).
 */
#ifndef ANALYZERS_GRAPH_H
#define ANALYZERS_GRAPH_H

#include "analyzers/graph/causes.h"
#include "analyzers/steps/context.h"
#include "analyzers/steps/windows.h"

/* name, key. HOST: a thread works, or is inside a call. UNTRACED: a thread outside of every range;
 * what it does is not known. WAIT: a thread waits for others; its own work is what remains after
 * the last release. DEVICE: a device op; of a matched collective the arrival, which lasts no time.
 * COLLECTIVE: one rank's part of a collective; where it is matched over the ranks, a WAIT until the
 * last one has arrived comes before it. */
#define AN_NODE_MAP(X) \
    X(HOST, "host") \
    X(UNTRACED, "think") \
    X(WAIT, "wait") \
    X(DEVICE, "device") \
    X(COLLECTIVE, "collective")

/* name, key. LAUNCH: host call to the device op that it put on a stream. STREAM: device op to a
 * device op of another stream that waits for it (event record and wait). SYNC: device op to the
 * host call that waits for it. COLLECTIVE: what comes before a participant's wait to the wait of
 * the last one, and from there to the others' waits. HANDOFF: thread to thread: a batch, a bucket
 * of gradients, a backward pass. CREDIT: room: the consumer took an item, so the producer may make
 * the next one; also the run-ahead limit. FORK: a thread or process that another one started. */
#define AN_EDGE_MAP(X) \
    X(LAUNCH, "launch") \
    X(STREAM, "stream") \
    X(SYNC, "sync") \
    X(COLLECTIVE, "collective") \
    X(HANDOFF, "handoff") \
    X(CREDIT, "credit") \
    X(FORK, "fork")

enum an_node_kind {
#define AN_NODE_ENUM(name, key) AN_NODE_##name,
    AN_NODE_MAP(AN_NODE_ENUM)
#undef AN_NODE_ENUM
        AN_NODE_KINDS
};
enum an_edge_kind {
#define AN_EDGE_ENUM(name, key) AN_EDGE_##name,
    AN_EDGE_MAP(AN_EDGE_ENUM)
#undef AN_EDGE_ENUM
        AN_EDGE_KINDS
};
#define AN_EDGE_KIND_MASK 0x0f
#define AN_EDGE_AT_START \
    0x40 /* releases at start(from), a piece of a thread: when the piece before it ends */
#define AN_EDGE_INFERRED 0x80 /* from times, not from the file */

const char *an_edge_key(enum an_edge_kind k);

struct an_graph {
    /* nodes, by track and start */
    size_t node_count;
    int64_t *start, *end;
    uint32_t *track; /* index into an_trace.track */
    uint32_t *slice; /* row in an_trace.slice: the innermost cut it is a piece of, or the device op;
                        AN_NONE: none (UNTRACED) */
    uint8_t *kind, *cause;
    size_t *track_first; /* nodes of track k: track_first[k] .. track_first[k + 1] (track_count + 1
                            of them) */
    uint32_t *op_node;   /* of every device op; of one in pieces the last of them */
    uint8_t *stream;     /* of every track: it is one of a device, and so are its nodes */
    /* edges, by the node they lead to: in_first[n] .. in_first[n + 1] */
    uint32_t *in_first; /* node_count + 1 */
    uint32_t *in_from;
    int32_t *in_lead; /* ns */
    uint8_t *in_kind; /* enum an_edge_kind | flags */
    size_t edge_count;
    uint32_t *order; /* all nodes, every one after all it depends on (program order and edges) */
    size_t dropped;  /* edges dropped because they contradict the times or close a circle */
    size_t by_kind[AN_EDGE_KINDS], inferred[AN_EDGE_KINDS];
    bool has_launches, has_syncs; /* the file has edges of these kinds that are recorded */
    struct an_causes *causes;     /* for an_slice_cause */
};

/* The graph of the run in c, built at the first call and kept in the context (c->graph). NULL in
 * *out with a reason in *why where the run holds nothing to build one from. 0 or TACHO_ENOMEM. */
int an_graph_of(struct an_context *context, const struct an_graph **out, const char **why);

/* ---- reading --------------------------------------------------------------------------------------------------------------- */

/* First node of a track that ends after `time`; AN_NONE: none. */
uint32_t an_graph_node_at(const struct an_graph *graph, uint32_t track, int64_t time);
/* When edge e (an index into the in_ columns) let its target go, by the recorded times: never later
 * than the target's start; of a wait and a collective, than its end. */
int64_t an_edge_release(const struct an_graph *graph, size_t edge);
/* The same of program order: the end of the node before, and the own start where the two overlap
 * (ops of one stream can). */
static inline int64_t an_order_release(const struct an_graph *graph, uint32_t before, uint32_t node)
{
    return graph->end[before] < graph->start[node] ? graph->end[before] : graph->start[node];
}
/* Node before n on its track, AN_NONE: it is the first. */
static inline uint32_t an_graph_before(const struct an_graph *graph, uint32_t node)
{
    return node && graph->track[node - 1] == graph->track[node] ? node - 1 : AN_NONE;
}

/* Does n's own work begin at the last of its releases, not at its start? */
static inline bool an_graph_waits(const struct an_graph *graph, uint32_t node)
{
    return graph->kind[node] == AN_NODE_WAIT || graph->kind[node] == AN_NODE_COLLECTIVE;
}
static inline bool an_graph_on_device(const struct an_graph *graph, uint32_t node)
{
    return graph->stream[graph->track[node]];
}
/* First piece of the device op that node n of a stream is a piece of; any other node is its own. */
static inline uint32_t an_graph_head(const struct an_graph *graph, uint32_t node)
{
    return an_graph_on_device(graph, node) && graph->kind[node] != AN_NODE_DEVICE
               ? node - (graph->kind[node] == AN_NODE_WAIT ? 1 : 2)
               : node;
}

#endif
