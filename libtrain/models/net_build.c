/* SPDX-License-Identifier: Apache-2.0
 *
 * Building a list of operations: each function says what its operation reads and writes.
 */
#include <stdlib.h>

#include "libtrain/models/net_private.h"
#include "tacho_error.h"

#define VALUES_A_NODE 5
#define USES_A_NODE   16

struct lt_net *lt_net_create(const char *name, struct lt_net_mode mode, int64_t b, int64_t t,
                             int64_t classes, int operations)
{
    struct lt_net *net = calloc(1, sizeof *net);
    if (!net)
        return NULL;
    *net = (struct lt_net){.ops = lt_net_ops,
                           .model = {.b = b, .t = t, .vocab = classes},
                           .mode = mode,
                           .cap = operations,
                           .block = NET_NONE,
                           .layer = NET_NONE,
                           .every = 1,
                           .turns = NET_NONE,
                           .losses = NET_NONE,
                           .in_flight = 1,
                           .ranks = {.ranks = 1},
                           .input = NET_NONE,
                           .output = NET_NONE,
                           .node = calloc((size_t)operations, sizeof *net->node),
                           .value = calloc((size_t)operations * VALUES_A_NODE, sizeof *net->value),
                           .use = calloc((size_t)operations * USES_A_NODE, sizeof *net->use)};
    net->ops.name = name;
    net->model.ops = &net->ops;
    if (net->node && net->value && net->use)
        return net;
    lt_net_destroy(net);
    return NULL;
}

void lt_net_keep_every(struct lt_net *net, int64_t blocks)
{
    net->every = lt_net_every(net->mode, blocks);
}

int64_t lt_net_rows(const struct lt_net *net, int value)
{
    return net->value[value].rows;
}

void lt_net_fail(struct lt_net *net)
{
    net->error = TACHO_EINTERNAL;
}

/* The next place of an array; the first one again where there is none left. */
static int next_place(struct lt_net *net, int *count, int cap)
{
    if (*count < cap)
        return (*count)++;
    lt_net_fail(net);
    return 0;
}

static int add_value(struct lt_net *net, struct net_value value)
{
    int id = next_place(net, &net->values, net->cap * VALUES_A_NODE);
    value.block = net->block;
    value.gradient = value.floats ? NET_NONE : id;
    net->value[id] = value;
    return id;
}

int lt_net_elements(struct lt_net *net, int64_t rows, int64_t width)
{
    return add_value(net, (struct net_value){.rows = rows, .width = width});
}

/* What forward leaves for backward, in floats. */
int lt_net_statistics(struct lt_net *net, int64_t rows, int64_t width)
{
    return add_value(net, (struct net_value){.rows = rows, .width = width, .floats = 1});
}

void lt_net_add_node(struct lt_net *net, int forward, int backward, union lt_args args,
                     const struct net_use *uses, int count)
{
    struct net_node *node = &net->node[next_place(net, &net->nodes, net->cap)];
    *node = (struct net_node){.forward = forward,
                              .backward = backward,
                              .block = net->block,
                              .layer = net->layer,
                              .first_use = net->uses,
                              .unit = NET_NONE,
                              .args = args};
    for (int i = 0; i < count; i++)
        net->use[next_place(net, &net->uses, net->cap * USES_A_NODE)] = uses[i];
    node->uses = net->uses - node->first_use;
}

int lt_net_parameter(struct lt_net *net, struct lt_net_tensor tensor)
{
    if (net->tensors == LT_WEIGHT_CAP) {
        lt_net_fail(net);
        return 0;
    }
    struct lt_weight weight = lt_net_weight(&tensor);
    int decays = tensor.role != LT_WEIGHT_VECTOR;
    if (decays && net->model.parameters.decayed < net->model.parameters.count)
        lt_net_fail(net);
    net->tensor[net->tensors] =
        (struct net_tensor){.shape = tensor, .first = net->model.parameters.count};
    int number = net->model.parameters.weights, is_divided = tensor.all_rows || tensor.all_columns;
    if (tensor.parts > 1) {
        net->part = tensor.part;
        net->parts = tensor.parts;
        net->model.parameters.expert[number] = 1;
    }
    net->model.parameters.groups[number] = (uint8_t)tensor.groups;
    net->model.parameters.copied[number] = net->ranks.rank > 0 && !is_divided;
    lt_parameters_add(&net->model.parameters, weight, decays);
    return net->tensors++;
}

