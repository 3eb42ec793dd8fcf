/* SPDX-License-Identifier: Apache-2.0
 *
 * What ranks send each other apart from gradients: a pipeline (sends and receives between
 * neighbours) with its bubble, and the all-to-all of experts. Ranks of a pipeline that hold
 * different stages differ by design, so only the ranks of one stage are peers.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/ranks/ranks_compare.h"

#define NO_SENDS "no send and recv of two ranks could be matched"

/* Links between lanes, and the sends of each way. */
struct link {
    uint32_t from, to;
};
struct way {
    uint32_t lane;
    int64_t communicator;
    uint64_t group;
    int64_t sends;
};

struct chain {
    struct an_context *context;
    const struct an_comm_calls *calls;
    uint32_t *root; /* of the component of a lane */
    struct link *link;
    size_t link_count, link_room, stages;
    int64_t micro_batches;
};

/* Is the call a matched send or recv of a known lane? */
static bool is_pair_call(const struct an_comm_call *call)
{
    return call->transfer >= 0 && call->lane != AN_NONE && !strcmp(call->kind, "send_recv");
}

static int64_t detailed_steps(const struct an_context *context, uint32_t lane)
{
    int64_t count = 0;
    for (size_t i = context->lane[lane].first;
         i < context->lane[lane].first + context->lane[lane].count; i++)
        count += an_step_detailed(&context->step[i]);
    return count;
}

/* ---- the chain ------------------------------------------------------------------------------------------------------------ */

/* The lane that stands for the component of a lane, as in union-find with path halving. */
static uint32_t root_of(struct chain *chain, uint32_t lane)
{
    while (chain->root[lane] != lane)
        lane = chain->root[lane] = chain->root[chain->root[lane]];
    return lane;
}

static int link_order(const void *left, const void *right)
{
    const struct link *first = left, *second = right;
    if (first->from != second->from)
        return first->from < second->from ? -1 : 1;
    return (first->to > second->to) - (first->to < second->to);
}

static int way_order(const void *left, const void *right)
{
    const struct way *first = left, *second = right;
    if (first->lane != second->lane)
        return first->lane < second->lane ? -1 : 1;
    if (first->communicator != second->communicator)
        return first->communicator < second->communicator ? -1 : 1;
    return (first->group > second->group) - (first->group < second->group);
}

/* Lists each pair of lanes that send to each other once, and joins their components. */
static int find_links(struct chain *chain)
{
    const struct an_comm_calls *calls = chain->calls;
    for (size_t i = 0, next; i < calls->count; i = next) {
        next = an_comm_next(calls, i);
        if (!is_pair_call(&calls->call[i]) || next - i != 2)
            continue;
        uint32_t lane = calls->call[i].lane, other = calls->call[i + 1].lane;
        if (an_grow(&chain->link, &chain->link_room, chain->link_count + 1, sizeof *chain->link))
            return TACHO_ENOMEM;
        chain->link[chain->link_count++] =
            lane < other ? (struct link){lane, other} : (struct link){other, lane};
        chain->root[root_of(chain, lane)] = root_of(chain, other);
    }
    if (!chain->link_count)
        return 0;
    qsort(chain->link, chain->link_count, sizeof *chain->link, link_order);
    size_t kept = 0;
    for (size_t i = 0; i < chain->link_count; i++)
        if (!i || link_order(&chain->link[i], &chain->link[kept - 1]))
            chain->link[kept++] = chain->link[i];
    chain->link_count = kept;
    return 0;
}

/* Is every component a chain, with one link fewer than lanes? Then the longest is the pipeline's
 * depth. */
static int is_chain(struct chain *chain, bool *yes)
{
    size_t *lanes =
        an_arena_zero(chain->context->scratch, chain->context->lane_count + 1, sizeof *lanes);
    size_t *links =
        an_arena_zero(chain->context->scratch, chain->context->lane_count + 1, sizeof *links);
    if (!lanes || !links)
        return TACHO_ENOMEM;
    *yes = chain->link_count > 0;
    for (uint32_t lane = 0; lane < chain->context->lane_count; lane++)
        lanes[root_of(chain, lane)]++;
    for (size_t i = 0; i < chain->link_count; i++)
        links[root_of(chain, chain->link[i].from)]++;
    for (size_t lane = 0; lane < chain->context->lane_count; lane++) {
        *yes = *yes && (!links[lane] || links[lane] + 1 == lanes[lane]);
        chain->stages = lanes[lane] > chain->stages ? lanes[lane] : chain->stages;
    }
    return 0;
}

/* Counts the sends of each rank in one direction in a step; the most of any rank is the number of
 * micro-batches. */
