/* SPDX-License-Identifier: Apache-2.0
 *
 * What the longest paths of a replayed frame consist of (replay.h). A path is tight when every
 * release on it is the one that counted. With several tight paths, shortening one of them alone
 * gains nothing: what is gained by less work of some kind is the least that any tight path holds of
 * it, and a node counts alone only if all of them lead through it.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/replay/replay.h"
#include "analyzers/replay/sensitivity.h"

#define PRIME ((uint64_t)2305843009213693951) /* 2^61 - 1: paths are counted modulo it */

/* Something that let node n start (or, `body`: end its waiting) at just the time it did. */
struct tight {
    uint32_t from;
    bool at_start, body;
    int64_t latency;
};

struct tight_walk {
    const struct an_replay *replay;
    const struct an_times *times;
    uint32_t n;
    size_t edge; /* in_first[n] - 1: program order is next */
    bool order;
};

static int64_t latency_of(const struct an_replay *replay, uint32_t n, enum an_latency kind)
{
    size_t copy = replay->graph->cause[n] == AN_CAUSE_COPY ? AN_LATENCIES : 0;
    return replay->graph->kind[n] == AN_NODE_DEVICE
               ? replay->latency[(size_t)replay->graph->track[n] * 2 * AN_LATENCIES + copy + kind]
               : 0;
}

static struct tight_walk walk_of(const struct an_replay *replay, const struct an_times *times,
                                 uint32_t n)
{
    return (struct tight_walk){.replay = replay,
                               .times = times,
                               .n = n,
                               .edge = replay->graph->in_first[n],
                               .order = true};
}

/* The next tight release of the node; false: no more. Those of nodes that are not replayed are
 * sources and left out. */
static bool next_tight(struct tight_walk *tight_walk, struct tight *tight)
{
    const struct an_graph *graph = tight_walk->replay->graph;
    uint32_t n = tight_walk->n, before = an_graph_before(graph, n);
    const int64_t *start = tight_walk->times->start, *end = tight_walk->times->end;
    if (tight_walk->order) {
        tight_walk->order = false;
        if (before != AN_NONE && tight_walk->replay->inside[before]) {
            int64_t over =
                graph->end[before] > graph->start[n] ? graph->end[before] - graph->start[n] : 0;
            *tight = (struct tight){.from = before,
                                    .latency = latency_of(tight_walk->replay, n, AN_AFTER_ORDER)};
            if (end[before] - over + tight->latency == start[n])
                return true;
        }
    }
    for (; tight_walk->edge < graph->in_first[n + 1]; tight_walk->edge++) {
        size_t e = tight_walk->edge;
        *tight = (struct tight){.from = graph->in_from[e],
                                .at_start = graph->in_kind[e] & AN_EDGE_AT_START,
                                .body = an_replay_ends_waiting(graph, n, e)};
        int64_t release = (tight->at_start ? start : end)[tight->from] - graph->in_lead[e];
        tight->latency = tight->body ? 0 : latency_of(tight_walk->replay, n, AN_AFTER_EDGE);
        if (tight_walk->replay->inside[tight->from] &&
            release + tight->latency ==
                (tight->body ? end[n] - tight_walk->replay->own[n] : start[n])) {
            tight_walk->edge++;
            return true;
        }
    }
    return false;
}

static bool starts_work(const struct an_replay *replay, const struct an_times *times, uint32_t n)
{
    return times->start[n] + replay->own[n] ==
           times->end[n]; /* its start, not a release behind it, is what its work followed */
}

/* ---- which nodes lie on all tight paths --------------------------------------------------------------------------------------- */

static uint64_t add(uint64_t a, uint64_t b)
{
    uint64_t sum = a + b;
    return sum >= PRIME ? sum - PRIME : sum;
}

static uint64_t multiply(uint64_t a, uint64_t b)
{
    return (uint64_t)((unsigned __int128)a * b % PRIME);
}

/* Numbers of tight paths that lead to the start and to the end of each node, and from there to the
 * sink. */
struct paths {
    uint64_t *to_start, *to_end, *from_start, *from_end;
};

static void count_forward(const struct an_replay *replay, const uint32_t *node, size_t count,
                          const struct an_times *times, struct paths *p)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t n = node[i];
        struct tight_walk tight_walk = walk_of(replay, times, n);
        struct tight tight;
        bool any = false;
        while (next_tight(&tight_walk, &tight)) {
            uint64_t paths = (tight.at_start ? p->to_start : p->to_end)[tight.from];
            uint64_t *to = tight.body ? &p->to_end[n] : &p->to_start[n];
            *to = add(*to, paths);
            any = any || !tight.body;
        }
        if (!any)
            p->to_start[n] = 1;
        if (starts_work(replay, times, n))
            p->to_end[n] = add(p->to_end[n], p->to_start[n]);
        else if (!p->to_end[n])
            p->to_end[n] = 1; /* its last release is outside of the frame */
    }
}

