/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain/parallel/: the units of shard.h: which elements of the flat arrays belong to
 * one, which part of it a rank owns, which pages of an array are its alone.
 */
#ifndef LT_UNITS_H
#define LT_UNITS_H

#include "libtrain/collectives/group.h"
#include "libtrain/models/model.h"
#include "libtrain/parallel/buckets.h"

struct lt_unit {
    struct lt_bucket all;        /* its elements, without padding */
    int expert;                  /* only the owners have it (below) */
    int ranks;                   /* that have it */
    size_t own_first, own_count; /* this rank's chunk of them */
    size_t next_count;           /* elements of the next rank's chunk */
    size_t shard;                /* where that chunk begins in the shard */
};

/* Matrices of a tensor in a block, and so in one unit. */
static inline int64_t lt_unit_matrices(const struct lt_weight *weight)
{
    return weight->each > 1 ? weight->each : 1;
}

/* The unit of a tensor's matrix number `matrix`, where every rank has the tensor. */
static inline int64_t lt_unit_of(const struct lt_weight *weight, int64_t matrix)
{
    return weight->repeat == 1 ? 0 : 1 + matrix / lt_unit_matrices(weight);
}

struct lt_units {
    struct lt_unit *unit;
    int count;
    size_t largest; /* elements of the largest unit */
    size_t floats;  /* of the shard */
    struct lt_unit_place {
        size_t first; /* of an extent of the flat arrays */
        int unit;
    } * place; /* ascending */
    size_t places;
};

/* The ranks that have the parameters, and those of them that have the same experts where ranks
 * divide these; and which of them this one is. */
struct lt_unit_ranks {
    int rank, ranks, owner, owners;
};

/* Of parameters of that layout (arrays are not looked at). A tensor that has several matrices in a
 * block has all of them in the block's unit; those of experts that ranks divide have units of their
 * own, behind the others. TACHO_ENOMEM; free with lt_units_destroy, then too. */
int lt_units_create(struct lt_units *units, const struct lt_parameters *parameters,
                    struct lt_unit_ranks ranks);
void lt_units_destroy(struct lt_units *units);

/* Bytes of scratch that the units' collectives need, where no codec is used. */
size_t lt_units_scratch(const struct lt_units *units, enum lt_all_reduce kind);

/* The unit that an element belongs to. */
int lt_units_find(const struct lt_units *units, size_t element);

/* Where the tensor ends that an element belongs to, and whether it is a copy. */
size_t lt_units_tensor_end(const struct lt_parameters *parameters, size_t element, int *copied);

/* The part of a unit that begins with its element `from` of `count`, as pieces of one tensor each,
 * where the flat arrays have them; `at` counts from 0. Returns how many. */
struct lt_piece;
size_t lt_unit_cut(const struct lt_unit *unit, const struct lt_parameters *parameters, size_t from,
                   size_t count, struct lt_piece *out);

/* Bytes of the pages that lie inside the unit's extents, in an array of elements of that size that
 * begins with a page; and gives these pages back to the system: they read as zeros afterwards. */
size_t lt_unit_pages(const struct lt_unit *unit, size_t element);
void lt_unit_drop(const struct lt_unit *unit, void *array, size_t element);

#endif
