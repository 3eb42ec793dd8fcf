/* SPDX-License-Identifier: Apache-2.0
 *
 * The recipe of all gpt2-* names: the shape comes from the named size and from the options.
 */
#include <stdio.h>
#include <string.h>

#include "libtrain/models/gpt2.h"
#include "libtrain/ops/device.h"
#include "libtrain/parallel/parts.h"
#include "libtrain/parallel/pipeline.h"
#include "workloads/recipe.h"

static void override(int64_t *value, int64_t given)
{
    if (given)
        *value = given;
}

/* The named size with what the options override. */
static struct lt_gpt2_config shape(const char *name, const struct options *options)
{
    const struct lt_gpt2_config *row = lt_gpt2_configs;
    while (strcmp(row->name, name) != 0)
        row++;
    struct lt_gpt2_config config = *row;
    override(&config.layers, options->layers);
    override(&config.channels, options->channels);
    override(&config.heads, options->heads);
    override(&config.vocab, options->vocab);
    override(&config.seq, options->seq);
    override(&config.batch, options->batch);
    return config;
}

struct gpt2_plan {
    struct lt_gpt2_config shape;
    struct lt_gpt2_mode mode;
    struct lt_gpt2_stage stage;
    const struct options *options;
};

static int create(void *arg, const struct lt_source *source, const struct lt_context *context,
                  struct lt_model **out, struct tacho_error *err)
{
    (void)source;
    const struct gpt2_plan *plan = arg;
    char why[128];
    union lt_args heads = {
        .attention_forward = {.c = plan->shape.channels, .h = plan->shape.heads}};
    struct lt_gpt2_stage stage = plan->stage;
    if (context->device && !context->device->has(LT_OP_ATTENTION_FORWARD, &heads, why, sizeof why))
        return tacho_fail(err, TACHO_ENOTSUP, "choose --channels and --heads to suit",
                          "%s: on cuda: %s", plan->shape.name, why);
    stage.space = context->device ? &context->device->space : NULL;
    return lt_gpt2_create_stage(out, &plan->shape, plan->mode, &stage, plan->shape.batch,
                                plan->shape.seq / lt_gpt2_contexts(&stage),
                                (uint64_t)plan->options->seed, err);
}

/* Chunks of as many blocks each, those of a stage as far apart as there are stages. */
static int divide_chunks(struct gpt2_plan *plan, const struct lt_layout *layout,
                         const struct lt_staging *staging, struct tacho_error *err)
{
    int64_t all = (int64_t)layout->pp * staging->chunks, each = plan->shape.layers / all;
    if (plan->shape.layers % all)
        return tacho_fail(err, TACHO_EUSAGE, "choose --layers or --chunks so that they do",
                          "%s: %d chunks in each of %d stages do not divide %lld layers",
                          plan->shape.name, staging->chunks, layout->pp,
                          (long long)plan->shape.layers);
    plan->stage.first = layout->stage * each;
    plan->stage.layers = staging->chunks * each;
    plan->stage.chunks = staging->chunks;
    plan->stage.stride = layout->pp * each;
    return 0;
}

