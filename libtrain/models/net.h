/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain/models: a model as a list of operations.
 *
 * A model's file names its parameters and says which operation makes which value; this kit gives
 * both a place, initialises the parameters, and runs the list forward and backward. Each function
 * below that returns a value appends one operation. A value is an array of rows x width elements,
 * known by its number.
 *
 * Memory. Values and gradients are placed by the times at which they are needed (lifetimes.h): what
 * no backward reads is overwritten as soon as the last operation has read it. With
 * LT_RECOMPUTE_BLOCK the values inside of a block are needed twice: while forward passes, and from
 * the time at which they are made again. All sizes are known before anything is allocated
 * (lt_net_measure).
 *
 * Order. Gradients are added up in the order of the list, from its end, so that a run is repeated
 * bit by bit. Where two operations read a value, the earlier one adds its gradient to that of the
 * later one; only linear layers, convolutions, RMSNorm and a mixture's dispatch can be that earlier
 * one. The sum of a residual
 * connection has one gradient with its two terms, so nothing after it may read these.
 *
 * An error while a list is built is kept and returned by lt_net_finish.
 */
#ifndef LT_NET_H
#define LT_NET_H

#include "libtrain/base/memory.h"
#include "libtrain/models/model.h"

struct lt_net;

/* How a model is computed. budget: bytes that activations may take, 0: any number; then blocks are
 * chosen to be made again, those whose FLOPs are the fewest that fit, whatever `recompute` says. */
struct lt_net_mode {
    enum lt_dtype dtype;
    enum lt_recompute recompute;
    uint64_t budget;
    int64_t frozen; /* blocks; only closed forms look at it, lt_model_ops.freeze does it */
    /* With LT_RECOMPUTE_BLOCK and no budget: the input of every so many blocks is kept (0: of
     * each), and what is between two of them is made again together; LT_EVERY_ROOT: the root of the
     * blocks. */
    int64_t every;
};
#define LT_EVERY_ROOT (-1)

/* `every` of a model of so many blocks: 1 at least. */
static inline int64_t lt_net_every(struct lt_net_mode mode, int64_t blocks)
{
    int64_t root = 1;
    while ((2 * root + 1) * (2 * root + 1) < 4 * blocks) /* (root + 1/2)^2 < blocks */
        root++;
    if (mode.recompute != LT_RECOMPUTE_BLOCK || mode.budget || mode.every == 0)
        return 1;
    return mode.every == LT_EVERY_ROOT ? root : mode.every;
}

#define LT_NET_NONE (-1)

/* `repeat` matrices of rows x columns (a vector: one row); their initial values are normal with
 * that deviation, or where it is 0 the constant. layer and each: as in struct lt_weight. parts: the
 * whole model has so many times `each` matrices in a layer, of which these are part number `part`;
 * 0: all. whole: matrices of the whole model, where a stage has some of them; 0: as many as
 * `repeat` in all parts.
 *
 * Where ranks divide the layers (lt_net_divide): all_rows or all_columns of the undivided matrix,
 * if each rank has a part of it (0: it has all of them); in how many groups of rows, and what the
 * first one has more (lt_parameters.groups, lt_weight.lead). partial: a tensor that all have, but
 * whose gradient is the sum of what they find. */
struct lt_net_tensor {
    int64_t repeat, rows, columns;
    enum lt_weight_role role;
    float deviation, constant;
    int layer, each, part, parts;
    int64_t whole, all_rows, all_columns, lead;
    int groups, partial;
};

/* The ranks that divide the layers of a list (Shoeybi et al. 2019): how many (0: one has them
 * whole), which one this is, and whether they divide the rows of the residual stream too
 * (Korthikanti et al. 2022), which are equal shares then. */
struct lt_net_ranks {
    int rank, ranks, sequence;
};

/* A value whose rows are the pixels of b images of h x w, and its columns their channels. */
struct lt_net_map {
    int value;
    int64_t h, w;
};

/* A window that moves over an image: k x k pixels, `stride` apart, `pad` pixels over the edge. */
struct lt_net_window {
    int64_t k, stride, pad;
};

/* A mixture of experts: each row goes to the `k` best of `experts`, of `capacity` rows each; the
 * loss of their balance counts `balance` times. `ranks` divide the experts, which then have
 * `capacity` rows of each rank. */
struct lt_net_mixture {
    int64_t experts, k, capacity, ranks;
    float balance;
};

/* The choices of a router, values. taken: where ranks divide the experts, the rows that each rank
 * has for each expert of this one. */
struct lt_net_routes {
    struct lt_net_mixture mixture;
    int gate, gate_slope, slot, load, taken;
};

/* An empty list for micro-batches of b samples of t tokens (0: images) with `classes` answers. The
 * name must be static; it is that of the checkpoints. `operations`: at most so many will be
 * appended. NULL: out of memory. */
struct lt_net *lt_net_create(const char *name, struct lt_net_mode mode, int64_t b, int64_t t,
                             int64_t classes, int operations);

/* A tensor of parameters; its number. Tensors with weight decay (all but vectors) come first. */
int lt_net_parameter(struct lt_net *net, struct lt_net_tensor tensor);

/* Says of a list whose parameters are those of lt_net_linear with a bias, and were appended in the
 * order of the layers, that they are (model.h, lt_parameters.linear). */
void lt_net_all_linear(struct lt_net *net);

/* Says of a list whose tensors that repeat are those of its blocks that it calls lt_model_use. */
void lt_net_tells_use(struct lt_net *net);

