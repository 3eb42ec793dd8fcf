/* SPDX-License-Identifier: Apache-2.0
 *
 * threads=N: fewer threads in teams (OpenMP) that have more of them than cores. Such a team waits
 * at the end of each parallel region for threads that had no core. Its fastest repeats did not
 * wait, and bound the step from below; the recorded times without the waiting of the first thread
 * bound it from above, because they still hold the waiting for the others.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/replay/what_if_private.h"
#include "analyzers/steps/team.h"

const char *an_plan_threads_reason(const struct an_plan *plan)
{
    const struct an_team team = an_team_of(plan->state->replay->context);
    if (team.threads < 1 || team.fitting < 1)
        return "the run does not say how many threads its teams have, or how many cores there are";
    if (team.threads <= team.fitting)
        return "its teams have no more threads than cores, and how the work scales to another "
               "number of threads is not in the run";
    return plan->threads < team.threads ? NULL : "its teams have more threads than cores already";
}

/* What one of `threads` equal parts of the work takes on `cores`, in rounds: the last round may
 * leave cores idle. */
static double rounds_of(int64_t threads, int64_t cores)
{
    return ceil((double)threads / (double)cores) / (double)threads;
}

int an_plan_fit_threads(struct an_plan *plan, bool slowest)
{
    const struct an_replay *replay = plan->state->replay;
    const struct an_team team = an_team_of(replay->context);
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
        if (replay->graph->cause[node] == AN_CAUSE_COMPUTE &&
            replay->graph->kind[node] == AN_NODE_HOST)
            plan->state->own[node] = (int64_t)((double)fast[node] * part);
    }
    free(fast);
    return rc;
}
