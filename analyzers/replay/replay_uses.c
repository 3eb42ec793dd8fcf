/* SPDX-License-Identifier: Apache-2.0
 *
 * Who works when (replay_shares_build.h). Nothing is copied: a use is its node, or the batch of the
 * route, and its times are the replay's. Pieces of one thread follow each other, so the starts and
 * ends of a thread are in order as they are, and those of all threads are merged; only ops of
 * devices and the route's batches, which may overlap, are sorted.
 */
#include <stdlib.h>

#include "analyzers/base/radix.h"
#include "analyzers/replay/replay_shares_build.h"
#include "analyzers/replay/what_if_loader.h"

bool an_use_of_batch(const struct an_shares *s, uint32_t batch, struct an_use *u)
{
    *u = (struct an_use){.demand = s->demand[AN_CAUSE_INPUT], .part = s->part[AN_CAUSE_INPUT]};
    uint32_t at = an_route_use(s->route, batch, &u->start, &u->end);
    u->share = s->cores ? s->host[s->r->g->track[at]] : AN_NO_SHARE;
    return s->cores && u->end > u->start && u->share < s->hosts;
}

/* ---- all of them, in order of time ------------------------------------------------------------------------------------------------ */

/* Replayed nodes of one thread, one behind the other; or (`sorted`) the events of everything else.
 */
struct strand {
    uint32_t at, stop;
    bool open; /* the use at `at` has begun */
    const struct an_pair *sorted;
    int64_t time; /* of its next event */
};

struct line {
    struct strand *strand;
    size_t count, room;
    uint32_t *heap; /* strands with events left, the earliest first */
    size_t heap_count;
    struct an_pair *event, *work; /* of what is no thread's */
    size_t events;
};

static int add_strand(struct line *l, struct strand x)
{
    if (an_grow(&l->strand, &l->room, l->count + 1, sizeof *l->strand))
        return TACHO_ENOMEM;
    l->strand[l->count++] = x;
    return 0;
}

/* The strands of threads: where nodes between are not replayed a new one begins, because what is
 * before may now end later. */
static int find_strands(const struct an_shares *s, struct line *l)
{
    const struct an_graph *g = s->r->g;
    for (uint32_t n = 0, first; n < g->node_count; n = first) {
        uint32_t last = n;
        while (last < g->node_count && g->track[last] == g->track[n] && s->r->inside[last])
            last++;
        first = last == n ? n + 1 : last;
        if (last > n && !an_graph_on_device(g, n) &&
            add_strand(l, (struct strand){.at = n, .stop = last}))
            return TACHO_ENOMEM;
    }
    return 0;
}

static void add_event(struct line *l, uint32_t id, const struct an_use *u)
{
    l->event[l->events++] = (struct an_pair){.key = an_pair_key(u->start), .value = id << 1};
    l->event[l->events++] = (struct an_pair){.key = an_pair_key(u->end), .value = id << 1 | 1};
}

static int sort_others(const struct an_shares *s, struct line *l, size_t batches)
{
    const struct an_graph *g = s->r->g;
    size_t most = batches;
    struct an_use u;
    for (size_t i = 0; i < s->r->node_count; i++)
        most += an_graph_on_device(g, s->r->node[i]) && s->of[s->r->node[i]] != AN_NO_SHARE;
    if (!most)
        return 0;
    l->event = malloc(2 * most * sizeof *l->event);
    l->work = malloc(2 * most * sizeof *l->work);
    if (!l->event || !l->work)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < s->r->node_count; i++) {
        uint32_t n = s->r->node[i];
        if (an_graph_on_device(g, n) && an_use_of_node(s, n, &u) && u.demand > 0)
            add_event(l, n, &u);
    }
    for (uint32_t i = 0; i < batches; i++)
        if (an_use_of_batch(s, i, &u) && u.demand > 0)
            add_event(l, (uint32_t)g->node_count + i, &u);
    an_pairs_sort(l->event, l->work, l->events);
    return add_strand(l, (struct strand){.stop = (uint32_t)l->events, .sorted = l->event});
}

