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
#include "tacho_nvtx.h"

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
    return block != NET_NONE && net->remade[block];
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
    if (use->how & (NET_BACK_READ | NET_BACK_WRITE))
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
int lt_net_order_gradients(struct lt_net *net)
{
    unsigned char *written = calloc(1, (size_t)net->values + 1);
    int rc = written ? 0 : TACHO_ENOMEM;
    for (int i = net->nodes - 1; rc == 0 && i >= 0; i--) {
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
                rc = TACHO_EINTERNAL;
            written[gradient_of(net, use->id)] = 1;
        }
    }
    free(written);
    return rc;
}

/* What a placement works on. */
struct placing {
    struct lt_lifetime *lifetimes;
    char *needed;
    int *order;
};

static int begin_placing(struct placing *placing, struct lt_net *net)
{
    size_t values = (size_t)net->values;
    *placing = (struct placing){.lifetimes = calloc(2 * values, sizeof *placing->lifetimes),
                                .needed = calloc(1, values),
                                .order = calloc(2 * values, sizeof *placing->order)};
    if (!placing->lifetimes || !placing->needed || !placing->order)
        return TACHO_ENOMEM;
    for (int i = 0; i < net->nodes; i++)
        net->node[i].again = 0;
    mark_again(net, placing->needed);
    live(net, placing->lifetimes);
    return 0;
}

static void end_placing(struct placing *placing)
{
    free(placing->lifetimes);
    free(placing->needed);
    free(placing->order);
}

int lt_net_place(struct lt_net *net)
{
    struct placing placing;
    int rc = begin_placing(&placing, net);
    if (rc == 0) {
        const struct lt_lifetime *lifetimes = placing.lifetimes;
        net->floats = lt_lifetimes_place(placing.lifetimes, 2 * net->values, placing.order, NULL);
        for (int i = 0; i < net->values; i++) {
            net->value[i].at = lifetimes[i].at;
            net->value[i].slope = lifetimes[net->value[i].in_place ? i : net->values + i].at;
        }
    }
    end_placing(&placing);
    return rc;
}

/* The block that runs at `time`, forward or backward; between blocks the next one of the list, and
 * after the last one their number. */
static int block_at(const struct lt_net *net, int time)
{
    int count = net->nodes, node = time / count;
    if (time >= count * count)
        node = 2 * count - (time + count) / count;
    while (node < count && net->node[node].block == NET_NONE)
        node++;
    return node < count ? net->node[node].block : net->blocks;
}

/* What waits in a block that is not made again: what backward reads. */
static void sum_kept(struct lt_net *net, char *counted, struct net_block_cost *out)
{
    memset(counted, 0, (size_t)net->values);
    for (int i = 0; i < net->uses; i++) {
        const struct net_use *use = &net->use[i];
        if (use->what != NET_VALUE || !(use->how & NET_BACK_READ) || counted[use->id] ||
            net->value[use->id].block == NET_NONE)
            continue;
        counted[use->id] = 1;
        out[net->value[use->id].block].kept += floats_of(net, use->id);
    }
}

int lt_net_block_costs(struct lt_net *net, struct net_block_cost *out)
{
    struct placing placing;
    struct lt_context context = {.backend = LT_BACKEND_CPU, .dtype = net->mode.dtype};
    struct tacho_work work;
    int rc = begin_placing(&placing, net);
    for (int i = 0; rc == 0 && i < 2 * net->values; i++)
        for (int j = 0; j < placing.lifetimes[i].spans; j++) {
            int time = placing.lifetimes[i].span[j].from, block = block_at(net, time);
            size_t there = lt_lifetimes_live(placing.lifetimes, 2 * net->values, time);
            out[block].live = there > out[block].live ? there : out[block].live;
        }
    for (int i = 0; rc == 0 && i < net->nodes; i++)
        if (net->node[i].again && net->node[i].forward >= 0) {
            lt_op_work((enum lt_op_id)net->node[i].forward, &context, &net->node[i].args, &work);
            out[net->node[i].block].flops += work.flops;
        }
    if (rc == 0)
        sum_kept(net, placing.needed, out);
    end_placing(&placing);
    return rc;
}

/* ---- pointers -------------------------------------------------------------------------------- */

float *lt_net_value_at(const struct lt_net *net, int id)
{
    return net->activation_arena.base + (size_t)net->slot * net->floats + net->value[id].at;
}

float *lt_net_gradient_at(const struct lt_net *net, int id)
{
    return net->activation_arena.base + (size_t)net->slot * net->floats +
           net->value[gradient_of(net, id)].slope;
}

