/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments of the operations over all parameters: norms and bounds of the gradient, averages, and
 * the updates of all optimizers; and of K-FAC, for a layer.
 */
#include <stdio.h>

#include "libtrain/calibrate/calibrate_making.h"

#define CHANNELS LT_MAKING_CHANNELS

/* A layer's parameters, and as many as leave every cache. */
static int64_t parameters(int i, struct making *making)
{
    static const int64_t counts[] = {12 * CHANNELS * CHANNELS, (int64_t)32 << 20};
    if (i >= (int)(sizeof counts / sizeof *counts))
        return 0;
    snprintf(making->shape, sizeof making->shape, "%lld", (long long)counts[i]);
    return counts[i];
}

int lt_make_norm(void *args, int i, struct making *making)
{
    struct lt_norm *norm = args;
    *norm = (struct lt_norm){.count = parameters(i, making)};
    norm->x = take_floats(making, norm->count);
    norm->sum = take(making, 1, sizeof(double));
    norm->partial = take(making, (int64_t)lt_norm_partials(norm->count), sizeof(double));
    return norm->count > 0;
}

int lt_make_zero(void *args, int i, struct making *making)
{
    struct lt_zero *zero = args;
    *zero = (struct lt_zero){.count = parameters(i, making)};
    zero->x = take_floats(making, zero->count);
    return zero->count > 0;
}

static uint16_t *take_shadow(struct making *making, int64_t count)
{
    return making->dtype != LT_DTYPE_FP32 ? take(making, count, sizeof(uint16_t)) : NULL;
}

int lt_make_clip(void *args, int i, struct making *making)
{
    struct lt_clip *clip = args;
    *clip = (struct lt_clip){.count = parameters(i, making), .scale = 1, .bound = 1};
    clip->x = take_floats(making, clip->count);
    return clip->count > 0;
}

int lt_make_centre(void *args, int i, struct making *making)
{
    struct lt_centre *centre = args;
    *centre = (struct lt_centre){.rows = parameters(i, making) / CHANNELS, .columns = CHANNELS};
    centre->x = take_floats(making, centre->rows * CHANNELS);
    return centre->rows > 0;
}

int lt_make_rounding(void *args, int i, struct making *making)
{
    struct lt_rounding *rounding = args;
    *rounding = (struct lt_rounding){.count = parameters(i, making), .stochastic = 1};
    rounding->x = take_floats(making, rounding->count);
    rounding->shadow = take_shadow(making, rounding->count);
    return rounding->count > 0;
}

int lt_make_average(void *args, int i, struct making *making)
{
    struct lt_average *average = args;
    *average = (struct lt_average){.count = parameters(i, making), .share = 0.5};
    average->param = take_floats(making, average->count);
    average->other = take_floats(making, average->count);
    average->shadow = take_shadow(making, average->count);
    return average->count > 0;
}

/* An update of the hidden matrices of one kind, or of as many parameters as they are. */
int lt_make_update(void *args, int i, struct making *making)
{
    struct lt_update *update = args;
    /* Muon multiplies matrices: one shape of it takes long enough; L-BFGS keeps 23 floats each */
    int few = making->op == LT_OP_MUON || making->op == LT_OP_LBFGS;
    int64_t count = few && i > 0 ? 0 : parameters(i, making), rows = 4 * CHANNELS;
    struct lt_weight weight = {.repeat = count / (rows * CHANNELS),
                               .rows = rows,
                               .columns = CHANNELS,
                               .role = LT_WEIGHT_HIDDEN};
    weight.repeat = making->op == LT_OP_LBFGS && weight.repeat ? 1 : weight.repeat;
    count = weight.repeat * rows * CHANNELS;
    if (making->op == LT_OP_LBFGS)
        snprintf(making->shape, sizeof making->shape, "%lld", (long long)count);
    *update = (struct lt_update){.count = count,
                                 .decayed = count,
                                 .repeat = weight.repeat,
                                 .rows = rows,
                                 .columns = CHANNELS,
                                 .role = weight.role,
                                 .terms = {.scale = 1,
                                           .rate = 1e-6,
                                           .decay = 0.1,
                                           .beta1 = 0.9,
                                           .beta2 = 0.95,
                                           .eps = 1e-8,
                                           .momentum = 0.9,
                                           .correction1 = 1,
                                           .correction2 = 1,
                                           .following1 = 1,
                                           .momentum_now = 1,
                                           .momentum_next = 1,
                                           .rectify = 1,
                                           .trust = 1e-3,
                                           .made = LT_LBFGS_PAIRS}};
    update->param = take_floats(making, count);
    for (int state = 0; state < LT_UPDATE_STATES; state++)
        update->state[state] =
            take_floats(making, (int64_t)lt_update_state(making->op, state, &weight));
    update->grad = take_floats(making, count);
    update->shadow = take_shadow(making, count);
    update->scratch = take_floats(making, (int64_t)lt_update_scratch(making->op, rows, CHANNELS));
    return count > 0;
}

