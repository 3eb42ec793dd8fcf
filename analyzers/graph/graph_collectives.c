/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives across ranks in the dependency graph. A collective that no rank leaves before all
 * have arrived, and whose calls are matched over the ranks of the file (communication_match.c), is
 * cut in two on every rank: the wait until the last rank has arrived, and the transfer. The wait of
 * the last rank, which lasts no time, is the hub: it depends on what comes before the wait on every
 * rank, and the waits of the others depend on it. That takes two edges a rank, however many ranks
 * there are. Kernels of devices spin while they wait, so they are cut the same way after their
 * arrival.
 *
 * The n-th send and the n-th recv of the two ranks of a communicator belong together. On the CPU a
 * recv waits for its send to begin; kernels wait for each other.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/collectives/communication.h"
#include "analyzers/graph/graph_private.h"

/* One rank's wait. */
struct arrival {
    uint32_t span, op; /* of a thread, of a device: the other one is AN_NONE */
    uint32_t hub;      /* index of the arrival that it waits for; its own if it is the last one */
    bool receives;     /* the hub does not wait for it */
    bool inferred;     /* the calls were matched by their order, not by a sequence number */
};

struct arrivals {
    struct arrival *arrival;
    size_t count;
};

static int cut_wait(struct an_graph_build *build, const struct an_comm_call *call,
                    int64_t last_arrival, struct arrivals *arrivals, size_t hub)
{
    struct arrival *arrival = &arrivals->arrival[arrivals->count++];
    *arrival = (struct arrival){
        .span = AN_NONE, .op = call->op, .hub = (uint32_t)hub, .inferred = call->counted};
    if (call->op != AN_NONE)
        return an_graph_cut_op(build, call->op, last_arrival);
    int64_t end = last_arrival < call->end ? last_arrival : call->end;
    return an_graph_cut_span(build, call->track, call->start, end < call->start ? call->start : end,
                             call->slice, AN_NODE_WAIT, AN_CAUSE_PEERS, &arrival->span);
}

static int cut_collective(struct an_graph_build *build, const struct an_comm_call *calls,
                          size_t call_count, struct arrivals *arrivals)
{
    size_t last = 0, first = arrivals->count;
    int rc = 0;
    for (size_t i = 1; i < call_count; i++)
        if (calls[i].start > calls[last].start)
            last = i;
    for (size_t i = 0; i < call_count; i++)
        if (calls[i].op != AN_NONE && calls[last].start >= calls[i].end)
            return 0; /* it left before the last one arrived: these are not one collective */
    for (size_t i = 0; i < call_count && !rc; i++)
        rc = cut_wait(build, &calls[i], calls[last].start, arrivals, first + last);
    return rc;
}

/* A recv and its send, which are neighbours in the list of calls. */
static int cut_receive(struct an_graph_build *build, const struct an_comm_call *pair,
                       struct arrivals *arrivals)
{
    bool recv_first = !strcmp(pair[0].name, "recv");
    const struct an_comm_call *recv = &pair[!recv_first], *send = &pair[recv_first];
    size_t hub = arrivals->count;
    if (send->start >= recv->end)
        return 0;
    int rc = cut_wait(build, send, send->start, arrivals, hub);
    rc = rc ? rc : cut_wait(build, recv, send->start, arrivals, hub);
    arrivals->arrival[arrivals->count - 1].receives = true;
    return rc;
}

static int comm_cuts(struct an_graph_build *build)
{
    struct an_arena *scratch = build->context->scratch;
    struct an_comm_calls calls = {0};
    struct arrivals *arrivals = an_arena_zero(scratch, 1, sizeof *arrivals);
    int rc = arrivals ? an_comm_find(build->context, &calls) : TACHO_ENOMEM;
    if (!rc && !(arrivals->arrival =
                     an_arena_zero(scratch, 2 * calls.count + 1, sizeof *arrivals->arrival)))
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
    *build->state = arrivals;
    return rc;
}

/* The first or last node of an arrival's wait. */
static uint32_t wait_node(const struct an_graph_build *build, const struct arrival *arrival,
                          bool last)
{
    if (arrival->op != AN_NONE)
        return an_graph_op_start(build->graph, arrival->op) + 1;
    const struct an_graph_span *span = &build->span[arrival->span];
    return last ? span->last_node : span->first_node;
}

static int comm_edges(struct an_graph_build *build)
{
    const struct arrivals *arrivals = *build->state;
    int rc = 0;
    for (size_t i = 0; i < arrivals->count && !rc; i++) {
        const struct arrival *arrival = &arrivals->arrival[i];
        uint32_t wait = wait_node(build, arrival, false),
                 hub = wait_node(build, &arrivals->arrival[arrival->hub], true);
        unsigned kind = AN_EDGE_COLLECTIVE | (arrival->inferred ? AN_EDGE_INFERRED : 0u);
        if (arrival->hub == i || wait == AN_NONE)
            continue;
        if (!arrival->receives)
            rc = an_graph_edge(build, an_graph_before(build->graph, wait), hub, kind);
        rc = rc ? rc : an_graph_edge(build, hub, wait_node(build, arrival, true), kind);
    }
    return rc;
}

const struct an_graph_builder an_graph_collectives = {comm_cuts, comm_edges};
