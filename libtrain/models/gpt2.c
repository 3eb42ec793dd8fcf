/* SPDX-License-Identifier: Apache-2.0
 *
 * GPT-2, forward and backward: the order of the operations. gpt2_create.c makes the model,
 * gpt2_block.c the operations' arguments, in one place for both directions.
 *
 * Symbols as in gpt2_layout.h: c channels, n = b t tokens.
 */
#include "libtrain/models/gpt2_block.h"

#include <stdlib.h>
#include <string.h>

/* Runs operation `id` with these arguments, whose member of union lt_args is `member`. */
#define OP(context, id, member, args) \
    lt_op((context), LT_OP_##id, &(union lt_args){.member = (args)})

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

/* Gathers the gradient of the residual stream from the ranks that each have a part of the rows,
 * where sequence parallelism divides them; lt_gpt2_stream_gradient says where it lies then. */
static void join_gradient(const struct gpt2 *model, const struct lt_context *context)
{
    size_t elements = (size_t)(lt_gpt2_own_rows(model) * model->config.channels);
    if (!model->stage.sequence)
        return;
    memcpy(lt_gpt2_own_part(model, model->act.branch), model->act.dstream,
           elements * lt_dtype_bytes(model->mode.dtype));
    join_rows(model, context, model->act.branch);
}

/* Attention between the tokens of this rank and, where ranks divide sequences, its heads. Backward
 * leaves the gradient where the linear layer below reads it. */
static void attend(const struct gpt2 *model, const struct lt_context *context,
                   const struct lt_gpt2_block *block)
{
    const struct lt_tensor_group *group = context->sequences;
    struct lt_turn three = lt_gpt2_turn(model, 3), one = lt_gpt2_turn(model, 1);
    int turns = lt_gpt2_turners(&model->stage) > 1;
    if (model->stage.ring && lt_gpt2_contexts(&model->stage) > 1) {
        lt_gpt2_ring(model, context, &block->attention);
        return;
    }
    if (turns)
        group->turn(group->arg, model->mode.dtype, &three, 1, block->qkv.out,
                    (void *)(uintptr_t)block->attention.qkv);
    OP(context, ATTENTION_FORWARD, attention_forward, block->attention);
    if (turns)
        group->turn(group->arg, model->mode.dtype, &one, 0, block->attention.out,
                    (void *)(uintptr_t)block->projection.in);
}

static void attend_backward(const struct gpt2 *model, const struct lt_context *context,
                            const struct lt_gpt2_block *block)
{
    const struct lt_tensor_group *group = context->sequences;
    struct lt_turn three = lt_gpt2_turn(model, 3), one = lt_gpt2_turn(model, 1);
    struct lt_attention attention = block->attention;
    int turns = lt_gpt2_turners(&model->stage) > 1;
    attention.dout = turns ? model->act.branch : model->act.dbranch;
    attention.dqkv = turns ? (void *)model->act.dqkv_heads : (void *)(uintptr_t)block->qkv.dout;
    if (model->stage.ring && lt_gpt2_contexts(&model->stage) > 1) {
        lt_gpt2_ring_backward(model, context, &attention);
        return;
    }
    if (turns)
        group->turn(group->arg, model->mode.dtype, &one, 1, model->act.dbranch, model->act.branch);
    OP(context, ATTENTION_BACKWARD, attention_backward, attention);
    if (turns)
        group->turn(group->arg, model->mode.dtype, &three, 0, attention.dqkv,
                    (void *)(uintptr_t)block->qkv.dout);
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
    struct lt_gpt2_block block = lt_gpt2_block(model, i);
    int64_t count = block.ln1.rows * block.ln1.c;
    struct lt_residual residual = {
        .out = lt_gpt2_at(model, model->act.middle, lt_gpt2_place(model, i) * count),
        .a = block.ln1.in,
        .b = lt_gpt2_own_part(model, block.projection.out),
        .count = count};
    OP(context, LAYERNORM_FORWARD, layernorm_forward, block.ln1);
    join_rows(model, context, (void *)(uintptr_t)block.qkv.in);
    OP(context, MATMUL_FORWARD, matmul_forward, block.qkv);
    attend(model, context, &block);
    divided_forward(model, context, block.projection);
    OP(context, RESIDUAL_FORWARD, residual_forward, residual);
    OP(context, LAYERNORM_FORWARD, layernorm_forward, block.ln2);
    join_rows(model, context, (void *)(uintptr_t)block.up.in);
    OP(context, MATMUL_FORWARD, matmul_forward, block.up);
    OP(context, GELU_FORWARD, gelu_forward, block.gelu);
    if (context->recompute)
        return; /* backward reads what is above only */
    residual.a = block.ln2.in;
    residual.b = lt_gpt2_own_part(model, block.down.out);
    residual.out = lt_gpt2_at(model, model->act.stream, (i + 1 - lt_gpt2_begin(model)) * count);
    divided_forward(model, context, block.down);
    OP(context, RESIDUAL_FORWARD, residual_forward, residual);
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
    struct lt_layernorm last = lt_gpt2_final_layernorm(gpt2);
    struct lt_matmul head = lt_gpt2_head(gpt2);
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
    struct lt_embedding embedding = lt_gpt2_embedding(gpt2, batch);
    if (gpt2->stage.ranks == 1) {
        OP(context, EMBEDDING_FORWARD, embedding_forward, embedding);
        return;
    }
    struct lt_embedding_part part = lt_gpt2_embedding_part(gpt2, &embedding);
    size_t elements = (size_t)(lt_gpt2_own_rows(gpt2) * gpt2->config.channels);
    if (gpt2->stage.rank > 0)
        part.position = NULL;
    if (gpt2->stage.sequence)
        part.out = gpt2->act.branch;
    OP(context, EMBEDDING_PART_FORWARD, embedding_part_forward, part);
    sum_parts(gpt2, context, part.out);
    if (gpt2->stage.sequence)
        memcpy(gpt2->act.stream, lt_gpt2_own_part(gpt2, part.out),
               elements * lt_dtype_bytes(gpt2->mode.dtype));
}

/* Embedding, blocks, and the answer, or those of them that this stage has. */
static double gpt2_forward(struct lt_model *model, const struct lt_context *context,
                           const struct lt_batch *batch, int parts)
{
    struct gpt2 *gpt2 = (struct gpt2 *)model;
    struct lt_context own = own_context(gpt2, context);
    int64_t begin = lt_gpt2_begin(gpt2), end = begin + lt_gpt2_chunk(&gpt2->stage);
    own.layer = 0;
    if (lt_gpt2_embeds(gpt2)) {
        lt_model_use(&own, 0);
        embed(gpt2, &own, batch);
    }
    for (int64_t i = begin; i < end; i++) {
        own.layer = (int)i + 1;
        lt_model_use(&own, i + 1);
        block_forward(gpt2, &own, i);
    }
    own.layer = 0;
    return lt_gpt2_answers(gpt2) ? answer(gpt2, &own, batch, parts) : 0;
}

/* Each unit forward and backward; unit 0 stays from the head's forward to its backward. A single
 * block is part of unit 0. Backward of the embedding reads nothing. */
static int gpt2_uses(const struct lt_model *model, int64_t unit)
{
    const struct lt_gpt2_stage *stage = &((const struct gpt2 *)model)->stage;
    int alone = stage->layers == 1, whole = stage->embeds && stage->answers;
    if (whole && alone)
        return 1;
    return stage->embeds && !whole && !alone && unit == 0 ? 1 : 2;
}

/* ---- backward --------------------------------------------------------------------------------- */

/* Where ranks divide the rows of the residual stream, each has the sums over its own ones. */
static void layernorm_announce(const struct gpt2 *model, const struct lt_context *context,
                               const struct lt_layernorm *args)
{
    const struct lt_tensor_group *group = context->tensor;
    if (model->stage.sequence && context->ready) {
        group->sum(group->arg, LT_DTYPE_FP32, args->dweight, (size_t)args->c);
        group->sum(group->arg, LT_DTYPE_FP32, args->dbias, (size_t)args->c);
    }
    lt_model_ready(&model->model, context, args->dweight, (size_t)args->c);
    lt_model_ready(&model->model, context, args->dbias, (size_t)args->c);
}

/* These two announce that the gradients they leave are final: every parameter is used once, but for
 * the tied word embedding. */
static void layernorm_backward(const struct gpt2 *model, const struct lt_context *context,
                               struct lt_layernorm args)
{
    OP(context, LAYERNORM_BACKWARD, layernorm_backward, args);
    layernorm_announce(model, context, &args);
}

static void linear_announce(const struct gpt2 *model, const struct lt_context *context,
                            const struct lt_matmul *args)
{
    lt_model_ready(&model->model, context, args->dweight, (size_t)(args->n * args->k));
    lt_model_ready(&model->model, context, args->dbias, (size_t)args->n);
}

static void linear_backward(const struct gpt2 *model, const struct lt_context *context,
                            struct lt_matmul args, int accumulate)
{
    args.accumulate = accumulate;
    if (model->stage.split) /* gpt2_weights makes them */
        args.dweight = args.dbias = NULL;
    OP(context, MATMUL_BACKWARD, matmul_backward, args);
    if (!model->stage.split)
        linear_announce(model, context, &args);
}

/* Keeps the gradient of the output of a linear layer until the weights pass, which a schedule with
 * a split backward pass runs later. */
static void keep_stream(const struct gpt2 *model, const struct lt_matmul *next)
{
    size_t bytes = (size_t)(next->rows * next->n) * lt_dtype_bytes(model->mode.dtype);
    if (model->stage.split)
        memcpy((void *)(uintptr_t)next->dout, lt_gpt2_stream_gradient(model), bytes);
}

/* dstream holds the gradient of the block's output and becomes that of its input; layernorm's
 * backward adds into it, which is the sum of the two paths of the residual connection. */
static void block_backward(struct gpt2 *model, const struct lt_context *context, int64_t i,
                           int accumulate)
{
    struct lt_gpt2_block block = lt_gpt2_block(model, i);
    join_gradient(model, context);
    keep_stream(model, &block.down);
    linear_backward(model, context, block.down, accumulate);
    OP(context, GELU_BACKWARD, gelu_backward, block.gelu);
    linear_backward(model, context, block.up, accumulate);
    sum_parts(model, context, block.up.din);
    layernorm_backward(model, context, block.ln2);
    join_gradient(model, context);
    keep_stream(model, &block.projection);
    linear_backward(model, context, block.projection, accumulate);
    attend_backward(model, context, &block);
    linear_backward(model, context, block.qkv, accumulate);
    sum_parts(model, context, block.qkv.din);
    layernorm_backward(model, context, block.ln1);
}

/* Forward leaves the activations of the kept blocks where backward looks for them; those of the
 * others are made once more. */
static void block_again(struct gpt2 *model, const struct lt_context *context, int64_t i)
{
    struct lt_context again = *context;
    if (i >= lt_gpt2_first_kept(model))
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
    struct lt_matmul head = lt_gpt2_head(gpt2);
    lt_model_use(context, 0);
    zero(context, gpt2->act.dstream, words(gpt2, lt_gpt2_own_rows(gpt2) * gpt2->config.channels));
    head.accumulate = !first;
    if (gpt2->stage.split)
        head.dweight = NULL;
    OP(context, MATMUL_BACKWARD, matmul_backward, head);
    sum_parts(gpt2, context, head.din);
    layernorm_backward(gpt2, context, lt_gpt2_final_layernorm(gpt2));
}

static void embed_announce(const struct gpt2 *gpt2, const struct lt_context *context)
{
    int64_t c = gpt2->config.channels;
    lt_model_ready(&gpt2->model, context, gpt2->grad.position,
                   (size_t)(gpt2->config.positions * c));
    /* the LM head's product and the look-up have both added to it */
    lt_model_ready(&gpt2->model, context, gpt2->grad.word, (size_t)(gpt2->config.vocab * c));
}

static void embed_backward(struct gpt2 *gpt2, const struct lt_context *context,
                           const struct lt_batch *batch)
{
    struct lt_embedding embedding = lt_gpt2_embedding(gpt2, batch);
    struct lt_embedding_part part = lt_gpt2_embedding_part(gpt2, &embedding);
    join_gradient(gpt2, context);
    part.dout = lt_gpt2_stream_gradient(gpt2);
    if (gpt2->stage.ranks > 1)
        OP(context, EMBEDDING_PART_BACKWARD, embedding_part_backward, part);
    else
        OP(context, EMBEDDING_BACKWARD, embedding_backward, embedding);
    embed_announce(gpt2, context);
}

/* Nothing below the first learning block is made, and its gradients stay 0; but the word embedding
 * is the head's matrix, too. */
static void announce_frozen(struct gpt2 *gpt2, const struct lt_context *context)
{
    for (int64_t i = gpt2->model.frozen - 1; i >= 0; i--) {
        struct lt_gpt2_block block = lt_gpt2_block(gpt2, i);
        linear_announce(gpt2, context, &block.down);
        linear_announce(gpt2, context, &block.up);
        layernorm_announce(gpt2, context, &block.ln2);
        linear_announce(gpt2, context, &block.projection);
        linear_announce(gpt2, context, &block.qkv);
        layernorm_announce(gpt2, context, &block.ln1);
    }
    embed_announce(gpt2, context);
}

/* The first micro-step overwrites the weights' gradients, so only those that are always added to
 * are zeroed: positions, vectors (they lie together at the end of the array, those of all chunks,
 * of which the last one comes first), and the residual stream's. */
static void gpt2_backward(struct lt_model *model, const struct lt_context *context,
                          const struct lt_batch *batch, int first)
{
    struct gpt2 *gpt2 = (struct gpt2 *)model;
    struct lt_context own = own_context(gpt2, context);
    int64_t begin = lt_gpt2_begin(gpt2), last = begin + lt_gpt2_chunk(&gpt2->stage) - 1;
    if (first && lt_gpt2_embeds(gpt2))
        zero(&own, gpt2->grad.position, gpt2->config.positions * gpt2->config.channels);
    if (first && gpt2->chunk + 1 >= gpt2->stage.chunks)
        zero(&own, gpt2->grad.ln1_weight,
             (int64_t)(model->parameters.count - model->parameters.decayed));
    if (lt_gpt2_answers(gpt2))
        answer_backward(gpt2, &own, first);
    for (int64_t i = last; i >= begin && i >= model->frozen; i--) {
        own.layer = (int)i + 1;
        lt_model_use(&own, i + 1);
        block_again(gpt2, &own, i);
        block_backward(gpt2, &own, i, !first);
    }
    own.layer = 0;
    if (model->frozen)
        announce_frozen(gpt2, &own);
    else if (lt_gpt2_embeds(gpt2))
        embed_backward(gpt2, &own, batch);
}

/* Of a whole model: the positions, and the first matrices of each tensor that every block has. */
static int gpt2_freeze(struct lt_model *model, int64_t blocks)
{
    const struct gpt2 *gpt2 = (const struct gpt2 *)model;
    struct lt_parameters *parameters = &model->parameters;
    if (blocks > gpt2->config.layers)
        return TACHO_EUSAGE;
    model->frozen = blocks;
    parameters->has_frozen = blocks > 0;
    for (int i = 0; i < parameters->weights; i++) {
        size_t first = parameters->weight[i].first,
               position = (size_t)(gpt2->value.position - parameters->value),
               last = (size_t)(gpt2->value.final_weight - parameters->value);
        if (first == position)
            parameters->frozen[i] = blocks > 0;
        else if (first > position && first < last)
            parameters->frozen[i] = blocks;
    }
    return 0;
}

/* One linear layer's part of a weights pass. */
static void linear_weights(const struct gpt2 *model, const struct lt_context *context,
                           struct lt_matmul args, int first)
{
    args.din = NULL;
    args.accumulate = !first;
    OP(context, MATMUL_BACKWARD, matmul_backward, args);
    if (args.dbias) /* the head's weight belongs to the first stage */
        linear_announce(model, context, &args);
}

/* What backward has left out, of the selected micro-batch and chunk. */
static void gpt2_weights(struct lt_model *model, const struct lt_context *context, int first)
{
    struct gpt2 *gpt2 = (struct gpt2 *)model;
    struct lt_context own = own_context(gpt2, context);
    int64_t begin = lt_gpt2_begin(gpt2), end = begin + lt_gpt2_chunk(&gpt2->stage);
    if (lt_gpt2_answers(gpt2)) {
        struct lt_layernorm last = lt_gpt2_final_layernorm(gpt2);
        linear_weights(gpt2, &own, lt_gpt2_head(gpt2), first);
        layernorm_announce(gpt2, &own, &last);
    }
    for (int64_t i = end - 1; i >= begin; i--) {
        struct lt_gpt2_block block = lt_gpt2_block(gpt2, i);
        own.layer = (int)i + 1;
        linear_weights(gpt2, &own, block.down, first);
        linear_weights(gpt2, &own, block.up, first);
        layernorm_announce(gpt2, &own, &block.ln2);
        linear_weights(gpt2, &own, block.projection, first);
        linear_weights(gpt2, &own, block.qkv, first);
        layernorm_announce(gpt2, &own, &block.ln1);
    }
    if (lt_gpt2_embeds(gpt2))
        embed_announce(gpt2, &own);
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
                                         .uses = gpt2_uses,
                                         .forward = gpt2_forward,
                                         .backward = gpt2_backward,
                                         .weights = gpt2_weights,
                                         .destroy = gpt2_destroy,
                                         .freeze = gpt2_freeze,
                                         .stage = &lt_gpt2_stage_ops};
