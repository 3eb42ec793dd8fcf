/* SPDX-License-Identifier: Apache-2.0
 *
 * Public: loss scaling for fp16 (Micikevicius et al. 2018). The gradient of the loss is multiplied
 * by the scale, so that small gradients of activations are not rounded to 0; the optimizer divides
 * by it. An update whose gradient is not finite is skipped. A dynamic scale is halved then, and
 * doubled after `window` updates without one, as in torch.amp.GradScaler; it stays between 2^-24
 * and 2^24.
 */
#ifndef LT_SCALING_H
#define LT_SCALING_H

#include <stdint.h>

enum lt_scaling_kind { LT_SCALING_NONE, LT_SCALING_STATIC, LT_SCALING_DYNAMIC };

struct lt_scaling_config {
    enum lt_scaling_kind kind;
    double scale;   /* at the start; NONE: not used */
    int64_t window; /* DYNAMIC */
};

/* Where a run has got to; part of its checkpoints. */
struct lt_scaling {
    double scale;
    uint64_t good; /* updates since the scale last changed */
    uint64_t skipped;
};

struct lt_scaling lt_scaling_start(const struct lt_scaling_config *config);

/* After the gradient of a step is known: the update is made if it is finite. */
void lt_scaling_next(struct lt_scaling *scaling, const struct lt_scaling_config *config,
                     int finite);

#endif
