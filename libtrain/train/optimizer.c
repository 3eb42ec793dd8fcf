/* SPDX-License-Identifier: Apache-2.0
 *
 * The optimizers: which arrays of state a kind keeps, and the one operation that makes an update of
 * it.
 */
#include "libtrain/train/optimizer.h"

#include <math.h>
#include <string.h>

#include "tacho_error.h"

static const struct {
    const char *name;
    int states;
} kinds[LT_OPTIMIZER_COUNT] = {
#define ROW(id, text, arrays) [LT_OPTIMIZER_##id] = {(text), (arrays)},
    LT_OPTIMIZER_MAP(ROW)
#undef ROW
};

int lt_optimizer_create(struct lt_optimizer *optimizer, const struct lt_optimizer_config *config,
                        const struct lt_parameters *parameters, struct tacho_error *err)
{
    *optimizer = (struct lt_optimizer){.config = *config, .count = parameters->count};
    for (int i = 0; i < kinds[config->kind].states; i++) {
        struct lt_tensor whole = {.name = kinds[config->kind].name,
                                  .count = parameters->count,
                                  .slot = &optimizer->state[i]};
        if (lt_arena_create(&optimizer->arena[i], LT_MEMORY_OPTIMIZER, &whole, 1)) {
            lt_optimizer_destroy(optimizer);
            return tacho_fail(err, TACHO_ENOMEM,
                              "choose a smaller model, or --optimizer sgd, which keeps no state",
                              "not enough memory for the state of %s", kinds[config->kind].name);
        }
    }
    return 0;
}

void lt_optimizer_destroy(struct lt_optimizer *optimizer)
{
    for (int i = 0; i < LT_OPTIMIZER_STATES; i++)
        lt_arena_destroy(&optimizer->arena[i]);
    *optimizer = (struct lt_optimizer){0};
}

/* AdamW's correction terms depend on the number of the update, which begins at 1. */
static void adamw(struct lt_optimizer *optimizer, const struct lt_context *context,
                  const struct lt_parameters *parameters, int64_t made, double rate,
                  double grad_scale)
{
    const struct lt_optimizer_config *config = &optimizer->config;
    lt_op(context, LT_OP_ADAMW,
          &(union lt_args){
              .adamw = {.param = parameters->value,
                        .m = optimizer->state[0],
                        .v = optimizer->state[1],
                        .shadow = parameters->shadow,
                        .grad = parameters->grad,
                        .count = (int64_t)parameters->count,
                        .decayed = (int64_t)parameters->decayed,
                        .lr = (float)rate,
                        .beta1 = (float)config->beta1,
                        .beta2 = (float)config->beta2,
                        .eps = (float)config->eps,
                        .weight_decay = (float)config->weight_decay,
                        .correction1 = (float)(1 - pow(config->beta1, (double)(made + 1))),
                        .correction2 = (float)(1 - pow(config->beta2, (double)(made + 1))),
                        .grad_scale = (float)grad_scale}});
}

static void momentum(struct lt_optimizer *optimizer, const struct lt_context *context,
                     const struct lt_parameters *parameters, double rate, double grad_scale)
{
    lt_op(context, LT_OP_MOMENTUM,
          &(union lt_args){.momentum = {.param = parameters->value,
                                        .velocity = optimizer->state[0],
                                        .shadow = parameters->shadow,
                                        .grad = parameters->grad,
                                        .count = (int64_t)parameters->count,
                                        .decayed = (int64_t)parameters->decayed,
                                        .lr = (float)rate,
                                        .momentum = (float)optimizer->config.momentum,
                                        .weight_decay = (float)optimizer->config.weight_decay,
                                        .grad_scale = (float)grad_scale}});
}

static void sgd(struct lt_optimizer *optimizer, const struct lt_context *context,
                const struct lt_parameters *parameters, double rate, double grad_scale)
{
    lt_op(context, LT_OP_SGD,
          &(union lt_args){.sgd = {.param = parameters->value,
                                   .shadow = parameters->shadow,
                                   .grad = parameters->grad,
                                   .count = (int64_t)parameters->count,
                                   .decayed = (int64_t)parameters->decayed,
                                   .lr = (float)rate,
                                   .weight_decay = (float)optimizer->config.weight_decay,
                                   .grad_scale = (float)grad_scale}});
}

void lt_optimizer_update(struct lt_optimizer *optimizer, const struct lt_context *context,
                         const struct lt_parameters *parameters, int64_t made, double rate,
                         double grad_scale)
{
    switch (optimizer->config.kind) {
    case LT_OPTIMIZER_ADAMW:
        adamw(optimizer, context, parameters, made, rate, grad_scale);
        break;
    case LT_OPTIMIZER_MOMENTUM:
        momentum(optimizer, context, parameters, rate, grad_scale);
        break;
    case LT_OPTIMIZER_SGD:
    case LT_OPTIMIZER_COUNT:
        sgd(optimizer, context, parameters, rate, grad_scale);
        break;
    }
}

int lt_optimizer_states(enum lt_optimizer_kind kind)
{
    return kinds[kind].states;
}

int lt_optimizer_find(const char *name)
{
    for (int i = 0; i < LT_OPTIMIZER_COUNT; i++)
        if (strcmp(name, kinds[i].name) == 0)
            return i;
    return -1;
}

const char *lt_optimizer_name(enum lt_optimizer_kind kind)
{
    return kinds[kind].name;
}
