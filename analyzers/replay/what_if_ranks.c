/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks made alike in the replay: whose own work, in which step and stage, and what it would be on
 * its peers.
 */
#include "analyzers/replay/what_if_ranks.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/ranks/ranks_build.h"

/* Where a rank works: what is scaled apart. */
enum place { ON_THREAD, ON_DEVICE, ELSEWHERE, PLACES };

struct even {
    const struct an_replay *replay;
    struct an_context *context;
    const struct an_edit *edit;
    int64_t *own;
    enum an_step_stage stage; /* AN_STAGE_COUNT: all of them */
    uint32_t target;          /* lane; AN_NONE: all lanes */
    uint32_t reference;       /* the lane whose steps are the columns */
    size_t columns;
    struct an_stage_map map;
    struct an_stage_span *
        *span; /* of every lane without a device: the stages on its thread, in order */
    size_t *span_count, *span_room;
    uint32_t *lane_of;      /* of every track */
    double *work[PLACES];   /* [lane * columns + column] ns; ELSEWHERE: [lane], a step */
    double *factor[PLACES]; /* the same */
    int64_t touched;
    bool scale; /* second pass: scale, do not add up */
};

/* ---- which node is whose -------------------------------------------------------------------------------------------------------- */

/* Column of a step: the reference's step of the same index; SIZE_MAX: it has none. */
static size_t column_of(const struct even *even, const struct an_step *step)
{
    const struct an_lane *lane = &even->context->lane[even->reference];
    size_t low = lane->first, high = lane->first + lane->count;
    while (step && low < high) {
        size_t middle = low + (high - low) / 2;
        if (even->context->step[middle].index < step->index)
            low = middle + 1;
        else
            high = middle;
    }
    return step && low < lane->first + lane->count && even->context->step[low].index == step->index
               ? low - lane->first
               : SIZE_MAX;
}

/* Stage of a lane's thread at `time`; other: none. */
static enum an_step_stage stage_at(const struct even *even, uint32_t lane, int64_t time)
{
    const struct an_stage_span *stage_span = even->span[lane];
    size_t i = an_rows_seek(stage_span, sizeof *stage_span, offsetof(struct an_stage_span, end),
                            even->span_count[lane], time);
    return i < even->span_count[lane] && stage_span[i].start <= time ? stage_span[i].stage
                                                                     : AN_STAGE_OTHER;
}

static enum an_step_stage stage_of_node(const struct even *even, uint32_t lane, uint32_t node)
{
    const struct an_graph *graph = even->replay->graph;
    if (graph->cause[node] == AN_CAUSE_INPUT)
        return AN_STAGE_INPUT;
    if (even->context->lane[lane].device != AN_NONE)
        return AN_STAGE_OTHER;
    return stage_at(even, lane, graph->start[node] + (graph->end[node] - graph->start[node]) / 2);
}

static bool is_meant(const struct even *even, enum an_step_stage stage)
{
    return even->stage == AN_STAGE_COUNT || stage == even->stage ||
           (even->stage == AN_STAGE_COMPUTE && stage == AN_STAGE_FORWARD);
}

static void add(struct even *even, uint32_t lane, enum place place, size_t column, uint32_t node)
{
    size_t cell = place == ELSEWHERE ? lane : lane * even->columns + column;
    double ns = (double)even->own[node];
    if (!even->scale) {
        even->work[place][cell] += ns;
        even->touched += even->target == AN_NONE || even->target == lane ? even->own[node] : 0;
    } else if (even->target == AN_NONE || even->target == lane) {
        even->own[node] = (int64_t)(ns * even->factor[place][cell]);
    }
}

static void ops(struct even *even)
{
    const struct an_devices *gpu = even->context->gpu;
    const struct an_graph *graph = even->replay->graph;
    for (size_t i = 0; gpu && i < gpu->op.count; i++) {
        uint32_t node = graph->op_node[i], lane = even->lane_of[gpu->op.track[i]];
        if (lane == AN_NONE || !even->replay->inside[node] ||
            graph->cause[node] == AN_CAUSE_TRANSFER || !even->own[node])
            continue;
        const struct an_lane *on_lane = &even->context->lane[lane];
        size_t column = column_of(even, an_step_at(even->context, on_lane, graph->start[node]));
        if (column != SIZE_MAX && is_meant(even, an_stage_of_op(&even->map, on_lane, i)))
            add(even, lane, ON_DEVICE, column, node);
    }
}

