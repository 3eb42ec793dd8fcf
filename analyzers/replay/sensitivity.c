/* SPDX-License-Identifier: Apache-2.0
 *
 * What the longest paths of a replayed frame consist of (replay.h). A path is tight if every
 * release on it is the one that counted. With several tight paths, shortening one of them gains
 * nothing. So less work of some kind gains the least that any tight path holds of that kind, and a
 * single node counts only if all tight paths lead through it.
 */
#include <stdlib.h>

#include "analyzers/replay/replay.h"
#include "analyzers/replay/sensitivity.h"

#define PRIME ((uint64_t)2305843009213693951) /* 2^61 - 1: paths are counted modulo it */

/* A release that let a node start (or, with `body`, end its waiting) at exactly the time it did. */
struct tight {
    uint32_t from;
    bool at_start, body;
    int64_t latency;
};

struct tight_walk {
    const struct an_replay *replay;
    const struct an_times *times;
    uint32_t node;
    size_t edge; /* in_first[n] - 1: program order is next */
    bool order;
};

static struct tight_walk walk_of(const struct an_replay *replay, const struct an_times *times,
                                 uint32_t node)
{
    return (struct tight_walk){.replay = replay,
                               .times = times,
                               .node = node,
                               .edge = replay->graph->in_first[node],
                               .order = true};
}

/* The next tight release of the node; false: there are no more. Releases by nodes that are not
 * replayed are skipped: those nodes are sources. */
static bool next_tight(struct tight_walk *walk, struct tight *tight)
{
    const struct an_graph *graph = walk->replay->graph;
    uint32_t node = walk->node, before = an_graph_before(graph, node);
    const int64_t *start = walk->times->start, *end = walk->times->end;
    if (walk->order) {
        walk->order = false;
        if (before != AN_NONE && walk->replay->inside[before]) {
            int64_t over = an_replay_overlap(graph, before, node);
            *tight = (struct tight){
                .from = before, .latency = an_replay_latency(walk->replay, node, AN_AFTER_ORDER)};
            if (an_time_add(an_time_sub(end[before], over), tight->latency) == start[node])
                return true;
        }
    }
    for (; walk->edge < graph->in_first[node + 1]; walk->edge++) {
        size_t edge = walk->edge;
        *tight = (struct tight){.from = graph->in_from[edge],
                                .at_start = graph->in_kind[edge] & AN_EDGE_AT_START,
                                .body = an_replay_ends_waiting(graph, node, edge)};
        int64_t release =
            an_time_sub((tight->at_start ? start : end)[tight->from], graph->in_lead[edge]);
        tight->latency = tight->body ? 0 : an_replay_latency(walk->replay, node, AN_AFTER_EDGE);
        if (walk->replay->inside[tight->from] &&
            an_time_add(release, tight->latency) ==
                (tight->body ? an_time_sub(end[node], walk->replay->own[node]) : start[node])) {
            walk->edge++;
            return true;
        }
    }
    return false;
}

static bool starts_work(const struct an_replay *replay, const struct an_times *times, uint32_t node)
{
    return an_time_add(times->start[node], replay->own[node]) ==
           times->end[node]; /* its work followed its start, not a later release */
}

/* ---- which nodes lie on all tight paths --------------------------------------------------------------------------------------- */

static uint64_t add_modulo(uint64_t first, uint64_t second)
{
    uint64_t sum = first + second;
    return sum >= PRIME ? sum - PRIME : sum;
}

static uint64_t multiply_modulo(uint64_t first, uint64_t second)
{
    return (uint64_t)((unsigned __int128)first * second % PRIME);
}

/* Numbers of tight paths to the start and to the end of each node, and from there to the sink,
 * modulo PRIME. */
struct paths {
    uint64_t *to_start, *to_end, *from_start, *from_end;
};

