/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: the state of a run in one file: parameters, what the optimizer keeps, step,
 * seed and loader position.
 *
 * Writing is atomic: FILE.tmp beside the file, fsync, rename, fsync of the folder. Whatever
 * interrupts it, FILE is the old one or the new one, whole. Layout, version 3: struct header
 * (checked by a sum of its own), the values, each array of the optimizer's state and the model's
 * own state (running statistics) as float32 in the model's order, a 64-bit sum over them. The bf16
 * copy of the values is not in it, because it follows from them. Native byte order; a file of
 * another one is refused as foreign. Version 1 did not say which optimizer it belongs to, version 2
 * had no loss scale; both are refused.
 *
 * Or the file is an index, and the arrays are in shards beside it (checkpoint_shards.h), one of
 * each rank: the same header with another magic, how many shards there are, the sum of each, and a
 * sum over these. It is written when all shards are durable, and names those of its step, so it is
 * the old one or the new one here too.
 */
#ifndef LT_CHECKPOINT_H
#define LT_CHECKPOINT_H

#include "libtrain/train/optimizer.h"
#include "libtrain/train/scaling.h"

/* What continues a run bit by bit, beside the model's arrays. There is no other random state: all
 * random numbers are functions of seed and counters (random.h). */
struct lt_checkpoint {
    uint64_t seed;
    uint64_t step;     /* optimizer updates made */
    uint64_t position; /* samples the loader handed out */
    uint64_t data;  /* identity of what it learned from, so that a position is not applied to other
                       data */
    uint64_t dtype; /* enum lt_dtype of the run; another one would not continue bit by bit */
    struct lt_scaling scaling;
};

/* Bytes of the arrays in a file. */
uint64_t lt_checkpoint_bytes(const struct lt_model *model, const struct lt_optimizer *optimizer);

/* TACHO_EIO, TACHO_ENOSPACE, TACHO_EBUSY (another process writes the same file), with words in
 * *err; FILE is then as it was. */
int lt_checkpoint_write(const char *path, const struct lt_model *model,
                        const struct lt_optimizer *optimizer, const struct lt_checkpoint *state,
                        struct tacho_error *err);

/* The index of so many shards, which hold `floats` floats of parameters and of the model's state
 * together. Errors as above. */
int lt_checkpoint_write_index(const char *path, const struct lt_model *model,
                              const struct lt_optimizer *optimizer, uint64_t floats,
                              const struct lt_checkpoint *state, const uint64_t *sums, int shards,
                              struct tacho_error *err);

/* Fills the arrays of model and optimizer and *state. TACHO_ENOTFOUND, TACHO_EFORMAT (foreign,
 * another model or optimizer), TACHO_EVERSION, TACHO_ECORRUPT, TACHO_EIO, with words in *err. The
 * arrays are undefined after an error other than a refusal of the header. */
int lt_checkpoint_read(const char *path, struct lt_model *model, struct lt_optimizer *optimizer,
                       struct lt_checkpoint *state, struct tacho_error *err);

/* The checksum of the file's sections, of any memory; bytes: a multiple of 8. Any flipped bit
 * changes it. */
uint64_t lt_checkpoint_sum(const void *data, size_t bytes);

#endif