void lt_net_begin_block(struct lt_net *net)
{
    if (net->layers % net->every == 0)
        net->blocks++;
    net->block = net->blocks - 1;
    net->layer = net->layers++;
}

void lt_net_end_block(struct lt_net *net, int out)
{
    net->block = net->layer = NET_NONE;
    if (net->layers % net->every == 0)
        net->value[out].block = NET_NONE;
}

/* ---- operations ------------------------------------------------------------------------------ */

int lt_net_linear(struct lt_net *net, int in, int weight, int64_t i, int bias, int64_t j)
{
    const struct lt_net_tensor *matrix = &net->tensor[weight].shape;
    int64_t n = matrix->rows, k = matrix->columns, rows = net->value[in].rows;
    struct lt_matmul args = {.rows = rows, .n = n, .k = k};
    if (!matrix->all_rows && !matrix->all_columns && rows == net->model.b * net->model.t) {
        args.copy = net->ranks.rank; /* a router: all ranks have it and all rows */
        args.copies = net->ranks.ranks;
    }
    int learns = net->value[in].gradient != NET_NONE, out = lt_net_elements(net, rows, n),
        count = 6;
    net->model.parameters.matrix += (uint64_t)(n * k);
    struct net_use uses[10] = {
        VALUE(matmul_forward.in, VALUE, in, NET_READ | NET_BACK_READ),
        VALUE(matmul_forward.out, VALUE, out, NET_WRITE),
        VALUE(matmul_forward.dout, GRADIENT, out, NET_BACK_READ),
        VALUE(matmul_forward.accumulate, ACCUMULATE, 0, 0),
        TENSOR(matmul_forward.weight, WEIGHT, weight, i * n * k, n * k),
        TENSOR(matmul_forward.dweight, SLOPE, weight, i * n * k, n * k),
    };
    if (learns) {
        uses[count++] = (struct net_use)VALUE(matmul_forward.din, GRADIENT, in, NET_BACK_WRITE);
        uses[count++] = (struct net_use)VALUE(matmul_forward.add, ADD, in, 0);
    }
    if (bias != NET_NONE) {
        uses[count++] = (struct net_use)TENSOR(matmul_forward.bias, PARAMETER, bias, j * n, n);
        uses[count++] = (struct net_use)TENSOR(matmul_forward.dbias, SLOPE, bias, j * n, n);
    }
    lt_net_add_node(net, LT_OP_MATMUL_FORWARD, LT_OP_MATMUL_BACKWARD,
                    (union lt_args){.matmul_forward = args}, uses, count);
    return out;
}

int lt_net_gelu(struct lt_net *net, int in)
{
    int64_t rows = net->value[in].rows, width = net->value[in].width;
    struct lt_gelu args = {.count = rows * width};
    int out = lt_net_elements(net, rows, width);
    const struct net_use uses[] = {
        VALUE(gelu_forward.in, VALUE, in, NET_READ | NET_BACK_READ),
        VALUE(gelu_forward.out, VALUE, out, NET_WRITE),
        VALUE(gelu_forward.dout, GRADIENT, out, NET_BACK_READ),
        VALUE(gelu_forward.din, GRADIENT, in, NET_BACK_WRITE),
    };
    NODE(net, LT_OP_GELU_FORWARD, LT_OP_GELU_BACKWARD, gelu_forward, args, uses);
    return out;
}

int lt_net_rmsnorm(struct lt_net *net, int in, int weight, int64_t i)
{
    int64_t rows = net->value[in].rows, c = net->tensor[weight].shape.columns;
    struct lt_rmsnorm args = {.rows = rows, .c = c};
    int out = lt_net_elements(net, rows, c), rstd = lt_net_statistics(net, rows, 1);
    const struct net_use uses[] = {
        VALUE(rmsnorm_forward.in, VALUE, in, NET_READ | NET_BACK_READ),
        VALUE(rmsnorm_forward.out, VALUE, out, NET_WRITE),
        VALUE(rmsnorm_forward.rstd, VALUE, rstd, NET_WRITE | NET_BACK_READ),
        VALUE(rmsnorm_forward.dout, GRADIENT, out, NET_BACK_READ),
        VALUE(rmsnorm_forward.din, GRADIENT, in, NET_BACK_WRITE),
        VALUE(rmsnorm_forward.add, ADD, in, 0),
        TENSOR(rmsnorm_forward.weight, PARAMETER, weight, i * c, c),
        TENSOR(rmsnorm_forward.dweight, SLOPE, weight, i * c, c),
    };
    NODE(net, LT_OP_RMSNORM_FORWARD, LT_OP_RMSNORM_BACKWARD, rmsnorm_forward, args, uses);
    return out;
}

