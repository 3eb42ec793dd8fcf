/* SPDX-License-Identifier: Apache-2.0
 *
 * What the builders of the dependency graph call (graph_private.h): in the first phase they ask for
 * cuts of threads and device ops, in the second phase they add edges between the nodes that came of
 * these cuts.
 */
#include <stdlib.h>

#include "analyzers/graph/graph_private.h"

void an_graph_cut(struct an_graph_build *build, size_t slice, enum an_node_kind kind,
                  enum an_cause cause)
{
    build->cut[slice] = (uint8_t)(kind + 1);
    build->cause[slice] = (uint8_t)cause;
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
                                                              .first_node = AN_NONE,
                                                              .last_node = AN_NONE,
                                                              .kind = (uint8_t)kind,
                                                              .cause = (uint8_t)cause};
    return 0;
}

int an_graph_cut_op(struct an_graph_build *build, uint32_t op, int64_t time)
{
    if (an_grow(&build->op_cut, &build->op_cut_room, build->op_cut_count + 1,
                sizeof *build->op_cut))
        return TACHO_ENOMEM;
    build->op_cut[build->op_cut_count++] = (struct an_graph_op_cut){time, op};
    return 0;
}

int an_graph_cut_pauses(struct an_graph_build *build, uint32_t track, enum an_cause cause)
{
    const struct an_trace *trace = build->context->trace;
    size_t first = trace->track[track].slice_first, end = first + trace->track[track].slice_count;
    int64_t busy_until = INT64_MIN;
    for (size_t i = first; i < end; i++) {
        int64_t start = trace->slice.start[i], slice_end = an_slice_end(trace, i);
        if (busy_until != INT64_MIN && start > busy_until) {
            struct an_graph_pause pause = {busy_until, start, track, 0};
            if (an_graph_cut_span(build, track, busy_until, start, AN_NONE, AN_NODE_WAIT, cause,
                                  &pause.span) ||
                an_grow(&build->pause, &build->pause_room, build->pause_count + 1, sizeof pause))
                return TACHO_ENOMEM;
            build->pause[build->pause_count++] = pause;
        }
        busy_until = slice_end > busy_until ? slice_end : busy_until;
    }
    return 0;
}

int an_graph_edge(struct an_graph_build *build, uint32_t from, uint32_t to, unsigned kind)
{
    if (from == AN_NONE || to == AN_NONE)
        return 0;
    if (build->graph->track[from] == build->graph->track[to] &&
        from < to) /* program order says it */
        return 0;
    if (an_grow(&build->from, &build->edge_room[0], build->edge_count + 1, sizeof *build->from) ||
        an_grow(&build->to, &build->edge_room[1], build->edge_count + 1, sizeof *build->to) ||
        an_grow(&build->kind, &build->edge_room[2], build->edge_count + 1, sizeof *build->kind))
        return TACHO_ENOMEM;
    build->from[build->edge_count] = from;
    build->to[build->edge_count] = to;
    build->kind[build->edge_count++] = (uint8_t)kind;
    return 0;
}
