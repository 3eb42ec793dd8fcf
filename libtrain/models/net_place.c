/* SPDX-License-Identifier: Apache-2.0
 *
 * From a list of operations to memory: which values backward reads, what recomputation makes again,
 * when each value and gradient is needed, where it lies, and the pointers of all arguments.
 *
 * Time: forward of node i of N is at N i, its backward at N (2 N - i) - 1; node j of a block whose
 * last node is i is made again at N (2 N - i) - 1 - (i - j + 1), just before.
 */
#include <stdlib.h>
#include <string.h>

#include "libtrain/base/lifetimes.h"
#include "libtrain/models/net_private.h"
#include "libtrain/ops/random.h"
#include "tacho_error.h"

#define EACH_USE(net, node, use) \
    for (const struct net_use *use = (net)->use + (node)->first_use, *end_ = use + (node)->uses; \
         use < end_; use++)

static int forward_time(const struct lt_net *net, int node)
{
    return net->nodes * node;
}

static int backward_time(const struct lt_net *net, int node)
{
    return net->nodes * (2 * net->nodes - node) - 1;
}

/* The value that holds the gradient of value `id`; NET_NONE. */
static int gradient_of(const struct lt_net *net, int id)
{
    int holder = net->value[id].gradient;
    while (holder != NET_NONE && net->value[holder].gradient != holder)
        holder = net->value[holder].gradient;
    return holder;
}

static size_t floats_of(const struct lt_net *net, int id)
{
    const struct net_value *value = &net->value[id];
    size_t count = (size_t)(value->rows * value->width),
           size = value->floats ? sizeof(float) : lt_dtype_bytes(net->mode.dtype);
    return lt_arena_padded((count * size + sizeof(float) - 1) / sizeof(float));
}

/* ---- recomputation --------------------------------------------------------------------------- */

/* Whether the inner values of a block are made again. */
static int is_again(const struct lt_net *net, int block)
{
    return net->mode.recompute == LT_RECOMPUTE_BLOCK && block != NET_NONE &&
           block < net->blocks - 1;
}

/* From the end of each block: an operation is made again if backward, or another one that is made
 * again, needs one of its inner values. `needed`: a flag a value. */
static void mark_again(struct lt_net *net, char *needed)
{
    for (int i = 0; i < net->uses; i++)
        if (net->use[i].what == NET_VALUE && net->use[i].how & NET_BACK_READ)
            needed[net->use[i].id] = 1;
    for (int i = net->nodes - 1; i >= 0; i--) {
        struct net_node *node = &net->node[i];
        if (!is_again(net, node->block))
            continue;
        EACH_USE(net, node, use)
        if (use->what == NET_VALUE && use->how & NET_WRITE && needed[use->id] &&
            net->value[use->id].block != NET_NONE)
            node->again = 1;
        EACH_USE(net, node, use)
        if (node->again && use->what == NET_VALUE && use->how & NET_READ)
            needed[use->id] = 1;
    }
}

static int again_time(const struct lt_net *net, int node)
{
    int last = node;
    while (last + 1 < net->nodes && net->node[last + 1].block == net->node[node].block)
        last++;
    return backward_time(net, last) - (last - node + 1);
}

/* ---- lifetimes ------------------------------------------------------------------------------- */

static void extend(struct lt_lifetime *lifetime, int span, int time)
{
    while (lifetime->spans <= span) {
        lifetime->span[lifetime->spans].from = lifetime->span[lifetime->spans].to = time;
        lifetime->spans++;
    }
    if (time < lifetime->span[span].from)
        lifetime->span[span].from = time;
    if (time > lifetime->span[span].to)
        lifetime->span[span].to = time;
}

/* Value `use` of node i: its first span is that of forward; what a block has inside and makes again
 * has a second one. The classifier's gradient takes the place of the value. */
