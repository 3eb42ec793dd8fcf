/* SPDX-License-Identifier: Apache-2.0
 *
 * GPT-2 as a stage of a pipeline: what travels, and the word embedding that both ends use.
 */
#include "libtrain/models/gpt2_layout.h"

static void select_slot(struct lt_model *model, int slot, int chunk)
{
    struct gpt2 *gpt2 = (struct gpt2 *)model;
    gpt2->act = gpt2->flight[slot];
    gpt2->chunk = chunk;
}

static size_t boundary_bytes(const struct lt_model *model)
{
    const struct gpt2 *gpt2 = (const struct gpt2 *)model;
    return (size_t)(model->b * model->t * gpt2->config.channels) *
           lt_dtype_bytes(gpt2->mode.dtype) / (size_t)lt_gpt2_row_ranks(&gpt2->stage);
}

/* All rows of the residual stream. */
static size_t summed_bytes(const struct lt_model *model)
{
    const struct gpt2 *gpt2 = (const struct gpt2 *)model;
    return boundary_bytes(model) * (size_t)lt_gpt2_row_ranks(&gpt2->stage);
}

static void *boundary(struct lt_model *model, enum lt_boundary which)
{
    struct gpt2 *gpt2 = (struct gpt2 *)model;
    char *stream = (char *)gpt2->act.stream;
    if (which == LT_BOUNDARY_GRADIENT)
        return gpt2->act.dstream;
    if (which == LT_BOUNDARY_OUTPUT)
        stream += (size_t)lt_gpt2_chunk(&gpt2->stage) * boundary_bytes(model);
    return stream;
}

/* The copy of a last stage, the parameter of a first one. */
static float *tied_of(const struct gpt2 *gpt2, float *copy, float *own, size_t *count)
{
    *count = (size_t)(gpt2->config.vocab * gpt2->config.channels);
    if (gpt2->stage.embeds)
        return own;
    return gpt2->stage.answers ? copy : NULL;
}

static float *tied(const struct lt_model *model, size_t *count)
{
    const struct gpt2 *gpt2 = (const struct gpt2 *)model;
    return tied_of(gpt2, gpt2->copy, gpt2->value.word, count);
}

static float *tied_gradient(const struct lt_model *model, size_t *count)
{
    const struct gpt2 *gpt2 = (const struct gpt2 *)model;
    return tied_of(gpt2, gpt2->copy_grad, gpt2->grad.word, count);
}

static void tied_changed(struct lt_model *model)
{
    struct gpt2 *gpt2 = (struct gpt2 *)model;
    lt_shadow_refresh((uint16_t *)(void *)gpt2->copy_shadow, gpt2->mode.dtype, gpt2->copy,
                      gpt2->config.vocab * gpt2->config.channels);
}

static struct lt_slice whole(const struct lt_model *model, struct lt_parameters *out)
{
    const struct gpt2 *gpt2 = (const struct gpt2 *)model;
    lt_gpt2_parameters(&gpt2->whole, out);
    return (struct lt_slice){.first = gpt2->stage.first,
                             .rank = gpt2->stage.rank,
                             .ranks = gpt2->stage.ranks,
                             .each = gpt2->stage.chunks > 1 ? lt_gpt2_chunk(&gpt2->stage) : 0,
                             .stride = gpt2->stage.stride};
}

const struct lt_stage_ops lt_gpt2_stage_ops = {.select = select_slot,
                                               .boundary_bytes = boundary_bytes,
                                               .boundary = boundary,
                                               .summed_bytes = summed_bytes,
                                               .tied = tied,
                                               .tied_gradient = tied_gradient,
                                               .tied_changed = tied_changed,
                                               .whole = whole};
