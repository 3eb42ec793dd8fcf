/* SPDX-License-Identifier: Apache-2.0
 *
 * Fusion: chains of operators of which each passes its result to the next one, so that one kernel
 * could do all of them and what they pass on stays in registers.
 *
 * A chain is legal if its operators go over the same elements, at most one of them reduces rows, a
 * product comes first or not at all (what follows is its epilogue), and nothing between them
 * changes what an earlier one reads. What others read later is written all the same, so that only
 * the read is saved. Where only sizes are known, another reader cannot be excluded: in a step with
 * a backward pass a forward result is likely kept for it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/dataflow/price.h"

#define ROWS_MOST   20
#define LENGTH_MOST 8
#define GROUPS_MOST 1024 /* different chains that are told apart */
#define KEPT        "what is read again later is still written"

/* Chains of one list of names and bytes. */
struct group {
    const char *name[LENGTH_MOST];
    int64_t bytes, saved, launches; /* of one chain */
    size_t length, count, room;     /* count: chains */
    enum flow_how how;
    bool cached, kept;
    double *gain, *low, *high, *ns; /* of each chain */
};

struct fusion {
    struct an_context *context;
    struct group *group;
    size_t count, room, steps;
    double steps_ns;
    struct flow_price price;
    int64_t *chain; /* of each operator of the last flow: its group */
    size_t chain_room, chain_count;
};

struct chain {
    uint32_t op[LENGTH_MOST], edge[LENGTH_MOST]; /* edge[i] leads to op[i]; edge[0]: none */
    size_t length;
};

struct fusion *fusion_new(struct an_context *context)
{
    struct fusion *fusion = calloc(1, sizeof *fusion);
    if (fusion)
        fusion->context = context;
    return fusion;
}

int64_t fusion_chain_of(const struct fusion *fusion, uint32_t op)
{
    return op < fusion->chain_count ? fusion->chain[op] : -1;
}

/* ---- which operators are a chain --------------------------------------------------------------- */

static bool is_part(const struct flow_op *op)
{
    return (op->kind == FLOW_POINTWISE || op->kind == FLOW_REDUCTION || op->kind == FLOW_PRODUCT) &&
           flow_bytes(op) > 0 && op->written != STORE_ABSENT && op->ns > 0;
}

/* May `to` read in place what `from` gives? `reduced`: the chain has a reduction already. */
static bool may_follow(const struct flow_op *from, const struct flow_op *to, bool reduced,
                       bool product)
{
    if (!is_part(from) || !is_part(to) || to->kind == FLOW_PRODUCT || from->track != to->track)
        return false;
    if (to->kind == FLOW_REDUCTION && (reduced || product))
        return false;
    /* A reduction that leaves less than it read must see all of it before anyone goes on. */
    return from->kind != FLOW_REDUCTION || from->written * 4 >= from->read;
}

/* Is a tensor that `from` reads written between the two? Then `from` cannot move down to `to`. */
static bool is_disturbed(const struct flow *flow, uint32_t from, uint32_t to)
{
    const struct flow_op *reader = &flow->op[from];
    for (uint32_t between = from + 1; between < to; between++)
        for (size_t i = 0; i < flow->op[between].uses; i++) {
            const struct flow_use *write = &flow->use[flow->op[between].first_use + i];
            for (size_t j = 0; write->writes && j < reader->uses; j++)
                if (flow->use[reader->first_use + j].tensor == write->tensor)
                    return true;
        }
    return false;
}

#define BETWEEN_MOST 64   /* operators between two of a chain */
#define BESIDE       0.06 /* statistics of rows, as a share of the result beside them */

/* Do both ends of an edge go over the same elements? What is passed on is all that the first one
 * writes, but for statistics of rows; an element-wise one writes as much, a reduction has no larger
 * operand. */
