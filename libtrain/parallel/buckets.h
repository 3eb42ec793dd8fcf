/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: gradients in the order in which they become final, cut into buckets of equal
 * size.
 *
 * A bucket is a list of extents of the flat gradient array. All buckets but the last hold exactly
 * `size` elements, so their number follows from the number of elements. A bucket is written by
 * whoever adds until it is closed, and is then read-only until the reset: another thread may pack
 * closed buckets in the meantime if closing is made known to it under a lock.
 *
 * Turns. Collectives need one order on all ranks, so which bucket is sent in which turn does not
 * depend on when ranks come to it (lt_buckets_prefer).
 */
#ifndef LT_BUCKETS_H
#define LT_BUCKETS_H

#include <stddef.h>

#include "libtrain/base/dtype.h"

struct lt_extent {
    size_t first, count;
};

struct lt_bucket {
    struct lt_extent *extent;
    size_t extents, cap;
    size_t count; /* elements */
};

/* What is sent in a turn, and how many buckets must be closed before. */
struct lt_bucket_turn {
    size_t bucket, closed;
};

struct lt_buckets {
    struct lt_bucket *bucket;
    struct lt_bucket_turn *turn; /* as many as buckets; at first in the order of closing */
    size_t buckets;              /* of a step */
    size_t size, elements;
    size_t closed, added; /* so far in this step */
};

/* For `elements` in a step. size 0 or more than elements: one bucket. Free with lt_buckets_destroy,
 * also after TACHO_ENOMEM. */
int lt_buckets_create(struct lt_buckets *buckets, size_t elements, size_t size);
void lt_buckets_destroy(struct lt_buckets *buckets);

/* The order of turns by priority: as soon as the link is free, the bucket goes that was closed
 * last, because backward ends with the layers with which the next forward pass begins. So it would
 * be if a bucket took as long on the link as backward takes to fill `ratio` of them; at 1 and below
 * that is the order of closing. */
void lt_buckets_prefer(struct lt_buckets *buckets, double ratio);

/* Turns that may be taken now. */
size_t lt_buckets_turns(const struct lt_buckets *buckets);

/* A step begins: nothing has been added. */
void lt_buckets_reset(struct lt_buckets *buckets);

/* Adds [first, first + count) of the gradient array, and closes what is full; `closed` counts them.
 * The last bucket is closed with the last element. TACHO_EINTERNAL when more elements are added
 * than there are, TACHO_ENOMEM. */
int lt_buckets_add(struct lt_buckets *buckets, size_t first, size_t count);

/* Adds [first, first + count) to one bucket, joined with its last extent where they are neighbours.
 * TACHO_ENOMEM. */
int lt_bucket_append(struct lt_bucket *bucket, size_t first, size_t count);

/* Where the bucket's elements lie together in the array itself, or NULL if they do not. */
float *lt_bucket_whole(const struct lt_bucket *bucket, float *grad);

/* Elements in the order they were added, from the array into a buffer of `dtype` (bf16: rounded to
 * nearest even), and back. */
void lt_bucket_pack(const struct lt_bucket *bucket, const float *grad, enum lt_dtype dtype,
                    void *buffer);
void lt_bucket_unpack(const struct lt_bucket *bucket, float *grad, enum lt_dtype dtype,
                      const void *buffer);

#endif
