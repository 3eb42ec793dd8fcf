/* SPDX-License-Identifier: Apache-2.0
 *
 * Public: what turns gradients into an update, and the state it keeps from step to step. The kinds
 * are the rows of update.h, and K-FAC (curvature/kfac.h); their formulas and sources are in
 * docs/engine.md.
 */
#ifndef LT_OPTIMIZER_H
#define LT_OPTIMIZER_H

#include "libtrain/base/arena.h"
#include "libtrain/curvature/kfac.h"
#include "libtrain/models/model.h"
#include "libtrain/parallel/shard.h"

#define LT_OPTIMIZER_STATES           (LT_UPDATE_STATES + 1) /* the last one: Lookahead's */
#define LT_ENUM_OPTIMIZER(X, id, ...) LT_OPTIMIZER_##id,
enum lt_optimizer_kind {
    LT_UPDATE_MAP(LT_ENUM_OPTIMIZER, ) LT_UPDATE_TENSOR_MAP(LT_ENUM_OPTIMIZER, ) LT_OPTIMIZER_KFAC,
    LT_OPTIMIZER_COUNT
};
#undef LT_ENUM_OPTIMIZER

/* Numbers that a kind does not use are ignored. */
struct lt_optimizer_config {
    enum lt_optimizer_kind kind;
    double weight_decay; /* decoupled, but for adam, lamb and lars */
    double beta1, beta2;
    double eps, root; /* added to the root, and inside of it */
    double momentum;
    double trust; /* lars */
    struct lt_kfac_config kfac;
    int64_t lookahead_every; /* updates between two of Lookahead, around any kind; 0: none */
    double lookahead_share;
};

/* The values that the kind's authors or its usual packages propose, without weight decay. */
struct lt_optimizer_config lt_optimizer_defaults(enum lt_optimizer_kind kind);

struct lt_optimizer {
    struct lt_optimizer_config config;
    float *state[LT_OPTIMIZER_STATES]; /* NULL beyond the kind's own */
    size_t floats[LT_OPTIMIZER_STATES];
    float *scratch;
    struct lt_kfac kfac;
    struct lt_arena arena[LT_OPTIMIZER_STATES], scratch_arena;
    /* The schedule-free method weighs points by the square of the highest rate so far. */
    double highest_rate, weights;
};

/* Does the kind suit a model of these parameters (their layout is looked at)? kfac only does where
 * all of them are those of linear layers. */
int lt_optimizer_suits(const struct lt_optimizer_config *config,
                       const struct lt_parameters *parameters);
/* 0 where it does, else TACHO_ENOTSUP with words in *err. */
int lt_optimizer_check(const struct lt_optimizer_config *config,
                       const struct lt_parameters *parameters, struct tacho_error *err);

/* Floats of each array of state for parameters of that layout (parameters->value is not looked at),
 * and of the scratch memory: *scratch. */
void lt_optimizer_sizes(const struct lt_optimizer_config *config,
                        const struct lt_parameters *parameters, size_t floats[LT_OPTIMIZER_STATES],
                        size_t *scratch);

/* State for parameters of that layout, as it is before the first update: zeros, but averages begin
 * at parameters->value. The caller frees it with lt_optimizer_destroy. TACHO_ENOMEM, or
 * TACHO_ENOTSUP for parameters that the kind does not suit, with words in *err; then *optimizer is
 * empty. */
int lt_optimizer_create(struct lt_optimizer *optimizer, const struct lt_optimizer_config *config,
                        const struct lt_parameters *parameters, struct tacho_error *err);

/* Accepts an empty one. */
void lt_optimizer_destroy(struct lt_optimizer *optimizer);

/* Before backward of a micro-batch of that many samples, the first of an update or not: what the
 * optimizer sees of it besides the gradient, through *context. Nothing for all kinds but kfac. */
void lt_optimizer_watch(struct lt_optimizer *optimizer, const struct lt_parameters *parameters,
                        struct lt_context *context, int64_t samples, int first);

/* One update from parameters->grad times grad_scale, of what learns; where some parameters do not,
 * lt_optimizer_parts must hold. made: updates made before this one. Writes the
 * shadow of the parameters where they have one. */
void lt_optimizer_update(struct lt_optimizer *optimizer, const struct lt_context *context,
                         const struct lt_parameters *parameters, int64_t made, double rate,
                         double grad_scale);

/* Can the kind update a part of the parameters alone, because it treats each element alike and
 * keeps no copy of the parameters? */
int lt_optimizer_parts(const struct lt_optimizer_config *config);

/* The same update of `pieces` parts of the parameters, whose state is that of a shard (shard.h).
 * The optimizer was created for as many parameters as the shard has. */
void lt_optimizer_update_pieces(struct lt_optimizer *optimizer, const struct lt_context *context,
                                const struct lt_piece *piece, size_t pieces, int64_t made,
                                double rate, double grad_scale);

/* The same for pieces of parameters that are whole, by the numbers of this update, whose rate is
 * remembered: state lies as the parameters do. Writes the shadow of these pieces. */
void lt_optimizer_update_some(struct lt_optimizer *optimizer, const struct lt_context *context,
                              const struct lt_parameters *parameters, const struct lt_piece *piece,
                              size_t pieces, const struct lt_update_terms *terms);

/* What an optimizer that continues from a checkpoint must be told of each update made before. */
void lt_optimizer_remember(struct lt_optimizer *optimizer, double rate);

/* The numbers of update number made + 1, whose rate is remembered already. */
struct lt_update_terms lt_optimizer_terms(const struct lt_optimizer *optimizer, int64_t made,
                                          double rate, double grad_scale);

/* Exchanges the parameters with the average that evaluations look at, and on the second call back
 * again. Nothing for kinds that have no such average. */
void lt_optimizer_exchange(struct lt_optimizer *optimizer, const struct lt_context *context,
                           const struct lt_parameters *parameters);

/* Of lbfgs: the parameters before the last update. */
const float *lt_optimizer_before(const struct lt_optimizer *optimizer);

/* Kind called `name`, or -1; the i-th name. */
int lt_optimizer_find(const char *name);
const char *lt_optimizer_name(enum lt_optimizer_kind kind);

#endif