static void live_value(const struct lt_net *net, struct lt_lifetime *lifetime,
                       const struct net_use *use, int i)
{
    const struct net_node *node = &net->node[i];
    int again = is_again(net, net->value[use->id].block);
    if (use->how & (NET_READ | NET_WRITE)) {
        extend(lifetime, 0, forward_time(net, i));
        if (node->again)
            extend(lifetime, again, again_time(net, i));
    }
    if (use->how & NET_BACK_READ)
        extend(lifetime, again, backward_time(net, i));
}

/* Lifetimes of all values, then of all gradients. */
static void live(const struct lt_net *net, struct lt_lifetime *lifetimes)
{
    for (int i = 0; i < net->values; i++) {
        lifetimes[i].floats = lifetimes[net->values + i].floats = floats_of(net, i);
        if (net->value[i].fixed) {
            extend(&lifetimes[i], 0, 0);
            extend(&lifetimes[i], 0, backward_time(net, 0));
        }
    }
    for (int i = 0; i < net->nodes; i++)
        EACH_USE(net, &net->node[i], use)
        {
            if (use->what == NET_VALUE)
                live_value(net, &lifetimes[use->id], use, i);
            if (use->what != NET_GRADIENT)
                continue;
            int holder = gradient_of(net, use->id);
            int place = net->value[holder].in_place ? holder : net->values + holder;
            extend(&lifetimes[place], 0, backward_time(net, i));
        }
}

/* ---- order of gradients ---------------------------------------------------------------------- */

/* In the order of backward: the first operation that writes a gradient overwrites what is there,
 * the next ones add. One that cannot add must be the first. */
static int order_gradients(struct lt_net *net, char *written)
{
    for (int i = net->nodes - 1; i >= 0; i--) {
        struct net_node *node = &net->node[i];
        int flag = 0;
        EACH_USE(net, node, use)
        if (use->what == NET_ADD) {
            flag = written[gradient_of(net, use->id)];
            memcpy((char *)&node->args + use->member, &flag, sizeof flag);
        }
        EACH_USE(net, node, use)
        {
            if (use->what != NET_GRADIENT || !(use->how & NET_BACK_WRITE))
                continue;
            if (written[gradient_of(net, use->id)] && !flag)
                return TACHO_EINTERNAL;
            written[gradient_of(net, use->id)] = 1;
        }
    }
    return 0;
}

int lt_net_finish(struct lt_net *net)
{
    size_t values = (size_t)net->values;
    struct lt_lifetime *lifetimes = calloc(2 * values, sizeof *lifetimes);
    char *flags = calloc(2, values);
    int *order = calloc(2 * values, sizeof *order);
    int rc = lifetimes && flags && order ? net->error : TACHO_ENOMEM;
    if (rc == 0)
        rc = order_gradients(net, flags);
    if (rc == 0) {
        mark_again(net, flags + values);
        live(net, lifetimes);
        net->floats = lt_lifetimes_place(lifetimes, 2 * net->values, order, &net->live);
        for (int i = 0; i < net->values; i++) {
            net->value[i].at = lifetimes[i].at;
            net->value[i].slope = lifetimes[net->value[i].in_place ? i : net->values + i].at;
        }
        for (int i = 0; i < net->uses; i++)
            if (net->use[i].what == NET_SCRATCH && (size_t)net->use[i].count > net->scratch)
                net->scratch = (size_t)net->use[i].count;
    }
    free(lifetimes);
    free(flags);
    free(order);
    return rc;
}

void lt_net_memory(const struct lt_net *net, struct lt_memory_plan *out, double *share)
{
    size_t count = net->model.parameters.count, element = lt_dtype_bytes(net->mode.dtype);
    *out = (struct lt_memory_plan){0};
    out->tag[LT_MEMORY_PARAMETERS] =
        (sizeof(float) + (net->mode.dtype == LT_DTYPE_FP32 ? 0 : element)) * count;
    out->tag[LT_MEMORY_GRADIENTS] = sizeof(float) * count;
    out->tag[LT_MEMORY_ACTIVATIONS] = sizeof(float) * net->floats;
    out->tag[LT_MEMORY_WORKSPACE] = sizeof(float) * net->scratch;
    if (share)
        *share = net->live ? (double)net->floats / (double)net->live - 1 : 0;
}