/* The part of the model that a rank of this layout has. */
static int divide(void *arg, const struct lt_layout *layout, const struct lt_staging *staging,
                  int in_flight, struct tacho_error *err)
{
    struct gpt2_plan *plan = arg;
    struct lt_layout_blocks blocks = lt_layout_blocks(layout, layout->stage, plan->shape.layers);
    int split = layout->pp > 1 && lt_stages_split(staging->kind);
    if (split && plan->mode.recompute != LT_RECOMPUTE_NONE)
        return tacho_fail(err, TACHO_EUSAGE, "use --pipeline 1f1b, or leave it out",
                          "--pipeline %s: not with --recompute block: its weights pass reads "
                          "activations that would not be kept",
                          lt_stages_name(staging->kind));
    if (layout->ep > 1)
        return tacho_fail(err, TACHO_EUSAGE, "choose a moe model", "%s: has no experts to divide",
                          plan->shape.name);
    if (plan->shape.layers < layout->pp)
        return tacho_fail(err, TACHO_EUSAGE, "use fewer stages, or --layers",
                          "%s: %lld layers do not make %d stages", plan->shape.name,
                          (long long)plan->shape.layers, layout->pp);
    plan->stage = (struct lt_gpt2_stage){.first = blocks.first,
                                         .layers = blocks.count,
                                         .embeds = layout->stage == 0,
                                         .answers = layout->stage == layout->pp - 1,
                                         .in_flight = layout->pp > 1 ? in_flight : 1,
                                         .split = split,
                                         .rank = layout->part,
                                         .ranks = layout->tp,
                                         .context = layout->context,
                                         .contexts = layout->cp,
                                         .ring = layout->attention != LT_CONTEXT_ULYSSES,
                                         .folded = layout->attention == LT_CONTEXT_RING,
                                         .sequence = plan->options->sequence};
    int heads = layout->tp * lt_gpt2_turners(&plan->stage);
    if (plan->shape.heads % heads)
        return tacho_fail(err, TACHO_EUSAGE, "the heads are divided among them",
                          "%s: %d ranks do not divide %lld heads", plan->shape.name, heads,
                          (long long)plan->shape.heads);
    if (plan->shape.seq % layout->cp)
        return tacho_fail(err, TACHO_EUSAGE, "choose --seq so that they do",
                          "%s: %d ranks do not divide sequences of %lld tokens", plan->shape.name,
                          layout->cp, (long long)plan->shape.seq);
    if (plan->stage.folded && layout->cp > 1 && plan->shape.seq % (2 * layout->cp))
        return tacho_fail(err, TACHO_EUSAGE,
                          "choose --seq so that they do, or use --context ring-contiguous, whose "
                          "last rank computes longest",
                          "--context ring: two chunks for each of %d ranks do not divide sequences "
                          "of %lld tokens",
                          layout->cp, (long long)plan->shape.seq);
    int64_t tokens = plan->shape.batch * plan->shape.seq / layout->cp;
    if (plan->stage.sequence && tokens % layout->tp)
        return tacho_fail(err, TACHO_EUSAGE, "choose --batch and --seq so that they do",
                          "--sequence-parallel: %d ranks do not divide %lld tokens", layout->tp,
                          (long long)tokens);
    return staging->chunks > 1 && layout->pp > 1 ? divide_chunks(plan, layout, staging, err) : 0;
}

static void describe(void *arg, const struct lt_model *model)
{
    const struct gpt2_plan *plan = arg;
    const struct lt_gpt2_config *config = &plan->shape;
    struct lt_flops flops = lt_gpt2_flops(config, LT_BACKEND_CPU, plan->mode, model->b, model->t,
                                          plan->options->accumulate);
    printf("%s: %lld layers, %lld channels, %lld heads, vocabulary %lld: %.2f M parameters\n",
           config->name, (long long)config->layers, (long long)config->channels,
           (long long)config->heads, (long long)config->vocab,
           1e-6 * (double)model->parameters.trainable);
    printf("a step: %lld x %lld x %lld tokens, %.3f model GFLOP; ",
           (long long)plan->options->accumulate, (long long)model->b, (long long)model->t,
           1e-9 * (double)flops.model);
}

static size_t boundary_of(const struct gpt2_plan *plan)
{
    const struct lt_gpt2_config *config = &plan->shape;
    return (size_t)(config->batch * config->seq * config->channels) *
           lt_dtype_bytes(plan->mode.dtype) / (size_t)lt_gpt2_contexts(&plan->stage);
}

/* What a stage needs beside the model: batches of a step, the gradient of its output and, in the
 * first one, of the words. */
static size_t stage_buffers(const struct gpt2_plan *plan)
{
    const struct lt_gpt2_config *config = &plan->shape;
    int64_t tokens = config->batch * config->seq / lt_gpt2_contexts(&plan->stage);
    size_t words =
        (size_t)(config->vocab * config->channels) * sizeof(float) / (size_t)plan->stage.ranks;
    return lt_pipeline_bytes(boundary_of(plan) / (size_t)lt_gpt2_row_ranks(&plan->stage),
                             plan->stage.in_flight, plan->stage.embeds ? words : 0,
                             (int)plan->options->accumulate, tokens);
}

