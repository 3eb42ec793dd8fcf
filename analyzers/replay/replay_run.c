/* SPDX-License-Identifier: Apache-2.0
 *
 * The two passes of the replay (replay.h): forward, when each node starts and ends; backward, how
 * long after its end each reaches the end of the frame. Both walk the same releases.
 */
#include <string.h>

#include "analyzers/replay/replay.h"
#include "analyzers/replay/what_if_loader.h"

bool an_replay_ends_waiting(const struct an_graph *g, uint32_t n, size_t e)
{
    if (g->kind[n] == AN_NODE_WAIT || g->kind[n] == AN_NODE_COLLECTIVE)
        return true;
    return g->kind[n] == AN_NODE_DEVICE &&
           (g->in_kind[e] & AN_EDGE_KIND_MASK) == AN_EDGE_COLLECTIVE;
}

/* Ops of one stream, and of a damaged file, may overlap: by how much does n start before the node
 * before it ends? */
static int64_t overlap_of(const struct an_graph *g, uint32_t before, uint32_t n)
{
    int64_t over = an_time_sub(g->end[before], g->start[n]);
    return over > 0 ? over : 0;
}

static bool left_out(const struct an_change *x, const struct an_graph *g, uint32_t n, size_t e)
{
    enum an_edge_kind k = (enum an_edge_kind)(g->in_kind[e] & AN_EDGE_KIND_MASK);
    return (x->without_peers && k == AN_EDGE_COLLECTIVE) ||
           (x->without_syncs && k == AN_EDGE_SYNC) ||
           (x->route && an_route_replaces(x->route, g, n, k));
}

static int64_t latency_of(const struct an_replay *r, const struct an_change *x, uint32_t n,
                          enum an_latency kind)
{
    if (r->g->kind[n] != AN_NODE_DEVICE)
        return 0;
    int32_t ns = r->latency[(size_t)r->g->track[n] * 2 * AN_LATENCIES +
                            (r->g->cause[n] == AN_CAUSE_COPY ? AN_LATENCIES : 0) + kind];
    return x->latency == 1 ? ns : (int64_t)((double)ns * x->latency);
}

/* What lets n start when nothing does: the frame on a device, its recorded start on a thread (why
 * is not known). */
static int64_t base_of(const struct an_replay *r, const struct an_replay_frame *f, uint32_t n)
{
    return r->g->kind[n] == AN_NODE_DEVICE && r->g->start[n] >= f->start ? f->start
                                                                         : r->g->start[n];
}

/* How long before its end a node lets others go. The part of a lead that lies in its own work
 * shrinks with it; what is longer than its own work lies in its waiting, and stays; so does one
 * before its start: less work never lets anything go later. */
static int64_t lead_of(const struct an_replay *r, const struct an_change *x, size_t e)
{
    int64_t lead = r->g->in_lead[e];
    uint32_t from = r->g->in_from[e];
    if (!x->scale_leads || !lead || (r->g->in_kind[e] & AN_EDGE_AT_START) ||
        x->own[from] >= r->own[from])
        return lead;
    if (lead >= r->own[from])
        return lead - (r->own[from] - x->own[from]);
    return (int64_t)((double)lead * (double)x->own[from] / (double)r->own[from]);
}

static void one_node(const struct an_replay *r, const struct an_replay_frame *f,
                     const struct an_change *x, uint32_t n, struct an_times *t)
{
    const struct an_graph *g = r->g;
    uint32_t before = an_graph_before(g, n);
    int64_t start = AN_NEVER, body = AN_NEVER;
    if (before != AN_NONE)
        start = t->end[before] - overlap_of(g, before, n) + latency_of(r, x, n, AN_AFTER_ORDER);
    for (size_t e = g->in_first[n]; e < g->in_first[n + 1]; e++) {
        uint32_t from = g->in_from[e];
        if (left_out(x, g, n, e))
            continue;
        int64_t release =
            (g->in_kind[e] & AN_EDGE_AT_START ? t->start[from] : t->end[from]) - lead_of(r, x, e);
        if (an_replay_ends_waiting(g, n, e))
            body = release > body ? release : body;
        else if ((release += latency_of(r, x, n, AN_AFTER_EDGE)) > start)
            start = release;
    }
    if (start == AN_NEVER)
        start = base_of(r, f, n);
    if (x->route)
        body = an_route_release(x->route, n, start, body);
    t->start[n] = start;
    t->end[n] = (body > start ? body : start) + (x->own ? x->own : r->own)[n];
}

