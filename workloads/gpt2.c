/* SPDX-License-Identifier: Apache-2.0
 *
 * The recipe behind every gpt2-* name: shape from the named size and the options.
 */
#include <stdio.h>
#include <string.h>

#include "libtrain/models/gpt2.h"
#include "workloads/recipe.h"

static void override(int64_t *value, int64_t given)
{
    if (given)
        *value = given;
}

static struct lt_gpt2_config shape(const char *name, const struct options *options)
{
    const struct lt_gpt2_config *row = lt_gpt2_configs;
    while (strcmp(row->name, name) != 0)
        row++;
    struct lt_gpt2_config gpt2_config = *row;
    override(&gpt2_config.layers, options->layers);
    override(&gpt2_config.channels, options->channels);
    override(&gpt2_config.heads, options->heads);
    override(&gpt2_config.vocab, options->vocab);
    override(&gpt2_config.seq, options->seq);
    override(&gpt2_config.batch, options->batch);
    return gpt2_config;
}

struct gpt2_plan {
    struct lt_gpt2_config shape;
    struct lt_gpt2_mode mode;
    const struct options *options;
};

static int mode_of(struct lt_gpt2_mode *mode, const struct options *options,
                   struct tacho_error *err)
{
    static const char *const names[LT_RECOMPUTE_COUNT] = {
#define ROW(id, name) [LT_RECOMPUTE_##id] = (name),
        LT_RECOMPUTE_MAP(ROW)
#undef ROW
    };
    int dtype = lt_dtype_find(options->dtype);
    mode->dtype = dtype < 0 ? LT_DTYPE_FP32
                            : (enum lt_dtype)dtype; /* what is no dtype has been refused before */
    for (int i = 0; i < LT_RECOMPUTE_COUNT; i++)
        if (strcmp(options->recompute, names[i]) == 0) {
            mode->recompute = (enum lt_recompute)i;
            return 0;
        }
    return tacho_fail(err, TACHO_EUSAGE, "none or block", "--recompute %s: unknown",
                      options->recompute);
}

static int create(void *arg, const struct lt_source *source, const struct lt_context *context,
                  struct lt_model **out, struct tacho_error *err)
{
    (void)source;
    const struct gpt2_plan *gpt2_plan = arg;
    (void)context;
    return lt_gpt2_create(out, &gpt2_plan->shape, gpt2_plan->mode, gpt2_plan->shape.batch,
                          gpt2_plan->shape.seq, (uint64_t)gpt2_plan->options->seed, err);
}

static void describe(void *arg, const struct lt_model *model)
{
    const struct gpt2_plan *gpt2_plan = arg;
    const struct lt_gpt2_config *gpt2_config = &gpt2_plan->shape;
    struct lt_gpt2_flops flops = lt_gpt2_flops(gpt2_config, LT_BACKEND_CPU, gpt2_plan->mode,
                                               model->b, model->t, gpt2_plan->options->accumulate);
    printf("%s: %lld layers, %lld channels, %lld heads, %lld words: %.2f M parameters\n",
           gpt2_config->name, (long long)gpt2_config->layers, (long long)gpt2_config->channels,
           (long long)gpt2_config->heads, (long long)gpt2_config->vocab,
           1e-6 * (double)model->parameters.trainable);
    printf("a step: %lld x %lld x %lld tokens, %.3f model GFLOP; ",
           (long long)gpt2_plan->options->accumulate, (long long)model->b, (long long)model->t,
           1e-9 * (double)flops.model);
}

static void memory(void *arg, const struct lt_source *source, struct lt_memory_plan *out)
{
    const struct gpt2_plan *gpt2_plan = arg;
    (void)source;
    lt_gpt2_memory(&gpt2_plan->shape, gpt2_plan->mode, gpt2_plan->shape.batch, gpt2_plan->shape.seq,
                   lt_threads(), out);
}

static int gpt2_name(size_t i, const char **name, const char **help, char *defaults, size_t size)
{
    const struct lt_gpt2_config *gpt2_config = &lt_gpt2_configs[i];
    if (!gpt2_config->name)
        return 0;
    *name = gpt2_config->name;
    *help = gpt2_config->help;
    snprintf(defaults, size, "words %lld, seq %lld, batch %lld", (long long)gpt2_config->vocab,
             (long long)gpt2_config->seq, (long long)gpt2_config->batch);
    return 1;
}

static int gpt2_run(const char *name, const struct options *options,
                    const volatile sig_atomic_t *stop, struct tacho_error *err)
{
    if (options->hidden)
        return tacho_fail(err, TACHO_EUSAGE, "leave it out, or choose --channels",
                          "%s: --hidden is for mlp", name);
    struct gpt2_plan gpt2_plan = {.shape = shape(name, options), .options = options};
    struct recipe_plan plan = {.options = options,
                               .stop = stop,
                               .seq = gpt2_plan.shape.seq,
                               .vocab = gpt2_plan.shape.vocab,
                               .batch = gpt2_plan.shape.batch,
                               .create = create,
                               .describe = describe,
                               .memory = memory,
                               .arg = &gpt2_plan};
    int rc = mode_of(&gpt2_plan.mode, options, err);
    return rc ? rc : recipe_train(&plan, err);
}

const struct recipe recipe_gpt2 = {gpt2_name, gpt2_run};