static void count_forward(const struct an_replay *replay, const uint32_t *nodes, size_t count,
                          const struct an_times *times, struct paths *p)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t target = nodes[i];
        struct tight_walk walk = walk_of(replay, times, target);
        struct tight tight;
        bool any = false;
        while (next_tight(&walk, &tight)) {
            uint64_t paths = (tight.at_start ? p->to_start : p->to_end)[tight.from];
            uint64_t *to = tight.body ? &p->to_end[target] : &p->to_start[target];
            *to = add_modulo(*to, paths);
            any = any || !tight.body;
        }
        if (!any)
            p->to_start[target] = 1;
        if (starts_work(replay, times, target))
            p->to_end[target] = add_modulo(p->to_end[target], p->to_start[target]);
        else if (!p->to_end[target])
            p->to_end[target] = 1; /* its last release is outside of the frame */
    }
}

static void count_backward(const struct an_replay *replay, const uint32_t *nodes, size_t count,
                           const struct an_times *times, struct paths *paths)
{
    for (size_t i = count; i-- > 0;) {
        uint32_t target = nodes[i];
        struct tight_walk walk = walk_of(replay, times, target);
        struct tight tight;
        if (starts_work(replay, times, target))
            paths->from_start[target] =
                add_modulo(paths->from_start[target], paths->from_end[target]);
        while (next_tight(&walk, &tight)) {
            uint64_t *from =
                tight.at_start ? &paths->from_start[tight.from] : &paths->from_end[tight.from];
            *from =
                add_modulo(*from, tight.body ? paths->from_end[target] : paths->from_start[target]);
        }
    }
}

/* The next node at the end of the step that a frame ends with; AN_NONE: there are no more. *i
 * starts at 0. */
static uint32_t next_into(const struct an_replay *replay, const struct an_replay_step *sink,
                          const struct an_times *times, size_t *i)
{
    if (!sink->op)
        return (*i)++ ? AN_NONE : sink->to;
    for (int64_t end = an_replay_step_end(replay, sink, times); *i < sink->op_count;) {
        uint32_t node = replay->graph->op_node[sink->op[(*i)++]];
        if (node != AN_NONE && times->end[node] == end)
            return node;
    }
    return AN_NONE;
}

int an_replay_on_every_path(const struct an_replay *replay, size_t frame,
                            const struct an_times *times, const struct an_replay_step *sink,
                            bool *every)
{
    const struct an_replay_frame *replay_frame = &replay->frame[frame];
    const uint32_t *nodes = replay->node + replay_frame->first;
    size_t node_count = replay->graph->node_count;
    struct paths paths = {calloc(node_count, 8), calloc(node_count, 8), calloc(node_count, 8),
                          calloc(node_count, 8)};
    int rc =
        paths.to_start && paths.to_end && paths.from_start && paths.from_end ? 0 : TACHO_ENOMEM;
    if (!rc) {
        uint64_t all_paths = 0;
        count_forward(replay, nodes, replay_frame->count, times, &paths);
        size_t entry = 0;
        for (uint32_t last_node; (last_node = next_into(replay, sink, times, &entry)) != AN_NONE;) {
            (sink->op ? paths.from_end : paths.from_start)[last_node] = 1;
            all_paths =
                add_modulo(all_paths, (sink->op ? paths.to_end : paths.to_start)[last_node]);
        }
        count_backward(replay, nodes, replay_frame->count, times, &paths);
        for (size_t i = 0; i < replay_frame->count; i++)
            every[i] =
                paths.from_end[nodes[i]] &&
                multiply_modulo(paths.to_end[nodes[i]], paths.from_end[nodes[i]]) == all_paths;
    }
    free(paths.to_start);
    free(paths.to_end);
    free(paths.from_start);
    free(paths.from_end);
    return rc;
}

/* ---- what they hold --------------------------------------------------------------------------------------------------------- */

