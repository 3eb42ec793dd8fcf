/* SPDX-License-Identifier: Apache-2.0
 *
 * What edits change: the own work of nodes, which releases count, the resources (what_if_plan.h).
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/replay/what_if_link.h"
#include "analyzers/replay/what_if_plan.h"
#include "analyzers/replay/what_if_ranks.h"

/* ---- what an edit names -------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *key;
    enum an_cause cause;
} cause_keys[] = {{"comm", AN_CAUSE_TRANSFER},
                  {"peers", AN_CAUSE_PEERS},
                  {"copy", AN_CAUSE_COPY},
                  {"compute", AN_CAUSE_COMPUTE},
                  {"loader", AN_CAUSE_INPUT},
                  {"launch", AN_CAUSE_LAUNCH},
                  {"sync", AN_CAUSE_SYNC},
                  {"allocation", AN_CAUSE_ALLOCATION},
                  {"collection", AN_CAUSE_COLLECTION},
                  {"compile", AN_CAUSE_COMPILE},
                  {"framework", AN_CAUSE_FRAMEWORK},
                  {"think", AN_CAUSE_THINK},
                  {"profiler", AN_CAUSE_PROFILER}};

static enum an_cause cause_named(const char *key)
{
    for (size_t i = 0; i < sizeof cause_keys / sizeof *cause_keys; i++)
        if (!strcmp(cause_keys[i].key, key))
            return cause_keys[i].cause;
    return AN_CAUSE_COUNT;
}

static size_t row_named(const struct an_rows *rows, const char *key)
{
    for (size_t i = 0; i < rows->count; i++)
        if (!strcmp(rows->row[i].key, key))
            return i;
    return AN_ROWS_MOST;
}

/* Is a word in the name of the device op? Names are looked at once. */
static bool kernel_named(const struct an_replay *r, uint8_t *memo, const char *word, uint32_t n)
{
    uint32_t slice = r->g->slice[n], name = slice != AN_NONE ? r->c->t->slice.name[slice] : AN_NONE;
    if (!an_graph_on_device(r->g, n) || name == AN_NONE)
        return false;
    if (!memo[name])
        memo[name] = strstr(an_trace_name(r->c->t, name), word) ? 2 : 1;
    return memo[name] == 2;
}

static int scale(struct an_plan *p, const struct an_edit *e)
{
    struct an_what_if_state *s = p->s;
    const struct an_replay *r = s->r;
    enum an_cause cause = cause_named(e->key);
    size_t row = row_named(&s->rows, e->key);
    bool kernel = !strncmp(e->key, "kernel:", 7), any = false;
    uint8_t *memo = kernel ? calloc(r->c->t->string_count + 1, 1) : NULL;
    if (kernel && !memo)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < r->node_count; i++) {
        uint32_t n = r->node[i];
        bool hit = kernel                    ? kernel_named(r, memo, e->key + 7, n)
                   : cause != AN_CAUSE_COUNT ? r->g->cause[n] == cause
                                             : s->rows.of[n] == row && row < s->rows.count;
        if (!hit)
            continue;
        any = true;
        p->touched = an_time_add(p->touched, r->own[n]);
        s->own[n] = (int64_t)((double)s->own[n] * e->factor);
    }
    free(memo);
    if (!any)
        p->unknown = e->key;
    return 0;
}

/* ---- edits of one kind ---------------------------------------------------------------------------------------------------------- */

static const char no_waiting[] =
    "the file lacks ranks, or clocks that agree: how much of a collective is transfer and how much "
    "is waiting for others is not known";

static bool names_comm(const struct an_what_if_state *s, const char *key)
{
    size_t row = row_named(&s->rows, key);
    return !strcmp(key, "comm") || !strncmp(key, "collective:", 11) ||
           (row < s->rows.count && s->rows.row[row].cause == AN_CAUSE_TRANSFER);
}

