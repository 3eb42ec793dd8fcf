/* SPDX-License-Identifier: Apache-2.0
 *
 * Building a list of operations: each function says what its operation reads and writes.
 */
#include <stdlib.h>

#include "libtrain/models/net_private.h"
#include "tacho_error.h"

#define VALUES_A_NODE 2
#define USES_A_NODE   12

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
                           .turns = NET_NONE,
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

static void fail(struct lt_net *net)
{
    net->error = TACHO_EINTERNAL;
}

/* The next place of an array; the first one again where there is none left. */
static int next_place(struct lt_net *net, int *count, int cap)
{
    if (*count < cap)
        return (*count)++;
    fail(net);
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

static int elements(struct lt_net *net, int64_t rows, int64_t width)
{
    return add_value(net, (struct net_value){.rows = rows, .width = width});
}

/* What forward leaves for backward, in floats. */
static int statistics(struct lt_net *net, int64_t rows, int64_t width)
{
    return add_value(net, (struct net_value){.rows = rows, .width = width, .floats = 1});
}

static void add_node(struct lt_net *net, int forward, int backward, union lt_args args,
                     const struct net_use *uses, int count)
{
    struct net_node *node = &net->node[next_place(net, &net->nodes, net->cap)];
    *node = (struct net_node){.forward = forward,
                              .backward = backward,
                              .block = net->block,
                              .first_use = net->uses,
                              .args = args};
    for (int i = 0; i < count; i++)
        net->use[next_place(net, &net->uses, net->cap * USES_A_NODE)] = uses[i];
    node->uses = net->uses - node->first_use;
}

#define NODE(net, forward, backward, member, arguments, uses) \
    add_node((net), (forward), (backward), (union lt_args){.member = arguments}, (uses), \
             (int)(sizeof(uses) / sizeof *(uses)))
#define AT(member) offsetof(union lt_args, member)
/* Rows of a table of uses: a value or a gradient; a part of a tensor of parameters; the rest. */
#define VALUE(member_, what_, id_, how_) \
    { \
        .member = AT(member_), .what = NET_##what_, .id = (id_), .how = (how_) \
    }
#define TENSOR(member_, what_, id_, element_, count_) \
    { \
        .member = AT(member_), .what = NET_##what_, .id = (id_), .element = (element_), \
        .count = (count_) \
    }

int lt_net_parameter(struct lt_net *net, struct lt_net_tensor tensor)
{
    if (net->tensors == LT_WEIGHT_CAP) {
        fail(net);
        return 0;
    }
    struct lt_weight weight = {.repeat = tensor.repeat,
                               .rows = tensor.rows,
                               .columns = tensor.columns,
                               .role = tensor.role};
    int decays = tensor.role != LT_WEIGHT_VECTOR;
    if (decays && net->model.parameters.decayed < net->model.parameters.count)
        fail(net);
    net->tensor[net->tensors] =
        (struct net_tensor){.shape = tensor, .first = net->model.parameters.count};
    lt_parameters_add(&net->model.parameters, weight, decays);
    return net->tensors++;
}

void lt_net_begin_block(struct lt_net *net)
{
    net->block = net->blocks++;
}

void lt_net_end_block(struct lt_net *net, int out)
{
    net->block = NET_NONE;
    net->value[out].block = NET_NONE;
}

/* ---- operations ------------------------------------------------------------------------------ */

int lt_net_embedding(struct lt_net *net, int word)
{
    const struct lt_net_tensor *table = &net->tensor[word].shape;
    int64_t c = table->columns, v = table->rows;
    struct lt_embedding args = {.b = net->model.b, .t = net->model.t, .c = c, .v = v};
    int out = elements(net, args.b * args.t, c);
    net->tensor[word].adds = 1;
    const struct net_use uses[] = {
        VALUE(embedding_forward.out, VALUE, out, NET_WRITE),
        VALUE(embedding_forward.dout, GRADIENT, out, NET_BACK_READ),
        TENSOR(embedding_forward.word, WEIGHT, word, 0, v * c),
        TENSOR(embedding_forward.dword, SLOPE, word, 0, v * c),
        VALUE(embedding_forward.tokens, TOKENS, 0, NET_READ),
    };
    NODE(net, LT_OP_EMBEDDING_FORWARD, LT_OP_EMBEDDING_BACKWARD, embedding_forward, args, uses);
    return out;
}

int lt_net_linear(struct lt_net *net, int in, int weight, int64_t i)
{
    const struct lt_net_tensor *matrix = &net->tensor[weight].shape;
    int64_t n = matrix->rows, k = matrix->columns, rows = net->value[in].rows;
    struct lt_matmul args = {.rows = rows, .n = n, .k = k};
    int out = elements(net, rows, n);
    net->model.parameters.matrix += (uint64_t)(n * k);
    const struct net_use uses[] = {
        VALUE(matmul_forward.in, VALUE, in, NET_READ | NET_BACK_READ),
        VALUE(matmul_forward.out, VALUE, out, NET_WRITE),
        VALUE(matmul_forward.dout, GRADIENT, out, NET_BACK_READ),
        VALUE(matmul_forward.din, GRADIENT, in, NET_BACK_WRITE),
        VALUE(matmul_forward.add, ADD, in, 0),
        VALUE(matmul_forward.accumulate, ACCUMULATE, 0, 0),
        TENSOR(matmul_forward.weight, WEIGHT, weight, i * n * k, n * k),
        TENSOR(matmul_forward.dweight, SLOPE, weight, i * n * k, n * k),
    };
    NODE(net, LT_OP_MATMUL_FORWARD, LT_OP_MATMUL_BACKWARD, matmul_forward, args, uses);
    return out;
}

int lt_net_rmsnorm(struct lt_net *net, int in, int weight, int64_t i)
{
    int64_t rows = net->value[in].rows, c = net->tensor[weight].shape.columns;
    struct lt_rmsnorm args = {.rows = rows, .c = c};
    int out = elements(net, rows, c), rstd = statistics(net, rows, 1);
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
        net->turns = statistics(net, net->model.t, d);
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
    int out = elements(net, rows, 3 * c), turns = turns_of(net, d);
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
    int out = elements(net, b * t, c), lse = statistics(net, b * heads * t, 1);
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
    int out = elements(net, rows, f);
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
    int out = elements(net, rows, width);
    if (net->value[a].gradient != a || net->value[b].gradient != b)
        fail(net);
    net->value[a].gradient = net->value[b].gradient = out;
    const struct net_use uses[] = {
        VALUE(residual_forward.a, VALUE, a, NET_READ),
        VALUE(residual_forward.b, VALUE, b, NET_READ),
        VALUE(residual_forward.out, VALUE, out, NET_WRITE),
    };
    NODE(net, LT_OP_RESIDUAL_FORWARD, NET_NONE, residual_forward, args, uses);
    return out;
}

void lt_net_classifier(struct lt_net *net, int logits)
{
    int64_t rows = net->value[logits].rows, v = net->value[logits].width;
    struct lt_classifier args = {.rows = rows, .v = v};
    int losses = statistics(net, rows, 1);
    net->losses = losses;
    net->logits = logits;
    net->value[logits].in_place = 1;
    const struct net_use uses[] = {
        VALUE(classifier.logits, VALUE, logits, NET_READ | NET_WRITE),
        VALUE(classifier.losses, VALUE, losses, NET_WRITE),
        VALUE(classifier.targets, TARGETS, 0, NET_READ),
    };
    NODE(net, LT_OP_CLASSIFIER, NET_NONE, classifier, args, uses);
}
