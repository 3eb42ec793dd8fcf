/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of each call of an operator. A payload is parsed once, and equal calls share a cost.
 * Convolutions of old traces do not record their strides: there the gradient that came back to the
 * same autograd node has the shape of the result.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/radix.h"
#include "analyzers/work/attribution_private.h"

#define NOT_ASKED (-2)
#define LEVELS_UP 4 /* from a convolution's kernel to the operator that autograd numbered */

struct coster {
    struct an_context *context;
    const struct an_trace *trace;
    struct an_calls *calls;
    size_t room;
    int16_t *op_of_name;      /* of strings: number of the operator, NOT_ASKED */
    struct an_op_args **args; /* of details */
    uint64_t *key;            /* hash of name and detail -> cost: open addressing */
    uint32_t *value;
    size_t buckets, used;
    struct an_pair *gradient; /* backward operators by sequence number: value is the slice */
    size_t gradients;
    bool gradients_known;
};

static int op_of(struct coster *coster, uint32_t slice)
{
    uint32_t id = coster->trace->slice.name[slice];
    if (id >= coster->trace->string_count)
        return -1;
    if (coster->op_of_name[id] == NOT_ASKED)
        coster->op_of_name[id] = (int16_t)an_op_find(coster->trace->string[id]);
    return coster->op_of_name[id];
}

/* The arguments of a slice, parsed once per payload. NULL: no memory. */
static const struct an_op_args *args_of(struct coster *coster, uint32_t slice)
{
    static const struct an_op_args none = {.count = 0};
    uint32_t id = coster->trace->slice.detail[slice];
    const struct an_detail *detail = an_trace_detail(coster->trace, id);
    if (!detail || !*detail->payload || strncmp(detail->schema, "torch.", 6))
        return &none;
    if (!coster->args[id]) {
        coster->args[id] = an_arena_zero(coster->context->scratch, 1, sizeof **coster->args);
        if (!coster->args[id] ||
            an_op_args_parse(coster->context->scratch, detail->payload, coster->args[id]))
            return NULL;
    }
    return coster->args[id];
}

static int cost_add(struct coster *coster, struct an_op_cost cost, uint32_t *out)
{
    if (an_grow(&coster->calls->cost, &coster->room, coster->calls->costs + 1, sizeof cost))
        return TACHO_ENOMEM;
    *out = (uint32_t)coster->calls->costs;
    coster->calls->cost[coster->calls->costs++] = cost;
    return 0;
}

/* ---- costs that equal calls share ------------------------------------------------------------ */

/* Doubles the hash table of costs. */
static int table_grow(struct coster *coster)
{
    size_t buckets = coster->buckets ? 2 * coster->buckets : 1024;
    uint64_t *key = an_arena_zero(coster->context->scratch, buckets, sizeof *key);
    uint32_t *value = an_arena_zero(coster->context->scratch, buckets, sizeof *value);
    if (!key || !value)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < coster->buckets; i++) {
        if (!coster->value[i])
            continue;
        size_t place = (size_t)(coster->key[i] * 0x9e3779b97f4a7c15u >> 20) & (buckets - 1);
        while (value[place])
            place = (place + 1) & (buckets - 1);
        key[place] = coster->key[i];
        value[place] = coster->value[i];
    }
    coster->key = key;
    coster->value = value;
    coster->buckets = buckets;
    return 0;
}

/* Place of the cost of a name and detail; 0 in it: not known yet, else index + 1. NULL: out of
 * memory. */
static uint32_t *shared(struct coster *coster, uint32_t slice)
{
    uint64_t key =
        (uint64_t)coster->trace->slice.name[slice] << 32 | coster->trace->slice.detail[slice];
    if (2 * coster->used >= coster->buckets && table_grow(coster))
        return NULL;
    size_t place = (size_t)(key * 0x9e3779b97f4a7c15u >> 20) & (coster->buckets - 1);
    while (coster->value[place] && coster->key[place] != key)
        place = (place + 1) & (coster->buckets - 1);
    coster->used += !coster->value[place];
    coster->key[place] = key;
    return &coster->value[place];
}

static int64_t known_or_0(int64_t bytes)
{
    return bytes == STORE_ABSENT ? 0 : bytes;
}

/* A payload of tacho.work contains its cost. */
static struct an_op_cost cost_of_work(const struct an_detail *detail)
{
    static const struct {
        const char *kind;
        enum an_op_kind is;
    } kinds[] = {{"matrix", AN_OP_MATRIX},
                 {"attention", AN_OP_ATTENTION},
                 {"convolution", AN_OP_CONVOLUTION}};
    bool none = detail->bytes_read == STORE_ABSENT && detail->bytes_written == STORE_ABSENT;
    struct an_op_cost cost = {
        AN_OP_OTHER,   detail->flops, detail->model_flops, detail->palm_flops, STORE_ABSENT,
        detail->dtype, NULL};
    if (!none)
        cost.bytes = an_op_add(known_or_0(detail->bytes_read), known_or_0(detail->bytes_written));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(detail->kind, kinds[i].kind))
            cost.kind = kinds[i].is;
    if (!*detail->kind && detail->flops != STORE_ABSENT)
        cost.kind = AN_OP_MATRIX; /* as an_detail.hardware: a payload without a kind counts */
    if (detail->flops == STORE_ABSENT)
        cost.reason = "its payload does not declare its FLOPs";
    return cost;
}

/* ---- costs from other operators -------------------------------------------------------------- */