void an_replay_run(const struct an_replay *r, const struct an_change *change, struct an_times *t)
{
    static const struct an_change as_recorded = {.latency = 1};
    const struct an_change *x = change ? change : &as_recorded;
    for (size_t k = 0; k < r->frame_count; k++) {
        const struct an_replay_frame *f = &r->frame[k];
        if (x->route)
            an_route_begin(x->route, f->start);
        for (size_t i = f->first; i < f->first + f->count; i++)
            one_node(r, f, x, r->node[i], t);
    }
}

int64_t an_replay_step_end(const struct an_replay *r, const struct an_replay_step *s,
                           const struct an_times *t)
{
    int64_t end = AN_NEVER;
    for (size_t i = 0; i < s->op_count; i++) {
        uint32_t n = r->g->op_node[s->op[i]];
        end = n != AN_NONE && t->end[n] > end ? t->end[n] : end;
    }
    return end != AN_NEVER ? end : t->start[s->to] + s->to_offset;
}

int64_t an_replay_step_ns(const struct an_replay *r, const struct an_replay_step *s,
                          const struct an_times *t)
{
    return an_replay_step_end(r, s, t) - (t->start[s->from] + s->from_offset) - s->cut;
}

/* ---- backward ------------------------------------------------------------------------------------------------------------- */

static void later(int64_t *tail, int64_t x)
{
    if (x > *tail)
        *tail = x;
}

static void one_node_back(const struct an_replay *r, uint32_t n, struct an_slack *s)
{
    static const struct an_change as_recorded = {.latency = 1};
    const struct an_graph *g = r->g;
    int64_t body = s->tail[n] == AN_NEVER ? AN_NEVER : s->tail[n] + r->own[n];
    int64_t start = body > s->tail_start[n] ? body : s->tail_start[n];
    uint32_t before = an_graph_before(g, n);
    if (start == AN_NEVER)
        return;
    s->tail_start[n] = start;
    if (before != AN_NONE)
        later(&s->tail[before],
              start - overlap_of(g, before, n) + latency_of(r, &as_recorded, n, AN_AFTER_ORDER));
    for (size_t e = g->in_first[n]; e < g->in_first[n + 1]; e++) {
        bool waiting = an_replay_ends_waiting(g, n, e);
        int64_t from = waiting ? body : start + latency_of(r, &as_recorded, n, AN_AFTER_EDGE);
        if (waiting && body == AN_NEVER)
            continue;
        later(g->in_kind[e] & AN_EDGE_AT_START ? &s->tail_start[g->in_from[e]]
                                               : &s->tail[g->in_from[e]],
              from - g->in_lead[e]);
    }
}

const struct an_replay_step *an_replay_sink(const struct an_replay *r, size_t frame,
                                            const struct an_times *t)
{
    const struct an_replay_frame *f = &r->frame[frame];
    const struct an_replay_step *sink = NULL;
    for (size_t i = f->step_first; i < f->step_first + f->step_count; i++) {
        const struct an_replay_step *s = &r->step[i];
        if (!sink || an_replay_step_end(r, s, t) > an_replay_step_end(r, sink, t))
            sink = s;
    }
    return sink;
}

void an_replay_back(const struct an_replay *r, size_t frame, const struct an_replay_step *sink,
                    const struct an_times *t, struct an_slack *s)
{
    const struct an_replay_frame *f = &r->frame[frame];
    if (sink->op) {
        s->sink = an_replay_step_end(r, sink, t);
        for (size_t i = 0; i < sink->op_count; i++)
            if (r->g->op_node[sink->op[i]] != AN_NONE)
                s->tail[r->g->op_node[sink->op[i]]] = 0;
    } else {
        s->sink = t->start[sink->to];
        s->tail_start[sink->to] = 0;
    }
    for (size_t i = f->first + f->count; i-- > f->first;)
        one_node_back(r, r->node[i], s);
}

int an_slack_new(const struct an_replay *r, struct an_slack **out)
{
    size_t n = r->g->node_count;
    struct an_slack *s = an_arena_zero(r->c->work, 1, sizeof *s);
    if (!s || !(s->tail = an_arena_zero(r->c->work, n, sizeof *s->tail)) ||
        !(s->tail_start = an_arena_zero(r->c->work, n, sizeof *s->tail_start)))
        return TACHO_ENOMEM;
    for (size_t i = 0; i < n; i++)
        s->tail[i] = s->tail_start[i] = AN_NEVER;
    *out = s;
    return 0;
}

void an_slack_free(const struct an_replay *r, struct an_slack *s)
{
    if (!s)
        return;
    an_arena_give_back(r->c->work, s->tail);
    an_arena_give_back(r->c->work, s->tail_start);
    s->tail = s->tail_start = NULL;
}
