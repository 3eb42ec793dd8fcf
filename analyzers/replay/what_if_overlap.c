/* SPDX-License-Identifier: Apache-2.0
 *
 * comm=overlap: transfers move to a thread or stream of their own. A reduction of gradients begins
 * when backward has the first of them, and the optimizer waits for its end: it can hide behind the
 * backward pass alone, of micro-steps behind that of the last one, before which the gradients are
 * not complete. Other transfers can hide behind all of the step.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/ranks/ranks_compare.h"
#include "analyzers/replay/what_if_private.h"

static bool reduces(const struct an_replay *replay, uint32_t node)
{
    struct an_comm_call call;
    uint32_t slice = replay->graph->slice[node];
    return slice != AN_NONE && an_comm_read(replay->context->trace, slice, &call) &&
           (!strcmp(call.kind, "all_reduce") || !strcmp(call.kind, "reduce_scatter"));
}

/* *ns: the backward passes of all replayed steps that a reduction can hide behind; 0 where the run
 * does not say which part of a step is backward. 0 or TACHO_ENOMEM. */
static int backward_ns(const struct an_replay *replay, double *ns)
{
    struct an_context *context = replay->context;
    struct an_stage_map map;
    struct an_stage_work work = {0};
    *ns = 0;
    int rc = an_stage_map_of(context, &map);
    for (size_t i = 0; i < replay->step_count && !rc; i++) {
        int64_t stage[AN_STAGE_COUNT] = {0};
        rc = an_stage_times(&map, &context->step[replay->step[i].step], &work, stage);
        *ns += (double)stage[AN_STAGE_BACKWARD];
    }
    free(work.span);
    *ns /= (double)an_micro_steps(context);
    return rc;
}

int an_plan_overlap(struct an_plan *plan)
{
    const struct an_replay *replay = plan->state->replay;
    int64_t sum = 0, reductions = 0;
    double backward;
    int rc = backward_ns(replay, &backward);
    for (size_t i = 0; i < replay->node_count && !rc; i++) {
        uint32_t node = replay->node[i];
        if (replay->graph->cause[node] != AN_CAUSE_TRANSFER)
            continue;
        sum = an_time_add(sum, replay->own[node]);
        if (reduces(replay, node))
            reductions = an_time_add(reductions, replay->own[node]);
    }
    double stays = backward > 0 && reductions ? fmax(0, 1 - backward / (double)reductions) : 0;
    for (size_t i = 0; i < replay->node_count && !rc; i++) {
        uint32_t node = replay->node[i];
        if (replay->graph->cause[node] == AN_CAUSE_TRANSFER)
            plan->state->own[node] =
                reduces(replay, node) ? (int64_t)(stays * (double)replay->own[node]) : 0;
    }
    plan->touched = an_time_add(plan->touched, sum);
    for (size_t i = 0; i < plan->state->steps && replay->step_count; i++)
        plan->floor[i] = fmax(plan->floor[i], (double)sum / (double)replay->step_count);
    if (!sum)
        plan->unknown = "comm";
    plan->overlap = true;
    plan->ceiling = "compute and communication slow each other down where they overlap; by how "
                    "much was not measured";
    return rc;
}