static int count_sends(struct chain *chain)
{
    struct way *way = malloc((chain->calls->count + 1) * sizeof *way);
    size_t send_count = 0;
    if (!way)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < chain->calls->count; i++) {
        const struct an_comm_call *call = &chain->calls->call[i];
        if (is_pair_call(call) && call->step != AN_NONE && !strcmp(call->name, "send"))
            way[send_count++] = (struct way){call->lane, call->communicator, call->group, 1};
    }
    if (send_count)
        qsort(way, send_count, sizeof *way, way_order);
    for (size_t i = 0, next; i < send_count; i = next) {
        for (next = i + 1; next < send_count && !way_order(&way[i], &way[next]);)
            next++;
        int64_t steps = detailed_steps(chain->context, way[i].lane),
                sends = steps ? ((int64_t)(next - i) + steps / 2) / steps : 0;
        chain->micro_batches = sends > chain->micro_batches ? sends : chain->micro_batches;
    }
    free(way);
    return 0;
}

/* ---- the bubble ------------------------------------------------------------------------------------------------------------- */

/* Exposed waiting in send and recv inside the detailed steps of a lane, ns. */
static int bubble_of(struct chain *chain, uint32_t lane, double *ns, double *step_ns)
{
    struct an_context *context = chain->context;
    const struct an_lane *on_lane = &context->lane[lane];
    struct an_span *span = malloc((chain->calls->count + 1) * sizeof *span), *both = NULL;
    size_t span_count = 0;
    int rc = span ? 0 : TACHO_ENOMEM;
    for (size_t i = 0; i < chain->calls->count && !rc; i++) {
        const struct an_comm_call *call = &chain->calls->call[i];
        if (call->lane == lane && is_pair_call(call))
            span[span_count++] =
                (struct an_span){call->start, an_time_sub(call->end, call->transfer)};
    }
    span_count = rc ? 0 : an_spans_normalize(span, span_count);
    if (!rc && on_lane->device != AN_NONE) {
        const struct an_set *set = &context->gpu->split[on_lane->device].exposed_comm;
        both = malloc((span_count + set->count + 1) * sizeof *both);
        rc = both ? 0 : TACHO_ENOMEM;
        span_count = both ? an_spans_intersect(span, span_count, set->span, set->count, both) : 0;
    }
    for (size_t i = on_lane->first; i < on_lane->first + on_lane->count && !rc; i++)
        if (an_step_detailed(&context->step[i])) {
            *ns += (double)an_spans_within(both ? both : span, span_count, context->step[i].start,
                                           context->step[i].end);
            *step_ns += (double)an_step_ns(&context->step[i]);
        }
    free(span);
    free(both);
    return rc;
}

/* Sums the bubble over all lanes of the pipeline. The ideal share of S stages and M micro-batches
 * is (S - 1) / (M + S - 1), as of a schedule in which all stages take equally long. */
static int bubble(struct chain *chain, struct an_pipeline *out)
{
    double ns = 0, step_ns = 0, steps = 0;
    int rc = 0;
    for (uint32_t lane = 0; lane < chain->context->lane_count && !rc; lane++) {
        bool takes_part = false;
        for (size_t i = 0; i < chain->link_count; i++)
            takes_part = takes_part || chain->link[i].from == lane || chain->link[i].to == lane;
        if (!takes_part)
            continue;
        rc = bubble_of(chain, lane, &ns, &step_ns);
        steps += (double)detailed_steps(chain->context, lane);
    }
    const char *none = "no counted step has all its ranges in the file";
    double micro_batches = (double)chain->micro_batches, stages = (double)chain->stages;
    *out = (struct an_pipeline){
        .stages = (int64_t)chain->stages,
        .micro_batches = chain->micro_batches,
        .bubble_ms = an_num_if(steps > 0, ns / steps / 1e6, none),
        .bubble_pct = an_num_if(step_ns > 0, 100 * ns / step_ns, none),
        .ideal_pct =
            an_num_if(micro_batches > 0, 100 * (stages - 1) / (micro_batches + stages - 1), none)};
    return rc;
}

static void no_pipeline(struct an_pipeline *out, const char *reason)
{
    *out = (struct an_pipeline){.reason = reason,
                                .bubble_ms = an_num_none(reason),
                                .bubble_pct = an_num_none(reason),
                                .ideal_pct = an_num_none(reason)};
}

/* Finds the peers of each lane: the ranks of one stage, which share a collective in which not all
 * ranks take part. A stage of one rank has no peers. */
static void find_peers(struct chain *chain, uint32_t *peers)
{
    struct an_context *context = chain->context;
    for (uint32_t j = 0; j < context->lane_count; j++)
        peers[j] = j;
    for (size_t i = 0, next; i < chain->calls->count; i = next) {
        const struct an_comm_call *call = &chain->calls->call[i];
        next = an_comm_next(chain->calls, i);
        if (call->transfer < 0 || !call->synchronises || next - i >= context->lane_count)
            continue;
        bool crosses = false; /* a collective along the pipeline */
        for (size_t j = i + 1; j < next; j++)
            crosses =
                crosses || root_of(chain, chain->calls->call[j].lane) == root_of(chain, call->lane);
        for (size_t j = i; j < next && !crosses; j++)
            if (call->lane < peers[chain->calls->call[j].lane])
                peers[chain->calls->call[j].lane] = call->lane;
    }
}