/* The cosines and sines of all positions, the same for all blocks. */
static int turns_of(struct lt_net *net, int64_t d)
{
    if (net->turns == NET_NONE) {
        net->turns = lt_net_statistics(net, net->model.t, d);
        net->value[net->turns].fixed = 1;
        net->value[net->turns].block = NET_NONE;
    }
    return net->turns;
}

int lt_net_rope(struct lt_net *net, int in, int64_t heads, int64_t groups, double base)
{
    int64_t rows = net->model.b * net->model.t, width = net->value[in].width,
            d = width / (heads + 2 * groups), c = d * heads;
    struct lt_rope args = {
        .b = net->model.b, .t = net->model.t, .c = c, .h = heads, .groups = groups};
    int out = lt_net_elements(net, rows, 3 * c), turns = turns_of(net, d);
    net->base = base;
    const struct net_use uses[] = {
        VALUE(rope_forward.in, VALUE, in, NET_READ),
        VALUE(rope_forward.out, VALUE, out, NET_WRITE),
        VALUE(rope_forward.turn, VALUE, turns, NET_READ | NET_BACK_READ),
        VALUE(rope_forward.dout, GRADIENT, out, NET_BACK_READ),
        VALUE(rope_forward.din, GRADIENT, in, NET_BACK_WRITE),
    };
    NODE(net, LT_OP_ROPE_FORWARD, LT_OP_ROPE_BACKWARD, rope_forward, args, uses);
    return out;
}

int lt_net_attention(struct lt_net *net, int in, int64_t heads)
{
    int64_t b = net->model.b, t = net->model.t, c = net->value[in].width / 3;
    struct lt_attention args = {.b = b, .t = t, .c = c, .h = heads, .slots = lt_threads()};
    int out = lt_net_elements(net, b * t, c), lse = lt_net_statistics(net, b * heads * t, 1);
    int64_t scratch = args.slots * (int64_t)lt_attention_scratch(net->mode.dtype, t, c / heads);
    const struct net_use uses[] = {
        VALUE(attention_forward.qkv, VALUE, in, NET_READ | NET_BACK_READ),
        VALUE(attention_forward.out, VALUE, out, NET_WRITE | NET_BACK_READ),
        VALUE(attention_forward.lse, VALUE, lse, NET_WRITE | NET_BACK_READ),
        VALUE(attention_forward.dout, GRADIENT, out, NET_BACK_READ),
        VALUE(attention_forward.dqkv, GRADIENT, in, NET_BACK_WRITE),
        TENSOR(attention_forward.scratch, SCRATCH, 0, 0, scratch),
    };
    NODE(net, LT_OP_ATTENTION_FORWARD, LT_OP_ATTENTION_BACKWARD, attention_forward, args, uses);
    return out;
}

int lt_net_swiglu(struct lt_net *net, int in)
{
    int64_t rows = net->value[in].rows, f = net->value[in].width / 2;
    struct lt_swiglu args = {.rows = rows, .f = f};
    int out = lt_net_elements(net, rows, f);
    const struct net_use uses[] = {
        VALUE(swiglu_forward.in, VALUE, in, NET_READ | NET_BACK_READ),
        VALUE(swiglu_forward.out, VALUE, out, NET_WRITE),
        VALUE(swiglu_forward.dout, GRADIENT, out, NET_BACK_READ),
        VALUE(swiglu_forward.din, GRADIENT, in, NET_BACK_WRITE),
    };
    NODE(net, LT_OP_SWIGLU_FORWARD, LT_OP_SWIGLU_BACKWARD, swiglu_forward, args, uses);
    return out;
}

