/* SPDX-License-Identifier: Apache-2.0
 *
 * Public: what turns gradients into an update, and the state it keeps from step to step: AdamW two
 * arrays of the parameters' layout, momentum one, plain gradient descent none. Formulas and their
 * sources are in ops.h.
 */
#ifndef LT_OPTIMIZER_H
#define LT_OPTIMIZER_H

#include "libtrain/base/arena.h"
#include "libtrain/models/model.h"

/* id, name, arrays of state. A row is appended, never moved: checkpoints carry the name. */
#define LT_OPTIMIZER_MAP(X)                 X(ADAMW, "adamw", 2) X(MOMENTUM, "momentum", 1) X(SGD, "sgd", 0)
#define LT_ENUM_OPTIMIZER(id, name, states) LT_OPTIMIZER_##id,
#define LT_OPTIMIZER_STATES                 2 /* the most that a kind has */
enum lt_optimizer_kind { LT_OPTIMIZER_MAP(LT_ENUM_OPTIMIZER) LT_OPTIMIZER_COUNT };
#undef LT_ENUM_OPTIMIZER

struct lt_optimizer_config {
    enum lt_optimizer_kind kind;
    double weight_decay;      /* decoupled, of all kinds */
    double beta1, beta2, eps; /* AdamW */
    double momentum;          /* momentum */
};

struct lt_optimizer {
    struct lt_optimizer_config config;
    float *state[LT_OPTIMIZER_STATES]; /* AdamW: first and second moment; momentum: velocity; NULL
                                          beyond the kind's own */
    size_t count;                      /* floats of each, as in the parameters */
    struct lt_arena arena[LT_OPTIMIZER_STATES];
};

/* State of zeros for parameters of that layout. The caller frees it with lt_optimizer_destroy.
 * TACHO_ENOMEM with words in *err; then *optimizer is empty. */
int lt_optimizer_create(struct lt_optimizer *optimizer, const struct lt_optimizer_config *config,
                        const struct lt_parameters *parameters, struct tacho_error *err);

/* Accepts an empty one. */
void lt_optimizer_destroy(struct lt_optimizer *optimizer);

/* One update from parameters->grad times grad_scale, through one op. made: updates made before this
 * one. Writes the shadow of the parameters where they have one. */
void lt_optimizer_update(struct lt_optimizer *optimizer, const struct lt_context *context,
                         const struct lt_parameters *parameters, int64_t made, double rate,
                         double grad_scale);

/* Arrays of state that a kind keeps. Their bytes: 4 * states * parameters. */
int lt_optimizer_states(enum lt_optimizer_kind kind);

/* Kind called `name`, or -1. */
int lt_optimizer_find(const char *name);
const char *lt_optimizer_name(enum lt_optimizer_kind kind);

#endif