static bool same_elements(const struct flow *flow, const struct flow_edge *edge)
{
    const struct flow_op *to = &flow->op[edge->to];
    int64_t beside = flow->op[edge->from].written - edge->bytes;
    if (beside < 0 || (double)beside > BESIDE * (double)edge->bytes)
        return false;
    for (size_t i = 0; i < to->uses && to->kind == FLOW_REDUCTION; i++)
        if (flow->use[to->first_use + i].bytes > edge->bytes)
            return false;
    return to->kind == FLOW_REDUCTION || to->written == edge->bytes;
}

/* Can the edge join its ends into one kernel? `first`: it leads to the first that reads what its
 * beginning writes, so that nothing waits for that in between. */
static bool joins(const struct flow *flow, const struct flow_edge *edge, bool first,
                  const struct chain *chain)
{
    bool reduced = false, product = false;
    for (size_t i = 0; i < chain->length; i++) {
        reduced |= flow->op[chain->op[i]].kind == FLOW_REDUCTION;
        product |= flow->op[chain->op[i]].kind == FLOW_PRODUCT;
    }
    if (!may_follow(&flow->op[edge->from], &flow->op[edge->to], reduced, product))
        return false;
    if (edge->how == FLOW_SIZE)
        return edge->to == edge->from + 1;
    return edge->how == FLOW_TENSOR && (edge->only || first) &&
           edge->to - edge->from <= BETWEEN_MOST && same_elements(flow, edge) &&
           !is_disturbed(flow, edge->from, edge->to);
}

/* Finds the chain that begins at an operator that no chain has. */
static void find_chain(const struct flow *flow, const uint32_t *first_edge, const bool *taken,
                       uint32_t first, struct chain *chain)
{
    *chain = (struct chain){.op = {first}, .length = 1};
    for (bool found = true; found && chain->length < LENGTH_MOST;) {
        uint32_t last = chain->op[chain->length - 1];
        found = false;
        for (uint32_t i = first_edge[last]; i < first_edge[last + 1] && !found; i++) {
            const struct flow_edge *edge = &flow->edge[i];
            found = !taken[edge->to] && joins(flow, edge, i == first_edge[last], chain);
            if (found) {
                chain->edge[chain->length] = i;
                chain->op[chain->length++] = edge->to;
            }
        }
    }
}

/* ---- what it saves ----------------------------------------------------------------------------- */

struct saving {
    double ns[3]; /* low, expected, high */
    int64_t bytes;
    bool cached, kept;
    enum flow_how how;
};

static void add_bytes(const struct fusion *fusion, const struct flow_op *op, double bytes,
                      bool writes, struct saving *saving)
{
    double ns[3];
    if (fusion->price.reason)
        return;
    flow_byte_ns(&fusion->price, op, bytes, writes, ns);
    for (int i = 0; i < 3; i++)
        saving->ns[i] += ns[i];
}

/* Is what an edge passes on read again later, so that it is written all the same? */
static bool is_kept(const struct flow *flow, const struct flow_edge *edge)
{
    return edge->how == FLOW_SIZE ? flow->backward && !strcmp(flow->op[edge->from].pass, "forward")
                                  : !edge->only;
}

/* What one edge of a chain saves: the write and the read of what is passed on. Behind a product the
 * writing is hidden by arithmetic, before and after; then the write of the next one goes. */
static void add_edge(const struct fusion *fusion, const struct flow *flow,
                     const struct flow_edge *edge, struct saving *saving)
{
    const struct flow_op *from = &flow->op[edge->from], *to = &flow->op[edge->to];
    bool kept = is_kept(flow, edge);
    double bytes = (double)edge->bytes;
    saving->how = edge->how > saving->how ? edge->how : saving->how;
    if (flow_in_cache(&fusion->price, from, to, flow->on_device)) {
        saving->cached = true;
        return;
    }
    saving->kept |= kept;
    saving->bytes += kept ? edge->bytes : 2 * edge->bytes;
    add_bytes(fusion, to, bytes, false, saving);
    struct saving write = {{0}, 0, false, false, FLOW_TENSOR};
    add_bytes(fusion, from->kind == FLOW_PRODUCT ? to : from, bytes, true, &write);
    saving->ns[2] += write.ns[2];
    saving->ns[1] += kept ? 0 : write.ns[1];
    saving->ns[0] += kept ? 0 : write.ns[0];
}

