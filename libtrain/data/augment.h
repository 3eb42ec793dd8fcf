/* SPDX-License-Identifier: Apache-2.0
 *
 * Public: images changed as they are loaded, a stage of the loader between decode and collate: the
 * usual crop, flip and normalisation. Which part, and whether it is mirrored, depends on the seed
 * and on the number of the sample in the endless sequence alone, so neither workers nor a resume
 * change it. Evaluations take the middle, unmirrored.
 */
#ifndef LT_AUGMENT_H
#define LT_AUGMENT_H

#include "libtrain/data/source.h"

struct lt_augment {
    int64_t pad;   /* pixels of black around the image, before the crop */
    int64_t crop;  /* pixels a side of the square that is taken; 0: as many as the image has */
    int flip;      /* mirror every second image, by chance */
    int normalise; /* each channel has mean 0 and deviation 1 over the training images */
};

/* Whether it changes anything. */
int lt_augment_any(const struct lt_augment *how);

/* Puts a source of images in front of *source, which becomes that one and owns the other; also when
 * it fails, *source is what the caller closes. TACHO_EFORMAT where the images have no rows and
 * columns or are too small, TACHO_ENOMEM, with words in *err. */
int lt_augment_open(struct lt_source **source, const struct lt_augment *how,
                    struct tacho_error *err);

/* Measures mean and deviation of each channel over at most LT_AUGMENT_MEASURED samples of `part`, a
 * part of the augmented source, evenly spaced; before a loader reads from it. Nothing without
 * `normalise`. Errors of read and decode. */
#define LT_AUGMENT_MEASURED 512
int lt_augment_measure(struct lt_source *source, const struct lt_part *part,
                       struct tacho_error *err);

/* What was measured of one augmented source holds for the other, too. */
void lt_augment_share(struct lt_source *to, const struct lt_source *from);

#endif
