/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to net*.c: the list while it is built, and what it becomes.
 *
 * An operation is a node: its arguments, filled with shapes when it is appended, and with pointers
 * once everything has a place. What a pointer of the arguments means is a `use`: which value,
 * gradient or parameter it is, and in which direction it is read or written. Everything else
 * (places, order of gradients, what recomputation must make again) follows from the uses.
 */
#ifndef LT_NET_PRIVATE_H
#define LT_NET_PRIVATE_H

#include "libtrain/models/net.h"

#define NET_NONE LT_NET_NONE

/* In the place of an operation, the messages of lt_tensor_group: rows to the ranks that have their
 * experts, forward and backward; and between ranks that divide the layers a sum, its two halves,
 * and a gather. In backward these work on the gradients. */
enum {
    NET_SPREAD = -2,
    NET_SPREAD_BACK = -3,
    NET_SUM = -4,
    NET_SCATTER = -5,
    NET_JOIN = -6,
    NET_GATHER = -7
};

/* What a member of the arguments is. FLAGS: an int. */
enum net_what {
    NET_VALUE,
    NET_GRADIENT,  /* of the value of that number */
    NET_WEIGHT,    /* as GEMMs and look-ups read it: in bf16, of the rounded copy */
    NET_PARAMETER, /* floats */
    NET_SLOPE,     /* the gradient of parameters */
    NET_SCRATCH,   /* of all threads; `count` floats */
    NET_TOKENS,    /* of the batch, as the next two */
    NET_TARGETS,
    NET_FEATURES,
    NET_STATE,      /* floats of the model's state from `element` on */
    NET_EVALUATION, /* flag: this is an evaluation */
    NET_UPDATE,     /* flag: this is the first forward of a step, which moves running statistics */
    NET_BALANCE,    /* a float: factor of the balance of experts */
    NET_ACCUMULATE, /* flag: gradients of parameters are added to what is there */
    NET_ADD         /* flag: the gradient of value `id` is added to what is there */
};

/* In which direction a member is read or written. */
enum { NET_READ = 1, NET_WRITE = 2, NET_BACK_READ = 4, NET_BACK_WRITE = 8 };

struct net_use {
    size_t member; /* offset in union lt_args */
    enum net_what what;
    int id;
    unsigned how;
    int64_t element, count; /* of parameters: the first one, and how many */
};

struct net_value {
    int64_t rows, width;
    int floats;   /* elements are floats in every dtype */
    int fixed;    /* needed all the time */
    int block;    /* NET_NONE: kept in any case */
    int gradient; /* the value whose gradient it shares, itself if none; NET_NONE: it has none */
    int in_place; /* its gradient overwrites it */
    size_t at, slope; /* places of value and gradient in the arena */
};

struct net_node {
    int forward, backward; /* enum lt_op_id; NET_NONE: nothing; NET_SPREAD, ...: a message */
    int block, again;      /* again: made again in backward */
    int layer;             /* the model's block, from 0; NET_NONE. `block` may be several of them */
    int first_use, uses;
    int64_t unit; /* of its parameters (lt_model_use); NET_NONE: it has none, or the list does not
                     say */
    union lt_args args;
};

struct net_tensor {
    struct lt_net_tensor shape;
    int adds; /* its gradient is always added to */
    size_t first;
};

