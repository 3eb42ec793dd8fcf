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

static double speed_of(const struct an_share *x)
{
    double wanted = x->demand + x->others;
    return wanted > x->capacity ? x->capacity / wanted : 1;
}

/* The same of a team's work: what threads of the run take of each other is shared, what other
 * programs take holds all of it up.
 */
static double pace_of(const struct an_share *x)
{
    double all = speed_of(x), own = x->demand > x->capacity ? x->capacity / x->demand : 1;
    return x->team > 1 && all < own ? own * pow(all / own, x->team) : all;
}

static void advance(struct an_share *x, int64_t time)
{
    double ns =
        time > x->time ? (double)an_time_sub(time, x->time) : 0; /* back in damaged files only */
    x->integral += ns * speed_of(x);
    x->paced += ns * pace_of(x);
    x->received += ns * speed_of(x) * x->demand;
    x->full_ns += x->demand > 0 && x->demand + x->others > x->capacity * (1 + 1e-6) ? ns : 0;
    x->time = time;
}

double an_use_stretch(const struct an_shares *s, uint32_t id, const struct an_use *u)
{
    return 1 - (double)u->part + (double)u->part / s->found[id];
}

void an_shares_sweep(struct an_shares *s)
{
    for (size_t k = 0; k < s->count; k++) {
        struct an_share *x = &s->share[k];
        double threads = k < s->hosts ? (double)s->demand[AN_CAUSE_COMPUTE] : 1;
        x->demand = x->integral = x->full_ns = x->paced = x->received = 0;
        x->team = threads < x->capacity ? threads : x->capacity;
        x->time = 0;
    }
    for (size_t i = 0; i < s->event_count; i++) {
        uint32_t id = s->event[i] >> 1;
        bool end = s->event[i] & 1;
        struct an_use u;
        if (!an_use_get(s, id, &u))
            continue;
        struct an_share *x = &s->share[u.share];
        if (x->demand <= 0)
            x->time = end ? u.end : u.start; /* nobody works: no time passes */
        advance(x, end ? u.end : u.start);
        double *sum = u.demand > 1 ? &x->paced : &x->integral;
        if (!end) {
            s->found[id] = *sum; /* until its end is reached */
            x->demand += (double)u.demand;
            continue;
        }
        double ns = (double)an_time_sub(u.end, u.start),
               mean = ns > 0 ? (*sum - s->found[id]) / ns : 1;
        s->found[id] = mean < 1 ? fmax(mean, SPEED_LEAST) : 1;
        x->demand -= (double)u.demand;
        x->demand = x->demand > 1e-6 ? x->demand : 0;
    }
}

/* ---- the replay ---------------------------------------------------------------------------------------------------------------- */

/* The edit's own work with new slowdowns: `stretch` instead of the recorded ones. */
static void stretch_own(const struct an_shares *s, const int64_t *own, const float *stretch,
                        int64_t *to)
{
    for (size_t i = 0; i < s->r->node_count; i++) {
        uint32_t n = s->r->node[i];
        to[n] = s->of[n] == AN_NO_SHARE || stretch[n] == s->stretch[n]
                    ? own[n]
                    : (int64_t)((double)own[n] * (double)stretch[n] / (double)s->stretch[n]);
    }
}

/* Half way to the slowdowns that the sweep found. */
static void move_on(struct an_shares *s, struct an_route *route, float *stretch)
{
    uint32_t nodes = (uint32_t)s->r->g->node_count,
             batches = route ? (uint32_t)an_route_count(route) : 0;
    struct an_use u;
    for (size_t i = 0; i < s->r->node_count; i++) {
        uint32_t n = s->r->node[i];
        if (!an_use_get(s, n, &u) || u.demand <= 0)
            continue;
        float found = (float)an_use_stretch(s, n, &u);
        if (fabsf(stretch[n] - found) >= 1e-5f)
            stretch[n] = (stretch[n] + found) / 2;
    }
    for (uint32_t i = 0; i < batches; i++)
        if (an_use_get(s, nodes + i, &u) && u.demand > 0)
            an_route_stretch(route, i,
                             (an_use_stretch(s, nodes + i, &u) + an_route_stretched(route, i)) / 2);
}

