/* SPDX-License-Identifier: Apache-2.0
 *
 * Units that are updated one by one, each when its buckets have come.
 */
#include "libtrain/parallel/early.h"

#include <stdlib.h>

#include "libtrain/base/fail.h"
#include "libtrain/parallel/units.h"

struct lt_early {
    struct lt_units units;
    struct lt_piece *piece;
    struct part {
        size_t first, pieces; /* of `piece` */
        size_t turns;         /* 0: not known yet; they are the same in each step */
        int done;
    } * part; /* of each unit */
};

int lt_early_create(struct lt_early **out, const struct lt_parameters *parameters,
                    struct tacho_error *err)
{
    struct lt_early *early = calloc(1, sizeof *early);
    size_t pieces = 0;
    *out = early;
    if (!early || lt_units_create(&early->units, parameters, (struct lt_unit_ranks){.ranks = 1}))
        return lt_no_memory(err);
    early->part = calloc((size_t)early->units.count, sizeof *early->part);
    early->piece = calloc(early->units.places + LT_WEIGHT_CAP * (size_t)early->units.count,
                          sizeof *early->piece);
    if (!early->part || !early->piece)
        return lt_no_memory(err);
    for (int i = 0; i < early->units.count; i++) {
        struct part *part = &early->part[i];
        part->first = pieces;
        part->pieces = lt_unit_cut(&early->units.unit[i], parameters, 0,
                                   early->units.unit[i].all.count, early->piece + pieces);
        for (size_t j = pieces; j < pieces + part->pieces; j++)
            early->piece[j].at = early->piece[j].first; /* the optimizer's arrays are flat, too */
        part->done = 1;
        pieces += part->pieces;
    }
    return 0;
}

void lt_early_destroy(struct lt_early *early)
{
    if (!early)
        return;
    lt_units_destroy(&early->units);
    free(early->piece);
    free(early->part);
    free(early);
}

int lt_early_units(const struct lt_early *early)
{
    return early->units.count;
}

/* Has the bucket an element of the unit? */
static int has(const struct lt_bucket *bucket, const struct lt_bucket *unit)
{
    for (size_t i = 0; i < bucket->extents; i++)
        for (size_t j = 0; j < unit->extents; j++) {
            const struct lt_extent *one = &bucket->extent[i], *other = &unit->extent[j];
            if (one->first < other->first + other->count && other->first < one->first + one->count)
                return 1;
        }
    return 0;
}

void lt_early_begin(struct lt_early *early, const struct lt_buckets *buckets)
{
    for (int i = 0; i < early->units.count; i++) {
        struct part *part = &early->part[i];
        for (size_t turn = buckets->buckets; turn > 0 && !part->turns; turn--)
            if (has(&buckets->bucket[buckets->turn[turn - 1].bucket], &early->units.unit[i].all))
                part->turns = turn;
        part->done = part->pieces == 0;
    }
}

const struct lt_piece *lt_early_take(struct lt_early *early, int unit, size_t *pieces,
                                     size_t *turns)
{
    struct part *part = &early->part[unit < early->units.count ? unit : 0];
    if (part->done)
        return NULL;
    part->done = 1;
    *pieces = part->pieces;
    *turns = part->turns;
    return early->piece + part->first;
}
