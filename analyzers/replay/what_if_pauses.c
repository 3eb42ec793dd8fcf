/* SPDX-License-Identifier: Apache-2.0
 *
 * What pauses cost beside themselves. A thread that wakes up from one may be put on a core on which
 * another thread of its team is, and they take turns, for several steps, until the scheduler moves
 * one of them: half of that time each of them waits for the core, in the other half it spins at a
 * barrier for the other one. Where an edit removes the pauses, that time goes, too. The steps that
 * have no pause show what all steps will take. Where they do not, because most of them were slow as
 * well, the wait of the steps' thread for a core does, as far as it is not the fault of other
 * programs, of a quota, or of more threads than cores (docs/advise.md).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/replay/what_if_private.h"
#include "analyzers/steps/team.h"

#define CALM_LEAST 8   /* steps */
#define CALM_PART  0.1 /* of what an edit removes of the mean step: a calm step loses less */
/* Of all steps: what goes at least, if steps are to be compared with calm ones, which are also
 * those that nothing else made long, or if the wait for a core is to go with it. */
#define PAUSES_LEAST 0.2
#define WAIT_LEAST   0.02 /* of the steps */
#define STAYS_LEAST  0.25 /* of what an edit leaves, whatever was waited */

double an_plan_recorded_ms(const struct an_plan *plan)
{
    const struct an_what_if_state *state = plan->state;
    return plan->of_mean ? an_mean(state->base_ns, state->steps) / 1e6 : state->median_ms;
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
        plan->busy *=
            fmin(1, an_plan_work_ns(plan, times) / fmax(1, an_plan_work_ns(plan, replay->own)));
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

/* What the gain is compared with, beside what is taken for granted already. */
static void assume(struct an_plan *plan, const char *words)
{
    const char *taken = plan->condition ? plan->condition : "";
    plan->of_mean = true;
    plan->condition = an_arena_format(plan->state->replay->context->arena,
                                      "%s%s%s; the gain is that of the mean step, %.3g ms", taken,
                                      *taken ? "; " : "", words, an_plan_recorded_ms(plan));
}

/* Do edits remove what may be pauses of the only lane, and much of its steps? */
static bool may_remove_pauses(const struct an_plan *plan)
{
    const struct an_replay *replay = plan->state->replay;
    return !plan->rescale && !(plan->cores > 0) && plan->others < 0 &&
           replay->context->lane_count == 1 && replay->period == 1 &&
           an_replay_on_threads(replay->context) && an_plan_ratio(plan) <= 1 - PAUSES_LEAST;
}

int an_plan_calm(struct an_plan *plan)
{
    const struct an_what_if_state *state = plan->state;
    if (!may_remove_pauses(plan))
        return 0;
    uint8_t *calm = calloc(state->replay->step_count + 1, 1);
    double *work = malloc((state->steps + 1) * sizeof *work);
    int rc = calm && work ? 0 : TACHO_ENOMEM;
    if (!rc && mark_calm(plan, calm) >= CALM_LEAST &&
        calm_median(plan, calm, work) < an_mean(state->edited_ns, state->steps)) {
        rc = copy_calm(plan, calm, work);
        assume(plan, "every step takes what the steps without such a pause take");
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

/* Of the steps, the time for which their thread waited for a core that neither a quota nor the
 * run's own number of threads kept from it; 0: not known. */
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
    if (plan->of_mean || plan->route || team.threads < 2 || team.threads > team.cores ||
        least < WAIT_LEAST || !compute_stays(plan) || !may_remove_pauses(plan))
        return false;
    double ratio = an_plan_ratio(plan);
    *left = (struct an_shared_core){.low = fmax(STAYS_LEAST, 1 - 2 * wait / ratio),
                                    .expected = fmax(STAYS_LEAST, 1 - 2 * likely / ratio),
                                    .high = fmax(STAYS_LEAST, 1 - least / ratio)};
    assume(plan, "threads of the team that shared a core after the pauses have cores of their own");
    return true;
}
