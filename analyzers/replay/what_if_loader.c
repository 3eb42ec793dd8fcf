/* SPDX-License-Identifier: Apache-2.0
 *
 * The loader on other threads, as an edit of the graph (what_if_loader.h).
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/replay/replay.h"
#include "analyzers/replay/what_if_loader.h"

#define AHEAD_TURNS 2   /* batches that each worker makes before they are taken: PyTorch's default \
                         */
#define AHEAD_WHOEVER 4 /* the engine's, of all workers together (docs/loader.md) */

/* Where a step's thread takes a batch: consecutive nodes of one range. */
struct take {
    uint32_t wait, lane; /* wait: the node that has to wait for it */
    uint32_t copy;       /* the device op that copies it to the device, AN_NONE: none */
    int64_t work, begun, made, taken;
    double stretch; /* slowdown by shared cores */
};

struct an_route {
    const struct an_graph *g;
    struct take *take; /* by node: those of one lane stand together */
    size_t count, room, lanes;
    size_t *base; /* of each lane: its first take in the frame */
    int64_t workers, ahead, frame, pin;
    bool whoever;
    int64_t *free_at; /* lane by lane, `workers` each: when they are done; whoever only */
    double factor, write_ns, batch_ns, recorded; /* recorded: the slowdown that work holds */
};

/* ---- finding the batches ------------------------------------------------------------------------------------------------------ */

/* The outermost range around a piece that is about input: one batch. */
static uint32_t root_of(const struct an_context *c, const struct an_graph *g, uint32_t slice)
{
    uint32_t root = slice;
    for (int i = 0; slice != AN_NONE && i < AN_DEPTH_MAX; i++, slice = c->t->slice.parent[slice])
        if (an_slice_cause(c, g->causes, slice) == AN_CAUSE_INPUT)
            root = slice;
    return root;
}

/* ns of writing the batch once, inside one range of the thread: its collate, else what torch calls
 * collating. */
static int64_t write_of(const struct an_context *c, uint32_t root)
{
    const struct an_trace *t = c->t;
    int64_t end = an_slice_end(t, root), sum = 0, until = INT64_MIN;
    for (size_t i = (size_t)root + 1;
         i < t->slice.count && t->slice.start[i] < end && t->slice.start[i] >= t->slice.start[root];
         i++) {
        const char *name = an_trace_name(t, t->slice.name[i]);
        bool writes = an_slice_role(t, i) == AN_ROLE_COLLATE || !strcmp(name, "aten::stack") ||
                      !strcmp(name, "aten::cat");
        if (!writes || t->slice.start[i] < until)
            continue;
        until = an_slice_end(t, i);
        sum = an_time_add(sum, an_time_sub(until, t->slice.start[i]));
    }
    return sum;
}

static int add_takes(const struct an_replay *r, uint32_t lane, bool in_line, int64_t *own,
                     struct an_route *x, double *written)
{
    const struct an_context *c = r->c;
    const struct an_graph *g = r->g;
    uint32_t track = c->lane[lane].track, last_root = AN_NONE;
    for (size_t n = g->track_first[track]; n < g->track_first[track + 1]; n++) {
        uint32_t root =
            g->cause[n] == AN_CAUSE_INPUT && r->inside[n] ? root_of(c, g, g->slice[n]) : AN_NONE;
        if (root == AN_NONE)
            continue;
        if (root != last_root) {
            if (an_grow(&x->take, &x->room, x->count + 1, sizeof *x->take))
                return TACHO_ENOMEM;
            x->take[x->count++] = (struct take){.wait = (uint32_t)n, .lane = lane, .copy = AN_NONE};
            *written += (double)write_of(c, root);
            last_root = root;
        }
        struct take *k = &x->take[x->count - 1];
        if (!in_line) { /* what is left behind the release is taking over */
            k->wait = g->kind[n] == AN_NODE_WAIT && g->kind[k->wait] != AN_NODE_WAIT ? (uint32_t)n
                                                                                     : k->wait;
            continue;
        }
        k->work = an_time_add(k->work, own[n]);
        k->wait = (uint32_t)n;
        own[n] = 0;
    }
    return 0;
}