static int apply_scale(struct an_plan *p, const struct an_edit *e)
{
    struct an_what_if_state *s = p->s;
    p->more = p->more || e->factor > 1;
    if (!strcmp(e->key, "dispatch")) {
        p->change.latency = e->factor;
        return 0;
    }
    int rc = scale(p, e);
    if (names_comm(s, e->key) && !s->r->c->r->communication.waiting_ms.valid)
        p->ceiling = no_waiting;
    if (!strcmp(e->key, "peers")) {
        if (e->factor != 0)
            p->reason = "waiting for other ranks is not scaled, only taken away: peers=0";
        p->change.without_peers = true;
        p->unknown = s->r->g->by_kind[AN_EDGE_COLLECTIVE] ? NULL : p->unknown;
        p->ceiling = "how even the ranks can get is not in the run";
    }
    if (!strcmp(e->key, "sync") && e->factor == 0) {
        p->change.without_syncs = true;
        p->ceiling = "whether the program can do without what it waits for is not in the run";
    }
    return rc;
}

/* A captured graph: of the calls that launch, one a step is left; the framework between them does
 * not run. */
static void apply_graph(struct an_plan *p)
{
    const struct an_replay *r = p->s->r;
    const struct an_graph *g = r->g;
    const struct an_step *open = NULL;
    for (size_t i = 0; i < r->node_count; i++) {
        uint32_t n = r->node[i], cause = g->cause[n];
        if (an_graph_on_device(g, n) || (cause != AN_CAUSE_LAUNCH && cause != AN_CAUSE_FRAMEWORK &&
                                         cause != AN_CAUSE_ALLOCATION))
            continue;
        uint32_t lane = an_lane_of_process(r->c, r->c->t->track[g->track[n]].process);
        const struct an_step *step =
            lane == AN_NONE ? NULL : an_step_at_host(r->c, &r->c->lane[lane], g->start[n]);
        p->touched = an_time_add(p->touched, r->own[n]);
        if (cause == AN_CAUSE_LAUNCH && step && step != open)
            open = step;
        else
            p->s->own[n] = 0;
    }
    p->ceiling = "what launching a graph of this size costs was not measured";
    if (!g->by_kind[AN_EDGE_LAUNCH])
        p->unknown = "launch";
}

/* Mean of the transfer on a lane's own thread or device, a step. */
static void apply_overlap(struct an_plan *p)
{
    const struct an_replay *r = p->s->r;
    int64_t sum = 0;
    for (size_t i = 0; i < r->node_count; i++) {
        uint32_t n = r->node[i];
        if (r->g->cause[n] != AN_CAUSE_TRANSFER)
            continue;
        sum = an_time_add(sum, r->own[n]);
        p->s->own[n] = 0;
    }
    p->touched = an_time_add(p->touched, sum);
    for (size_t i = 0; i < p->s->steps && r->step_count; i++) {
        double least = (double)sum / (double)r->step_count;
        p->floor[i] = p->floor[i] > least ? p->floor[i] : least;
    }
    if (!sum)
        p->unknown = "comm";
    p->ceiling = "compute and communication slow each other down where they overlap, and by how "
                 "much was not measured";
}

/* Cores that the run is known to keep busy, whatever thread they are on, bound a step that gets
 * shorter. */
void an_plan_cores(struct an_plan *p)
{
    const struct an_core_use *x = &p->s->cores;
    struct an_context *c = p->s->r->c;
    if (!x->cores.valid) {
        if (p->workers)
            p->condition =
                "a free core for each worker: the run does not say how many cores there are";
        return;
    }
    double cores = p->cores > 0 ? p->cores : x->cores.value;
    if (!x->used.valid) {
        p->condition = an_arena_format(
            c->a, "that threads of the run have the %.0f cores to themselves: %.150s", cores,
            x->used.reason);
        return;
    }
    const char *others = p->others >= 0 ? an_arena_format(c->a, "; other programs want %s",
                                                          an_number_words(c->a, p->others, 2))
                         : x->others.valid && x->others.value >= 0.05
                             ? an_arena_format(c->a, "; other programs want %s, as they did",
                                               an_number_words(c->a, x->others.value, 2))
                             : "";
    const char *spin = p->s->shares && an_shares_readings(p->s->shares) > 1
                           ? "; of that its ranges account for less: the rest is work, or threads "
                             "that spin while they wait"
                           : "";
    p->condition =
        an_arena_format(c->a, "%.0f cores that threads share fairly; the run kept %s busy%s%s",
                        cores, an_number_words(c->a, x->used.value, 2), spin, others);
    for (size_t i = 0; i < p->s->steps && p->route; i++) {
        double least = p->s->b[i] * x->used.value / cores;
        p->floor[i] = p->floor[i] > least ? p->floor[i] : least;
    }
}

