/* SPDX-License-Identifier: Apache-2.0
 *
 * Chains: consecutive element-wise operators of one stream, step and size that memory limits. Fused
 * into one kernel, what one of them writes and the next one reads stays in registers. The trace
 * does not say which tensor that is: of two neighbours at most all that the smaller one writes,
 * half of its bytes, is neither written nor read again, so the bytes saved are an upper bound.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/work/bounds_private.h"

#define CHAINS_MOST 5
#define NAMES_MOST  6   /* operators of a chain that are named */
#define GROUPS_MOST 256 /* different chains that are told apart; all of them are in the sums */

/* The chain that a stream is in. */
struct chain {
    const struct an_step *step;       /* NULL: none */
    uint32_t call, names[NAMES_MOST]; /* the last call; the strings of the first ones */
    int64_t operators, ns, bytes, saved, elements;
};

/* Chains with the same names. */
struct group {
    uint32_t names[NAMES_MOST];
    struct an_chain_row row;
};

struct groups {
    struct an_bounds *bounds;
    struct group *group;
    size_t count, room;
    int64_t *elements; /* of the largest operand of each cost; -1: not asked for */
};

/* Operators that no compiler fuses with their neighbours: look-ups, and what is fused already. */
static bool stays_alone(const char *name)
{
    static const char *const parts[] = {"embedding",   "index",       "_fused_",    "aten::cat",
                                        "aten::stack", "aten::fill_", "aten::zero_"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(name, parts[i]))
            return true;
    return false;
}

/* Elements of the largest operand of a call; its bytes where the operands are not known. 0: no
 * memory. */
static int64_t elements_of(struct groups *groups, const struct an_call *call)
{
    int64_t *known = &groups->elements[call->cost];
    if (*known >= 0)
        return *known;
    struct an_context *context = groups->bounds->context;
    const struct an_op_args *args = an_bounds_args(context, call->slice);
    *known = 0;
    for (int i = 0; args && i < (int)args->count; i++) {
        const struct an_op_tensor *tensor = an_op_tensor_at(args, i);
        int64_t elements = tensor ? an_op_elements(tensor) : 0;
        *known = elements > *known ? elements : *known;
    }
    if (args && !*known)
        *known = context->calls->cost[call->cost].bytes;
    return *known;
}

static bool is_member(const struct an_bounds *bounds, size_t op)
{
    const struct an_context *context = bounds->context;
    uint32_t call = context->calls->of_op[op];
    if (bounds->op[op] != AN_BOUND_MEMORY && bounds->op[op] != AN_BOUND_BELOW_MEMORY)
        return false;
    const struct an_call *of = &context->calls->call[call];
    return context->calls->cost[of->cost].kind == AN_OP_OTHER &&
           !stays_alone(an_trace_name(context->trace, context->trace->slice.name[of->slice]));
}

/* The group of a chain. *rc: TACHO_ENOMEM. NULL: there are too many groups, too. */
static struct group *group_of(struct groups *groups, const struct chain *chain, int *rc)
{
    for (size_t i = 0; i < groups->count; i++)
        if (!memcmp(groups->group[i].names, chain->names, sizeof chain->names) &&
            groups->group[i].row.operators == chain->operators)
            return &groups->group[i];
    if (groups->count == GROUPS_MOST)
        return NULL;
    *rc = an_grow(&groups->group, &groups->room, groups->count + 1, sizeof *groups->group);
    if (*rc)
        return NULL;
    struct group *group = &groups->group[groups->count++];
    *group = (struct group){.row = {.operators = chain->operators}};
    memcpy(group->names, chain->names, sizeof group->names);
    return group;
}

/* Adds a chain that ended to its group, and begins a new one. */
static int end_chain(struct groups *groups, struct chain *chain)
{
    struct an_kernel_bounds *out = &groups->bounds->context->result->bounds;
    int rc = 0;
    struct group *group = chain->operators > 1 ? group_of(groups, chain, &rc) : NULL;
    if (group) {
        group->row.count++;
        group->row.total_ns = an_time_add(group->row.total_ns, chain->ns);
        group->row.bytes = an_time_add(group->row.bytes, chain->bytes);
        group->row.saved_bytes = an_time_add(group->row.saved_bytes, chain->saved);
    }
    if (chain->operators > 1) {
        out->chain_operators += chain->operators;
        out->chain_ns = an_time_add(out->chain_ns, chain->ns);
        out->chain_bytes = an_time_add(out->chain_bytes, chain->bytes);
        out->chain_saved_bytes = an_time_add(out->chain_saved_bytes, chain->saved);
    }
    *chain = (struct chain){.step = chain->step, .call = AN_NONE};
    return rc;
}

