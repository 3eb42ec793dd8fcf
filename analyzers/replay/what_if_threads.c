/* SPDX-License-Identifier: Apache-2.0
 *
 * threads=N: another number of threads in teams (OpenMP). A team with more threads than cores waits
 * at the end of each parallel region for threads that had no core. What such a team loses is the
 * time in which it leaves a core idle, so its CPU time on all of its cores is what is expected of
 * a team that fits. Its fastest repeats bound the step from below, because CPU time may be
 * spinning: a team that by itself has enough cores, and shares them with other ranks, spins at the
 * end of its regions (libgomp gives up soon only where one team has more threads than cores), and
 * half of what lies between is expected. Of a team with more threads than cores, whose CPU time is
 * no spinning, that half is the bound from below. From above it is bounded by a team that still
 * leaves half as much idle, or by the recorded times where CPU time is not known. A team with fewer
 * threads than cores shares its work among more of them: evenly at best; at worst with a loss of
 * speed and a delay to start each region. Two thirds of both are expected. (Of eleven measured
 * steps with one thread two threads left 0.538 to 0.643, in the middle 0.564. An even split is 0.5,
 * 0.59 with all of the loss and 0.56 with what is expected of it.)
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/replay/what_if_private.h"
#include "analyzers/steps/team.h"

/* What is lost at worst when a region is shared among more threads, beside AN_TEAM_SHARED_SPEED:
 * the time to start the region and to meet at its end. */
#define REGION_NS     2e3
#define LOSS_EXPECTED (2.0 / 3)
/* Of the idle time of a team with too many threads, what a team that fits keeps at worst: parts of
 * a region are never equal. */
#define IDLE_KEPT 0.5

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
static void share_work(struct an_plan *plan, int64_t threads, enum an_threads_reading reading)
{
    static const double of_loss[] = {
        [AN_THREADS_LOW] = 0, [AN_THREADS_MIDDLE] = LOSS_EXPECTED, [AN_THREADS_HIGH] = 1};
    const struct an_replay *replay = plan->state->replay;
    double loss = of_loss[reading], speed = 1 - loss * (1 - AN_TEAM_SHARED_SPEED),
           part = (double)threads / (double)plan->threads / speed;
    for (size_t i = 0; i < replay->node_count; i++) {
        uint32_t node = replay->node[i];
        double own = (double)replay->own[node];
        if (is_parallel(replay, node))
            plan->state->own[node] = (int64_t)fmin(own, own * part + loss * REGION_NS);
    }
}

/* Cores that a rank keeps busy while its team computes: all of its CPU time, less the rest of its
 * steps on one core at most. NAN: not known. */
static double team_cores(const struct an_plan *plan)
{
    const struct an_replay *replay = plan->state->replay;
    const struct an_value *used = &plan->state->cores.used;
    double lanes = (double)replay->context->lane_count, whole = 0, parallel = 0;
    for (size_t i = 0; i < replay->frame_count; i++)
        whole += lanes * (double)an_time_sub(replay->frame[i].end, replay->frame[i].start);
    for (size_t i = 0; i < replay->node_count; i++)
        if (is_parallel(replay, replay->node[i]))
            parallel += (double)replay->own[replay->node[i]];
    if (!used->valid || parallel <= 0 || whole < parallel)
        return NAN;
    double each = used->value / lanes;
    return (each * whole - fmin(1, each) * (whole - parallel)) / parallel;
}

/* What is left of the time of compute with fewer threads than before; of its fastest repeats for
 * AN_THREADS_LOW: in these a rank may have had the cores of the others, which waited for it. */
static double part_left(const struct an_plan *plan, const struct an_team *team,
                        enum an_threads_reading reading)
{
    double rounds = rounds_of(plan->threads, team->fitting);
    if (reading == AN_THREADS_LOW)
        return rounds / rounds_of(team->threads, team->cores);
    double cores = team_cores(plan);
    if (isnan(cores))
        return 1;
    double busy = fmin(1, cores * rounds);
    return reading == AN_THREADS_MIDDLE ? busy : busy + IDLE_KEPT * (1 - busy);
}

/* May CPU time be spinning at the end of regions? libgomp gives that up where one team has more
 * threads than cores. */
static bool may_spin(const struct an_plan *plan, const struct an_team *team)
{
    return team->threads <= team->cores || isnan(team_cores(plan));
}

/* Of a team that has fewer threads than before. At best CPU time that is no spinning gets less,
 * too, because threads no longer take turns on a core: half way to the fastest repeats. */
static int spare_waiting(struct an_plan *plan, const struct an_team *team,
                         enum an_threads_reading reading)
{
    const struct an_replay *replay = plan->state->replay;
    double part = part_left(plan, team, reading),
           of_work = part_left(plan, team, AN_THREADS_MIDDLE);
    bool half = reading == AN_THREADS_LOW && !may_spin(plan, team);
    int64_t *own = malloc((replay->graph->node_count + 1) * sizeof *own);
    int rc = own ? 0 : TACHO_ENOMEM;
    if (!rc) {
        memcpy(own, replay->own, replay->graph->node_count * sizeof *own);
        if (reading == AN_THREADS_LOW)
            rc = an_replay_fastest(replay, own);
    }
    for (size_t i = 0; i < replay->node_count && !rc; i++) {
        uint32_t node = replay->node[i];
        if (!is_parallel(replay, node))
            continue;
        double left = (double)own[node] * part;
        plan->state->own[node] =
            (int64_t)(half ? (left + (double)replay->own[node] * of_work) / 2 : left);
    }
    free(own);
    return rc;
}

bool an_plan_threads_expected(const struct an_plan *plan, enum an_threads_reading reading)
{
    const struct an_team team = an_team_of(plan->state->replay->context);
    if (plan->threads > team.threads)
        return reading == AN_THREADS_MIDDLE;
    if (isnan(team_cores(plan)))
        return reading != AN_THREADS_MIDDLE;
    return reading == AN_THREADS_MIDDLE || (may_spin(plan, &team) && reading == AN_THREADS_LOW);
}

int an_plan_fit_threads(struct an_plan *plan, enum an_threads_reading reading)
{
    const struct an_team team = an_team_of(plan->state->replay->context);
    if (plan->threads < team.threads)
        return spare_waiting(plan, &team, reading);
    share_work(plan, team.threads, reading);
    return 0;
}
