/* SPDX-License-Identifier: Apache-2.0
 *
 * Public: GPT-2 (Radford et al. 2019) of any size: learned positions, pre-layernorm blocks, tanh
 * GELU, LM head tied to the word embedding, no dropout.
 */
#ifndef LT_GPT2_H
#define LT_GPT2_H

#include "libtrain/base/memory.h"
#include "libtrain/models/model.h"

struct lt_gpt2_config {
    const char *name, *help;
    int64_t layers, channels, heads, vocab;
    int64_t positions;  /* rows of the position embedding, at least the sequence */
    int64_t seq, batch; /* defaults for the sequence length and the micro-batch */
};

/* The named sizes, ended by a row without a name. */
extern const struct lt_gpt2_config lt_gpt2_configs[];

/* How a model is computed: the type of activations and GEMMs (weights, gradients and sums stay
 * fp32), and whether the inner activations of blocks are kept or made again in backward; kept: of
 * so many blocks, the last ones, they are kept whatever `recompute` says; 0: it decides. {0}: fp32,
 * all kept. */
struct lt_gpt2_mode {
    enum lt_dtype dtype;
    enum lt_recompute recompute;
    int64_t kept;
    int64_t frozen; /* blocks; only closed forms look at it, lt_model_ops.freeze does it */
};

/* Of `layers` blocks, how many keep their inner activations. */
static inline int64_t lt_gpt2_kept(struct lt_gpt2_mode mode, int64_t layers)
{
    if (mode.kept > 0)
        return mode.kept < layers ? mode.kept : layers;
    return mode.recompute == LT_RECOMPUTE_BLOCK ? 1 : layers;
}

/* Which part of the model a rank has: blocks [first, first + layers), the embedding, the head with
 * the last layernorm and the loss; how many micro-batches' activations are kept. Of `ranks` ranks
 * that divide the layers, number `rank` has its share of the heads, of the rows of the MLP's first
 * matrix and columns of its second one, and of the vocabulary; ranks divides heads. */
struct lt_gpt2_stage {
    int64_t first, layers;
    int chunks;          /* the blocks are so many equal chunks, worked on one at a time; 0: one */
    int64_t stride;      /* blocks from the first one of a chunk to that of the next */
    int embeds, answers; /* the first chunk does, the last one does */
    int in_flight;       /* of one chunk each */
    int split;           /* backward leaves the weights' gradients to a pass of their own */
    int rank, ranks;
    /* Of `contexts` ranks that divide each sequence, number `context` has its share of the tokens,
     * which is what the model is made for; 0: one. They divide the heads, or, with `ring`, pass
     * keys and values around; folded: lt_share_token says which tokens these are. */
    int context, contexts, ring, folded;
    int sequence; /* they divide the rows of the residual stream too, and ranks divides these */
    struct lt_space *space; /* a device's memory for all it holds; NULL: the host's */
};

/* The blocks of a chunk. */
static inline int64_t lt_gpt2_chunk(const struct lt_gpt2_stage *stage)
{
    return stage->chunks > 1 ? stage->layers / stage->chunks : stage->layers;
}

/* The ranks that divide each sequence. */
static inline int lt_gpt2_contexts(const struct lt_gpt2_stage *stage)
{
    return stage->contexts > 1 ? stage->contexts : 1;
}

/* The ranks that divide the heads of attention, which then has the tokens of all of them. */
static inline int lt_gpt2_turners(const struct lt_gpt2_stage *stage)
{
    return stage->ring ? 1 : lt_gpt2_contexts(stage);
}

/* The ranks that divide the rows of the residual stream. */
static inline int lt_gpt2_row_ranks(const struct lt_gpt2_stage *stage)
{
    return stage->sequence ? stage->ranks : 1;
}

/* The FLOPs of one optimizer update in closed form (docs/engine.md has the derivation). */
struct lt_flops lt_gpt2_flops(const struct lt_gpt2_config *config, enum lt_backend backend,
                              struct lt_gpt2_mode mode, int64_t b, int64_t t, int64_t micro_steps);

/* The bytes of such a model in closed form, by purpose, without page rounding (docs/engine.md).
 * Those of the optimizer and the loader are not the model's and stay 0; what the GEMM library
 * needs for itself comes on top. */
void lt_gpt2_memory(const struct lt_gpt2_config *config, struct lt_gpt2_mode mode, int64_t b,
                    int64_t t, int threads, struct lt_memory_plan *out);

/* Allocates a model for micro-batches of b sequences of t tokens and initialises it from `seed`
 * (normal, 0.02; residual projections divided by sqrt(2 layers)). All memory it will ever use is
 * allocated and touched here. The model computes in its mode's dtype, whatever the context says.
 * The caller frees it with lt_model_destroy. TACHO_EUSAGE when the shape is impossible,
 * TACHO_ENOMEM, both with words in *err. */
int lt_gpt2_create(struct lt_model **out, const struct lt_gpt2_config *config,
                   struct lt_gpt2_mode mode, int64_t b, int64_t t, uint64_t seed,
                   struct tacho_error *err);

/* The same three of one stage of a pipeline, which has the initial values that the whole model
 * would have there. config is that of the whole model. A last stage that does not embed has a copy
 * of the word embedding, which is not among its parameters. */
int lt_gpt2_create_stage(struct lt_model **out, const struct lt_gpt2_config *config,
                         struct lt_gpt2_mode mode, const struct lt_gpt2_stage *stage, int64_t b,
                         int64_t t, uint64_t seed, struct tacho_error *err);
void lt_gpt2_stage_memory(const struct lt_gpt2_config *config, struct lt_gpt2_mode mode,
                          const struct lt_gpt2_stage *stage, int64_t b, int64_t t, int threads,
                          struct lt_memory_plan *out);
void lt_gpt2_stage_parameters(const struct lt_gpt2_config *config,
                              const struct lt_gpt2_stage *stage, struct lt_parameters *out);

/* All of it as one stage. */
struct lt_gpt2_stage lt_gpt2_whole(const struct lt_gpt2_config *config);

/* The layout of the parameters, without arrays. config->positions: at least the sequence's length.
 */
void lt_gpt2_parameters(const struct lt_gpt2_config *config, struct lt_parameters *out);

#endif