/* ---- K-FAC -------------------------------------------------------------------------------------
 */

#define SAMPLES 256

/* A layer, and one of a small perceptron. Returns 0 after the last. */
static int layer(int i, struct making *making, int64_t *n, int64_t *k)
{
    static const int64_t shapes[][2] = {{256, 784}, {CHANNELS, CHANNELS}};
    if (i >= (int)(sizeof shapes / sizeof *shapes))
        return 0;
    *n = shapes[i][0];
    *k = shapes[i][1];
    snprintf(making->shape, sizeof making->shape, "%lldx%lld", (long long)*n, (long long)*k);
    return 1;
}

int lt_make_kfac_factors(void *args, int i, struct making *making)
{
    struct lt_kfac_factors *factors = args;
    *factors = (struct lt_kfac_factors){.rows = SAMPLES};
    if (!layer(i, making, &factors->n, &factors->k))
        return 0;
    factors->in = take(making, SAMPLES * factors->k, making->element);
    factors->dout = take(making, SAMPLES * factors->n, making->element);
    factors->inputs = take_floats(making, (factors->k + 1) * (factors->k + 1));
    factors->outputs = take_floats(making, factors->n * factors->n);
    return 1;
}

int lt_make_kfac_average(void *args, int i, struct making *making)
{
    struct lt_kfac_average *average = args;
    *average =
        (struct lt_kfac_average){.count = parameters(i, making), .keep = 0.95, .share = 1e-4};
    average->mean = take_floats(making, average->count);
    average->sum = take_floats(making, average->count);
    return average->count > 0;
}

/* Operands are filled with small numbers: so large a damping makes them positive definite. */
int lt_make_kfac_inverse(void *args, int i, struct making *making)
{
    struct lt_kfac_inverse *inverse = args;
    *inverse = (struct lt_kfac_inverse){.damping = 1e8};
    if (!layer(i, making, &inverse->n, &inverse->k))
        return 0;
    int64_t inputs = (inverse->k + 1) * (inverse->k + 1), outputs = inverse->n * inverse->n;
    inverse->inputs = take_floats(making, inputs);
    inverse->outputs = take_floats(making, outputs);
    inverse->inputs_inverse = take_floats(making, inputs);
    inverse->outputs_inverse = take_floats(making, outputs);
    inverse->scratch = take_floats(making, (int64_t)lt_kfac_scratch(inverse->n, inverse->k));
    return 1;
}

int lt_make_kfac_direction(void *args, int i, struct making *making)
{
    struct lt_kfac_direction *direction = args;
    *direction = (struct lt_kfac_direction){.scale = 1};
    if (!layer(i, making, &direction->n, &direction->k))
        return 0;
    int64_t n = direction->n, k = direction->k;
    direction->weight = take_floats(making, n * k);
    direction->bias = take_floats(making, n);
    direction->dweight = take_floats(making, n * k);
    direction->dbias = take_floats(making, n);
    direction->inputs_inverse = take_floats(making, (k + 1) * (k + 1));
    direction->outputs_inverse = take_floats(making, n * n);
    direction->scratch = take_floats(making, (int64_t)lt_kfac_scratch(n, k));
    direction->product = take(making, 1, sizeof(double));
    return 1;
}
