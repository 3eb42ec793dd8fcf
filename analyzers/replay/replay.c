/* SPDX-License-Identifier: Apache-2.0
 *
 * From the dependency graph to what is replayed (replay.h): the frames and their steps, the own
 * work of every node, and the typical dispatch latencies of every stream.
 */
#include <stdlib.h>

#include "analyzers/base/radix.h"
#include "analyzers/base/stats.h"
#include "analyzers/replay/replay.h"
#include "analyzers/steps/command.h"

#define TIME_MOST \
    (INT64_MAX / 3) /* the year 2067, in ns since 1970; beyond: damaged. Differences and sums fit \
                     */
#define TIME_LEAST      (INT64_MIN / 8)
#define OWN_MOST        (INT64_MAX / 512) /* of one node, half a year: longer in damaged files only */
#define LATENCY_SAMPLES 5                 /* fewer on a stream: the median of all streams */

/* ---- frames and steps ------------------------------------------------------------------------------------------------------ */

struct window_list {
    struct an_window *row;
    size_t count, room;
};

static int window_order(const void *left, const void *right)
{
    const struct an_window *first = left, *second = right;
    if (first->start != second->start)
        return first->start < second->start ? -1 : 1;
    return (first->lane > second->lane) - (first->lane < second->lane);
}

/* Collects the windows of all lanes, sorted by start. */
static int collect_windows(struct an_context *context, struct window_list *window_list)
{
    for (uint32_t lane = 0; lane < context->lane_count; lane++) {
        struct an_window *window = NULL;
        size_t count = 0;
        int rc = context->lane[lane].track == AN_NONE && context->lane[lane].device == AN_NONE
                     ? 0
                     : an_windows_of(context, lane, &window, &count);
        if (rc || (count && (rc = an_grow(&window_list->row, &window_list->room,
                                          window_list->count + count, sizeof *window_list->row))))
            return rc;
        for (size_t i = 0; i < count; i++)
            if (window[i].end > window[i].start && window[i].start > TIME_LEAST &&
                window[i].end < TIME_MOST)
                window_list->row[window_list->count++] = window[i];
    }
    if (window_list->count)
        qsort(window_list->row, window_list->count, sizeof *window_list->row, window_order);
    return 0;
}

/* The node of a track that is busy at `time`, or the next one; `time` is its start plus *offset. */
static uint32_t mark_on_thread(const struct an_graph *graph, uint32_t track, int64_t time,
                               int64_t *offset)
{
    uint32_t node = an_graph_node_at(graph, track, time);
    if (node == AN_NONE)
        return AN_NONE;
    *offset = an_time_sub(time, graph->start[node]);
    return node;
}

/* The compute op of a device that starts at `time`; steps of a device begin with one. */
static uint32_t mark_on_device(const struct an_context *context, const struct an_graph *graph,
                               uint32_t device, int64_t time)
{
    const struct an_device_ops *ops = &context->gpu->op;
    const struct an_device *on = &context->gpu->device[device];
    size_t end = on->first + on->count;
    for (size_t i = an_device_op_seek(context->gpu, on, time); i < end && ops->start[i] == time;
         i++) {
        uint32_t node = graph->op_node[i];
        if (node != AN_NONE && 1u << ops->class[i] & AN_DEVICE_COMPUTE_MASK)
            return node;
    }
    return AN_NONE;
}

static uint32_t mark_time(const struct an_replay *replay, const struct an_lane *lane, int64_t time,
                          int64_t *offset)
{
    *offset = 0;
    uint32_t node = lane->device != AN_NONE && replay->context->gpu
                        ? mark_on_device(replay->context, replay->graph, lane->device, time)
                        : AN_NONE;
    if (node == AN_NONE && lane->track != AN_NONE)
        node = mark_on_thread(replay->graph, lane->track, time, offset);
    return node;
}

/* Finds where a step ends. A step of a device ends with the start of the next step's first kernel;
 * the last one ends with the ops that it launched, which are neighbours in the order of launch. */
