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
    size_t *spans, *span_room;
    uint32_t *lane;         /* of every track */
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
                            even->spans[lane], time);
    return i < even->spans[lane] && stage_span[i].start <= time ? stage_span[i].stage
                                                                : AN_STAGE_OTHER;
}

static enum an_step_stage stage_of_node(const struct even *even, uint32_t lane, uint32_t n)
{
    const struct an_graph *graph = even->replay->graph;
    if (graph->cause[n] == AN_CAUSE_INPUT)
        return AN_STAGE_INPUT;
    if (even->context->lane[lane].device != AN_NONE)
        return AN_STAGE_OTHER;
    return stage_at(even, lane, graph->start[n] + (graph->end[n] - graph->start[n]) / 2);
}

static bool is_meant(const struct even *even, enum an_step_stage s)
{
    return even->stage == AN_STAGE_COUNT || s == even->stage ||
           (even->stage == AN_STAGE_COMPUTE && s == AN_STAGE_FORWARD);
}

static void add(struct even *even, uint32_t lane, enum place p, size_t column, uint32_t n)
{
    size_t i = p == ELSEWHERE ? lane : lane * even->columns + column;
    double ns = (double)even->own[n];
    if (!even->scale) {
        even->work[p][i] += ns;
        even->touched += even->target == AN_NONE || even->target == lane ? even->own[n] : 0;
    } else if (even->target == AN_NONE || even->target == lane) {
        even->own[n] = (int64_t)(ns * even->factor[p][i]);
    }
}

static void ops(struct even *even)
{
    const struct an_devices *gpu = even->context->gpu;
    const struct an_graph *graph = even->replay->graph;
    for (size_t i = 0; gpu && i < gpu->op.count; i++) {
        uint32_t n = graph->op_node[i], lane = even->lane[gpu->op.track[i]];
        if (lane == AN_NONE || !even->replay->inside[n] || graph->cause[n] == AN_CAUSE_TRANSFER ||
            !even->own[n])
            continue;
        const struct an_lane *l = &even->context->lane[lane];
        size_t column = column_of(even, an_step_at(even->context, l, graph->start[n]));
        if (column != SIZE_MAX && is_meant(even, an_stage_of_op(&even->map, l, i)))
            add(even, lane, ON_DEVICE, column, n);
    }
}

static void pieces(struct even *even)
{
    const struct an_graph *graph = even->replay->graph;
    for (size_t i = 0; i < even->replay->node_count; i++) {
        uint32_t n = even->replay->node[i], lane = even->lane[graph->track[n]];
        bool ended = graph->kind[n] == AN_NODE_WAIT && graph->in_first[n] < graph->in_first[n + 1];
        if (lane == AN_NONE || an_graph_on_device(graph, n) || !even->own[n] || ended ||
            graph->cause[n] == AN_CAUSE_TRANSFER || graph->cause[n] == AN_CAUSE_PEERS ||
            !is_meant(even, stage_of_node(even, lane, n)))
            continue;
        const struct an_lane *l = &even->context->lane[lane];
        bool main = graph->track[n] == l->track;
        size_t column =
            main ? column_of(even, an_step_at_host(even->context, l, graph->start[n])) : 0;
        if (column != SIZE_MAX)
            add(even, lane, main ? ON_THREAD : ELSEWHERE, column, n);
    }
}

static void pass(struct even *even, bool scale)
{
    even->scale = scale;
    ops(even);
    pieces(even);
}

/* ---- what it would be ----------------------------------------------------------------------------------------------------------- */

static bool are_peers(const struct an_context *context, uint32_t a, uint32_t b)
{
    const uint32_t *peers = context->exchanges ? context->exchanges->peers : NULL;
    return !peers || peers[a] == peers[b];
}

/* Steps of the lane that its work is spread over. */
static double steps_of(const struct even *even, uint32_t lane)
{
    return even->context->lane[lane].count ? (double)even->context->lane[lane].count : 1;
}

/* What the lane's work in a column would be: the median of its peers', or the mean of all; -1:
 * nobody else has it. */
static double goal(const struct even *even, uint32_t lane, enum place p, size_t column,
                   double *others)
{
    size_t n = 0;
    double sum = 0;
    for (uint32_t k = 0; k < even->context->lane_count; k++) {
        if ((k == lane && even->target != AN_NONE) || !are_peers(even->context, lane, k))
            continue;
        double ns = p == ELSEWHERE ? even->work[p][k] / steps_of(even, k)
                                   : even->work[p][k * even->columns + column];
        if (p != ELSEWHERE && even->work[ON_THREAD][k * even->columns + column] == 0 &&
            even->work[ON_DEVICE][k * even->columns + column] == 0)
            continue; /* this rank does not have the step */
        others[n++] = ns;
        sum += ns;
    }
    return !n ? -1 : even->target == AN_NONE ? sum / (double)n : an_quantile_of(others, n, 0.5);
}

