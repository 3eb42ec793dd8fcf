/* SPDX-License-Identifier: Apache-2.0
 *
 * What the operations of GPT-2 read and write. The arguments of a block's operations are put
 * together in one place for both directions.
 *
 * Symbols as in gpt2_layout.h: c channels, n = b t tokens; q is the place of a block's activations.
 */
#include "libtrain/models/gpt2_block.h"

#include "libtrain/base/share.h"

/* The given element of a tensor of activations. */
void *lt_gpt2_at(const struct gpt2 *model, float *tensor, int64_t element)
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

/* The first block of the selected chunk. */
int64_t lt_gpt2_begin(const struct gpt2 *model)
{
    return model->chunk * lt_gpt2_chunk(&model->stage);
}

/* Does the selected chunk have the embedding, or the head? */
int lt_gpt2_embeds(const struct gpt2 *model)
{
    return model->stage.embeds && model->chunk == 0;
}

int lt_gpt2_answers(const struct gpt2 *model)
{
    return model->stage.answers && model->chunk + 1 >= model->stage.chunks;
}

/* The first block of the selected chunk whose inner activations are kept. */
int64_t lt_gpt2_first_kept(const struct gpt2 *model)
{
    int64_t blocks = lt_gpt2_chunk(&model->stage);
    return lt_gpt2_begin(model) + blocks - lt_gpt2_kept(model->mode, blocks);
}

/* Where the inner activations of block i lie. Those that are not kept pass through the place of the
 * first kept block, which comes after them in forward and before them in backward. */
int64_t lt_gpt2_place(const struct gpt2 *model, int64_t i)
{
    int64_t first = lt_gpt2_first_kept(model);
    return i > first ? i - first : 0;
}

/* The gradient of the given element of a parameter: values and gradients have one layout. */
static float *gradient(const struct gpt2 *model, const float *tensor, int64_t element)
{
    const struct lt_parameters *parameters = &model->model.parameters;
    return parameters->grad + (tensor - parameters->value) + element;
}

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
int64_t lt_gpt2_own_rows(const struct gpt2 *model)
{
    return model->model.b * model->model.t / lt_gpt2_row_ranks(&model->stage);
}

void *lt_gpt2_own_part(const struct gpt2 *model, void *rows)
{
    int64_t before = model->stage.sequence ? model->stage.rank * lt_gpt2_own_rows(model) : 0;
    return lt_gpt2_at(model, rows, before * model->config.channels);
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
                                 .dout = lt_gpt2_own_part(model, model->act.dbranch),
                                 .din = model->act.dstream,
                                 .rows = lt_gpt2_own_rows(model),
                                 .c = c};
}

struct lt_turn lt_gpt2_turn(const struct gpt2 *model, int64_t groups)
{
    return (struct lt_turn){.b = model->model.b,
                            .t = model->model.t,
                            .groups = groups,
                            .width = model->own / lt_gpt2_turners(&model->stage)};
}

/* The arguments of attention, for both directions, with activations at place i. Where ranks divide
 * sequences, it has all tokens of some heads. */
static struct lt_attention attention_args(struct gpt2 *model, int64_t i)
{
    int64_t b = model->model.b, t = model->model.t, n = b * t, c = model->own,
            h = model->config.heads, contexts = lt_gpt2_turners(&model->stage);
    float *out = contexts > 1 ? model->act.attention_heads : model->act.attention;
    return (struct lt_attention){.out = lt_gpt2_at(model, out, i * n * c),
                                 .lse = model->act.lse + i * b * h * t,
                                 .qkv = lt_gpt2_at(model, model->act.qkv, i * 3 * n * c),
                                 .scratch = model->act.scratch,
                                 .b = b,
                                 .t = t * contexts,
                                 .c = c / contexts,
                                 .h = h / contexts,
                                 .slots = model->slots};
}

/* Where the gradient of the residual stream is whole when matrices read it: in itself, or in memory
 * that is only used forward. */
void *lt_gpt2_stream_gradient(const struct gpt2 *model)
{
    return model->stage.sequence ? model->act.branch : model->act.dstream;
}

/* Where the gradient of a linear layer's output is: kept for the weights pass, or passing. */
static void *slope(const struct gpt2 *model, float *kept, int64_t element, void *passing)
{
    return model->stage.split ? lt_gpt2_at(model, kept, element) : passing;
}

/* The attention half of block i: its input is the stream before it, its output the branch. */
static void attention_half(struct lt_gpt2_block *block, struct gpt2 *model, int64_t i)
{
    const struct parameters *parameters = &model->value;
    const struct activations *activations = &model->act;
    int64_t n = model->model.b * model->model.t, c = model->config.channels, a = model->own,
            q = lt_gpt2_place(model, i), m = lt_gpt2_own_rows(model);
    void *dout =
        slope(model, activations->dprojection_kept, q * n * c, lt_gpt2_stream_gradient(model));
    block->ln1 = layernorm(model, parameters->ln1_weight, parameters->ln1_bias, i);
    block->ln1.in = lt_gpt2_at(model, activations->stream, (i - lt_gpt2_begin(model)) * m * c);
    block->ln1.out = lt_gpt2_own_part(model, lt_gpt2_at(model, activations->ln1, q * n * c));
    block->ln1.mean = activations->ln1_mean + q * m;
    block->ln1.rstd = activations->ln1_rstd + q * m;
    block->qkv = linear(model, parameters->qkv_weight, parameters->qkv_bias, i, 3 * a, c);
    block->qkv.in = lt_gpt2_at(model, activations->ln1, q * n * c);
    block->qkv.out = lt_gpt2_turners(&model->stage) > 1
                         ? (void *)activations->dqkv
                         : lt_gpt2_at(model, activations->qkv, q * 3 * n * a);
    block->qkv.dout = slope(model, activations->dqkv_kept, q * 3 * n * a, activations->dqkv);
    block->qkv.din = activations->dbranch;
    block->attention = attention_args(model, q);
    block->projection =
        linear(model, parameters->projection_weight, parameters->projection_bias, i, c, a);
    block->projection.in = lt_gpt2_at(model, activations->attention, q * n * a);
    block->projection.out = activations->branch;
    block->projection.dout = dout;
    block->projection.din = activations->dbranch;
}