/* The work of workers may be scaled as well: what of theirs is left. */
double an_plan_worker_share(const struct an_what_if_state *s)
{
    const struct an_replay *r = s->r;
    double before = 0, after = 0;
    for (size_t i = 0; i < r->node_count; i++) {
        uint32_t n = r->node[i];
        if (r->g->cause[n] != AN_CAUSE_INPUT || r->g->kind[n] != AN_NODE_HOST)
            continue;
        before += (double)r->own[n];
        after += (double)s->own[n];
    }
    return before > 0 ? after / before : 1;
}

/* A link so many times as fast: what of a collective's time depends on its size shrinks. */
static int apply_link(struct an_plan *p, const struct an_edit *e)
{
    struct an_what_if_state *s = p->s;
    const struct an_context *c = s->r->c;
    struct an_latency_fit fit;
    p->more = p->more || e->factor < 1;
    int rc = an_link_latency(s->r, &fit);
    for (size_t i = 0; i < s->r->node_count && !rc; i++) {
        uint32_t n = s->r->node[i];
        if (s->r->g->cause[n] != AN_CAUSE_TRANSFER)
            continue;
        double own = (double)s->own[n], latency = fit.ns.valid && fit.ns.value < own ? fit.ns.value
                                                  : fit.ns.valid                     ? own
                                                                                     : 0;
        s->own[n] = (int64_t)(latency + (own - latency) / e->factor);
    }
    if (!fit.nodes)
        p->unknown = "link";
    if (!c->r->communication.waiting_ms.valid)
        p->ceiling = no_waiting;
    else if (!fit.ns.valid)
        p->ceiling = fit.ns.reason;
    return rc;
}

static int ranks_alike(struct an_plan *p, const struct an_edit *e)
{
    p->more = p->more || e->kind == AN_EDIT_SCALE || !strcmp(e->key, "ranks");
    return an_what_if_ranks(p->s->r, e, p->s->own, &p->touched, &p->reason);
}

int an_plan_apply(struct an_plan *p, const struct an_edit *e)
{
    switch (e->kind) {
    case AN_EDIT_WORKERS:
        p->workers = e->number;
        p->more = p->route = true;
        return 0;
    case AN_EDIT_AHEAD:
        p->ahead = e->number;
        p->more = p->route = true;
        return 0;
    case AN_EDIT_CORES:
    case AN_EDIT_OTHERS:
        if (e->kind == AN_EDIT_CORES)
            p->cores = (double)e->number;
        else
            p->others = e->factor;
        p->more = true;
        if (!an_shares_has_cores(p->s->shares))
            p->reason =
                p->s->cores.cores.valid ? p->s->cores.wanted.reason : p->s->cores.cores.reason;
        return 0;
    case AN_EDIT_LINK:
        return apply_link(p, e);
    case AN_EDIT_GRAPH:
        apply_graph(p);
        return 0;
    case AN_EDIT_OVERLAP:
        apply_overlap(p);
        return 0;
    case AN_EDIT_PEERS:
        return ranks_alike(p, e);
    default:
        if (!strncmp(e->key, "rank:", 5))
            return ranks_alike(p, e);
        return apply_scale(p, e);
    }
}
