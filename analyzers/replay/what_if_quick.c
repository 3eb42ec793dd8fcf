/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast what stays of a step is at best, where an edit removes most of it. All of it was
 * recorded after the pause or the wait that the edit removes: threads slept, caches were cold, and
 * the processor's clock was low. The better repeats of its pieces are in the run, and its fastest
 * ones; what its GEMMs take without a pause was measured by `tacho calibrate`.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/replay/what_if_private.h"

double an_plan_work_ns(const struct an_plan *plan, const int64_t *times)
{
    const struct an_replay *replay = plan->state->replay;
    double sum = 0;
    for (size_t i = 0; i < replay->node_count; i++) {
        uint32_t node = replay->node[i];
        if (replay->own[node] > 0)
            sum += (double)plan->state->own[node] * (double)times[node] / (double)replay->own[node];
    }
    return sum;
}

void an_plan_take(struct an_plan *plan, const int64_t *times)
{
    const struct an_replay *replay = plan->state->replay;
    int64_t *own = plan->state->own;
    for (size_t i = 0; i < replay->node_count; i++) {
        uint32_t node = replay->node[i];
        if (replay->own[node] > 0 && !replay->phase[node])
            own[node] =
                (int64_t)((double)own[node] * (double)times[node] / (double)replay->own[node]);
    }
}

/* The work that stays, if each piece took as long as `set` says of its repeats. `times` is
 * overwritten. */
static int work_of(const struct an_plan *plan, int (*set)(const struct an_replay *, int64_t *),
                   int64_t *times, double *ns)
{
    const struct an_replay *replay = plan->state->replay;
    memcpy(times, replay->own, replay->graph->node_count * sizeof *times);
    int rc = set(replay, times);
    *ns = an_plan_work_ns(plan, times);
    return rc;
}

int an_plan_quicken(struct an_plan *plan, bool most, double *part, double *of_sum)
{
    struct an_what_if_state *state = plan->state;
    const struct an_replay *replay = state->replay;
    size_t bytes = replay->graph->node_count * sizeof *replay->own;
    int64_t *quick = malloc(bytes + 1), *others = malloc(bytes + 1);
    double quick_ns, usual_ns, fastest_ns;
    int rc = quick && others ? 0 : TACHO_ENOMEM;
    rc = rc ? rc : work_of(plan, an_replay_quick, quick, &quick_ns);
    rc = rc ? rc : work_of(plan, an_replay_usual, others, &usual_ns);
    rc = rc ? rc : work_of(plan, an_replay_fastest, others, &fastest_ns);
    if (!rc && quick_ns > 0) {
        *part = (most ? fastest_ns : quick_ns) / usual_ns;
        *of_sum = quick_ns / an_plan_work_ns(plan, replay->own);
    }
    for (size_t i = 0; i < replay->node_count && !rc; i++) {
        uint32_t node = replay->node[i];
        quick[node] = an_time_min(quick[node], replay->own[node]);
    }
    if (!rc)
        an_plan_take(plan, quick);
    free(others);
    free(quick);
    return rc;
}

bool an_replay_on_threads(const struct an_context *context)
{
    for (size_t i = 0; i < context->lane_count; i++)
        if (context->lane[i].device != AN_NONE)
            return false;
    return true;
}

double an_plan_ratio(const struct an_plan *plan)
{
    struct an_what_if_state *state = plan->state;
    an_replay_run(state->replay, &plan->change, &state->edited);
    size_t count = an_replay_counted_ns(state->replay, &state->edited, state->edited_ns);
    return fmax(1e-9, an_steps_ratio(state->edited_ns, state->base_ns, count));
}

void an_plan_scale(struct an_plan *plan, double factor)
{
    struct an_what_if_state *state = plan->state;
    const struct an_replay *replay = state->replay;
    for (size_t i = 0; i < replay->node_count; i++) {
        uint32_t node = replay->node[i];
        if (!replay->phase[node]) /* what is in a phase is cut out as it was */
            state->own[node] = (int64_t)((double)state->own[node] * factor);
    }
    for (size_t i = 0; i < state->steps; i++)
        plan->floor[i] *= factor;
    if (!plan->route || an_plan_leaves_step(plan)) /* workers use the cores as before */
        plan->busy *= factor;
}

double an_plan_arrivals(const struct an_plan *plan)
{
    const struct an_replay *replay = plan->state->replay;
    const struct an_count *recorded = &replay->context->result->loader.workers;
    int64_t workers = plan->workers ? plan->workers : recorded->valid ? recorded->value : 0;
    double steps = INFINITY; /* of the rank with fewest */
    for (size_t i = 0; i < replay->step_count; i++)
        steps = fmin(steps, replay->step[i].lane_steps);
    if (!plan->route || workers < 2 || !isfinite(steps))
        return 1;
    return steps / (steps + (double)(workers - 1));
}