/* The sum and its two terms share one gradient: the sum hands it on as it is. */
int lt_net_residual(struct lt_net *net, int a, int b)
{
    int64_t rows = net->value[a].rows, width = net->value[a].width;
    struct lt_residual args = {.count = rows * width};
    int out = lt_net_elements(net, rows, width);
    if (net->value[a].gradient != a || net->value[b].gradient != b)
        lt_net_fail(net);
    net->value[a].gradient = net->value[b].gradient = out;
    const struct net_use uses[] = {
        VALUE(residual_forward.a, VALUE, a, NET_READ),
        VALUE(residual_forward.b, VALUE, b, NET_READ),
        VALUE(residual_forward.out, VALUE, out, NET_WRITE),
    };
    NODE(net, LT_OP_RESIDUAL_FORWARD, NET_NONE, residual_forward, args, uses);
    return out;
}

/* ---- a mixture of experts ---------------------------------------------------------------------- */

/* The load is looked at after the step, so nothing takes its place. */
struct lt_net_routes lt_net_route(struct lt_net *net, int logits, struct lt_net_mixture mixture)
{
    int64_t rows = net->value[logits].rows, e = mixture.experts;
    struct lt_route args = {
        .rows = rows, .experts = e, .k = mixture.k, .capacity = mixture.capacity};
    struct lt_net_routes routes = {.mixture = mixture,
                                   .gate = lt_net_statistics(net, rows, mixture.k),
                                   .gate_slope = lt_net_statistics(net, rows, mixture.k),
                                   .slot = lt_net_statistics(net, rows, mixture.k)};
    int share = lt_net_statistics(net, rows, e), load = lt_net_statistics(net, 1, e);
    routes.load = load;
    net->value[load].fixed = 1;
    net->value[load].block = NET_NONE;
    net->balance = mixture.balance;
    const struct net_use uses[] = {
        VALUE(route_forward.in, VALUE, logits, NET_READ),
        VALUE(route_forward.gate, VALUE, routes.gate, NET_WRITE | NET_BACK_READ),
        VALUE(route_forward.slot, VALUE, routes.slot, NET_WRITE | NET_BACK_READ),
        VALUE(route_forward.share, VALUE, share, NET_WRITE | NET_BACK_READ),
        VALUE(route_forward.load, VALUE, load, NET_WRITE | NET_BACK_READ),
        VALUE(route_forward.dgate, VALUE, routes.gate_slope, NET_BACK_READ),
        VALUE(route_forward.din, GRADIENT, logits, NET_BACK_WRITE),
        VALUE(route_forward.balance, BALANCE, 0, 0),
    };
    NODE(net, LT_OP_ROUTE_FORWARD, LT_OP_ROUTE_BACKWARD, route_forward, args, uses);
    return routes;
}

int lt_net_dispatch(struct lt_net *net, int in, const struct lt_net_routes *routes)
{
    int64_t rows = net->value[in].rows, c = net->value[in].width,
            slots = routes->mixture.experts * routes->mixture.capacity;
    struct lt_dispatch args = {.rows = rows, .k = routes->mixture.k, .slots = slots, .c = c};
    int out = lt_net_elements(net, slots, c);
    const struct net_use uses[] = {
        VALUE(dispatch_forward.in, VALUE, in, NET_READ),
        VALUE(dispatch_forward.out, VALUE, out, NET_WRITE),
        VALUE(dispatch_forward.slot, VALUE, routes->slot, NET_READ | NET_BACK_READ),
        VALUE(dispatch_forward.dout, GRADIENT, out, NET_BACK_READ),
        VALUE(dispatch_forward.din, GRADIENT, in, NET_BACK_WRITE),
        VALUE(dispatch_forward.add, ADD, in, 0),
    };
    NODE(net, LT_OP_DISPATCH_FORWARD, LT_OP_DISPATCH_BACKWARD, dispatch_forward, args, uses);
    return out;
}

static int divides(const struct lt_net_mixture *mixture)
{
    return mixture->ranks > 1;
}

/* One of the two messages. The counts are made by the first one, and kept for the second one and
 * for backward. */
