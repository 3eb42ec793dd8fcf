/* SPDX-License-Identifier: Apache-2.0
 *
 * ZeRO in closed form: what a rank sends, and what it holds.
 */
#include "libtrain/parallel/compress.h"
#include "libtrain/parallel/shard.h"
#include "libtrain/parallel/units.h"

int lt_shard_sums(const struct lt_shard_config *config)
{
    return config->stage >= 2 || config->kind == LT_ALL_REDUCE_ORDERED ||
           lt_codec_codes(&config->codec) || config->adapt.choices;
}

size_t lt_shard_scratch(const struct lt_shard_config *config,
                        const struct lt_parameters *parameters, const struct lt_units *units,
                        int ranks)
{
    size_t plain = lt_units_scratch(units, config->kind),
           most = lt_compress_scratch(&config->codec, parameters, units, ranks);
    for (int i = 0; i < config->adapt.choices; i++) {
        size_t bytes =
            lt_compress_scratch(&config->adapt.choice[i].codec, parameters, units, ranks);
        most = bytes > most ? bytes : most;
    }
    most = most > plain ? most : plain;
    return config->adapt.choices ? most + units->largest * sizeof(float) : most;
}

/* Reduce-scatters that the codec makes, of so many in so many steps. */
static uint64_t coded_of(const struct lt_shard_config *config, uint64_t reduces, uint64_t steps)
{
    if (!lt_codec_codes(&config->codec) || steps <= config->coded_after)
        return 0;
    return reduces / steps * (steps - config->coded_after);
}

/* All-gathers of a unit. */
static uint64_t gathers_of(const struct lt_shard_config *config, int unit, uint64_t steps,
                           uint64_t micro_steps)
{
    if (config->stage < 3)
        return steps;
    return micro_steps * (uint64_t)config->model->ops->uses(config->model, unit) +
           (config->hands_on && unit == 0 ? steps : 0);
}

/* A reduce-scatter sends all but the own chunk, an all-gather all but that of the next rank. */
struct lt_shard_sent lt_shard_formula(const struct lt_shard_config *config,
                                      const struct lt_parameters *parameters, int rank, int ranks,
                                      uint64_t steps, uint64_t micro_steps)
{
    struct lt_shard_sent sent = {0};
    struct lt_units units;
    uint64_t reduces = lt_shard_sums(config) ? micro_steps : steps;
    uint64_t coded = coded_of(config, reduces, steps);
    if (ranks < 2)
        return sent;
    if (lt_units_create(&units, parameters,
                        (struct lt_unit_ranks){rank, ranks, config->owner, config->owners}))
        goto out;
    for (int i = 0; i < units.count; i++) {
        const struct lt_unit *unit = &units.unit[i];
        uint64_t messages = (uint64_t)unit->ranks - 1,
                 gathers = gathers_of(config, i, steps, micro_steps);
        if (unit->all.count == 0 || messages == 0)
            continue;
        struct lt_group_sent one = {0};
        if (coded)
            one = lt_compress_formula(&config->codec, parameters, &units, i, rank, ranks);
        sent.gradients.bytes +=
            (reduces - coded) * sizeof(float) * (unit->all.count - unit->own_count) +
            coded * one.bytes;
        sent.gradients.messages += (reduces - coded) * messages + coded * one.messages;
        sent.parameters.bytes += gathers * sizeof(float) * (unit->all.count - unit->next_count);
        sent.parameters.messages += gathers * messages;
    }
out:
    lt_units_destroy(&units);
    return sent;
}

/* Bytes of pages, by how many units are there at a time. */
struct held {
    uint64_t all, outer, block; /* of all units; of unit 0; of the largest block */
};

static struct held held_of(const struct lt_units *units, size_t element)
{
    struct held held = {0};
    for (int i = 0; i < units->count; i++) {
        uint64_t pages = lt_unit_pages(&units->unit[i], element);
        held.all += pages;
        if (i == 0)
            held.outer = pages;
        else if (pages > held.block)
            held.block = pages;
    }
    return held;
}

static uint64_t at_most(uint64_t bytes, uint64_t most)
{
    return bytes < most ? bytes : most;
}

/* The pages that are there in the worst moment: with a worker two units in order of use, without
 * one a single unit. */
static uint64_t values_held(const struct lt_shard_config *config, struct held held)
{
    uint64_t larger = held.outer > held.block ? held.outer : held.block;
    return at_most(larger + (config->overlap ? held.block : 0), held.all);
}

/* What the codec keeps, or the choice that keeps most. */
static size_t kept_memory(const struct lt_shard_config *config,
                          const struct lt_parameters *parameters, const struct lt_units *units)
{
    size_t most = lt_compress_memory(&config->codec, parameters, units);
    for (int i = 0; i < config->adapt.choices; i++) {
        size_t bytes = lt_compress_memory(&config->adapt.choice[i].codec, parameters, units);
        most = bytes > most ? bytes : most;
    }
    return most;
}

size_t lt_shard_memory(const struct lt_shard_config *config, const struct lt_parameters *parameters,
                       int rank, int ranks, enum lt_dtype dtype, struct lt_memory_plan *plan)
{
    struct lt_units units;
    size_t floats = 0;
    if (lt_units_create(&units, parameters,
                        (struct lt_unit_ranks){rank, ranks, config->owner, config->owners}))
        goto out;
    floats = units.floats;
    struct held fp32 = held_of(&units, sizeof(float)), bf16 = held_of(&units, sizeof(uint16_t));
    if (config->stage == 3) {
        plan->tag[LT_MEMORY_PARAMETERS] +=
            sizeof(float) * floats + values_held(config, fp32) - fp32.all;
        if (dtype != LT_DTYPE_FP32)
            plan->tag[LT_MEMORY_PARAMETERS] += values_held(config, bf16) - bf16.all;
    }
    if (lt_shard_sums(config))
        plan->tag[LT_MEMORY_GRADIENTS] += sizeof(float) * floats;
    if (config->stage >= 2) /* unit 0, the block that is made, and one that is reduced */
        plan->tag[LT_MEMORY_GRADIENTS] +=
            at_most(fp32.outer + (config->overlap ? 2 : 1) * fp32.block, fp32.all) - fp32.all;
    plan->tag[LT_MEMORY_WORKSPACE] +=
        sizeof(float) * units.largest + lt_shard_scratch(config, parameters, &units, ranks);
    plan->tag[LT_MEMORY_GRADIENTS] += kept_memory(config, parameters, &units);
out:
    lt_units_destroy(&units);
    return floats;
}
