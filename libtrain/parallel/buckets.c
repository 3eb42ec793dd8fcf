/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients in the order in which backward finishes them, as lists of extents of the flat array.
 * Neighbouring extents are joined, so a bucket is often one piece that MPI can read in place.
 */
#include "libtrain/parallel/buckets.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tacho_error.h"

int lt_buckets_create(struct lt_buckets *buckets, size_t elements, size_t size)
{
    if (size == 0 || size > elements)
        size = elements;
    *buckets = (struct lt_buckets){
        .size = size, .elements = elements, .buckets = size ? (elements + size - 1) / size : 0};
    buckets->bucket = calloc(buckets->buckets + 1, sizeof *buckets->bucket);
    buckets->turn = calloc(buckets->buckets + 1, sizeof *buckets->turn);
    if (!buckets->bucket || !buckets->turn)
        return TACHO_ENOMEM;
    lt_buckets_prefer(buckets, 1);
    return 0;
}

/* Where the i-th bucket is kept that is closed and not sent, the last one on top: behind the turns
 * that are known, from the end on. */
static size_t *kept(struct lt_buckets *buckets, size_t i)
{
    return &buckets->turn[buckets->buckets - 1 - i].bucket;
}

void lt_buckets_prefer(struct lt_buckets *buckets, double ratio)
{
    double now = 1; /* bucket i is closed at i + 1; the link is free */
    size_t closed = 0, waiting = 0;
    for (size_t turn = 0; turn < buckets->buckets; turn++) {
        if (waiting == 0 && now < (double)(closed + 1))
            now = (double)(closed + 1);
        for (; closed < buckets->buckets && (double)(closed + 1) <= now; closed++)
            *kept(buckets, waiting++) = closed;
        waiting--;
        buckets->turn[turn] = (struct lt_bucket_turn){*kept(buckets, waiting), closed};
        now += ratio;
    }
}

size_t lt_buckets_turns(const struct lt_buckets *buckets)
{
    size_t turns = 0;
    while (turns < buckets->buckets && buckets->turn[turns].closed <= buckets->closed)
        turns++;
    return turns;
}

void lt_buckets_destroy(struct lt_buckets *buckets)
{
    for (size_t i = 0; buckets->bucket && i < buckets->buckets; i++)
        free(buckets->bucket[i].extent);
    free(buckets->bucket);
    free(buckets->turn);
    *buckets = (struct lt_buckets){0};
}

void lt_buckets_reset(struct lt_buckets *buckets)
{
    for (size_t i = 0; i < buckets->buckets; i++)
        buckets->bucket[i].extents = buckets->bucket[i].count = 0;
    buckets->closed = buckets->added = 0;
}

int lt_bucket_append(struct lt_bucket *bucket, size_t first, size_t count)
{
    struct lt_extent *last = bucket->extents ? &bucket->extent[bucket->extents - 1] : NULL;
    if (last && last->first + last->count == first) {
        last->count += count;
    } else {
        if (bucket->extents == bucket->cap) {
            size_t cap = bucket->cap ? 2 * bucket->cap : 16;
            struct lt_extent *more = realloc(bucket->extent, cap * sizeof *more);
            if (!more)
                return TACHO_ENOMEM;
            bucket->extent = more;
            bucket->cap = cap;
        }
        bucket->extent[bucket->extents++] = (struct lt_extent){.first = first, .count = count};
    }
    bucket->count += count;
    return 0;
}

int lt_buckets_add(struct lt_buckets *buckets, size_t first, size_t count)
{
    if (count > buckets->elements - buckets->added)
        return TACHO_EINTERNAL;
    while (count > 0) {
        struct lt_bucket *bucket = &buckets->bucket[buckets->closed];
        size_t room = buckets->size - bucket->count, part = count < room ? count : room;
        int rc = lt_bucket_append(bucket, first, part);
        if (rc)
            return rc;
        first += part;
        count -= part;
        buckets->added += part;
        buckets->closed += bucket->count == buckets->size || buckets->added == buckets->elements;
    }
    return 0;
}

float *lt_bucket_whole(const struct lt_bucket *bucket, float *grad)
{
    return bucket->extents == 1 ? grad + bucket->extent[0].first : NULL;
}

void lt_bucket_pack(const struct lt_bucket *bucket, const float *grad, enum lt_dtype dtype,
                    void *buffer)
{
    size_t packed = 0;
    for (size_t extent = 0; extent < bucket->extents; extent++) {
        const float *from = grad + bucket->extent[extent].first;
        size_t count = bucket->extent[extent].count;
        if (dtype == LT_DTYPE_BF16) {
            uint16_t *target = (uint16_t *)buffer + packed;
            for (size_t i = 0; i < count; i++)
                target[i] = lt_bf16_round(from[i]);
        } else {
            memcpy((float *)buffer + packed, from, count * sizeof *from);
        }
        packed += count;
    }
}

void lt_bucket_unpack(const struct lt_bucket *bucket, float *grad, enum lt_dtype dtype,
                      const void *buffer)
{
    size_t unpacked = 0;
    for (size_t extent = 0; extent < bucket->extents; extent++) {
        float *target = grad + bucket->extent[extent].first;
        size_t count = bucket->extent[extent].count;
        if (dtype == LT_DTYPE_BF16) {
            const uint16_t *from = (const uint16_t *)buffer + unpacked;
            for (size_t i = 0; i < count; i++)
                target[i] = lt_bf16_float(from[i]);
        } else {
            memcpy(target, (const float *)buffer + unpacked, count * sizeof *target);
        }
        unpacked += count;
    }
}
