/* SPDX-License-Identifier: Apache-2.0
 *
 * What pauses cost beside themselves. A thread that wakes up from one may be put on a core on which
 * another thread of its team is, and they take turns, for several steps, until the scheduler moves
 * one of them: half of that time each of them waits for the core, in the other half it spins at a
 * barrier for the other one. Where an edit removes the pauses, that time goes, too. The steps that
 * have no pause show what all steps will take. Where most of these were slow as well, the cost is
 * taken from the time for which the steps' thread waited for a core, without the part that other
 * programs, a quota, or more threads than cores explain (docs/advise.md).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/replay/what_if_private.h"
#include "analyzers/steps/team.h"

#define CALM_LEAST 8   /* steps */
#define CALM_PART  0.1 /* of the mean loss: a calm step loses less */
/* Of the time of the steps: what an edit removes at least. For smaller edits calm steps may be
 * short for other reasons. */
#define PAUSES_LEAST 0.2
#define WAIT_LEAST   0.05 /* of what stays of the steps */
#define STAYS_LEAST  0.25 /* of the work that stays: what is kept of it, however long the wait */

double an_plan_recorded_ms(const struct an_plan *plan)
{
    const struct an_what_if_state *state = plan->state;
    return plan->of_mean ? an_mean(state->base_ns, state->steps) / 1e6 : state->median_ms;
}

/* Marks the calm steps, and returns how many they are: those that lose less than a part of the mean
 * loss, and whose previous step does, too. Steps are of one lane, in the order of time. `calm`: of
 * every step of the context. */
static size_t mark_calm(const struct an_plan *plan, uint8_t *calm)
{
    const struct an_what_if_state *state = plan->state;
    const struct an_replay *replay = state->replay;
    double limit = CALM_PART * (an_mean(state->base_ns, state->steps) -
                                an_mean(state->edited_ns, state->steps));
    size_t known = 0, count = 0;
    bool before = false; /* did the step before lose next to nothing? */
    for (size_t i = 0; i < replay->step_count; i++) {
        bool counts = an_replay_counts(&replay->step[i]);
        bool little = counts && state->base_ns[known] - state->edited_ns[known] < limit;
        known += counts;
        calm[replay->step[i].step] = little && before;
        count += little && before;
        before = little;
    }
    return count;
}

/* Marks the nodes that start in marked steps. */
static void mark_nodes(const struct an_replay *replay, const uint8_t *calm, uint8_t *among)
{
    const struct an_context *context = replay->context;
    for (size_t i = 0; i < replay->node_count; i++) {
        uint32_t node = replay->node[i];
        const struct an_step *step =
            an_step_at_host(context, &context->lane[0], replay->graph->start[node]);
        among[node] = step && calm[step - context->step];
    }
}

/* The median of the edited steps that are marked; `work` has room for all of them. */
static double calm_median(const struct an_plan *plan, const uint8_t *calm, double *work)
{
    const struct an_replay *replay = plan->state->replay;
    size_t known = 0, count = 0;
    for (size_t i = 0; i < replay->step_count; i++) {
        if (calm[replay->step[i].step])
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
        rc = an_replay_usual_among(replay, among, times);
    }
    if (!rc) /* CPU time that the others spent waiting for each other goes, too */
        plan->busy *=
            fmin(1, an_plan_work_ns(plan, times) / fmax(1, an_plan_work_ns(plan, replay->own)));
    if (!rc) {
        an_plan_take(plan, times);
        (void)an_plan_ratio(plan); /* for the steps of the new times */
        an_plan_scale(plan, typical / fmax(1, calm_median(plan, calm, work)));
    }
    free(times);
    free(among);
    return rc;
}

/* Makes the plan one of the mean step, and says what it assumes. */
static void assume(struct an_plan *plan, const char *words)
{
    const char *taken = plan->condition ? plan->condition : "";
    plan->of_mean = true;
    plan->condition = an_arena_format(plan->state->replay->context->arena,
                                      "%s%s%s; the gain is that of the mean step, %.3g ms", taken,
                                      *taken ? "; " : "", words, an_plan_recorded_ms(plan));
}

/* What is left of the steps, as a share, where edits may remove pauses of the only lane; else, and
 * where they remove little, 1. */
static double left_without_pauses(const struct an_plan *plan)
{
    const struct an_replay *replay = plan->state->replay;
    if (plan->rescale || plan->cores > 0 || plan->others >= 0 || replay->context->lane_count != 1 ||
        replay->period != 1 || !an_replay_on_threads(replay->context))
        return 1;
    double left = an_plan_ratio(plan);
    return left <= 1 - PAUSES_LEAST ? left : 1;
}

int an_plan_calm(struct an_plan *plan)
{
    const struct an_what_if_state *state = plan->state;
    if (left_without_pauses(plan) >= 1)
        return 0;
    uint8_t *calm = calloc(state->replay->context->step_count + 1, 1);
    double *work = malloc((state->steps + 1) * sizeof *work);
    int rc = calm && work ? 0 : TACHO_ENOMEM;
    if (!rc && mark_calm(plan, calm) >= CALM_LEAST &&
        calm_median(plan, calm, work) < an_mean(state->edited_ns, state->steps)) {
        rc = copy_calm(plan, calm, work);
        assume(plan,
               "without the pauses, every step takes as long as the steps that hardly had any");
    }
    free(work);
    free(calm);
    return rc;
}

/* Is all compute as it was recorded? */
static bool compute_stays(const struct an_plan *plan)
{
    const struct an_replay *replay = plan->state->replay;
    for (size_t i = 0; i < replay->node_count; i++) {
        uint32_t node = replay->node[i];
        if (replay->graph->cause[node] == AN_CAUSE_COMPUTE &&
            plan->state->own[node] != replay->own[node])
            return false;
    }
    return true;
}

/* Share of the time of the steps for which their thread waited for a core, without the waits due to
 * a quota or to more threads than cores; 0: not known. */
static double wait_for_core(const struct an_system *system)
{
    return system->cpu_wait_pct.valid && system->others_lost_pct.valid
               ? (system->cpu_wait_pct.value - an_value_or_0(system->own_wait_pct) -
                  an_value_or_0(system->throttled_pct)) /
                     100
               : 0;
}

bool an_plan_shared_core(struct an_plan *plan, struct an_shared_core *left)
{
    struct an_context *context = plan->state->replay->context;
    const struct an_system *system = &context->result->system;
    const struct an_team team = an_team_of(context);
    double wait = wait_for_core(system),
           least = wait - an_value_or_0(system->others_lost_pct) / 100,
           likely = wait - an_value_or_0(system->others_lost_low_pct) / 100;
    if (plan->of_mean || an_plan_leaves_step(plan) || team.threads < 2 ||
        team.threads > team.cores || least <= 0 || !compute_stays(plan))
        return false;
    double ratio = left_without_pauses(plan);
    if (ratio >= 1 || least < WAIT_LEAST * ratio)
        return false;
    *left = (struct an_shared_core){.low = fmax(STAYS_LEAST, 1 - 2 * wait / ratio),
                                    .expected = fmax(STAYS_LEAST, 1 - 2 * likely / ratio),
                                    .high = fmax(STAYS_LEAST, 1 - least / ratio)};
    assume(plan,
           "after pauses, the steps' thread waited for a core that its own team held; without the "
           "pauses it does not");
    return true;
}