static const struct an_loader_rank *loader_of(const struct an_context *c, uint32_t lane)
{
    for (size_t i = 0; i < c->r->loader.rank_count; i++)
        if (c->r->loader.ranks[i].rank == c->lane[lane].rank)
            return &c->r->loader.ranks[i];
    return NULL;
}

/* ns of a batch in a thread of its own that copies it, where there is one. */
static int64_t pin_of(const struct an_context *c, bool in_line)
{
    for (size_t i = 0; !in_line && i < c->r->loader.stage_count; i++)
        if (!strcmp(c->r->loader.stages[i].name, "pin") &&
            c->r->loader.stages[i].ms_per_batch.valid)
            return (int64_t)(c->r->loader.stages[i].ms_per_batch.value * 1e6);
    return 0;
}

/* ---- worker time ---------------------------------------------------------------------------------------------------------------- */

static uint32_t handed_by(const struct an_graph *g, uint32_t n)
{
    for (size_t e = g->in_first[n]; e < g->in_first[n + 1]; e++)
        if ((g->in_kind[e] & AN_EDGE_KIND_MASK) == AN_EDGE_HANDOFF)
            return g->in_from[e];
    return AN_NONE;
}

/* Own work of the batch whose last stage is node n: what the worker did since the batch before.
 * `last` marks last stages. */
static int64_t work_until(const struct an_replay *r, const bool *last, uint32_t n)
{
    const struct an_graph *g = r->g;
    int64_t sum = 0;
    for (uint32_t m = n; m != AN_NONE && (m == n || !last[m]); m = an_graph_before(g, m)) {
        if (g->kind[m] == AN_NODE_WAIT)
            break;
        if (g->cause[m] == AN_CAUSE_INPUT)
            sum = an_time_add(sum, r->own[m]);
    }
    return sum;
}

/* Batches differ: each has its own work where the hand-over tells which it is, else the mean. */
static int work_of_batches(const struct an_replay *r, struct an_route *x, size_t first,
                           int64_t mean)
{
    const struct an_graph *g = r->g;
    bool *last = calloc(g->node_count + 1, sizeof *last);
    if (!last)
        return TACHO_ENOMEM;
    for (uint32_t n = 0; n < g->node_count; n++) {
        uint32_t from = g->cause[n] == AN_CAUSE_INPUT ? handed_by(g, n) : AN_NONE;
        if (from != AN_NONE)
            last[from] = true;
    }
    for (size_t i = first; i < x->count; i++) {
        uint32_t from = handed_by(g, x->take[i].wait);
        uint32_t before = from != AN_NONE && x->pin ? an_graph_before(g, from)
                                                    : AN_NONE; /* a pin thread's wait */
        from = before != AN_NONE ? handed_by(g, before) : from;
        int64_t work = from != AN_NONE ? work_until(r, last, from) : 0;
        x->take[i].work = work > 0 ? work : mean;
    }
    free(last);
    return 0;
}

static int route_lane(const struct an_replay *r, uint32_t lane, int64_t *own, struct an_route *x,
                      const char **why, double *written)
{
    const struct an_loader *all = &r->c->r->loader;
    const struct an_loader_rank *l = loader_of(r->c, lane);
    struct an_count workers = l ? l->workers : all->workers;
    struct an_value batch = l ? l->batch_ms : all->batch_ms;
    bool in_line = workers.valid && !workers.value;
    size_t first = x->count;
    if (!x->workers && workers.valid && workers.value > 0)
        x->workers = workers.value;
    if (!workers.valid)
        *why = all->reason ? all->reason : workers.reason;
    else if (!in_line && !batch.valid)
        *why = batch.reason;
    else if (!x->workers)
        *why = "the loader is in line, nothing is made ahead: add loader.workers=N";
    if (*why)
        return 0;
    int rc = add_takes(r, lane, in_line, own, x, written);
    x->pin = pin_of(r->c, in_line);
    return rc || in_line ? rc : work_of_batches(r, x, first, (int64_t)(batch.value * 1e6));
}

