/* SPDX-License-Identifier: Apache-2.0
 *
 * GPT-2, forward and backward. gpt2_create.c makes the model.
 */
#include "libtrain/models/gpt2_layout.h"

#include <stdlib.h>

/* The given element of a tensor of activations. */
static void *at(const struct gpt2 *model, float *tensor, int64_t element)
{
    return (char *)tensor + (size_t)element * lt_dtype_bytes(model->mode.dtype);
}

/* The given element of a parameter as products and look-ups read it: in bf16, of the rounded copy.
 */
static const void *weight(const struct gpt2 *model, const float *tensor, int64_t element)
{
    const struct lt_parameters *parameters = &model->model.parameters;
    return parameters->shadow
               ? (const void *)(parameters->shadow + (tensor - parameters->value) + element)
               : (const void *)(tensor + element);
}

/* Where the inner activations of block i lie. */
static int64_t place(const struct gpt2 *model, int64_t i)
{
    return model->mode.recompute == LT_RECOMPUTE_BLOCK ? 0 : i;
}

static void layernorm(const struct lt_context *context, struct lt_layernorm args)
{
    lt_op(context, LT_OP_LAYERNORM_FORWARD, &(union lt_args){.layernorm_forward = args});
}

static void matmul(const struct lt_context *context, struct lt_matmul args)
{
    lt_op(context, LT_OP_MATMUL_FORWARD, &(union lt_args){.matmul_forward = args});
}

static void residual(const struct lt_context *context, void *out, const void *a, const void *b,
                     int64_t count)
{
    lt_op(context, LT_OP_RESIDUAL_FORWARD,
          &(union lt_args){.residual_forward = {.out = out, .a = a, .b = b, .count = count}});
}