/* Adds a kernel to the chain of its stream. Several kernels of one call are one operator. */
static int add_member(struct groups *groups, struct chain *chain, size_t op)
{
    const struct an_context *context = groups->bounds->context;
    const struct an_calls *calls = context->calls;
    uint32_t call = calls->of_op[op];
    const struct an_call *of = &calls->call[call];
    int64_t ns = an_time_sub(context->gpu->op.end[op], context->gpu->op.start[op]);
    if (call != chain->call) {
        int64_t elements = elements_of(groups, of), bytes = calls->cost[of->cost].bytes;
        if (chain->operators && elements != chain->elements && end_chain(groups, chain))
            return TACHO_ENOMEM;
        if (chain->operators) {
            int64_t before = calls->cost[calls->call[chain->call].cost].bytes;
            chain->saved = an_time_add(chain->saved, bytes < before ? bytes : before);
        }
        if (chain->operators < NAMES_MOST)
            chain->names[chain->operators] = context->trace->slice.name[of->slice];
        chain->operators++;
        chain->elements = elements;
        chain->bytes = an_time_add(chain->bytes, bytes);
        chain->call = call;
    }
    chain->ns = an_time_add(chain->ns, ns);
    return 0;
}

/* The lane whose steps run on a device; NULL: none does. */
static const struct an_lane *lane_of(const struct an_context *context,
                                     const struct an_device *device)
{
    for (size_t i = 0; i < context->lane_count; i++)
        if (context->lane[i].device == device - context->gpu->device)
            return &context->lane[i];
    return NULL;
}

/* Walks over the ops of a device; each stream has a chain. */
static int walk(struct groups *groups, const struct an_device *device, struct chain *of_track)
{
    const struct an_bounds *bounds = groups->bounds;
    const struct an_context *context = bounds->context;
    const struct an_lane *lane = lane_of(context, device);
    int rc = 0;
    for (size_t op = device->first; op < an_device_end(device) && !rc; op++) {
        struct chain *chain = &of_track[context->gpu->op.track[op]];
        const struct an_step *step =
            lane ? an_step_at(context, lane, context->gpu->op.start[op]) : NULL;
        bool member = is_member(bounds, op);
        if (!member || step != chain->step)
            rc = end_chain(groups, chain);
        chain->step = step;
        rc = rc || !member ? rc : add_member(groups, chain, op);
    }
    return rc;
}

static int chain_order(const void *left, const void *right)
{
    const struct group *first = left, *second = right;
    if (first->row.total_ns != second->row.total_ns)
        return first->row.total_ns > second->row.total_ns ? -1 : 1;
    return memcmp(first->names, second->names, sizeof first->names);
}

/* "aten::mul, aten::add and 3 more" */
static const char *names_of(struct an_context *context, const struct group *group)
{
    const char *text = "";
    for (int64_t i = 0; i < group->row.operators && i < NAMES_MOST; i++)
        text = an_arena_format(context->arena, "%s%s%.60s", text, i ? ", " : "",
                               an_trace_name(context->trace, group->names[i]));
    if (group->row.operators > NAMES_MOST)
        text = an_arena_format(context->arena, "%s and %lld more", text,
                               (long long)(group->row.operators - NAMES_MOST));
    return text;
}

/* Keeps the groups with most time. What is left of the bytes takes at least their time at the
 * bandwidth of the memory. */
static int keep_groups(struct groups *groups)
{
    struct an_context *context = groups->bounds->context;
    struct an_kernel_bounds *out = &context->result->bounds;
    size_t count = groups->count < CHAINS_MOST ? groups->count : CHAINS_MOST;
    struct an_chain_row *rows = an_arena_zero(context->arena, count + 1, sizeof *rows);
    if (!rows)
        return TACHO_ENOMEM;
    if (groups->count)
        qsort(groups->group, groups->count, sizeof *groups->group, chain_order);
    for (size_t i = 0; i < count; i++) {
        rows[i] = groups->group[i].row;
        rows[i].names = names_of(context, &groups->group[i]);
    }
    out->chains = rows;
    out->chain_count = count;
    double left = (double)(out->chain_bytes - out->chain_saved_bytes);
    if (groups->bounds->bandwidth > 0)
        out->chain_fused_ns = (int64_t)(left / groups->bounds->bandwidth * 1e9);
    if (groups->bounds->bandwidth <= 0 || out->chain_fused_ns > out->chain_ns)
        out->chain_fused_ns = out->chain_ns;
    return 0;
}

int an_bounds_chains(struct an_bounds *bounds)
{
    struct an_context *context = bounds->context;
    struct groups groups = {.bounds = bounds};
    struct chain *of_track =
        an_arena_zero(context->scratch, context->trace->track_count + 1, sizeof *of_track);
    groups.elements =
        an_arena_zero(context->scratch, context->calls->costs + 1, sizeof *groups.elements);
    int rc = of_track && groups.elements ? 0 : TACHO_ENOMEM;
    for (size_t i = 0; !rc && i < context->calls->costs; i++)
        groups.elements[i] = -1;
    for (size_t i = 0; !rc && i < context->trace->track_count; i++)
        of_track[i].call = AN_NONE;
    for (size_t device = 0; device < context->gpu->device_count && !rc; device++)
        rc = walk(&groups, &context->gpu->device[device], of_track);
    for (size_t i = 0; !rc && i < context->trace->track_count; i++)
        rc = end_chain(&groups, &of_track[i]);
    rc = rc ? rc : keep_groups(&groups);
    free(groups.group);
    return rc;
}
