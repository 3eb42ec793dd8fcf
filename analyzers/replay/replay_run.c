/* SPDX-License-Identifier: Apache-2.0
 *
 * The two passes of the replay (replay.h). The forward pass computes when each node starts and
 * ends; the backward pass computes how long after its end each node's work reaches the end of the
 * frame. Both follow the same releases.
 */

#include "analyzers/replay/replay.h"
#include "analyzers/replay/what_if_loader.h"

bool an_replay_ends_waiting(const struct an_graph *graph, uint32_t node, size_t edge)
{
    if (graph->kind[node] == AN_NODE_WAIT || graph->kind[node] == AN_NODE_COLLECTIVE)
        return true;
    return graph->kind[node] == AN_NODE_DEVICE &&
           (graph->in_kind[edge] & AN_EDGE_KIND_MASK) == AN_EDGE_COLLECTIVE;
}

static bool is_excluded(const struct an_change *change, const struct an_graph *graph, uint32_t node,
                        size_t edge)
{
    enum an_edge_kind kind = (enum an_edge_kind)(graph->in_kind[edge] & AN_EDGE_KIND_MASK);
    return (change->without_peers && kind == AN_EDGE_COLLECTIVE) ||
           (change->without_syncs && kind == AN_EDGE_SYNC) ||
           (change->route && an_route_replaces(change->route, graph, node, kind));
}

static int64_t latency_of(const struct an_replay *replay, const struct an_change *change,
                          uint32_t node, enum an_latency kind)
{
    int64_t ns = an_replay_latency(replay, node, kind);
    return change->latency == 1 ? ns : (int64_t)((double)ns * change->latency);
}

/* When a node without any release starts: on a device with the frame, on a thread when it was
 * recorded to start, because the reason is not known. */
static int64_t default_start(const struct an_replay *replay, const struct an_replay_frame *frame,
                             uint32_t node)
{
    return replay->graph->kind[node] == AN_NODE_DEVICE && replay->graph->start[node] >= frame->start
               ? frame->start
               : replay->graph->start[node];
}

/* How long before its end a node releases the target of an edge. The part of a lead that lies in
 * the own work shrinks with that work. The part that is longer than the own work lies in the
 * waiting before it and stays as it is. So less work never releases anything later. */
static int64_t lead_of(const struct an_replay *replay, const struct an_change *change, size_t edge)
{
    int64_t lead = replay->graph->in_lead[edge];
    uint32_t from = replay->graph->in_from[edge];
    if (!change->scale_leads || !lead || (replay->graph->in_kind[edge] & AN_EDGE_AT_START) ||
        change->own[from] >= replay->own[from])
        return lead;
    if (lead >= replay->own[from])
        return lead - (replay->own[from] - change->own[from]);
    return (int64_t)((double)lead * (double)change->own[from] / (double)replay->own[from]);
}

/* Computes start and end of one node from the nodes that it depends on, which have been replayed.
 * `body` is when its waiting ends: the start of its own work. */
static void replay_node(const struct an_replay *replay, const struct an_replay_frame *frame,
                        const struct an_change *change, uint32_t node, struct an_times *times)
{
    const struct an_graph *graph = replay->graph;
    uint32_t before = an_graph_before(graph, node);
    int64_t start = AN_NEVER, body = AN_NEVER;
    if (before != AN_NONE)
        start = an_time_add(an_time_sub(times->end[before], an_replay_overlap(graph, before, node)),
                            latency_of(replay, change, node, AN_AFTER_ORDER));
    for (size_t edge = graph->in_first[node]; edge < graph->in_first[node + 1]; edge++) {
        uint32_t from = graph->in_from[edge];
        if (is_excluded(change, graph, node, edge))
            continue;
        const int64_t *released_at =
            graph->in_kind[edge] & AN_EDGE_AT_START ? times->start : times->end;
        int64_t release = an_time_sub(released_at[from], lead_of(replay, change, edge));
        if (an_replay_ends_waiting(graph, node, edge)) {
            body = an_time_max(body, release);
            continue;
        }
        release = an_time_add(release, latency_of(replay, change, node, AN_AFTER_EDGE));
        start = an_time_max(start, release);
    }
    if (start == AN_NEVER)
        start = default_start(replay, frame, node);
    if (change->route)
        body = an_route_release(change->route, node, start, body);
    times->start[node] = start;
    const int64_t *own = change->own ? change->own : replay->own;
    times->end[node] = an_time_add(an_time_max(body, start), own[node]);
}

void an_replay_run(const struct an_replay *replay, const struct an_change *change,
                   struct an_times *times)
{
    static const struct an_change as_recorded = {.latency = 1};
    const struct an_change *applied = change ? change : &as_recorded;
    for (size_t k = 0; k < replay->frame_count; k++) {
        const struct an_replay_frame *frame = &replay->frame[k];
        if (applied->route)
            an_route_begin(applied->route, frame->start);
        for (size_t i = frame->first; i < frame->first + frame->count; i++)
            replay_node(replay, frame, applied, replay->node[i], times);
    }
}

