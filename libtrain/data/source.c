/* SPDX-License-Identifier: Apache-2.0
 *
 * What all sources have in common: splitting off a held-out part, collating items into a batch, and
 * the hash by which a checkpoint recognises its data.
 */
#include "libtrain/data/source.h"

#include <string.h>

#include "libtrain/ops/random.h"

void lt_source_close(struct lt_source *source)
{
    if (source)
        source->ops->close(source);
}

int lt_source_split(const struct lt_source *source, double share, struct lt_part *train,
                    struct lt_part *held_out, struct tacho_error *err)
{
    uint64_t held = (uint64_t)((double)source->samples * share);
    if (held == 0 || held >= source->samples)
        return tacho_fail(
            err, TACHO_EFORMAT,
            "give more --data, a shorter --seq, another --eval-share, or no --eval-every",
            "the %llu of %llu samples held out for evaluation are too %s", (unsigned long long)held,
            (unsigned long long)source->samples, held ? "many" : "few");
    *train = (struct lt_part){.source = source, .samples = source->samples - held};
    *held_out =
        (struct lt_part){.source = source, .first = source->samples - held, .samples = held};
    return 0;
}

uint64_t lt_part_identity(const struct lt_part *part)
{
    uint64_t range[] = {part->source->identity, part->first, part->samples};
    return lt_source_hash(0, range, sizeof range);
}

void lt_source_collate_tokens(const struct lt_source *source, const void *item, int64_t row,
                              const struct lt_rows *out)
{
    const int32_t *tokens = item;
    size_t t = (size_t)source->t;
    memcpy(out->tokens + (size_t)row * t, tokens, t * sizeof *tokens);
    memcpy(out->targets + (size_t)row * t, tokens + 1, t * sizeof *tokens);
}

void lt_source_collate_features(const struct lt_source *source, const void *item, int64_t row,
                                const struct lt_rows *out)
{
    size_t bytes = (size_t)source->width * sizeof(float);
    memcpy(out->features + (size_t)(row * source->width), item, bytes);
    memcpy(out->targets + row, (const char *)item + bytes, sizeof *out->targets);
}

size_t lt_source_fixed_bytes(const struct lt_source *source, uint64_t sample)
{
    (void)sample;
    return source->raw_bytes;
}

uint64_t lt_source_hash(uint64_t hash, const void *data, size_t bytes)
{
    const char *cursor = data;
    for (size_t left = bytes; left > 0;) {
        uint64_t word = 0;
        size_t part = left < sizeof word ? left : sizeof word;
        memcpy(&word, cursor, part);
        hash = lt_random_bits(hash ^ word, bytes);
        cursor += part;
        left -= part;
    }
    return hash;
}
