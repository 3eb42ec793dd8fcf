/* SPDX-License-Identifier: Apache-2.0
 *
 * The loss scale from step to step.
 */
#include "libtrain/train/scaling.h"

#define LEAST 0x1p-24
#define MOST  0x1p24

struct lt_scaling lt_scaling_start(const struct lt_scaling_config *config)
{
    return (struct lt_scaling){.scale = config->kind == LT_SCALING_NONE ? 1 : config->scale};
}

static void rescale(struct lt_scaling *scaling, double factor)
{
    double scale = scaling->scale * factor;
    scale = scale < LEAST ? LEAST : scale;
    scaling->scale = scale > MOST ? MOST : scale;
    scaling->good = 0;
}

void lt_scaling_next(struct lt_scaling *scaling, const struct lt_scaling_config *config, int finite)
{
    int is_dynamic = config->kind == LT_SCALING_DYNAMIC;
    if (!finite) {
        scaling->skipped++;
        if (is_dynamic)
            rescale(scaling, 0.5);
        return;
    }
    scaling->good++;
    if (is_dynamic && scaling->good >= (uint64_t)config->window)
        rescale(scaling, 2);
}
