/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast what stays of a step is at best, where an edit removes most of it. All of it was
 * recorded after the pause or the wait that the edit removes: threads slept, caches were cold, and
 * the processor's clock was low. The better repeats of its pieces are in the run, and its fastest
 * ones; what its GEMMs take without a pause was measured by `tacho calibrate`. Where the pause is
 * short or missing in some steps, these show what the others will take.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/replay/what_if_private.h"

#define CALM_LEAST 8   /* steps */
#define CALM_PART  0.1 /* of what an edit removes of the mean step: a calm step loses less */
/* Of all steps: what goes at least, if steps are to be compared with calm ones, which are also
 * those that nothing else made long. */
#define CALM_REMOVED 0.2

/* ns of the work that stays after an edit, if each piece took `times`, which the replay filled. */
static double work_ns(const struct an_plan *plan, const int64_t *times)
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

/* The work that stays, if each piece took as long as `set` says of its repeats. `times` is
 * overwritten. */
static int work_of(const struct an_plan *plan, int (*set)(const struct an_replay *, int64_t *),
                   int64_t *times, double *ns)
{
    const struct an_replay *replay = plan->state->replay;
    memcpy(times, replay->own, replay->graph->node_count * sizeof *times);
    int rc = set(replay, times);
    *ns = work_ns(plan, times);
    return rc;
}

static int usual_of_all(const struct an_replay *replay, int64_t *own)
{
    return an_replay_usual(replay, NULL, own);
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
    rc = rc ? rc : work_of(plan, usual_of_all, others, &usual_ns);
    rc = rc ? rc : work_of(plan, an_replay_fastest, others, &fastest_ns);
    if (!rc && quick_ns > 0) {
        *part = (most ? fastest_ns : quick_ns) / usual_ns;
        *of_sum = quick_ns / work_ns(plan, replay->own);
    }
    for (size_t i = 0; i < replay->node_count && !rc; i++) {
        uint32_t node = replay->node[i];
        if (quick[node] < replay->own[node] && !replay->phase[node])
            state->own[node] = (int64_t)((double)state->own[node] * (double)quick[node] /
                                         (double)replay->own[node]);
    }
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

/* Marks the steps that lose next to nothing and come after one that does not either, of one lane
 * and in the order of time, and returns how many they are. `calm`: of every replayed step. */
static size_t mark_calm(const struct an_plan *plan, uint8_t *calm)
{
    const struct an_what_if_state *state = plan->state;
    const struct an_replay *replay = state->replay;
    double limit = 0;
    size_t known = 0, count = 0;
    bool before = false; /* did the step before lose next to nothing? */
    for (size_t i = 0; i < state->steps; i++)
        limit += (state->base_ns[i] - state->edited_ns[i]) * CALM_PART / (double)state->steps;
    for (size_t i = 0; i < replay->step_count; i++) {
        bool counts = an_replay_counts(&replay->step[i]);
        bool little = counts && state->base_ns[known] - state->edited_ns[known] < limit;
        known += counts;
        calm[i] = little && before;
        count += calm[i];
        before = little;
    }
    return count;
}

/* Marks the nodes that start in marked steps. Both are in the order of time. */
static void mark_nodes(const struct an_replay *replay, const uint8_t *calm, uint8_t *among)
{
    const struct an_step *steps = replay->context->step;
    for (size_t i = 0; i < replay->node_count; i++) {
        int64_t start = replay->graph->start[replay->node[i]];
        size_t low = 0, high = replay->step_count; /* the last step that starts by then */
        while (low < high) {
            size_t middle = low + (high - low) / 2;
            if (steps[replay->step[middle].step].host_start <= start)
                low = middle + 1;
            else
                high = middle;
        }
        among[replay->node[i]] =
            low && calm[low - 1] && start < steps[replay->step[low - 1].step].host_end;
    }
}

/* The median of the edited steps that are marked; `work` has room for all of them. */
static double calm_median(const struct an_plan *plan, const uint8_t *calm, double *work)
{
    const struct an_replay *replay = plan->state->replay;
    size_t known = 0, count = 0;
    for (size_t i = 0; i < replay->step_count; i++) {
        if (calm[i])
            work[count++] = plan->state->edited_ns[known];
        known += an_replay_counts(&replay->step[i]);
    }
    return an_quantile_of(work, count, 0.5);
}

/* Lets all steps be like the marked ones: each piece takes what it typically takes in these, and
 * together they take what these do. `work`: of every counted step. */
static int copy_calm(struct an_plan *plan, const uint8_t *calm, double *work)
{
    struct an_what_if_state *state = plan->state;
    const struct an_replay *replay = state->replay;
    size_t nodes = replay->graph->node_count;
    double typical = calm_median(plan, calm, work);
    uint8_t *among = calloc(nodes + 1, 1);
    int64_t *times = malloc((nodes + 1) * sizeof *times);
    int rc = among && times ? 0 : TACHO_ENOMEM;
    if (!rc) {
        mark_nodes(replay, calm, among);
        memcpy(times, replay->own, nodes * sizeof *times);
        rc = an_replay_usual(replay, among, times);
    }
    if (!rc) /* CPU time that the others spent waiting for each other goes, too */
        plan->busy *= fmin(1, work_ns(plan, times) / fmax(1, work_ns(plan, replay->own)));
    for (size_t i = 0; i < replay->node_count && !rc; i++) {
        uint32_t node = replay->node[i];
        if (replay->own[node] > 0 && !replay->phase[node])
            state->own[node] = (int64_t)((double)state->own[node] * (double)times[node] /
                                         (double)replay->own[node]);
    }
    if (!rc) {
        (void)an_plan_ratio(plan); /* for the steps of the new times */
        an_plan_scale(plan, typical / fmax(1, calm_median(plan, calm, work)));
    }
    free(times);
    free(among);
    return rc;
}

int an_plan_calm(struct an_plan *plan, bool *found)
{
    const struct an_what_if_state *state = plan->state;
    const struct an_replay *replay = state->replay;
    *found = false;
    if (replay->context->lane_count != 1 || replay->period != 1 ||
        an_plan_ratio(plan) > 1 - CALM_REMOVED)
        return 0;
    uint8_t *calm = calloc(replay->step_count + 1, 1);
    double *work = malloc((state->steps + 1) * sizeof *work);
    int rc = calm && work ? 0 : TACHO_ENOMEM;
    *found = !rc && mark_calm(plan, calm) >= CALM_LEAST &&
             calm_median(plan, calm, work) < an_mean(state->edited_ns, state->steps);
    if (*found)
        rc = copy_calm(plan, calm, work);
    free(work);
    free(calm);
    return rc;
}
