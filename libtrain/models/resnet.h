/* SPDX-License-Identifier: Apache-2.0
 *
 * Public: residual networks for images (He et al. 2016) of any size: convolutions with batch
 * normalisation, in blocks whose input is added to their output.
 */
#ifndef LT_RESNET_H
#define LT_RESNET_H

#include "libtrain/base/memory.h"
#include "libtrain/models/model.h"
#include "libtrain/models/net.h"

#define LT_RESNET_STAGES 4

struct lt_resnet_config {
    const char *name, *help;
    int64_t blocks[LT_RESNET_STAGES]; /* of each stage; a stage without blocks is left out */
    int64_t channels;                 /* of the first stage; each one after it has twice as many */
    int bottleneck; /* blocks of three convolutions (1, 3, 1), the last one of 4 times the channels
                     */
    int64_t batch;  /* default for the micro-batch */
    /* Of the images, and how many classes they have: the data's. */
    int64_t height, width, depth, classes;
};

/* The named sizes, ended by a row without a name. */
extern const struct lt_resnet_config lt_resnet_configs[];

/* The FLOPs of one optimizer update in closed form; attention-free, so all conventions agree but
 * for what recomputation adds. */
struct lt_flops lt_resnet_flops(const struct lt_resnet_config *config, struct lt_net_mode mode,
                                int64_t b, int64_t micro_steps);

/* The bytes of such a model and the layout of its parameters, before anything is allocated.
 * TACHO_EUSAGE when the shape is impossible, TACHO_ENOMEM, with words in *err. */
int lt_resnet_memory(const struct lt_resnet_config *config, struct lt_net_mode mode, int64_t b,
                     struct lt_memory_plan *out, struct lt_parameters *parameters,
                     struct tacho_error *err);

/* Allocates a model for micro-batches of b images and initialises it from `seed` (He et al. 2015 by
 * the outputs of a convolution; the last layer 1 / sqrt(inputs)). The caller frees it with
 * lt_model_destroy. Errors as above. */
int lt_resnet_create(struct lt_model **out, const struct lt_resnet_config *config,
                     struct lt_net_mode mode, int64_t b, uint64_t seed, struct tacho_error *err);

#endif
