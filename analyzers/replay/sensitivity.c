/* SPDX-License-Identifier: Apache-2.0
 *
 * What the longest paths of a replayed frame consist of (replay.h). A path is tight when every
 * release on it is the one that counted. With several tight paths, shortening one of them alone
 * gains nothing: what is gained by less work of some kind is the least that any tight path holds of
 * it, and a node counts alone only if all of them lead through it.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/replay/replay.h"
#include "analyzers/replay/sensitivity.h"

#define PRIME ((uint64_t)2305843009213693951) /* 2^61 - 1: paths are counted modulo it */

/* Something that let node n start (or, `body`: end its waiting) at just the time it did. */
struct tight {
    uint32_t from;
    bool at_start, body;
    int64_t latency;
};

struct tight_walk {
    const struct an_replay *r;
    const struct an_times *t;
    uint32_t n;
    size_t edge; /* in_first[n] - 1: program order is next */
    bool order;
};

static int64_t latency_of(const struct an_replay *r, uint32_t n, enum an_latency kind)
{
    size_t copy = r->g->cause[n] == AN_CAUSE_COPY ? AN_LATENCIES : 0;
    return r->g->kind[n] == AN_NODE_DEVICE
               ? r->latency[(size_t)r->g->track[n] * 2 * AN_LATENCIES + copy + kind]
               : 0;
}

static struct tight_walk walk_of(const struct an_replay *r, const struct an_times *t, uint32_t n)
{
    return (struct tight_walk){.r = r, .t = t, .n = n, .edge = r->g->in_first[n], .order = true};
}

/* The next tight release of the node; false: no more. Those of nodes that are not replayed are
 * sources and left out. */
static bool next_tight(struct tight_walk *w, struct tight *x)
{
    const struct an_graph *g = w->r->g;
    uint32_t n = w->n, before = an_graph_before(g, n);
    const int64_t *start = w->t->start, *end = w->t->end;
    if (w->order) {
        w->order = false;
        if (before != AN_NONE && w->r->inside[before]) {
            int64_t over = g->end[before] > g->start[n] ? g->end[before] - g->start[n] : 0;
            *x = (struct tight){.from = before, .latency = latency_of(w->r, n, AN_AFTER_ORDER)};
            if (end[before] - over + x->latency == start[n])
                return true;
        }
    }
    for (; w->edge < g->in_first[n + 1]; w->edge++) {
        size_t e = w->edge;
        *x = (struct tight){.from = g->in_from[e],
                            .at_start = g->in_kind[e] & AN_EDGE_AT_START,
                            .body = an_replay_ends_waiting(g, n, e)};
        int64_t release = (x->at_start ? start : end)[x->from] - g->in_lead[e];
        x->latency = x->body ? 0 : latency_of(w->r, n, AN_AFTER_EDGE);
        if (w->r->inside[x->from] &&
            release + x->latency == (x->body ? end[n] - w->r->own[n] : start[n])) {
            w->edge++;
            return true;
        }
    }
    return false;
}

static bool starts_work(const struct an_replay *r, const struct an_times *t, uint32_t n)
{
    return t->start[n] + r->own[n] ==
           t->end[n]; /* its start, not a release behind it, is what its work followed */
}

/* ---- which nodes lie on all tight paths --------------------------------------------------------------------------------------- */

static uint64_t add(uint64_t a, uint64_t b)
{
    uint64_t sum = a + b;
    return sum >= PRIME ? sum - PRIME : sum;
}

static uint64_t multiply(uint64_t a, uint64_t b)
{
    return (uint64_t)((unsigned __int128)a * b % PRIME);
}

/* Numbers of tight paths that lead to the start and to the end of each node, and from there to the
 * sink. */
struct paths {
    uint64_t *to_start, *to_end, *from_start, *from_end;
};

static void count_forward(const struct an_replay *r, const uint32_t *node, size_t count,
                          const struct an_times *t, struct paths *p)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t n = node[i];
        struct tight_walk w = walk_of(r, t, n);
        struct tight x;
        bool any = false;
        while (next_tight(&w, &x)) {
            uint64_t paths = (x.at_start ? p->to_start : p->to_end)[x.from];
            uint64_t *to = x.body ? &p->to_end[n] : &p->to_start[n];
            *to = add(*to, paths);
            any = any || !x.body;
        }
        if (!any)
            p->to_start[n] = 1;
        if (starts_work(r, t, n))
            p->to_end[n] = add(p->to_end[n], p->to_start[n]);
        else if (!p->to_end[n])
            p->to_end[n] = 1; /* its last release is outside of the frame */
    }
}

static void count_backward(const struct an_replay *r, const uint32_t *node, size_t count,
                           const struct an_times *t, struct paths *p)
{
    for (size_t i = count; i-- > 0;) {
        uint32_t n = node[i];
        struct tight_walk w = walk_of(r, t, n);
        struct tight x;
        if (starts_work(r, t, n))
            p->from_start[n] = add(p->from_start[n], p->from_end[n]);
        while (next_tight(&w, &x)) {
            uint64_t *from = x.at_start ? &p->from_start[x.from] : &p->from_end[x.from];
            *from = add(*from, x.body ? p->from_end[n] : p->from_start[n]);
        }
    }
}

/* The next tight way into the end of the step a frame ends with: *i from 0. The node, AN_NONE: no
 * more. */
