/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: what the training loop, the optimizer and checkpoints need to know of a
 * model. A model is one file that fills struct lt_model_ops; its own struct begins with struct
 * lt_model.
 */
#ifndef LT_MODEL_H
#define LT_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "libtrain/base/arena.h"
#include "libtrain/loader/batch.h"
#include "libtrain/models/slice.h"
#include "libtrain/ops/ops.h"
#include "tacho_error.h"

#define LT_WEIGHT_CAP 72

/* Flat arrays of the same layout: values, gradients and, where the model computes in bf16 or fp16,
 * the rounded copy of the values that its GEMMs read (the optimizer keeps it up to date). The first
 * `decayed` elements are the tensors that weight decay applies to. `count` includes alignment
 * padding, which is zero everywhere. The optimizer's own state is in optimizer.h. */
struct lt_parameters {
    float *value, *grad;
    uint16_t *shadow;           /* NULL in fp32 */
    enum lt_dtype shadow_dtype; /* of its elements */
    struct lt_space *space;     /* where the arrays lie; NULL: in the host's memory */
    size_t count, decayed;
    uint64_t trainable; /* without padding */
    uint64_t matrix;    /* parameters of GEMMs, LM head included, look-ups not */
    /* The tensors, in the order of the arrays; none: all is one vector. */ struct lt_weight
        weight[LT_WEIGHT_CAP];
    int weights;
    /* Where ranks have parts of matrices: of how many groups of its rows, or of a vector's columns,
     * a tensor has a part each (query, key, value: 3; lt_weight.lead); 0: of all of them together.
     * copied: another rank has the tensor too, and counts it in the norm of the gradient. */
    uint8_t groups[LT_WEIGHT_CAP], copied[LT_WEIGHT_CAP];
    /* Where ranks divide the experts: a tensor of which only the ranks with the same experts have
     * the same matrices, `each` of them in a block. */
    uint8_t expert[LT_WEIGHT_CAP];
    /* All of them are those of linear layers with a bias: matrices and vectors each in the order of
     * the layers, vector i the bias of matrix i. */
    int linear;
    /* How many matrices of each tensor, from its first on, do not learn; has_frozen: some do not.
     */
    int64_t frozen[LT_WEIGHT_CAP];
    int has_frozen;
};

/* Appends a tensor behind the last one, as an arena places it: `count` grows by its padded size,
 * `trainable` by its own. Tensors with weight decay come first. */
static inline void lt_parameters_add(struct lt_parameters *parameters, struct lt_weight weight,
                                     int decays)
{
    size_t size = (size_t)(weight.repeat * weight.rows * weight.columns);
    weight.first = parameters->count;
    parameters->weight[parameters->weights++] = weight;
    parameters->count += lt_arena_padded(size);
    parameters->trainable += size;
    if (decays)
        parameters->decayed = parameters->count;
}

#define LT_SHAPE_CAP 8

/* Which activations are made again in backward instead of being kept. BLOCK: all but the inputs of
 * the blocks. */
#define LT_RECOMPUTE_MAP(X)         X(NONE, "none") X(BLOCK, "block")
#define LT_ENUM_RECOMPUTE(id, name) LT_RECOMPUTE_##id,
enum lt_recompute { LT_RECOMPUTE_MAP(LT_ENUM_RECOMPUTE) LT_RECOMPUTE_COUNT };
#undef LT_ENUM_RECOMPUTE

/* FLOPs of one optimizer update in closed form, in three conventions: of the model, with attention
 * exact for the mask; as in PaLM; `issued`: the matrix and attention work that a backend really
 * multiplies. `recomputed` is the part of it that was made before. */
struct lt_flops {
    uint64_t model, palm, issued, recomputed;
};

struct lt_model;

/* An array of heads that ranks divide, between two forms: each rank has some tokens of all heads,
 * tokens[b][t][groups][ranks][width], or all tokens of some heads,
 * heads[b][ranks][t][groups][width]. t: tokens of a rank in each of b sequences; groups: 3 for
 * query, key and value; width: channels of a rank's heads. */
struct lt_turn {
    int64_t b, t, groups, width;
};

/* The ranks that have parts of the same layers (Shoeybi et al. 2019), experts or sequences; rank 0
 * adds the biases of sums. sum: data[count] of the given type becomes the sum over the ranks, the
 * same bits on all of them. gather: count floats of each, in the order of ranks. */
struct lt_tensor_group {
    int rank, ranks;
    void (*sum)(void *arg, enum lt_dtype dtype, void *data, size_t count);
    void (*gather)(void *arg, const float *mine, float *all, size_t count);
    /* data[count], of which share `rank` (share.h) becomes the sum over the ranks, the rest is
     * undefined; and of which every rank gets the shares of the others. */
    void (*scatter)(void *arg, enum lt_dtype dtype, void *data, size_t count);
    void (*join)(void *arg, enum lt_dtype dtype, void *data, size_t count);
    /* From tokens to heads, or back: each rank sends every other one its part (Jacobs et al. 2023).
     */
    void (*turn)(void *arg, enum lt_dtype dtype, const struct lt_turn *shape, int to_heads,
                 const void *from, void *to);
    /* Around the ring of the ranks: `out` goes to the next one, `in` comes from the one before. */
    void (*pass)(void *arg, const void *out, void *in, size_t bytes);
    /* Rows to the ranks that have their experts, or back (ops.h). */
    void (*spread)(void *arg, enum lt_dtype dtype, const struct lt_spread *spread, int backward);
    void *arg;
};

/* What one stage of a pipeline hands to the next: the input and the output of its blocks in the
 * selected slot, and the gradient of its output, which backward turns into that of its input. */
