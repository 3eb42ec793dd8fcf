/* SPDX-License-Identifier: Apache-2.0
 *
 * The recipe mlp: images into classes. Width and classes come from the data, MNIST's files or
 * digits like them.
 */
#include "libtrain/models/mlp.h"

#include <stdio.h>

#include "workloads/recipe.h"

#define HIDDEN 256
#define LAYERS 2
#define BATCH  64

struct mlp_plan {
    struct lt_mlp_config shape;
    struct lt_net_mode mode;
    int64_t batch;
    const struct options *options;
};

/* The data decides width and classes, so the shape is complete only here. */
static int create(void *arg, const struct lt_source *source, const struct lt_context *context,
                  struct lt_model **out, struct tacho_error *err)
{
    struct mlp_plan *plan = arg;
    if (context->device)
        return tacho_fail(err, TACHO_ENOTSUP, "leave out --device", "mlp: not for a device");
    plan->shape.features = source->width;
    plan->shape.classes = source->classes;
    return lt_mlp_create(out, &plan->shape, plan->mode, plan->batch, (uint64_t)plan->options->seed,
                         err);
}

static void describe(void *arg, const struct lt_model *model)
{
    const struct mlp_plan *plan = arg;
    const struct lt_mlp_config *config = &plan->shape;
    printf("mlp: %lld features, %lld hidden layers of %lld, %lld classes: %.3f M parameters\n",
           (long long)config->features, (long long)config->layers, (long long)config->hidden,
           (long long)config->classes, 1e-6 * (double)model->parameters.trainable);
    printf("a step: %lld x %lld images, %.4f model GFLOP; ", (long long)plan->options->accumulate,
           (long long)model->b,
           1e-9 * (double)lt_mlp_flops(config, plan->mode, model->b, plan->options->accumulate));
}

/* A shape that is not possible is refused by `create`. */
static void memory(void *arg, const struct lt_source *source, struct lt_memory_plan *out,
                   struct lt_parameters *parameters)
{
    struct mlp_plan *plan = arg;
    struct tacho_error err = {0};
    plan->shape.features = source->width;
    plan->shape.classes = source->classes;
    if (lt_mlp_memory(&plan->shape, plan->mode, plan->batch, out, parameters, &err))
        *parameters = (struct lt_parameters){0};
}

static int budget(void *arg, const struct lt_source *source, uint64_t bytes,
                  struct tacho_error *err)
{
    struct mlp_plan *plan = arg;
    struct lt_memory_plan needed;
    struct lt_parameters parameters;
    (void)source;
    plan->mode.budget = bytes;
    return lt_mlp_memory(&plan->shape, plan->mode, plan->batch, &needed, &parameters, err);
}

static int mlp_name(size_t i, const char **name, const char **help, char *defaults, size_t size)
{
    if (i > 0)
        return 0;
    *name = "mlp";
    *help = "classes of small images: MNIST's files (--data FOLDER), or digits drawn here";
    snprintf(defaults, size, "hidden layers %d of %d, batch %d", LAYERS, HIDDEN, BATCH);
    return 1;
}

static int64_t or_default(int64_t given, int64_t standard)
{
    return given ? given : standard;
}

/* Shape and batch from the options that suit images; those of text models are refused. */
static int mlp_run(const char *name, const struct options *options,
                   const volatile sig_atomic_t *stop, struct tacho_error *err)
{
    if (options->channels || options->heads || options->groups || options->vocab || options->seq)
        return tacho_fail(err, TACHO_EUSAGE, "--hidden, --layers and --batch shape it",
                          "mlp: --channels, --heads, --groups, --vocab and --seq are for text");
    struct mlp_plan mlp_plan = {.shape = {.hidden = or_default(options->hidden, HIDDEN),
                                          .layers = or_default(options->layers, LAYERS)},
                                .batch = or_default(options->batch, BATCH),
                                .options = options};
    struct recipe_plan plan = {.options = options,
                               .stop = stop,
                               .batch = mlp_plan.batch,
                               .create = create,
                               .describe = describe,
                               .memory = memory,
                               .budget = budget,
                               .arg = &mlp_plan};
    int rc = recipe_no_experts(name, options, err);
    mlp_plan.mode.frozen = options->freeze;
    mlp_plan.mode.every = options->recompute_every ? options->recompute_every : LT_EVERY_ROOT;
    rc = rc ? rc : recipe_mode(&mlp_plan.mode.dtype, &mlp_plan.mode.recompute, options, err);
    return rc ? rc : recipe_train(&plan, err);
}

const struct recipe recipe_mlp = {mlp_name, mlp_run};
