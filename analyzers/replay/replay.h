/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: the replay of the dependency graph (graph.h), docs/advise.md.
 *
 * The replay computes when every node would start and end if some of the work took less or more
 * time. It covers frames: windows of steps (an_windows_of), where the overlapping windows of
 * several ranks are one frame. A node that starts inside of a frame is replayed, all others keep
 * their recorded times. For a replayed node n
 *
 *     start(n) = max(end of the node before + latency, every release by an edge + latency)
 *     end(n)   = max(start(n), every release that only ends its waiting) + own(n)
 *
 * A release of a wait, and the release of a communication kernel by the other ranks, only ends
 * waiting; every other release lets the node start. own(n), the node's own work, is what was
 * recorded after the last of its releases. Only device ops have a latency, from the release to the
 * start of the op. It is the median of the op's stream for what released it, never the op's own
 * value. So the only fixed delay in a replay is the time of threads outside of every range
 * (an_replay.think_ns).
 *
 * The recurrence is made of maxima and sums, so one pass backward gives every node's slack, and the
 * derivative of the whole by each node is 1 (on every longest path) or 0.
 */
#ifndef ANALYZERS_REPLAY_H
#define ANALYZERS_REPLAY_H

#include "analyzers/graph/graph.h"

#define AN_NEVER (INT64_MIN / 4) /* as a time: before everything */

/* What released an op: program order or an edge. The latencies of a stream are kept by this, and
 * apart for copies. */
enum an_latency { AN_AFTER_ORDER, AN_AFTER_EDGE, AN_LATENCIES };

/* A step as the replay sees it: from the start of `from` + from_offset to the start of `to` +
 * to_offset, without the phases in it. The last step of a device ends with whichever of the ops it
 * launched ends last in the replay: op[0 .. op_count); `to` is the one that was last when it was
 * recorded. */
struct an_replay_step {
    size_t step; /* in an_context.step */
    uint32_t frame, from, to;
    const uint32_t *op; /* device ops; NULL: the step ends with the start of `to` */
    size_t op_count;
    uint32_t ordinal, lane_steps; /* among the steps of its lane in its frame */
    uint32_t place; /* the same for all ranks: its index from the first one of the frame; the
                       ordinal where they skip */
    int64_t from_offset, to_offset, cut_ns;
};

struct an_replay_frame {
    int64_t start, end;
    size_t first, count;           /* its nodes in an_replay.node */
    size_t step_first, step_count; /* its steps, lane by lane */
};

struct an_replay {
    struct an_context *context;
    const struct an_graph *graph;
    struct an_replay_frame *frame;
    size_t frame_count;
    uint32_t *node; /* the replayed nodes, every one after what it depends on */
    size_t node_count;
    uint8_t *inside;  /* of every node of the graph: is it replayed? */
    uint8_t *phase;   /* of every node: is it in a phase (evaluation, checkpoint)? Steps are without
                         phases, so edits do not change it */
    int64_t *own;     /* of every node of the graph */
    int32_t *latency; /* of every track: [copy][enum an_latency] */
    struct an_replay_step *step;
    size_t step_count;
    uint32_t period;  /* steps that make one sample: W loader workers hand over W batches at a time,
                         and such steps differ */
    int64_t think_ns; /* on threads that run steps: own time of nodes no range covers */
    int64_t held_ns;  /* on them: own time of waits that no recorded release ends */
};

/* A change of the graph: what an edit (what_if.h) makes of it. NULL members: as recorded. */
struct an_route;
struct an_change {
    const int64_t *own;     /* instead of an_replay.own */
    double latency;         /* factor of dispatch latencies; 1: as they are */
    bool without_peers;     /* no rank waits for another one in a collective */
    bool without_syncs;     /* no call waits for a device */
    bool scale_leads;       /* a lead shrinks with the work it is a part of */
    struct an_route *route; /* the loader on other threads (what_if_loader.c) */
};

/* Replayed times of every node of the graph. */
struct an_times {
    int64_t *start, *end;
};

/* Builds the replay of the run's windows. *out stays NULL, with a reason in *why, where there is no
 * window or no graph. It lies in the work arena. 0 or TACHO_ENOMEM. */
int an_replay_of(struct an_context *context, const struct an_replay **out, const char **why);
/* Room for times in the work arena; the recorded times of what is not replayed are filled in. 0 or
 * TACHO_ENOMEM. */
int an_times_new(const struct an_replay *replay, struct an_times *times);
/* By how much a node starts before the node before it ends. Ops of one stream may overlap, and
 * anything in a damaged file. */
static inline int64_t an_replay_overlap(const struct an_graph *graph, uint32_t before,
                                        uint32_t node)
{
    return an_time_max(0, an_time_sub(graph->end[before], graph->start[node]));
}
/* One pass over all frames. `change` may be NULL. */
void an_replay_run(const struct an_replay *replay, const struct an_change *change,
                   struct an_times *times);
