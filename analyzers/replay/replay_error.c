/* SPDX-License-Identifier: Apache-2.0
 *
 * How far the replay misses the run: the graph of the odd steps gets the work of the even ones and
 * has to predict their median (docs/advise.md). Nodes match by the part their track plays, their
 * name and their ordinal in the step.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/replay/replay_error.h"

#define ERROR_STEPS 4 /* of a lane in one frame: two odd and two even ones */

/* Nodes of steps: of step s list[first[s]] .. list[first[s + 1]], by node. */
struct step_nodes {
    uint32_t *list;
    size_t *first;
};

/* ---- which node belongs to which step --------------------------------------------------------------------------------------- */

/* When the host decided on node n: a device op counts in the step that launched it. */
static int64_t decided(const struct an_graph *g, uint32_t n)
{
    n = an_graph_head(g, n);
    for (size_t e = g->in_first[n]; g->kind[n] == AN_NODE_DEVICE && e < g->in_first[n + 1]; e++)
        if ((g->in_kind[e] & AN_EDGE_KIND_MASK) == AN_EDGE_LAUNCH)
            return g->start[g->in_from[e]];
    return g->start[n];
}

/* Steps of each lane, as indexes into r->step: they ascend in time. */
struct lane_steps {
    uint32_t *list;
    size_t *first;
};

static int lane_steps_of(const struct an_replay *r, struct lane_steps *l)
{
    size_t lanes = r->c->lane_count, n = 0;
    l->list = malloc((r->step_count + 1) * sizeof *l->list);
    l->first = calloc(lanes + 1, sizeof *l->first);
    if (!l->list || !l->first)
        return TACHO_ENOMEM;
    for (size_t k = 0; k < lanes; k++) {
        l->first[k] = n;
        for (size_t i = 0; i < r->step_count; i++)
            if (r->c->step[r->step[i].step].lane == k)
                l->list[n++] = (uint32_t)i;
    }
    l->first[lanes] = n;
    return 0;
}

/* The step of a lane that holds `time`: on the host where there is one beside a device. */
static uint32_t step_of(const struct an_replay *r, const struct lane_steps *l, uint32_t lane,
                        int64_t time)
{
    bool host = r->c->lane[lane].device != AN_NONE;
    size_t low = l->first[lane], high = l->first[lane + 1];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct an_step *s = &r->c->step[r->step[l->list[middle]].step];
        if ((host ? s->host_end : s->end) <= time)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == l->first[lane + 1])
        return AN_NONE;
    const struct an_step *s = &r->c->step[r->step[l->list[low]].step];
    return time >= (host ? s->host_start : s->start) ? l->list[low] : AN_NONE;
}

/* Batches belong to the step that takes them: `hand` has, for each node, the node that it hands a
 * batch over to. */
static void follow_batches(const struct an_replay *r, const uint32_t *hand, uint32_t *of)
{
    const struct an_graph *g = r->g;
    for (uint32_t k = 0; k < r->c->t->track_count; k++) {
        uint32_t step = AN_NONE;
        for (size_t n = g->track_first[k + 1]; n-- > g->track_first[k];) {
            step = hand[n] != AN_NONE ? of[hand[n]] : step;
            if (g->cause[n] == AN_CAUSE_INPUT && step != AN_NONE && r->inside[n])
                of[n] = step;
        }
    }
}

static int steps_of_batches(const struct an_replay *r, uint32_t *of)
{
    const struct an_graph *g = r->g;
    uint32_t *hand = malloc((g->node_count + 1) * sizeof *hand);
    if (!hand)
        return TACHO_ENOMEM;
    memset(hand, 0xff, (g->node_count + 1) * sizeof *hand);
    for (size_t i = 0; i < r->node_count; i++) {
        uint32_t n = r->node[i];
        for (size_t e = g->in_first[n]; g->cause[n] == AN_CAUSE_INPUT && e < g->in_first[n + 1];
             e++)
            if ((g->in_kind[e] & AN_EDGE_KIND_MASK) == AN_EDGE_HANDOFF)
                hand[g->in_from[e]] = n;
    }
    follow_batches(r, hand, of); /* of what the step's thread takes, */
    follow_batches(r, hand, of); /* and of what a thread between takes */
    free(hand);
    return 0;
}

/* Fills of[n] for all nodes. */
static void steps_by_time(const struct an_replay *r, const struct lane_steps *l, uint32_t *of)
{
    const struct an_graph *g = r->g;
    for (uint32_t k = 0; k < r->c->t->track_count; k++) {
        size_t end = g->track_first[k + 1];
        uint32_t lane =
            g->track_first[k] < end ? an_lane_of_process(r->c, r->c->t->track[k].process) : AN_NONE;
        for (size_t n = g->track_first[k]; n < end; n++)
            of[n] = lane != AN_NONE && r->inside[n] ? step_of(r, l, lane, decided(g, (uint32_t)n))
                                                    : AN_NONE;
    }
}

