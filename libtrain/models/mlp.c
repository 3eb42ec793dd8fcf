/* SPDX-License-Identifier: Apache-2.0
 *
 * The multilayer perceptron: its tensors, forward and backward, and the closed forms of its FLOPs
 * and bytes. Layers differ in shape alone, so both directions are one loop over them. Symbols: f
 * features, w hidden width, l hidden layers, k classes, b images.
 */
#include "libtrain/models/mlp.h"

#include <math.h>
#include <stdlib.h>

#include "libtrain/base/arena.h"
#include "libtrain/ops/random.h"

/* Parameters: tensor, how many matrices of how many rows and columns, role for optimizers. f
 * features, w hidden width, l hidden layers, k classes. Tensors with weight decay come first. */
#define WEIGHTS(X) \
    X(first, 1, w, f, HIDDEN) \
    X(middle, l - 1, w, w, HIDDEN) \
    X(last, 1, k, w, OUTER)
#define BIASES(X) \
    X(hidden_bias, l, 1, w, VECTOR) \
    X(last_bias, 1, 1, k, VECTOR)

/* Activations of b images. linear: before, active: after the GELU of each hidden layer; above,
 * below: gradients that change places from layer to layer. */
#define ACTIVATIONS(X) \
    X(linear, l *b *w) \
    X(active, l *b *w) \
    X(logits, b *k) \
    X(losses, b) \
    X(above, b *w) \
    X(below, b *w)

struct parameters {
#define FIELD(name, ...) float *name;
    WEIGHTS(FIELD) BIASES(FIELD)
#undef FIELD
};

struct activations {
#define FIELD(name, count) float *name;
    ACTIVATIONS(FIELD)
#undef FIELD
};

struct mlp {
    struct lt_model model; /* first: a struct lt_model * is a struct mlp * */
    struct lt_mlp_config config;
    struct lt_arena value_arena, grad_arena, activation_arena;
    struct parameters value, grad;
    struct activations act;
};

/* Layers are numbered from 0; number `layers` leads to the classes. */
static float *layer_weight(const struct mlp *model, const struct parameters *parameters, int64_t i)
{
    int64_t w = model->config.hidden;
    if (i == 0)
        return parameters->first;
    return i < model->config.layers ? parameters->middle + (i - 1) * w * w : parameters->last;
}

static float *layer_bias(const struct mlp *model, const struct parameters *parameters, int64_t i)
{
    return i < model->config.layers ? parameters->hidden_bias + i * model->config.hidden
                                    : parameters->last_bias;
}

/* What both directions of layer i share: shapes, weights, input. */
static struct lt_matmul layer_args(const struct mlp *model, int64_t i, const float *features)
{
    const struct lt_mlp_config *config = &model->config;
    int64_t b = model->model.b;
    struct lt_matmul args = {.in = features,
                             .weight = layer_weight(model, &model->value, i),
                             .bias = layer_bias(model, &model->value, i),
                             .rows = b,
                             .n = i < config->layers ? config->hidden : config->classes,
                             .k = config->features};
    if (i > 0) {
        args.in = model->act.active + (i - 1) * b * config->hidden;
        args.k = config->hidden;
    }
    return args;
}

/* The caller's context with the type that the model's memory was made for. */
static struct lt_context own_context(const struct lt_context *context)
{
    struct lt_context own = *context;
    own.dtype = LT_DTYPE_FP32;
    return own;
}

/* Linear layer and GELU for each hidden layer, then the classes. Keeps both sides of each GELU
 * for backward. Returns the mean loss. */
static double mlp_forward(struct lt_model *model, const struct lt_context *context,
                          const struct lt_batch *batch, int parts)
{
    struct mlp *mlp = (struct mlp *)model;
    struct lt_context own = own_context(context), *x = &own;
    const struct activations *activations = &mlp->act;
    int64_t b = model->b, width = b * mlp->config.hidden, layers = mlp->config.layers;
    for (int64_t i = 0; i <= layers; i++) {
        struct lt_matmul args = layer_args(mlp, i, batch->features);
        own.layer = (int)i + 1;
        args.out = i < layers ? activations->linear + i * width : activations->logits;
        lt_op(x, LT_OP_MATMUL_FORWARD, &(union lt_args){.matmul_forward = args});
        if (i < layers)
            lt_op(x, LT_OP_GELU_FORWARD,
                  &(union lt_args){.gelu_forward = {.out = activations->active + i * width,
                                                    .in = activations->linear + i * width,
                                                    .count = width}});
    }
    lt_op(x, LT_OP_CLASSIFIER,
          &(union lt_args){.classifier = {.logits = activations->logits,
                                          .losses = activations->losses,
                                          .targets = batch->targets,
                                          .rows = b,
                                          .v = mlp->config.classes,
                                          .scale = 1.0f / (float)(b * parts),
                                          .backward = !x->evaluation}});
    return lt_mean_loss(activations->losses, b);
}