static int take_order(const void *a, const void *b)
{
    const struct take *x = a, *y = b;
    return (x->wait > y->wait) - (x->wait < y->wait);
}

/* The largest copy that the step's thread launches between one batch and the next: it is the first
 * to read the batch. */
static void find_copies(const struct an_replay *r, struct take *take, size_t count)
{
    const struct an_graph *g = r->g;
    for (size_t i = 0; i < r->node_count; i++) {
        uint32_t n = r->node[i], call = AN_NONE;
        if (g->kind[n] != AN_NODE_DEVICE || g->cause[n] != AN_CAUSE_COPY)
            continue;
        for (size_t e = g->in_first[n]; e < g->in_first[n + 1]; e++)
            call = (g->in_kind[e] & AN_EDGE_KIND_MASK) == AN_EDGE_LAUNCH ? g->in_from[e] : call;
        size_t k = count;
        while (k && (call == AN_NONE || take[k - 1].wait > call))
            k--;
        struct take *x = k ? &take[k - 1] : NULL;
        if (x && g->track[x->wait] == g->track[call] &&
            (x->copy == AN_NONE || r->own[n] > r->own[x->copy]))
            x->copy = n;
    }
}

/* Half of what handing over costs is receiving the batch, half reading it cold. */
static void charge(const struct an_replay *r, struct an_route *x, double hand_over, int64_t *own)
{
    if (hand_over > 0)
        find_copies(r, x->take, x->count);
    for (size_t i = 0; i < x->count; i++) {
        uint32_t reads = x->take[i].copy != AN_NONE ? x->take[i].copy : x->take[i].wait;
        int64_t half = (int64_t)(hand_over / 2 * x->write_ns);
        own[x->take[i].wait] = an_time_add(own[x->take[i].wait], half);
        own[reads] = an_time_add(own[reads], half);
    }
}

int an_route_new(const struct an_replay *r, const struct an_route_plan *plan, int64_t *own,
                 struct an_route **out, const char **why)
{
    struct an_context *c = r->c;
    struct an_route *x = an_arena_zero(c->work, 1, sizeof *x);
    struct take *take;
    double written = 0, work = 0;
    *out = NULL;
    *why = NULL;
    if (!x || !(x->base = an_arena_zero(c->work, c->lane_count + 1, sizeof *x->base)))
        return TACHO_ENOMEM;
    x->g = r->g;
    x->lanes = c->lane_count;
    x->workers = plan->workers;
    x->factor = plan->work_factor;
    x->whoever = plan->whoever;
    int rc = 0;
    for (uint32_t k = 0; k < c->lane_count && !rc && !*why; k++)
        if (c->lane[k].track != AN_NONE)
            rc = route_lane(r, k, own, x, why, &written);
    if (!rc && !*why && !x->count)
        *why = "no step takes a batch inside the replayed steps";
    take = rc || *why ? NULL : an_arena_copy(c->work, x->take, x->count * sizeof *take);
    free(x->take);
    x->take = take;
    if (rc || *why || !take)
        return rc || *why ? rc : TACHO_ENOMEM;
    qsort(take, x->count, sizeof *take, take_order);
    for (size_t i = 0; i < x->count; i++)
        work += (double)take[i].work;
    an_route_recorded(x, 1);
    x->write_ns = written / (double)x->count;
    x->batch_ns = work / (double)x->count;
    charge(r, x, plan->hand_over, own);
    x->ahead = plan->ahead ? plan->ahead : x->whoever ? AHEAD_WHOEVER : AHEAD_TURNS * x->workers;
    if (x->whoever &&
        !(x->free_at = an_arena_zero(c->work, x->lanes * (size_t)x->workers, sizeof *x->free_at)))
        return TACHO_ENOMEM;
    *out = x;
    return 0;
}