static int steps_of_nodes(const struct an_replay *r, struct step_nodes *x)
{
    size_t nodes = r->g->node_count;
    struct lane_steps l = {0};
    uint32_t *of = malloc((nodes + 1) * sizeof *of);
    size_t *next = calloc(r->step_count + 2, sizeof *next);
    x->first = calloc(r->step_count + 2, sizeof *x->first);
    int rc = of && next && x->first ? lane_steps_of(r, &l) : TACHO_ENOMEM;
    if (!rc) {
        steps_by_time(r, &l, of);
        rc = steps_of_batches(r, of);
    }
    if (!rc) {
        for (size_t n = 0; n < nodes; n++)
            if (of[n] != AN_NONE)
                x->first[of[n] + 1]++;
        for (size_t s = 0; s < r->step_count; s++)
            x->first[s + 1] += x->first[s];
        if (!(x->list = malloc((x->first[r->step_count] + 1) * sizeof *x->list)))
            rc = TACHO_ENOMEM;
    }
    if (!rc) {
        memcpy(next, x->first, (r->step_count + 1) * sizeof *next);
        for (uint32_t n = 0; n < nodes; n++)
            if (of[n] != AN_NONE)
                x->list[next[of[n]]++] = n;
    }
    free(next);
    free(of);
    free(l.list);
    free(l.first);
    return rc;
}

/* ---- matching --------------------------------------------------------------------------------------------------------------- */

/* Queues of nodes by part and name: a table with open addresses. */
struct queues {
    uint64_t *key; /* 0: free */
    uint32_t *head, *tail;
    size_t mask;
    uint32_t *next; /* of every node of the graph */
    uint32_t *part; /* of every track */
};

/* Threads of one rank that are named alike but for a number (loader 0, loader 1) play one part. */
static void parts_of(const struct an_replay *r, uint32_t *part)
{
    const struct an_trace *t = r->c->t;
    for (uint32_t k = 0; k < t->track_count; k++) {
        size_t length = strlen(t->track[k].name);
        part[k] = k;
        while (length && strchr("0123456789 #:-", t->track[k].name[length - 1]))
            length--;
        if (!length || !strcmp(t->track[k].kind, "stream") ||
            r->g->track_first[k] == r->g->track_first[k + 1])
            continue;
        for (uint32_t i = 0; i < k && part[k] == k; i++)
            if (r->g->track_first[i] < r->g->track_first[i + 1] &&
                !strcmp(t->track[i].kind, t->track[k].kind) &&
                !strncmp(t->track[i].name, t->track[k].name, length) &&
                strspn(t->track[i].name + length, "0123456789 #:-") ==
                    strlen(t->track[i].name + length) &&
                an_lane_of_process(r->c, t->track[i].process) ==
                    an_lane_of_process(r->c, t->track[k].process))
                part[k] = part[i];
    }
}

static uint64_t key_of(const struct an_replay *r, const struct queues *q, uint32_t n)
{
    const struct an_graph *g = r->g;
    bool named = g->slice[n] != AN_NONE &&
                 g->kind[n] != AN_NODE_THINK; /* what marks a step may hold its number */
    uint32_t name = named ? r->c->t->slice.name[g->slice[n]] : AN_NONE;
    uint64_t key = ((uint64_t)q->part[g->track[n]] << 32 | name) * 0x9e3779b97f4a7c15ull;
    key ^=
        (uint64_t)g->kind[n] << 8 ^ g->cause[n]; /* pieces of one range with and without waiting */
    if (g->kind[n] == AN_NODE_WAIT && g->in_first[n] == g->in_first[n + 1])
        key ^= 1u << 16; /* nothing recorded ends it: its own work is the whole wait, no other's */
    return key ? key : 1;
}

static size_t place(const struct queues *q, uint64_t key)
{
    size_t i = (size_t)(key ^ key >> 29) & q->mask;
    while (q->key[i] && q->key[i] != key)
        i = (i + 1) & q->mask;
    return i;
}

/* Gives the nodes of a block of steps that begins with `to` the own work of that which begins with
 * `from`; counts those that found none. */