static double factor(const struct even *even, double own, double to)
{
    if (to < 0 || own <= 0)
        return 1;
    return even->target == AN_NONE || to < own ? to / own : 1;
}

static void factors(struct even *even, double *others)
{
    for (uint32_t k = 0; k < even->context->lane_count; k++) {
        if (even->target != AN_NONE && even->target != k)
            continue;
        for (size_t i = 0; i < even->columns; i++)
            for (int p = ON_THREAD; p <= ON_DEVICE; p++) {
                size_t at = k * even->columns + i;
                even->factor[p][at] =
                    even->edit->kind == AN_EDIT_SCALE
                        ? even->edit->factor
                        : factor(even, even->work[p][at], goal(even, k, (enum place)p, i, others));
            }
        even->factor[ELSEWHERE][k] =
            even->edit->kind == AN_EDIT_SCALE
                ? even->edit->factor
                : factor(even, even->work[ELSEWHERE][k] / steps_of(even, k),
                         goal(even, k, ELSEWHERE, 0, others));
    }
}

/* ---- the edit -------------------------------------------------------------------------------------------------------------------- */

static const char *ranks_of(struct an_context *context)
{
    const char *list = "";
    for (size_t k = 0; k < context->lane_count && strlen(list) < 100; k++)
        list = an_arena_format(context->arena, "%s%s%" PRId64, list, k ? ", " : "",
                               context->lane[k].rank);
    return list;
}

/* "rank:2:backward": who is meant. False, with the reason: nobody. */
static bool read_key(struct even *even, const char **reason)
{
    struct an_context *context = even->context;
    char *end = NULL;
    even->target = even->reference = AN_NONE;
    even->stage = AN_STAGE_COUNT;
    for (uint32_t k = 0; k < context->lane_count && even->reference == AN_NONE; k++)
        even->reference = context->lane[k].count ? k : AN_NONE;
    if (context->lane_count < 2 || even->reference == AN_NONE) {
        *reason = "there is one rank only: nobody to compare it with";
        return false;
    }
    if (!strcmp(even->edit->key, "ranks"))
        return true;
    long long rank = strtoll(even->edit->key + strlen("rank:"), &end, 10);
    for (uint32_t k = 0; k < context->lane_count; k++)
        if (context->lane[k].rank == rank)
            even->target = even->reference = k;
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
    for (uint32_t k = 0; k < lanes && even->target == AN_NONE;
         k++) /* the lane with most steps has most columns */
        if (context->lane[k].count > even->columns) {
            even->reference = k;
            even->columns = context->lane[k].count;
        }
    even->lane = malloc((tracks + 1) * sizeof *even->lane);
    even->span = calloc(lanes, sizeof *even->span);
    even->spans = calloc(lanes, sizeof *even->spans);
    even->span_room = calloc(lanes, sizeof *even->span_room);
    bool ok = even->lane && even->span && even->spans && even->span_room;
    for (int p = 0; p < PLACES && ok; p++) {
        size_t n = p == ELSEWHERE ? lanes : lanes * even->columns;
        even->work[p] = calloc(n + 1, sizeof *even->work[p]);
        even->factor[p] = calloc(n + 1, sizeof *even->factor[p]);
        ok = even->work[p] && even->factor[p];
    }
    if (!ok || an_stage_map_of(context, &even->map))
        return TACHO_ENOMEM;
    for (uint32_t k = 0; k < tracks; k++)
        even->lane[k] = an_lane_of_process(context, context->trace->track[k].process);
    for (size_t i = 0; i < context->step_count; i++) {
        uint32_t k = context->step[i].lane;
        if (context->lane[k].device == AN_NONE && context->lane[k].track != AN_NONE &&
            an_step_detailed(&context->step[i]) &&
            an_stage_spans(&even->map, &context->step[i], &even->span[k], &even->spans[k],
                           &even->span_room[k]))
            return TACHO_ENOMEM;
    }
    return 0;
}

static void release(struct even *even)
{
    for (uint32_t k = 0; even->span && k < even->context->lane_count; k++)
        free(even->span[k]);
    free(even->span);
    free(even->spans);
    free(even->span_room);
    free(even->lane);
    for (int p = 0; p < PLACES; p++) {
        free(even->work[p]);
        free(even->factor[p]);
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
