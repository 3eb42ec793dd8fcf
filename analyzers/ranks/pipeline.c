/* SPDX-License-Identifier: Apache-2.0
 *
 * What ranks send each other besides gradients: a pipeline (sends and receives between neighbours)
 * with its bubble, and all-to-all of experts. Ranks of a pipeline that hold different stages differ
 * by design: only those of one stage are peers.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/ranks/ranks_build.h"

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
    size_t links, link_room, stages;
    int64_t micro_batches;
};

static bool is_pair_call(const struct an_comm_call *call)
{
    return call->transfer >= 0 && call->lane != AN_NONE && !strcmp(call->kind, "send_recv");
}

static int64_t detailed_steps(const struct an_context *context, uint32_t lane)
{
    int64_t n = 0;
    for (size_t i = context->lane[lane].first;
         i < context->lane[lane].first + context->lane[lane].count; i++)
        n += an_step_detailed(&context->step[i]);
    return n;
}

/* ---- the chain ------------------------------------------------------------------------------------------------------------ */

static uint32_t root_of(struct chain *chain, uint32_t lane)
{
    while (chain->root[lane] != lane)
        lane = chain->root[lane] = chain->root[chain->root[lane]];
    return lane;
}

static int link_order(const void *x, const void *y)
{
    const struct link *a = x, *b = y;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    return (a->to > b->to) - (a->to < b->to);
}

static int way_order(const void *x, const void *y)
{
    const struct way *a = x, *b = y;
    if (a->lane != b->lane)
        return a->lane < b->lane ? -1 : 1;
    if (a->communicator != b->communicator)
        return a->communicator < b->communicator ? -1 : 1;
    return (a->group > b->group) - (a->group < b->group);
}

static int find_links(struct chain *chain)
{
    const struct an_comm_calls *calls = chain->calls;
    for (size_t i = 0, next; i < calls->count; i = next) {
        next = an_comm_next(calls, i);
        if (!is_pair_call(&calls->call[i]) || next - i != 2)
            continue;
        uint32_t a = calls->call[i].lane, b = calls->call[i + 1].lane;
        if (an_grow(&chain->link, &chain->link_room, chain->links + 1, sizeof *chain->link))
            return TACHO_ENOMEM;
        chain->link[chain->links++] = (struct link){a < b ? a : b, a < b ? b : a};
        chain->root[root_of(chain, a)] = root_of(chain, b);
    }
    if (!chain->links)
        return 0;
    qsort(chain->link, chain->links, sizeof *chain->link, link_order);
    size_t kept = 0;
    for (size_t i = 0; i < chain->links; i++)
        if (!i || link_order(&chain->link[i], &chain->link[kept - 1]))
            chain->link[kept++] = chain->link[i];
    chain->links = kept;
    return 0;
}

/* Is every component a chain: one link fewer than lanes? Then the longest is the pipeline's depth.
 */
static int is_chain(struct chain *chain, bool *yes)
{
    size_t *lanes =
        an_arena_zero(chain->context->scratch, chain->context->lane_count + 1, sizeof *lanes);
    size_t *links =
        an_arena_zero(chain->context->scratch, chain->context->lane_count + 1, sizeof *links);
    if (!lanes || !links)
        return TACHO_ENOMEM;
    *yes = chain->links > 0;
    for (uint32_t k = 0; k < chain->context->lane_count; k++)
        lanes[root_of(chain, k)]++;
    for (size_t i = 0; i < chain->links; i++)
        links[root_of(chain, chain->link[i].from)]++;
    for (size_t k = 0; k < chain->context->lane_count; k++) {
        *yes = *yes && (!links[k] || links[k] + 1 == lanes[k]);
        chain->stages = lanes[k] > chain->stages ? lanes[k] : chain->stages;
    }
    return 0;
}

