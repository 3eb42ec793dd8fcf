/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: one micro-batch, as the loader hands it over and models read it.
 */
#ifndef LT_BATCH_H
#define LT_BATCH_H

#include <stdint.h>

/* Of text: tokens and targets are b * t, targets[i] is the token after tokens[i]; features is NULL.
 * Of images: features is b rows of the source's width, targets b labels; tokens is NULL. Borrowed:
 * they belong to the loader and hold until its next call. order and starts: for a device, which
 * then has all of it (struct lt_embedding). */
struct lt_batch {
    const int32_t *tokens;
    const float *features;
    const int32_t *targets;
    const int32_t *order, *starts;
};

#endif
