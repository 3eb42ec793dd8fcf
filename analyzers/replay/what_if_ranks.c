/* SPDX-License-Identifier: Apache-2.0
 *
 * Edits that make ranks alike (what_if_ranks.h). The first pass adds up the own work of each rank
 * in each step and place; the second pass scales it to what it would be on its peers.
 */
#include "analyzers/replay/what_if_ranks.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/ranks/ranks_compare.h"

/* Where a rank works: what is scaled apart. */
enum place { ON_THREAD, ON_DEVICE, ELSEWHERE, PLACES };

struct rank_scaling {
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
    bool *has_step;         /* [lane * columns + column]: the lane has it, with its ranges */
    int64_t touched;
    bool scale; /* second pass: scale, do not add up */
};

/* ---- which node is whose -------------------------------------------------------------------------------------------------------- */

/* Column of a step: the reference's step of the same index; SIZE_MAX: it has none. */
static size_t column_of(const struct rank_scaling *scaling, const struct an_step *step)
{
    const struct an_lane *lane = &scaling->context->lane[scaling->reference];
    size_t low = lane->first, high = lane->first + lane->count;
    while (step && low < high) {
        size_t middle = low + (high - low) / 2;
        if (scaling->context->step[middle].index < step->index)
            low = middle + 1;
        else
            high = middle;
    }
    return step && low < lane->first + lane->count &&
                   scaling->context->step[low].index == step->index
               ? low - lane->first
               : SIZE_MAX;
}

/* Stage of a lane's thread at `time`; other: none. */
static enum an_step_stage stage_at(const struct rank_scaling *scaling, uint32_t lane, int64_t time)
{
    const struct an_stage_span *stage_span = scaling->span[lane];
    size_t i = an_rows_seek(stage_span, sizeof *stage_span, offsetof(struct an_stage_span, end),
                            scaling->span_count[lane], time);
    return i < scaling->span_count[lane] && stage_span[i].start <= time ? stage_span[i].stage
                                                                        : AN_STAGE_OTHER;
}

static enum an_step_stage stage_of_node(const struct rank_scaling *scaling, uint32_t lane,
                                        uint32_t node)
{
    const struct an_graph *graph = scaling->replay->graph;
    if (graph->cause[node] == AN_CAUSE_INPUT)
        return AN_STAGE_INPUT;
    if (scaling->context->lane[lane].device != AN_NONE)
        return AN_STAGE_OTHER;
    return stage_at(scaling, lane,
                    graph->start[node] + (graph->end[node] - graph->start[node]) / 2);
}

static bool is_selected(const struct rank_scaling *scaling, enum an_step_stage stage)
{
    return scaling->stage == AN_STAGE_COUNT || stage == scaling->stage ||
           (scaling->stage == AN_STAGE_COMPUTE && stage == AN_STAGE_FORWARD);
}

static void visit_work(struct rank_scaling *scaling, uint32_t lane, enum place place, size_t column,
                       uint32_t node)
{
    size_t cell = place == ELSEWHERE ? lane : lane * scaling->columns + column;
    double ns = (double)scaling->own[node];
    if (!scaling->scale) {
        scaling->work[place][cell] += ns;
        scaling->touched +=
            scaling->target == AN_NONE || scaling->target == lane ? scaling->own[node] : 0;
    } else if (scaling->target == AN_NONE || scaling->target == lane) {
        scaling->own[node] = (int64_t)(ns * scaling->factor[place][cell]);
    }
}

static void visit_device_ops(struct rank_scaling *scaling)
{
    const struct an_devices *gpu = scaling->context->gpu;
    const struct an_graph *graph = scaling->replay->graph;
    for (size_t i = 0; gpu && i < gpu->op.count; i++) {
        uint32_t node = graph->op_node[i], lane = scaling->lane_of[gpu->op.track[i]];
        if (lane == AN_NONE || !scaling->replay->inside[node] ||
            graph->cause[node] == AN_CAUSE_TRANSFER || !scaling->own[node])
            continue;
        const struct an_lane *on_lane = &scaling->context->lane[lane];
        size_t column =
            column_of(scaling, an_step_at(scaling->context, on_lane, graph->start[node]));
        if (column != SIZE_MAX && is_selected(scaling, an_stage_of_op(&scaling->map, on_lane, i)))
            visit_work(scaling, lane, ON_DEVICE, column, node);
    }
}

