/* SPDX-License-Identifier: Apache-2.0
 *
 * GPT-2, forward and backward; gpt2_create.c makes the model. The arguments of a block's operations
 * are put together in one place for both directions, so that forward and backward only say the
 * order of the operations.
 *
 * Symbols as in gpt2_layout.h: c channels, n = b t tokens; q is the place of a block's activations.
 */
#include "libtrain/models/gpt2_layout.h"

#include <stdlib.h>
#include <string.h>

/* The given element of a tensor of activations. */
static void *at(const struct gpt2 *model, float *tensor, int64_t element)
{
    return (char *)tensor + (size_t)element * lt_dtype_bytes(model->mode.dtype);
}

/* The given element of a parameter as GEMMs and look-ups read it: in bf16, of the rounded copy.
 */
static const void *weight(const struct gpt2 *model, const float *tensor, int64_t element)
{
    const struct lt_parameters *parameters = &model->model.parameters;
    return parameters->shadow
               ? (const void *)(parameters->shadow + (tensor - parameters->value) + element)
               : (const void *)(tensor + element);
}

/* The first block whose inner activations are kept. */
static int64_t first_kept(const struct gpt2 *model)
{
    return model->config.layers - lt_gpt2_kept(model->mode, model->config.layers);
}

/* Where the inner activations of block i lie. Those that are not kept pass through the place of the
 * first kept block, which comes after them in forward and before them in backward. */
static int64_t place(const struct gpt2 *model, int64_t i)
{
    return i > first_kept(model) ? i - first_kept(model) : 0;
}

/* The gradient of the given element of a parameter: values and gradients have one layout. */
static float *gradient(const struct gpt2 *model, const float *tensor, int64_t element)
{
    const struct lt_parameters *parameters = &model->model.parameters;
    return parameters->grad + (tensor - parameters->value) + element;
}

