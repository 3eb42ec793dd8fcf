/* SPDX-License-Identifier: Apache-2.0
 *
 * The recipe of all resnet* names: images into classes. The size of the images and the classes come
 * from the data, MNIST's files or digits like them, or folders of images.
 */
#include "libtrain/models/resnet.h"

#include <stdio.h>
#include <string.h>

#include "workloads/recipe.h"

struct resnet_plan {
    struct lt_resnet_config shape;
    struct lt_net_mode mode;
    const struct options *options;
};

static void take_shape(struct resnet_plan *plan, const struct lt_source *source)
{
    plan->shape.height = source->rows;
    plan->shape.width = source->columns;
    plan->shape.depth = source->channels;
    plan->shape.classes = source->classes;
}

static int create(void *arg, const struct lt_source *source, const struct lt_context *context,
                  struct lt_model **out, struct tacho_error *err)
{
    struct resnet_plan *plan = arg;
    if (context->device)
        return tacho_fail(err, TACHO_ENOTSUP, "leave out --device", "%s: not for a device",
                          plan->shape.name);
    if (!source->rows)
        return tacho_fail(err, TACHO_EFORMAT,
                          "give IDX files of three dimensions, or raw PGM or PPM images",
                          "%s: the data does not say how many rows and columns its images have",
                          plan->shape.name);
    take_shape(plan, source);
    return lt_resnet_create(out, &plan->shape, plan->mode, plan->shape.batch,
                            (uint64_t)plan->options->seed, err);
}

static void describe(void *arg, const struct lt_model *model)
{
    const struct resnet_plan *plan = arg;
    const struct lt_resnet_config *config = &plan->shape;
    struct lt_flops flops =
        lt_resnet_flops(config, plan->mode, model->b, plan->options->accumulate);
    printf("%s: images of %lld x %lld x %lld, from %lld channels on, %lld classes: %.3f M "
           "parameters\n",
           config->name, (long long)config->height, (long long)config->width,
           (long long)config->depth, (long long)config->channels, (long long)config->classes,
           1e-6 * (double)model->parameters.trainable);
    printf("a step: %lld x %lld images, %.4f model GFLOP; ", (long long)plan->options->accumulate,
           (long long)model->b, 1e-9 * (double)flops.model);
}

/* A shape that is not possible is refused by `create`. */
static void memory(void *arg, const struct lt_source *source, struct lt_memory_plan *out,
                   struct lt_parameters *parameters)
{
    struct resnet_plan *plan = arg;
    struct tacho_error err = {0};
    take_shape(plan, source);
    if (lt_resnet_memory(&plan->shape, plan->mode, plan->shape.batch, out, parameters, &err))
        *parameters = (struct lt_parameters){0};
}

static int budget(void *arg, const struct lt_source *source, uint64_t bytes,
                  struct tacho_error *err)
{
    struct resnet_plan *plan = arg;
    struct lt_memory_plan needed;
    struct lt_parameters parameters;
    take_shape(plan, source);
    plan->mode.budget = bytes;
    return lt_resnet_memory(&plan->shape, plan->mode, plan->shape.batch, &needed, &parameters, err);
}

static int resnet_name(size_t i, const char **name, const char **help, char *defaults, size_t size)
{
    const struct lt_resnet_config *config = &lt_resnet_configs[i];
    if (!config->name)
        return 0;
    *name = config->name;
    *help = config->help;
    snprintf(defaults, size, "channels %lld, batch %lld", (long long)config->channels,
             (long long)config->batch);
    return 1;
}

/* Width and batch from the options; those of text models are refused. */
static int resnet_run(const char *name, const struct options *options,
                      const volatile sig_atomic_t *stop, struct tacho_error *err)
{
    const struct lt_resnet_config *row = lt_resnet_configs;
    while (strcmp(row->name, name) != 0)
        row++;
    if (options->heads || options->groups || options->vocab || options->seq || options->hidden ||
        options->layers)
        return tacho_fail(err, TACHO_EUSAGE, "--channels and --batch shape it",
                          "%s: --layers, --hidden, --heads, --groups, --vocab and --seq are for "
                          "other models",
                          name);
    if (options->zero)
        return tacho_fail(err, TACHO_ENOTSUP, "leave it out",
                          "%s: --zero does not share running statistics", name);
    struct resnet_plan resnet = {.shape = *row, .options = options};
    if (options->channels)
        resnet.shape.channels = options->channels;
    if (options->batch)
        resnet.shape.batch = options->batch;
    struct recipe_plan plan = {.options = options,
                               .stop = stop,
                               .batch = resnet.shape.batch,
                               .create = create,
                               .describe = describe,
                               .memory = memory,
                               .budget = budget,
                               .arg = &resnet};
    int rc = recipe_no_experts(name, options, err);
    resnet.mode.frozen = options->freeze;
    resnet.mode.every = options->recompute_every ? options->recompute_every : LT_EVERY_ROOT;
    rc = rc ? rc : recipe_mode(&resnet.mode.dtype, &resnet.mode.recompute, options, err);
    return rc ? rc : recipe_train(&plan, err);
}

const struct recipe recipe_resnet = {resnet_name, resnet_run};