int64_t an_replay_step_end(const struct an_replay *replay, const struct an_replay_step *step,
                           const struct an_times *times)
{
    int64_t end = AN_NEVER;
    for (size_t i = 0; i < step->op_count; i++) {
        uint32_t node = replay->graph->op_node[step->op[i]];
        end = node != AN_NONE && times->end[node] > end ? times->end[node] : end;
    }
    return end != AN_NEVER ? end : an_time_add(times->start[step->to], step->to_offset);
}

int64_t an_replay_step_ns(const struct an_replay *replay, const struct an_replay_step *step,
                          const struct an_times *times)
{
    int64_t begin = an_time_add(times->start[step->from], step->from_offset);
    return an_time_sub(an_time_sub(an_replay_step_end(replay, step, times), begin), step->cut_ns);
}

/* ---- backward ------------------------------------------------------------------------------------------------------------- */

static void raise_to(int64_t *tail, int64_t candidate)
{
    if (candidate > *tail)
        *tail = candidate;
}

/* Passes the tail of one node on to all nodes that it depends on. */
static void slack_of_node(const struct an_replay *replay, uint32_t node, struct an_slack *slack)
{
    const struct an_graph *graph = replay->graph;
    int64_t body = slack->tail[node] == AN_NEVER
                       ? AN_NEVER
                       : an_time_add(slack->tail[node], replay->own[node]);
    int64_t start = body > slack->tail_start[node] ? body : slack->tail_start[node];
    uint32_t before = an_graph_before(graph, node);
    if (start == AN_NEVER)
        return;
    slack->tail_start[node] = start;
    if (before != AN_NONE)
        raise_to(&slack->tail[before],
                 an_time_add(an_time_sub(start, an_replay_overlap(graph, before, node)),
                             an_replay_latency(replay, node, AN_AFTER_ORDER)));
    for (size_t edge = graph->in_first[node]; edge < graph->in_first[node + 1]; edge++) {
        bool waiting = an_replay_ends_waiting(graph, node, edge);
        int64_t from =
            waiting ? body : an_time_add(start, an_replay_latency(replay, node, AN_AFTER_EDGE));
        if (waiting && body == AN_NEVER)
            continue;
        raise_to(graph->in_kind[edge] & AN_EDGE_AT_START ? &slack->tail_start[graph->in_from[edge]]
                                                         : &slack->tail[graph->in_from[edge]],
                 an_time_sub(from, graph->in_lead[edge]));
    }
}

size_t an_replay_counted_ns(const struct an_replay *replay, const struct an_times *times,
                            double *out)
{
    size_t count = 0;
    for (size_t i = 0; i < replay->step_count; i++)
        if (an_replay_counts(&replay->step[i]))
            out[count++] = (double)an_replay_step_ns(replay, &replay->step[i], times);
    return count;
}

const struct an_replay_step *an_replay_sink(const struct an_replay *replay, size_t frame,
                                            const struct an_times *times)
{
    const struct an_replay_frame *replay_frame = &replay->frame[frame];
    const struct an_replay_step *sink = NULL;
    for (size_t i = replay_frame->step_first;
         i < replay_frame->step_first + replay_frame->step_count; i++) {
        const struct an_replay_step *step = &replay->step[i];
        if (!sink ||
            an_replay_step_end(replay, step, times) > an_replay_step_end(replay, sink, times))
            sink = step;
    }
    return sink;
}

void an_replay_back(const struct an_replay *replay, size_t frame, const struct an_replay_step *sink,
                    const struct an_times *times, struct an_slack *slack)
{
    const struct an_replay_frame *replay_frame = &replay->frame[frame];
    if (sink->op) {
        slack->sink = an_replay_step_end(replay, sink, times);
        for (size_t i = 0; i < sink->op_count; i++)
            if (replay->graph->op_node[sink->op[i]] != AN_NONE)
                slack->tail[replay->graph->op_node[sink->op[i]]] = 0;
    } else {
        slack->sink = times->start[sink->to];
        slack->tail_start[sink->to] = 0;
    }
    for (size_t i = replay_frame->first + replay_frame->count; i-- > replay_frame->first;)
        slack_of_node(replay, replay->node[i], slack);
}

int an_slack_new(const struct an_replay *replay, struct an_slack **out)
{
    size_t node_count = replay->graph->node_count;
    struct an_slack *slack = an_arena_zero(replay->context->scratch, 1, sizeof *slack);
    if (!slack ||
        !(slack->tail = an_arena_zero(replay->context->scratch, node_count, sizeof *slack->tail)) ||
        !(slack->tail_start =
              an_arena_zero(replay->context->scratch, node_count, sizeof *slack->tail_start)))
        return TACHO_ENOMEM;
    for (size_t i = 0; i < node_count; i++)
        slack->tail[i] = slack->tail_start[i] = AN_NEVER;
    *out = slack;
    return 0;
}

void an_slack_free(const struct an_replay *replay, struct an_slack *slack)
{
    if (!slack)
        return;
    an_arena_give_back(replay->context->scratch, slack->tail);
    an_arena_give_back(replay->context->scratch, slack->tail_start);
    slack->tail = slack->tail_start = NULL;
}
