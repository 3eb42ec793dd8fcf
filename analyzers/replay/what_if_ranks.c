/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks made alike in the replay: whose own work, in which step and stage, and what it would be on
 * its peers.
 */
#include "analyzers/replay/what_if_ranks.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/ranks/ranks_build.h"

/* Where a rank works: what is scaled apart. */
enum place { ON_THREAD, ON_DEVICE, ELSEWHERE, PLACES };

struct even {
    const struct an_replay *r;
    struct an_context *c;
    const struct an_edit *e;
    int64_t *own;
    enum an_step_stage stage; /* AN_STAGE_COUNT: all of them */
    uint32_t target;          /* lane; AN_NONE: all lanes */
    uint32_t reference;       /* the lane whose steps are the columns */
    size_t columns;
    struct an_stage_map map;
    struct an_stage_span *
        *span; /* of every lane without a device: the stages on its thread, in order */
    size_t *spans, *span_room;
    uint32_t *lane;         /* of every track */
    double *work[PLACES];   /* [lane * columns + column] ns; ELSEWHERE: [lane], a step */
    double *factor[PLACES]; /* the same */
    int64_t touched;
    bool scale; /* second pass: scale, do not add up */
};

/* ---- which node is whose -------------------------------------------------------------------------------------------------------- */

/* Column of a step: the reference's step of the same index; SIZE_MAX: it has none. */
static size_t column_of(const struct even *x, const struct an_step *s)
{
    const struct an_lane *l = &x->c->lane[x->reference];
    size_t low = l->first, high = l->first + l->count;
    while (s && low < high) {
        size_t middle = low + (high - low) / 2;
        if (x->c->step[middle].index < s->index)
            low = middle + 1;
        else
            high = middle;
    }
    return s && low < l->first + l->count && x->c->step[low].index == s->index ? low - l->first
                                                                               : SIZE_MAX;
}

/* Stage of a lane's thread at `time`; other: none. */
static enum an_step_stage stage_at(const struct even *x, uint32_t lane, int64_t time)
{
    const struct an_stage_span *a = x->span[lane];
    size_t i =
        an_rows_seek(a, sizeof *a, offsetof(struct an_stage_span, end), x->spans[lane], time);
    return i < x->spans[lane] && a[i].start <= time ? a[i].stage : AN_STAGE_OTHER;
}

static enum an_step_stage stage_of_node(const struct even *x, uint32_t lane, uint32_t n)
{
    const struct an_graph *g = x->r->g;
    if (g->cause[n] == AN_CAUSE_INPUT)
        return AN_STAGE_INPUT;
    if (x->c->lane[lane].device != AN_NONE)
        return AN_STAGE_OTHER;
    return stage_at(x, lane, g->start[n] + (g->end[n] - g->start[n]) / 2);
}

static bool is_meant(const struct even *x, enum an_step_stage s)
{
    return x->stage == AN_STAGE_COUNT || s == x->stage ||
           (x->stage == AN_STAGE_COMPUTE && s == AN_STAGE_FORWARD);
}

static void add(struct even *x, uint32_t lane, enum place p, size_t column, uint32_t n)
{
    size_t i = p == ELSEWHERE ? lane : lane * x->columns + column;
    double ns = (double)x->own[n];
    if (!x->scale) {
        x->work[p][i] += ns;
        x->touched += x->target == AN_NONE || x->target == lane ? x->own[n] : 0;
    } else if (x->target == AN_NONE || x->target == lane) {
        x->own[n] = (int64_t)(ns * x->factor[p][i]);
    }
}

static void ops(struct even *x)
{
    const struct an_devices *gpu = x->c->gpu;
    const struct an_graph *g = x->r->g;
    for (size_t i = 0; gpu && i < gpu->op.count; i++) {
        uint32_t n = g->op_node[i], lane = x->lane[gpu->op.track[i]];
        if (lane == AN_NONE || !x->r->inside[n] || g->cause[n] == AN_CAUSE_TRANSFER || !x->own[n])
            continue;
        const struct an_lane *l = &x->c->lane[lane];
        size_t column = column_of(x, an_step_at(x->c, l, g->start[n]));
        if (column != SIZE_MAX && is_meant(x, an_stage_of_op(&x->map, l, i)))
            add(x, lane, ON_DEVICE, column, n);
    }
}

