/* SPDX-License-Identifier: Apache-2.0
 *
 * Work that shares cores and links, and the replay with it (replay_shares.h). A sweep over the starts and ends of all work
 * keeps for each share the integral of its speed over time; the mean speed of a piece of work follows from the integral at its
 * ends.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/replay_shares_build.h"
#include "analyzers/what_if_loader.h"

#define ROUNDS      32 /* of times and slowdowns */
#define SPEED_LEAST 1e-3
#define CLOSE       2e-4 /* of the replayed time: they agree */

/* ---- the sweep --------------------------------------------------------------------------------------------------------------- */

static double speed_of(const struct an_share *x)
{
    double wanted = x->demand + x->others;
    return wanted > x->capacity ? x->capacity / wanted : 1;
}

static void advance(struct an_share *x, int64_t time)
{
    double ns = (double)an_time_sub(time, x->time);
    x->integral += ns * speed_of(x);
    x->full_ns += x->demand > 0 && x->demand + x->others > x->capacity * (1 + 1e-6) ? ns : 0;
    x->time = time;
}

double an_use_stretch(const struct an_use *u)
{
    return 1 - (double)u->part + (double)u->part / (double)u->speed;
}

static void sort_events(struct an_shares *s)
{
    for (size_t i = 0; i < s->use_count; i++) {
        s->event[2 * i] = (struct an_pair){.key = an_pair_key(s->use[i].start), .value = (uint32_t)i, .extra = 0};
        s->event[2 * i + 1] = (struct an_pair){.key = an_pair_key(s->use[i].end), .value = (uint32_t)i, .extra = 1};
    }
    an_pairs_sort(s->event, s->work, 2 * s->use_count);
}

static void sweep_sorted(struct an_shares *s)
{
    for (size_t k = 0; k < s->count; k++) {
        struct an_share *x = &s->share[k];
        x->demand = x->integral = x->full_ns = 0;
        x->time = 0;
    }
    for (size_t i = 0; i < 2 * s->use_count; i++) {
        struct an_use *u = &s->use[s->event[i].value];
        struct an_share *x = &s->share[u->share];
        int64_t time = s->event[i].extra ? u->end : u->start;
        if (x->demand <= 0)
            x->time = time; /* nobody works: no time passes */
        advance(x, time);
        if (!s->event[i].extra) {
            u->integral = x->integral;
            x->demand += (double)u->demand;
            continue;
        }
        double ns = (double)an_time_sub(u->end, u->start), mean = ns > 0 ? (x->integral - u->integral) / ns : 1;
        u->speed = (float)(mean < 1 ? fmax(mean, SPEED_LEAST) : 1);
        x->demand -= (double)u->demand;
        x->demand = x->demand > 1e-6 ? x->demand : 0;
    }
}

void an_shares_sweep(struct an_shares *s)
{
    sort_events(s);
    sweep_sorted(s);
}

void an_shares_sweep_again(struct an_shares *s)
{
    sweep_sorted(s);
}

/* ---- who works when ------------------------------------------------------------------------------------------------------------ */

static int room_for(struct an_shares *s, size_t n)
{
    if (n <= s->use_room)
        return 0;
    s->use = an_arena_zero(s->r->c->work, n, sizeof *s->use);
    s->event = an_arena_zero(s->r->c->work, 2 * n, sizeof *s->event);
    s->work = an_arena_zero(s->r->c->work, 2 * n, sizeof *s->work);
    s->use_room = n;
    return s->use && s->event && s->work ? 0 : TACHO_ENOMEM;
}

int an_shares_uses(struct an_shares *s, const int64_t *own, struct an_route *route, const struct an_times *t)
{
    const struct an_replay *r = s->r;
    size_t takes = route ? an_route_count(route) : 0;
    int rc = room_for(s, r->node_count + takes);
    s->use_count = 0;
    for (size_t i = 0; i < r->node_count && !rc; i++) {
        uint32_t n = r->node[i];
        if (s->of[n] == AN_NO_SHARE || own[n] <= 0)
            continue;
        if (route && r->g->cause[n] == AN_CAUSE_INPUT && !s->lane[r->g->track[n]])
            continue; /* the route's workers take the place of the run's */
        bool core = s->of[n] < s->hosts;
        float demand = core ? s->demand[r->g->cause[n]] : 1, part = core ? s->part[r->g->cause[n]] : 1;
        if (demand > 0)
            s->use[s->use_count++] = (struct an_use){.start = t->end[n] - own[n],
                                                     .end = t->end[n],
                                                     .node = n,
                                                     .take = AN_NONE,
                                                     .share = s->of[n],
                                                     .demand = demand,
                                                     .part = part,
                                                     .speed = 1};
    }
    for (uint32_t i = 0; i < takes && !rc; i++) {
        struct an_use u = {
            .node = AN_NONE, .take = i, .demand = s->demand[AN_CAUSE_INPUT], .part = s->part[AN_CAUSE_INPUT], .speed = 1};
        uint32_t at = an_route_use(route, i, &u.start, &u.end);
        u.share = s->cores ? s->host[r->g->track[at]] : AN_NO_SHARE;
        if (s->cores && u.end > u.start && u.share < s->hosts && u.demand > 0)
            s->use[s->use_count++] = u;
    }
    return rc;
}

/* ---- the replay ---------------------------------------------------------------------------------------------------------------- */

/* The edit's own work with new slowdowns: `stretch` instead of the recorded ones. */
static void stretch_own(const struct an_shares *s, const int64_t *own, const float *stretch, int64_t *to)
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
    for (size_t i = 0; i < s->use_count; i++) {
        const struct an_use *u = &s->use[i];
        float found = (float)an_use_stretch(u);
        if (u->node == AN_NONE)
            an_route_stretch(route, u->take, ((double)found + an_route_stretched(route, u->take)) / 2);
        else if (fabsf(stretch[u->node] - found) >= 1e-5f)
            stretch[u->node] = (stretch[u->node] + found) / 2;
    }
}

static double length_of(const struct an_replay *r, const struct an_times *t)
{
    double sum = 0;
    for (size_t i = 0; i < r->step_count; i++)
        sum += (double)an_replay_step_ns(r, &r->step[i], t);
    return sum;
}

/* What batches of the route took of cores when they were recorded: the mean slowdown of the loader's work. */
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

int an_shares_run(struct an_shares *s, const struct an_change *x, double cores, double others, struct an_times *t)
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
    free(own);
    free(stretch);
    return rc;
}

bool an_shares_has_cores(const struct an_shares *s)
{
    return s && s->cores;
}

int an_shares_of(const struct an_replay *r, const struct an_times *base, struct an_shares **out, struct an_core_use *use)
{
    struct an_shares *s = an_arena_zero(r->c->work, 1, sizeof *s);
    size_t nodes = r->g->node_count;
    *out = NULL;
    if (!s || !(s->of = an_arena_zero(r->c->work, nodes, sizeof *s->of)) ||
        !(s->stretch = an_arena_zero(r->c->work, nodes, sizeof *s->stretch)))
        return TACHO_ENOMEM;
    s->r = r;
    for (size_t n = 0; n < nodes; n++) {
        s->of[n] = AN_NO_SHARE;
        s->stretch[n] = 1;
    }
    int rc = an_shares_find(s);
    rc = rc ? rc : an_shares_calibrate(s, base, use);
    for (size_t i = 0; i < s->use_count && !rc; i++)
        s->stretch[s->use[i].node] = (float)an_use_stretch(&s->use[i]);
    if (!rc && s->count)
        *out = s;
    return rc;
}