/* Runs operation `id` with these arguments, whose member of union lt_args is `member`. */
#define OP(context, id, member, args) \
    lt_op((context), LT_OP_##id, &(union lt_args){.member = (args)})

/* ---- the operations of a block --------------------------------------------------------------- */

/* What both directions of a linear layer of block i share; its parameters are those of all blocks,
 * one after the other. The caller adds what the layer reads and writes. */
static struct lt_matmul linear(const struct gpt2 *model, const float *weights, const float *biases,
                               int64_t i, int64_t outputs, int64_t inputs)
{
    int64_t element = i * outputs * inputs;
    return (struct lt_matmul){.weight = weight(model, weights, element),
                              .bias = biases + i * outputs,
                              .rounded_bias = weight(model, biases, i * outputs),
                              .dweight = gradient(model, weights, element),
                              .dbias = gradient(model, biases, i * outputs),
                              .rows = model->model.b * model->model.t,
                              .n = outputs,
                              .k = inputs};
}

/* Where ranks divide the tokens of the residual stream: the rows of this one, and where they lie in
 * an array of all rows. */
static int64_t own_rows(const struct gpt2 *model)
{
    return model->model.b * model->model.t / lt_gpt2_row_ranks(&model->stage);
}

static void *own_part(const struct gpt2 *model, void *rows)
{
    int64_t before = model->stage.sequence ? model->stage.rank * own_rows(model) : 0;
    return at(model, rows, before * model->config.channels);
}

/* The same of a layernorm, whose backward adds into the gradient of the residual stream. */
static struct lt_layernorm layernorm(const struct gpt2 *model, const float *weights,
                                     const float *biases, int64_t i)
{
    int64_t c = model->config.channels;
    return (struct lt_layernorm){.weight = weights + i * c,
                                 .bias = biases + i * c,
                                 .dweight = gradient(model, weights, i * c),
                                 .dbias = gradient(model, biases, i * c),
                                 .dout = own_part(model, model->act.dbranch),
                                 .din = model->act.dstream,
                                 .rows = own_rows(model),
                                 .c = c};
}

/* The arguments of attention, for both directions, with activations at place i. */
static struct lt_attention attention_args(struct gpt2 *model, int64_t i)
{
    int64_t b = model->model.b, t = model->model.t, n = b * t, c = model->own,
            h = model->config.heads;
    return (struct lt_attention){.out = at(model, model->act.attention, i * n * c),
                                 .lse = model->act.lse + i * b * h * t,
                                 .qkv = at(model, model->act.qkv, i * 3 * n * c),
                                 .scratch = model->act.scratch,
                                 .b = b,
                                 .t = t,
                                 .c = c,
                                 .h = h,
                                 .slots = model->slots};
}

/* The operations of one block, with all that both directions read and write. */
struct block {
    struct lt_layernorm ln1, ln2;
    struct lt_matmul qkv, projection, up, down;
    struct lt_attention attention;
    struct lt_gelu gelu;
};

/* Where the gradient of the residual stream is whole when matrices read it: in itself, or in memory
 * that is only used forward. */
static void *stream_gradient(const struct gpt2 *model)
{
    return model->stage.sequence ? model->act.branch : model->act.dstream;
}

/* The attention half of block i: its input is the stream before it, its output the branch. */
static void attention_half(struct block *block, struct gpt2 *model, int64_t i)
{
    const struct parameters *parameters = &model->value;
    const struct activations *activations = &model->act;
    int64_t n = model->model.b * model->model.t, c = model->config.channels, a = model->own,
            q = place(model, i), m = own_rows(model);
    block->ln1 = layernorm(model, parameters->ln1_weight, parameters->ln1_bias, i);
    block->ln1.in = at(model, activations->stream, i * m * c);
    block->ln1.out = own_part(model, at(model, activations->ln1, q * n * c));
    block->ln1.mean = activations->ln1_mean + q * m;
    block->ln1.rstd = activations->ln1_rstd + q * m;
    block->qkv = linear(model, parameters->qkv_weight, parameters->qkv_bias, i, 3 * a, c);
    block->qkv.in = at(model, activations->ln1, q * n * c);
    block->qkv.out = at(model, activations->qkv, q * 3 * n * a);
    block->qkv.dout = activations->dqkv;
    block->qkv.din = activations->dbranch;
    block->attention = attention_args(model, q);
    block->projection =
        linear(model, parameters->projection_weight, parameters->projection_bias, i, c, a);
    block->projection.in = block->attention.out;
    block->projection.out = activations->branch;
    block->projection.dout = stream_gradient(model);
    block->projection.din = activations->dbranch;
}

/* The MLP half: its input is the stream between the two halves. */
static void mlp_half(struct block *block, struct gpt2 *model, int64_t i)
{
    const struct parameters *parameters = &model->value;
    const struct activations *activations = &model->act;
    int64_t n = model->model.b * model->model.t, c = model->config.channels, wide = 4 * model->own,
            q = place(model, i), m = own_rows(model);
    block->ln2 = layernorm(model, parameters->ln2_weight, parameters->ln2_bias, i);
    block->ln2.in = at(model, activations->middle, q * m * c);
    block->ln2.out = own_part(model, at(model, activations->ln2, q * n * c));
    block->ln2.mean = activations->ln2_mean + q * m;
    block->ln2.rstd = activations->ln2_rstd + q * m;
    block->up = linear(model, parameters->up_weight, parameters->up_bias, i, wide, c);
    block->up.in = at(model, activations->ln2, q * n * c);
    block->up.out = at(model, activations->up, q * wide * n);
    block->up.dout = activations->dwide;
    block->up.din = activations->dbranch;
    block->gelu = (struct lt_gelu){.in = block->up.out,
                                   .out = at(model, activations->gelu, q * wide * n),
                                   .dout = activations->dwide,
                                   .din = activations->dwide,
                                   .count = wide * n};
    block->down = linear(model, parameters->down_weight, parameters->down_bias, i, c, wide);
    block->down.in = block->gelu.out;
    block->down.out = activations->branch;
    block->down.dout = stream_gradient(model);
    block->down.din = activations->dwide;
}

static struct block block_of(struct gpt2 *model, int64_t i)
{
    struct block block;
    attention_half(&block, model, i);
    mlp_half(&block, model, i);
    return block;
}

/* ---- parts of layers ---------------------------------------------------------------------------- */

/* Ranks that divide the layers have each multiplied a part of the inner dimension. */
static void sum_parts(const struct gpt2 *model, const struct lt_context *context, void *data)
{
    const struct lt_tensor_group *group = context->tensor;
    int64_t count = model->model.b * model->model.t * model->config.channels;
    if (model->stage.sequence)
        group->scatter(group->arg, model->mode.dtype, data, (size_t)count);
    else if (model->stage.ranks > 1)
        group->sum(group->arg, model->mode.dtype, data, (size_t)count);
}

/* Brings the rows of all ranks together, where they are divided. */
static void join_rows(const struct gpt2 *model, const struct lt_context *context, void *data)
{
    const struct lt_tensor_group *group = context->tensor;
    int64_t count = model->model.b * model->model.t * model->config.channels;
    if (model->stage.sequence)
        group->join(group->arg, model->mode.dtype, data, (size_t)count);
}

/* The gradient of the residual stream as stream_gradient says. */
static void join_gradient(const struct gpt2 *model, const struct lt_context *context)
{
    size_t elements = (size_t)(own_rows(model) * model->config.channels);
    if (!model->stage.sequence)
        return;
    memcpy(own_part(model, model->act.branch), model->act.dstream,
           elements * lt_dtype_bytes(model->mode.dtype));
    join_rows(model, context, model->act.branch);
}

/* A linear layer whose inputs are divided: the bias is added once. */
static void divided_forward(const struct gpt2 *model, const struct lt_context *context,
                            struct lt_matmul args)
{
    if (model->stage.rank > 0)
        args.bias = NULL;
    OP(context, MATMUL_FORWARD, matmul_forward, args);
    sum_parts(model, context, args.out);
}

/* ---- forward ---------------------------------------------------------------------------------- */

/* In a recompute pass: what block_backward reads of the block, from the block's input. */
static void block_forward(struct gpt2 *model, const struct lt_context *context, int64_t i)
{
    struct block block = block_of(model, i);
    int64_t count = block.ln1.rows * block.ln1.c;
    struct lt_residual residual = {.out = at(model, model->act.middle, place(model, i) * count),
                                   .a = block.ln1.in,
                                   .b = own_part(model, block.projection.out),
                                   .count = count};
    OP(context, LAYERNORM_FORWARD, layernorm_forward, block.ln1);
    join_rows(model, context, (void *)(uintptr_t)block.qkv.in);
    OP(context, MATMUL_FORWARD, matmul_forward, block.qkv);
    OP(context, ATTENTION_FORWARD, attention_forward, block.attention);
    divided_forward(model, context, block.projection);
    OP(context, RESIDUAL_FORWARD, residual_forward, residual);
    OP(context, LAYERNORM_FORWARD, layernorm_forward, block.ln2);
    join_rows(model, context, (void *)(uintptr_t)block.up.in);
    OP(context, MATMUL_FORWARD, matmul_forward, block.up);
    OP(context, GELU_FORWARD, gelu_forward, block.gelu);
    if (context->recompute)
        return; /* backward reads what is above only */
    residual.a = block.ln2.in;
    residual.b = own_part(model, block.down.out);
    residual.out = at(model, model->act.stream, (i + 1) * count);
    divided_forward(model, context, block.down);
    OP(context, RESIDUAL_FORWARD, residual_forward, residual);
}

/* The layernorm after the last block. */
static struct lt_layernorm final_layernorm(struct gpt2 *model)
{
    const struct activations *activations = &model->act;
    struct lt_layernorm last =
        layernorm(model, model->value.final_weight, model->value.final_bias, 0);
    last.in = at(model, activations->stream, model->config.layers * last.rows * last.c);
    last.out = own_part(model, activations->final);
    last.mean = activations->final_mean;
    last.rstd = activations->final_rstd;
    return last;
}

/* The LM head: a product with the word embedding, without a bias. */
static struct lt_matmul head_of(struct gpt2 *model)
{
    struct lt_matmul head = linear(model, model->value.word, model->value.word, 0,
                                   model->config.vocab, model->config.channels);
    if (model->copy) {
        head.weight = model->copy_shadow ? (const void *)model->copy_shadow : model->copy;
        head.dweight = model->copy_grad;
    }
    head.bias = head.dbias = NULL;
    head.in = model->act.final;
    head.out = model->act.logits;
    head.dout = model->act.logits;
    head.din = model->act.dbranch;
    return head;
}

static struct lt_embedding embedding_of(const struct gpt2 *model, const struct lt_batch *batch)
{
    return (struct lt_embedding){.out = model->act.stream,
                                 .word = weight(model, model->value.word, 0),
                                 .position = weight(model, model->value.position, 0),
                                 .tokens = batch->tokens,
                                 .order = batch->order,
                                 .starts = batch->starts,
                                 .dout = model->act.dstream,
                                 .dword = model->grad.word,
                                 .dposition = model->grad.position,
                                 .b = model->model.b,
                                 .t = model->model.t,
                                 .c = model->config.channels,
                                 .v = model->config.vocab};
}

static struct lt_embedding_part part_of(const struct gpt2 *model, const struct lt_embedding *whole)
{
    return (struct lt_embedding_part){.out = whole->out,
                                      .word = whole->word,
                                      .position = whole->position,
                                      .tokens = whole->tokens,
                                      .dout = whole->dout,
                                      .dword = whole->dword,
                                      .dposition = whole->dposition,
                                      .b = whole->b,
                                      .t = whole->t,
                                      .c = whole->c,
                                      .v = whole->v,
                                      .first = lt_gpt2_first_word(model)};
}

/* The caller's context with the type that the model's memory was made for. */
static struct lt_context own_context(const struct gpt2 *model, const struct lt_context *context)
{
    struct lt_context own = *context;
    own.dtype = model->mode.dtype;
    return own;
}

/* The classifier of ranks that have a part of the vocabulary each. */
static void classify_part(const struct gpt2 *gpt2, const struct lt_context *context,
                          const struct lt_classifier *whole)
{
    const struct lt_tensor_group *group = context->tensor;
    float *all = gpt2->act.stats + 3 * whole->rows; /* behind this rank's */
    struct lt_classifier_part part = {.logits = whole->logits,
                                      .losses = whole->losses,
                                      .stats = gpt2->act.stats,
                                      .targets = whole->targets,
                                      .rows = whole->rows,
                                      .v = whole->v,
                                      .first = lt_gpt2_first_word(gpt2),
                                      .ranks = group->ranks,
                                      .scale = whole->scale,
                                      .backward = whole->backward};
    OP(context, CLASSIFIER_PART, classifier_part, part);
    group->gather(group->arg, part.stats, all, (size_t)(3 * part.rows));
    part.stats = all;
    OP(context, CLASSIFIER_JOIN, classifier_join, part);
}

/* Final layernorm, LM head, and the classifier, which leaves the gradient of the logits in their
 * place unless this is an evaluation. Returns the mean loss, which on a device is not known yet
 * (struct lt_late) and 0 here. */
static double answer(struct gpt2 *gpt2, const struct lt_context *context,
                     const struct lt_batch *batch, int parts)
{
    int64_t n = gpt2->model.b * gpt2->model.t;
    struct lt_layernorm last = final_layernorm(gpt2);
    struct lt_matmul head = head_of(gpt2);
    struct lt_classifier classifier = {.logits = gpt2->act.logits,
                                       .losses = gpt2->act.losses,
                                       .targets = batch->targets,
                                       .rows = n,
                                       .v = gpt2->config.vocab,
                                       .scale = lt_loss_share(context, n * parts),
                                       .backward = !context->evaluation};
    lt_model_use(context, 0);
    OP(context, LAYERNORM_FORWARD, layernorm_forward, last);
    join_rows(gpt2, context, gpt2->act.final);
    OP(context, MATMUL_FORWARD, matmul_forward, head);
    if (gpt2->stage.ranks > 1)
        classify_part(gpt2, context, &classifier);
    else
        OP(context, CLASSIFIER, classifier, classifier);
    return context->device ? 0 : lt_mean_loss(gpt2->act.losses, n);
}

/* The embedding, of which each of several ranks has a part; rank 0 adds the positions. */
static void embed(const struct gpt2 *gpt2, const struct lt_context *context,
                  const struct lt_batch *batch)
{
    struct lt_embedding embedding = embedding_of(gpt2, batch);
    if (gpt2->stage.ranks == 1) {
        OP(context, EMBEDDING_FORWARD, embedding_forward, embedding);
        return;
    }
    struct lt_embedding_part part = part_of(gpt2, &embedding);
    size_t elements = (size_t)(own_rows(gpt2) * gpt2->config.channels);
    if (gpt2->stage.rank > 0)
        part.position = NULL;
    if (gpt2->stage.sequence)
        part.out = gpt2->act.branch;
    OP(context, EMBEDDING_PART_FORWARD, embedding_part_forward, part);
    sum_parts(gpt2, context, part.out);
    if (gpt2->stage.sequence)
        memcpy(gpt2->act.stream, own_part(gpt2, part.out),
               elements * lt_dtype_bytes(gpt2->mode.dtype));
}

/* Embedding, blocks, and the answer, or those of them that this stage has. */
static double gpt2_forward(struct lt_model *model, const struct lt_context *context,
                           const struct lt_batch *batch, int parts)
{
    struct gpt2 *gpt2 = (struct gpt2 *)model;
    struct lt_context own = own_context(gpt2, context);
    own.layer = 0;
    lt_model_use(&own, 0);
    if (gpt2->stage.embeds)
        embed(gpt2, &own, batch);
    for (int64_t i = 0; i < gpt2->config.layers; i++) {
        own.layer = (int)i + 1;
        lt_model_use(&own, i + 1);
        block_forward(gpt2, &own, i);
    }
    own.layer = 0;
    return gpt2->stage.answers ? answer(gpt2, &own, batch, parts) : 0;
}

/* ---- backward --------------------------------------------------------------------------------- */

/* These two announce that the gradients they leave are final: every parameter is used once, but for
 * the tied word embedding. */
static void layernorm_backward(const struct gpt2 *model, const struct lt_context *context,
                               struct lt_layernorm args)
{
    const struct lt_tensor_group *group = context->tensor;
    OP(context, LAYERNORM_BACKWARD, layernorm_backward, args);
    if (model->stage.sequence && context->ready) { /* each rank has the sums over its rows */
        group->sum(group->arg, LT_DTYPE_FP32, args.dweight, (size_t)args.c);
        group->sum(group->arg, LT_DTYPE_FP32, args.dbias, (size_t)args.c);
    }
    lt_model_ready(&model->model, context, args.dweight, (size_t)args.c);
    lt_model_ready(&model->model, context, args.dbias, (size_t)args.c);
}

static void linear_backward(const struct gpt2 *model, const struct lt_context *context,
                            struct lt_matmul args, int accumulate)
{
    args.accumulate = accumulate;
    OP(context, MATMUL_BACKWARD, matmul_backward, args);
    lt_model_ready(&model->model, context, args.dweight, (size_t)(args.n * args.k));
    lt_model_ready(&model->model, context, args.dbias, (size_t)args.n);
}

/* dstream holds the gradient of the block's output and becomes that of its input; layernorm's
 * backward adds into it, which is the sum of the two paths of the residual connection. */
static void block_backward(struct gpt2 *model, const struct lt_context *context, int64_t i,
                           int accumulate)
{
    struct block block = block_of(model, i);
    block.attention.dout = model->act.dbranch;
    block.attention.dqkv = model->act.dqkv;
    join_gradient(model, context);
    linear_backward(model, context, block.down, accumulate);
    OP(context, GELU_BACKWARD, gelu_backward, block.gelu);
    linear_backward(model, context, block.up, accumulate);
    sum_parts(model, context, block.up.din);
    layernorm_backward(model, context, block.ln2);
    join_gradient(model, context);
    linear_backward(model, context, block.projection, accumulate);
    OP(context, ATTENTION_BACKWARD, attention_backward, block.attention);
    linear_backward(model, context, block.qkv, accumulate);
    sum_parts(model, context, block.qkv.din);
    layernorm_backward(model, context, block.ln1);
}

/* Forward leaves the activations of the kept blocks where backward looks for them; those of the
 * others are made once more. */
static void block_again(struct gpt2 *model, const struct lt_context *context, int64_t i)
{
    struct lt_context again = *context;
    if (i >= first_kept(model))
        return;
    again.recompute = 1;
    block_forward(model, &again, i);
}

/* Floats in the room of so many elements; tensors begin at whole cache lines. */
static int64_t words(const struct gpt2 *model, int64_t elements)
{
    return ((int64_t)lt_dtype_bytes(model->mode.dtype) * elements + (int64_t)sizeof(float) - 1) /
           (int64_t)sizeof(float);
}

static void zero(const struct lt_context *context, float *from, int64_t count)
{
    OP(context, ZERO, zero, ((struct lt_zero){.x = from, .count = count}));
}

/* From the logits' gradient to that of the blocks' output. */
static void answer_backward(struct gpt2 *gpt2, const struct lt_context *context, int first)
{
    struct lt_matmul head = head_of(gpt2);
    zero(context, gpt2->act.dstream, words(gpt2, own_rows(gpt2) * gpt2->config.channels));
    head.accumulate = !first;
    OP(context, MATMUL_BACKWARD, matmul_backward, head);
    sum_parts(gpt2, context, head.din);
    layernorm_backward(gpt2, context, final_layernorm(gpt2));
}

static void embed_backward(struct gpt2 *gpt2, const struct lt_context *context,
                           const struct lt_batch *batch)
{
    struct lt_embedding embedding = embedding_of(gpt2, batch);
    int64_t c = gpt2->config.channels;
    struct lt_embedding_part part = part_of(gpt2, &embedding);
    join_gradient(gpt2, context);
    part.dout = stream_gradient(gpt2);
    if (gpt2->stage.ranks > 1)
        OP(context, EMBEDDING_PART_BACKWARD, embedding_part_backward, part);
    else
        OP(context, EMBEDDING_BACKWARD, embedding_backward, embedding);
    lt_model_ready(&gpt2->model, context, gpt2->grad.position,
                   (size_t)(gpt2->config.positions * c));
    /* the LM head's product and the look-up have both added to it */
    lt_model_ready(&gpt2->model, context, gpt2->grad.word, (size_t)(gpt2->config.vocab * c));
}

/* The first micro-step overwrites the weights' gradients, so only those that are always added to
 * are zeroed: positions, vectors (they lie together at the end of the array), and the residual
 * stream's. */
static void gpt2_backward(struct lt_model *model, const struct lt_context *context,
                          const struct lt_batch *batch, int first)
{
    struct gpt2 *gpt2 = (struct gpt2 *)model;
    struct lt_context own = own_context(gpt2, context);
    int64_t last = gpt2->config.layers - 1;
    if (first && gpt2->stage.embeds)
        zero(&own, gpt2->grad.position, gpt2->config.positions * gpt2->config.channels);
    if (first)
        zero(&own, gpt2->grad.ln1_weight,
             (int64_t)(model->parameters.count - model->parameters.decayed));
    if (gpt2->stage.answers)
        answer_backward(gpt2, &own, first);
    for (int64_t i = last; i >= 0; i--) {
        own.layer = (int)i + 1;
        lt_model_use(&own, i + 1);
        block_again(gpt2, &own, i);
        block_backward(gpt2, &own, i, !first);
    }
    own.layer = 0;
    if (gpt2->stage.embeds)
        embed_backward(gpt2, &own, batch);
}

static void gpt2_destroy(struct lt_model *model)
{
    struct gpt2 *gpt2 = (struct gpt2 *)model;
    lt_arena_destroy(&gpt2->value_arena);
    lt_arena_destroy(&gpt2->grad_arena);
    lt_arena_destroy(&gpt2->shadow_arena);
    lt_arena_destroy(&gpt2->activation_arena);
    lt_arena_destroy(&gpt2->workspace_arena);
    lt_arena_destroy(&gpt2->copy_arena);
    lt_arena_destroy(&gpt2->copy_grad_arena);
    lt_arena_destroy(&gpt2->copy_shadow_arena);
    free(gpt2->flight);
    free(gpt2);
}

const struct lt_model_ops lt_gpt2_ops = {.name = "gpt2",
                                         .tells_use = 1,
                                         .forward = gpt2_forward,
                                         .backward = gpt2_backward,
                                         .destroy = gpt2_destroy,
                                         .stage = &lt_gpt2_stage_ops};
