/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: one image file as values from 0 to 1. Raw PGM and PPM are read here, JPEG
 * through libjpeg (libjpeg-turbo) and PNG through libpng, where the build has them.
 *
 * Of a JPEG or PNG 8 bits a value are decoded, with 1 channel (grey) or 3 (red, green, blue),
 * whichever is asked for: colours become grey as the library does it, transparent pixels lie on
 * black. The orientation that a camera wrote beside the pixels is not applied.
 */
#ifndef LT_PICTURE_H
#define LT_PICTURE_H

#include <stddef.h>
#include <stdint.h>

#include "tacho_error.h"

struct lt_picture {
    uint32_t columns, rows;
    int channels;
};

/* Whether a file of which these are the first bytes (3 or more, if it has them) is an image of a
 * known kind. */
int lt_picture_is(const unsigned char *head, size_t head_bytes);

/* Size of the image in a whole file; *out is left alone on an error. TACHO_EFORMAT (no image),
 * TACHO_ECORRUPT, TACHO_ENOTSUP (the build lacks the library), with words that name `path`. */
int lt_picture_look(const char *path, const unsigned char *file, size_t bytes,
                    struct lt_picture *out, struct tacho_error *err);

/* The values of a picture that lt_picture_look has measured, row by row, the channels of a pixel
 * side by side: columns * rows * channels floats. picture->channels may be changed before, but not
 * that of a PGM or PPM. Errors as above; a file that ends early is TACHO_ECORRUPT. Thread-safe. */
int lt_picture_decode(const char *path, const unsigned char *file, size_t bytes,
                      const struct lt_picture *picture, float *values, struct tacho_error *err);

/* Scales an image so that its shorter side has `side` pixels, and takes the middle of the longer
 * one: out[side][side][channels]. The filter is a triangle as wide as a pixel of the coarser of the
 * two images on each side of its centre, which is linear interpolation where the image grows.
 * TACHO_ENOMEM. */
int lt_picture_scale(const struct lt_picture *picture, const float *values, int64_t side,
                     float *out, struct tacho_error *err);

#endif