static void pieces(struct even *even)
{
    const struct an_graph *graph = even->replay->graph;
    for (size_t i = 0; i < even->replay->node_count; i++) {
        uint32_t node = even->replay->node[i], lane = even->lane_of[graph->track[node]];
        bool ended =
            graph->kind[node] == AN_NODE_WAIT && graph->in_first[node] < graph->in_first[node + 1];
        if (lane == AN_NONE || an_graph_on_device(graph, node) || !even->own[node] || ended ||
            graph->cause[node] == AN_CAUSE_TRANSFER || graph->cause[node] == AN_CAUSE_PEERS ||
            !is_meant(even, stage_of_node(even, lane, node)))
            continue;
        const struct an_lane *on_lane = &even->context->lane[lane];
        bool main = graph->track[node] == on_lane->track;
        size_t column =
            main ? column_of(even, an_step_at_host(even->context, on_lane, graph->start[node])) : 0;
        if (column != SIZE_MAX)
            add(even, lane, main ? ON_THREAD : ELSEWHERE, column, node);
    }
}

static void pass(struct even *even, bool scale)
{
    even->scale = scale;
    ops(even);
    pieces(even);
}

/* ---- what it would be ----------------------------------------------------------------------------------------------------------- */

static bool are_peers(const struct an_context *context, uint32_t lane, uint32_t other)
{
    const uint32_t *peers = context->exchanges ? context->exchanges->peers : NULL;
    return !peers || peers[lane] == peers[other];
}

/* Steps of the lane that its work is spread over. */
static double steps_of(const struct even *even, uint32_t lane)
{
    return even->context->lane[lane].count ? (double)even->context->lane[lane].count : 1;
}

/* What the lane's work in a column would be: the median of its peers', or the mean of all; -1:
 * nobody else has it. */
static double goal(const struct even *even, uint32_t lane, enum place place, size_t column,
                   double *others)
{
    size_t count = 0;
    double sum = 0;
    for (uint32_t other = 0; other < even->context->lane_count; other++) {
        if ((other == lane && even->target != AN_NONE) || !are_peers(even->context, lane, other))
            continue;
        double ns = place == ELSEWHERE ? even->work[place][other] / steps_of(even, other)
                                       : even->work[place][other * even->columns + column];
        if (place != ELSEWHERE && even->work[ON_THREAD][other * even->columns + column] == 0 &&
            even->work[ON_DEVICE][other * even->columns + column] == 0)
            continue; /* this rank does not have the step */
        others[count++] = ns;
        sum += ns;
    }
    return !count                    ? -1
           : even->target == AN_NONE ? sum / (double)count
                                     : an_quantile_of(others, count, 0.5);
}

static double factor(const struct even *even, double own_ns, double goal_ns)
{
    if (goal_ns < 0 || own_ns <= 0)
        return 1;
    return even->target == AN_NONE || goal_ns < own_ns ? goal_ns / own_ns : 1;
}

static void factors(struct even *even, double *others)
{
    for (uint32_t lane = 0; lane < even->context->lane_count; lane++) {
        if (even->target != AN_NONE && even->target != lane)
            continue;
        for (size_t i = 0; i < even->columns; i++)
            for (int place = ON_THREAD; place <= ON_DEVICE; place++) {
                size_t cell = lane * even->columns + i;
                even->factor[place][cell] =
                    even->edit->kind == AN_EDIT_SCALE
                        ? even->edit->factor
                        : factor(even, even->work[place][cell],
                                 goal(even, lane, (enum place)place, i, others));
            }
        even->factor[ELSEWHERE][lane] =
            even->edit->kind == AN_EDIT_SCALE
                ? even->edit->factor
                : factor(even, even->work[ELSEWHERE][lane] / steps_of(even, lane),
                         goal(even, lane, ELSEWHERE, 0, others));
    }
}

/* ---- the edit -------------------------------------------------------------------------------------------------------------------- */

static const char *ranks_of(struct an_context *context)
{
    const char *list = "";
    for (size_t i = 0; i < context->lane_count && strlen(list) < 100; i++)
        list = an_arena_format(context->arena, "%s%s%" PRId64, list, i ? ", " : "",
                               context->lane[i].rank);
    return list;
}