/* What the member of a use points to; NULL: to nothing, or to what a batch brings. */
static void *target_of(const struct lt_net *net, const struct net_use *use)
{
    const struct lt_parameters *parameters = &net->model.parameters;
    size_t element = net->tensor[use->id < net->tensors ? use->id : 0].first + (size_t)use->element;
    switch (use->what) {
    case NET_VALUE:
        return lt_net_value_at(net, use->id);
    case NET_GRADIENT:
        return lt_net_gradient_at(net, use->id);
    case NET_WEIGHT:
        return parameters->shadow ? (void *)(parameters->shadow + element)
                                  : (void *)(parameters->value + element);
    case NET_PARAMETER:
        return parameters->value + element;
    case NET_SLOPE:
        return parameters->grad + element;
    case NET_SCRATCH:
        return net->workspace_arena.base;
    case NET_STATE:
        return net->state_arena.base + use->element;
    default:
        return NULL;
    }
}

void lt_net_point(struct lt_net *net)
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

struct lt_slice lt_net_whole(const struct lt_net *net, struct lt_parameters *out)
{
    struct lt_slice slice = {
        .first = net->first, .rank = net->ranks.rank, .ranks = net->ranks.ranks, .part = net->part};
    *out = (struct lt_parameters){0};
    for (int i = 0; i < net->tensors; i++) {
        const struct lt_net_tensor *shape = &net->tensor[i].shape;
        struct lt_weight weight = lt_net_weight(shape);
        int parts = shape->parts > 1 ? shape->parts : 1;
        weight.repeat = shape->whole ? shape->whole : parts * shape->repeat;
        weight.each *= parts;
        weight.rows = shape->all_rows ? shape->all_rows : shape->rows;
        weight.columns = shape->all_columns ? shape->all_columns : shape->columns;
        weight.lead = shape->lead;
        lt_parameters_add(out, weight, shape->role != LT_WEIGHT_VECTOR);
    }
    out->matrix = net->model.parameters.matrix;
    return slice;
}

/* One tensor while it is filled. */
struct filling {
    float *values;
    size_t first; /* of the tensor in the whole model */
    const struct lt_net_tensor *shape;
    uint64_t key;
};

/* Every element has the value that the whole model has there: a normal one, or the constant. */
static void fill(void *arg, size_t from, size_t to, size_t count)
{
    const struct filling *filling = arg;
    float *values = filling->values + from;
    if (filling->shape->deviation > 0)
        lt_random_fill_from(values, (int64_t)count, filling->shape->deviation, filling->key,
                            (int64_t)(to - filling->first));
    for (size_t i = 0; filling->shape->deviation <= 0 && i < count; i++)
        values[i] = filling->shape->constant;
}

/* Initial values of all tensors, each from its own stream of random numbers. */
static void initialise(struct lt_net *net, uint64_t seed)
{
    struct lt_parameters whole, *own = &net->model.parameters;
    struct lt_slice slice = lt_net_whole(net, &whole);
    for (int i = 0; i < own->weights; i++) {
        struct filling filling = {.values = own->value,
                                  .first = whole.weight[i].first,
                                  .shape = &net->tensor[i].shape,
                                  .key = lt_random_bits(seed, (uint64_t)i)};
        lt_slice_runs(&own->weight[i], &whole.weight[i], own->groups[i], &slice, fill, &filling);
    }
    for (int i = 0; i < net->uses; i++) /* running means are 0 at first, variances 1 */
        for (int64_t j = 0; net->use[i].what == NET_STATE && j < net->use[i].count; j++)
            net->state_arena.base[net->use[i].element + j] = (float)net->use[i].id;
    for (net->slot = net->in_flight - 1; net->slot >= 0; net->slot--)
        if (net->turns != NET_NONE)
            lt_rope_turns(lt_net_value_at(net, net->turns), net->model.t,
                          net->value[net->turns].width, net->base);
    net->slot = 0;
}

int lt_net_allocate(struct lt_net *net, uint64_t seed, const int64_t shape[LT_SHAPE_CAP])
{
    struct lt_parameters *parameters = &net->model.parameters;
    size_t half = net->mode.dtype == LT_DTYPE_FP32 ? 0 : (parameters->count + 1) / 2;
    int rc = arena(&net->value_arena, LT_MEMORY_PARAMETERS, parameters->count);
    rc = rc ? rc : arena(&net->shadow_arena, LT_MEMORY_PARAMETERS, half);
    rc = rc ? rc : arena(&net->grad_arena, LT_MEMORY_GRADIENTS, parameters->count);
    rc = rc ? rc
            : arena(&net->activation_arena, LT_MEMORY_ACTIVATIONS,
                    net->floats * (size_t)net->in_flight);
    rc = rc ? rc : arena(&net->workspace_arena, LT_MEMORY_WORKSPACE, net->scratch);
    rc = rc ? rc : arena(&net->state_arena, LT_MEMORY_PARAMETERS, net->states);
    if (rc)
        return rc;
    net->model.state = net->state_arena.base;
    net->model.states = net->states;
    parameters->value = net->value_arena.base;
    parameters->grad = net->grad_arena.base;
    parameters->shadow = (uint16_t *)(void *)net->shadow_arena.base;
    parameters->shadow_dtype = net->mode.dtype;
    for (int i = 0; i < LT_SHAPE_CAP; i++)
        net->model.shape[i] = shape[i];
    initialise(net, seed);
    lt_parameters_refresh(parameters);
    lt_net_point(net);
    return 0;
}
