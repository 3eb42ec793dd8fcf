/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives across ranks. One that no rank leaves before all have come, and that is matched over
 * the ranks of the file (communication_match.c), is cut in two on every rank: the wait until the
 * last one has come, and what follows. The wait of the last one, which lasts no time, gathers what
 * comes before it on every rank, and lets the others' waits go: two edges a rank, however many
 * there are. Kernels of devices spin while they wait: they are cut the same way, behind their
 * arrival.
 *
 * Of send and recv between the two ranks of a communicator the n-th ones belong together. On the
 * CPU recv waits for send to begin; kernels wait for each other.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/collectives/communication.h"
#include "analyzers/graph/graph.h"

/* One rank's wait. */
struct arrival {
    uint32_t span, op; /* of a thread, of a device: the other one is AN_NONE */
    uint32_t hub;      /* the arrival that the others wait for: an index; its own of the last one */
    bool receives;     /* the hub does not wait for it */
    bool inferred; /* the place among its like tells which calls are one collective, not the file */
};

struct arrivals {
    struct arrival *at;
    size_t count;
};

static int cut_wait(struct an_graph_build *b, const struct an_comm_call *x, int64_t last,
                    struct arrivals *a, size_t hub)
{
    struct arrival *w = &a->at[a->count++];
    int64_t end = last < x->start ? x->start : last < x->end ? last : x->end;
    *w = (struct arrival){
        .span = AN_NONE, .op = x->op, .hub = (uint32_t)hub, .inferred = x->counted};
    if (x->op != AN_NONE)
        return an_graph_cut_op(b, x->op, last);
    return an_graph_cut_span(b, x->track, x->start, end, x->slice, AN_NODE_WAIT, AN_CAUSE_PEERS,
                             &w->span);
}

static int cut_collective(struct an_graph_build *b, const struct an_comm_call *x, size_t n,
                          struct arrivals *a)
{
    size_t last = 0, first = a->count;
    int rc = 0;
    for (size_t k = 1; k < n; k++)
        if (x[k].start > x[last].start)
            last = k;
    for (size_t k = 0; k < n; k++)
        if (x[k].op != AN_NONE &&
            x[last].start >= x[k].end) /* it left before that one came: these are not one */
            return 0;
    for (size_t k = 0; k < n && !rc; k++)
        rc = cut_wait(b, &x[k], x[last].start, a, first + last);
    return rc;
}

/* A recv and its send, which stand together. */
static int cut_receive(struct an_graph_build *b, const struct an_comm_call *x, struct arrivals *a)
{
    bool first = !strcmp(x[0].name, "recv");
    const struct an_comm_call *r = &x[!first], *s = &x[first];
    size_t hub = a->count;
    if (s->start >= r->end)
        return 0;
    int rc = cut_wait(b, s, s->start, a, hub);
    rc = rc ? rc : cut_wait(b, r, s->start, a, hub);
    a->at[a->count - 1].receives = true;
    return rc;
}

static int comm_cuts(struct an_context *c, struct an_graph_build *b)
{
    struct an_comm_calls calls = {0};
    struct arrivals *a = an_arena_zero(c->work, 1, sizeof *a);
    int rc = a ? an_comm_find(c, &calls) : TACHO_ENOMEM;
    if (!rc && !(a->at = an_arena_zero(c->work, 2 * calls.count + 1, sizeof *a->at)))
        rc = TACHO_ENOMEM;
    for (size_t i = 0, next; i < calls.count && !rc; i = next) {
        next = an_comm_next(&calls, i);
        const struct an_comm_call *x = &calls.call[i];
        if (x->transfer >= 0 && x->op == AN_NONE && !strcmp(x->kind, "send_recv"))
            rc = cut_receive(b, x, a);
        else if (x->transfer >= 0)
            rc = cut_collective(b, x, next - i, a);
    }
    free(calls.call);
    *an_graph_state(b) = a;
    return rc;
}

static uint32_t wait_of(const struct an_graph_build *b, const struct arrival *w, bool last)
{
    if (w->op != AN_NONE)
        return an_graph_op_start(b, w->op) + 1;
    return last ? an_graph_span_last(b, w->span) : an_graph_span_first(b, w->span);
}

static int comm_edges(struct an_context *c, struct an_graph_build *b)
{
    const struct arrivals *a = *an_graph_state(b);
    const struct an_graph *g = an_graph_built(b);
    int rc = 0;
    (void)c;
    for (size_t i = 0; i < a->count && !rc; i++) {
        const struct arrival *w = &a->at[i];
        uint32_t wait = wait_of(b, w, false), hub = wait_of(b, &a->at[w->hub], true);
        unsigned kind = AN_EDGE_COLLECTIVE | (w->inferred ? AN_EDGE_INFERRED : 0u);
        if (w->hub == i || wait == AN_NONE)
            continue;
        rc = w->receives ? 0 : an_graph_edge(b, an_graph_before(g, wait), hub, kind);
        rc = rc ? rc : an_graph_edge(b, hub, wait_of(b, w, true), kind);
    }
    return rc;
}

const struct an_graph_builder an_graph_collectives = {"collectives", comm_cuts, comm_edges};
