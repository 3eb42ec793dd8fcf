/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast what stays of a step is at best, where an edit removes most of it. All of it was
 * recorded after the pause or the wait that the edit removes: threads slept, caches were cold, and
 * the processor's clock was low. The better repeats of its pieces are in the run; what its GEMMs
 * take without a pause was measured by `tacho calibrate`.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/replay/what_if_private.h"

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

int an_plan_quicken(struct an_plan *plan, double *part, double *of_sum)
{
    struct an_what_if_state *state = plan->state;
    const struct an_replay *replay = state->replay;
    size_t bytes = replay->graph->node_count * sizeof *replay->own;
    int64_t *quick = malloc(bytes + 1), *usual = malloc(bytes + 1);
    int rc = quick && usual ? 0 : TACHO_ENOMEM;
    if (!rc) {
        memcpy(quick, replay->own, bytes);
        memcpy(usual, replay->own, bytes);
        rc = an_replay_quick(replay, quick);
    }
    if (!rc && !(rc = an_replay_usual(replay, usual))) {
        double quick_ns = work_ns(plan, quick);
        *part = quick_ns > 0 ? quick_ns / work_ns(plan, usual) : 1;
        *of_sum = quick_ns > 0 ? quick_ns / work_ns(plan, replay->own) : 1;
    }
    for (size_t i = 0; i < replay->node_count && !rc; i++) {
        uint32_t node = replay->node[i];
        if (quick[node] < replay->own[node])
            state->own[node] = (int64_t)((double)state->own[node] * (double)quick[node] /
                                         (double)replay->own[node]);
    }
    free(usual);
    free(quick);
    return rc;
}
