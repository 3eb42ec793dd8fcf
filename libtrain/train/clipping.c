/* SPDX-License-Identifier: Apache-2.0
 *
 * Norm, bounds and centralisation of the gradient, as operations.
 */
#include "libtrain/train/clipping.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/base/least.h"
#include "libtrain/base/openmp.h"
#include "libtrain/ops/kernels.h"
#include "tacho_error.h"

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

static int64_t blocks_of(const struct lt_early_norm *norm)
{
    return (int64_t)lt_norm_partials(norm->count);
}

/* From now on nothing is final. */
static void begin(struct lt_early_norm *norm)
{
    for (int64_t i = 0; i < blocks_of(norm); i++)
        norm->left[i] = (uint32_t)lt_min64(LT_NORM_BLOCK, norm->count - i * LT_NORM_BLOCK);
}

int lt_early_norm_open(struct lt_early_norm *norm, const struct lt_context *context, const float *x,
                       int64_t count, double *partial)
{
    *norm = (struct lt_early_norm){context, x, count, partial, NULL};
    norm->left = calloc((size_t)blocks_of(norm), sizeof *norm->left);
    if (!norm->left)
        return TACHO_ENOMEM;
    begin(norm);
    return 0;
}

void lt_early_norm_close(struct lt_early_norm *norm)
{
    free(norm->left);
    *norm = (struct lt_early_norm){0};
}

/* Sums blocks, one behind the other. */
static void sum_blocks(const struct lt_early_norm *norm, int64_t from, int64_t end)
{
    int64_t first = from * LT_NORM_BLOCK;
    if (from < end)
        lt_clip_norm(norm->context, norm->x + first,
                     lt_min64(end * LT_NORM_BLOCK, norm->count) - first, norm->partial + from);
}

/* Sums final blocks, unless they are too few for all threads: then they count as not final. */
static void sum_final(struct lt_early_norm *norm, int64_t from, int64_t end)
{
    if (end - from >= omp_get_max_threads())
        sum_blocks(norm, from, end);
    else
        for (int64_t i = from; i < end; i++)
            norm->left[i] = 1;
}

void lt_early_norm_ready(void *early, size_t first, size_t count)
{
    struct lt_early_norm *norm = early;
    int64_t at = (int64_t)first, end = at + (int64_t)count, block = at / LT_NORM_BLOCK,
            final = block; /* blocks from here on are final */
    for (; at < end; block++) {
        int64_t until = lt_min64(end, (block + 1) * LT_NORM_BLOCK);
        norm->left[block] -= (uint32_t)(until - at);
        at = until;
        if (norm->left[block]) {
            sum_final(norm, final, block);
            final = block + 1;
        }
    }
    sum_final(norm, final, block);
}

double lt_early_norm_end(struct lt_early_norm *norm)
{
    double sum = 0;
    int64_t blocks = blocks_of(norm), from = 0; /* blocks from here on are not summed */
    for (int64_t i = 0; i < blocks; i++)
        if (!norm->left[i]) {
            sum_blocks(norm, from, i);
            from = i + 1;
        }
    sum_blocks(norm, from, blocks);
    for (int64_t i = 0; i < blocks; i++)
        sum += norm->partial[i];
    begin(norm);
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