/* What the operators around a reduction still read and write, once they are one kernel with it. */
static void add_turns(const struct fusion *fusion, const struct flow *flow,
                      const struct chain *chain, struct saving *saving)
{
    const struct flow_op *reduction = NULL;
    double ns = 0;
    for (size_t i = 0; i < chain->length; i++)
        if (flow->op[chain->op[i]].kind == FLOW_REDUCTION)
            reduction = &flow->op[chain->op[i]];
    for (size_t i = 0; reduction && i < chain->length; i++) {
        const struct flow_op *op = &flow->op[chain->op[i]];
        double read = (double)op->read, written = (double)op->written;
        if (i)
            read -= (double)flow->edge[chain->edge[i]].bytes;
        if (i + 1 < chain->length && !is_kept(flow, &flow->edge[chain->edge[i + 1]]))
            written -= (double)flow->edge[chain->edge[i + 1]].bytes;
        ns += flow_turns_ns(&fusion->price, reduction, op, read, written);
    }
    for (int i = 0; i < 2; i++) /* the most it can be is without that */
        saving->ns[i] = fmax(0, saving->ns[i] - ns);
}

/* The fused kernel is no faster than the slowest operator that moves no more bytes than it: what
 * that operator needs besides its own bytes (a vector that every row reads) is not saved. */
static void cap_saving(const struct flow *flow, const struct chain *chain, struct saving *saving)
{
    int64_t bytes = -saving->bytes;
    double all = 0, slowest = 0;
    for (size_t i = 0; i < chain->length; i++)
        bytes += flow_bytes(&flow->op[chain->op[i]]);
    for (size_t i = 0; i < chain->length; i++) {
        const struct flow_op *op = &flow->op[chain->op[i]];
        all += (double)op->ns;
        if (flow_bytes(op) <= bytes)
            slowest = fmax(slowest, (double)op->ns);
    }
    for (int i = 0; i < 2; i++) /* the high end is not capped */
        saving->ns[i] = fmin(saving->ns[i], all - slowest);
}

static struct saving saving_of(const struct fusion *fusion, const struct flow *flow,
                               const struct chain *chain)
{
    struct saving saving = {{0}, 0, false, false, FLOW_TENSOR};
    for (size_t i = 1; i < chain->length; i++)
        add_edge(fusion, flow, &flow->edge[chain->edge[i]], &saving);
    if (!saving.bytes || fusion->price.reason)
        return saving;
    if (!flow->on_device) {
        add_turns(fusion, flow, chain, &saving);
        for (int i = 0; i < 3; i++)
            saving.ns[i] += fusion->price.overhead_ns * (double)(chain->length - 1);
    }
    cap_saving(flow, chain, &saving);
    return saving;
}

/* ---- chains of one kind ------------------------------------------------------------------------ */

static bool is_group(const struct group *group, const struct flow *flow, const struct chain *chain,
                     int64_t bytes, const struct saving *saving)
{
    bool same = group->length == chain->length && group->bytes == bytes &&
                group->saved == saving->bytes && group->how == saving->how;
    for (size_t i = 0; same && i < chain->length; i++)
        same = group->name[i] == flow->op[chain->op[i]].name;
    return same;
}

/* The group of a chain; NULL: there are too many, or no memory (*rc). */
static struct group *group_of(struct fusion *fusion, const struct flow *flow,
                              const struct chain *chain, const struct saving *saving, int *rc)
{
    int64_t bytes = 0, launches = 0;
    for (size_t i = 0; i < chain->length; i++) {
        bytes += flow_bytes(&flow->op[chain->op[i]]);
        launches += flow->op[chain->op[i]].launches;
    }
    for (size_t i = 0; i < fusion->count; i++)
        if (is_group(&fusion->group[i], flow, chain, bytes, saving))
            return &fusion->group[i];
    if (fusion->count == GROUPS_MOST)
        return NULL;
    *rc = an_grow(&fusion->group, &fusion->room, fusion->count + 1, sizeof *fusion->group);
    if (*rc)
        return NULL;
    struct group *group = &fusion->group[fusion->count++];
    *group = (struct group){.bytes = bytes,
                            .saved = saving->bytes,
                            .launches = launches - 1,
                            .length = chain->length,
                            .how = saving->how,
                            .cached = saving->cached,
                            .kept = saving->kept};
    for (size_t i = 0; i < chain->length; i++)
        group->name[i] = flow->op[chain->op[i]].name;
    return group;
}

