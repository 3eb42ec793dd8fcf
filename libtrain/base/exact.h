/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: sums of squares without rounding, so that a sum does not depend on how its
 * terms are divided among threads or ranks.
 *
 * The square of a float is a double without error. It is added to a number of fixed point whose
 * digits of 32 bits reach from the smallest square, 2^-298, to the largest (Kulisch and Miranker
 * 1986). Digits have room for 2^32 carries; at most 2^31 terms are added before lt_exact_add or
 * lt_exact_value puts the carries where they belong.
 */
#ifndef LT_EXACT_H
#define LT_EXACT_H

#include <stddef.h>
#include <stdint.h>

#define LT_EXACT_DIGITS 22

/* {0}: nothing has been added. */
struct lt_exact {
    uint64_t digit[LT_EXACT_DIGITS];
    uint64_t strange; /* terms that were no finite numbers */
};

/* Adds x[i] x[i] for i < count. */
void lt_exact_squares(struct lt_exact *sum, const float *x, size_t count);

/* sum += term. */
void lt_exact_add(struct lt_exact *sum, const struct lt_exact *term);

/* The sum as a double; NAN when a term was not finite. */
double lt_exact_value(const struct lt_exact *sum);

#endif