static void lend(const struct an_replay *r, struct queues *q, const struct step_nodes *x,
                 size_t from, size_t to, size_t steps, int64_t *own, int64_t *alone, int64_t *all)
{
    memset(q->key, 0, (q->mask + 1) * sizeof *q->key);
    for (size_t i = x->first[from]; i < x->first[from + steps]; i++) {
        uint32_t n = x->list[i];
        uint64_t key = key_of(r, q, n);
        size_t p = place(q, key);
        q->next[n] = AN_NONE;
        if (!q->key[p]) {
            q->key[p] = key;
            q->head[p] = n;
        } else {
            q->next[q->tail[p]] = n;
        }
        q->tail[p] = n;
    }
    for (size_t i = x->first[to]; i < x->first[to + steps]; i++) {
        uint32_t n = x->list[i];
        size_t p = place(q, key_of(r, q, n));
        *all = an_time_add(*all, r->own[n]);
        if (!q->key[p] || q->head[p] == AN_NONE) {
            *alone = an_time_add(*alone, r->own[n]);
            continue;
        }
        own[n] = r->own[q->head[p]];
        q->head[p] = q->next[q->head[p]];
    }
}

static int queues_new(const struct an_replay *r, const struct step_nodes *x, struct queues *q)
{
    size_t most = 1;
    for (size_t s = 0; s + r->period <= r->step_count; s++) {
        size_t nodes = x->first[s + r->period] - x->first[s];
        most = nodes > most ? nodes : most;
    }
    for (q->mask = 1; q->mask < 2 * most; q->mask *= 2)
        ;
    q->key = calloc(q->mask, sizeof *q->key);
    q->head = calloc(q->mask, sizeof *q->head);
    q->tail = calloc(q->mask, sizeof *q->tail);
    q->next = calloc(r->g->node_count + 1, sizeof *q->next);
    q->part = calloc(r->c->t->track_count + 1, sizeof *q->part);
    q->mask--;
    if (!q->key || !q->head || !q->tail || !q->next || !q->part)
        return TACHO_ENOMEM;
    parts_of(r, q->part);
    return 0;
}

/* ---- the error -------------------------------------------------------------------------------------------------------------- */

/* Every block of steps gets the work of the one before: the odd ones, which are looked at, that of
 * the even ones; and the even ones that of the odd ones before them, so that an odd one begins as
 * its even one did, with the same rank ahead and as many batches made. */
static void lend_all(const struct an_replay *r, struct queues *q, const struct step_nodes *x,
                     int64_t *own, int64_t *alone, int64_t *all)
{
    for (size_t i = 0; i < r->step_count; i++) {
        const struct an_replay_step *s = &r->step[i];
        uint32_t p = s->of >= ERROR_STEPS * r->period ? r->period : 1;
        if (s->of < ERROR_STEPS || s->place % p || s->ordinal < p || s->ordinal + p > s->of)
            continue;
        lend(r, q, x, i - p, i, p, own, alone, all);
    }
}

static double median_of(double *x, size_t n)
{
    return an_quantile_of(x, n, 0.5);
}

static int predict(const struct an_replay *r, const int64_t *own, struct an_times *t,
                   struct an_replay_error *e)
{
    double *value = malloc((r->step_count + 1) * sizeof *value),
           *x = malloc((r->step_count + 1) * sizeof *x);
    int rc = value && x ? 0 : TACHO_ENOMEM;
    if (!rc) {
        an_replay_run(r, &(struct an_change){.own = own, .latency = 1}, t);
        for (size_t i = 0; i < r->step_count; i++)
            value[i] = (double)an_replay_step_ns(r, &r->step[i], t);
        e->odd = an_replay_blocks(r, value, 1, x);
        double predicted = e->odd ? median_of(x, e->odd) : NAN;
        e->even = an_replay_blocks(r, NULL, 0, x);
        double truth = e->even ? median_of(x, e->even) : NAN;
        e->pct = e->odd > 1 && truth > 0 ? 100 * (predicted / truth - 1) : NAN;
    }
    free(value);
    free(x);
    return rc;
}

int an_replay_odd_even(const struct an_replay *r, struct an_times *t, struct an_replay_error *e)
{
    struct step_nodes x = {0};
    struct queues q = {0};
    int64_t alone = 0, all = 0;
    *e = (struct an_replay_error){.pct = NAN};
    int64_t *own = malloc((r->g->node_count + 1) * sizeof *own);
    int rc = own ? steps_of_nodes(r, &x) : TACHO_ENOMEM;
    if (own)
        memcpy(own, r->own, r->g->node_count * sizeof *own);
    if (!rc)
        rc = queues_new(r, &x, &q);
    if (!rc) {
        lend_all(r, &q, &x, own, &alone, &all);
        rc = predict(r, own, t, e);
        e->unmatched_pct = all > 0 ? 100 * (double)alone / (double)all : 0;
    }
    free(own);
    free(x.list);
    free(x.first);
    free(q.key);
    free(q.head);
    free(q.tail);
    free(q.next);
    free(q.part);
    return rc;
}