/* The arguments of attention, for both directions, with activations at place i. */
static struct lt_attention attention_args(struct gpt2 *model, int64_t i)
{
    int64_t b = model->model.b, t = model->model.t, n = b * t, c = model->config.channels,
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

/* In a recompute pass: what block_backward reads of the block, from the block's input. */
static void block_forward(struct gpt2 *model, const struct lt_context *context, int64_t i)
{
    const struct parameters *parameters = &model->value;
    const struct activations *activations = &model->act;
    int64_t n = model->model.b * model->model.t, c = model->config.channels, nc = n * c,
            q = place(model, i);
    layernorm(context, (struct lt_layernorm){.out = at(model, activations->ln1, q * nc),
                                             .mean = activations->ln1_mean + q * n,
                                             .rstd = activations->ln1_rstd + q * n,
                                             .in = at(model, activations->stream, i * nc),
                                             .weight = parameters->ln1_weight + i * c,
                                             .bias = parameters->ln1_bias + i * c,
                                             .rows = n,
                                             .c = c});
    matmul(context,
           (struct lt_matmul){.out = at(model, activations->qkv, q * 3 * nc),
                              .in = at(model, activations->ln1, q * nc),
                              .weight = weight(model, parameters->qkv_weight, i * 3 * c * c),
                              .bias = parameters->qkv_bias + i * 3 * c,
                              .rows = n,
                              .n = 3 * c,
                              .k = c});
    lt_op(context, LT_OP_ATTENTION_FORWARD,
          &(union lt_args){.attention_forward = attention_args(model, q)});
    matmul(context,
           (struct lt_matmul){.out = activations->branch,
                              .in = at(model, activations->attention, q * nc),
                              .weight = weight(model, parameters->projection_weight, i * c * c),
                              .bias = parameters->projection_bias + i * c,
                              .rows = n,
                              .n = c,
                              .k = c});
    residual(context, at(model, activations->middle, q * nc),
             at(model, activations->stream, i * nc), activations->branch, nc);
    layernorm(context, (struct lt_layernorm){.out = at(model, activations->ln2, q * nc),
                                             .mean = activations->ln2_mean + q * n,
                                             .rstd = activations->ln2_rstd + q * n,
                                             .in = at(model, activations->middle, q * nc),
                                             .weight = parameters->ln2_weight + i * c,
                                             .bias = parameters->ln2_bias + i * c,
                                             .rows = n,
                                             .c = c});
    matmul(context,
           (struct lt_matmul){.out = at(model, activations->up, q * 4 * nc),
                              .in = at(model, activations->ln2, q * nc),
                              .weight = weight(model, parameters->up_weight, i * 4 * c * c),
                              .bias = parameters->up_bias + i * 4 * c,
                              .rows = n,
                              .n = 4 * c,
                              .k = c});
    lt_op(context, LT_OP_GELU_FORWARD,
          &(union lt_args){.gelu_forward = {.out = at(model, activations->gelu, q * 4 * nc),
                                            .in = at(model, activations->up, q * 4 * nc),
                                            .count = 4 * nc}});
    if (context->recompute)
        return; /* backward reads what is above only */
    matmul(context,
           (struct lt_matmul){.out = activations->branch,
                              .in = at(model, activations->gelu, q * 4 * nc),
                              .weight = weight(model, parameters->down_weight, i * 4 * c * c),
                              .bias = parameters->down_bias + i * c,
                              .rows = n,
                              .n = c,
                              .k = 4 * c});
    residual(context, at(model, activations->stream, (i + 1) * nc),
             at(model, activations->middle, q * nc), activations->branch, nc);
}

/* The caller's context with the type that the model's memory was made for. */
static struct lt_context own_context(const struct gpt2 *model, const struct lt_context *context)
{
    struct lt_context own = *context;
    own.dtype = model->mode.dtype;
    return own;
}

static double gpt2_forward(struct lt_model *model, const struct lt_context *context,
                           const struct lt_batch *batch, int parts)
{
    struct gpt2 *gpt2 = (struct gpt2 *)model;
    struct lt_context own = own_context(gpt2, context), *x = &own;
    const struct parameters *parameters = &gpt2->value;
    const struct activations *activations = &gpt2->act;
    int64_t n = model->b * model->t, c = gpt2->config.channels, l = gpt2->config.layers,
            v = model->vocab;
    lt_op(x, LT_OP_EMBEDDING_FORWARD,
          &(union lt_args){.embedding_forward = {.out = activations->stream,
                                                 .word = weight(gpt2, parameters->word, 0),
                                                 .position = weight(gpt2, parameters->position, 0),
                                                 .tokens = batch->tokens,
                                                 .b = model->b,
                                                 .t = model->t,
                                                 .c = c,
                                                 .v = v}});
    for (int64_t i = 0; i < l; i++)
        block_forward(gpt2, x, i);
    layernorm(x, (struct lt_layernorm){.out = activations->final,
                                       .mean = activations->final_mean,
                                       .rstd = activations->final_rstd,
                                       .in = at(gpt2, activations->stream, l * n * c),
                                       .weight = parameters->final_weight,
                                       .bias = parameters->final_bias,
                                       .rows = n,
                                       .c = c});
    matmul(x, (struct lt_matmul){.out = activations->logits,
                                 .in = activations->final,
                                 .weight = weight(gpt2, parameters->word, 0),
                                 .rows = n,
                                 .n = v,
                                 .k = c});
    lt_op(x, LT_OP_CLASSIFIER,
          &(union lt_args){.classifier = {.logits = activations->logits,
                                          .losses = activations->losses,
                                          .targets = batch->targets,
                                          .rows = n,
                                          .v = v,
                                          .scale = 1.0f / (float)(n * parts),
                                          .backward = !x->evaluation}});
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)activations->losses[i];
    return sum / (double)n;
}

/* These two tell that the gradients they leave are final: every parameter is used once, but for the
 * tied word embedding. */
static void layernorm_backward(const struct gpt2 *model, const struct lt_context *context,
                               struct lt_layernorm args)
{
    lt_op(context, LT_OP_LAYERNORM_BACKWARD, &(union lt_args){.layernorm_backward = args});
    lt_model_ready(&model->model, context, args.dweight, (size_t)args.c);
    lt_model_ready(&model->model, context, args.dbias, (size_t)args.c);
}

