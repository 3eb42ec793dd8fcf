/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk back. At time t the walk stands at the end of what it has to explain, in node n. Before
 * t lies n's own work, from the moment when the last of what it depends on let it go; there the
 * walk goes over to that one. Every instant is passed once, because each turn starts where the one
 * before ended.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/graph/critical_path.h"

/* ns: an op that is issued and released starts within this time, ten times what launches take on an
 * idle device; else something that was not recorded held it. */
#define DISPATCH_MOST 100000

/* Where an own piece of work came from. */
struct cause_of_start {
    uint32_t from;       /* AN_NONE: nothing is known */
    int64_t release;     /* when it let go */
    int64_t continue_at; /* the walk goes on in `from` at this time */
    uint8_t link;
    bool inferred;
};

const char *an_path_link_key(unsigned link)
{
    static const char *const keys[] = {"order", "same", "nearest", "end", "none"};
    return link < AN_EDGE_KINDS   ? an_edge_key((enum an_edge_kind)link)
           : link < AN_PATH_LINKS ? keys[link - AN_EDGE_KINDS]
                                  : "";
}

static int add(struct an_path_walk *p, struct an_path_segment s)
{
    if (s.start < p->window.start)
        s.start = p->window.start;
    if (an_grow(&p->at, &p->room, p->count + 1, sizeof *p->at))
        return TACHO_ENOMEM;
    p->at[p->count++] = s;
    return 0;
}

/* ---- what let a node go -------------------------------------------------------------------------------------------------- */

static void take_edge(const struct an_graph *g, uint32_t e, int64_t until,
                      struct cause_of_start *best)
{
    int64_t release = an_edge_release(g, e);
    bool inferred = g->in_kind[e] & AN_EDGE_INFERRED;
    if (release > until || (best->from != AN_NONE &&
                            (release < best->release || (release == best->release && inferred))))
        return;
    uint32_t from = g->in_from[e];
    int64_t at = release;
    if (g->in_kind[e] & AN_EDGE_AT_START) {
        from = an_graph_before(g, from);
        if (from == AN_NONE)
            return;
        at = g->end[from];
    }
    *best = (struct cause_of_start){from, release, at, g->in_kind[e] & AN_EDGE_KIND_MASK, inferred};
}

/* Of a node that waits: the last release up to t. A thread that does not wait begins when its piece
 * before ends, unless that one only waited for the same. */
static struct cause_of_start cause_of(const struct an_graph *g, uint32_t n, int64_t t)
{
    struct cause_of_start best = {.from = AN_NONE};
    bool waits = an_graph_waits(g, n);
    int64_t until = waits ? t : g->start[n] < t ? g->start[n] : t;
    uint32_t before = an_graph_before(g, n);
    if (before != AN_NONE) {
        int64_t release = an_order_release(g, before, n);
        if (release <= until)
            best = (struct cause_of_start){before, release, release, AN_PATH_ORDER,
                                           g->kind[before] == AN_NODE_THINK};
    }
    for (uint32_t e = g->in_first[n]; e < g->in_first[n + 1]; e++)
        take_edge(g, e, until, &best);
    return best;
}

/* Last node of a track that began before t and ended at t or before: going there is a step back in
 * time. AN_NONE: none. */
static uint32_t ended_before(const struct an_graph *g, uint32_t track, int64_t t)
{
    uint32_t n = an_graph_node_at(g, track, t);
    n = n == AN_NONE ? (uint32_t)g->track_first[track + 1] : n;
    while (n > g->track_first[track] && (g->end[n - 1] > t || g->start[n - 1] >= t))
        n--; /* ops of one stream may overlap */
    return n > g->track_first[track] ? n - 1 : AN_NONE;
}

/* No edge tells what an op without a launch waited for, or what began a thread: then what ended
 * last before is taken, of an op on its device, else in the process, and said to be inferred. */