/* When a step ends in replayed times. */
int64_t an_replay_step_end(const struct an_replay *replay, const struct an_replay_step *step,
                           const struct an_times *times);
/* ns of a step in replayed times, phases cut out. */
int64_t an_replay_step_ns(const struct an_replay *replay, const struct an_replay_step *step,
                          const struct an_times *times);
/* Does a step count for a prediction? All but the first of each frame and lane do, where there are
 * three or more: the first one begins with what was recorded before it. */
static inline bool an_replay_counts(const struct an_replay_step *step)
{
    return step->ordinal || step->lane_steps < 3;
}
/* ns of every step that counts in replayed times, in order; `out` has room for all of them. Returns
 * how many there are. */
size_t an_replay_counted_ns(const struct an_replay *replay, const struct an_times *times,
                            double *out);
/* Means over blocks of `period` steps, in ns a step, of `value` of every step of r->step (NULL: the
 * recorded ones); only blocks that are whole and not of a lane's first steps (an_replay_counts),
 * and with parity 0 or 1 only even or odd ones, of pairs
 * (-1: all). `out` has room for step_count values; returns how many it got. */
size_t an_replay_blocks(const struct an_replay *replay, const double *values, int parity,
                        double *out);
/* Typical ns from the release of a node to its start; 0 for nodes of threads. */
static inline int64_t an_replay_latency(const struct an_replay *replay, uint32_t node,
                                        enum an_latency kind)
{
    const struct an_graph *graph = replay->graph;
    size_t copy = graph->cause[node] == AN_CAUSE_COPY ? AN_LATENCIES : 0;
    return graph->kind[node] == AN_NODE_DEVICE
               ? replay->latency[(size_t)graph->track[node] * 2 * AN_LATENCIES + copy + kind]
               : 0;
}
/* Does an edge only end the waiting of its target? */
bool an_replay_ends_waiting(const struct an_graph *graph, uint32_t node, size_t edge);

/* Lowers own[] (of every node of the graph, starting as replay->own) to the time that a quarter of
 * the repeats of each piece kept. Transfers on threads, whose own work is only an upper bound, get
 * 0 (replay_fast.c). 0 or TACHO_ENOMEM. */
int an_replay_quick(const struct an_replay *replay, int64_t *own);
/* Sets own[] to the median of the repeats of each piece. 0 or TACHO_ENOMEM. */
int an_replay_usual(const struct an_replay *replay, int64_t *own);
/* The same, to the median of those repeats that are marked in `among` (of every node of the graph);
 * pieces with too few marked ones keep theirs. 0 or TACHO_ENOMEM. */
int an_replay_usual_among(const struct an_replay *replay, const uint8_t *among, int64_t *own);
/* Lowers own[] to the fastest repeat of each piece. 0 or TACHO_ENOMEM. */
int an_replay_fastest(const struct an_replay *replay, int64_t *own);

/* ---- slack and derivative (sensitivity.c) ---------------------------------------------------------------------------------- */

/* How long after its end each node's work reaches the end of the frame's longest lane: tail[n],
 * AN_NEVER for those that do not. slack of n = sink - (end(n) + tail(n)). */
struct an_slack {
    int64_t *tail;       /* from end(n) */
    int64_t *tail_start; /* from start(n), without its own work: through edges that release at the
                            start */
    int64_t sink;        /* time of the sink */
};

/* Tails of every node of the graph, all AN_NEVER, in the work arena. 0 or TACHO_ENOMEM. */
int an_slack_new(const struct an_replay *replay, struct an_slack **out);
void an_slack_free(const struct an_replay *replay,
                   struct an_slack *slack); /* before the arena goes; NULL is fine */
/* The step that a frame ends with: the last one of the lane that takes longest. NULL: none. */
const struct an_replay_step *an_replay_sink(const struct an_replay *replay, size_t frame,
                                            const struct an_times *times);
/* Backward pass over one frame after an_replay_run(r, NULL, t). */
void an_replay_back(const struct an_replay *replay, size_t frame, const struct an_replay_step *sink,
                    const struct an_times *times, struct an_slack *slack);
/* How much longer the own work of a node may take without the frame getting longer; INT64_MAX:
 * nothing depends on it. */
static inline int64_t an_slack_ns(const struct an_slack *slack, const struct an_times *times,
                                  uint32_t node)
{
    return slack->tail[node] == AN_NEVER ? INT64_MAX
                                         : slack->sink - times->end[node] - slack->tail[node];
}
/* Of every node of the frame (by place in an_replay.node, from the frame's first): do all longest
 * paths to the end of `sink` lead through its own work, so that one ns less of it is one less of
 * the frame? 0 or TACHO_ENOMEM. */
int an_replay_on_every_path(const struct an_replay *replay, size_t frame,
                            const struct an_times *times, const struct an_replay_step *sink,
                            bool *every);

#endif