static void matmul_backward(const struct gpt2 *model, const struct lt_context *context,
                            struct lt_matmul args)
{
    lt_op(context, LT_OP_MATMUL_BACKWARD, &(union lt_args){.matmul_backward = args});
    lt_model_ready(&model->model, context, args.dweight, (size_t)(args.n * args.k));
    lt_model_ready(&model->model, context, args.dbias, (size_t)args.n);
}

/* dstream holds the gradient of the block's output and becomes that of its input; layernorm's
 * backward adds into it, which is the sum of the two paths of the residual connection. */
static void block_backward(struct gpt2 *model, const struct lt_context *context, int64_t i,
                           int accumulate)
{
    const struct parameters *p = &model->value, *d = &model->grad;
    const struct activations *activations = &model->act;
    int64_t n = model->model.b * model->model.t, c = model->config.channels, nc = n * c,
            q = place(model, i);
    matmul_backward(model, context,
                    (struct lt_matmul){.din = activations->dwide,
                                       .dweight = d->down_weight + i * 4 * c * c,
                                       .dbias = d->down_bias + i * c,
                                       .dout = activations->dstream,
                                       .in = at(model, activations->gelu, q * 4 * nc),
                                       .weight = weight(model, p->down_weight, i * 4 * c * c),
                                       .rows = n,
                                       .n = c,
                                       .k = 4 * c,
                                       .accumulate = accumulate});
    lt_op(context, LT_OP_GELU_BACKWARD,
          &(union lt_args){.gelu_backward = {.in = at(model, activations->up, q * 4 * nc),
                                             .dout = activations->dwide,
                                             .din = activations->dwide,
                                             .count = 4 * nc}});
    matmul_backward(model, context,
                    (struct lt_matmul){.din = activations->dbranch,
                                       .dweight = d->up_weight + i * 4 * c * c,
                                       .dbias = d->up_bias + i * 4 * c,
                                       .dout = activations->dwide,
                                       .in = at(model, activations->ln2, q * nc),
                                       .weight = weight(model, p->up_weight, i * 4 * c * c),
                                       .rows = n,
                                       .n = 4 * c,
                                       .k = c,
                                       .accumulate = accumulate});
    layernorm_backward(model, context,
                       (struct lt_layernorm){.din = activations->dstream,
                                             .dweight = d->ln2_weight + i * c,
                                             .dbias = d->ln2_bias + i * c,
                                             .dout = activations->dbranch,
                                             .in = at(model, activations->middle, q * nc),
                                             .weight = p->ln2_weight + i * c,
                                             .mean = activations->ln2_mean + q * n,
                                             .rstd = activations->ln2_rstd + q * n,
                                             .rows = n,
                                             .c = c});
    matmul_backward(model, context,
                    (struct lt_matmul){.din = activations->dbranch,
                                       .dweight = d->projection_weight + i * c * c,
                                       .dbias = d->projection_bias + i * c,
                                       .dout = activations->dstream,
                                       .in = at(model, activations->attention, q * nc),
                                       .weight = weight(model, p->projection_weight, i * c * c),
                                       .rows = n,
                                       .n = c,
                                       .k = c,
                                       .accumulate = accumulate});
    struct lt_attention attention = attention_args(model, q);
    attention.dout = activations->dbranch;
    attention.dqkv = activations->dqkv;
    lt_op(context, LT_OP_ATTENTION_BACKWARD, &(union lt_args){.attention_backward = attention});
    matmul_backward(model, context,
                    (struct lt_matmul){.din = activations->dbranch,
                                       .dweight = d->qkv_weight + i * 3 * c * c,
                                       .dbias = d->qkv_bias + i * 3 * c,
                                       .dout = activations->dqkv,
                                       .in = at(model, activations->ln1, q * nc),
                                       .weight = weight(model, p->qkv_weight, i * 3 * c * c),
                                       .rows = n,
                                       .n = 3 * c,
                                       .k = c,
                                       .accumulate = accumulate});
    layernorm_backward(model, context,
                       (struct lt_layernorm){.din = activations->dstream,
                                             .dweight = d->ln1_weight + i * c,
                                             .dbias = d->ln1_bias + i * c,
                                             .dout = activations->dbranch,
                                             .in = at(model, activations->stream, i * nc),
                                             .weight = p->ln1_weight + i * c,
                                             .mean = activations->ln1_mean + q * n,
                                             .rstd = activations->ln1_rstd + q * n,
                                             .rows = n,
                                             .c = c});
}