const struct lt_parameters *lt_net_parameters(const struct lt_net *net)
{
    return &net->model.parameters;
}

/* ---- pointers -------------------------------------------------------------------------------- */

/* What the member of a use points to; NULL: to nothing, or to what a batch brings. */
static void *target_of(const struct lt_net *net, const struct net_use *use)
{
    const struct lt_parameters *parameters = &net->model.parameters;
    size_t element = net->tensor[use->id < net->tensors ? use->id : 0].first + (size_t)use->element;
    switch (use->what) {
    case NET_VALUE:
        return net->activation_arena.base + net->value[use->id].at;
    case NET_GRADIENT:
        return net->activation_arena.base + net->value[gradient_of(net, use->id)].slope;
    case NET_WEIGHT:
        return parameters->shadow ? (void *)(parameters->shadow + element)
                                  : (void *)(parameters->value + element);
    case NET_PARAMETER:
        return parameters->value + element;
    case NET_SLOPE:
        return parameters->grad + element;
    case NET_SCRATCH:
        return net->workspace_arena.base;
    default:
        return NULL;
    }
}

static void point(struct lt_net *net)
{
    for (int i = 0; i < net->nodes; i++)
        EACH_USE(net, &net->node[i], use)
        {
            void *target = target_of(net, use);
            if (target)
                memcpy((char *)&net->node[i].args + use->member, &target, sizeof target);
        }
}

/* One arena without tensors of its own; nothing for no floats. */
static int arena(struct lt_arena *arena, enum lt_memory_tag tag, size_t floats)
{
    float *base = NULL;
    struct lt_tensor whole = {.name = "net", .count = floats, .slot = &base};
    return floats ? lt_arena_create(arena, tag, &whole, 1) : 0;
}

/* Initial values of all tensors, each from its own stream of random numbers. */
static void initialise(struct lt_net *net, uint64_t seed)
{
    for (int i = 0; i < net->tensors; i++) {
        const struct lt_net_tensor *shape = &net->tensor[i].shape;
        int64_t count = shape->repeat * shape->rows * shape->columns;
        float *values = net->model.parameters.value + net->tensor[i].first;
        if (shape->deviation > 0)
            lt_random_fill(values, count, shape->deviation, lt_random_bits(seed, (uint64_t)i));
        for (int64_t j = 0; shape->deviation <= 0 && j < count; j++)
            values[j] = shape->constant;
    }
    if (net->turns != NET_NONE)
        lt_rope_turns(net->activation_arena.base + net->value[net->turns].at, net->model.t,
                      net->value[net->turns].width, net->base);
}

int lt_net_allocate(struct lt_net *net, uint64_t seed, const int64_t shape[LT_SHAPE_CAP])
{
    struct lt_parameters *parameters = &net->model.parameters;
    size_t half = net->mode.dtype == LT_DTYPE_FP32 ? 0 : (parameters->count + 1) / 2;
    int rc = arena(&net->value_arena, LT_MEMORY_PARAMETERS, parameters->count);
    rc = rc ? rc : arena(&net->shadow_arena, LT_MEMORY_PARAMETERS, half);
    rc = rc ? rc : arena(&net->grad_arena, LT_MEMORY_GRADIENTS, parameters->count);
    rc = rc ? rc : arena(&net->activation_arena, LT_MEMORY_ACTIVATIONS, net->floats);
    rc = rc ? rc : arena(&net->workspace_arena, LT_MEMORY_WORKSPACE, net->scratch);
    if (rc)
        return rc;
    parameters->value = net->value_arena.base;
    parameters->grad = net->grad_arena.base;
    parameters->shadow = (uint16_t *)(void *)net->shadow_arena.base;
    parameters->shadow_dtype = net->mode.dtype;
    for (int i = 0; i < LT_SHAPE_CAP; i++)
        net->model.shape[i] = shape[i];
    initialise(net, seed);
    lt_parameters_refresh(parameters);
    point(net);
    return 0;
}