static int add_chain(struct fusion *fusion, const struct flow *flow, const struct chain *chain)
{
    struct saving saving = saving_of(fusion, flow, chain);
    int rc = 0;
    struct group *group = group_of(fusion, flow, chain, &saving, &rc);
    if (!group)
        return rc;
    double **columns[] = {&group->low, &group->gain, &group->high, &group->ns};
    double ns = 0;
    for (size_t i = 0; i < chain->length; i++) {
        ns += (double)flow->op[chain->op[i]].ns;
        fusion->chain[chain->op[i]] = group - fusion->group;
    }
    if (group->count == group->room) {
        group->room = 2 * group->room + 16;
        for (size_t i = 0; i < 4; i++) {
            double *more = realloc(*columns[i], group->room * sizeof *more);
            if (!more)
                return TACHO_ENOMEM;
            *columns[i] = more;
        }
    }
    for (size_t i = 0; i < 3; i++)
        (*columns[i])[group->count] = saving.ns[i];
    group->ns[group->count++] = ns;
    return 0;
}

/* Edges are sorted by `to`; a chain needs those of an operator. */
static int edge_order(const void *left, const void *right)
{
    const struct flow_edge *first = left, *second = right;
    return 2 * AN_COMPARE(first->from, second->from) + AN_COMPARE(first->to, second->to);
}

/* Chains of memory-bound operators first; what is left may be the epilogue of a product. */
static int find_chains(struct fusion *fusion, const struct flow *flow, const uint32_t *first_edge,
                       bool *taken)
{
    int rc = 0;
    for (int products = 0; products < 2; products++)
        for (uint32_t op = 0; op < flow->count && !rc; op++) {
            struct chain chain;
            if (taken[op] || !is_part(&flow->op[op]) ||
                (flow->op[op].kind == FLOW_PRODUCT) != (products == 1))
                continue;
            find_chain(flow, first_edge, taken, op, &chain);
            if (chain.length < 2)
                continue;
            for (size_t i = 0; i < chain.length; i++)
                taken[chain.op[i]] = true;
            rc = add_chain(fusion, flow, &chain);
        }
    return rc;
}

int fusion_add(struct fusion *fusion, const struct flow *given)
{
    struct flow flow = *given; /* with edges in another order */
    uint32_t *first_edge = calloc(flow.count + 2, sizeof *first_edge);
    bool *taken = calloc(flow.count + 1, sizeof *taken);
    flow.edge = malloc((flow.edge_count + 1) * sizeof *flow.edge);
    int rc = first_edge && taken && flow.edge ? 0 : TACHO_ENOMEM;
    if (!rc)
        rc = an_grow(&fusion->chain, &fusion->chain_room, flow.count + 1, sizeof *fusion->chain);
    if (!rc) {
        if (flow.edge_count)
            memcpy(flow.edge, given->edge, flow.edge_count * sizeof *flow.edge);
        qsort(flow.edge, flow.edge_count, sizeof *flow.edge, edge_order);
        for (size_t i = 0; i < flow.edge_count; i++)
            first_edge[flow.edge[i].from + 1]++;
        for (size_t i = 0; i <= flow.count; i++)
            first_edge[i + 1] += first_edge[i];
        fusion->chain_count = flow.count;
        memset(fusion->chain, 0xff, flow.count * sizeof *fusion->chain); /* -1 */
        if (!fusion->steps++)
            fusion->price = flow_price_of(&flow);
        fusion->steps_ns += (double)an_step_ns(flow.step);
        rc = find_chains(fusion, &flow, first_edge, taken);
    }
    free(first_edge);
    free(taken);
    free(flow.edge);
    return rc;
}

