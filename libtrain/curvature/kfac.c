/* SPDX-License-Identifier: Apache-2.0
 *
 * K-FAC: which layers there are, where their factors lie, and the operations of an update.
 */
#include "libtrain/curvature/kfac.h"

#include <math.h>

/* A linear layer: where weight[n,k] and bias[n] begin among the parameters, and its two factors in
 * the arrays of the factors of inputs and of outputs. */
struct layer {
    int64_t number, n, k;
    size_t weight, bias, inputs, outputs;
};

/* Matrix or vector `number` of those in the layout; its `first` is that one's own. */
static int find(const struct lt_parameters *parameters, int vectors, int64_t number,
                struct lt_weight *out)
{
    for (int i = 0; i < parameters->weights; i++) {
        const struct lt_weight *weight = &parameters->weight[i];
        if ((weight->role == LT_WEIGHT_VECTOR) != vectors)
            continue;
        if (number < weight->repeat) {
            *out = *weight;
            out->first += (size_t)(number * weight->rows * weight->columns);
            return 1;
        }
        number -= weight->repeat;
    }
    return 0;
}

static size_t square(int64_t order)
{
    return lt_arena_padded((size_t)(order * order));
}

/* From one layer to the next; the number of the one before the first is -1. After the last one
 * 0, and then inputs and outputs are the sizes of the arrays. */
static int next_layer(const struct lt_parameters *parameters, struct layer *layer)
{
    struct lt_weight weight, bias;
    if (layer->number >= 0) {
        layer->inputs += square(layer->k + 1);
        layer->outputs += square(layer->n);
    }
    layer->number++;
    if (!find(parameters, 0, layer->number, &weight) || !find(parameters, 1, layer->number, &bias))
        return 0;
    layer->n = weight.rows;
    layer->k = weight.columns;
    layer->weight = weight.first;
    layer->bias = bias.first;
    return 1;
}

#define EACH_LAYER(parameters, layer) \
    for (struct layer layer = {.number = -1}; next_layer((parameters), &(layer));)

static struct layer after_last(const struct lt_parameters *parameters)
{
    struct layer layer = {.number = -1};
    while (next_layer(parameters, &layer))
        ;
    return layer;
}

int lt_kfac_suits(const struct lt_parameters *parameters)
{
    return parameters->linear;
}

void lt_kfac_sizes(const struct lt_parameters *parameters, size_t floats[LT_KFAC_STATES],
                   size_t *scratch)
{
    size_t most = 0;
    *scratch = floats[LT_KFAC_FACTORS] = floats[LT_KFAC_INVERSES] = floats[LT_KFAC_VELOCITY] = 0;
    if (!lt_kfac_suits(parameters))
        return;
    EACH_LAYER(parameters, layer)
    {
        size_t needed = lt_kfac_scratch(layer.n, layer.k);
        most = needed > most ? needed : most;
    }
    struct layer end = after_last(parameters);
    floats[LT_KFAC_FACTORS] = floats[LT_KFAC_INVERSES] = end.inputs + end.outputs;
    floats[LT_KFAC_VELOCITY] = parameters->count;
    *scratch = floats[LT_KFAC_FACTORS] + parameters->count + most;
}

/* The sums of this update's batch lie at the begin of the scratch memory. */
static void see(void *arg, const struct lt_context *context, const struct lt_matmul *matmul)
{
    const struct lt_kfac *kfac = arg;
    size_t weight = (size_t)(matmul->dweight - kfac->parameters->grad),
           outputs = after_last(kfac->parameters).inputs;
    EACH_LAYER(kfac->parameters, layer)
    if (layer.weight == weight)
        lt_op(context, LT_OP_KFAC_FACTORS,
              &(union lt_args){.kfac_factors = {.in = matmul->in,
                                                .dout = matmul->dout,
                                                .inputs = kfac->scratch + layer.inputs,
                                                .outputs = kfac->scratch + outputs + layer.outputs,
                                                .rows = matmul->rows,
                                                .n = matmul->n,
                                                .k = matmul->k,
                                                .add = kfac->add}});
}

void lt_kfac_watch(struct lt_kfac *kfac, const struct lt_parameters *parameters,
                   struct lt_context *context, int64_t samples, int first)
{
    kfac->parameters = parameters;
    kfac->add = !first;
    kfac->samples = samples + (first ? 0 : kfac->samples);
    context->linear = see;
    context->linear_arg = kfac;
}

/* Backward has the gradient of the mean loss times the loss scale; the factors are those of the
 * samples' own losses. */
static void average(const struct lt_kfac *kfac, double decay, const struct lt_context *context,
                    const struct layer *end, int64_t made)
{
    double t = (double)made + 1, samples = (double)kfac->samples, keep = fmin(1 - 1 / t, decay),
           scale = context->loss_scale > 0 ? context->loss_scale : 1;
    float *mean = kfac->state[LT_KFAC_FACTORS];
    const float *sum = kfac->scratch;
    lt_op(context, LT_OP_KFAC_AVERAGE,
          &(union lt_args){.kfac_average = {.mean = mean,
                                            .sum = sum,
                                            .count = (int64_t)end->inputs,
                                            .keep = keep,
                                            .share = (1 - keep) / samples}});
    lt_op(context, LT_OP_KFAC_AVERAGE,
          &(union lt_args){.kfac_average = {.mean = mean + end->inputs,
                                            .sum = sum + end->inputs,
                                            .count = (int64_t)end->outputs,
                                            .keep = keep,
                                            .share = (1 - keep) * samples / (scale * scale)}});
}

const float *lt_kfac_direction(struct lt_kfac *kfac, const struct lt_kfac_config *config,
                               const struct lt_context *context,
                               const struct lt_parameters *parameters, int64_t made, double rate,
                               double grad_scale, double *share)
{
    struct layer end = after_last(parameters);
    const float *factors = kfac->state[LT_KFAC_FACTORS];
    float *inverses = kfac->state[LT_KFAC_INVERSES],
          *direction = kfac->scratch + end.inputs + end.outputs,
          *room = direction + parameters->count;
    double product = 0;
    if (kfac->samples > 0)
        average(kfac, config->decay, context, &end, made);
    kfac->samples = 0;
    EACH_LAYER(parameters, layer)
    {
        size_t inputs = layer.inputs, outputs = end.inputs + layer.outputs;
        if (made % config->every == 0)
            lt_op(context, LT_OP_KFAC_INVERSE,
                  &(union lt_args){.kfac_inverse = {.inputs = factors + inputs,
                                                    .outputs = factors + outputs,
                                                    .inputs_inverse = inverses + inputs,
                                                    .outputs_inverse = inverses + outputs,
                                                    .scratch = room,
                                                    .n = layer.n,
                                                    .k = layer.k,
                                                    .damping = config->damping}});
        lt_op(context, LT_OP_KFAC_DIRECTION,
              &(union lt_args){.kfac_direction = {.weight = direction + layer.weight,
                                                  .bias = direction + layer.bias,
                                                  .dweight = parameters->grad + layer.weight,
                                                  .dbias = parameters->grad + layer.bias,
                                                  .inputs_inverse = inverses + inputs,
                                                  .outputs_inverse = inverses + outputs,
                                                  .scratch = room,
                                                  .product = &product,
                                                  .n = layer.n,
                                                  .k = layer.k,
                                                  .scale = grad_scale}});
    }
    product *= rate * rate;
    *share = config->kl_clip > 0 && product > config->kl_clip ? sqrt(config->kl_clip / product) : 1;
    return direction;
}
