/* SPDX-License-Identifier: Apache-2.0
 *
 * Norm, bounds and centralisation of the gradient, as operations.
 */
#include "libtrain/train/clipping.h"

#include <math.h>
#include <string.h>

int lt_clip_find(const char *name)
{
#define ROW(id, text) text,
    static const char *const names[] = {LT_CLIP_MAP(ROW)};
#undef ROW
    for (int i = 0; i < LT_CLIP_COUNT; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

double lt_clip_norm(const struct lt_context *context, const float *x, int64_t count,
                    double *partial)
{
    double sum = 0;
    lt_op(context, LT_OP_NORM,
          &(union lt_args){.norm = {.x = x, .sum = &sum, .partial = partial, .count = count}});
    return sqrt(sum);
}

void lt_clip(const struct lt_context *context, float *x, int64_t count, double scale, double bound)
{
    lt_op(context, LT_OP_CLIP,
          &(union lt_args){.clip = {.x = x, .count = count, .scale = scale, .bound = bound}});
}

void lt_centre_matrices(const struct lt_context *context, const struct lt_parameters *parameters)
{
    for (int i = 0; i < parameters->weights; i++) {
        const struct lt_weight *weight = &parameters->weight[i];
        if (weight->role == LT_WEIGHT_HIDDEN)
            lt_op(context, LT_OP_CENTRE,
                  &(union lt_args){.centre = {.x = parameters->grad + weight->first,
                                              .rows = weight->repeat * weight->rows,
                                              .columns = weight->columns}});
    }
}

void lt_clip_layers(const struct lt_context *context, const struct lt_parameters *parameters,
                    double bound, double *partial)
{
    for (int i = 0; i < parameters->weights; i++) {
        const struct lt_weight *weight = &parameters->weight[i];
        int64_t count = weight->rows * weight->columns;
        for (int64_t j = 0; j < weight->repeat; j++) {
            float *x = parameters->grad + weight->first + j * count;
            double norm = lt_clip_norm(context, x, count, partial);
            if (norm > bound)
                lt_clip(context, x, count, bound / norm, HUGE_VAL);
        }
    }
}
