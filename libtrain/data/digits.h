/* SPDX-License-Identifier: Apache-2.0
 *
 * Public: images like handwritten digits, in the files and the format of MNIST (IDX), for machines
 * that do not have the real ones. Each image is drawn by pen strokes along lines and arcs of
 * elliptic shape; jitter of their points, slant, rotation, size, place, thickness and brightness
 * differ from image to image. A pure function of (seed, set, number): the same seed gives the same
 * files on every machine that rounds alike.
 */
#ifndef LT_DIGITS_H
#define LT_DIGITS_H

#include <stdint.h>

#include "tacho_error.h"

#define LT_DIGITS_SIDE   28 /* pixels */
#define LT_DIGITS_PIXELS (LT_DIGITS_SIDE * LT_DIGITS_SIDE)

/* The label of image `number` of the set `key`, 0..9. */
int lt_digits_label(uint64_t key, uint64_t number);

/* Its pixels, rows from the top, 0 background to 255 ink. */
void lt_digits_draw(uint64_t key, uint64_t number, uint8_t pixels[LT_DIGITS_PIXELS]);

/* Writes train-images-idx3-ubyte and train-labels-idx1-ubyte with `train` images into the present
 * folder, and t10k-... with `test`. TACHO_EIO, TACHO_ENOSPACE, TACHO_ENOMEM with words in *err;
 * files already written stay. */
int lt_digits_write(const char *folder, uint64_t train, uint64_t test, uint64_t seed,
                    struct tacho_error *err);

/* The folder with the set of `seed` in the user's cache ($XDG_CACHE_HOME or ~/.cache,
 * libtrain/digits-...), written there if it is not there yet (it appears whole, whoever else does
 * the same). `path`: its name. The errors of lt_digits_write, and TACHO_EIO when there is no such
 * place. */
int lt_digits_cached(char *path, size_t size, uint64_t seed, struct tacho_error *err);

#endif