static void mark_end(const struct an_replay *replay, const struct an_lane *lane,
                     const struct an_step *step, struct an_replay_step *replay_step)
{
    const struct an_context *context = replay->context;
    replay_step->to = lane->device != AN_NONE && context->gpu
                          ? mark_on_device(context, replay->graph, lane->device, step->end)
                          : AN_NONE;
    if (replay_step->to != AN_NONE)
        return;
    if (lane->device == AN_NONE || !context->gpu) {
        replay_step->to = mark_time(replay, lane, step->end, &replay_step->to_offset);
        return;
    }
    size_t first = an_device_launch_seek(context->gpu, lane->device, step->host_start),
           last = an_device_launch_seek(context->gpu, lane->device, step->host_end);
    for (size_t i = first; i < last; i++) {
        uint32_t op = context->gpu->by_launch[i];
        if (context->gpu->op.end[op] == step->end && replay->graph->op_node[op] != AN_NONE)
            replay_step->to = replay->graph->op_node[op];
    }
    replay_step->op = context->gpu->by_launch + first;
    replay_step->op_count = last > first ? last - first : 0;
}

/* Adds the steps of a window whose start and end are found in the graph. */
static void add_steps(struct an_replay *replay, const struct an_window *window, uint32_t frame)
{
    struct an_context *context = replay->context;
    const struct an_lane *lane = &context->lane[window->lane];
    size_t first = replay->step_count;
    for (size_t i = window->first; i < window->first + window->count; i++) {
        const struct an_step *step = &context->step[i];
        struct an_replay_step replay_step = {.step = i, .frame = frame, .cut_ns = step->cut_ns};
        if (step->end == STORE_ABSENT || step->end <= step->start || !an_step_detailed(step))
            continue;
        replay_step.from = mark_time(replay, lane, step->start, &replay_step.from_offset);
        mark_end(replay, lane, step, &replay_step);
        if (replay_step.from != AN_NONE && replay_step.to != AN_NONE)
            replay->step[replay->step_count++] = replay_step;
    }
    for (size_t i = first; i < replay->step_count; i++) {
        replay->step[i].ordinal = replay->step[i].place = (uint32_t)(i - first);
        replay->step[i].lane_steps = (uint32_t)(replay->step_count - first);
    }
}

/* Numbers the steps of a frame alike for all ranks, which may begin with different steps, so that
 * odd and even steps are the same for all of them. */
static void number_places(struct an_replay *replay, const struct an_replay_frame *frame)
{
    int64_t least = INT64_MAX, most = INT64_MIN;
    for (size_t i = frame->step_first; i < frame->step_first + frame->step_count; i++) {
        int64_t offset =
            an_time_sub(replay->context->step[replay->step[i].step].index, replay->step[i].ordinal);
        least = offset < least ? offset : least;
        most = offset > most ? offset : most;
    }
    for (size_t i = frame->step_first; i < frame->step_first + frame->step_count; i++) {
        const struct an_replay_step *lane = &replay->step[i - replay->step[i].ordinal];
        int64_t offset = an_time_sub(replay->context->step[lane->step].index, least);
        if (most - least < (int64_t)frame->step_count && offset >= 0 &&
            offset < (int64_t)frame->step_count)
            replay->step[i].place = replay->step[i].ordinal + (uint32_t)offset;
    }
}

/* Builds the frames: windows that overlap are one. */
static int build_frames(struct an_replay *replay, const struct window_list *window_list)
{
    size_t steps = 0, open = 0;
    for (size_t i = 0; i < window_list->count; i++)
        steps += window_list->row[i].count;
    replay->frame =
        an_arena_zero(replay->context->scratch, window_list->count, sizeof *replay->frame);
    replay->step = an_arena_zero(replay->context->scratch, steps, sizeof *replay->step);
    if (!replay->frame || !replay->step)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < window_list->count; i = open) {
        struct an_replay_frame *frame = &replay->frame[replay->frame_count];
        *frame = (struct an_replay_frame){.start = window_list->row[i].start,
                                          .end = window_list->row[i].end,
                                          .step_first = replay->step_count};
        for (open = i; open < window_list->count && window_list->row[open].start < frame->end;
             open++) {
            frame->end =
                window_list->row[open].end > frame->end ? window_list->row[open].end : frame->end;
            add_steps(replay, &window_list->row[open], (uint32_t)replay->frame_count);
        }
        frame->step_count = replay->step_count - frame->step_first;
        number_places(replay, frame);
        replay->frame_count += frame->step_count > 0;
    }
    return 0;
}

