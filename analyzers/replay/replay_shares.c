/* SPDX-License-Identifier: Apache-2.0
 *
 * Work that shares cores and links, and the replay with it (replay_shares.h). A sweep over the
 * starts and ends of all work keeps for each share the integral of its speed over time; the mean
 * speed of a piece of work follows from the integral at its ends.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/replay/replay_shares_build.h"
#include "analyzers/replay/what_if_loader.h"

#define ROUNDS      32 /* of times and slowdowns */
#define SPEED_LEAST 1e-3
#define CLOSE       2e-4 /* of the replayed time: they agree */

/* ---- the sweep --------------------------------------------------------------------------------------------------------------- */

static double speed_of(const struct an_share *share)
{
    double wanted = share->demand + share->others;
    return wanted > share->capacity ? share->capacity / wanted : 1;
}

/* The same of a team's work: what threads of the run take of each other is shared, what other
 * programs take holds all of it up.
 */
static double pace_of(const struct an_share *share)
{
    double all = speed_of(share),
           own = share->demand > share->capacity ? share->capacity / share->demand : 1;
    return share->team > 1 && all < own ? own * pow(all / own, share->team) : all;
}

static void advance(struct an_share *share, int64_t time)
{
    double ns = time > share->time ? (double)an_time_sub(time, share->time)
                                   : 0; /* back in damaged files only */
    share->integral += ns * speed_of(share);
    share->paced += ns * pace_of(share);
    share->received += ns * speed_of(share) * share->demand;
    share->full_ns +=
        share->demand > 0 && share->demand + share->others > share->capacity * (1 + 1e-6) ? ns : 0;
    share->time = time;
}

double an_use_stretch(const struct an_shares *shares, uint32_t id, const struct an_use *use)
{
    return 1 - (double)use->part + (double)use->part / shares->speed[id];
}

void an_shares_sweep(struct an_shares *shares)
{
    for (size_t k = 0; k < shares->count; k++) {
        struct an_share *share = &shares->share[k];
        double threads = k < shares->hosts ? (double)shares->demand[AN_CAUSE_COMPUTE] : 1;
        share->demand = share->integral = share->full_ns = share->paced = share->received = 0;
        share->team = threads < share->capacity ? threads : share->capacity;
        share->time = 0;
    }
    for (size_t i = 0; i < shares->event_count; i++) {
        uint32_t id = shares->event[i] >> 1;
        bool end = shares->event[i] & 1;
        struct an_use use;
        if (!an_use_get(shares, id, &use))
            continue;
        struct an_share *share = &shares->share[use.share];
        if (share->demand <= 0)
            share->time = end ? use.end : use.start; /* nobody works: no time passes */
        advance(share, end ? use.end : use.start);
        double *sum = use.demand > 1 ? &share->paced : &share->integral;
        if (!end) {
            shares->speed[id] = *sum; /* until its end is reached */
            share->demand += (double)use.demand;
            continue;
        }
        double ns = (double)an_time_sub(use.end, use.start),
               mean = ns > 0 ? (*sum - shares->speed[id]) / ns : 1;
        shares->speed[id] = mean < 1 ? fmax(mean, SPEED_LEAST) : 1;
        share->demand -= (double)use.demand;
        share->demand = share->demand > 1e-6 ? share->demand : 0;
    }
}

/* ---- the replay ---------------------------------------------------------------------------------------------------------------- */

/* The edit's own work with new slowdowns: `stretch` instead of the recorded ones. */
static void stretch_own(const struct an_shares *shares, const int64_t *own, const float *stretch,
                        int64_t *to_own)
{
    for (size_t i = 0; i < shares->replay->node_count; i++) {
        uint32_t node = shares->replay->node[i];
        to_own[node] =
            shares->share_of[node] == AN_NO_SHARE || stretch[node] == shares->stretch[node]
                ? own[node]
                : (int64_t)((double)own[node] * (double)stretch[node] /
                            (double)shares->stretch[node]);
    }
}

