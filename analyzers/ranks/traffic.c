/* SPDX-License-Identifier: Apache-2.0
 *
 * Who sends how much to whom: the matrix of bytes and messages between ranks in the counted steps
 * (docs/communication.md).
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/ranks/ranks_compare.h"

struct traffic {
    struct an_context *context;
    int64_t *ranks; /* of the lanes, ascending and each once */
    size_t rank_count, rows, each;
    struct an_link *cell; /* [from * rows + to] */
    double unplaced;
};

static int rank_order(const void *left, const void *right)
{
    int64_t first = *(const int64_t *)left, second = *(const int64_t *)right;
    return AN_COMPARE(first, second);
}

/* The ranks of the lanes, and how many of them make a row. */
static int list_ranks(struct traffic *traffic)
{
    struct an_context *context = traffic->context;
    traffic->ranks =
        an_arena_zero(context->scratch, context->lane_count + 1, sizeof *traffic->ranks);
    if (!traffic->ranks)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < context->lane_count; i++)
        traffic->ranks[i] = context->lane[i].rank;
    qsort(traffic->ranks, context->lane_count, sizeof *traffic->ranks, rank_order);
    for (size_t i = 0; i < context->lane_count; i++)
        if (!i || traffic->ranks[i] != traffic->ranks[i - 1])
            traffic->ranks[traffic->rank_count++] = traffic->ranks[i];
    traffic->each = (traffic->rank_count + AN_TRAFFIC_ROWS - 1) / AN_TRAFFIC_ROWS;
    if (!traffic->each)
        return 0;
    traffic->rows = (traffic->rank_count + traffic->each - 1) / traffic->each;
    traffic->cell =
        an_arena_zero(context->scratch, traffic->rows * traffic->rows + 1, sizeof *traffic->cell);
    return traffic->cell ? 0 : TACHO_ENOMEM;
}

static size_t row_of(const struct traffic *traffic, uint32_t lane)
{
    const int64_t *found = bsearch(&traffic->context->lane[lane].rank, traffic->ranks,
                                   traffic->rank_count, sizeof *found, rank_order);
    return (size_t)(found - traffic->ranks) / traffic->each;
}

static void add(struct traffic *traffic, const struct an_comm_call *from,
                const struct an_comm_call *to, double bytes, double messages, bool recorded)
{
    struct an_link *cell =
        &traffic->cell[row_of(traffic, from->lane) * traffic->rows + row_of(traffic, to->lane)];
    cell->bytes += bytes;
    cell->messages += messages;
    cell->recorded += recorded ? bytes : 0;
}

/* How much of its bytes a rank of a ring of n sends to the next one, and in how many messages. */
struct ring {
    const char *kind;
    double times; /* (n - 1) / n of the bytes, in n - 1 messages */
};
static const struct ring rings[] = {
    {"all_reduce", 2}, {"all_gather", 1}, {"reduce_scatter", 1}, {NULL, 0}};

/* The calls of one collective, all of whose ranks are there and say their bytes. */
static void add_ring(struct traffic *traffic, const struct an_comm_call *const *call, size_t count,
                     double times)
{
    double others = (double)count - 1;
    for (size_t i = 0; i < count; i++)
        add(traffic, call[i], call[(i + 1) % count],
            times * others / (double)count * (double)call[i]->bytes, times * others, false);
}

static void add_all_to_all(struct traffic *traffic, const struct an_comm_call *const *call,
                           size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++)
            if (i != j)
                add(traffic, call[i], call[j], (double)call[i]->bytes / (double)count, 1, false);
}

/* True: what it sends is in the matrix. */
static bool place(struct traffic *traffic, const struct an_comm_call *const *call, size_t count)
{
    const char *kind = call[0]->kind;
    if (!strcmp(kind, "send_recv")) {
        bool first = !strcmp(call[0]->name, "send");
        if (count != 2 || !strcmp(call[0]->name, call[1]->name))
            return false;
        add(traffic, call[!first], call[first], (double)call[!first]->bytes, 1, true);
        return true;
    }
    if (call[0]->ranks != (int64_t)count || count < 2)
        return false;
    for (const struct ring *ring = rings; ring->kind; ring++)
        if (!strcmp(kind, ring->kind)) {
            add_ring(traffic, call, count, ring->times);
            return true;
        }
    if (strcmp(kind, "all_to_all") != 0)
        return !strcmp(kind, "barrier");
    add_all_to_all(traffic, call, count);
    return true;
}