static struct cause_of_start nearest(const struct an_context *c, const struct an_graph *g,
                                     uint32_t n, int64_t t)
{
    const struct an_trace *tr = c->t;
    struct cause_of_start best = {.from = AN_NONE, .link = AN_PATH_NEAREST, .inferred = true};
    const struct an_track *own = &tr->track[g->track[n]];
    bool device = an_graph_on_device(g, n);
    for (uint32_t k = 0; k < tr->track_count; k++) {
        const struct an_track *x = &tr->track[k];
        if (k == g->track[n] || x->process != own->process ||
            (device && strcmp(x->device, own->device)))
            continue;
        uint32_t m = ended_before(g, k, t);
        if (m != AN_NONE && g->kind[m] != AN_NODE_THINK &&
            (best.from == AN_NONE || g->end[m] > best.release)) {
            best.from = m;
            best.release = best.continue_at = g->end[m];
        }
    }
    return best;
}

/* Is it a graph of which not all nodes were recorded that held op n in [release, s)? The op is a
 * node of the graph that was launched before, or the graph left no record at all (an_device_split).
 */
static bool behind_graph(const struct an_context *c, const struct an_graph *g, uint32_t n,
                         int64_t release, int64_t s)
{
    const struct an_devices *gpu = c->gpu;
    if (g->kind[n] != AN_NODE_DEVICE)
        return false;
    for (size_t d = 0; d < gpu->device_count; d++) {
        const struct an_device *x = &gpu->device[d];
        for (size_t i = an_device_op_seek(gpu, x, g->start[n]);
             i < x->first + x->count && gpu->op.start[i] == g->start[n]; i++) {
            if (gpu->op.slice[i] != g->slice[n])
                continue;
            const struct an_set *unseen = &gpu->split[d].exposed_opaque;
            uint32_t launch = gpu->op.launch[i];
            return (launch != AN_NONE && an_slice_api(c->t, launch).kind == AN_API_GRAPH) ||
                   an_spans_within(unseen->span, unseen->count, release, s) >
                       (s - release) / 10 * 9;
        }
    }
    return false;
}

/* ---- the walk ------------------------------------------------------------------------------------------------------------ */

struct place {
    uint32_t node;
    int64_t time;
    uint8_t link, how; /* of the next segment's hand-over to what is behind it */
};

/* From the start of an op back to what let it go. `s`: its start; segments between are dispatch, or
 * a gap. */
static int step_back(const struct an_context *c, const struct an_graph *g, struct an_path_walk *p,
                     struct place *at, int64_t s)
{
    struct cause_of_start from = cause_of(g, at->node, s);
    if (from.from == AN_NONE ||
        (g->kind[at->node] == AN_NODE_DEVICE && an_time_sub(s, from.release) > DISPATCH_MOST)) {
        struct cause_of_start other = nearest(c, g, at->node, s);
        if (other.from != AN_NONE && (from.from == AN_NONE || other.release > from.release))
            from = other;
    }
    int64_t release = from.from == AN_NONE ? p->window.start : from.release;
    uint8_t how = from.inferred ? AN_PATH_INFERRED : AN_PATH_RECORDED;
    bool gap = from.from == AN_NONE || an_time_sub(s, release) > DISPATCH_MOST;
    uint8_t cause = AN_CAUSE_DISPATCH;
    if (gap && from.from != AN_NONE && behind_graph(c, g, at->node, release, s)) {
        gap = false;
        cause = AN_CAUSE_OPAQUE;
        how = AN_PATH_INFERRED;
    }
    uint8_t link = gap ? AN_PATH_NONE : from.link;
    if (release < s) {
        struct an_path_segment x = {release,
                                    s,
                                    gap ? AN_NONE : at->node,
                                    AN_NONE,
                                    gap ? AN_CAUSE_GAP : cause,
                                    gap ? AN_PATH_GAP : how,
                                    gap        ? AN_PATH_NONE
                                    : p->count ? AN_PATH_SAME
                                               : AN_PATH_END};
        if (add(p, x))
            return TACHO_ENOMEM;
    }
    *at = (struct place){from.from, from.from == AN_NONE ? release : from.continue_at, link, how};
    return 0;
}