struct lt_net {
    struct lt_model model; /* first: a struct lt_model * is a struct lt_net * */
    struct lt_model_ops ops;
    struct lt_net_mode mode;
    int error;
    struct net_value *value;
    struct net_node *node;
    struct net_use *use;
    int values, nodes, uses, cap; /* cap: of nodes */
    struct net_tensor tensor[LT_WEIGHT_CAP];
    int tensors;
    int blocks, block;         /* block: the one being built, or NET_NONE */
    int layers, layer;         /* the same of the model's blocks */
    int64_t every;             /* so many of these are one of those */
    int turns, losses;         /* values; NET_NONE */
    double base;               /* of the turns */
    float balance;             /* factor of the loss of a mixture's balance */
    size_t floats, scratch;    /* of a micro-batch's activations, of the workspace */
    int64_t first;             /* the model's block with which this stage begins */
    int staged, in_flight;     /* it is a stage; micro-batches */
    int slot;                  /* the micro-batch that the arguments point to */
    int input, output;         /* values that come from a stage, or go to one; NET_NONE */
    size_t states;             /* floats of the model's state */
    int part, parts;           /* of the experts, that this rank has; parts 0: all */
    struct lt_net_ranks ranks; /* that divide the layers; one: this one has them whole */
    size_t stream;             /* elements of the residual stream, of this rank's rows */
    int tells_use;             /* lt_net_tells_use */
    size_t handed;             /* elements of a rank's own rows for all experts */
    char *remade;              /* a flag a block: its inner values are made again */
    struct lt_arena value_arena, grad_arena, shadow_arena, activation_arena, workspace_arena,
        state_arena;
};

#define EACH_USE(net, node, use) \
    for (const struct net_use *use = (net)->use + (node)->first_use, *end_ = use + (node)->uses; \
         use < end_; use++)

extern const struct lt_model_ops lt_net_ops;

/* A tensor as the parameters' table has it. */
static inline struct lt_weight lt_net_weight(const struct lt_net_tensor *tensor)
{
    return (struct lt_weight){.repeat = tensor->repeat,
                              .rows = tensor->rows,
                              .columns = tensor->columns,
                              .role = tensor->role,
                              .layer = tensor->layer,
                              .each = tensor->each};
}

/* Rows of the residual stream that this rank has. */
static inline int64_t lt_net_own_rows(const struct lt_net *net)
{
    return net->model.b * net->model.t / (net->ranks.sequence ? net->ranks.ranks : 1);
}

/* Lets all arguments point to what belongs to the selected micro-batch (net_place.c). */
void lt_net_point(struct lt_net *net);
/* Where a value lies, and the gradient of one. */
float *lt_net_value_at(const struct lt_net *net, int id);
float *lt_net_gradient_at(const struct lt_net *net, int id);

/* The layout of the parameters of a rank that has all of the model, and where this one's lie in it
 * (net_place.c). */
struct lt_slice lt_net_whole(const struct lt_net *net, struct lt_parameters *out);

/* Places everything for the blocks in net->remade (net_place.c). 0 or TACHO_ENOMEM. */
int lt_net_place(struct lt_net *net);

/* Says to each operation whether it adds its gradients (net_place.c). 0, TACHO_ENOMEM, or
 * TACHO_EINTERNAL for a list against the order of net.h. */
int lt_net_order_gradients(struct lt_net *net);

/* Of the list as it is placed: floats that are needed at the same time as block i is run backward
 * (i = blocks: what comes after the blocks), the most of them; and floats of block i that wait from
 * its forward to its backward, and the FLOPs of making them again, if it is not remade. */
struct net_block_cost {
    size_t live, kept;
    uint64_t flops;
};
int lt_net_block_costs(struct lt_net *net, struct net_block_cost *out);

/* ---- for those who append operations (net_build.c) --------------------------------------------- */

/* A value of the dtype's elements; what forward leaves for backward, in floats; an operation with
 * its uses; the list cannot be run. */
int lt_net_elements(struct lt_net *net, int64_t rows, int64_t width);
int lt_net_statistics(struct lt_net *net, int64_t rows, int64_t width);
void lt_net_add_node(struct lt_net *net, int forward, int backward, union lt_args args,
                     const struct net_use *uses, int count);
void lt_net_fail(struct lt_net *net);

#define NODE(net, forward, backward, member, arguments, uses) \
    lt_net_add_node((net), (forward), (backward), (union lt_args){.member = arguments}, (uses), \
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

#endif