static int spread(struct lt_net *net, int in, const struct lt_net_routes *routes, int to_owners)
{
    int64_t rows = net->value[in].rows, c = net->value[in].width;
    struct lt_spread args = {.experts = routes->mixture.experts,
                             .capacity = routes->mixture.capacity,
                             .c = c,
                             .to_owners = to_owners};
    int out = lt_net_elements(net, rows, c);
    net->handed = (size_t)(rows * c);
    const struct net_use uses[] = {
        VALUE(spread.in, VALUE, in, NET_READ),
        VALUE(spread.out, VALUE, out, NET_WRITE),
        VALUE(spread.dout, GRADIENT, out, NET_BACK_READ),
        VALUE(spread.din, GRADIENT, in, NET_BACK_WRITE),
        VALUE(spread.load, VALUE, routes->load, NET_READ | NET_BACK_READ),
        VALUE(spread.taken, VALUE, routes->taken,
              (to_owners ? NET_WRITE : NET_READ) | NET_BACK_READ),
    };
    NODE(net, NET_SPREAD, NET_SPREAD_BACK, spread, args, uses);
    return out;
}

int lt_net_gather_rows(struct lt_net *net, int in, struct lt_net_routes *routes)
{
    if (!divides(&routes->mixture))
        return in;
    routes->taken = lt_net_statistics(net, 1, routes->mixture.experts);
    return spread(net, in, routes, 1);
}

int lt_net_return_rows(struct lt_net *net, int in, struct lt_net_routes *routes)
{
    return divides(&routes->mixture) ? spread(net, in, routes, 0) : in;
}

int lt_net_experts(struct lt_net *net, int in, int weight, int64_t i,
                   const struct lt_net_routes *routes)
{
    const struct lt_net_mixture *mixture = &routes->mixture;
    int64_t n = net->tensor[weight].shape.rows, k = net->tensor[weight].shape.columns,
            ranks = divides(mixture) ? mixture->ranks : 1, experts = mixture->experts / ranks,
            count = experts * n * k;
    struct lt_experts args = {.experts = experts,
                              .capacity = mixture->capacity * ranks,
                              .n = n,
                              .k = k,
                              .routed = net->value[routes->gate].rows * mixture->k};
    int out = lt_net_elements(net, net->value[in].rows, n);
    net->model.parameters.matrix += (uint64_t)count;
    const struct net_use uses[] = {
        VALUE(experts_forward.in, VALUE, in, NET_READ | NET_BACK_READ),
        VALUE(experts_forward.out, VALUE, out, NET_WRITE),
        VALUE(experts_forward.dout, GRADIENT, out, NET_BACK_READ),
        VALUE(experts_forward.din, GRADIENT, in, NET_BACK_WRITE),
        VALUE(experts_forward.accumulate, ACCUMULATE, 0, 0),
        TENSOR(experts_forward.weight, WEIGHT, weight, i * n * k, count),
        TENSOR(experts_forward.dweight, SLOPE, weight, i * n * k, count),
    };
    NODE(net, LT_OP_EXPERTS_FORWARD, LT_OP_EXPERTS_BACKWARD, experts_forward, args, uses);
    return out;
}

int lt_net_combine(struct lt_net *net, int in, const struct lt_net_routes *routes)
{
    int64_t rows = net->value[routes->gate].rows, c = net->value[in].width;
    struct lt_combine args = {
        .rows = rows, .k = routes->mixture.k, .slots = net->value[in].rows, .c = c};
    int out = lt_net_elements(net, rows, c);
    const struct net_use uses[] = {
        VALUE(combine_forward.in, VALUE, in, NET_READ | NET_BACK_READ),
        VALUE(combine_forward.out, VALUE, out, NET_WRITE),
        VALUE(combine_forward.slot, VALUE, routes->slot, NET_READ | NET_BACK_READ),
        VALUE(combine_forward.gate, VALUE, routes->gate, NET_READ | NET_BACK_READ),
        VALUE(combine_forward.dgate, VALUE, routes->gate_slope, NET_BACK_WRITE),
        VALUE(combine_forward.dout, GRADIENT, out, NET_BACK_READ),
        VALUE(combine_forward.din, GRADIENT, in, NET_BACK_WRITE),
    };
    NODE(net, LT_OP_COMBINE_FORWARD, LT_OP_COMBINE_BACKWARD, combine_forward, args, uses);
    return out;
}
