/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: initial values of the matrices between hidden layers, in the place of those
 * that a model gives itself. Embeddings, the head and vectors keep theirs.
 */
#ifndef LT_INIT_H
#define LT_INIT_H

#include "libtrain/models/model.h"

/* Of a matrix of `out` rows and `in` columns, by its standard deviation s:
 *
 *   own        as the model's file says
 *   xavier     normal, s = sqrt(2 / (in + out))         Glorot and Bengio 2010
 *   xavier-uniform   even from -s sqrt(3) to s sqrt(3), the same s
 *   kaiming    normal, s = sqrt(2 / in)                 He et al. 2015
 *   kaiming-uniform  even, the same s
 *   lecun      normal, s = sqrt(1 / in)                 LeCun et al. 1998
 *   truncated  normal, s = 0.02, drawn again beyond 2 s
 *   orthogonal rows (or columns, where there are fewer) that are orthonormal  Saxe et al. 2014 */
#define LT_INIT_MAP(X) \
    X(OWN, own, "own") \
    X(XAVIER, xavier, "xavier") \
    X(XAVIER_UNIFORM, xavier_uniform, "xavier-uniform") \
    X(KAIMING, kaiming, "kaiming") \
    X(KAIMING_UNIFORM, kaiming_uniform, "kaiming-uniform") \
    X(LECUN, lecun, "lecun") \
    X(TRUNCATED, truncated, "truncated") \
    X(ORTHOGONAL, orthogonal, "orthogonal")
#define LT_ENUM_INIT(id, function, name) LT_INIT_##id,
enum lt_init { LT_INIT_MAP(LT_ENUM_INIT) LT_INIT_COUNT };
#undef LT_ENUM_INIT

/* Kind called `name`, or -1. */
int lt_init_find(const char *name);

/* Fills the hidden matrices of parameters in the host's memory, and their rounded copy; a function
 * of the seed alone. */
void lt_init_matrices(const struct lt_parameters *parameters, enum lt_init kind, uint64_t seed);

#endif