static void memory(void *arg, const struct lt_source *source, struct lt_memory_plan *out,
                   struct lt_parameters *parameters)
{
    const struct gpt2_plan *plan = arg;
    struct lt_gpt2_config config = plan->shape;
    (void)source;
    if (config.positions < config.seq)
        config.positions = config.seq;
    /* a device has scratch of its own, beside what is counted here */
    int threads = strcmp(plan->options->device, "cpu") == 0 ? lt_threads() : 0;
    lt_gpt2_stage_parameters(&config, &plan->stage, parameters);
    lt_gpt2_stage_memory(&plan->shape, plan->mode, &plan->stage, plan->shape.batch,
                         plan->shape.seq / lt_gpt2_contexts(&plan->stage), threads, out);
    if (plan->stage.layers < plan->shape.layers)
        out->tag[LT_MEMORY_WORKSPACE] += stage_buffers(plan);
    if (plan->stage.ranks > 1)
        out->tag[LT_MEMORY_WORKSPACE] += lt_parts_bytes(plan->stage.ranks, boundary_of(plan));
    if (lt_gpt2_turners(&plan->stage) > 1)
        out->tag[LT_MEMORY_WORKSPACE] += lt_parts_turn_bytes(
            plan->stage.contexts, boundary_of(plan) / (size_t)plan->stage.ranks);
}

/* As many blocks are kept as fit; which ones is the same to a chain of equal blocks. */
static int budget(void *arg, const struct lt_source *source, uint64_t bytes,
                  struct tacho_error *err)
{
    struct gpt2_plan *plan = arg;
    struct lt_memory_plan needed = {0};
    struct lt_parameters parameters;
    for (plan->mode.kept = plan->stage.layers; plan->mode.kept > 0; plan->mode.kept--) {
        memory(arg, source, &needed, &parameters);
        if (needed.tag[LT_MEMORY_ACTIVATIONS] <= bytes)
            return 0;
    }
    return tacho_fail(err, TACHO_EUSAGE, "give more --memory, or a smaller model, --batch or --seq",
                      "%s: activations take at least %.1f MiB, the budget leaves %.1f MiB",
                      plan->shape.name, (double)needed.tag[LT_MEMORY_ACTIVATIONS] / (1 << 20),
                      (double)bytes / (1 << 20));
}

static int gpt2_name(size_t i, const char **name, const char **help, char *defaults, size_t size)
{
    const struct lt_gpt2_config *config = &lt_gpt2_configs[i];
    if (!config->name)
        return 0;
    *name = config->name;
    *help = config->help;
    snprintf(defaults, size, "vocab %lld, seq %lld, batch %lld", (long long)config->vocab,
             (long long)config->seq, (long long)config->batch);
    return 1;
}

/* A training run of a GPT-2; options of other models are refused. */
static int gpt2_run(const char *name, const struct options *options,
                    const volatile sig_atomic_t *stop, struct tacho_error *err)
{
    int rc = recipe_no_experts(name, options, err);
    if (rc)
        return rc;
    if (options->hidden || options->groups)
        return tacho_fail(
            err, TACHO_EUSAGE, "leave it out, or choose --channels and --heads", "%s: %s", name,
            options->hidden ? "--hidden is for mlp and llama" : "--groups is for llama");
    struct gpt2_plan gpt2 = {.shape = shape(name, options), .options = options};
    struct recipe_plan plan = {.options = options,
                               .stop = stop,
                               .seq = gpt2.shape.seq,
                               .vocab = gpt2.shape.vocab,
                               .batch = gpt2.shape.batch,
                               .create = create,
                               .describe = describe,
                               .memory = memory,
                               .divide = divide,
                               .budget = budget,
                               .arg = &gpt2};
    gpt2.stage = lt_gpt2_whole(&gpt2.shape);
    gpt2.mode.frozen = options->freeze;
    if (options->recompute_every != 1)
        return tacho_fail(err, TACHO_ENOTSUP, "use --recompute block, or --memory",
                          "%s: --recompute-every is for llama, moe, resnet and mlp", name);
    rc = recipe_mode(&gpt2.mode.dtype, &gpt2.mode.recompute, options, err);
    return rc ? rc : recipe_train(&plan, err);
}

const struct recipe recipe_gpt2 = {gpt2_name, gpt2_run};
