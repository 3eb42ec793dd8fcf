/* SPDX-License-Identifier: Apache-2.0
 *
 * The recipe mlp: images into classes. Width and classes come from the data, MNIST's files or
 * digits like them.
 */
#include "libtrain/models/mlp.h"

#include <stdio.h>
#include <string.h>

#include "workloads/recipe.h"

#define HIDDEN 256
#define LAYERS 2
#define BATCH  64

struct mlp_plan {
    struct lt_mlp_config shape;
    int64_t batch;
    const struct options *options;
};

static int create(void *arg, const struct lt_source *source, const struct lt_context *context,
                  struct lt_model **out, struct tacho_error *err)
{
    struct mlp_plan *p = arg;
    if (context->dtype != LT_DTYPE_FP32)
        return tacho_fail(err, TACHO_ENOTSUP, "give --dtype fp32", "mlp: computes in fp32 only");
    p->shape.features = source->width;
    p->shape.classes = source->classes;
    return lt_mlp_create(out, &p->shape, p->batch, (uint64_t)p->options->seed, err);
}

static void describe(void *arg, const struct lt_model *m)
{
    const struct mlp_plan *p = arg;
    const struct lt_mlp_config *k = &p->shape;
    printf("mlp: %lld features, %lld hidden layers of %lld, %lld classes: %.3f M parameters\n",
           (long long)k->features, (long long)k->layers, (long long)k->hidden,
           (long long)k->classes, 1e-6 * (double)m->parameters.trainable);
    printf("a step: %lld x %lld images, %.4f model GFLOP; ", (long long)p->options->accumulate,
           (long long)m->b, 1e-9 * (double)lt_mlp_flops(k, m->b, p->options->accumulate));
}

static void memory(void *arg, const struct lt_source *source, struct lt_memory_plan *out)
{
    struct mlp_plan *p = arg;
    p->shape.features = source->width;
    p->shape.classes = source->classes;
    lt_mlp_memory(&p->shape, p->batch, out);
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

static int mlp_run(const char *name, const struct options *o, const volatile sig_atomic_t *stop,
                   struct tacho_error *err)
{
    (void)name;
    if (o->channels || o->heads || o->vocab || o->seq)
        return tacho_fail(err, TACHO_EUSAGE, "--hidden, --layers and --batch shape it",
                          "mlp: --channels, --heads, --vocab and --seq are for text");
    if (strcmp(o->recompute, "none") != 0)
        return tacho_fail(err, TACHO_EUSAGE, "leave it out",
                          "mlp: --recompute %s: has no blocks to compute again", o->recompute);
    struct mlp_plan p = {.shape = {.hidden = o->hidden ? o->hidden : HIDDEN,
                                   .layers = o->layers ? o->layers : LAYERS},
                         .batch = o->batch ? o->batch : BATCH,
                         .options = o};
    struct recipe_plan plan = {.options = o,
                               .stop = stop,
                               .batch = p.batch,
                               .create = create,
                               .describe = describe,
                               .memory = memory,
                               .arg = &p};
    return recipe_train(&plan, err);
}

const struct recipe recipe_mlp = {mlp_name, mlp_run};