/* ---- rows -------------------------------------------------------------------------------------- */

static const char *names_of(struct an_arena *arena, const struct group *group)
{
    const char *text = group->name[0];
    for (size_t i = 1; i < group->length; i++)
        text = an_arena_format(arena, "%s, %.80s", text, group->name[i]);
    return text;
}

/* A step's sum: the median of the chains, so that one that was interrupted does not count, times
 * how many a step has. */
static struct an_value per_step(const struct fusion *fusion, double *values, size_t count)
{
    return an_num(an_quantile_of(values, count, 0.5) * (double)count / (double)fusion->steps / 1e6);
}

static struct an_fusion_row row_of(struct fusion *fusion, const struct group *group)
{
    double chains = (double)group->count / (double)fusion->steps;
    const char *reason = fusion->price.reason, *memory = reason ? "unknown" : "memory";
    struct an_fusion_row row = {.operators = names_of(fusion->context->arena, group),
                                .how = flow_how_text(group->how),
                                .place = group->saved ? memory : "cache",
                                .note = group->kept ? KEPT : "",
                                .length = (int64_t)group->length,
                                .count = an_num(chains),
                                .ms = per_step(fusion, group->ns, group->count),
                                .bytes = an_num(chains * (double)group->bytes),
                                .saved_bytes = an_num(chains * (double)group->saved),
                                .launches_saved = an_num(chains * (double)group->launches),
                                .gain_ms = an_num_none(reason),
                                .gain_low_ms = an_num_none(reason),
                                .gain_high_ms = an_num_none(reason)};
    if (reason)
        return row;
    row.gain_ms = per_step(fusion, group->gain, group->count);
    row.gain_low_ms = per_step(fusion, group->low, group->count);
    row.gain_high_ms = per_step(fusion, group->high, group->count);
    return row;
}

static int row_order(const void *left, const void *right)
{
    const struct an_fusion_row *first = left, *second = right;
    double gains[] = {an_value_or_0(first->gain_ms), an_value_or_0(second->gain_ms)};
    if (gains[0] < gains[1] || gains[0] > gains[1])
        return gains[0] < gains[1] ? 1 : -1;
    return AN_COMPARE(second->saved_bytes.value, first->saved_bytes.value) * 2 +
           AN_COMPARE(second->ms.value, first->ms.value);
}

/* Fills the rows and their sums. */
static int fill(struct fusion *fusion, struct an_dataflow *out)
{
    struct an_fusion_row *row =
        an_arena_zero(fusion->context->arena, fusion->count + 1, sizeof *row);
    const char *reason = fusion->price.reason;
    double sum[3] = {0};
    if (!row)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < fusion->count; i++) {
        row[i] = row_of(fusion, &fusion->group[i]);
        sum[0] += an_value_or_0(row[i].gain_low_ms);
        sum[1] += an_value_or_0(row[i].gain_ms);
        sum[2] += an_value_or_0(row[i].gain_high_ms);
    }
    qsort(row, fusion->count, sizeof *row, row_order);
    out->fusion = row;
    out->fusion_count = fusion->count < ROWS_MOST ? fusion->count : ROWS_MOST;
    out->steps = fusion->steps;
    out->fusion_reason = reason;
    out->bandwidth_words = fusion->price.words;
    out->fusion_low_ms = an_num_if(!reason, sum[0], reason);
    out->fusion_gain_ms = an_num_if(!reason, sum[1], reason);
    out->fusion_high_ms = an_num_if(!reason, sum[2], reason);
    out->step_ms = an_num(fusion->steps_ns / (double)fusion->steps / 1e6);
    return 0;
}

int fusion_end(struct fusion *fusion)
{
    int rc = fusion->steps ? fill(fusion, &fusion->context->result->dataflow) : 0;
    for (size_t i = 0; i < fusion->count; i++) {
        free(fusion->group[i].gain);
        free(fusion->group[i].low);
        free(fusion->group[i].high);
        free(fusion->group[i].ns);
    }
    free(fusion->group);
    free(fusion->chain);
    free(fusion);
    return rc;
}
