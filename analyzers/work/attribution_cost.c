/* SPDX-License-Identifier: Apache-2.0
 *
 * What each call of an operator cost. Payloads are parsed once each, and equal calls share a cost.
 * Convolutions of old traces do not say their strides: there the gradient that came back to the
 * same autograd node has the shape of the result.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/radix.h"
#include "analyzers/work/attribution.h"

#define NOT_ASKED (-2)
#define LEVELS_UP 4 /* from a convolution's kernel to the operator that autograd numbered */

struct coster {
    struct an_context *c;
    const struct an_trace *t;
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

static int op_of(struct coster *k, uint32_t slice)
{
    uint32_t id = k->t->slice.name[slice];
    if (id >= k->t->string_count)
        return -1;
    if (k->op_of_name[id] == NOT_ASKED)
        k->op_of_name[id] = (int16_t)an_op_find(k->t->string[id]);
    return k->op_of_name[id];
}

static const struct an_op_args *args_of(struct coster *k, uint32_t slice)
{
    static const struct an_op_args none = {.count = 0};
    uint32_t id = k->t->slice.detail[slice];
    const struct an_detail *d = an_trace_detail(k->t, id);
    if (!d || !*d->payload || strncmp(d->schema, "torch.", 6))
        return &none;
    if (!k->args[id]) {
        k->args[id] = an_arena_zero(k->c->work, 1, sizeof **k->args);
        if (!k->args[id] || an_op_args_parse(k->c->work, d->payload, k->args[id]))
            return NULL;
    }
    return k->args[id];
}

static int cost_add(struct coster *k, struct an_op_cost cost, uint32_t *out)
{
    if (an_grow(&k->calls->cost, &k->room, k->calls->costs + 1, sizeof cost))
        return TACHO_ENOMEM;
    *out = (uint32_t)k->calls->costs;
    k->calls->cost[k->calls->costs++] = cost;
    return 0;
}

/* ---- costs that equal calls share ------------------------------------------------------------------------------------------ */

static int table_grow(struct coster *k)
{
    size_t n = k->buckets ? 2 * k->buckets : 1024;
    uint64_t *key = an_arena_zero(k->c->work, n, sizeof *key);
    uint32_t *value = an_arena_zero(k->c->work, n, sizeof *value);
    if (!key || !value)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < k->buckets; i++) {
        if (!k->value[i])
            continue;
        size_t h = (size_t)(k->key[i] * 0x9e3779b97f4a7c15u >> 20) & (n - 1);
        while (value[h])
            h = (h + 1) & (n - 1);
        key[h] = k->key[i];
        value[h] = k->value[i];
    }
    k->key = key;
    k->value = value;
    k->buckets = n;
    return 0;
}

/* Place of the cost of a name and detail; 0 in it: not known yet, else index + 1. NULL: out of
 * memory. */
static uint32_t *shared(struct coster *k, uint32_t slice)
{
    uint64_t key = (uint64_t)k->t->slice.name[slice] << 32 | k->t->slice.detail[slice];
    if (2 * k->used >= k->buckets && table_grow(k))
        return NULL;
    size_t h = (size_t)(key * 0x9e3779b97f4a7c15u >> 20) & (k->buckets - 1);
    while (k->value[h] && k->key[h] != key)
        h = (h + 1) & (k->buckets - 1);
    k->used += !k->value[h];
    k->key[h] = key;
    return &k->value[h];
}

/* A payload of tacho.work says its cost itself. */
static struct an_op_cost cost_of_work(const struct an_detail *d)
{
    static const struct {
        const char *kind;
        enum an_op_kind is;
    } kinds[] = {{"matrix", AN_OP_MATRIX},
                 {"attention", AN_OP_ATTENTION},
                 {"convolution", AN_OP_CONVOLUTION}};
    bool none = d->bytes_read == STORE_ABSENT && d->bytes_written == STORE_ABSENT;
    struct an_op_cost c = {AN_OP_OTHER, d->flops, d->model_flops, d->palm_flops, STORE_ABSENT,
                           d->dtype,    NULL};
    if (!none)
        c.bytes = an_op_add(d->bytes_read == STORE_ABSENT ? 0 : d->bytes_read,
                            d->bytes_written == STORE_ABSENT ? 0 : d->bytes_written);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(d->kind, kinds[i].kind))
            c.kind = kinds[i].is;
    if (!*d->kind && d->flops != STORE_ABSENT)
        c.kind = AN_OP_MATRIX; /* as an_detail.hardware: a payload without a kind counts */
    if (d->flops == STORE_ABSENT)
        c.reason = "its payload does not say its FLOPs";
    return c;
}

/* ---- what the surroundings tell --------------------------------------------------------------------------------------------- */

