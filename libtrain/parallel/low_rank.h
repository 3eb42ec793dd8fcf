/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: PowerSGD (Vogels et al. 2019): the sum of the ranks' gradients of a matrix,
 * as the product of two matrices of few columns. With a gradient M of m rows and n columns, to
 * which what was lost so far is added, and Q[n][r] of the reduction before (warm start):
 *   P = sum over ranks of M Q, its columns made orthonormal;  Q = sum over ranks of M' P
 * and P Q' is applied. A rank keeps M - P (M' P)', with its own M, for its next gradient: so what
 * was applied and what is kept are together the sum of all gradients to rounding.
 *
 * A unit (units.h) takes two all-reduces around a ring: of all P, and with them the tensors of
 * which factors would not be smaller (vectors), as they are; and of all Q. r (m + n) elements
 * travel for m n.
 */
#ifndef LT_LOW_RANK_H
#define LT_LOW_RANK_H

#include "libtrain/collectives/group.h"
#include "libtrain/models/model.h"

/* What is packed in a unit, in order: matrices of which factors travel, and tensors that travel as
 * they are. */
struct lt_low_rank_tensor {
    size_t at, size;       /* elements in the unit */
    int64_t rows, columns; /* rows 0: it travels as it is */
    size_t p;              /* where P, or the tensor itself, lies in the first all-reduce */
    size_t q;              /* where Q lies in the second one */
};

struct lt_low_rank {
    int rank; /* r */
    int tensors;
    struct lt_low_rank_tensor tensor[LT_WEIGHT_CAP];
    size_t count;         /* elements of the unit */
    size_t first, second; /* of the two all-reduces */
};

/* The plan of unit number `unit` of parameters of that layout. Without a table of tensors
 * everything travels as it is. */
void lt_low_rank_plan(struct lt_low_rank *plan, const struct lt_parameters *parameters, int unit,
                      int rank);

/* Bytes of scratch; what a rank sends in one reduction. */
size_t lt_low_rank_scratch(const struct lt_low_rank *plan, int ranks);
struct lt_group_sent lt_low_rank_formula(const struct lt_low_rank *plan, int rank, int ranks);

/* The sum over the ranks of chunk `rank` of data is added to sum (`first`: replaces it). residual:
 * of as many elements as data; data is undefined afterwards. q: the plan's `second` elements, all
 * zero before the first reduction, kept by the caller from one to the next; the ranks' are equal.
 * All ranks of the group call it. */
void lt_low_rank_reduce(struct lt_group *group, const struct lt_low_rank *plan, float *data,
                        float *residual, float *q, float *sum, int first, void *scratch);

#endif