/* Finds whether sends and receives form a pipeline, fills its bubble, and finds the peers of each
 * rank. */
static int pipeline(struct an_context *context, const struct an_comm_calls *calls,
                    struct an_exchanges *out)
{
    struct chain chain = {.context = context, .calls = calls};
    struct an_pipeline *result = &context->result->ranks.pipeline;
    bool one_chain = false;
    chain.root = an_arena_zero(context->scratch, context->lane_count + 1, sizeof *chain.root);
    int rc = chain.root ? 0 : TACHO_ENOMEM;
    for (uint32_t lane = 0; lane < context->lane_count && !rc; lane++)
        chain.root[lane] = lane;
    rc = rc ? rc : find_links(&chain);
    rc = rc ? rc : is_chain(&chain, &one_chain);
    if (!rc && !chain.link_count)
        no_pipeline(result, NO_SENDS);
    else if (!rc && !one_chain)
        no_pipeline(result, "sends and receives do not form a chain of stages");
    else if (!rc && !(rc = count_sends(&chain)) && !(rc = bubble(&chain, result))) {
        out->peers = an_arena_zero(context->scratch, context->lane_count + 1, sizeof *out->peers);
        out->replica =
            an_arena_zero(context->scratch, context->lane_count + 1, sizeof *out->replica);
        rc = out->peers && out->replica ? 0 : TACHO_ENOMEM;
        if (!rc)
            find_peers(&chain, out->peers);
        for (uint32_t lane = (uint32_t)context->lane_count; lane-- > 0 && !rc;)
            out->replica[root_of(&chain, lane)] = lane;
        for (uint32_t lane = 0; lane < context->lane_count && !rc; lane++)
            out->replica[lane] = out->replica[root_of(&chain, lane)];
    }
    free(chain.link);
    return rc;
}

/* ---- experts ------------------------------------------------------------------------------------------------------------------ */

/* Fills how uneven the ranks' shares of all-to-all are: the bytes that each moves in a step. */
static int experts(struct an_context *context, const struct an_comm_calls *calls,
                   struct an_exchanges *out)
{
    struct an_experts *found = &context->result->ranks.experts;
    double sum = 0, most = 0;
    size_t ranks = 0;
    double *bytes = an_arena_zero(context->scratch, context->lane_count + 1, sizeof *bytes);
    if (!bytes)
        return TACHO_ENOMEM;
    for (size_t lane = 0; lane < context->lane_count; lane++)
        bytes[lane] = NAN;
    for (size_t i = 0; i < calls->count; i++) {
        const struct an_comm_call *call = &calls->call[i];
        if (strcmp(call->kind, "all_to_all") || call->bytes == STORE_ABSENT ||
            call->lane >= context->lane_count || call->step == AN_NONE)
            continue;
        double *sent = &bytes[call->lane];
        *sent = (isnan(*sent) ? 0 : *sent) + (double)call->bytes;
    }
    for (uint32_t lane = 0; lane < context->lane_count; lane++) {
        if (isnan(bytes[lane]))
            continue;
        bytes[lane] /= (double)detailed_steps(context, lane);
        sum += bytes[lane];
        if (!ranks++ || bytes[lane] > most)
            found->rank = context->lane[lane].rank;
        most = fmax(most, bytes[lane]);
    }
    out->all_to_all = bytes;
    bool known = ranks > 1 && sum > 0;
    const char *none = ranks == 1 ? "one rank: nothing to compare" : "no all-to-all of known size";
    found->reason = known ? NULL : none;
    found->bytes_mean = an_num_if(known, sum / (double)ranks, found->reason);
    found->bytes_max = an_num_if(known, most, found->reason);
    found->max_over_mean = an_num_if(known, most * (double)ranks / sum, found->reason);
    return 0;
}

int an_ranks_exchanges(struct an_context *context, const struct an_comm_calls *calls)
{
    struct an_exchanges *out = an_arena_zero(context->scratch, 1, sizeof *out);
    if (!out)
        return TACHO_ENOMEM;
    context->exchanges = out;
    int rc = pipeline(context, calls, out);
    rc = rc ? rc : an_ranks_even(context, calls);
    return rc ? rc : experts(context, calls, out);
}

void an_ranks_no_exchanges(struct an_context *context, const char *reason)
{
    struct an_experts *experts = &context->result->ranks.experts;
    no_pipeline(&context->result->ranks.pipeline, reason);
    an_ranks_no_even(&context->result->ranks.even, reason);
    experts->reason = reason;
    experts->bytes_mean = experts->bytes_max = experts->max_over_mean = an_num_none(reason);
}
