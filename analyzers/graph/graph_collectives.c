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

static int cut_wait(struct an_graph_build *build, const struct an_comm_call *call, int64_t last,
                    struct arrivals *arrivals, size_t hub)
{
    struct arrival *arrival = &arrivals->at[arrivals->count++];
    int64_t end = last < call->start ? call->start : last < call->end ? last : call->end;
    *arrival = (struct arrival){
        .span = AN_NONE, .op = call->op, .hub = (uint32_t)hub, .inferred = call->counted};
    if (call->op != AN_NONE)
        return an_graph_cut_op(build, call->op, last);
    return an_graph_cut_span(build, call->track, call->start, end, call->slice, AN_NODE_WAIT,
                             AN_CAUSE_PEERS, &arrival->span);
}

static int cut_collective(struct an_graph_build *build, const struct an_comm_call *call, size_t n,
                          struct arrivals *arrivals)
{
    size_t last = 0, first = arrivals->count;
    int rc = 0;
    for (size_t k = 1; k < n; k++)
        if (call[k].start > call[last].start)
            last = k;
    for (size_t k = 0; k < n; k++)
        if (call[k].op != AN_NONE &&
            call[last].start >= call[k].end) /* it left before that one came: these are not one */
            return 0;
    for (size_t k = 0; k < n && !rc; k++)
        rc = cut_wait(build, &call[k], call[last].start, arrivals, first + last);
    return rc;
}

/* A recv and its send, which stand together. */
static int cut_receive(struct an_graph_build *build, const struct an_comm_call *x,
                       struct arrivals *arrivals)
{
    bool first = !strcmp(x[0].name, "recv");
    const struct an_comm_call *r = &x[!first], *s = &x[first];
    size_t hub = arrivals->count;
    if (s->start >= r->end)
        return 0;
    int rc = cut_wait(build, s, s->start, arrivals, hub);
    rc = rc ? rc : cut_wait(build, r, s->start, arrivals, hub);
    arrivals->at[arrivals->count - 1].receives = true;
    return rc;
}

static int comm_cuts(struct an_context *context, struct an_graph_build *build)
{
    struct an_comm_calls calls = {0};
    struct arrivals *arrivals = an_arena_zero(context->scratch, 1, sizeof *arrivals);
    int rc = arrivals ? an_comm_find(context, &calls) : TACHO_ENOMEM;
    if (!rc && !(arrivals->at =
                     an_arena_zero(context->scratch, 2 * calls.count + 1, sizeof *arrivals->at)))
        rc = TACHO_ENOMEM;
    for (size_t i = 0, next; i < calls.count && !rc; i = next) {
        next = an_comm_next(&calls, i);
        const struct an_comm_call *call = &calls.call[i];
        if (call->transfer >= 0 && call->op == AN_NONE && !strcmp(call->kind, "send_recv"))
            rc = cut_receive(build, call, arrivals);
        else if (call->transfer >= 0)
            rc = cut_collective(build, call, next - i, arrivals);
    }
    free(calls.call);
    *an_graph_state(build) = arrivals;
    return rc;
}

static uint32_t wait_of(const struct an_graph_build *build, const struct arrival *arrival,
                        bool last)
{
    if (arrival->op != AN_NONE)
        return an_graph_op_start(build, arrival->op) + 1;
    return last ? an_graph_span_last(build, arrival->span)
                : an_graph_span_first(build, arrival->span);
}

static int comm_edges(struct an_context *context, struct an_graph_build *build)
{
    const struct arrivals *arrivals = *an_graph_state(build);
    const struct an_graph *graph = an_graph_built(build);
    int rc = 0;
    (void)context;
    for (size_t i = 0; i < arrivals->count && !rc; i++) {
        const struct arrival *arrival = &arrivals->at[i];
        uint32_t wait = wait_of(build, arrival, false),
                 hub = wait_of(build, &arrivals->at[arrival->hub], true);
        unsigned kind = AN_EDGE_COLLECTIVE | (arrival->inferred ? AN_EDGE_INFERRED : 0u);
        if (arrival->hub == i || wait == AN_NONE)
            continue;
        rc = arrival->receives ? 0 : an_graph_edge(build, an_graph_before(graph, wait), hub, kind);
        rc = rc ? rc : an_graph_edge(build, hub, wait_of(build, arrival, true), kind);
    }
    return rc;
}

const struct an_graph_builder an_graph_collectives = {"collectives", comm_cuts, comm_edges};
