/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to gpt2.c and gpt2_create.c: which tensors the model has, and how large they are. The
 * tables are written in the dimensions l layers, c channels, h heads, v words, p positions, b
 * sequences of t tokens, n = b t. e and f are 1 in a stage that embeds and in one that answers,
 * else 0. Where ranks divide the layers, this one has a channels of heads and w words; else these
 * are c and v.
 */
#ifndef LT_GPT2_LAYOUT_H
#define LT_GPT2_LAYOUT_H

#include "libtrain/base/arena.h"
#include "libtrain/models/gpt2.h"

/* Parameters. tensor, how many matrices of how many rows and columns (a vector: one row), role for
 * optimizers, standard deviation of the initial value (0: constant), constant, whether the
 * deviation is divided by sqrt(2 layers). Tensors with weight decay come first, so that the
 * optimizer's pass splits at one place. */
#define MATRICES(X) \
    X(word, e, w, c, OUTER, 0.02f, 0, 0) \
    X(position, e, p, c, OUTER, 0.02f, 0, 0) \
    X(qkv_weight, l, 3 * a, c, HIDDEN, 0.02f, 0, 0) \
    X(projection_weight, l, c, a, HIDDEN, 0.02f, 0, 1) \
    X(up_weight, l, 4 * a, c, HIDDEN, 0.02f, 0, 0) \
    X(down_weight, l, c, 4 * a, HIDDEN, 0.02f, 0, 1)
#define VECTORS(X) \
    X(ln1_weight, l, 1, c, VECTOR, 0, 1, 0) \
    X(ln1_bias, l, 1, c, VECTOR, 0, 0, 0) \
    X(qkv_bias, l, 1, 3 * a, VECTOR, 0, 0, 0) \
    X(projection_bias, l, 1, c, VECTOR, 0, 0, 0) \
    X(ln2_weight, l, 1, c, VECTOR, 0, 1, 0) \
    X(ln2_bias, l, 1, c, VECTOR, 0, 0, 0) \
    X(up_bias, l, 1, 4 * a, VECTOR, 0, 0, 0) \
    X(down_bias, l, 1, c, VECTOR, 0, 0, 0) \
    X(final_weight, f, 1, c, VECTOR, 0, 1, 0) \
    X(final_bias, f, 1, c, VECTOR, 0, 0, 0)

/* Activations and their gradients, and what an op needs for itself. tensor, E: elements of the
 * dtype or F: floats, how many. stream: the residual stream before each block, and after the last;
 * middle: the stream between attention and MLP. k is the number of blocks whose inner activations
 * are kept: all of them, or the one that is being worked on. KEPT are those of a micro-batch from
 * its forward pass to its backward pass, PASSING those of one pass. h are the heads of this rank; s
 * is 1 more than the ranks that divide the vocabulary, or 0; m the rows of the residual stream that
 * this rank has. z is the number of blocks whose linear layers' output gradients are kept for a
 * weights pass: all of them, or none. l: of a chunk. y is k where ranks divide sequences and heads,
 * else 0, and x is 1 or 0; o is 1 where they divide sequences and pass keys and values around. */
#define KEPT(X) \
    X(stream, E, (l + 1) * m * c) \
    X(ln1, E, k *n *c) \
    X(ln1_mean, F, k *m) \
    X(ln1_rstd, F, k *m) \
    X(qkv, E, k * 3 * n * a) \
    X(lse, F, k *b *h *t) \
    X(attention, E, k *n *a) \
    X(attention_heads, E, y *n *a) \
    X(middle, E, k *m *c) \
    X(ln2, E, k *n *c) \
    X(ln2_mean, F, k *m) \
    X(ln2_rstd, F, k *m) \
    X(up, E, k * 4 * n * a) \
    X(gelu, E, k * 4 * n * a) \
    X(final, E, f *n *c) \
    X(final_mean, F, f *m) \
    X(final_rstd, F, f *m) \
    X(logits, E, f *n *w) \
    X(losses, F, f *n) \
    X(dqkv_kept, E, z * 3 * n * a) \
    X(dprojection_kept, E, z *n *c) \
    X(dup_kept, E, z * 4 * n * a) \
    X(ddown_kept, E, z *n *c)
#define PASSING(X) \
    X(branch, E, n *c) \
    X(dstream, E, m *c) \
    X(dbranch, E, n *c) \
    X(dwide, E, 4 * n * a) \
    X(dqkv, E, 3 * n * a) \
    X(dqkv_heads, E, x * 3 * n * a) \
    X(ring_kv, E, o * 4 * n * a) \
    X(ring_dkv, F, o * 4 * n * a) \
    X(ring_sum, F, o *n *a) \
    X(stats, F, s * 3 * n)
#define WORKSPACE(X) X(scratch, F, slots *scratch_floats)

struct parameters {
#define FIELD(name, ...) float *name;
    MATRICES(FIELD) VECTORS(FIELD)
#undef FIELD
};

/* Where each tensor begins, whatever its elements are. */
struct activations {
#define FIELD(name, type, count) float *name;
    KEPT(FIELD) PASSING(FIELD) WORKSPACE(FIELD)
#undef FIELD
};

struct gpt2 {
    struct lt_model model;        /* first: a struct lt_model * is a struct gpt2 * */
    struct lt_gpt2_config config; /* its layers, heads and words: those of this rank */
    struct lt_gpt2_config whole;
    int64_t own; /* channels of its heads */
    struct lt_gpt2_stage stage;
    struct lt_gpt2_mode mode;
    int slots;
    struct lt_arena value_arena, grad_arena, shadow_arena, activation_arena, workspace_arena;
    struct parameters value, grad;
    struct activations act;     /* of the selected micro-batch */
    int chunk;                  /* the selected one */
    struct activations *flight; /* of each that may be in flight */
    /* Of a last stage that does not embed: the word embedding. */
    struct lt_arena copy_arena, copy_grad_arena, copy_shadow_arena;
    float *copy, *copy_grad, *copy_shadow;
};

extern const struct lt_model_ops lt_gpt2_ops;
extern const struct lt_stage_ops lt_gpt2_stage_ops;

/* The first word of this rank, and how many a rank of that stage has. */
int64_t lt_gpt2_first_word(const struct gpt2 *model);
int64_t lt_gpt2_words(const struct lt_gpt2_config *config, const struct lt_gpt2_stage *stage);

#endif
