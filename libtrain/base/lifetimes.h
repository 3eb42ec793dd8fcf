/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: arrays that are needed at different times share memory. Time is whole
 * numbers; what they mean is the caller's matter.
 */
#ifndef LT_LIFETIMES_H
#define LT_LIFETIMES_H

#include <stddef.h>

#define LT_LIFETIME_SPANS 2

/* An array of so many floats that must keep its values from `from` to `to`, both included, in each
 * of its spans; between the spans its memory may serve others. Without spans it is never needed. */
struct lt_lifetime {
    size_t floats;
    struct {
        int from, to;
    } span[LT_LIFETIME_SPANS];
    int spans;
    size_t at; /* the result: floats from the start */
};

/* Gives each array a place: no two that are needed at one time overlap. Each array takes the lowest
 * place that is free, in several orders, of which the best one counts (greedy by size and others:
 * Pisarchyk and Lee 2020). `order`: scratch of `count` numbers. Returns the floats of the whole;
 * *live, unless it is NULL, is the lower bound: the most that is needed at one time. */
size_t lt_lifetimes_place(struct lt_lifetime *arrays, int count, int *order, size_t *live);

/* Floats that are needed at `time`. */
size_t lt_lifetimes_live(const struct lt_lifetime *arrays, int count, int time);

#endif
