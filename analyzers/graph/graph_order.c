/* SPDX-License-Identifier: Apache-2.0
 *
 * The edges of a dependency graph, stored by target without those that contradict the recorded
 * times, and an order of the nodes in which every node comes after all that it depends on.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/graph/graph_private.h"

const char *an_edge_key(enum an_edge_kind kind)
{
    static const char *const keys[] = {
#define EDGE_KEY(name, key) key,
        AN_EDGE_MAP(EDGE_KEY)
#undef EDGE_KEY
    };
    return kind < AN_EDGE_KINDS ? keys[kind] : "";
}

/* ---- columns ------------------------------------------------------------------------------------------------------------- */

/* When a node must be released at the latest: a wait by its end, any other node by its start. */
static int64_t limit_of(const struct an_graph *graph, uint32_t node)
{
    return an_graph_waits(graph, node) ? graph->end[node] : graph->start[node];
}

/* How many ns before its end (or start) `from` released the target; -1: the recorded times
 * contradict the edge. */
static int64_t lead_of(const struct an_graph *graph, uint32_t from, uint32_t to_node, unsigned kind)
{
    int64_t limit = limit_of(graph, to_node),
            done = kind & AN_EDGE_AT_START ? graph->start[from] : graph->end[from];
    if (done <= limit)
        return 0;
    int64_t lead = an_time_sub(done, limit);
    return limit < graph->start[from] || lead > INT32_MAX ? -1 : lead;
}

int64_t an_edge_release(const struct an_graph *graph, size_t edge)
{
    uint32_t from = graph->in_from[edge];
    return graph->in_kind[edge] & AN_EDGE_AT_START ? graph->start[from]
                                                   : graph->end[from] - graph->in_lead[edge];
}

/* Sorts the few edges of one node: by source, kind, recorded ones first. */
static void sort_node(struct an_graph *graph, size_t first, size_t stop)
{
    for (size_t i = first + 1; i < stop; i++) {
        uint32_t from = graph->in_from[i];
        uint8_t kind = graph->in_kind[i];
        size_t place = i;
        for (; place > first &&
               (graph->in_from[place - 1] > from ||
                (graph->in_from[place - 1] == from && graph->in_kind[place - 1] > kind));
             place--) {
            graph->in_from[place] = graph->in_from[place - 1];
            graph->in_kind[place] = graph->in_kind[place - 1];
        }
        graph->in_from[place] = from;
        graph->in_kind[place] = kind;
    }
}

static int pair_order(const void *left, const void *right)
{
    const uint64_t *first = left, *second = right;
    return (*first > *second) - (*first < *second);
}

#define FEW 16 /* edges of a node that are sorted in place */

static int sort_many(struct an_graph *graph, size_t first, size_t stop)
{
    size_t count = stop - first;
    uint64_t *keys = malloc(count * sizeof *keys);
    if (!keys)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < count; i++)
        keys[i] = (uint64_t)graph->in_from[first + i] << 8 | graph->in_kind[first + i];
    qsort(keys, count, sizeof *keys, pair_order);
    for (size_t i = 0; i < count; i++) {
        graph->in_from[first + i] = (uint32_t)(keys[i] >> 8);
        graph->in_kind[first + i] = (uint8_t)keys[i];
    }
    free(keys);
    return 0;
}

/* Moves the edges of a node that agree with the recorded times to `kept` and the places after it,
 * each once. Returns the next free place. */
static size_t keep_node(struct an_graph *graph, uint32_t node, size_t first, size_t stop,
                        size_t kept)
{
    size_t begin = kept;
    for (size_t i = first; i < stop; i++) {
        uint32_t from = graph->in_from[i];
        uint8_t kind = graph->in_kind[i], what = kind & (AN_EDGE_KIND_MASK | AN_EDGE_AT_START);
        bool twice = false;
        for (size_t earlier = kept;
             earlier > begin && graph->in_from[earlier - 1] == from && !twice; earlier--)
            twice = (graph->in_kind[earlier - 1] & (AN_EDGE_KIND_MASK | AN_EDGE_AT_START)) == what;
        int64_t lead = lead_of(graph, from, node, kind);
        if (twice || lead < 0) {
            graph->dropped += !twice;
            continue;
        }
        graph->in_from[kept] = from;
        graph->in_kind[kept] = kind;
        graph->in_lead[kept++] = (int32_t)lead;
    }
    return kept;
}