static void pieces(struct even *x)
{
    const struct an_graph *g = x->r->g;
    for (size_t i = 0; i < x->r->node_count; i++) {
        uint32_t n = x->r->node[i], lane = x->lane[g->track[n]];
        bool ended = g->kind[n] == AN_NODE_WAIT && g->in_first[n] < g->in_first[n + 1];
        if (lane == AN_NONE || an_graph_on_device(g, n) || !x->own[n] || ended ||
            g->cause[n] == AN_CAUSE_TRANSFER || g->cause[n] == AN_CAUSE_PEERS ||
            !is_meant(x, stage_of_node(x, lane, n)))
            continue;
        const struct an_lane *l = &x->c->lane[lane];
        bool main = g->track[n] == l->track;
        size_t column = main ? column_of(x, an_step_at_host(x->c, l, g->start[n])) : 0;
        if (column != SIZE_MAX)
            add(x, lane, main ? ON_THREAD : ELSEWHERE, column, n);
    }
}

static void pass(struct even *x, bool scale)
{
    x->scale = scale;
    ops(x);
    pieces(x);
}

/* ---- what it would be ----------------------------------------------------------------------------------------------------------- */

static bool are_peers(const struct an_context *c, uint32_t a, uint32_t b)
{
    const uint32_t *peers = c->exchanges ? c->exchanges->peers : NULL;
    return !peers || peers[a] == peers[b];
}

/* Steps of the lane that its work is spread over. */
static double steps_of(const struct even *x, uint32_t lane)
{
    return x->c->lane[lane].count ? (double)x->c->lane[lane].count : 1;
}

/* What the lane's work in a column would be: the median of its peers', or the mean of all; -1:
 * nobody else has it. */
static double goal(const struct even *x, uint32_t lane, enum place p, size_t column, double *others)
{
    size_t n = 0;
    double sum = 0;
    for (uint32_t k = 0; k < x->c->lane_count; k++) {
        if ((k == lane && x->target != AN_NONE) || !are_peers(x->c, lane, k))
            continue;
        double ns =
            p == ELSEWHERE ? x->work[p][k] / steps_of(x, k) : x->work[p][k * x->columns + column];
        if (p != ELSEWHERE && x->work[ON_THREAD][k * x->columns + column] == 0 &&
            x->work[ON_DEVICE][k * x->columns + column] == 0)
            continue; /* this rank does not have the step */
        others[n++] = ns;
        sum += ns;
    }
    return !n ? -1 : x->target == AN_NONE ? sum / (double)n : an_quantile_of(others, n, 0.5);
}

static double factor(const struct even *x, double own, double to)
{
    if (to < 0 || own <= 0)
        return 1;
    return x->target == AN_NONE || to < own ? to / own : 1;
}

static void factors(struct even *x, double *others)
{
    for (uint32_t k = 0; k < x->c->lane_count; k++) {
        if (x->target != AN_NONE && x->target != k)
            continue;
        for (size_t i = 0; i < x->columns; i++)
            for (int p = ON_THREAD; p <= ON_DEVICE; p++) {
                size_t at = k * x->columns + i;
                x->factor[p][at] =
                    x->e->kind == AN_EDIT_SCALE
                        ? x->e->factor
                        : factor(x, x->work[p][at], goal(x, k, (enum place)p, i, others));
            }
        x->factor[ELSEWHERE][k] = x->e->kind == AN_EDIT_SCALE
                                      ? x->e->factor
                                      : factor(x, x->work[ELSEWHERE][k] / steps_of(x, k),
                                               goal(x, k, ELSEWHERE, 0, others));
    }
}

/* ---- the edit -------------------------------------------------------------------------------------------------------------------- */

static const char *ranks_of(struct an_context *c)
{
    const char *list = "";
    for (size_t k = 0; k < c->lane_count && strlen(list) < 100; k++)
        list = an_arena_format(c->a, "%s%s%" PRId64, list, k ? ", " : "", c->lane[k].rank);
    return list;
}

