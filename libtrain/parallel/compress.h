/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain/parallel/: gradients of units in fewer bytes: by messages of a codec
 * (collectives/codec.h) or by factors of matrices (low_rank.h). What is lost is kept in an array of
 * the gradient's size and added to the next one.
 */
#ifndef LT_COMPRESS_H
#define LT_COMPRESS_H

#include "libtrain/collectives/group.h"
#include "libtrain/models/model.h"
#include "libtrain/parallel/adapt.h"
#include "libtrain/parallel/units.h"

struct lt_compress {
    struct lt_codec codec;
    struct lt_packer packer; /* where the codec has a level */
    struct lt_group *group;
    const struct lt_parameters *parameters;
    const struct lt_units *units;
    struct lt_arena residual_arena, factor_arena;
    float *residual, *factor; /* of all units, packed; NULL: none */
    size_t *packed, *factors; /* where each unit begins in them */
};

/* With room for each choice of adapt, where it has some. What is borrowed stays until
 * lt_compress_close, which is called after an error too. TACHO_ENOMEM, TACHO_ENOTSUP (no zstd). */
int lt_compress_open(struct lt_compress *compress, const struct lt_codec *codec,
                     const struct lt_adapt *adapt, struct lt_group *group,
                     const struct lt_parameters *parameters, const struct lt_units *units);
void lt_compress_close(struct lt_compress *compress);

/* The sum over the ranks of this rank's chunk of a unit, packed in data, is added to sum (`first`:
 * replaces it). data is undefined afterwards. scratch: lt_compress_scratch bytes. */
void lt_compress_reduce(struct lt_compress *compress, int unit, float *data, float *sum, int first,
                        void *scratch);

/* Nothing was lost of a unit so far. */
void lt_compress_forget(struct lt_compress *compress, int unit);

/* Bytes of scratch for the largest unit; bytes of the arrays that are kept. */
size_t lt_compress_scratch(const struct lt_codec *codec, const struct lt_parameters *parameters,
                           const struct lt_units *units, int ranks);
size_t lt_compress_memory(const struct lt_codec *codec, const struct lt_parameters *parameters,
                          const struct lt_units *units);

/* What a rank sends in one reduction of a unit. */
struct lt_group_sent lt_compress_formula(const struct lt_codec *codec,
                                         const struct lt_parameters *parameters,
                                         const struct lt_units *units, int unit, int rank,
                                         int ranks);

#endif
