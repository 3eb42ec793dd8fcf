/* SPDX-License-Identifier: Apache-2.0
 *
 * How long a step takes at least by the work that an edit leaves on its device: no ceiling is below
 * what stays busy. The replay alone could put communication beside compute that it never ran
 * beside.
 */
#include <string.h>

#include "analyzers/replay/what_if_private.h"

/* Times of the devices in the detailed steps, ns summed over them. */
struct device_time {
    double steps, busy, ops; /* busy: union of the ops; ops: sum of their times */
};

static struct device_time time_of_devices(const struct an_context *context)
{
    struct device_time sums = {0};
    for (size_t i = 0; i < context->step_count; i++) {
        const struct an_step *step = &context->step[i];
        uint32_t device = context->lane[step->lane].device;
        if (!an_step_detailed(step) || device == AN_NONE)
            continue;
        const struct an_device_ops *ops = &context->gpu->op;
        const struct an_device *of = &context->gpu->device[device];
        const struct an_set *busy = &context->gpu->split[device].busy;
        sums.steps += (double)an_step_ns(step);
        sums.busy += (double)an_spans_within(busy->span, busy->count, step->start, step->end);
        for (size_t op = an_device_op_seek(context->gpu, of, step->start);
             op < an_device_end(of) && ops->start[op] < step->end; op++)
            sums.ops += (double)an_time_sub(ops->end[op], ops->start[op]);
    }
    return sums;
}

/* The share of the time of device ops that the edits take away. */
static double removed_share(const struct an_what_if_state *state)
{
    const struct an_replay *replay = state->replay;
    double own = 0, removed = 0;
    for (size_t i = 0; i < replay->node_count; i++) {
        uint32_t node = replay->node[i];
        if (!an_graph_on_device(replay->graph, node))
            continue;
        own += (double)replay->own[node];
        removed += (double)an_time_sub(replay->own[node], state->own[node]);
    }
    return own > 0 ? removed / own : 0;
}

/* Does an edit leave the order of the device's work as it is? Overlap moves communication beside
 * compute, and edits of ranks and links change waits that are part of the ops. */
static bool keeps_order(const struct an_edit *edit)
{
    return edit->kind != AN_EDIT_OVERLAP && edit->kind != AN_EDIT_LINK &&
           edit->kind != AN_EDIT_PEERS && strcmp(edit->key, "peers") != 0;
}

void an_plan_busy_limit(struct an_plan *plan, const struct an_edit *edit, size_t count)
{
    const struct an_context *context = plan->state->replay->context;
    if (!context->gpu)
        return;
    for (size_t i = 0; i < count; i++)
        if (!keeps_order(&edit[i]))
            return;
    struct device_time sums = time_of_devices(context);
    if (sums.steps <= 0)
        return;
    double least = (sums.busy - removed_share(plan->state) * sums.ops) / sums.steps;
    for (size_t i = 0; i < plan->state->steps; i++) {
        double floor = plan->state->base_ns[i] * least;
        plan->floor[i] = plan->floor[i] > floor ? plan->floor[i] : floor;
    }
}
