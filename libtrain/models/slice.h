/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: where the parameters of a rank lie in those of the whole model: from which
 * block on it has blocks, and which part of their matrices.
 */
#ifndef LT_SLICE_H
#define LT_SLICE_H

#include "libtrain/ops/update.h"

struct lt_slice {
    int64_t first;   /* block of the whole model with which the rank begins */
    int rank, ranks; /* among which matrices are divided, by share.h */
    int part;        /* of the matrices that a tensor has in each block */
    /* Where the rank's blocks do not lie together: after so many of them the next one is `stride`
     * blocks behind the first of these. 0: they do. */
    int64_t each, stride;
};

/* Calls run for each stretch of elements that lie together in both: from[, count) of the rank's
 * arrays, to[, count) of the whole ones. `own` and `all` are the same tensor. A matrix is divided
 * in the dimension in which it is smaller than the whole one, within each of its groups (0: one),
 * of which the first one has all->lead rows more than the others; one of the same shape is there
 * whole, and a tensor of as many matrices has all of them. One that has more matrices in a block
 * than `own` is divided into parts of as many as `own` has. */
void lt_slice_runs(const struct lt_weight *own, const struct lt_weight *all, int groups,
                   const struct lt_slice *slice,
                   void (*run)(void *arg, size_t from, size_t to, size_t count), void *arg);

#endif
