/* SPDX-License-Identifier: Apache-2.0
 *
 * Units, from the table of a model's tensors.
 */
#include "libtrain/parallel/units.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "libtrain/parallel/shard.h"

#define PAGE ((size_t)4096) /* as arenas count them */

/* Blocks of the tensors that every rank has (experts: that only their owners have). */
static int64_t blocks_of(const struct lt_parameters *parameters, int experts)
{
    int64_t blocks = 0;
    for (int i = 0; i < parameters->weights; i++) {
        const struct lt_weight *weight = &parameters->weight[i];
        int64_t own = weight->repeat / lt_unit_matrices(weight);
        if (parameters->expert[i] == experts && own > blocks && (experts || weight->repeat > 1))
            blocks = own;
    }
    return blocks;
}

/* The extents of the flat arrays, each with its unit: tensors that are there once, then blocks.
 * Without a table of tensors all is one unit. */
static int fill(struct lt_units *units, const struct lt_parameters *parameters, int64_t blocks)
{
    int rc = 0;
    if (!parameters->weights)
        rc = lt_bucket_append(&units->unit[0].all, 0, parameters->count);
    for (int i = 0; i < parameters->weights && rc == 0; i++) {
        const struct lt_weight *weight = &parameters->weight[i];
        size_t size = (size_t)(weight->rows * weight->columns);
        for (int64_t j = 0; j < weight->repeat && rc == 0; j++) {
            int64_t unit = lt_unit_of(weight, j);
            if (parameters->expert[i])
                unit = 1 + blocks + j / lt_unit_matrices(weight);
            units->unit[unit].expert = parameters->expert[i];
            rc = lt_bucket_append(&units->unit[unit].all, weight->first + (size_t)j * size, size);
        }
    }
    return rc;
}

static int place_order(const void *left, const void *right)
{
    const struct lt_unit_place *one = left, *other = right;
    return (one->first > other->first) - (one->first < other->first);
}

/* The table that lt_units_find looks into. */
static int list_places(struct lt_units *units)
{
    for (int i = 0; i < units->count; i++)
        units->places += units->unit[i].all.extents;
    units->place = calloc(units->places + 1, sizeof *units->place);
    if (!units->place)
        return TACHO_ENOMEM;
    size_t places = 0;
    for (int i = 0; i < units->count; i++)
        for (size_t j = 0; j < units->unit[i].all.extents; j++)
            units->place[places++] = (struct lt_unit_place){units->unit[i].all.extent[j].first, i};
    qsort(units->place, places, sizeof *units->place, place_order);
    return 0;
}

int lt_units_create(struct lt_units *units, const struct lt_parameters *parameters,
                    struct lt_unit_ranks all)
{
    int64_t blocks = blocks_of(parameters, 0);
    *units = (struct lt_units){.count = (int)(blocks + blocks_of(parameters, 1)) + 1};
    units->unit = calloc((size_t)units->count, sizeof *units->unit);
    int rc = units->unit ? fill(units, parameters, blocks) : TACHO_ENOMEM;
    if (rc)
        return rc;
    for (int i = 0; i < units->count; i++) {
        struct lt_unit *unit = &units->unit[i];
        size_t count = unit->all.count;
        int ranks = all.ranks, rank = all.rank;
        if (unit->expert) {
            ranks = all.owners;
            rank = all.owner;
        }
        int next = (rank + 1) % ranks;
        unit->ranks = ranks;
        unit->own_first = lt_group_chunk(count, ranks, rank);
        unit->own_count = lt_group_chunk(count, ranks, rank + 1) - unit->own_first;
        unit->next_count =
            lt_group_chunk(count, ranks, next + 1) - lt_group_chunk(count, ranks, next);
        unit->shard = units->floats;
        units->floats += unit->own_count;
        units->largest = count > units->largest ? count : units->largest;
    }
    return list_places(units);
}

void lt_units_destroy(struct lt_units *units)
{
    for (int i = 0; units->unit && i < units->count; i++)
        free(units->unit[i].all.extent);
    free(units->unit);
    free(units->place);
    *units = (struct lt_units){0};
}

size_t lt_units_scratch(const struct lt_units *units, enum lt_all_reduce kind)
{
    size_t most = 0;
    for (int i = 0; i < units->count; i++) {
        const struct lt_unit *unit = &units->unit[i];
        size_t bytes = lt_group_reduce_scratch(kind, unit->ranks, LT_DTYPE_FP32, unit->all.count);
        most = bytes > most ? bytes : most;
    }
    return most;
}

int lt_units_find(const struct lt_units *units, size_t element)
{
    size_t low = 0, high = units->places;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (units->place[middle].first <= element)
            low = middle;
        else
            high = middle;
    }
    return units->place[low].unit;
}

size_t lt_units_tensor_end(const struct lt_parameters *parameters, size_t element, int *copied)
{
    *copied = 0;
    for (int i = 0; i < parameters->weights; i++) {
        const struct lt_weight *weight = &parameters->weight[i];
        size_t end = weight->first + (size_t)(weight->repeat * weight->rows * weight->columns);
        *copied = parameters->copied[i];
        if (element < end)
            return end;
    }
    return parameters->count;
}

size_t lt_unit_cut(const struct lt_unit *unit, const struct lt_parameters *parameters, size_t from,
                   size_t count, struct lt_piece *out)
{
    size_t packed = 0, pieces = 0;
    for (size_t i = 0; i < unit->all.extents; i++) {
        const struct lt_extent *extent = &unit->all.extent[i];
        size_t low = packed > from ? packed : from, high = packed + extent->count;
        if (high > from + count)
            high = from + count;
        while (low < high) {
            int copied;
            size_t first = extent->first + (low - packed),
                   size = lt_units_tensor_end(parameters, first, &copied) - first;
            if (size > high - low)
                size = high - low;
            out[pieces++] = (struct lt_piece){.value = parameters->value + first,
                                              .grad = parameters->grad + first,
                                              .at = low - from,
                                              .first = first,
                                              .count = size,
                                              .decays = first < parameters->decayed,
                                              .copied = copied};
            low += size;
        }
        packed += extent->count;
    }
    return pieces;
}

/* The pages that lie inside of an extent. */
struct pages {
    size_t first, end; /* bytes */
};

static struct pages pages_of(const struct lt_extent *extent, size_t element)
{
    struct pages pages = {(extent->first * element + PAGE - 1) / PAGE * PAGE,
                          (extent->first + extent->count) * element / PAGE * PAGE};
    pages.end = pages.end > pages.first ? pages.end : pages.first;
    return pages;
}

size_t lt_unit_pages(const struct lt_unit *unit, size_t element)
{
    size_t bytes = 0;
    for (size_t i = 0; i < unit->all.extents; i++) {
        struct pages pages = pages_of(&unit->all.extent[i], element);
        bytes += pages.end - pages.first;
    }
    return bytes;
}

void lt_unit_drop(const struct lt_unit *unit, void *array, size_t element)
{
    for (size_t i = 0; i < unit->all.extents; i++) {
        struct pages pages = pages_of(&unit->all.extent[i], element);
        if (pages.end > pages.first)
            madvise((char *)array + pages.first, pages.end - pages.first, MADV_DONTNEED);
    }
}