/* When the own work of node n began that is done at t. */
static int64_t own_start(const struct an_graph *g, uint32_t n, int64_t t)
{
    int64_t start = g->start[n];
    if (an_graph_waits(g, n))
        for (uint32_t e = g->in_first[n]; e < g->in_first[n + 1]; e++) {
            int64_t release = an_edge_release(g, e);
            start = release > start && release <= t ? release : start;
        }
    return start;
}

static int walk_from(const struct an_context *c, const struct an_graph *g, struct an_path_walk *p,
                     struct place at)
{
    int64_t stop = p->window.start;
    size_t turns = 0;
    int rc = 0;
    while (!rc && at.node != AN_NONE && at.time > stop && turns++ <= 2 * g->node_count) {
        int64_t own = own_start(g, at.node, at.time);
        own = own < at.time ? own : at.time;
        struct an_path_segment s = {own,    at.time, at.node, g->slice[at.node], g->cause[at.node],
                                    at.how, at.link};
        rc = add(p, s);
        at.time = own;
        if (!rc && own > stop)
            rc = step_back(c, g, p, &at, own);
    }
    if (!rc && at.time > stop) /* nothing before is known */
        rc = add(p, (struct an_path_segment){stop, at.time, AN_NONE, AN_NONE, AN_CAUSE_GAP,
                                             AN_PATH_GAP, AN_PATH_NONE});
    return rc;
}

/* ---- the sink ------------------------------------------------------------------------------------------------------------ */

static bool is_compute_kernel(const struct an_devices *gpu, size_t op)
{
    return (AN_DEVICE_COMPUTE_MASK & ~(1u << AN_DEVICE_MEMSET)) >> gpu->op.class[op] & 1;
}

/* A step of a device ends when the first compute kernel of the next one starts, the last one with
 * its last op: there may be several that end then, any will do. AN_NONE: neither is there. */
static uint32_t device_sink(const struct an_context *c, const struct an_graph *g,
                            const struct an_lane *l, int64_t end, bool *starts)
{
    const struct an_devices *gpu = c->gpu;
    const struct an_device *d = &gpu->device[l->device];
    size_t i = an_device_op_seek(gpu, d, end);
    for (*starts = true; i < d->first + d->count && gpu->op.start[i] == end; i++)
        if (is_compute_kernel(gpu, i))
            return g->op_node[i];
    *starts = false;
    for (i = d->first; i < d->first + d->count && gpu->op.start[i] < end; i++)
        if (gpu->op.end[i] == end)
            return g->op_node[i];
    return AN_NONE;
}

static void reverse(struct an_path_walk *p)
{
    for (size_t i = 0, j = p->count; i + 1 < j; i++) {
        struct an_path_segment s = p->at[i];
        p->at[i] = p->at[--j];
        p->at[j] = s;
    }
}

int an_path_walk(const struct an_context *c, const struct an_graph *g, const struct an_window *w,
                 struct an_path_walk *out)
{
    const struct an_lane *l = &c->lane[w->lane];
    struct place at = {AN_NONE, w->end, AN_PATH_END, AN_PATH_RECORDED};
    int rc = 0;
    out->window = *w;
    out->count = 0;
    if (l->device != AN_NONE) {
        bool starts;
        at.node = device_sink(c, g, l, w->end, &starts);
        if (at.node != AN_NONE && starts)
            rc = step_back(c, g, out, &at, w->end);
    } else if (l->track != AN_NONE) {
        at.node = an_graph_node_at(g, l->track, w->end - 1);
        if (at.node != AN_NONE && g->start[at.node] >= w->end)
            at.node = AN_NONE;
    }
    rc = rc ? rc : walk_from(c, g, out, at);
    reverse(out);
    return rc;
}
