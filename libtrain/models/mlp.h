/* SPDX-License-Identifier: Apache-2.0
 *
 * Public: a multilayer perceptron that puts images into classes: features -> hidden layers of one
 * width with tanh GELU -> classes, softmax and cross-entropy. Features are data, so the first layer
 * computes no gradient of its input.
 */
#ifndef LT_MLP_H
#define LT_MLP_H

#include "libtrain/base/memory.h"
#include "libtrain/models/model.h"
#include "libtrain/models/net.h"

struct lt_mlp_config {
    int64_t features, hidden, layers, classes; /* layers: hidden ones, at least 1 */
};

/* FLOPs of one optimizer update in closed form (docs/engine.md has the derivation), without what is
 * recomputed: all of it is matrix work, so the three conventions agree. */
uint64_t lt_mlp_flops(const struct lt_mlp_config *config, struct lt_net_mode mode, int64_t b,
                      int64_t micro_steps);

/* The bytes of such a model by purpose, and the layout of its parameters, before anything is
 * allocated. TACHO_EUSAGE when the shape is impossible, TACHO_ENOMEM, with words in *err. */
int lt_mlp_memory(const struct lt_mlp_config *config, struct lt_net_mode mode, int64_t b,
                  struct lt_memory_plan *out, struct lt_parameters *parameters,
                  struct tacho_error *err);

/* Allocates a model for micro-batches of b images and initialises it from `seed` (He et al. 2015:
 * normal, sqrt(2 / inputs); biases 0). All memory it will ever use is allocated and touched here.
 * The caller frees it with lt_model_destroy. TACHO_EUSAGE when the shape is impossible,
 * TACHO_ENOMEM, both with words in *err. */
int lt_mlp_create(struct lt_model **out, const struct lt_mlp_config *config,
                  struct lt_net_mode mode, int64_t b, uint64_t seed, struct tacho_error *err);

#endif
