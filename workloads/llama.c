/* SPDX-License-Identifier: Apache-2.0
 *
 * The recipe of all llama-* and moe-* names: the shape comes from the named size and from the
 * options.
 */
#include "libtrain/models/llama.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "libtrain/parallel/parts.h"
#include "libtrain/parallel/pipeline.h"
#include "workloads/recipe.h"

/* The named size with what the options override. */
static struct lt_llama_config shape(const char *name, const struct options *options)
{
    const struct lt_llama_config *row = lt_llama_configs;
    while (strcmp(row->name, name) != 0)
        row++;
    struct lt_llama_config config = *row;
    const struct {
        int64_t *value, given;
    } given[] = {{&config.layers, options->layers},   {&config.channels, options->channels},
                 {&config.heads, options->heads},     {&config.groups, options->groups},
                 {&config.hidden, options->hidden},   {&config.vocab, options->vocab},
                 {&config.seq, options->seq},         {&config.batch, options->batch},
                 {&config.experts, options->experts}, {&config.choices, options->choices}};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        if (given[i].given)
            *given[i].value = given[i].given;
    config.capacity = isnan(options->capacity) ? config.capacity : options->capacity;
    config.balance = isnan(options->balance) ? config.balance : options->balance;
    return config;
}

struct llama_plan {
    struct lt_llama_config shape;
    struct lt_net_mode mode;
    const struct options *options;
};

static int create(void *arg, const struct lt_source *source, const struct lt_context *context,
                  struct lt_model **out, struct tacho_error *err)
{
    const struct llama_plan *plan = arg;
    (void)source;
    if (context->device)
        return tacho_fail(err, TACHO_ENOTSUP, "leave out --device", "%s: not for a device",
                          plan->shape.name);
    return lt_llama_create(out, &plan->shape, plan->mode, plan->shape.batch, plan->shape.seq,
                           (uint64_t)plan->options->seed, err);
}

static void describe(void *arg, const struct lt_model *model)
{
    const struct llama_plan *plan = arg;
    const struct lt_llama_config *config = &plan->shape;
    struct lt_flops flops = lt_llama_flops(config, LT_BACKEND_CPU, plan->mode, model->b, model->t,
                                           plan->options->accumulate);
    printf("%s: %lld layers, %lld channels, %lld heads in %lld groups, %lld hidden, vocabulary "
           "%lld: %.2f M parameters\n",
           config->name, (long long)config->layers, (long long)config->channels,
           (long long)config->heads, (long long)config->groups, (long long)config->hidden,
           (long long)config->vocab, 1e-6 * (double)model->parameters.trainable);
    if (config->experts)
        printf("each layer: %lld experts, %lld a token, room for %lld rows each; balance %g\n",
               (long long)config->experts, (long long)config->choices,
               (long long)lt_llama_capacity(config, model->b * model->t), config->balance);
    printf("a step: %lld x %lld x %lld tokens, %.3f model GFLOP; ",
           (long long)plan->options->accumulate, (long long)model->b, (long long)model->t,
           1e-9 * (double)flops.model);
}

/* Bytes of the rows that a rank has for all experts. */
static size_t rows_of(const struct llama_plan *plan)
{
    const struct lt_llama_config *config = &plan->shape;
    int64_t places = lt_llama_capacity(config, config->batch * config->seq) * config->experts;
    return (size_t)(places * config->channels) * lt_dtype_bytes(plan->mode.dtype);
}

/* What a stage needs beside the model: batches of a step, what is on its way. */
static size_t stage_buffers(const struct llama_plan *plan)
{
    const struct lt_llama_config *config = &plan->shape;
    int64_t tokens = config->batch * config->seq;
    size_t boundary = (size_t)(tokens * config->channels) * lt_dtype_bytes(plan->mode.dtype);
    if (config->ranks.sequence)
        boundary /= (size_t)config->ranks.ranks;
    return lt_pipeline_bytes(boundary, config->in_flight, 0, (int)plan->options->accumulate,
                             tokens);
}

/* The shape has been found possible before. */
static void memory(void *arg, const struct lt_source *source, struct lt_memory_plan *out,
                   struct lt_parameters *parameters)
{
    const struct llama_plan *plan = arg;
    struct tacho_error err = {0};
    (void)source;
    if (lt_llama_memory(&plan->shape, plan->mode, plan->shape.batch, plan->shape.seq, out,
                        parameters, &err))
        *parameters = (struct lt_parameters){0};
    if (plan->shape.ranks.ranks > 1)
        out->tag[LT_MEMORY_WORKSPACE] += lt_parts_bytes(
            plan->shape.ranks.ranks, lt_llama_summed_bytes(&plan->shape, plan->mode.dtype,
                                                           plan->shape.batch * plan->shape.seq));
    if (plan->shape.parts > 1)
        out->tag[LT_MEMORY_WORKSPACE] += lt_parts_spread_bytes(plan->shape.parts, rows_of(plan));
    if (lt_llama_own(&plan->shape) < plan->shape.layers)
        out->tag[LT_MEMORY_WORKSPACE] += stage_buffers(plan);
}

