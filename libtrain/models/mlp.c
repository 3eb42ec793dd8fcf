/* SPDX-License-Identifier: Apache-2.0
 *
 * The multilayer perceptron as a list of operations. Symbols: f features, w hidden width, l hidden
 * layers, k classes, b images.
 */
#include "libtrain/models/mlp.h"

#include <math.h>

#define OPERATIONS 2 /* of a hidden layer; besides them there are three */

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

/* A matrix a layer, the first and the last of shapes of their own, and the vectors of their biases.
 */
struct tensors {
    int first, middle, last, hidden_bias, last_bias;
};

/* Tensors with weight decay come first; a layer counts from 1. */
static struct tensors add_tensors(struct lt_net *net, const struct lt_mlp_config *config)
{
    int64_t f = config->features, w = config->hidden, l = config->layers, k = config->classes;
    struct tensors at = {0};
    const struct {
        int *number;
        int64_t repeat, rows, columns;
        enum lt_weight_role role;
        int layer;
    } rows[] = {{&at.first, 1, w, f, LT_WEIGHT_HIDDEN, 1},
                {&at.middle, l - 1, w, w, LT_WEIGHT_HIDDEN, 2},
                {&at.last, 1, k, w, LT_WEIGHT_OUTER, 0},
                {&at.hidden_bias, l, 1, w, LT_WEIGHT_VECTOR, 1},
                {&at.last_bias, 1, 1, k, LT_WEIGHT_VECTOR, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct lt_net_tensor tensor = {.repeat = rows[i].repeat,
                                       .rows = rows[i].rows,
                                       .columns = rows[i].columns,
                                       .role = rows[i].role,
                                       .layer = rows[i].layer};
        if (tensor.role != LT_WEIGHT_VECTOR)
            tensor.deviation = sqrtf(2.0f / (float)tensor.columns);
        if (tensor.repeat)
            *rows[i].number = lt_net_parameter(net, tensor);
    }
    return at;
}

/* The whole list, placed but without memory. */
static int build(struct lt_net **out, const struct lt_mlp_config *config, struct lt_net_mode mode,
                 int64_t b, struct tacho_error *err)
{
    int rc = check(config, b, err);
    if (rc)
        return rc;
    struct lt_net *net =
        lt_net_create("mlp", mode, b, 0, config->classes, (int)config->layers * OPERATIONS + 3);
    if (!net)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "mlp: out of memory");
    struct tensors at = add_tensors(net, config);
    lt_net_all_linear(net);
    lt_net_keep_every(net, config->layers);
    int value = lt_net_image(net, 1, 1, config->features).value;
    for (int64_t i = 0; i < config->layers; i++) {
        lt_net_begin_block(net);
        value =
            lt_net_linear(net, value, i ? at.middle : at.first, i ? i - 1 : 0, at.hidden_bias, i);
        value = lt_net_gelu(net, value);
        lt_net_end_block(net, value);
    }
    lt_net_classifier(net, lt_net_linear(net, value, at.last, 0, at.last_bias, 0));
    return lt_net_finish(net, "mlp", out, err);
}

int lt_mlp_memory(const struct lt_mlp_config *config, struct lt_net_mode mode, int64_t b,
                  struct lt_memory_plan *out, struct lt_parameters *parameters,
                  struct tacho_error *err)
{
    struct lt_net *net = NULL;
    int rc = build(&net, config, mode, b, err);
    if (rc == 0)
        lt_net_measure(net, out, parameters);
    return rc;
}

int lt_mlp_create(struct lt_model **out, const struct lt_mlp_config *config,
                  struct lt_net_mode mode, int64_t b, uint64_t seed, struct tacho_error *err)
{
    const int64_t shape[LT_SHAPE_CAP] = {config->features, config->hidden, config->layers,
                                         config->classes};
    struct lt_net *net = NULL;
    int rc = build(&net, config, mode, b, err);
    if (rc)
        return rc;
    rc = lt_net_allocate(net, seed, shape);
    if (rc) {
        lt_net_destroy(net);
        return tacho_fail(err, rc, "choose a smaller --hidden, --layers or --batch",
                          "mlp: not enough memory");
    }
    *out = lt_net_model(net);
    return 0;
}

uint64_t lt_mlp_flops(const struct lt_mlp_config *config, struct lt_net_mode mode, int64_t b,
                      int64_t micro_steps)
{
    uint64_t f = (uint64_t)config->features, w = (uint64_t)config->hidden,
             l = (uint64_t)config->layers, k = (uint64_t)config->classes;
    uint64_t frozen = (uint64_t)mode.frozen, first = frozen ? 2 : 4;
    uint64_t hidden = 6 * (l - 1) - (frozen ? 4 * (frozen - 1) : 0);
    return (uint64_t)(b * micro_steps) * (first * f * w + hidden * w * w + 6 * w * k);
}
