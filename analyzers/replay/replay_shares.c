/* SPDX-License-Identifier: Apache-2.0
 *
 * The replay with shared cores and links (replay_shares.h). The times after an edit and the
 * slowdown of each piece of work depend on each other: a round replays with the slowdowns found so
 * far, then finds new ones (replay_uses.c), until the length of the steps no longer changes.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/replay/replay_shares_private.h"
#include "analyzers/replay/what_if_loader.h"

#define ROUNDS 32   /* of times and slowdowns */
#define CLOSE  2e-4 /* of the replayed time: they agree */

/* ---- the replay ---------------------------------------------------------------------------------------------------------------- */

/* Rescales the edit's own work from the recorded slowdowns to `slowdown`. */
static void rescale_own(const struct an_shares *shares, const int64_t *own, const float *slowdown,
                        int64_t *to_own)
{
    for (size_t i = 0; i < shares->replay->node_count; i++) {
        uint32_t node = shares->replay->node[i];
        to_own[node] =
            shares->share_of[node] == AN_NO_SHARE || slowdown[node] == shares->slowdown[node]
                ? own[node]
                : (int64_t)((double)own[node] * (double)slowdown[node] /
                            (double)shares->slowdown[node]);
    }
}

/* Moves the slowdowns half way to those that the sweep found, so that the rounds converge. */
static void update_slowdowns(struct an_shares *shares, struct an_route *route, float *slowdown)
{
    uint32_t nodes = (uint32_t)shares->replay->graph->node_count,
             batches = route ? (uint32_t)an_route_count(route) : 0;
    struct an_use use;
    for (size_t i = 0; i < shares->replay->node_count; i++) {
        uint32_t node = shares->replay->node[i];
        if (!an_use_get(shares, node, &use) || use.demand <= 0)
            continue;
        float found = (float)an_use_slowdown(shares, node, &use);
        if (fabsf(slowdown[node] - found) >= 1e-5f)
            slowdown[node] = (slowdown[node] + found) / 2;
    }
    for (uint32_t i = 0; i < batches; i++)
        if (an_use_get(shares, nodes + i, &use) && use.demand > 0)
            an_route_set_slowdown(
                route, i,
                (an_use_slowdown(shares, nodes + i, &use) + an_route_slowdown(route, i)) / 2);
}

static double total_step_ns(const struct an_replay *replay, const struct an_times *times)
{
    double sum = 0;
    for (size_t i = 0; i < replay->step_count; i++)
        sum += (double)an_replay_step_ns(replay, &replay->step[i], times);
    return sum;
}

/* The slowdown that batches of the route had when they were recorded: the mean of the loader's
 * work. */
static double loader_slowdown(const struct an_shares *shares)
{
    double stretched = 0, alone = 0;
    for (size_t i = 0; i < shares->replay->node_count; i++) {
        uint32_t node = shares->replay->node[i];
        if (shares->share_of[node] == AN_NO_SHARE ||
            shares->replay->graph->cause[node] != AN_CAUSE_INPUT)
            continue;
        stretched += (double)shares->replay->own[node];
        alone += (double)shares->replay->own[node] / (double)shares->slowdown[node];
    }
    return alone > 0 ? stretched / alone : 1;
}

/* Gives every host so many cores, of which other programs want `others`. */
static void set_hosts(struct an_shares *shares, double core_count, double others)
{
    for (size_t host = 0; host < shares->hosts; host++) {
        shares->share[host].capacity = core_count;
        shares->share[host].others = others;
    }
}

/* How much of what others held ranks up by is left: less if they want less, or if there are cores
 * that they can have instead. */
static double holding_of(const struct an_share *recorded, double core_count, double others)
{
    double left = fmax(0, others - fmax(0, core_count - recorded->capacity));
    return recorded->others > 0 ? fmin(1, left / recorded->others) : 0;
}

int an_shares_run(struct an_shares *shares, const struct an_change *change, double core_count,
                  double others, struct an_times *times)
{
    const struct an_replay *replay = shares->replay;
    size_t nodes = replay->graph->node_count;
    struct an_change stretched = *change;
    int64_t *own = malloc((nodes + 1) * sizeof *own);
    float *slowdown = malloc((nodes + 1) * sizeof *slowdown);
    const struct an_share kept = shares->share[0];
    double before = NAN;
    int rc = own && slowdown ? 0 : TACHO_ENOMEM;
    if (core_count <= 0)
        core_count = kept.capacity;
    others = others >= 0 ? others : kept.others;
    shares->holding = holding_of(&kept, core_count, others);
    set_hosts(shares, core_count, shares->held ? 0 : others);
    if (!rc) {
        memcpy(own, change->own, nodes * sizeof *own);
        memcpy(slowdown, shares->slowdown, nodes * sizeof *slowdown);
        stretched.own = own;
    }
    if (change->route)
        an_route_reset_slowdown(change->route, loader_slowdown(shares));
    for (int round = 0; round < ROUNDS && !rc; round++) {
        rescale_own(shares, change->own, slowdown, own);
        an_replay_run(replay, &stretched, times);
        double now = total_step_ns(replay, times);
        if (round > 1 && fabs(now - before) <= CLOSE * now)
            break;
        before = now;
        if (!(rc = an_shares_uses(shares, own, change->route, times))) {
            an_shares_sweep(shares);
            update_slowdowns(shares, change->route, slowdown);
        }
    }
    set_hosts(shares, kept.capacity, kept.others);
    shares->holding = 1;
    an_shares_free_scratch(shares);
    free(own);
    free(slowdown);
    return rc;
}

bool an_shares_has_cores(const struct an_shares *shares)
{
    return shares && shares->cores;
}

bool an_shares_may_spin(const struct an_shares *shares)
{
    return shares->reading[shares->reading_count - 1].surplus >= AN_SURPLUS_SPINS;
}

size_t an_shares_readings(const struct an_shares *shares)
{
    return shares->reading_count;
}

/* Where the spinning of ranks explains all of the CPU time, only fewer cores let it be something
 * else. */
bool an_shares_applies(const struct an_shares *shares, size_t index, bool cores)
{
    const struct an_reading *reading = &shares->reading[index];
    bool explained = shares->reading[shares->reading_count - 1].held != NULL;
    if (reading->surplus == AN_SURPLUS_YIELDS)
        return cores;
    return cores || reading->held || !explained;
}

int an_shares_of(const struct an_replay *replay, const struct an_times *base,
                 struct an_shares **out, struct an_core_use *use)
{
    struct an_shares *shares = an_arena_zero(replay->context->scratch, 1, sizeof *shares);
    size_t nodes = replay->graph->node_count;
    *out = NULL;
    if (!shares || !(shares->share_of =
                         an_arena_zero(replay->context->scratch, nodes, sizeof *shares->share_of)))
        return TACHO_ENOMEM;
    shares->replay = replay;
    for (size_t node = 0; node < nodes; node++)
        shares->share_of[node] = AN_NO_SHARE;
    int rc = an_shares_find(shares);
    rc = rc ? rc : an_shares_calibrate(shares, base, use);
    an_shares_free_scratch(shares);
    if (!rc && shares->count)
        *out = shares;
    return rc;
}