/* Nodes of the frame of which the start or the end lies on a tight path to the sink, in order. */
static size_t critical_nodes(const struct an_replay *replay, const struct an_replay_frame *frame,
                             const struct an_times *times, const struct an_slack *slack,
                             uint32_t *list)
{
    size_t count = 0;
    for (size_t i = frame->first; i < frame->first + frame->count; i++) {
        uint32_t node = replay->node[i];
        bool start = slack->tail_start[node] != AN_NEVER &&
                     times->start[node] + slack->tail_start[node] == slack->sink;
        if (start || an_slack_ns(slack, times, node) == 0)
            list[count++] = node;
    }
    return count;
}

/* Least ns of one row on a tight path to the start and to the end of each critical node of a frame;
 * 0 of its other nodes. */
struct least {
    const struct an_replay_frame *frame;
    int64_t *to_start, *to_end;
};

/* Once it is known which nodes are critical, the tails of the frame are not needed any more: their
 * arrays take the sums. */
static struct least least_of_frame(const struct an_replay *replay,
                                   const struct an_replay_frame *frame, struct an_slack *slack)
{
    for (size_t i = frame->first; i < frame->first + frame->count; i++)
        slack->tail_start[replay->node[i]] = slack->tail[replay->node[i]] = 0;
    return (struct least){frame, slack->tail_start, slack->tail};
}

static void least_of_node(const struct an_replay *replay, const struct an_times *times,
                          const struct an_rows *rows, size_t row, uint32_t node,
                          struct least *least)
{
    struct tight_walk walk = walk_of(replay, times, node);
    struct tight tight;
    int64_t start = INT64_MAX, end = INT64_MAX,
            own = rows->row_of[node] == row ? replay->own[node] : 0;
    while (next_tight(&walk, &tight)) {
        int64_t from = replay->graph->start[tight.from],
                ns = row == rows->dispatch ? tight.latency : 0;
        if (from >= least->frame->start && from < least->frame->end)
            ns += (tight.at_start ? least->to_start : least->to_end)[tight.from];
        if (tight.body)
            end = ns < end ? ns : end;
        else
            start = ns < start ? ns : start;
    }
    start = start == INT64_MAX ? 0 : start;
    if (starts_work(replay, times, node))
        end = start < end ? start : end;
    least->to_start[node] = start;
    least->to_end[node] = (end == INT64_MAX ? 0 : end) + own;
}

static int64_t least_into(const struct an_replay *replay, const struct an_replay_step *sink,
                          const struct an_times *times, const struct least *sums)
{
    int64_t least = INT64_MAX;
    size_t i = 0;
    for (uint32_t node; (node = next_into(replay, sink, times, &i)) != AN_NONE;) {
        int64_t ns = (sink->op ? sums->to_end : sums->to_start)[node];
        least = ns < least ? ns : least;
    }
    return least == INT64_MAX ? 0 : least;
}

int an_sensitivity(const struct an_replay *replay, const struct an_times *times,
                   const struct an_rows *rows, int64_t *row_ns)
{
    struct an_slack *slack = NULL;
    uint32_t *nodes = malloc((replay->node_count + 1) * sizeof *nodes);
    int rc = nodes ? an_slack_new(replay, &slack) : TACHO_ENOMEM;
    for (size_t frame = 0; !rc && frame < replay->frame_count; frame++) {
        const struct an_replay_step *sink = an_replay_sink(replay, frame, times);
        if (!sink)
            continue;
        an_replay_back(replay, frame, sink, times, slack);
        size_t count = critical_nodes(replay, &replay->frame[frame], times, slack, nodes);
        struct least least = least_of_frame(replay, &replay->frame[frame], slack);
        for (size_t row = 0; count && row < rows->count; row++) {
            for (size_t i = 0; i < count; i++)
                least_of_node(replay, times, rows, row, nodes[i], &least);
            row_ns[row] += least_into(replay, sink, times, &least);
        }
    }
    an_slack_free(replay, slack);
    free(nodes);
    return rc;
}
