/* SPDX-License-Identifier: Apache-2.0
 *
 * threads=N: another number of threads in teams (OpenMP). A team with more threads than cores waits
 * at the end of each parallel region for threads that had no core. Its fastest repeats did not
 * wait, and bound the step from below; the recorded times without the waiting of the first thread
 * bound it from above, because they still hold the waiting for the others. A team with fewer
 * threads than cores shares its work among more of them: evenly at best, and at worst with a loss
 * and a start for each region.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/replay/what_if_private.h"
#include "analyzers/steps/team.h"

/* What is lost at worst when a region is shared among more threads: a part of its speed, because
 * memory and caches are shared, too; and the time to start the region and to meet at its end. */
#define SHARED_SPEED 0.85
#define REGION_NS    2e3

const char *an_plan_threads_reason(const struct an_plan *plan)
{
    const struct an_team team = an_team_of(plan->state->replay->context);
    if (team.threads < 1 || team.fitting < 1)
        return "the run does not say how many threads its teams have, or how many cores there are";
    if (team.threads > team.fitting)
        return plan->threads < team.threads ? NULL
                                            : "its teams have more threads than cores already";
    if (plan->threads < team.threads)
        return "its teams have no more threads than cores: fewer would only leave cores idle";
    return plan->threads <= team.fitting
               ? NULL
               : "there are no cores for so many threads, and what they lose is not in the run";
}

/* What one of `threads` equal parts of the work takes on `cores`, in rounds: the last round may
 * leave cores idle. */
static double rounds_of(int64_t threads, int64_t cores)
{
    return ceil((double)threads / (double)cores) / (double)threads;
}

static bool is_parallel(const struct an_replay *replay, uint32_t node)
{
    return replay->graph->cause[node] == AN_CAUSE_COMPUTE &&
           replay->graph->kind[node] == AN_NODE_HOST;
}

/* Shares compute among more threads. It never takes longer than with fewer. */
static void share_work(struct an_plan *plan, int64_t threads, bool slowest)
{
    const struct an_replay *replay = plan->state->replay;
    double part = (double)threads / (double)plan->threads / (slowest ? SHARED_SPEED : 1);
    for (size_t i = 0; i < replay->node_count; i++) {
        uint32_t node = replay->node[i];
        double own = (double)replay->own[node];
        if (is_parallel(replay, node))
            plan->state->own[node] = (int64_t)fmin(own, own * part + (slowest ? REGION_NS : 0));
    }
}

int an_plan_fit_threads(struct an_plan *plan, bool slowest)
{
    const struct an_replay *replay = plan->state->replay;
    const struct an_team team = an_team_of(replay->context);
    if (plan->threads > team.threads) {
        share_work(plan, team.threads, slowest);
        return 0;
    }
    const struct an_value *wait = &replay->context->result->system.cpu_wait_pct;
    int64_t *fast = malloc((replay->graph->node_count + 1) * sizeof *fast);
    int rc = fast ? 0 : TACHO_ENOMEM;
    if (!rc) {
        memcpy(fast, replay->own, replay->graph->node_count * sizeof *fast);
        rc = slowest ? 0 : an_replay_fastest(replay, fast);
    }
    double part = rounds_of(plan->threads, team.fitting) / rounds_of(team.threads, team.fitting);
    if (slowest && wait->valid)
        part *= 1 - fmin(wait->value, 99) / 100;
    for (size_t i = 0; i < replay->node_count && !rc; i++) {
        uint32_t node = replay->node[i];
        if (is_parallel(replay, node))
            plan->state->own[node] = (int64_t)((double)fast[node] * part);
    }
    free(fast);
    return rc;
}