/* The blocks, the part of each layer and the experts that a rank of this layout has. */
static int divide(void *arg, const struct lt_layout *layout, const struct lt_staging *staging,
                  int in_flight, struct tacho_error *err)
{
    struct llama_plan *plan = arg;
    struct lt_memory_plan needed;
    struct lt_parameters parameters;
    if (layout->cp > 1)
        return tacho_fail(err, TACHO_EUSAGE, "use dp, tp, pp and ep, or a gpt2 model",
                          "%s: its sequences cannot be divided", plan->shape.name);
    if (layout->ep > 1 && !plan->shape.experts)
        return tacho_fail(err, TACHO_EUSAGE, "choose a moe model, or give --experts",
                          "%s: has no experts to divide", plan->shape.name);
    if (layout->pp > 1 &&
        (staging->kind == LT_STAGES_INTERLEAVED || staging->kind == LT_STAGES_ZB_H1))
        return tacho_fail(err, TACHO_ENOTSUP, "use --pipeline 1f1b or gpipe, or a gpt2 model",
                          "--pipeline %s: %s has neither chunks nor weights passes",
                          lt_stages_name(staging->kind), plan->shape.name);
    if (plan->shape.layers < layout->pp)
        return tacho_fail(err, TACHO_EUSAGE, "use fewer stages, or --layers",
                          "%s: %lld layers do not make %d stages", plan->shape.name,
                          (long long)plan->shape.layers, layout->pp);
    if (layout->tp > 1)
        plan->shape.ranks = (struct lt_net_ranks){
            .rank = layout->part, .ranks = layout->tp, .sequence = plan->options->sequence};
    if (layout->ep > 1) {
        plan->shape.part = layout->expert;
        plan->shape.parts = layout->ep;
    }
    if (layout->pp > 1) {
        struct lt_layout_blocks own = lt_layout_blocks(layout, layout->stage, plan->shape.layers);
        plan->shape.first = own.first;
        plan->shape.own = own.count;
        plan->shape.in_flight = in_flight;
    }
    return lt_llama_memory(&plan->shape, plan->mode, plan->shape.batch, plan->shape.seq, &needed,
                           &parameters, err);
}

static int budget(void *arg, const struct lt_source *source, uint64_t bytes,
                  struct tacho_error *err)
{
    struct llama_plan *plan = arg;
    struct lt_memory_plan needed;
    struct lt_parameters parameters;
    (void)source;
    plan->mode.budget = bytes / (uint64_t)(plan->shape.own ? plan->shape.in_flight : 1);
    return lt_llama_memory(&plan->shape, plan->mode, plan->shape.batch, plan->shape.seq, &needed,
                           &parameters, err);
}

static int llama_name(size_t i, const char **name, const char **help, char *defaults, size_t size)
{
    const struct lt_llama_config *config = &lt_llama_configs[i];
    if (!config->name)
        return 0;
    *name = config->name;
    *help = config->help;
    snprintf(defaults, size, "hidden %lld, vocab %lld, seq %lld, batch %lld",
             (long long)config->hidden, (long long)config->vocab, (long long)config->seq,
             (long long)config->batch);
    return 1;
}

static int llama_run(const char *name, const struct options *options,
                     const volatile sig_atomic_t *stop, struct tacho_error *err)
{
    struct lt_memory_plan needed;
    struct lt_parameters parameters;
    struct llama_plan llama = {.shape = shape(name, options), .options = options};
    struct recipe_plan plan = {.options = options,
                               .stop = stop,
                               .seq = llama.shape.seq,
                               .vocab = llama.shape.vocab,
                               .batch = llama.shape.batch,
                               .create = create,
                               .describe = describe,
                               .memory = memory,
                               .divide = divide,
                               .budget = budget,
                               .arg = &llama};
    if (!llama.shape.experts &&
        (options->choices || !isnan(options->capacity) || !isnan(options->balance)))
        return tacho_fail(err, TACHO_EUSAGE, "give --experts too, or choose a moe model",
                          "%s: has no experts", name);
    if (llama.shape.experts && !llama.shape.choices)
        llama.shape.choices = llama.shape.experts < 2 ? 1 : 2;
    llama.mode.frozen = options->freeze;
    llama.mode.every = options->recompute_every ? options->recompute_every : LT_EVERY_ROOT;
    int rc = recipe_mode(&llama.mode.dtype, &llama.mode.recompute, options, err);
    if (rc == 0)
        rc = lt_llama_memory(&llama.shape, llama.mode, llama.shape.batch, llama.shape.seq, &needed,
                             &parameters, err);
    return rc ? rc : recipe_train(&plan, err);
}

const struct recipe recipe_llama = {llama_name, llama_run};
