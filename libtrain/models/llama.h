/* SPDX-License-Identifier: Apache-2.0
 *
 * Public: models with the blocks of Llama (Touvron et al. 2023) of any size: RMSNorm before each
 * half, rotary positions, grouped-query attention, SwiGLU, no biases, an LM head of its own.
 */
#ifndef LT_LLAMA_H
#define LT_LLAMA_H

#include "libtrain/base/memory.h"
#include "libtrain/models/model.h"
#include "libtrain/models/net.h"

struct lt_llama_config {
    const char *name, *help;
    int64_t layers, channels, heads;
    int64_t groups; /* heads of keys and values; divides heads */
    int64_t hidden; /* width between the two linear layers of SwiGLU */
    int64_t vocab;
    int64_t seq, batch; /* defaults for the sequence length and the micro-batch */
    /* A mixture of experts in place of each SwiGLU (Jiang et al. 2024): 0 experts, none. `choices`
     * of them for each token; each has room for `capacity` times an even share of the choices, and
     * the loss of their balance counts `balance` times. */
    int64_t experts, choices;
    double capacity, balance;
    /* Ranks that divide the experts of each layer, and which of them this one is; 0: one has all.
     */
    int part, parts;
    /* Ranks that divide the layers: heads, the hidden width of SwiGLU and of each expert, words.
     * They divide groups. */
    struct lt_net_ranks ranks;
    /* Of a stage of a pipeline: its blocks, from number `first` on, and how many micro-batches'
     * activations are kept; own 0: it has all blocks. The first stage embeds, the last one answers.
     */
    int64_t first, own;
    int in_flight;
};

static inline int64_t lt_llama_own(const struct lt_llama_config *config)
{
    return config->own ? config->own : config->layers;
}

/* Rows that each expert has room for, of `rows` tokens. */
int64_t lt_llama_capacity(const struct lt_llama_config *config, int64_t rows);

/* Bytes of the largest array that ranks that divide the layers add up, of `rows` tokens: the
 * residual stream, or the gradient of a router. */
size_t lt_llama_summed_bytes(const struct lt_llama_config *config, enum lt_dtype dtype,
                             int64_t rows);

/* The named sizes, ended by a row without a name. */
extern const struct lt_llama_config lt_llama_configs[];

/* The FLOPs of one optimizer update in closed form (docs/engine.md has the derivation). */
struct lt_flops lt_llama_flops(const struct lt_llama_config *config, enum lt_backend backend,
                               struct lt_net_mode mode, int64_t b, int64_t t, int64_t micro_steps);

/* The bytes of such a model and the layout of its parameters, before anything is allocated.
 * TACHO_EUSAGE when the shape is impossible, TACHO_ENOMEM, with words in *err. */
int lt_llama_memory(const struct lt_llama_config *config, struct lt_net_mode mode, int64_t b,
                    int64_t t, struct lt_memory_plan *out, struct lt_parameters *parameters,
                    struct tacho_error *err);

/* Allocates a model for micro-batches of b sequences of t tokens and initialises it from `seed`
 * (normal, 0.02; residual projections divided by sqrt(2 layers)). The caller frees it with
 * lt_model_destroy. Errors as above. */
int lt_llama_create(struct lt_model **out, const struct lt_llama_config *config,
                    struct lt_net_mode mode, int64_t b, int64_t t, uint64_t seed,
                    struct tacho_error *err);

#endif