static void count_backward(const struct an_replay *replay, const uint32_t *node, size_t count,
                           const struct an_times *times, struct paths *paths)
{
    for (size_t i = count; i-- > 0;) {
        uint32_t n = node[i];
        struct tight_walk tight_walk = walk_of(replay, times, n);
        struct tight tight;
        if (starts_work(replay, times, n))
            paths->from_start[n] = add(paths->from_start[n], paths->from_end[n]);
        while (next_tight(&tight_walk, &tight)) {
            uint64_t *from =
                tight.at_start ? &paths->from_start[tight.from] : &paths->from_end[tight.from];
            *from = add(*from, tight.body ? paths->from_end[n] : paths->from_start[n]);
        }
    }
}

/* The next tight way into the end of the step a frame ends with: *i from 0. The node, AN_NONE: no
 * more. */
static uint32_t next_into(const struct an_replay *replay, const struct an_replay_step *sink,
                          const struct an_times *times, size_t *i)
{
    if (!sink->op)
        return (*i)++ ? AN_NONE : sink->to;
    for (int64_t end = an_replay_step_end(replay, sink, times); *i < sink->op_count;) {
        uint32_t n = replay->graph->op_node[sink->op[(*i)++]];
        if (n != AN_NONE && times->end[n] == end)
            return n;
    }
    return AN_NONE;
}

int an_replay_on_every_path(const struct an_replay *replay, size_t frame,
                            const struct an_times *times, const struct an_replay_step *sink,
                            bool *every)
{
    const struct an_replay_frame *f = &replay->frame[frame];
    const uint32_t *node = replay->node + f->first;
    size_t all = replay->graph->node_count;
    struct paths paths = {calloc(all, 8), calloc(all, 8), calloc(all, 8), calloc(all, 8)};
    int rc =
        paths.to_start && paths.to_end && paths.from_start && paths.from_end ? 0 : TACHO_ENOMEM;
    if (!rc) {
        uint64_t all_paths = 0;
        count_forward(replay, node, f->count, times, &paths);
        size_t at = 0;
        for (uint32_t n; (n = next_into(replay, sink, times, &at)) != AN_NONE;) {
            (sink->op ? paths.from_end : paths.from_start)[n] = 1;
            all_paths = add(all_paths, (sink->op ? paths.to_end : paths.to_start)[n]);
        }
        count_backward(replay, node, f->count, times, &paths);
        for (size_t i = 0; i < f->count; i++)
            every[i] = paths.from_end[node[i]] &&
                       multiply(paths.to_end[node[i]], paths.from_end[node[i]]) == all_paths;
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
        uint32_t n = replay->node[i];
        bool start = slack->tail_start[n] != AN_NEVER &&
                     times->start[n] + slack->tail_start[n] == slack->sink;
        if (start || an_slack_ns(slack, times, n) == 0)
            list[count++] = n;
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
                          const struct an_rows *rows, size_t row, uint32_t n, struct least *least)
{
    struct tight_walk tight_walk = walk_of(replay, times, n);
    struct tight tight;
    int64_t start = INT64_MAX, end = INT64_MAX, own = rows->of[n] == row ? replay->own[n] : 0;
    while (next_tight(&tight_walk, &tight)) {
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
    if (starts_work(replay, times, n))
        end = start < end ? start : end;
    least->to_start[n] = start;
    least->to_end[n] = (end == INT64_MAX ? 0 : end) + own;
}

static int64_t least_into(const struct an_replay *replay, const struct an_replay_step *sink,
                          const struct an_times *times, const struct least *l)
{
    int64_t least = INT64_MAX;
    size_t i = 0;
    for (uint32_t n; (n = next_into(replay, sink, times, &i)) != AN_NONE;) {
        int64_t ns = (sink->op ? l->to_end : l->to_start)[n];
        least = ns < least ? ns : least;
    }
    return least == INT64_MAX ? 0 : least;
}

int an_sensitivity(const struct an_replay *replay, const struct an_times *times,
                   const struct an_rows *rows, int64_t *ns)
{
    struct an_slack *slack = NULL;
    uint32_t *list = malloc((replay->node_count + 1) * sizeof *list);
    int rc = list ? an_slack_new(replay, &slack) : TACHO_ENOMEM;
    for (size_t f = 0; !rc && f < replay->frame_count; f++) {
        const struct an_replay_step *sink = an_replay_sink(replay, f, times);
        if (!sink)
            continue;
        an_replay_back(replay, f, sink, times, slack);
        size_t count = critical_nodes(replay, &replay->frame[f], times, slack, list);
        struct least least = least_of_frame(replay, &replay->frame[f], slack);
        for (size_t row = 0; count && row < rows->count; row++) {
            for (size_t i = 0; i < count; i++)
                least_of_node(replay, times, rows, row, list[i], &least);
            ns[row] += least_into(replay, sink, times, &least);
        }
    }
    an_slack_free(replay, slack);
    free(list);
    return rc;
}