static double length_of(const struct an_replay *r, const struct an_times *t)
{
    double sum = 0;
    for (size_t i = 0; i < r->step_count; i++)
        sum += (double)an_replay_step_ns(r, &r->step[i], t);
    return sum;
}

/* What batches of the route took of cores when they were recorded: the mean slowdown of the
 * loader's work. */
static double loader_stretch(const struct an_shares *s)
{
    double stretched = 0, alone = 0;
    for (size_t i = 0; i < s->r->node_count; i++) {
        uint32_t n = s->r->node[i];
        if (s->of[n] == AN_NO_SHARE || s->r->g->cause[n] != AN_CAUSE_INPUT)
            continue;
        stretched += (double)s->r->own[n];
        alone += (double)s->r->own[n] / (double)s->stretch[n];
    }
    return alone > 0 ? stretched / alone : 1;
}

int an_shares_run(struct an_shares *s, const struct an_change *x, double cores, double others,
                  struct an_times *t)
{
    const struct an_replay *r = s->r;
    size_t nodes = r->g->node_count;
    struct an_change y = *x;
    int64_t *own = malloc((nodes + 1) * sizeof *own);
    float *stretch = malloc((nodes + 1) * sizeof *stretch);
    const struct an_share kept = s->share[0];
    double before = NAN;
    int rc = own && stretch ? 0 : TACHO_ENOMEM;
    for (size_t k = 0; k < s->hosts; k++) {
        s->share[k].capacity = cores > 0 ? cores : kept.capacity;
        s->share[k].others = others >= 0 ? others : kept.others;
    }
    if (!rc) {
        memcpy(own, x->own, nodes * sizeof *own);
        memcpy(stretch, s->stretch, nodes * sizeof *stretch);
        y.own = own;
    }
    if (x->route)
        an_route_recorded(x->route, loader_stretch(s));
    for (int round = 0; round < ROUNDS && !rc; round++) {
        stretch_own(s, x->own, stretch, own);
        an_replay_run(r, &y, t);
        double now = length_of(r, t);
        if (round > 1 && fabs(now - before) <= CLOSE * now)
            break;
        before = now;
        if (!(rc = an_shares_uses(s, own, x->route, t))) {
            an_shares_sweep(s);
            move_on(s, x->route, stretch);
        }
    }
    for (size_t k = 0; k < s->hosts; k++) {
        s->share[k].capacity = kept.capacity;
        s->share[k].others = kept.others;
    }
    an_shares_rest(s);
    free(own);
    free(stretch);
    return rc;
}

bool an_shares_has_cores(const struct an_shares *s)
{
    return s && s->cores;
}

size_t an_shares_readings(const struct an_shares *s)
{
    return s->reading_count;
}

void an_shares_read(struct an_shares *s, size_t k)
{
    const struct an_reading *x = &s->reading[k];
    memcpy(s->demand, x->demand, sizeof s->demand);
    memcpy(s->part, x->part, sizeof s->part);
    s->spin = x->spin;
    s->stretch = x->stretch;
    for (size_t h = 0; h < s->hosts; h++)
        s->share[h].others = x->others;
}

int an_shares_of(const struct an_replay *r, const struct an_times *base, struct an_shares **out,
                 struct an_core_use *use)
{
    struct an_shares *s = an_arena_zero(r->c->work, 1, sizeof *s);
    size_t nodes = r->g->node_count;
    *out = NULL;
    if (!s || !(s->of = an_arena_zero(r->c->work, nodes, sizeof *s->of)))
        return TACHO_ENOMEM;
    s->r = r;
    for (size_t n = 0; n < nodes; n++)
        s->of[n] = AN_NO_SHARE;
    int rc = an_shares_find(s);
    rc = rc ? rc : an_shares_calibrate(s, base, use);
    an_shares_rest(s);
    if (!rc && s->count)
        *out = s;
    return rc;
}