/* From the last layer to the first. Two buffers of gradients change places from layer to layer;
 * the GELU's backward works in place. */
static void mlp_backward(struct lt_model *model, const struct lt_context *context,
                         const struct lt_batch *batch, int first)
{
    struct mlp *mlp = (struct mlp *)model;
    struct lt_context own = own_context(context), *x = &own;
    const struct activations *activations = &mlp->act;
    int64_t width = model->b * mlp->config.hidden, layers = mlp->config.layers;
    float *dout = activations->logits, *din = activations->below, *spare = activations->above;
    for (int64_t i = layers; i >= 0; i--) {
        struct lt_matmul args = layer_args(mlp, i, batch->features);
        own.layer = (int)i + 1;
        args.dout = dout;
        args.din = i > 0 ? din : NULL;
        args.dweight = layer_weight(mlp, &mlp->grad, i);
        args.dbias = layer_bias(mlp, &mlp->grad, i);
        args.accumulate = !first;
        lt_op(x, LT_OP_MATMUL_BACKWARD, &(union lt_args){.matmul_backward = args});
        lt_model_ready(model, x, args.dweight, (size_t)(args.n * args.k));
        lt_model_ready(model, x, args.dbias, (size_t)args.n);
        if (i == 0)
            break;
        lt_op(x, LT_OP_GELU_BACKWARD,
              &(union lt_args){.gelu_backward = {.in = activations->linear + (i - 1) * width,
                                                 .dout = din,
                                                 .din = din,
                                                 .count = width}});
        dout = din;
        din = spare;
        spare = dout;
    }
}

static int64_t largest_of(const float *logits, int64_t classes)
{
    int64_t best = 0;
    for (int64_t j = 1; j < classes; j++)
        if (logits[j] > logits[best])
            best = j;
    return best;
}

/* Images whose largest logit is that of their label. */
static int64_t mlp_correct(const struct lt_model *model, const struct lt_batch *batch)
{
    const struct mlp *mlp = (const struct mlp *)model;
    int64_t classes = mlp->config.classes, correct = 0;
    for (int64_t i = 0; i < model->b; i++)
        correct += largest_of(mlp->act.logits + i * classes, classes) == batch->targets[i];
    return correct;
}

/* ---- making one ---------------------------------------------------------------------------------------------------------- */

static void mlp_destroy(struct lt_model *model)
{
    struct mlp *mlp = (struct mlp *)model;
    lt_arena_destroy(&mlp->value_arena);
    lt_arena_destroy(&mlp->grad_arena);
    lt_arena_destroy(&mlp->activation_arena);
    free(mlp);
}

static const struct lt_model_ops mlp_ops = {.name = "mlp",
                                            .forward = mlp_forward,
                                            .backward = mlp_backward,
                                            .correct = mlp_correct,
                                            .destroy = mlp_destroy};

static int check(const struct lt_mlp_config *config, int64_t b, struct tacho_error *err)
{
    const int64_t most = 1 << 20;
    if (config->features < 1 || config->hidden < 1 || config->layers < 1 || config->classes < 1 ||
        b < 1 || config->features > 1 << 24 || config->hidden > most || config->layers > 4096 ||
        config->classes > 1 << 24 || b > most)
        return tacho_fail(
            err, TACHO_EUSAGE,
            "features, hidden, layers, classes and batch must be positive and of a sane size",
            "mlp: impossible shape");
    return 0;
}