/* Sends of a rank one way in a step: the most of all is the number of micro-batches. */
static int count_sends(struct chain *chain)
{
    struct way *way = malloc((chain->calls->count + 1) * sizeof *way);
    size_t n = 0;
    if (!way)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < chain->calls->count; i++) {
        const struct an_comm_call *call = &chain->calls->call[i];
        if (is_pair_call(call) && call->step != AN_NONE && !strcmp(call->name, "send"))
            way[n++] = (struct way){call->lane, call->communicator, call->group, 1};
    }
    if (n)
        qsort(way, n, sizeof *way, way_order);
    for (size_t i = 0, next; i < n; i = next) {
        for (next = i + 1; next < n && !way_order(&way[i], &way[next]);)
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
    const struct an_lane *l = &context->lane[lane];
    struct an_span *span = malloc((chain->calls->count + 1) * sizeof *span), *both = NULL;
    size_t n = 0;
    int rc = span ? 0 : TACHO_ENOMEM;
    for (size_t i = 0; i < chain->calls->count && !rc; i++) {
        const struct an_comm_call *call = &chain->calls->call[i];
        if (call->lane == lane && is_pair_call(call))
            span[n++] = (struct an_span){call->start, an_time_sub(call->end, call->transfer)};
    }
    n = rc ? 0 : an_spans_normalize(span, n);
    if (!rc && l->device != AN_NONE) {
        const struct an_set *set = &context->gpu->split[l->device].exposed_comm;
        both = malloc((n + set->count + 1) * sizeof *both);
        rc = both ? 0 : TACHO_ENOMEM;
        n = both ? an_spans_intersect(span, n, set->span, set->count, both) : 0;
    }
    for (size_t i = l->first; i < l->first + l->count && !rc; i++)
        if (an_step_detailed(&context->step[i])) {
            *ns += (double)an_spans_within(both ? both : span, n, context->step[i].start,
                                           context->step[i].end);
            *step_ns += (double)an_step_ns(&context->step[i]);
        }
    free(span);
    free(both);
    return rc;
}

static int bubble(struct chain *chain, struct an_pipeline *out)
{
    double ns = 0, step_ns = 0, steps = 0;
    int rc = 0;
    for (uint32_t k = 0; k < chain->context->lane_count && !rc; k++) {
        bool takes_part = false;
        for (size_t i = 0; i < chain->links; i++)
            takes_part = takes_part || chain->link[i].from == k || chain->link[i].to == k;
        if (!takes_part)
            continue;
        rc = bubble_of(chain, k, &ns, &step_ns);
        steps += (double)detailed_steps(chain->context, k);
    }
    const char *none = "no counted step has all its ranges in the file";
    double m = (double)chain->micro_batches, stages = (double)chain->stages;
    *out = (struct an_pipeline){
        .stages = (int64_t)chain->stages,
        .micro_batches = chain->micro_batches,
        .bubble_ms = steps > 0 ? an_num(ns / steps / 1e6) : an_num_none(none),
        .bubble_pct = step_ns > 0 ? an_num(100 * ns / step_ns) : an_num_none(none),
        .ideal_pct = m > 0 ? an_num(100 * (stages - 1) / (m + stages - 1)) : an_num_none(none)};
    return rc;
}

static void no_pipeline(struct an_pipeline *out, const char *reason)
{
    *out = (struct an_pipeline){.reason = reason,
                                .bubble_ms = an_num_none(reason),
                                .bubble_pct = an_num_none(reason),
                                .ideal_pct = an_num_none(reason)};
}

/* Peers are the ranks of one stage: those that share a collective in which not all ranks take part.
 * Stages alone: no peers. */
static void find_peers(struct chain *chain, uint32_t *peers)
{
    struct an_context *context = chain->context;
    for (uint32_t k = 0; k < context->lane_count; k++)
        peers[k] = k;
    for (size_t i = 0, next; i < chain->calls->count; i = next) {
        const struct an_comm_call *call = &chain->calls->call[i];
        next = an_comm_next(chain->calls, i);
        if (call->transfer < 0 || !call->synchronises || next - i >= context->lane_count)
            continue;
        bool crosses = false; /* a collective along the pipeline */
        for (size_t k = i + 1; k < next; k++)
            crosses =
                crosses || root_of(chain, chain->calls->call[k].lane) == root_of(chain, call->lane);
        for (size_t k = i; k < next && !crosses; k++)
            if (call->lane < peers[chain->calls->call[k].lane])
                peers[chain->calls->call[k].lane] = call->lane;
    }
}

