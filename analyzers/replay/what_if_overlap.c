/* SPDX-License-Identifier: Apache-2.0
 *
 * comm=overlap: transfers move to a thread or stream of their own. A reduction of gradients begins
 * when backward has the first of them, and the optimizer waits for its end, so it can hide only
 * behind the backward pass. With several micro-steps that is the backward pass of the last one,
 * because the gradients are not complete before it. Other transfers can hide behind all of the
 * step. The edit is of what other edits have left.
 */
#include <math.h>
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

/* The compute that the edits leave, as a share of the recorded one. */
static double compute_left(const struct an_plan *plan)
{
    const struct an_replay *replay = plan->state->replay;
    double before = 0, after = 0;
    for (size_t i = 0; i < replay->node_count; i++) {
        uint32_t node = replay->node[i];
        if (replay->graph->cause[node] != AN_CAUSE_COMPUTE)
            continue;
        before += (double)replay->own[node];
        after += (double)plan->state->own[node];
    }
    return before > 0 ? after / before : 1;
}

/* ns of the backward passes of all replayed steps that a reduction can hide behind; 0 where the run
 * does not say which part of a step is backward. */
static double backward_ns(const struct an_plan *plan)
{
    const struct an_replay *replay = plan->state->replay;
    const struct an_result *result = replay->context->result;
    return an_value_or_0(result->stages.ms[AN_STAGE_BACKWARD]) * 1e6 * (double)replay->step_count *
           compute_left(plan) / (double)an_micro_steps(replay->context);
}

/* What stays of the own work of reductions that take `reductions` ns. A part of them may be hidden
 * already: only the others find a place, in the rest of backward. */
static double part_that_stays(const struct an_plan *plan, double reductions, double backward)
{
    const struct an_communication *communication =
        &plan->state->replay->context->result->communication;
    if (!(backward > 0) || !(reductions > 0))
        return 0;
    double hidden = reductions * an_value_or_0(communication->overlap_pct) / 100;
    return 1 - fmin(reductions - hidden, fmax(0, backward - hidden)) / reductions;
}

void an_plan_overlap(struct an_plan *plan)
{
    const struct an_replay *replay = plan->state->replay;
    const int64_t *own = plan->state->own;
    int64_t recorded = 0, sum = 0, reductions = 0;
    for (size_t i = 0; i < replay->node_count; i++) {
        uint32_t node = replay->node[i];
        if (replay->graph->cause[node] != AN_CAUSE_TRANSFER)
            continue;
        recorded = an_time_add(recorded, replay->own[node]);
        sum = an_time_add(sum, own[node]);
        if (reduces(replay, node))
            reductions = an_time_add(reductions, own[node]);
    }
    double stays = part_that_stays(plan, (double)reductions, backward_ns(plan));
    for (size_t i = 0; i < replay->node_count; i++) {
        uint32_t node = replay->node[i];
        if (replay->graph->cause[node] == AN_CAUSE_TRANSFER)
            plan->state->own[node] =
                reduces(replay, node) ? (int64_t)(stays * (double)own[node]) : 0;
    }
    plan->touched = an_time_add(plan->touched, recorded);
    for (size_t i = 0; i < plan->state->steps && replay->step_count; i++)
        plan->floor[i] = fmax(plan->floor[i], (double)sum / (double)replay->step_count);
    if (!recorded)
        plan->unknown = "comm";
    plan->ceiling = "compute and communication slow each other down where they overlap; by how "
                    "much was not measured";
}
