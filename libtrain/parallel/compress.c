/* SPDX-License-Identifier: Apache-2.0
 *
 * Units by a codec, and what it loses of them.
 */
#include "libtrain/parallel/compress.h"

#include <stdlib.h>
#include <string.h>

#include "libtrain/parallel/low_rank.h"

static int has_factors(const struct lt_codec *codec)
{
    return codec->kind == LT_CODEC_POWER_SGD;
}

static int make_arena(struct lt_arena *arena, size_t floats, float **slot)
{
    struct lt_tensor whole = {.name = "compressed", .count = floats, .slot = slot};
    return lt_arena_create(arena, LT_MEMORY_GRADIENTS, &whole, 1);
}

/* Elements of Q of a unit. */
static size_t factors_of(const struct lt_codec *codec, const struct lt_parameters *parameters,
                         int unit)
{
    struct lt_low_rank plan;
    if (!has_factors(codec))
        return 0;
    lt_low_rank_plan(&plan, parameters, unit, codec->rank);
    return plan.second;
}

/* Of the codec and the choices the one that keeps most. */
static const struct lt_codec *largest_of(const struct lt_codec *codec, const struct lt_adapt *adapt,
                                         const struct lt_parameters *parameters,
                                         const struct lt_units *units)
{
    for (int i = 0; i < adapt->choices; i++)
        if (lt_compress_memory(&adapt->choice[i].codec, parameters, units) >
            lt_compress_memory(codec, parameters, units))
            codec = &adapt->choice[i].codec;
    return codec;
}

/* The level of the codec, or of a choice that packs. */
static int level_of(const struct lt_codec *codec, const struct lt_adapt *adapt)
{
    int level = codec->level;
    for (int i = 0; i < adapt->choices; i++)
        if (adapt->choice[i].codec.level)
            level = adapt->choice[i].codec.level;
    return level;
}

int lt_compress_open(struct lt_compress *compress, const struct lt_codec *codec,
                     const struct lt_adapt *adapt, struct lt_group *group,
                     const struct lt_parameters *parameters, const struct lt_units *units)
{
    size_t floats = 0, factors = 0, count = (size_t)units->count;
    *compress = (struct lt_compress){
        .codec = *codec, .group = group, .parameters = parameters, .units = units};
    int level = level_of(codec, adapt), rc = 0;
    if (level)
        rc = lt_packer_open(&compress->packer, level);
    codec = largest_of(codec, adapt, parameters, units);
    if (rc || !lt_codec_feeds_back(codec))
        return rc;
    compress->packed = calloc(count, sizeof *compress->packed);
    compress->factors = calloc(count, sizeof *compress->factors);
    if (!compress->packed || !compress->factors)
        return TACHO_ENOMEM;
    for (int i = 0; i < units->count; i++) {
        compress->packed[i] = floats;
        compress->factors[i] = factors;
        floats += units->unit[i].all.count;
        factors += factors_of(codec, parameters, i);
    }
    rc = make_arena(&compress->residual_arena, floats, &compress->residual);
    if (rc == 0 && factors)
        rc = make_arena(&compress->factor_arena, factors, &compress->factor);
    return rc;
}

void lt_compress_close(struct lt_compress *compress)
{
    lt_arena_destroy(&compress->residual_arena);
    lt_arena_destroy(&compress->factor_arena);
    lt_packer_close(&compress->packer);
    free(compress->packed);
    free(compress->factors);
    *compress = (struct lt_compress){0};
}

void lt_compress_forget(struct lt_compress *compress, int unit)
{
    struct lt_low_rank plan;
    size_t count = compress->units->unit[unit].all.count;
    if (compress->residual)
        memset(compress->residual + compress->packed[unit], 0, count * sizeof(float));
    if (compress->factor && has_factors(&compress->codec)) {
        lt_low_rank_plan(&plan, compress->parameters, unit, compress->codec.rank);
        memset(compress->factor + compress->factors[unit], 0, plan.second * sizeof(float));
    }
}

void lt_compress_reduce(struct lt_compress *compress, int unit, float *data, float *sum, int first,
                        void *scratch)
{
    float *residual = compress->residual;
    struct lt_low_rank plan;
    if (residual && lt_codec_feeds_back(&compress->codec))
        residual += compress->packed[unit];
    else
        residual = NULL;
    if (!has_factors(&compress->codec)) {
        lt_group_reduce_coded(compress->group, &compress->codec, &compress->packer, data,
                              compress->units->unit[unit].all.count, residual, sum, first, scratch);
        return;
    }
    lt_low_rank_plan(&plan, compress->parameters, unit, compress->codec.rank);
    float *factor = compress->factor;
    if (factor)
        factor += compress->factors[unit];
    lt_low_rank_reduce(compress->group, &plan, data, residual, factor, sum, first, scratch);
}

size_t lt_compress_scratch(const struct lt_codec *codec, const struct lt_parameters *parameters,
                           const struct lt_units *units, int ranks)
{
    struct lt_low_rank plan;
    size_t most = 0;
    if (!lt_codec_codes(codec))
        return 0;
    if (!has_factors(codec))
        return lt_group_coded_scratch(codec, ranks, units->largest);
    for (int i = 0; i < units->count; i++) {
        lt_low_rank_plan(&plan, parameters, i, codec->rank);
        size_t bytes = lt_low_rank_scratch(&plan, ranks);
        most = bytes > most ? bytes : most;
    }
    return most;
}

size_t lt_compress_memory(const struct lt_codec *codec, const struct lt_parameters *parameters,
                          const struct lt_units *units)
{
    size_t floats = 0;
    if (!lt_codec_feeds_back(codec))
        return 0;
    for (int i = 0; i < units->count; i++)
        floats += units->unit[i].all.count + factors_of(codec, parameters, i);
    return floats * sizeof(float);
}

struct lt_group_sent lt_compress_formula(const struct lt_codec *codec,
                                         const struct lt_parameters *parameters,
                                         const struct lt_units *units, int unit, int rank,
                                         int ranks)
{
    struct lt_low_rank plan;
    if (!has_factors(codec))
        return lt_group_coded_formula(codec, rank, ranks, units->unit[unit].all.count);
    lt_low_rank_plan(&plan, parameters, unit, codec->rank);
    return lt_low_rank_formula(&plan, rank, ranks);
}