static void scatter(struct an_graph_build *build, uint32_t *next)
{
    struct an_graph *graph = build->graph;
    for (size_t i = 0; i < build->edge_count; i++) {
        uint32_t place = next[build->to[i]]++;
        graph->in_from[place] = build->from[i];
        graph->in_kind[place] = build->kind[i];
    }
}

int an_graph_store(struct an_graph_build *build)
{
    struct an_graph *graph = build->graph;
    struct an_arena *arena = build->context->scratch;
    size_t kept = 0;
    int rc = 0;
    uint32_t *next = malloc((graph->node_count + 1) * sizeof *next);
    graph->in_first = an_arena_zero(arena, graph->node_count + 1, sizeof *graph->in_first);
    graph->in_from = an_arena_zero(arena, build->edge_count, sizeof *graph->in_from);
    graph->in_lead = an_arena_zero(arena, build->edge_count, sizeof *graph->in_lead);
    graph->in_kind = an_arena_zero(arena, build->edge_count, sizeof *graph->in_kind);
    if (!next || !graph->in_first || !graph->in_from || !graph->in_lead || !graph->in_kind) {
        free(next);
        return TACHO_ENOMEM;
    }
    for (size_t i = 0; i < build->edge_count; i++)
        graph->in_first[build->to[i] + 1]++;
    for (size_t node = 0; node < graph->node_count; node++)
        graph->in_first[node + 1] += graph->in_first[node];
    memcpy(next, graph->in_first, (graph->node_count + 1) * sizeof *next);
    scatter(build, next);
    free(next);
    for (size_t node = 0; node < graph->node_count && !rc; node++) {
        size_t first = graph->in_first[node], stop = graph->in_first[node + 1];
        if (stop - first > FEW)
            rc = sort_many(graph, first, stop);
        else
            sort_node(graph, first, stop);
        graph->in_first[node] = (uint32_t)kept;
        if (!rc)
            kept = keep_node(graph, (uint32_t)node, first, stop, kept);
    }
    graph->in_first[graph->node_count] = (uint32_t)kept;
    graph->edge_count = kept;
    return rc;
}

/* ---- order --------------------------------------------------------------------------------------------------------------- */

/* Every track is a queue whose nodes before `done` are ordered. Before its next node can be
 * ordered, the nodes that the edges of that node come from must be: their tracks are pushed on a
 * stack and ordered up to these nodes first. A track is on the stack once at most; an edge from a
 * track that is there already closes a circle. */
struct frame {
    uint32_t track, edge; /* edge: the one that is waited for */
    size_t goal;          /* the track is to be ordered up to here */
};

struct sorter {
    struct an_graph *graph;
    size_t *done;        /* of every track: the next node to be ordered */
    uint32_t *place;     /* of every track: its place on the stack + 1; 0: it is not there */
    struct frame *stack; /* one for every track */
    size_t depth, ordered;
    uint8_t *closes_circle; /* of every edge: it closes a circle */
};

/* The node that must be ordered before the target of an edge. An edge from the start of a piece
 * needs the piece before only. AN_NONE: none. */
static uint32_t required_node(const struct an_graph *graph, uint32_t edge)
{
    uint32_t from = graph->in_from[edge];
    return graph->in_kind[edge] & AN_EDGE_AT_START ? an_graph_before(graph, from) : from;
}

/* The first edge of a node, from `edge` on, whose source is not ordered yet; in_first[node + 1] if
 * none exists. */
static uint32_t first_blocking(const struct sorter *sorter, uint32_t node, uint32_t edge)
{
    const struct an_graph *graph = sorter->graph;
    for (; edge < graph->in_first[node + 1]; edge++) {
        uint32_t from = required_node(graph, edge);
        if (from != AN_NONE && !sorter->closes_circle[edge] &&
            from >= sorter->done[graph->track[from]])
            break;
    }
    return edge;
}