/* "rank:2:backward": who is meant. False, with the reason: nobody. */
static bool read_key(struct even *x, const char **reason)
{
    struct an_context *c = x->c;
    char *end = NULL;
    x->target = x->reference = AN_NONE;
    x->stage = AN_STAGE_COUNT;
    for (uint32_t k = 0; k < c->lane_count && x->reference == AN_NONE; k++)
        x->reference = c->lane[k].count ? k : AN_NONE;
    if (c->lane_count < 2 || x->reference == AN_NONE) {
        *reason = "there is one rank only: nobody to compare it with";
        return false;
    }
    if (!strcmp(x->e->key, "ranks"))
        return true;
    long long rank = strtoll(x->e->key + strlen("rank:"), &end, 10);
    for (uint32_t k = 0; k < c->lane_count; k++)
        if (c->lane[k].rank == rank)
            x->target = x->reference = k;
    if (*end == ':')
        an_stage_named(end + 1, &x->stage);
    if (x->target == AN_NONE)
        *reason =
            an_arena_format(c->a, "rank %lld is not in this run: it has %s", rank, ranks_of(c));
    return x->target != AN_NONE;
}

static int allocate(struct even *x)
{
    struct an_context *c = x->c;
    size_t lanes = c->lane_count, tracks = c->t->track_count;
    x->columns = c->lane[x->reference].count;
    for (uint32_t k = 0; k < lanes && x->target == AN_NONE;
         k++) /* the lane with most steps has most columns */
        if (c->lane[k].count > x->columns) {
            x->reference = k;
            x->columns = c->lane[k].count;
        }
    x->lane = malloc((tracks + 1) * sizeof *x->lane);
    x->span = calloc(lanes, sizeof *x->span);
    x->spans = calloc(lanes, sizeof *x->spans);
    x->span_room = calloc(lanes, sizeof *x->span_room);
    bool ok = x->lane && x->span && x->spans && x->span_room;
    for (int p = 0; p < PLACES && ok; p++) {
        size_t n = p == ELSEWHERE ? lanes : lanes * x->columns;
        x->work[p] = calloc(n + 1, sizeof *x->work[p]);
        x->factor[p] = calloc(n + 1, sizeof *x->factor[p]);
        ok = x->work[p] && x->factor[p];
    }
    if (!ok || an_stage_map_of(c, &x->map))
        return TACHO_ENOMEM;
    for (uint32_t k = 0; k < tracks; k++)
        x->lane[k] = an_lane_of_process(c, c->t->track[k].process);
    for (size_t i = 0; i < c->step_count; i++) {
        uint32_t k = c->step[i].lane;
        if (c->lane[k].device == AN_NONE && c->lane[k].track != AN_NONE &&
            an_step_detailed(&c->step[i]) &&
            an_stage_spans(&x->map, &c->step[i], &x->span[k], &x->spans[k], &x->span_room[k]))
            return TACHO_ENOMEM;
    }
    return 0;
}

static void release(struct even *x)
{
    for (uint32_t k = 0; x->span && k < x->c->lane_count; k++)
        free(x->span[k]);
    free(x->span);
    free(x->spans);
    free(x->span_room);
    free(x->lane);
    for (int p = 0; p < PLACES; p++) {
        free(x->work[p]);
        free(x->factor[p]);
    }
}

int an_what_if_ranks(const struct an_replay *r, const struct an_edit *e, int64_t *own,
                     int64_t *touched, const char **reason)
{
    struct even x = {.r = r, .c = r->c, .e = e, .own = own};
    if (!read_key(&x, reason))
        return 0;
    double *others = malloc((x.c->lane_count + 1) * sizeof *others);
    int rc = others ? allocate(&x) : TACHO_ENOMEM;
    if (!rc) {
        pass(&x, false);
        factors(&x, others);
        pass(&x, true);
        *touched = an_time_add(*touched, x.touched);
        if (!x.touched)
            *reason = an_arena_format(x.c->a, "nothing in the replayed steps is %.100s", e->key);
    }
    free(others);
    release(&x);
    return rc;
}