/* The MLP half: its input is the stream between the two halves. */
static void mlp_half(struct lt_gpt2_block *block, struct gpt2 *model, int64_t i)
{
    const struct parameters *parameters = &model->value;
    const struct activations *activations = &model->act;
    int64_t n = model->model.b * model->model.t, c = model->config.channels, wide = 4 * model->own,
            q = lt_gpt2_place(model, i), m = lt_gpt2_own_rows(model);
    void *dout = slope(model, activations->ddown_kept, q * n * c, lt_gpt2_stream_gradient(model)),
         *dup = slope(model, activations->dup_kept, q * wide * n, activations->dwide);
    block->ln2 = layernorm(model, parameters->ln2_weight, parameters->ln2_bias, i);
    block->ln2.in = lt_gpt2_at(model, activations->middle, q * m * c);
    block->ln2.out = lt_gpt2_own_part(model, lt_gpt2_at(model, activations->ln2, q * n * c));
    block->ln2.mean = activations->ln2_mean + q * m;
    block->ln2.rstd = activations->ln2_rstd + q * m;
    block->up = linear(model, parameters->up_weight, parameters->up_bias, i, wide, c);
    block->up.in = lt_gpt2_at(model, activations->ln2, q * n * c);
    block->up.out = lt_gpt2_at(model, activations->up, q * wide * n);
    block->up.dout = dup;
    block->up.din = activations->dbranch;
    block->gelu = (struct lt_gelu){.in = block->up.out,
                                   .out = lt_gpt2_at(model, activations->gelu, q * wide * n),
                                   .dout = activations->dwide,
                                   .din = dup,
                                   .count = wide * n};
    block->down = linear(model, parameters->down_weight, parameters->down_bias, i, c, wide);
    block->down.in = block->gelu.out;
    block->down.out = activations->branch;
    block->down.dout = dout;
    block->down.din = activations->dwide;
}

struct lt_gpt2_block lt_gpt2_block(struct gpt2 *model, int64_t i)
{
    struct lt_gpt2_block block;
    attention_half(&block, model, i);
    mlp_half(&block, model, i);
    return block;
}

/* The layernorm after the last block. */
struct lt_layernorm lt_gpt2_final_layernorm(struct gpt2 *model)
{
    const struct activations *activations = &model->act;
    struct lt_layernorm last =
        layernorm(model, model->value.final_weight, model->value.final_bias, 0);
    last.in =
        lt_gpt2_at(model, activations->stream, lt_gpt2_chunk(&model->stage) * last.rows * last.c);
    last.out = lt_gpt2_own_part(model, activations->final);
    last.mean = activations->final_mean;
    last.rstd = activations->final_rstd;
    return last;
}

/* The LM head: a product with the word embedding, without a bias. */
struct lt_matmul lt_gpt2_head(struct gpt2 *model)
{
    struct lt_matmul head = linear(model, model->value.word, model->value.word, 0,
                                   model->config.vocab, model->config.channels);
    if (model->copy) {
        head.weight = model->copy_shadow ? (const void *)model->copy_shadow : model->copy;
        head.dweight = model->copy_grad;
    }
    head.bias = head.dbias = NULL;
    head.rounded_bias = NULL;
    head.in = model->act.final;
    head.out = model->act.logits;
    head.dout = model->act.logits;
    head.din = model->act.dbranch;
    return head;
}

struct lt_embedding lt_gpt2_embedding(const struct gpt2 *model, const struct lt_batch *batch)
{
    const struct lt_gpt2_stage *stage = &model->stage;
    int64_t t = model->model.t, contexts = lt_gpt2_contexts(stage),
            first = lt_share_token(t, (int)contexts, stage->context, stage->folded, 0),
            middle = lt_share_token(t, (int)contexts, stage->context, stage->folded, t / 2),
            before = first * model->config.channels;
    return (struct lt_embedding){.out = model->act.stream,
                                 .word = weight(model, model->value.word, 0),
                                 .position = weight(model, model->value.position, before),
                                 .tokens = batch->tokens,
                                 .order = batch->order,
                                 .starts = batch->starts,
                                 .dout = model->act.dstream,
                                 .dword = model->grad.word,
                                 .dposition = model->grad.position + before,
                                 .b = model->model.b,
                                 .t = model->model.t,
                                 .c = model->config.channels,
                                 .v = model->config.vocab,
                                 .jump = middle - first - t / 2};
}

struct lt_embedding_part lt_gpt2_embedding_part(const struct gpt2 *model,
                                                const struct lt_embedding *whole)
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
                                      .first = lt_gpt2_first_word(model),
                                      .jump = whole->jump};
}