enum lt_boundary { LT_BOUNDARY_INPUT, LT_BOUNDARY_OUTPUT, LT_BOUNDARY_GRADIENT };

/* A model that is a part of one: a stage of a pipeline, a part of its layers. Its forward reads
 * INPUT unless it is the first stage, and returns 0 unless it is the last; its backward reads
 * GRADIENT unless it is the last. Activations of as many micro-batches as were asked for when it
 * was made are kept in slots. A stage may have several chunks of blocks; each is as a stage. */
struct lt_stage_ops {
    void (*select)(struct lt_model *model, int slot, int chunk);
    size_t (*boundary_bytes)(const struct lt_model *model);
    void *(*boundary)(struct lt_model *model, enum lt_boundary which);
    /* Of a rank that has a part of the layers: of the largest array that is added up over the
     * ranks.
     */
    size_t (*summed_bytes)(const struct lt_model *model);
    /* Of a rank that has a part of the experts: of its own rows for all of them. */
    size_t (*handed_bytes)(const struct lt_model *model);
    /* The tensor that the first and the last stage both use: values and gradient, *count elements;
     * NULL in the other stages. The first stage has it among its parameters, and its backward adds
     * to the gradient that is there; the last one's backward does not announce it. */
    float *(*tied)(const struct lt_model *model, size_t *count);
    float *(*tied_gradient)(const struct lt_model *model, size_t *count);
    void (*tied_changed)(struct lt_model *model); /* the values were written */
    /* The layout of the undivided model's parameters, whose tensors are in the same order and of
     * which the tied one is the first; and where this rank's lie in it. */
    struct lt_slice (*whole)(const struct lt_model *model, struct lt_parameters *out);
};

/* How a mixture spread the rows of the last forward, as the mean over its layers: the choices of
 * the expert with the most over the mean of all; the share of the choices that found no place. */
struct lt_routing {
    double imbalance, dropped;
};

/* What one router chose in the last forward: load[experts] rows chose each expert, of which
 * `capacity` found a place. Borrowed from the model. */
struct lt_routed {
    int64_t step;
    int micro, layer; /* layer: from 0 */
    const float *load;
    int64_t experts, capacity;
};

struct lt_model_ops {
    const char *name;
    /* How often a micro-batch turns to a unit of parameters (lt_model_use), forward and backward
     * together. NULL: forward and backward do not call lt_model_use. */
    int (*uses)(const struct lt_model *model, int64_t unit);
    /* Mean loss over the micro-batch. Unless context->evaluation, also readies backward with
     * gradient scale 1 / (b t parts): the update is the mean over `parts` micro-batches, those of
     * other ranks included. */
    double (*forward)(struct lt_model *model, const struct lt_context *context,
                      const struct lt_batch *batch, int parts);
    /* Gradients of the last forward; `first` overwrites what the arrays hold, else they are added
     * to. Tells context->ready. */
    void (*backward)(struct lt_model *model, const struct lt_context *context,
                     const struct lt_batch *batch, int first);
    /* Samples of the last forward, an evaluation, whose most likely class is the right one; NULL:
     * not for this model. */
    int64_t (*correct)(const struct lt_model *model, const struct lt_batch *batch);
    /* NULL: no mixture of experts. */
    void (*routing)(const struct lt_model *model, struct lt_routing *out);
    /* Router number `router` of the list, without step and micro; 0: there are not as many. */
    int (*routed)(const struct lt_model *model, int router, struct lt_routed *out);
    void (*destroy)(struct lt_model *model);
    /* Of a stage made for it: the gradients of matrices and their biases, from what backward left;
     * `first` overwrites what the arrays hold. It announces all gradients of the chunk. NULL: not
     * for this model. */
    void (*weights)(struct lt_model *model, const struct lt_context *context, int first);
    const struct lt_stage_ops *stage; /* NULL: the model cannot be divided into stages */
    /* The first `blocks` blocks and what lies before them do not learn any more: backward ends
     * above them, their gradients are 0, and parameters.frozen says which they are. A tensor that
     * something above them uses too still learns by that. 0, or TACHO_EUSAGE when there are not as
     * many. */
    int (*freeze)(struct lt_model *model, int64_t blocks);
};

struct lt_model {
    const struct lt_model_ops *ops;
    struct lt_parameters parameters;
    /* micro-batch, sequence length, words; of images t is 0 and vocab the classes */
    int64_t b, t, vocab;
    int64_t shape[LT_SHAPE_CAP]; /* what a checkpoint must agree in; unused places are 0 */
    /* What forward moves and no gradient: running statistics. A part of checkpoints; each rank has
     * its own. */
    float *state;
    size_t states;
    int64_t frozen; /* blocks */
};

/* Writes the whole shadow from the values: after they were initialised or read from a file. Nothing
 * without a shadow. */
void lt_parameters_refresh(const struct lt_parameters *parameters);

/* The mean of the losses of a micro-batch. */
static inline double lt_mean_loss(const float *losses, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)losses[i];
    return sum / (double)count;
}

/* For backward: the gradients from[0, count) will not change any more in this step. */
static inline void lt_model_ready(const struct lt_model *model, const struct lt_context *context,
                                  const float *from, size_t count)
{
    if (context->ready)
        context->ready(context->ready_arg, (size_t)(from - model->parameters.grad), count);
}

/* For forward and backward: the parameters of unit 0 (the tensors that are there once), or of unit
 * i + 1 (block i of those that every block has), are read from here on, the others no more. */
static inline void lt_model_use(const struct lt_context *context, int64_t unit)
{
    if (context->use)
        context->use(context->use_arg, (int)unit);
}

/* Accepts NULL. */
static inline void lt_model_destroy(struct lt_model *model)
{
    if (model)
        model->ops->destroy(model);
}

#endif