/* Collects the operators of backward that have a payload, sorted by their autograd number. */
static int find_gradients(struct coster *coster)
{
    const struct an_trace *trace = coster->trace;
    size_t count = 0, room = 0;
    struct an_pair *work = NULL;
    coster->gradients_known = true;
    for (size_t i = 0; i < trace->slice.count; i++) {
        const struct an_detail *detail = an_slice_sequence(trace, i) == STORE_ABSENT
                                             ? NULL
                                             : an_trace_detail(trace, trace->slice.detail[i]);
        if (!detail || strcmp(detail->pass, "backward") || !*detail->payload)
            continue;
        if (an_grow(&coster->gradient, &room, count + 1, sizeof *coster->gradient))
            return TACHO_ENOMEM;
        coster->gradient[count++] =
            (struct an_pair){an_pair_key(trace->slice.correlation[i]), (uint32_t)i, 0};
    }
    coster->gradients = count;
    if (!(work = malloc((count ? count : 1) * sizeof *work)))
        return TACHO_ENOMEM;
    if (count)
        an_pairs_sort(coster->gradient, work, count);
    free(work);
    return 0;
}

/* Shape of the gradient that came back to the operator `slice` of number `number`: the first
 * backward operator of the number that began later and has one. NULL: none in the file. */
static const struct an_op_tensor *gradient_of(struct coster *coster, uint32_t slice, int64_t number)
{
    uint64_t key = an_pair_key(number);
    size_t low = an_pairs_seek(coster->gradient, coster->gradients, key);
    const struct an_op_tensor *best = NULL;
    int64_t best_start = INT64_MAX, after = coster->trace->slice.start[slice];
    for (size_t i = low; i < coster->gradients && coster->gradient[i].key == key && i < low + 64;
         i++) {
        uint32_t slice_of = coster->gradient[i].value;
        int64_t start = coster->trace->slice.start[slice_of];
        const struct an_op_args *args =
            start >= after && start < best_start ? args_of(coster, slice_of) : NULL;

        const struct an_op_tensor *op_tensor = args ? an_op_tensor_at(args, 0) : NULL;
        if (op_tensor && op_tensor->rank) {
            best = op_tensor;
            best_start = start;
        }
    }
    return best;
}

/* Cost of a call that its own payload does not tell, from the operators around it and from
 * backward. */
static int cost_in_context(struct coster *coster, uint32_t slice, int op,
                           const struct an_op_args *args, struct an_op_cost *cost)
{
    const struct an_slices *slices = &coster->trace->slice;
    struct an_op_context context = {NULL, NULL};
    uint32_t outer = slice;
    if (!coster->gradients_known && find_gradients(coster))
        return TACHO_ENOMEM;
    for (int levels = LEVELS_UP; levels && outer != AN_NONE && !context.output; levels--) {
        if (an_slice_sequence(coster->trace, outer) != STORE_ABSENT && op_of(coster, outer) >= 0)
            context.output = gradient_of(coster, slice, slices->correlation[outer]);
        outer = slices->parent[outer];
    }
    if (slices->parent[slice] != AN_NONE &&
        !(context.outer = args_of(coster, slices->parent[slice])))
        return TACHO_ENOMEM;
    *cost = an_op_cost(op, args, &context);
    return 0;
}

/* Finds the cost of a call. A convolution whose payload does not suffice is looked at again with
 * the operators around it. */
static int cost_call(struct coster *coster, struct an_call *call)
{
    const struct an_detail *detail =
        an_trace_detail(coster->trace, coster->trace->slice.detail[call->slice]);
    uint32_t *place = shared(coster, call->slice);
    if (!place)
        return TACHO_ENOMEM;
    if (!*place) {
        int op = op_of(coster, call->slice);
        const struct an_op_args *args = args_of(coster, call->slice);
        if (!args)
            return TACHO_ENOMEM;
        struct an_op_cost cost = detail && detail->role == AN_ROLE_WORK
                                     ? cost_of_work(detail)
                                     : an_op_cost(op, args, NULL);
        if (cost_add(coster, cost, place))
            return TACHO_ENOMEM;
        ++*place;
        coster->calls->shapes =
            coster->calls->shapes || args->shapes || (detail && detail->role == AN_ROLE_WORK);
    }
    call->cost = *place - 1;
    struct an_op_cost cost = coster->calls->cost[call->cost];
    const struct an_op_args *args = args_of(coster, call->slice);
    if (cost.kind != AN_OP_CONVOLUTION || (!cost.reason && cost.bytes != STORE_ABSENT) || !args ||
        !args->shapes)
        return 0;
    int rc = cost_in_context(coster, call->slice, op_of(coster, call->slice), args, &cost);
    return rc || cost.reason ? rc : cost_add(coster, cost, &call->cost);
}

int an_attribution_costs(struct an_context *context)
{
    struct coster coster = {.context = context, .trace = context->trace, .calls = context->calls};
    size_t strings = context->trace->string_count + 1;
    int rc = 0;
    coster.op_of_name = an_arena_zero(context->scratch, strings, sizeof *coster.op_of_name);
    coster.args =
        an_arena_zero(context->scratch, context->trace->detail_count + 1, sizeof *coster.args);
    if (!coster.op_of_name || !coster.args)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < strings; i++)
        coster.op_of_name[i] = NOT_ASKED;
    for (size_t i = 0; i < context->calls->count && !rc; i++)
        rc = cost_call(&coster, &context->calls->call[i]);
    struct an_op_cost *cost = rc ? NULL
                                 : an_arena_copy(context->scratch, context->calls->cost,
                                                 context->calls->costs * sizeof *cost);
    free(context->calls->cost);
    free(coster.gradient);
    context->calls->cost = cost;
    return rc || (!cost && context->calls->costs) ? TACHO_ENOMEM : 0;
}
