/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: the state of a run in one file: parameters, both moments, step, seed and loader position.
 *
 * Writing is atomic: FILE.tmp beside the file, fsync, rename, fsync of the folder. Whatever interrupts it, FILE is the old one
 * or the new one, whole. Layout: struct header (checked by a sum of its own), value, m, v as float32 in the model's order, a
 * 64-bit sum over them. Native byte order; a file of another one is refused as foreign.
 */
#ifndef LT_CHECKPOINT_H
#define LT_CHECKPOINT_H

#include "libtrain/model.h"

/* What continues a run bit by bit, beside the model's arrays. There is no other random state: all random numbers are functions
 * of seed and counters (random.h). */
struct lt_checkpoint {
    uint64_t seed;
    uint64_t step;     /* optimizer updates made */
    uint64_t position; /* samples the loader handed out */
    uint64_t data;     /* identity of what it learned from, so that a position is not applied to other data */
};

/* TACHO_EIO, TACHO_ENOSPACE, TACHO_EBUSY (another process writes the same file), with words in *err; FILE is then as it was. */
int lt_checkpoint_write(const char *path, const struct lt_model *model, const struct lt_checkpoint *state,
                        struct tacho_error *err);

/* Fills the model's arrays and *state. TACHO_ENOTFOUND, TACHO_EFORMAT (foreign, or another model), TACHO_EVERSION,
 * TACHO_ECORRUPT, TACHO_EIO, with words in *err. The arrays are undefined after an error other than a refusal of the header. */
int lt_checkpoint_read(const char *path, struct lt_model *model, struct lt_checkpoint *state, struct tacho_error *err);

#endif