static void push(struct sorter *sorter, uint32_t track, size_t goal)
{
    sorter->stack[sorter->depth] = (struct frame){track, 0, goal};
    sorter->place[track] = (uint32_t)++sorter->depth;
}

static void pop_to(struct sorter *sorter, size_t depth)
{
    while (sorter->depth > depth)
        sorter->place[sorter->stack[--sorter->depth].track] = 0;
}

/* The frames from `place` on wait for each other in a circle: drops one of their edges, an inferred
 * one if there is one. */
static void break_circle(struct sorter *sorter, size_t place)
{
    size_t weakest = sorter->depth - 1;
    for (size_t i = place; i < sorter->depth; i++)
        if (sorter->graph->in_kind[sorter->stack[i].edge] & AN_EDGE_INFERRED)
            weakest = i;
    sorter->closes_circle[sorter->stack[weakest].edge] = 1;
    sorter->graph->dropped++;
    pop_to(sorter, weakest + 1);
}

/* Orders all nodes of a track, and of other tracks as far as these depend on them. */
static void order_track(struct sorter *sorter, uint32_t track)
{
    struct an_graph *graph = sorter->graph;
    push(sorter, track, graph->track_first[track + 1]);
    while (sorter->depth) {
        struct frame *frame = &sorter->stack[sorter->depth - 1];
        size_t node = sorter->done[frame->track];
        if (node >= frame->goal) {
            pop_to(sorter, sorter->depth - 1);
            continue;
        }
        uint32_t edge = first_blocking(sorter, (uint32_t)node,
                                       frame->edge > graph->in_first[node] ? frame->edge
                                                                           : graph->in_first[node]);
        if (edge == graph->in_first[node + 1]) {
            graph->order[sorter->ordered++] = (uint32_t)node;
            sorter->done[frame->track]++;
            continue;
        }
        uint32_t from = required_node(graph, edge);
        frame->edge = edge;
        if (sorter->place[graph->track[from]])
            break_circle(sorter, sorter->place[graph->track[from]] - 1);
        else
            push(sorter, graph->track[from], (size_t)from + 1);
    }
}

/* Removes the edges that close a circle from the columns. */
static void remove_circle_edges(struct an_graph *graph, const uint8_t *cut)
{
    size_t out = 0;
    for (size_t node = 0; node < graph->node_count; node++) {
        size_t first = graph->in_first[node];
        graph->in_first[node] = (uint32_t)out;
        for (size_t edge = first;
             edge < (node + 1 < graph->node_count ? graph->in_first[node + 1] : graph->edge_count);
             edge++)
            if (!cut[edge]) {
                graph->in_from[out] = graph->in_from[edge];
                graph->in_lead[out] = graph->in_lead[edge];
                graph->in_kind[out++] = graph->in_kind[edge];
            }
    }
    graph->in_first[graph->node_count] = (uint32_t)out;
    graph->edge_count = out;
}

int an_graph_sort(struct an_graph_build *build)
{
    struct an_graph *graph = build->graph;
    size_t tracks = build->context->trace->track_count, dropped = graph->dropped;
    struct sorter sorter = {.graph = graph,
                            .done = malloc((tracks + 1) * sizeof *sorter.done),
                            .place = calloc(tracks + 1, sizeof *sorter.place),
                            .stack = malloc((tracks + 1) * sizeof *sorter.stack),
                            .closes_circle = calloc(graph->edge_count + 1, 1)};
    graph->order = an_arena_zero(build->context->scratch, graph->node_count, sizeof *graph->order);
    int rc = sorter.done && sorter.place && sorter.stack && sorter.closes_circle && graph->order
                 ? 0
                 : TACHO_ENOMEM;
    if (!rc) {
        memcpy(sorter.done, graph->track_first, (tracks + 1) * sizeof *sorter.done);
        for (uint32_t track = 0; track < tracks; track++)
            order_track(&sorter, track);
        if (graph->dropped > dropped)
            remove_circle_edges(graph, sorter.closes_circle);
    }
    free(sorter.done);
    free(sorter.place);
    free(sorter.stack);
    free(sorter.closes_circle);
    return rc;
}