static uint32_t next_into(const struct an_replay *r, const struct an_replay_step *sink,
                          const struct an_times *t, size_t *i)
{
    if (!sink->op)
        return (*i)++ ? AN_NONE : sink->to;
    for (int64_t end = an_replay_step_end(r, sink, t); *i < sink->op_count;) {
        uint32_t n = r->g->op_node[sink->op[(*i)++]];
        if (n != AN_NONE && t->end[n] == end)
            return n;
    }
    return AN_NONE;
}

int an_replay_on_every_path(const struct an_replay *r, size_t frame, const struct an_times *t,
                            const struct an_replay_step *sink, bool *every)
{
    const struct an_replay_frame *f = &r->frame[frame];
    const uint32_t *node = r->node + f->first;
    size_t all = r->g->node_count;
    struct paths p = {calloc(all, 8), calloc(all, 8), calloc(all, 8), calloc(all, 8)};
    int rc = p.to_start && p.to_end && p.from_start && p.from_end ? 0 : TACHO_ENOMEM;
    if (!rc) {
        uint64_t all_paths = 0;
        count_forward(r, node, f->count, t, &p);
        size_t at = 0;
        for (uint32_t n; (n = next_into(r, sink, t, &at)) != AN_NONE;) {
            (sink->op ? p.from_end : p.from_start)[n] = 1;
            all_paths = add(all_paths, (sink->op ? p.to_end : p.to_start)[n]);
        }
        count_backward(r, node, f->count, t, &p);
        for (size_t i = 0; i < f->count; i++)
            every[i] = p.from_end[node[i]] &&
                       multiply(p.to_end[node[i]], p.from_end[node[i]]) == all_paths;
    }
    free(p.to_start);
    free(p.to_end);
    free(p.from_start);
    free(p.from_end);
    return rc;
}

/* ---- what they hold --------------------------------------------------------------------------------------------------------- */

/* Nodes of the frame of which the start or the end lies on a tight path to the sink, in order. */
static size_t critical_nodes(const struct an_replay *r, const struct an_replay_frame *f,
                             const struct an_times *t, const struct an_slack *s, uint32_t *list)
{
    size_t count = 0;
    for (size_t i = f->first; i < f->first + f->count; i++) {
        uint32_t n = r->node[i];
        bool start = s->tail_start[n] != AN_NEVER && t->start[n] + s->tail_start[n] == s->sink;
        if (start || an_slack_ns(s, t, n) == 0)
            list[count++] = n;
    }
    return count;
}

/* Least ns of one row on a tight path to the start and to the end of each critical node of a frame;
 * 0 of its other nodes. */
struct least {
    const struct an_replay_frame *frame;
    int64_t *to_start, *to_end;
};

/* Once it is known which nodes are critical, the tails of the frame are not needed any more: their
 * arrays take the sums. */
static struct least least_of_frame(const struct an_replay *r, const struct an_replay_frame *f,
                                   struct an_slack *s)
{
    for (size_t i = f->first; i < f->first + f->count; i++)
        s->tail_start[r->node[i]] = s->tail[r->node[i]] = 0;
    return (struct least){f, s->tail_start, s->tail};
}

static void least_of_node(const struct an_replay *r, const struct an_times *t,
                          const struct an_rows *rows, size_t row, uint32_t n, struct least *l)
{
    struct tight_walk w = walk_of(r, t, n);
    struct tight x;
    int64_t start = INT64_MAX, end = INT64_MAX, own = rows->of[n] == row ? r->own[n] : 0;
    while (next_tight(&w, &x)) {
        int64_t from = r->g->start[x.from], ns = row == rows->dispatch ? x.latency : 0;
        if (from >= l->frame->start && from < l->frame->end)
            ns += (x.at_start ? l->to_start : l->to_end)[x.from];
        if (x.body)
            end = ns < end ? ns : end;
        else
            start = ns < start ? ns : start;
    }
    start = start == INT64_MAX ? 0 : start;
    if (starts_work(r, t, n))
        end = start < end ? start : end;
    l->to_start[n] = start;
    l->to_end[n] = (end == INT64_MAX ? 0 : end) + own;
}

static int64_t least_into(const struct an_replay *r, const struct an_replay_step *sink,
                          const struct an_times *t, const struct least *l)
{
    int64_t least = INT64_MAX;
    size_t i = 0;
    for (uint32_t n; (n = next_into(r, sink, t, &i)) != AN_NONE;) {
        int64_t ns = (sink->op ? l->to_end : l->to_start)[n];
        least = ns < least ? ns : least;
    }
    return least == INT64_MAX ? 0 : least;
}

int an_sensitivity(const struct an_replay *r, const struct an_times *t, const struct an_rows *rows,
                   int64_t *ns)
{
    struct an_slack *s = NULL;
    uint32_t *list = malloc((r->node_count + 1) * sizeof *list);
    int rc = list ? an_slack_new(r, &s) : TACHO_ENOMEM;
    for (size_t f = 0; !rc && f < r->frame_count; f++) {
        const struct an_replay_step *sink = an_replay_sink(r, f, t);
        if (!sink)
            continue;
        an_replay_back(r, f, sink, t, s);
        size_t count = critical_nodes(r, &r->frame[f], t, s, list);
        struct least l = least_of_frame(r, &r->frame[f], s);
        for (size_t row = 0; count && row < rows->count; row++) {
            for (size_t i = 0; i < count; i++)
                least_of_node(r, t, rows, row, list[i], &l);
            ns[row] += least_into(r, sink, t, &l);
        }
    }
    an_slack_free(r, s);
    free(list);
    return rc;
}
