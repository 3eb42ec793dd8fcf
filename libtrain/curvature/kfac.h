/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: K-FAC (Martens and Grosse 2015) for models of linear layers with biases.
 *
 * The Fisher matrix of a layer with weight and bias W = [weight, bias] is taken to be the Kronecker
 * product of two factors: A, the mean of the outer products of its inputs with a 1 behind them, and
 * G, that of the gradients of its outputs, each sample's own. Both are running averages, with the
 * decay min(1 - 1/t, decay) in update t (section 5 of the paper). The gradients are those of the
 * true labels, which the step computes anyway: it is the empirical Fisher, not that of labels drawn
 * from the model's predictions. Damping is factored, with pi from the traces (section 6.3):
 *
 *     direction = (G + sqrt(damping) / pi I)^-1  gradient  (A + pi sqrt(damping) I)^-1
 *
 * The inverses are computed in every `every`-th update. In the place of the paper's own rates and
 * momentum, which need products with the Fisher matrix, the direction is scaled so that the step
 * changes the predictions by kl_clip at most (Ba, Grosse and Martens 2017): times
 * min(1, sqrt(kl_clip / (rate^2 direction . gradient))). Momentum follows it.
 */
#ifndef LT_KFAC_H
#define LT_KFAC_H

#include "libtrain/models/model.h"

struct lt_kfac_config {
    double damping, decay;
    double kl_clip; /* 0: none */
    int64_t every;  /* updates from one computation of the inverses to the next */
};

/* Arrays of state: running averages of the factors (those of inputs, then those of outputs), their
 * inverses in the same order, the velocity. */
enum { LT_KFAC_FACTORS, LT_KFAC_INVERSES, LT_KFAC_VELOCITY, LT_KFAC_STATES };

/* What is being seen of the batch of an update. */
struct lt_kfac {
    float *state[LT_KFAC_STATES], *scratch; /* borrowed */
    const struct lt_parameters *parameters; /* borrowed for the step */
    int64_t samples;                        /* of the micro-batches begun */
    int add;                                /* not the first of them */
};

/* Has every parameter its place in a linear layer with a bias? */
int lt_kfac_suits(const struct lt_parameters *parameters);

/* Floats of each array of state and of the scratch memory, by the layout alone. Zeros where the
 * layout does not suit. */
void lt_kfac_sizes(const struct lt_parameters *parameters, size_t floats[LT_KFAC_STATES],
                   size_t *scratch);

/* Before backward of a micro-batch of that many samples, the first of an update or not: from now on
 * context->linear adds up its factors. *kfac and *parameters must outlive the context. */
void lt_kfac_watch(struct lt_kfac *kfac, const struct lt_parameters *parameters,
                   struct lt_context *context, int64_t samples, int first);

/* Turns parameters->grad times grad_scale into the direction of update made + 1, an array of the
 * parameters' layout in the scratch memory; *share: the factor that the bound of the change
 * leaves of it. */
const float *lt_kfac_direction(struct lt_kfac *kfac, const struct lt_kfac_config *config,
                               const struct lt_context *context,
                               const struct lt_parameters *parameters, int64_t made, double rate,
                               double grad_scale, double *share);

#endif
