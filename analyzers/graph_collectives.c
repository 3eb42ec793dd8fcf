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

/* Does call a stand before send number (sequence, ordinal) of a communicator, in the order of the calls? */
static bool before_send(const struct an_comm_call *a, const struct an_comm_call *r)
{
    int order = strcmp(a->name, "send");
    if (order)
        return order < 0;
    if (a->communicator != r->communicator)
        return a->communicator < r->communicator;
    if (a->sequence != r->sequence)
        return a->sequence < r->sequence;
    return a->ordinal < r->ordinal;
}

/* The send that belongs to a recv, or NULL: of the other rank, and begun before the recv ended. */
static const struct an_comm_call *send_of(const struct an_comm_calls *calls, const struct an_comm_call *r)
{
    size_t low = 0, high = calls->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (before_send(&calls->call[middle], r))
            low = middle + 1;
        else
            high = middle;
    }
    for (const struct an_comm_call *s = &calls->call[low]; low < calls->count; low++, s++) {
        if (strcmp(s->name, "send") || s->communicator != r->communicator || s->sequence != r->sequence ||
            s->ordinal != r->ordinal)
            return NULL;
        if (s->lane != r->lane && s->lane != AN_NONE && s->start < r->end)
            return s;
    }
    return NULL;
}

static int cut_receives(struct an_graph_build *b, const struct an_comm_calls *calls, struct arrivals *a)
{
    int rc = 0;
    for (size_t i = 0; i < calls->count && !rc; i++) {
        const struct an_comm_call *r = &calls->call[i], *s = NULL;
        if (!strcmp(r->name, "recv") && r->ranks == 2 && r->lane != AN_NONE)
            s = send_of(calls, r);
        if (!s)
            continue;
        size_t hub = a->count;
        rc = cut_wait(b, s, s->start, a, hub);
        rc = rc ? rc : cut_wait(b, r, s->start, a, hub);
        a->at[a->count - 1].receives = true;
    }
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
        if (calls.call[i].transfer >= 0)
            rc = cut_collective(b, &calls.call[i], next - i, a);
    }
    rc = rc ? rc : cut_receives(b, &calls, a);
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