/* ---- replaying ---------------------------------------------------------------------------------------------------------------- */

void an_route_begin(struct an_route *x, int64_t start)
{
    x->frame = start;
    for (size_t k = 0; k < x->lanes; k++)
        x->base[k] = SIZE_MAX;
    for (size_t i = 0; x->whoever && i < x->lanes * (size_t)x->workers; i++)
        x->free_at[i] = INT64_MIN;
}

static struct take *take_at(const struct an_route *x, uint32_t n)
{
    if (x->g->cause[n] != AN_CAUSE_INPUT)
        return NULL;
    struct take key = {.wait = n};
    return bsearch(&key, x->take, x->count, sizeof key, take_order);
}

bool an_route_replaces(const struct an_route *x, const struct an_graph *g, uint32_t n,
                       enum an_edge_kind kind)
{
    (void)g;
    return kind == AN_EDGE_HANDOFF && take_at(x, n);
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The worker of a lane that is done first. */
static int64_t *first_free(const struct an_route *x, uint32_t lane)
{
    int64_t *first = &x->free_at[lane * (size_t)x->workers];
    for (int64_t *w = first + 1; w < &x->free_at[(lane + 1) * (size_t)x->workers]; w++)
        first = *w < *first ? w : first;
    return first;
}

int64_t an_route_release(struct an_route *x, uint32_t n, int64_t start, int64_t body)
{
    struct take *k = take_at(x, n);
    if (!k)
        return body;
    size_t i = (size_t)(k - x->take), w = (size_t)x->workers, room = (size_t)x->ahead;
    if (x->base[k->lane] == SIZE_MAX)
        x->base[k->lane] = i;
    size_t j = i - x->base[k->lane]; /* its ordinal in the frame */
    int64_t work = (int64_t)((double)k->work * x->factor * k->stretch / x->recorded);
    int64_t *worker = x->whoever ? first_free(x, k->lane) : NULL;
    /* The frame begins with every worker as far into its first batch as in a pipeline that runs. */
    int64_t begun = j < w    ? x->frame - (int64_t)((double)work * (double)(w - 1 - j) / (double)w)
                    : worker ? *worker
                             : k[-(ptrdiff_t)w].made;
    if (j >= room)
        begun = later(begun, k[-(ptrdiff_t)room].taken);
    if (worker)
        *worker = begun + work;
    k->begun = begun;
    k->made = begun + work;
    if (x->pin)
        k->made = (j ? later(k->made, k[-1].made) : k->made) + x->pin;
    k->taken = later(start, k->made);
    return later(body, k->made);
}

double an_route_write_ns(const struct an_route *x)
{
    return x->write_ns;
}

double an_route_batch_ns(const struct an_route *x)
{
    return x->batch_ns;
}

size_t an_route_count(const struct an_route *x)
{
    return x->count;
}

uint32_t an_route_use(const struct an_route *x, uint32_t i, int64_t *start, int64_t *end)
{
    const struct take *k = &x->take[i];
    *start = k->begun;
    *end = (int64_t)((double)k->begun + (double)k->work * x->factor * k->stretch / x->recorded);
    return k->wait;
}

void an_route_recorded(struct an_route *x, double stretch)
{
    x->recorded = stretch;
    for (size_t i = 0; i < x->count; i++)
        x->take[i].stretch = stretch;
}

void an_route_stretch(struct an_route *x, uint32_t i, double stretch)
{
    x->take[i].stretch = stretch;
}

double an_route_stretched(const struct an_route *x, uint32_t i)
{
    return x->take[i].stretch;
}