/* "rank:2:backward": who is meant. False, with the reason: nobody. */
static bool read_key(struct even *even, const char **reason)
{
    struct an_context *context = even->context;
    char *end = NULL;
    even->target = even->reference = AN_NONE;
    even->stage = AN_STAGE_COUNT;
    for (uint32_t lane = 0; lane < context->lane_count && even->reference == AN_NONE; lane++)
        even->reference = context->lane[lane].count ? lane : AN_NONE;
    if (context->lane_count < 2 || even->reference == AN_NONE) {
        *reason = "there is one rank only: nobody to compare it with";
        return false;
    }
    if (!strcmp(even->edit->key, "ranks"))
        return true;
    long long rank = strtoll(even->edit->key + strlen("rank:"), &end, 10);
    for (uint32_t lane = 0; lane < context->lane_count; lane++)
        if (context->lane[lane].rank == rank)
            even->target = even->reference = lane;
    if (*end == ':')
        an_stage_named(end + 1, &even->stage);
    if (even->target == AN_NONE)
        *reason = an_arena_format(context->arena, "rank %lld is not in this run: it has %s", rank,
                                  ranks_of(context));
    return even->target != AN_NONE;
}

static int allocate(struct even *even)
{
    struct an_context *context = even->context;
    size_t lanes = context->lane_count, tracks = context->trace->track_count;
    even->columns = context->lane[even->reference].count;
    for (uint32_t lane = 0; lane < lanes && even->target == AN_NONE;
         lane++) /* the lane with most steps has most columns */
        if (context->lane[lane].count > even->columns) {
            even->reference = lane;
            even->columns = context->lane[lane].count;
        }
    even->lane_of = malloc((tracks + 1) * sizeof *even->lane_of);
    even->span = calloc(lanes, sizeof *even->span);
    even->span_count = calloc(lanes, sizeof *even->span_count);
    even->span_room = calloc(lanes, sizeof *even->span_room);
    bool done = even->lane_of && even->span && even->span_count && even->span_room;
    for (int place = 0; place < PLACES && done; place++) {
        size_t cell_count = place == ELSEWHERE ? lanes : lanes * even->columns;
        even->work[place] = calloc(cell_count + 1, sizeof *even->work[place]);
        even->factor[place] = calloc(cell_count + 1, sizeof *even->factor[place]);
        done = even->work[place] && even->factor[place];
    }
    if (!done || an_stage_map_of(context, &even->map))
        return TACHO_ENOMEM;
    for (uint32_t lane = 0; lane < tracks; lane++)
        even->lane_of[lane] = an_lane_of_process(context, context->trace->track[lane].process);
    for (size_t i = 0; i < context->step_count; i++) {
        uint32_t lane = context->step[i].lane;
        if (context->lane[lane].device == AN_NONE && context->lane[lane].track != AN_NONE &&
            an_step_detailed(&context->step[i]) &&
            an_stage_spans(&even->map, &context->step[i], &even->span[lane],
                           &even->span_count[lane], &even->span_room[lane]))
            return TACHO_ENOMEM;
    }
    return 0;
}

static void release(struct even *even)
{
    for (uint32_t lane = 0; even->span && lane < even->context->lane_count; lane++)
        free(even->span[lane]);
    free(even->span);
    free(even->span_count);
    free(even->span_room);
    free(even->lane_of);
    for (int place = 0; place < PLACES; place++) {
        free(even->work[place]);
        free(even->factor[place]);
    }
}

int an_what_if_ranks(const struct an_replay *replay, const struct an_edit *edit, int64_t *own,
                     int64_t *touched, const char **reason)
{
    struct even even = {.replay = replay, .context = replay->context, .edit = edit, .own = own};
    if (!read_key(&even, reason))
        return 0;
    double *others = malloc((even.context->lane_count + 1) * sizeof *others);
    int rc = others ? allocate(&even) : TACHO_ENOMEM;
    if (!rc) {
        pass(&even, false);
        factors(&even, others);
        pass(&even, true);
        *touched = an_time_add(*touched, even.touched);
        if (!even.touched)
            *reason = an_arena_format(even.context->arena,
                                      "nothing in the replayed steps is %.100s", edit->key);
    }
    free(others);
    release(&even);
    return rc;
}