static void visit_thread_pieces(struct rank_scaling *scaling)
{
    const struct an_graph *graph = scaling->replay->graph;
    for (size_t i = 0; i < scaling->replay->node_count; i++) {
        uint32_t node = scaling->replay->node[i], lane = scaling->lane_of[graph->track[node]];
        bool ended =
            graph->kind[node] == AN_NODE_WAIT && graph->in_first[node] < graph->in_first[node + 1];
        if (lane == AN_NONE || an_graph_on_device(graph, node) || !scaling->own[node] || ended ||
            graph->cause[node] == AN_CAUSE_TRANSFER || graph->cause[node] == AN_CAUSE_PEERS ||
            !is_selected(scaling, stage_of_node(scaling, lane, node)))
            continue;
        const struct an_lane *on_lane = &scaling->context->lane[lane];
        bool main = graph->track[node] == on_lane->track;
        size_t column =
            main
                ? column_of(scaling, an_step_at_host(scaling->context, on_lane, graph->start[node]))
                : 0;
        if (column != SIZE_MAX)
            visit_work(scaling, lane, main ? ON_THREAD : ELSEWHERE, column, node);
    }
}

static void visit_all(struct rank_scaling *scaling, bool scale)
{
    scaling->scale = scale;
    visit_device_ops(scaling);
    visit_thread_pieces(scaling);
}

/* ---- what it would be ----------------------------------------------------------------------------------------------------------- */

static bool are_peers(const struct an_context *context, uint32_t lane, uint32_t other)
{
    const uint32_t *peers = context->exchanges ? context->exchanges->peers : NULL;
    return !peers || peers[lane] == peers[other];
}

/* Steps of the lane that its work is spread over. */
static double steps_of(const struct rank_scaling *scaling, uint32_t lane)
{
    return scaling->context->lane[lane].count ? (double)scaling->context->lane[lane].count : 1;
}

/* What the lane's work in a column would be: the median of its peers', or the mean of all; -1: no
 * other lane has it. */
static double find_goal(const struct rank_scaling *scaling, uint32_t lane, enum place place,
                        size_t column, double *others)
{
    size_t count = 0;
    double sum = 0;
    for (uint32_t other = 0; other < scaling->context->lane_count; other++) {
        if ((other == lane && scaling->target != AN_NONE) ||
            !are_peers(scaling->context, lane, other))
            continue;
        double ns = place == ELSEWHERE ? scaling->work[place][other] / steps_of(scaling, other)
                                       : scaling->work[place][other * scaling->columns + column];
        if (place != ELSEWHERE && !scaling->has_step[other * scaling->columns + column])
            continue;
        others[count++] = ns;
        sum += ns;
    }
    if (!count)
        return -1;
    return scaling->target == AN_NONE ? sum / (double)count : an_quantile_of(others, count, 0.5);
}

static double factor_to(const struct rank_scaling *scaling, double own_ns, double goal_ns)
{
    if (goal_ns < 0 || own_ns <= 0)
        return 1;
    return scaling->target == AN_NONE || goal_ns < own_ns ? goal_ns / own_ns : 1;
}

/* Computes by what each cell of work is multiplied: the factor of the edit, or the one that brings
 * the cell to its goal (find_goal). `others` is scratch memory, one value for each lane. */