/* Half way to the slowdowns that the sweep found. */
static void move_on(struct an_shares *shares, struct an_route *route, float *stretch)
{
    uint32_t nodes = (uint32_t)shares->replay->graph->node_count,
             batches = route ? (uint32_t)an_route_count(route) : 0;
    struct an_use use;
    for (size_t i = 0; i < shares->replay->node_count; i++) {
        uint32_t node = shares->replay->node[i];
        if (!an_use_get(shares, node, &use) || use.demand <= 0)
            continue;
        float found = (float)an_use_stretch(shares, node, &use);
        if (fabsf(stretch[node] - found) >= 1e-5f)
            stretch[node] = (stretch[node] + found) / 2;
    }
    for (uint32_t i = 0; i < batches; i++)
        if (an_use_get(shares, nodes + i, &use) && use.demand > 0)
            an_route_stretch(
                route, i,
                (an_use_stretch(shares, nodes + i, &use) + an_route_stretched(route, i)) / 2);
}

static double length_of(const struct an_replay *replay, const struct an_times *times)
{
    double sum = 0;
    for (size_t i = 0; i < replay->step_count; i++)
        sum += (double)an_replay_step_ns(replay, &replay->step[i], times);
    return sum;
}

/* What batches of the route took of cores when they were recorded: the mean slowdown of the
 * loader's work. */
static double loader_stretch(const struct an_shares *shares)
{
    double stretched = 0, alone = 0;
    for (size_t i = 0; i < shares->replay->node_count; i++) {
        uint32_t node = shares->replay->node[i];
        if (shares->share_of[node] == AN_NO_SHARE ||
            shares->replay->graph->cause[node] != AN_CAUSE_INPUT)
            continue;
        stretched += (double)shares->replay->own[node];
        alone += (double)shares->replay->own[node] / (double)shares->stretch[node];
    }
    return alone > 0 ? stretched / alone : 1;
}

int an_shares_run(struct an_shares *shares, const struct an_change *change, double core_count,
                  double others, struct an_times *times)
{
    const struct an_replay *replay = shares->replay;
    size_t nodes = replay->graph->node_count;
    struct an_change stretched = *change;
    int64_t *own = malloc((nodes + 1) * sizeof *own);
    float *stretch = malloc((nodes + 1) * sizeof *stretch);
    const struct an_share kept = shares->share[0];
    double before = NAN;
    int rc = own && stretch ? 0 : TACHO_ENOMEM;
    for (size_t host = 0; host < shares->hosts; host++) {
        shares->share[host].capacity = core_count > 0 ? core_count : kept.capacity;
        shares->share[host].others = others >= 0 ? others : kept.others;
    }
    if (!rc) {
        memcpy(own, change->own, nodes * sizeof *own);
        memcpy(stretch, shares->stretch, nodes * sizeof *stretch);
        stretched.own = own;
    }
    if (change->route)
        an_route_recorded(change->route, loader_stretch(shares));
    for (int round = 0; round < ROUNDS && !rc; round++) {
        stretch_own(shares, change->own, stretch, own);
        an_replay_run(replay, &stretched, times);
        double now = length_of(replay, times);
        if (round > 1 && fabs(now - before) <= CLOSE * now)
            break;
        before = now;
        if (!(rc = an_shares_uses(shares, own, change->route, times))) {
            an_shares_sweep(shares);
            move_on(shares, change->route, stretch);
        }
    }
    for (size_t host = 0; host < shares->hosts; host++) {
        shares->share[host].capacity = kept.capacity;
        shares->share[host].others = kept.others;
    }
    an_shares_rest(shares);
    free(own);
    free(stretch);
    return rc;
}

bool an_shares_has_cores(const struct an_shares *shares)
{
    return shares && shares->cores;
}

size_t an_shares_readings(const struct an_shares *shares)
{
    return shares->reading_count;
}

void an_shares_read(struct an_shares *shares, size_t index)
{
    const struct an_reading *reading = &shares->reading[index];
    memcpy(shares->demand, reading->demand, sizeof shares->demand);
    memcpy(shares->part, reading->part, sizeof shares->part);
    shares->spin = reading->spin;
    shares->stretch = reading->stretch;
    for (size_t host = 0; host < shares->hosts; host++)
        shares->share[host].others = reading->others;
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
    an_shares_rest(shares);
    if (!rc && shares->count)
        *out = shares;
    return rc;
}