/* Before the first block of a model of `blocks` of them: how many are made again together. */
void lt_net_keep_every(struct lt_net *net, int64_t blocks);

/* Of a list that is a stage of a pipeline, before its operations: it begins with that block of the
 * whole model, and keeps the activations of so many micro-batches, each in a place of its own. */
void lt_net_stage(struct lt_net *net, int64_t first, int in_flight);
/* The first operation of a stage that does not embed: what the stage before it has made, rows of
 * that width. The last one of a stage that has no classifier: what the next one gets. */
int lt_net_receive(struct lt_net *net, int64_t width);
void lt_net_hand_on(struct lt_net *net, int in);

/* Before its tensors and operations: ranks divide the list. What it reads and writes is that of
 * this rank: tensors with a part of the rows (columns) of each matrix, heads and words that are
 * its own. */
void lt_net_divide(struct lt_net *net, struct lt_net_ranks ranks);
/* Before a matrix of which each rank has a part of the outputs: `in` with the rows of all ranks. In
 * backward the gradients that the ranks found are added up. And after one of which each has a part
 * of the inputs: the sum over the ranks, of which each gets its rows. `in` itself where one rank
 * has the layers whole. */
int lt_net_enter(struct lt_net *net, int in);
int lt_net_leave(struct lt_net *net, int in);

/* From here on the next block of the list; its inner values are those that recomputation makes
 * again. `lt_net_end_block` ends it: `out` is kept. */
void lt_net_begin_block(struct lt_net *net);
void lt_net_end_block(struct lt_net *net, int out);

int64_t lt_net_rows(const struct lt_net *net, int value);

/* The operations (ops.h). `weight` and `bias` are tensors, `i` says which matrix of them. */
/* Of words of which ranks have parts: with its lt_net_leave. */
int lt_net_embedding(struct lt_net *net, int word);
/* bias: a tensor, of which vector j is added, or LT_NET_NONE. */
int lt_net_linear(struct lt_net *net, int in, int weight, int64_t i, int bias, int64_t j);
int lt_net_gelu(struct lt_net *net, int in);
int lt_net_rmsnorm(struct lt_net *net, int in, int weight, int64_t i);
/* From queries, keys and values of `groups` heads to those of `heads` heads, turned. */
int lt_net_rope(struct lt_net *net, int in, int64_t heads, int64_t groups, double base);
int lt_net_attention(struct lt_net *net, int in, int64_t heads);
int lt_net_swiglu(struct lt_net *net, int in);
int lt_net_residual(struct lt_net *net, int a, int b);
/* The batch's features: images of h x w pixels of c channels. */
struct lt_net_map lt_net_image(struct lt_net *net, int64_t h, int64_t w, int64_t c);
struct lt_net_map lt_net_conv(struct lt_net *net, struct lt_net_map in, int weight, int64_t i,
                              struct lt_net_window window);
int lt_net_batchnorm(struct lt_net *net, int in, int weight, int bias, int64_t i);
int lt_net_relu(struct lt_net *net, int in);
struct lt_net_map lt_net_maxpool(struct lt_net *net, struct lt_net_map in,
                                 struct lt_net_window window);
int lt_net_avgpool(struct lt_net *net, struct lt_net_map in);
/* A router by its logits; rows to the slots of experts; a layer of each expert, whose matrices are
 * those from i on; and back to rows. */
struct lt_net_routes lt_net_route(struct lt_net *net, int logits, struct lt_net_mixture mixture);
int lt_net_dispatch(struct lt_net *net, int in, const struct lt_net_routes *routes);
int lt_net_experts(struct lt_net *net, int in, int weight, int64_t i,
                   const struct lt_net_routes *routes);
/* Where ranks divide the experts: slots of all experts to those of this rank's, between dispatch
 * and experts; and back, before combine. The value itself where one rank has all of them. */
int lt_net_gather_rows(struct lt_net *net, int in, struct lt_net_routes *routes);
int lt_net_return_rows(struct lt_net *net, int in, struct lt_net_routes *routes);
int lt_net_combine(struct lt_net *net, int in, const struct lt_net_routes *routes);
/* Ends a list that has the model's last layer: the loss of these logits, or of these and those of
 * the other ranks, where each has those of its words. */
void lt_net_classifier(struct lt_net *net, int logits);

/* Ends building: places everything. 0 with the list in *out; else it is destroyed, and *err says of
 * `name` why: TACHO_ENOMEM, TACHO_EINTERNAL for a list that cannot be run (too long, or against the
 * order above), or TACHO_EUSAGE where no choice of blocks fits into the budget. */
int lt_net_finish(struct lt_net *net, const char *name, struct lt_net **out,
                  struct tacho_error *err);
/* Of a finished list: bytes of the model by purpose, and the layout of its parameters, without
 * arrays. Destroys the list, which was made only for that. */
void lt_net_measure(struct lt_net *net, struct lt_memory_plan *out,
                    struct lt_parameters *parameters);

/* Takes the memory, touches it, and fills the parameters from `seed`. TACHO_ENOMEM. `shape` is what
 * a checkpoint must agree in. After it, the model can run. */
int lt_net_allocate(struct lt_net *net, uint64_t seed, const int64_t shape[LT_SHAPE_CAP]);

/* The list as a model; lt_model_destroy frees both. */
struct lt_model *lt_net_model(struct lt_net *net);

/* Frees a list that is no model yet; accepts NULL. */
void lt_net_destroy(struct lt_net *net);

#endif