static uint32_t frame_at(const struct an_replay *replay, int64_t time)
{
    size_t low = 0, high = replay->frame_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (replay->frame[middle].end < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low < replay->frame_count && replay->frame[low].start <= time ? (uint32_t)low : AN_NONE;
}

/* Does a node start in a phase that is cut out of the steps of its process? */
static bool in_phase(const struct an_replay *replay, size_t node)
{
    const struct an_context *context = replay->context;
    uint32_t process = context->trace->track[replay->graph->track[node]].process,
             number = an_lane_of_process(context, process);
    const struct an_lane *lane = number != AN_NONE ? &context->lane[number] : NULL;
    int64_t start = replay->graph->start[node];
    return lane && lane->cut_count &&
           an_spans_within(lane->cut, lane->cut_count, start, start + 1) > 0;
}

/* Lists the nodes that start inside of a frame, frame by frame, each after what it depends on. */
static int list_nodes(struct an_replay *replay)
{
    const struct an_graph *graph = replay->graph;
    size_t *next_of =
        an_arena_zero(replay->context->scratch, replay->frame_count + 1, sizeof *next_of);
    if (!next_of ||
        !(replay->inside = an_arena_zero(replay->context->scratch, graph->node_count, 1)) ||
        !(replay->phase = an_arena_zero(replay->context->scratch, graph->node_count, 1)))
        return TACHO_ENOMEM;
    for (size_t node = 0; node < graph->node_count; node++) {
        uint32_t frame = frame_at(replay, graph->start[node]);
        if (frame == AN_NONE)
            continue;
        replay->inside[node] = 1;
        replay->phase[node] = in_phase(replay, node);
        replay->frame[frame].count++;
        replay->node_count++;
    }
    if (!(replay->node =
              an_arena_zero(replay->context->scratch, replay->node_count, sizeof *replay->node)))
        return TACHO_ENOMEM;
    for (size_t frame = 0, first = 0; frame < replay->frame_count;
         first += replay->frame[frame].count, frame++)
        replay->frame[frame].first = next_of[frame] = first;
    for (size_t i = 0; i < graph->node_count; i++) {
        uint32_t node = graph->order[i];
        if (replay->inside[node])
            replay->node[next_of[frame_at(replay, graph->start[node])]++] = node;
    }
    return 0;
}

/* ---- own work -------------------------------------------------------------------------------------------------------------- */

/* The last release that only ends waiting, by the recorded times. */
static int64_t last_release(const struct an_graph *graph, uint32_t node, bool *released)
{
    int64_t last = AN_NEVER;
    *released = false;
    for (size_t edge = graph->in_first[node]; edge < graph->in_first[node + 1]; edge++)
        if (an_replay_ends_waiting(graph, node, edge)) {
            int64_t release = an_edge_release(graph, edge);
            last = release > last ? release : last;
            *released = true;
        }
    return last;
}

/* Measures the own work of every node: what was recorded after the last of its releases. Adds up
 * what the replay cannot explain on threads that run steps: time outside of every range, and
 * waits that no recorded release ends. */
static int measure_own_work(struct an_replay *replay)
{
    const struct an_graph *graph = replay->graph;
    uint32_t track = AN_NONE;
    const struct an_count *workers = &replay->context->result->loader.workers;
    bool lane = false, released,
         in_line = workers->valid && !workers->value; /* in line a fetch is work */
    if (!(replay->own =
              an_arena_zero(replay->context->scratch, graph->node_count, sizeof *replay->own)))
        return TACHO_ENOMEM;
    for (uint32_t node = 0; node < graph->node_count; node++) {
        int64_t waited = last_release(graph, node, &released),
                own_start = waited > graph->start[node] ? waited : graph->start[node];
        replay->own[node] =
            graph->end[node] > own_start ? an_time_sub(graph->end[node], own_start) : 0;
        replay->own[node] = replay->own[node] < OWN_MOST ? replay->own[node] : OWN_MOST;
        if (!replay->inside[node])
            continue;
        if (graph->track[node] != track) {
            track = graph->track[node];
            lane = an_lane_of_track(replay->context, track) != AN_NONE;
        }
        if (lane && graph->kind[node] == AN_NODE_UNTRACED)
            replay->think_ns = an_time_add(replay->think_ns, replay->own[node]);
        if (lane && graph->kind[node] == AN_NODE_WAIT && !released &&
            !(in_line && graph->cause[node] == AN_CAUSE_INPUT))
            replay->held_ns = an_time_add(replay->held_ns, replay->own[node]);
    }
    return 0;
}

/* ---- latencies ------------------------------------------------------------------------------------------------------------- */

/* What released a device op (program order or an edge), and how long before its start. False:
 * nothing is known. */
static bool latency_of_op(const struct an_graph *graph, uint32_t node, enum an_latency *kind,
                          int64_t *ns)
{
    uint32_t before = an_graph_before(graph, node);
    int64_t release = AN_NEVER;
    for (size_t edge = graph->in_first[node]; edge < graph->in_first[node + 1]; edge++)
        if (!an_replay_ends_waiting(graph, node, edge)) {
            int64_t edge_release = an_edge_release(graph, edge);
            release = edge_release > release ? edge_release : release;
        }
    int64_t order = before != AN_NONE ? graph->end[before] : AN_NEVER;
    if (release == AN_NEVER && order == AN_NEVER)
        return false;
    *kind = order >= release ? AN_AFTER_ORDER : AN_AFTER_EDGE;
    *ns = an_time_sub(graph->start[node], order >= release ? order : release);
    return *ns >= 0 && *ns < INT32_MAX; /* below 0: ops of one stream overlap */
}

struct latencies {
    struct an_pair *sample; /* key: track, copy and kind; extra: ns */
    size_t count;
};

static double median_of(const struct latencies *latencies, size_t first, size_t last, double *work)
{
    for (size_t i = first; i < last; i++)
        work[i - first] = (double)latencies->sample[i].extra;
    return an_quantile_of(work, last - first, 0.5);
}

/* Fills the latencies of streams from the samples, which are sorted by key; `common` are those of
 * all streams. */
static void fill_latencies(struct an_replay *replay, const struct latencies *latencies,
                           const double *common, double *work)
{
    size_t keys = replay->context->trace->track_count * 2 * AN_LATENCIES;
    for (size_t key = 0, i = 0, last; key < keys; key++, i = last) {
        for (last = i; last < latencies->count && latencies->sample[last].key == key; last++)
            ;
        double ns = last - i >= LATENCY_SAMPLES ? median_of(latencies, i, last, work)
                                                : common[key % (2 * AN_LATENCIES)];
        replay->latency[key] = (int32_t)ns;
    }
}

/* Medians over all streams of each kind of latency, for streams with few ops. */
static void common_latencies(const struct latencies *latencies, double *common, double *work)
{
    for (size_t kind = 0; kind < 2 * AN_LATENCIES; kind++) {
        size_t count = 0;
        for (size_t i = 0; i < latencies->count; i++)
            if (latencies->sample[i].key % (2 * AN_LATENCIES) == kind)
                work[count++] = (double)latencies->sample[i].extra;
        common[kind] = count ? an_quantile_of(work, count, 0.5) : 0;
    }
}

/* Measures how long ops of every stream wait between their release and their start: the median by
 * what released them. */
static int measure_latencies(struct an_replay *replay)
{
    const struct an_graph *graph = replay->graph;
    struct latencies latencies = {0};
    double common[2 * AN_LATENCIES], *work = malloc((replay->node_count + 1) * sizeof *work);
    struct an_pair *room = malloc((replay->node_count + 1) * sizeof *room);
    latencies.sample = malloc((replay->node_count + 1) * sizeof *latencies.sample);
    replay->latency = an_arena_zero(replay->context->scratch,
                                    replay->context->trace->track_count * 2 * AN_LATENCIES,
                                    sizeof *replay->latency);
    int rc = work && room && latencies.sample && replay->latency ? 0 : TACHO_ENOMEM;
    for (size_t i = 0; !rc && i < replay->node_count; i++) {
        uint32_t node = replay->node[i];
        enum an_latency kind;
        int64_t ns;
        if (graph->kind[node] == AN_NODE_DEVICE && latency_of_op(graph, node, &kind, &ns))
            latencies.sample[latencies.count++] = (struct an_pair){
                .key = (uint64_t)graph->track[node] * 2 * AN_LATENCIES +
                       (graph->cause[node] == AN_CAUSE_COPY ? AN_LATENCIES : 0) + kind,
                .extra = (uint32_t)ns};
    }
    if (!rc) {
        an_pairs_sort(latencies.sample, room, latencies.count);
        common_latencies(&latencies, common, work);
        fill_latencies(replay, &latencies, common, work);
    }
    free(work);
    free(room);
    free(latencies.sample);
    return rc;
}

/* ---- all of it ------------------------------------------------------------------------------------------------------------- */

static int64_t clamp_time(int64_t time)
{
    if (time < TIME_LEAST)
        return TIME_LEAST;
    return time > TIME_MOST ? TIME_MOST : time;
}

int an_times_new(const struct an_replay *replay, struct an_times *times)
{
    times->start = an_arena_copy(replay->context->scratch, replay->graph->start,
                                 replay->graph->node_count * sizeof *times->start);
    times->end = an_arena_copy(replay->context->scratch, replay->graph->end,
                               replay->graph->node_count * sizeof *times->end);
    for (size_t node = 0; times->start && times->end && node < replay->graph->node_count; node++) {
        times->start[node] = clamp_time(times->start[node]);
        times->end[node] = clamp_time(times->end[node]);
    }
    return times->start && times->end ? 0 : TACHO_ENOMEM;
}

/* How many steps make one period. W workers hand over W batches at a time, so steps differ within
 * one period by design. The reference engine makes at most one more batch at a time than it
 * prefetches. */
static uint32_t period_of(const struct an_context *context)
{
    const struct an_count *workers = &context->result->loader.workers;
    int64_t at_a_time = workers->valid ? workers->value : 1;
    if (an_command_framework(context) == AN_FRAMEWORK_LIBTRAIN) {
        int64_t most = an_command_prefetch(context) + 1;
        at_a_time = at_a_time < most ? at_a_time : most;
    }
    return at_a_time > 1 && at_a_time < 64 ? (uint32_t)at_a_time : 1;
}

size_t an_replay_blocks(const struct an_replay *replay, const double *values, int parity,
                        double *out)
{
    size_t count = 0;
    for (size_t i = 0; i < replay->step_count; i++) {
        const struct an_replay_step *step = &replay->step[i];
        uint32_t period = step->lane_steps >= 4 * replay->period ? replay->period : 1,
                 parity_of = step->place / period % 2;
        bool first = step->place % period == 0 && step->ordinal + period <= step->lane_steps;
        bool paired = parity_of ? step->ordinal >= period
                                : step->ordinal + 2 * period <=
                                      step->lane_steps; /* an even block and the odd one after it */
        if (!first || (parity >= 0 && (parity_of != (uint32_t)parity || !paired)) ||
            (parity < 0 && step->ordinal < period && !an_replay_counts(step)))
            continue;
        double sum = 0;
        for (uint32_t j = 0; j < period; j++)
            sum += values ? values[i + j]
                          : (double)an_step_ns(&replay->context->step[replay->step[i + j].step]);
        out[count++] = sum / period;
    }
    return count;
}

int an_replay_of(struct an_context *context, const struct an_replay **out, const char **why)
{
    const struct an_graph *graph = NULL;
    struct window_list window_list = {0};
    *out = NULL;
    int rc = an_graph_of(context, &graph, why);
    if (rc || !graph)
        return rc;
    struct an_replay *replay = an_arena_zero(context->scratch, 1, sizeof *replay);
    rc = replay ? collect_windows(context, &window_list) : TACHO_ENOMEM;
    if (!rc) {
        replay->context = context;
        replay->graph = graph;
        replay->period = period_of(context);
        rc = build_frames(replay, &window_list);
    }
    free(window_list.row);
    if (!rc && !replay->frame_count) {
        *why = window_list.count ? "nothing is recorded after a counted step: the replay takes a "
                                   "step's end from what follows it; record more steps"
                                 : "no counted step has all its ranges in the file";
        return 0;
    }
    if (!rc && !(rc = list_nodes(replay)) && !(rc = measure_own_work(replay)) &&
        !(rc = measure_latencies(replay)))
        *out = replay;
    return rc;
}