static int pipeline(struct an_context *context, const struct an_comm_calls *calls,
                    struct an_exchanges *out)
{
    struct chain p = {.context = context, .calls = calls};
    struct an_pipeline *r = &context->result->ranks.pipeline;
    bool chain = false;
    p.root = an_arena_zero(context->scratch, context->lane_count + 1, sizeof *p.root);
    int rc = p.root ? 0 : TACHO_ENOMEM;
    for (uint32_t k = 0; k < context->lane_count && !rc; k++)
        p.root[k] = k;
    rc = rc ? rc : find_links(&p);
    rc = rc ? rc : is_chain(&p, &chain);
    if (!rc && !p.links)
        no_pipeline(r, NO_SENDS);
    else if (!rc && !chain)
        no_pipeline(r, "sends and receives form no chain of stages");
    else if (!rc && !(rc = count_sends(&p)) && !(rc = bubble(&p, r))) {
        out->peers = an_arena_zero(context->scratch, context->lane_count + 1, sizeof *out->peers);
        if (out->peers)
            find_peers(&p, out->peers);
        rc = out->peers ? 0 : TACHO_ENOMEM;
    }
    free(p.link);
    return rc;
}

/* ---- experts ------------------------------------------------------------------------------------------------------------------ */

static int experts(struct an_context *context, const struct an_comm_calls *calls,
                   struct an_exchanges *out)
{
    struct an_experts *r = &context->result->ranks.experts;
    double sum = 0, most = 0;
    size_t ranks = 0;
    const char *none = "no all-to-all of known size";
    double *bytes = an_arena_zero(context->scratch, context->lane_count + 1, sizeof *bytes);
    if (!bytes)
        return TACHO_ENOMEM;
    for (size_t k = 0; k < context->lane_count; k++)
        bytes[k] = NAN;
    for (size_t i = 0; i < calls->count; i++) {
        const struct an_comm_call *k = &calls->call[i];
        if (!strcmp(k->kind, "all_to_all") && k->bytes != STORE_ABSENT &&
            k->lane < context->lane_count && k->step != AN_NONE)
            bytes[k->lane] = (isnan(bytes[k->lane]) ? 0 : bytes[k->lane]) + (double)k->bytes;
    }
    for (uint32_t k = 0; k < context->lane_count; k++) {
        if (isnan(bytes[k]))
            continue;
        bytes[k] /= (double)detailed_steps(context, k);
        sum += bytes[k];
        r->rank = !ranks++ || bytes[k] > most ? context->lane[k].rank : r->rank;
        most = fmax(most, bytes[k]);
    }
    out->all_to_all = bytes;
    r->reason = ranks > 1 && sum > 0 ? NULL : ranks == 1 ? "one rank: nothing to compare" : none;
    r->bytes_mean = r->reason ? an_num_none(r->reason) : an_num(sum / (double)ranks);
    r->bytes_max = r->reason ? an_num_none(r->reason) : an_num(most);
    r->max_over_mean = r->reason ? an_num_none(r->reason) : an_num(most * (double)ranks / sum);
    return 0;
}

int an_ranks_exchanges(struct an_context *context, const struct an_comm_calls *calls)
{
    struct an_exchanges *out = an_arena_zero(context->scratch, 1, sizeof *out);
    if (!out)
        return TACHO_ENOMEM;
    context->exchanges = out;
    int rc = pipeline(context, calls, out);
    return rc ? rc : experts(context, calls, out);
}

void an_ranks_no_exchanges(struct an_context *context, const char *reason)
{
    struct an_experts *experts = &context->result->ranks.experts;
    no_pipeline(&context->result->ranks.pipeline, reason);
    experts->reason = reason;
    experts->bytes_mean = experts->bytes_max = experts->max_over_mean = an_num_none(reason);
}
