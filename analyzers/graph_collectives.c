/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives on the CPU across ranks. One that no rank leaves before all have come, and of which all ranks are in the file, is
 * cut in two on every rank: the wait until the last one has come, and what follows. The wait of the last one, which lasts no
 * time, gathers what comes before it on every rank, and lets the others' waits go: two edges a rank, however many there are.
 *
 * Of send and recv between the two ranks of a communicator the n-th ones belong together; recv waits for send to begin.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/communication.h"
#include "analyzers/graph.h"

/* One rank's wait. */
struct arrival {
    uint32_t span, hub; /* hub: the arrival that the others wait for: an index; its own of the last one */
    bool receives;      /* the hub does not wait for it */
};

struct arrivals {
    struct arrival *at;
    size_t count;
};

static int cut_wait(struct an_graph_build *b, const struct an_comm_call *x, int64_t last, struct arrivals *a, size_t hub)
{
    struct arrival *w = &a->at[a->count++];
    int64_t end = last < x->start ? x->start : last < x->end ? last : x->end;
    w->hub = (uint32_t)hub;
    return an_graph_cut_span(b, x->track, x->start, end, x->slice, AN_NODE_WAIT, AN_CAUSE_PEERS, &w->span);
}

static int cut_collective(struct an_graph_build *b, const struct an_comm_call *x, size_t n, struct arrivals *a)
{
    size_t last = 0, first = a->count;
    int rc = 0;
    for (size_t k = 1; k < n; k++)
        if (x[k].start > x[last].start)
            last = k;
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
    int rc = !a ? TACHO_ENOMEM : c->gpu ? 0 : an_comm_find(c, &calls); /* of devices graph_device.c has the ops */
    if (!rc && !(a->at = an_arena_zero(c->work, 2 * calls.count + 1, sizeof *a->at)))
        rc = TACHO_ENOMEM;
    for (size_t i = 0, next; i < calls.count && !rc; i = next) {
        next = an_comm_next(&calls, i);
        if (calls.call[i].transfer >= 0 && !strcmp(calls.call[i].kind, "send_recv"))
            rc = cut_receive(b, &calls.call[i], a);
        else if (calls.call[i].transfer >= 0)
            rc = cut_collective(b, &calls.call[i], next - i, a);
    }
    free(calls.call);
    *an_graph_state(b) = a;
    return rc;
}

static int comm_edges(struct an_context *c, struct an_graph_build *b)
{
    const struct arrivals *a = *an_graph_state(b);
    const struct an_graph *g = an_graph_built(b);
    int rc = 0;
    (void)c;
    for (size_t i = 0; i < a->count && !rc; i++) {
        const struct arrival *w = &a->at[i];
        uint32_t wait = an_graph_span_first(b, w->span), hub = an_graph_span_last(b, a->at[w->hub].span);
        if (w->hub == i || wait == AN_NONE)
            continue;
        rc = w->receives ? 0 : an_graph_edge(b, an_graph_before(g, wait), hub, AN_EDGE_COLLECTIVE);
        rc = rc ? rc : an_graph_edge(b, hub, an_graph_span_last(b, w->span), AN_EDGE_COLLECTIVE);
    }
    return rc;
}

const struct an_graph_builder an_graph_collectives = {"collectives", comm_cuts, comm_edges};
