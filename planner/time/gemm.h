/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to planner/: how long one matrix product takes on a device.
 */
#ifndef PLANNER_GEMM_H
#define PLANNER_GEMM_H

#include "planner/base/types.h"

/* What slows a product down; each factor is at most 1. */
struct plan_gemm {
    double seconds, flops;
    double efficiency; /* of the peak, the product of the next ones */
    double family;     /* what the best product reaches */
    double tiles;      /* share of the tiles' area that is the product's */
    double waves;      /* share of the last wave that is filled */
    double inner;      /* start-up of the inner loop */
    double alignment;
    bool memory_bound;
};

/* (rows, inner) x (inner, columns), bytes of an element as the type has. */
void plan_gemm(const struct plan_machine *machine, const struct plan_constants *constants,
               double rows, double inner, double columns, struct plan_gemm *out);
/* The share of the peak that the family's best product reaches for the machine's type. */
double plan_gemm_family(const struct plan_machine *machine, const struct plan_constants *constants);
/* The factor by alignment of a dimension in elements: 1 for multiples of 64. */
double plan_gemm_alignment(const struct plan_constants *constants, double dimension);
/* Bytes of an element of the machine's type. */
double plan_type_bytes(const char *type);

#endif