static int find_gradients(struct coster *k)
{
    const struct an_trace *t = k->t;
    size_t n = 0, room = 0;
    struct an_pair *work = NULL;
    k->gradients_known = true;
    for (size_t i = 0; i < t->slice.count; i++) {
        const struct an_detail *d =
            t->slice.correlation[i] == STORE_ABSENT ? NULL : an_trace_detail(t, t->slice.detail[i]);
        if (!d || strcmp(d->pass, "backward") || !*d->payload)
            continue;
        if (an_grow(&k->gradient, &room, n + 1, sizeof *k->gradient))
            return TACHO_ENOMEM;
        k->gradient[n++] = (struct an_pair){an_pair_key(t->slice.correlation[i]), (uint32_t)i, 0};
    }
    k->gradients = n;
    if (!(work = malloc((n ? n : 1) * sizeof *work)))
        return TACHO_ENOMEM;
    if (n)
        an_pairs_sort(k->gradient, work, n);
    free(work);
    return 0;
}

/* Shape of the gradient that came back to the operator `slice` of number `number`: the first
 * backward operator of the number that began later and has one. NULL: none in the file. */
static const struct an_op_tensor *gradient_of(struct coster *k, uint32_t slice, int64_t number)
{
    size_t low = 0, high = k->gradients;
    const struct an_op_tensor *best = NULL;
    int64_t best_start = INT64_MAX, after = k->t->slice.start[slice];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (k->gradient[middle].key < an_pair_key(number))
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t i = low;
         i < k->gradients && k->gradient[i].key == an_pair_key(number) && i < low + 64; i++) {
        uint32_t g = k->gradient[i].value;
        const struct an_op_args *args =
            k->t->slice.start[g] >= after && k->t->slice.start[g] < best_start ? args_of(k, g)
                                                                               : NULL;
        const struct an_op_tensor *x = args ? an_op_tensor_at(args, 0) : NULL;
        if (x && x->rank) {
            best = x;
            best_start = k->t->slice.start[g];
        }
    }
    return best;
}

/* Cost of a call that its own payload does not tell, from the operators around it and from
 * backward. */
static int cost_in_context(struct coster *k, uint32_t slice, int op, const struct an_op_args *args,
                           struct an_op_cost *cost)
{
    const struct an_slices *x = &k->t->slice;
    struct an_op_context context = {NULL, NULL};
    uint32_t up = slice;
    if (!k->gradients_known && find_gradients(k))
        return TACHO_ENOMEM;
    for (int levels = LEVELS_UP; levels && up != AN_NONE && !context.output; levels--) {
        if (x->correlation[up] != STORE_ABSENT && op_of(k, up) >= 0)
            context.output = gradient_of(k, slice, x->correlation[up]);
        up = x->parent[up];
    }
    if (x->parent[slice] != AN_NONE && !(context.outer = args_of(k, x->parent[slice])))
        return TACHO_ENOMEM;
    *cost = an_op_cost(op, args, &context);
    return 0;
}

static int cost_call(struct coster *k, struct an_call *call)
{
    const struct an_detail *d = an_trace_detail(k->t, k->t->slice.detail[call->slice]);
    uint32_t *place = shared(k, call->slice);
    if (!place)
        return TACHO_ENOMEM;
    if (!*place) {
        int op = op_of(k, call->slice);
        const struct an_op_args *args = args_of(k, call->slice);
        if (!args)
            return TACHO_ENOMEM;
        struct an_op_cost cost =
            d && d->role == AN_ROLE_WORK ? cost_of_work(d) : an_op_cost(op, args, NULL);
        if (cost_add(k, cost, place))
            return TACHO_ENOMEM;
        ++*place;
        k->calls->shapes = k->calls->shapes || args->shapes || (d && d->role == AN_ROLE_WORK);
    }
    call->cost = *place - 1;
    struct an_op_cost cost = k->calls->cost[call->cost];
    const struct an_op_args *args = args_of(k, call->slice);
    if (cost.kind != AN_OP_CONVOLUTION || (!cost.reason && cost.bytes != STORE_ABSENT) || !args ||
        !args->shapes)
        return 0;
    int rc = cost_in_context(k, call->slice, op_of(k, call->slice), args, &cost);
    return rc || cost.reason ? rc : cost_add(k, cost, &call->cost);
}

int an_attribution_costs(struct an_context *c)
{
    struct coster k = {.c = c, .t = c->t, .calls = c->calls};
    size_t strings = c->t->string_count + 1;
    int rc = 0;
    k.op_of_name = an_arena_zero(c->work, strings, sizeof *k.op_of_name);
    k.args = an_arena_zero(c->work, c->t->detail_count + 1, sizeof *k.args);
    if (!k.op_of_name || !k.args)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < strings; i++)
        k.op_of_name[i] = NOT_ASKED;
    for (size_t i = 0; i < c->calls->count && !rc; i++)
        rc = cost_call(&k, &c->calls->call[i]);
    struct an_op_cost *cost =
        rc ? NULL : an_arena_copy(c->work, c->calls->cost, c->calls->costs * sizeof *cost);
    free(c->calls->cost);
    free(k.gradient);
    c->calls->cost = cost;
    return rc || (!cost && c->calls->costs) ? TACHO_ENOMEM : 0;
}