/* Rings go along the ranks, which need not be the order of the lanes. lanes: an_context.lane. */
static int call_rank_order(const void *left, const void *right, void *lanes)
{
    const struct an_comm_call *first = *(const struct an_comm_call *const *)left,
                              *second = *(const struct an_comm_call *const *)right;
    const struct an_lane *lane = lanes;
    int order = AN_COMPARE(first->ordinal, second->ordinal);
    return order ? order : AN_COMPARE(lane[first->lane].rank, lane[second->lane].rank);
}

/* Places one collective after the other; those in no detailed step and those of unknown size are
 * left out. members: room for as many as there are lanes. */
static void place_all(struct traffic *traffic, const struct an_comm_calls *calls,
                      const struct an_comm_call **members)
{
    for (size_t i = 0, after; i < calls->count; i = after) {
        size_t count = 0;
        bool known = true;
        double bytes = 0;
        after = an_comm_next(calls, i);
        for (size_t j = i; j < after && count < traffic->context->lane_count; j++) {
            const struct an_comm_call *call = &calls->call[j];
            if (call->lane == AN_NONE || call->step == AN_NONE)
                continue;
            known = known && call->bytes != STORE_ABSENT;
            bytes += known ? (double)call->bytes : 0;
            members[count++] = call;
        }
        if (count)
            qsort_r(members, count, sizeof *members, call_rank_order, traffic->context->lane);
        if (count && (!known || !place(traffic, members, count)))
            traffic->unplaced += bytes;
    }
}

/* Per step, into the result. */
static int fill(struct traffic *traffic, struct an_traffic *out)
{
    struct an_context *context = traffic->context;
    int64_t lane_steps = 0;
    int64_t *first = an_arena_zero(context->arena, traffic->rows + 1, sizeof *first);
    struct an_link *link =
        an_arena_zero(context->arena, traffic->rows * traffic->rows + 1, sizeof *link);
    if (!first || !link)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < context->step_count; i++)
        lane_steps += an_step_detailed(&context->step[i]);
    out->steps = lane_steps / (int64_t)context->lane_count;
    double steps = (double)lane_steps / (double)context->lane_count;
    for (size_t i = 0; i < traffic->rows; i++)
        first[i] = traffic->ranks[i * traffic->each];
    for (size_t i = 0; i < traffic->rows * traffic->rows && steps > 0; i++) {
        const struct an_link *cell = &traffic->cell[i];
        if (cell->messages <= 0)
            continue;
        link[out->link_count++] = (struct an_link){.from = i / traffic->rows,
                                                   .to = i % traffic->rows,
                                                   .from_rank = first[i / traffic->rows],
                                                   .to_rank = first[i % traffic->rows],
                                                   .bytes = cell->bytes / steps,
                                                   .messages = cell->messages / steps,
                                                   .recorded = cell->recorded / steps};
        out->bytes += cell->bytes / steps;
        out->recorded += cell->recorded / steps;
    }
    out->unplaced = steps > 0 ? traffic->unplaced / steps : 0;
    out->reason = NULL;
    out->rank = first;
    out->link = link;
    out->rows = traffic->rows;
    out->ranks = (int64_t)traffic->rank_count;
    out->ranks_a_row = (int64_t)traffic->each;
    out->last_rank = traffic->ranks[traffic->rank_count - 1];
    return 0;
}

int an_ranks_traffic(struct an_context *context, const struct an_comm_calls *calls)
{
    struct an_traffic *out = &context->result->communication.traffic;
    struct traffic traffic = {.context = context};
    const struct an_comm_call **members =
        an_arena_zero(context->scratch, context->lane_count + 1, sizeof *members);
    int rc = members ? list_ranks(&traffic) : TACHO_ENOMEM;
    if (rc)
        return rc;
    if (traffic.rank_count < 2) {
        out->reason = "one rank in the file";
        return 0;
    }
    place_all(&traffic, calls, members);
    rc = fill(&traffic, out);
    if (!rc && !out->link_count)
        out->reason = "no call in a counted step says to whom it sends how many bytes";
    return rc;
}