/* Goes to the strand's next event; false: there is none. */
static bool next_event(const struct an_shares *s, struct strand *x)
{
    struct an_use u = {0};
    if (x->sorted) {
        if (x->at < x->stop)
            x->time = (int64_t)(x->sorted[x->at].key ^ (uint64_t)1 << 63);
        return x->at < x->stop;
    }
    if (x->open) {
        x->time = an_use_of_node(s, x->at, &u) ? u.end : s->t->end[x->at];
        return true;
    }
    while (x->at < x->stop && !(an_use_of_node(s, x->at, &u) && u.demand > 0))
        x->at++;
    if (x->at < x->stop)
        x->time = u.start;
    return x->at < x->stop;
}

/* What the event that next_event went to is; behind it. */
static uint32_t take_event(struct strand *x)
{
    if (x->sorted)
        return x->sorted[x->at++].value;
    uint32_t event = x->at << 1 | x->open;
    x->at += x->open;
    x->open = !x->open;
    return event;
}

static bool earlier(const struct line *l, uint32_t a, uint32_t b)
{
    return l->strand[a].time < l->strand[b].time ||
           (l->strand[a].time == l->strand[b].time && a < b);
}

static void sift_down(struct line *l, size_t i)
{
    for (size_t child; (child = 2 * i + 1) < l->heap_count; i = child) {
        child += child + 1 < l->heap_count && earlier(l, l->heap[child + 1], l->heap[child]);
        if (!earlier(l, l->heap[child], l->heap[i]))
            return;
        uint32_t strand = l->heap[i];
        l->heap[i] = l->heap[child];
        l->heap[child] = strand;
    }
}

static int merge(struct an_shares *s, struct line *l)
{
    if (!(l->heap = malloc((l->count + 1) * sizeof *l->heap)))
        return TACHO_ENOMEM;
    for (uint32_t i = 0; i < l->count; i++)
        if (next_event(s, &l->strand[i]))
            l->heap[l->heap_count++] = i;
    for (size_t i = l->heap_count; i-- > 0;)
        sift_down(l, i);
    while (l->heap_count) {
        struct strand *x = &l->strand[l->heap[0]];
        s->event[s->event_count++] = take_event(x);
        if (!next_event(s, x))
            l->heap[0] = l->heap[--l->heap_count];
        sift_down(l, 0);
    }
    return 0;
}

static int room_for(struct an_shares *s, size_t batches)
{
    size_t ids = s->r->g->node_count + batches, events = 2 * (s->r->node_count + batches);
    if (ids > UINT32_MAX / 2) /* an event is an id and a bit */
        return TACHO_ENOMEM;
    if (s->event && ids <= s->ids && events <= s->event_room)
        return 0;
    an_shares_rest(s);
    s->event = malloc((events + 1) * sizeof *s->event);
    s->found = malloc((ids + 1) * sizeof *s->found);
    s->event_room = events;
    s->ids = ids;
    return s->event && s->found ? 0 : TACHO_ENOMEM;
}

void an_shares_rest(struct an_shares *s)
{
    free(s->event);
    free(s->found);
    s->event = NULL;
    s->found = NULL;
    s->event_count = 0;
}

int an_shares_uses(struct an_shares *s, const int64_t *own, struct an_route *route,
                   const struct an_times *t)
{
    struct line l = {0};
    size_t batches = route ? an_route_count(route) : 0;
    s->own = own;
    s->route = route;
    s->t = t;
    s->event_count = 0;
    int rc = room_for(s, batches);
    for (size_t i = 0; i < s->ids && !rc; i++)
        s->found[i] = 1;
    rc = rc ? rc : find_strands(s, &l);
    rc = rc ? rc : sort_others(s, &l, batches);
    rc = rc ? rc : merge(s, &l);
    free(l.strand);
    free(l.heap);
    free(l.event);
    free(l.work);
    return rc;
}
