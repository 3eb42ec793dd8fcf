/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to gpt2.c and gpt2_block.c: the arguments of the model's operations, for both directions.
 */
#ifndef LT_GPT2_BLOCK_H
#define LT_GPT2_BLOCK_H

#include "libtrain/models/gpt2_layout.h"

/* The given element of a tensor of activations. */
void *lt_gpt2_at(const struct gpt2 *model, float *tensor, int64_t element);

/* The first block of the selected chunk; does it have the embedding, or the head? */
int64_t lt_gpt2_begin(const struct gpt2 *model);
int lt_gpt2_embeds(const struct gpt2 *model);
int lt_gpt2_answers(const struct gpt2 *model);

/* Where the inner activations of block i lie. */
int64_t lt_gpt2_first_kept(const struct gpt2 *model);
int64_t lt_gpt2_place(const struct gpt2 *model, int64_t i);

/* Where ranks divide the tokens of the residual stream: the rows of this one, and where they lie in
 * an array of all rows. */
int64_t lt_gpt2_own_rows(const struct gpt2 *model);
void *lt_gpt2_own_part(const struct gpt2 *model, void *rows);

/* Where the gradient of the residual stream is whole when matrices read it: in itself, or in memory
 * that is only used forward. */
void *lt_gpt2_stream_gradient(const struct gpt2 *model);

/* The operations of one block, with all that both directions read and write. */
struct lt_gpt2_block {
    struct lt_layernorm ln1, ln2;
    struct lt_matmul qkv, projection, up, down;
    struct lt_attention attention;
    struct lt_gelu gelu;
};

/* Where ranks divide sequences: attention's tensors as arrays of heads, `groups` of them (3: query,
 * key and value). */
struct lt_turn lt_gpt2_turn(const struct gpt2 *model, int64_t groups);

struct lt_gpt2_block lt_gpt2_block(struct gpt2 *model, int64_t i);

/* What is there once: the layernorm after the last block, the LM head (a product with the word
 * embedding, without a bias), the embedding and the part of it that each of several ranks has. */
struct lt_layernorm lt_gpt2_final_layernorm(struct gpt2 *model);
struct lt_matmul lt_gpt2_head(struct gpt2 *model);
struct lt_embedding lt_gpt2_embedding(const struct gpt2 *model, const struct lt_batch *batch);
struct lt_embedding_part lt_gpt2_embedding_part(const struct gpt2 *model,
                                                const struct lt_embedding *whole);

/* Attention where ranks divide sequences and pass keys and values around (gpt2_ring.c): its
 * arguments are those of the rank's own tokens. */
void lt_gpt2_ring(const struct gpt2 *model, const struct lt_context *context,
                  const struct lt_attention *attention);
void lt_gpt2_ring_backward(const struct gpt2 *model, const struct lt_context *context,
                           const struct lt_attention *attention);

#endif