static void find_factors(struct rank_scaling *scaling, double *others)
{
    for (uint32_t lane = 0; lane < scaling->context->lane_count; lane++) {
        if (scaling->target != AN_NONE && scaling->target != lane)
            continue;
        for (size_t i = 0; i < scaling->columns; i++)
            for (int place = ON_THREAD; place <= ON_DEVICE; place++) {
                size_t cell = lane * scaling->columns + i;
                scaling->factor[place][cell] =
                    scaling->edit->kind == AN_EDIT_SCALE
                        ? scaling->edit->factor
                        : factor_to(scaling, scaling->work[place][cell],
                                    find_goal(scaling, lane, (enum place)place, i, others));
            }
        scaling->factor[ELSEWHERE][lane] =
            scaling->edit->kind == AN_EDIT_SCALE
                ? scaling->edit->factor
                : factor_to(scaling, scaling->work[ELSEWHERE][lane] / steps_of(scaling, lane),
                            find_goal(scaling, lane, ELSEWHERE, 0, others));
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

/* Does one process drive several devices? */
static bool shares_process(const struct an_context *context)
{
    for (uint32_t lane = 0; lane < context->lane_count; lane++) {
        uint32_t own = an_own_lane(context, context->lane[lane].process);
        if (context->lane[lane].process != AN_NONE &&
            context->lane[lane].device != context->lane[own].device)
            return true;
    }
    return false;
}

/* Finds the rank and stage that a key such as "rank:2:backward" names. False, with the reason:
 * none. */
static bool read_key(struct rank_scaling *scaling, const char **reason)
{
    struct an_context *context = scaling->context;
    char *end = NULL;
    scaling->target = scaling->reference = AN_NONE;
    scaling->stage = AN_STAGE_COUNT;
    for (uint32_t lane = 0; lane < context->lane_count && scaling->reference == AN_NONE; lane++)
        scaling->reference = context->lane[lane].count ? lane : AN_NONE;
    if (context->lane_count < 2 || scaling->reference == AN_NONE) {
        *reason = "there is only one rank: it has no peers";
        return false;
    }
    if (shares_process(context)) {
        *reason = "one process drives several devices: its host work is that of all of them, and "
                  "streams that overlap are not compared apart";
        return false;
    }
    if (!strcmp(scaling->edit->key, "ranks"))
        return true;
    long long rank = strtoll(scaling->edit->key + strlen("rank:"), &end, 10);
    for (uint32_t lane = 0; lane < context->lane_count; lane++)
        if (context->lane[lane].rank == rank)
            scaling->target = scaling->reference = lane;
    if (*end == ':')
        an_stage_named(end + 1, &scaling->stage);
    if (scaling->target == AN_NONE)
        *reason = an_arena_format(context->arena, "rank %lld is not in this run: it has %s", rank,
                                  ranks_of(context));
    return scaling->target != AN_NONE;
}

/* Makes room for the sums of every lane and step, and maps tracks to lanes and lanes to stages. */
static int allocate(struct rank_scaling *scaling)
{
    struct an_context *context = scaling->context;
    size_t lanes = context->lane_count, tracks = context->trace->track_count;
    scaling->columns = context->lane[scaling->reference].count;
    for (uint32_t lane = 0; lane < lanes && scaling->target == AN_NONE;
         lane++) /* the lane with most steps has most columns */
        if (context->lane[lane].count > scaling->columns) {
            scaling->reference = lane;
            scaling->columns = context->lane[lane].count;
        }
    scaling->lane_of = malloc((tracks + 1) * sizeof *scaling->lane_of);
    scaling->span = calloc(lanes, sizeof *scaling->span);
    scaling->span_count = calloc(lanes, sizeof *scaling->span_count);
    scaling->span_room = calloc(lanes, sizeof *scaling->span_room);
    bool done = scaling->lane_of && scaling->span && scaling->span_count && scaling->span_room;
    for (int place = 0; place < PLACES && done; place++) {
        size_t cell_count = place == ELSEWHERE ? lanes : lanes * scaling->columns;
        scaling->work[place] = calloc(cell_count + 1, sizeof *scaling->work[place]);
        scaling->factor[place] = calloc(cell_count + 1, sizeof *scaling->factor[place]);
        done = scaling->work[place] && scaling->factor[place];
    }
    scaling->has_step = calloc(lanes * scaling->columns + 1, sizeof *scaling->has_step);
    if (!done || !scaling->has_step || an_stage_map_of(context, &scaling->map))
        return TACHO_ENOMEM;
    for (uint32_t lane = 0; lane < tracks; lane++)
        scaling->lane_of[lane] = an_lane_of_process(context, context->trace->track[lane].process);
    for (size_t i = 0; i < context->step_count; i++) {
        uint32_t lane = context->step[i].lane;
        size_t column = column_of(scaling, &context->step[i]);
        if (column != SIZE_MAX && an_step_detailed(&context->step[i]))
            scaling->has_step[lane * scaling->columns + column] = true;
        if (context->lane[lane].device == AN_NONE && context->lane[lane].track != AN_NONE &&
            an_step_detailed(&context->step[i]) &&
            an_stage_spans(&scaling->map, &context->step[i], &scaling->span[lane],
                           &scaling->span_count[lane], &scaling->span_room[lane]))
            return TACHO_ENOMEM;
    }
    return 0;
}

static void release(struct rank_scaling *scaling)
{
    for (uint32_t lane = 0; scaling->span && lane < scaling->context->lane_count; lane++)
        free(scaling->span[lane]);
    free(scaling->span);
    free(scaling->span_count);
    free(scaling->span_room);
    free(scaling->lane_of);
    free(scaling->has_step);
    for (int place = 0; place < PLACES; place++) {
        free(scaling->work[place]);
        free(scaling->factor[place]);
    }
}

int an_what_if_ranks(const struct an_replay *replay, const struct an_edit *edit, int64_t *own,
                     int64_t *touched, const char **reason)
{
    struct rank_scaling scaling = {
        .replay = replay, .context = replay->context, .edit = edit, .own = own};
    if (!read_key(&scaling, reason))
        return 0;
    double *others = malloc((scaling.context->lane_count + 1) * sizeof *others);
    int rc = others ? allocate(&scaling) : TACHO_ENOMEM;
    if (!rc) {
        visit_all(&scaling, false);
        find_factors(&scaling, others);
        visit_all(&scaling, true);
        *touched = an_time_add(*touched, scaling.touched);
        if (!scaling.touched)
            *reason = an_arena_format(scaling.context->arena,
                                      "nothing in the replayed steps is %.100s", edit->key);
    }
    free(others);
    release(&scaling);
    return rc;
}