/* One arena with the layout of the parameters. */
static int parameter_arena(const struct mlp *model, struct lt_arena *arena, enum lt_memory_tag tag,
                           struct parameters *at)
{
    size_t f = (size_t)model->config.features, w = (size_t)model->config.hidden,
           l = (size_t)model->config.layers, k = (size_t)model->config.classes;
    const struct lt_tensor table[] = {
#define ROW(n, repeat, rows, columns, role) \
    {.name = #n, .count = (repeat) * (rows) * (columns), .slot = &at->n},
        WEIGHTS(ROW) BIASES(ROW)
#undef ROW
    };
    return lt_arena_create(arena, tag, table, sizeof table / sizeof *table);
}

static int activation_arena(struct mlp *model)
{
    size_t b = (size_t)model->model.b, w = (size_t)model->config.hidden,
           l = (size_t)model->config.layers, k = (size_t)model->config.classes;
    const struct lt_tensor table[] = {
#define ROW(n, size) {.name = #n, .count = (size), .slot = &model->act.n},
        ACTIVATIONS(ROW)
#undef ROW
    };
    return lt_arena_create(&model->activation_arena, LT_MEMORY_ACTIVATIONS, table,
                           sizeof table / sizeof *table);
}

void lt_mlp_parameters(const struct lt_mlp_config *config, struct lt_parameters *out)
{
    int64_t f = config->features, w = config->hidden, l = config->layers, k = config->classes;
    *out = (struct lt_parameters){.matrix = (uint64_t)(w * f + (l - 1) * w * w + k * w)};
#define ADD(name, repeat_, rows_, columns_, role_) \
    lt_parameters_add(out, \
                      (struct lt_weight){.repeat = (repeat_), \
                                         .rows = (rows_), \
                                         .columns = (columns_), \
                                         .role = LT_WEIGHT_##role_}, \
                      LT_WEIGHT_##role_ != LT_WEIGHT_VECTOR);
    WEIGHTS(ADD)
    BIASES(ADD)
#undef ADD
}

/* What training, optimizer and checkpoints need to know of the model. */
static void describe(struct mlp *model)
{
    const struct lt_mlp_config *config = &model->config;
    struct lt_parameters *parameters = &model->model.parameters;
    lt_mlp_parameters(config, parameters);
    parameters->value = model->value_arena.base;
    parameters->grad = model->grad_arena.base;
    int64_t shape[LT_SHAPE_CAP] = {config->features, config->hidden, config->layers,
                                   config->classes};
    for (int i = 0; i < LT_SHAPE_CAP; i++)
        model->model.shape[i] = shape[i];
}

static void initialise(struct mlp *model, uint64_t seed)
{
    for (int64_t i = 0; i <= model->config.layers; i++) {
        struct lt_matmul args = layer_args(model, i, NULL);
        lt_random_fill(layer_weight(model, &model->value, i), args.n * args.k,
                       sqrtf(2.0f / (float)args.k), lt_random_bits(seed, (uint64_t)i));
    }
}

int lt_mlp_create(struct lt_model **out, const struct lt_mlp_config *config, int64_t b,
                  uint64_t seed, struct tacho_error *err)
{
    int rc = check(config, b, err);
    if (rc)
        return rc;
    struct mlp *model = calloc(1, sizeof *model);
    if (!model)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "mlp: out of memory");
    model->model = (struct lt_model){.ops = &mlp_ops, .b = b, .vocab = config->classes};
    model->config = *config;
    rc = parameter_arena(model, &model->value_arena, LT_MEMORY_PARAMETERS, &model->value);
    rc = rc ? rc : parameter_arena(model, &model->grad_arena, LT_MEMORY_GRADIENTS, &model->grad);
    rc = rc ? rc : activation_arena(model);
    if (rc) {
        mlp_destroy(&model->model);
        return tacho_fail(err, rc, "choose a smaller --hidden, --layers or --batch",
                          "mlp: not enough memory");
    }
    describe(model);
    initialise(model, seed);
    *out = &model->model;
    return 0;
}

/* ---- closed forms --------------------------------------------------------------------------------------------------------- */

uint64_t lt_mlp_flops(const struct lt_mlp_config *config, int64_t b, int64_t micro_steps)
{
    uint64_t f = (uint64_t)config->features, w = (uint64_t)config->hidden,
             l = (uint64_t)config->layers, k = (uint64_t)config->classes;
    return (uint64_t)(b * micro_steps) * (4 * f * w + 6 * (l - 1) * w * w + 6 * w * k);
}

void lt_mlp_memory(const struct lt_mlp_config *config, int64_t b, struct lt_memory_plan *out)
{
    uint64_t f = (uint64_t)config->features, w = (uint64_t)config->hidden,
             l = (uint64_t)config->layers, k = (uint64_t)config->classes, n = (uint64_t)b;
    uint64_t parameters = w * f + (l - 1) * w * w + k * w + l * w + k;
    *out = (struct lt_memory_plan){0};
    out->tag[LT_MEMORY_PARAMETERS] = out->tag[LT_MEMORY_GRADIENTS] = 4 * parameters;
    out->tag[LT_MEMORY_ACTIVATIONS] = 4 * (n * w * (2 * l + 2) + n * k + n);
}
