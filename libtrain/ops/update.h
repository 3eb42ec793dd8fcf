/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: the updates that the optimizers make, as rows of one list, and their
 * arguments. The formulas are in update_rules.h (element by element) and update_tensor.h (of a
 * whole tensor); docs/engine.md has them in a table, with their sources.
 *
 * To add an optimizer: a row here, its formula in one of these two files, a row in the table of
 * libtrain/train/optimizer.c, its reference trajectory in test_lt_optimizer_reference.c.
 */
#ifndef LT_UPDATE_H
#define LT_UPDATE_H

#include <stddef.h>
#include <stdint.h>

#define LT_UPDATE_STATES 3

/* Updates that treat each element alike, so that one pass runs over all parameters: id, function,
 * name of the range, arrays of state, FLOPs an element, FLOPs more where weight decay applies. */
#define LT_UPDATE_MAP(ROW, X) \
    ROW(X, ADAMW, adamw, "adamw", 2, 15, 1) \
    ROW(X, MOMENTUM, momentum, "momentum", 1, 5, 1) \
    ROW(X, SGD, sgd, "sgd", 0, 3, 1) \
    ROW(X, NESTEROV, nesterov, "nesterov", 1, 7, 1) \
    ROW(X, ADAGRAD, adagrad, "adagrad", 1, 9, 1) \
    ROW(X, RMSPROP, rmsprop, "rmsprop", 1, 11, 1) \
    ROW(X, ADAM, adam, "adam", 2, 15, 2) \
    ROW(X, NADAM, nadam, "nadam", 2, 17, 1) \
    ROW(X, RADAM, radam, "radam", 2, 15, 1) \
    ROW(X, LION, lion, "lion", 1, 10, 1) \
    ROW(X, SCHEDULE_FREE, schedule_free, "schedule-free", 3, 17, 2)

/* Updates of one tensor at a time, because they need its norms, its rows and columns, or its
 * product with itself: id, function, name of the range, kind of work. */
#define LT_UPDATE_TENSOR_MAP(ROW, X) \
    ROW(X, LAMB, lamb, "lamb", OTHER) \
    ROW(X, LARS, lars, "lars", OTHER) \
    ROW(X, ADAFACTOR, adafactor, "adafactor", OTHER) \
    ROW(X, MUON, muon, "muon", MATRIX) \
    ROW(X, ADAMW8, adamw8, "adamw8", OTHER) \
    ROW(X, LBFGS, lbfgs, "lbfgs", OTHER)

#define LT_LBFGS_PAIRS 10 /* pairs of differences that L-BFGS keeps */

/* The numbers of one update, the same for all parameters, computed once in double. t is the number
 * of the update, from 1. */
#define LT_UPDATE_TERMS(X) \
    X(scale)         /* factor on the gradients: clipping */ \
    X(rate)          /* learning rate */ \
    X(decay)         /* weight decay */ \
    X(beta1)         /* of the first moment */ \
    X(beta2)         /* of the second */ \
    X(eps)           /* added to the root */ \
    X(root)          /* added inside of the root */ \
    X(momentum)      /* of the velocity */ \
    X(correction1)   /* 1 - beta1^t */ \
    X(correction2)   /* 1 - beta2^t */ \
    X(following1)    /* 1 - beta1^(t + 1) */ \
    X(momentum_now)  /* 1 - momentum^t */ \
    X(momentum_next) /* 1 - momentum^(t + 1) */ \
    X(rectify)       /* RAdam's factor; 0 while the variance cannot be told */ \
    X(share)         /* of the new point in the average of the schedule-free method */ \
    X(trust)         /* factor of LARS */ \
    X(fade)          /* Adafactor's 1 - t^-0.8 */ \
    X(made)          /* updates before this one: t - 1 */
struct lt_update_terms {
#define LT_TERM(name) double name;
    LT_UPDATE_TERMS(LT_TERM)
#undef LT_TERM
};

/* What a tensor is to an optimizer that treats tensors differently: a matrix between two hidden
 * layers; a table or matrix at an end of the model (embedding, head); a vector. */
enum lt_weight_role { LT_WEIGHT_VECTOR, LT_WEIGHT_OUTER, LT_WEIGHT_HIDDEN };

/* A parameter tensor in the flat arrays: `repeat` matrices of rows x columns, one behind the other,
 * from element `first` on. A vector has one row. Matrices of layers are output x input. `each`
 * matrices (0: one) belong to a layer, the first ones to layer `layer`, from 1; 0: to layer 1, or
 * to none if there is one matrix. lead: where ranks divide groups of rows (model.h), by how many
 * rows of the whole matrix the first group is longer than each of the others. */
struct lt_weight {
    size_t first;
    int64_t repeat, rows, columns;
    enum lt_weight_role role;
    int layer, each;
    int64_t lead;
};

/* Arguments of every update. Flat arrays of `count` elements, of which the first `decayed` shrink;
 * gradients are multiplied by terms.scale. shadow: the bf16 copy of param, written in the same
 * pass, round to nearest even; NULL: none. Updates of a tensor also need its shape and, for some,
 * scratch of lt_update_scratch floats; their arrays of state have a size of their own
 * (lt_update_state). */
struct lt_update {
    float *param, *state[LT_UPDATE_STATES];
    uint16_t *shadow;
    const float *grad;
    int64_t count, decayed;
    int64_t repeat, rows, columns;
    enum lt_weight_role role;
    float *scratch;
    struct lt_update_terms terms;
};

#endif