/* Forward leaves the last block's activations where backward looks for them; those of the others
 * are made once more. */
static void block_again(struct gpt2 *model, const struct lt_context *context, int64_t i)
{
    struct lt_context again = *context;
    if (model->mode.recompute == LT_RECOMPUTE_NONE)
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
    lt_op(context, LT_OP_ZERO, &(union lt_args){.zero = {.x = from, .count = count}});
}

/* The first micro-step overwrites the weights' gradients, so only those that are always added to
 * are zeroed: positions, vectors (they lie together at the end of the array), and the residual
 * stream's. */
static void gpt2_backward(struct lt_model *model, const struct lt_context *context,
                          const struct lt_batch *batch, int first)
{
    struct gpt2 *gpt2 = (struct gpt2 *)model;
    struct lt_context own = own_context(gpt2, context), *x = &own;
    const struct parameters *p = &gpt2->value, *d = &gpt2->grad;
    const struct activations *activations = &gpt2->act;
    int64_t n = model->b * model->t, c = gpt2->config.channels, l = gpt2->config.layers,
            v = model->vocab;
    if (first) {
        zero(x, d->position, gpt2->config.positions * c);
        zero(x, d->ln1_weight, (int64_t)(model->parameters.count - model->parameters.decayed));
    }
    zero(x, activations->dstream, words(gpt2, n * c));
    lt_op(x, LT_OP_MATMUL_BACKWARD,
          &(union lt_args){.matmul_backward = {.din = activations->dbranch,
                                               .dweight = d->word,
                                               .dout = activations->logits,
                                               .in = activations->final,
                                               .weight = weight(gpt2, p->word, 0),
                                               .rows = n,
                                               .n = v,
                                               .k = c,
                                               .accumulate = !first}});
    layernorm_backward(gpt2, x,
                       (struct lt_layernorm){.din = activations->dstream,
                                             .dweight = d->final_weight,
                                             .dbias = d->final_bias,
                                             .dout = activations->dbranch,
                                             .in = at(gpt2, activations->stream, l * n * c),
                                             .weight = p->final_weight,
                                             .mean = activations->final_mean,
                                             .rstd = activations->final_rstd,
                                             .rows = n,
                                             .c = c});
    for (int64_t i = l - 1; i >= 0; i--) {
        if (i < l - 1)
            block_again(gpt2, x, i);
        block_backward(gpt2, x, i, !first);
    }
    lt_op(x, LT_OP_EMBEDDING_BACKWARD,
          &(union lt_args){.embedding_backward = {.dout = activations->dstream,
                                                  .dword = d->word,
                                                  .dposition = d->position,
                                                  .tokens = batch->tokens,
                                                  .b = model->b,
                                                  .t = model->t,
                                                  .c = c,
                                                  .v = v}});
    lt_model_ready(model, x, d->position, (size_t)(gpt2->config.positions * c));
    lt_model_ready(
        model, x, d->word,
        (size_t)(v * c)); /* the LM head's product and the look-up have both added to it */
}

static void gpt2_destroy(struct lt_model *model)
{
    struct gpt2 *gpt2 = (struct gpt2 *)model;
    lt_arena_destroy(&gpt2->value_arena);
    lt_arena_destroy(&gpt2->grad_arena);
    lt_arena_destroy(&gpt2->shadow_arena);
    lt_arena_destroy(&gpt2->activation_arena);
    lt_arena_destroy(&gpt2->workspace_arena);
    free(gpt2);
}

const struct lt_model_ops lt_gpt2_ops = {
    .name = "gpt2", .forward = gpt2_forward, .backward = gpt2_backward, .destroy = gpt2_destroy};
