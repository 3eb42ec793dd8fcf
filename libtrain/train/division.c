/* SPDX-License-Identifier: Apache-2.0
 *
 * Divided runs: between the training loop, the optimizer, checkpoints, shards and stages.
 */
#include "libtrain/train/division.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/base/fail.h"
#include "libtrain/base/share.h"

/* Communicators of ranks that divide layers, sequences or experts, by the lowest of them. */
#define LAYERS    1048576u
#define SEQUENCES 2097152u
#define EXPERTS   3145728u

static int check(const struct lt_division_config *config, const struct lt_optimizer_config *kind,
                 const struct lt_model *model, struct tacho_error *err)
{
    const char *name = model->ops->name;
    if (!lt_optimizer_parts(kind))
        return tacho_fail(err, TACHO_EUSAGE,
                          "choose one that updates each element alone, for instance adamw, without "
                          "--lookahead",
                          "--zero, --layout, --all-reduce ordered: %s%s needs whole tensors",
                          lt_optimizer_name(kind->kind),
                          kind->lookahead_every > 0 ? " with --lookahead" : "");
    if (config->shard.stage == 3 && !model->ops->uses)
        return tacho_fail(err, TACHO_EUSAGE, "use --zero 2",
                          "--zero 3: %s does not say when it uses its parameters", name);
    if (lt_layout_divides(&config->layout) && !model->ops->stage)
        return tacho_fail(err, TACHO_EUSAGE, "use --layout dpN, or a gpt2, llama or moe model",
                          "--layout: %s cannot be divided", name);
    return 0;
}

/* Is this the first stage of a pipeline whose last one uses its word embedding, too? */
static int hands_on(const struct lt_layout *layout, const struct lt_model *model)
{
    size_t floats;
    return layout->pp > 1 && layout->stage == 0 && model->ops->stage->tied(model, &floats) != NULL;
}

/* The ranks that divide layers, and those that divide experts. */
static int open_parts(struct lt_division *division, struct lt_trace *trace)
{
    const struct lt_layout *layout = &division->config.layout;
    const struct lt_stage_ops *ops = division->model->ops->stage;
    int rc = 0;
    if (layout->tp > 1)
        rc = lt_parts_open(&division->layer_parts, &division->parts,
                           lt_parts_bytes(layout->tp, ops->summed_bytes(division->model)),
                           LAYERS + (uint64_t)division->part_axis.first, trace);
    if (rc == 0 && layout->ep > 1)
        rc = lt_parts_open(&division->expert_parts, &division->experts,
                           lt_parts_spread_bytes(layout->ep, ops->handed_bytes(division->model)),
                           EXPERTS + (uint64_t)division->expert_axis.first, trace);
    return rc;
}

/* The ranks that divide sequences; a batch of which this one takes its tokens. */
static int open_sequence_parts(struct lt_division *division, struct lt_trace *trace)
{
    const struct lt_layout *layout = &division->config.layout;
    const struct lt_model *model = division->model;
    size_t scratch = 0;
    if (layout->cp == 1)
        return 0;
    if (layout->attention == LT_CONTEXT_ULYSSES)
        scratch = lt_parts_turn_bytes(layout->cp,
                                      model->ops->stage->summed_bytes(model) / (size_t)layout->tp);
    division->tokens = malloc(2 * (size_t)(model->b * model->t) * sizeof *division->tokens);
    if (!division->tokens)
        return TACHO_ENOMEM;
    return lt_parts_open(&division->sequence_parts, &division->contexts, scratch,
                         SEQUENCES + (uint64_t)division->context_axis.first, trace);
}

void lt_division_batch(const struct lt_division *division, struct lt_batch *batch)
{
    const struct lt_layout *layout = &division->config.layout;
    const struct lt_model *model = division->model;
    if (!division->tokens)
        return;
    int32_t *tokens = division->tokens, *targets = tokens + model->b * model->t;
    int64_t half = model->t / 2, folded = layout->attention == LT_CONTEXT_RING;
    for (int64_t i = 0; i < 2 * model->b; i++) { /* both halves of a rank's part of a sequence */
        int64_t first = i % 2 ? half : 0, to = i / 2 * model->t + first,
                from = i / 2 * layout->cp * model->t +
                       lt_share_token(model->t, layout->cp, layout->context, (int)folded, first);
        size_t bytes = (size_t)(i % 2 ? model->t - half : half) * sizeof *tokens;
        memcpy(tokens + to, batch->tokens + from, bytes);
        memcpy(targets + to, batch->targets + from, bytes);
    }
    batch->tokens = tokens;
    batch->targets = targets;
}

int lt_division_open(struct lt_division *out, const struct lt_division_config *config,
                     struct lt_parallel *parallel, struct lt_model *model,
                     const struct lt_optimizer_config *optimizer, int micro_steps,
                     struct lt_trace *trace, struct tacho_error *err)
{
    const struct lt_group *world = lt_parallel_group(parallel);
    *out = (struct lt_division){
        .config = *config, .parallel = parallel, .model = model, .micro_steps = micro_steps};
    if (!config->shard.stage)
        return 0;
    out->config.staging.stages = config->layout.pp;
    out->config.staging.micro = micro_steps;
    int rc = check(config, optimizer, model, err);
    if (rc)
        return rc;
    out->replicas = lt_layout_replicas(&config->layout, world, &out->replica_axis);
    out->parts = lt_layout_parts(&config->layout, world, &out->part_axis);
    out->experts = lt_layout_experts(&config->layout, world, &out->expert_axis);
    out->contexts = lt_layout_contexts(&config->layout, world, &out->context_axis);
    out->config.shard.communicators =
        4 * (uint64_t)(config->layout.stage * config->layout.tp + config->layout.part);
    out->config.shard.model = model;
    out->config.shard.hands_on = hands_on(&config->layout, model);
    out->owners = lt_layout_owners(&config->layout, world, &out->owner_axis);
    out->config.shard.owner_communicators =
        4 * (uint64_t)((config->layout.pp + config->layout.stage * config->layout.ep +
                        config->layout.expert) *
                           config->layout.tp +
                       config->layout.part);
    if (open_parts(out, trace) || open_sequence_parts(out, trace))
        return lt_no_memory(err);
    rc = lt_shard_create(&out->shard, &out->config.shard, &out->replicas, &out->owners,
                         &model->parameters, trace, err);
    if (rc == 0 && config->layout.pp > 1)
        rc = lt_pipeline_create(&out->pipeline, &out->config.staging, &config->layout, world, model,
                                trace, err);
    return rc;
}

/* One row of the table, unless nothing was to be sent. */
static void add_row(struct lt_sent_table *table, const char *purpose, struct lt_group_sent sent,
                    struct lt_group_sent formula)
{
    if (sent.messages || formula.messages)
        table->row[table->rows++] =
            (struct lt_sent_row){.purpose = purpose, .sent = sent, .formula = formula};
}

/* From each step's passes of each stage: how long the step would take, and how much of it is no
 * pass; means over the steps that are kept. */
static void simulate(const struct lt_division *division, int micro,
                     const struct lt_pipeline_times *all, struct lt_sent_table *table)
{
    const struct lt_layout *layout = &division->config.layout;
    double busy = 0, stages = layout->pp, steps = all->steps;
    struct lt_stage_times *passes = calloc((size_t)layout->pp, sizeof *passes);
    if (!passes)
        return;
    for (int k = 0; k < (int)steps; k++) {
        double longest = 0;
        for (int i = 0; i < layout->pp; i++) {
            const struct lt_pipeline_time *time = &all[lt_layout_rank(layout, i, 0, 0)].time[k];
            passes[i] = time->passes;
            busy += micro * (passes[i].forward + passes[i].backward + passes[i].weights) / steps;
            longest = time->step > longest ? time->step : longest;
        }
        table->measured += longest / steps;
        table->simulated += lt_stages_makespan(&division->config.staging, passes) / steps;
    }
    if (table->measured > 0 && table->simulated > 0) {
        table->measured_bubble = 1 - busy / (stages * table->measured);
        table->simulated_bubble = 1 - busy / (stages * table->simulated);
    }
    free(passes);
}

/* The largest of the ranks' delays. */
static int64_t longest_delay(struct lt_parallel *parallel, int64_t delay)
{
    size_t ranks = (size_t)lt_parallel_ranks(parallel);
    double own = (double)delay, most = own, *all = calloc(ranks, sizeof *all);
    if (!all)
        return delay;
    lt_parallel_gather(parallel, &own, 1, all);
    for (size_t i = 0; i < ranks; i++)
        most = fmax(most, all[i]);
    free(all);
    return (int64_t)most;
}

/* What the ranks that divide something sent each other. */
static void add_parts(struct lt_sent_table *table, const char *purpose,
                      const struct lt_parts *parts)
{
    if (parts->group)
        add_row(table, purpose, (struct lt_group_sent){parts->group->bytes, parts->group->messages},
                parts->formula);
}

/* How evenly attention is divided. */
static void measure_attention(const struct lt_division *division, struct lt_sent_table *table)
{
    int ranks = lt_parallel_ranks(division->parallel);
    double own = (double)division->attention_flops, *all = calloc((size_t)ranks, sizeof *all);
    if (!all)
        return;
    lt_parallel_gather(division->parallel, &own, 1, all);
    for (int i = 0; i < ranks; i++) {
        table->attention_mean += all[i] / ranks;
        if (all[i] > table->attention_most) {
            table->attention_most = all[i];
            table->attention_rank = i;
        }
    }
    free(all);
}

/* What was sent; how long passes took. */
void lt_division_measure(struct lt_division *division, struct lt_group_sent local, int64_t delay)
{
    struct lt_sent_table *table = division->config.sent;
    if (table)
        table->delay = longest_delay(division->parallel, delay);
    if (table && local.messages)
        add_row(table, "parameters", lt_parallel_sent(division->parallel), local);
    if (table && division->pipeline) {
        size_t ranks = (size_t)lt_parallel_ranks(division->parallel);
        const struct lt_pipeline_times *own = lt_pipeline_times(division->pipeline);
        struct lt_pipeline_times *all = calloc(ranks, sizeof *all);
        if (!all)
            return;
        lt_parallel_gather(division->parallel, (const double *)own, LT_PIPELINE_DOUBLES,
                           (double *)all);
        if (own->steps > 0)
            simulate(division, division->micro_steps, all, table);
        free(all);
    }

    if (table && division->shard) {
        struct lt_shard_sent formula, floats,
            sent = lt_shard_sent(division->shard, &formula, &floats);
        const struct lt_packer *packer;
        table->gradients_as_floats = floats.gradients.bytes;
        table->adapt = *lt_shard_adapt(division->shard, &packer);
        add_row(table, "gradients", sent.gradients, formula.gradients);
        if (packer) {
            table->packed = *packer;
            table->row[0].bound = 1;
        }
        add_row(table, "parameters", sent.parameters, formula.parameters);
    }
    if (table && division->pipeline) {
        struct lt_pipeline_sent formula, sent = lt_pipeline_sent(division->pipeline, &formula);
        add_row(table, "activations", sent.activations, formula.activations);
        add_row(table, "tied embedding", sent.tied, formula.tied);
    }
    if (!table)
        return;
    add_parts(table, "parts of layers", &division->layer_parts);
    add_parts(table, "rows of experts", &division->expert_parts);
    add_parts(table, "parts of sequences", &division->sequence_parts);
    if (division->config.layout.cp > 1)
        measure_attention(division, table);
}

void lt_division_close(struct lt_division *division)
{
    lt_parts_close(&division->layer_parts);
    lt_parts_close(&division->expert_parts);
    lt_parts_close(&division->sequence_parts);
    free(division->tokens);
    division->tokens = NULL;
    lt_pipeline_destroy(division->pipeline);
    lt_shard_destroy(division->shard);
    division->pipeline = NULL;
    division->shard = NULL;
}

int lt_division_optimizer(const struct lt_division *division, struct lt_optimizer *out,
                          const struct lt_optimizer_config *config, struct tacho_error *err)
{
    struct lt_parameters own;
    if (!division->shard)
        return lt_optimizer_create(out, config, &division->model->parameters, err);
    own = (struct lt_parameters){.count = lt_shard_floats(division->shard)};
    return lt_optimizer_create(out, config, &own, err);
}

double lt_division_norm(const struct lt_division *division, const struct lt_context *context)
{
    struct lt_exact sum = {0}, all = {0};
    const struct lt_parameters *parameters = &division->model->parameters;
    if (!division->shard) {
        lt_op(context, LT_OP_NORM,
              &(union lt_args){.norm = {.x = parameters->grad,
                                        .count = (int64_t)parameters->count,
                                        .exact = &sum}});
        return sqrt(lt_exact_value(&sum));
    }
    lt_shard_squares(division->shard, context, &sum);
    lt_parallel_add(division->parallel, &sum, &all);
    return sqrt(lt_exact_value(&all));
}

void lt_division_clip(const struct lt_division *division, const struct lt_context *context,
                      double bound)
{
    size_t pieces;
    const struct lt_piece *piece = lt_shard_pieces(division->shard, &pieces);
    for (size_t i = 0; i < pieces; i++)
        lt_op(context, LT_OP_CLIP,
              &(union lt_args){.clip = {.x = piece[i].grad,
                                        .count = (int64_t)piece[i].count,
                                        .scale = 1,
                                        .bound = bound}});
}

void lt_division_update(struct lt_division *division, struct lt_optimizer *optimizer,
                        const struct lt_context *context, int64_t made, double rate, double scale)
{
    size_t pieces;
    const struct lt_piece *piece = lt_shard_pieces(division->shard, &pieces);
    lt_optimizer_update_pieces(optimizer, context, piece, pieces, made, rate, scale);
    lt_shard_updated(division->shard);
    if (!division->pipeline)
        return;
    if (division->config.shard.hands_on)
        lt_shard_bring(division->shard, 0);
    lt_pipeline_updated(division->pipeline);
    if (division->config.shard.hands_on)
        lt_shard_leave(division->shard);
}

void lt_division_whole(const struct lt_division *division, int whole)
{
    if (division->shard && whole)
        lt_shard_whole(division->shard);
    if (division->shard && !whole)
        lt_shard_release(division->shard);
}

/* ---- checkpoints ---------------------------------------------------------------------------------- */

/* The arrays of a part, or of the whole model: values, and the optimizer's. */
struct arrays {
    struct lt_model model;  /* its parameters say the layout */
    struct lt_arena values; /* empty: the model's own */
    struct lt_optimizer optimizer;
    struct lt_slice slice; /* of the whole model, of which this is a part */
};

static float *array_of(const struct arrays *arrays, int index)
{
    return index < 0 ? arrays->model.parameters.value : arrays->optimizer.state[index];
}

/* Ranks of a replica that have other parameters than each other; and the first replica's i-th. */
static int parts_of(const struct lt_layout *layout)
{
    return layout->pp * layout->tp * layout->ep;
}

static int rank_of_part(const struct lt_layout *layout, int i)
{
    int part = i % layout->tp, expert = i / layout->tp % layout->ep,
        stage = i / layout->tp / layout->ep;
    return lt_layout_rank(layout, stage, expert, part);
}

int lt_division_parts(const struct lt_division *division)
{
    return parts_of(&division->config.layout);
}

static int is_divided(const struct lt_division *division)
{
    return parts_of(&division->config.layout) > 1;
}

/* Does this rank have the arrays of a part whole, when its replicas' shards are collected? */
static int collects(const struct lt_division *division)
{
    if (division->config.layout.ep > 1)
        return division->owners.rank == 0;
    return division->replicas.rank == 0;
}

struct copying {
    float *part, *whole;
    int to_whole;
};

static void copy_run(void *arg, size_t from, size_t to, size_t count)
{
    const struct copying *copying = arg;
    if (copying->to_whole)
        memcpy(copying->whole + to, copying->part + from, count * sizeof(float));
    else
        memcpy(copying->part + from, copying->whole + to, count * sizeof(float));
}

/* Between the tensors of a part and the same ones of the whole model. */
static void copy_part(const struct arrays *whole, const struct lt_parameters *part,
                      const struct lt_slice *slice, struct copying copying)
{
    for (int i = 0; i < part->weights; i++)
        lt_slice_runs(&part->weight[i], &whole->model.parameters.weight[i], part->groups[i], slice,
                      copy_run, &copying);
}

/* Arrays of the undivided model. */
static int make_whole(struct arrays *out, const struct lt_division *division,
                      const struct lt_optimizer *optimizer, struct tacho_error *err)
{
    struct lt_parameters layout;
    float *value = NULL;
    *out = (struct arrays){.model = *division->model};
    if (is_divided(division)) {
        out->slice = division->model->ops->stage->whole(division->model, &layout);
        struct lt_tensor all = {.name = "whole", .count = layout.count, .slot = &value};
        if (lt_arena_create(&out->values, LT_MEMORY_PARAMETERS, &all, 1))
            return lt_no_memory(err);
        layout.value = value;
        out->model.parameters = layout;
    }
    return lt_optimizer_create(&out->optimizer, &optimizer->config, &out->model.parameters, err);
}

static void free_arrays(struct arrays *arrays)
{
    lt_arena_destroy(&arrays->values);
    lt_optimizer_destroy(&arrays->optimizer);
}

/* Rank 0 gets the arrays of another part from its first replica, which sends where they belong. */
static int receive_part(const struct lt_group *world, const struct arrays *whole, int from,
                        struct tacho_error *err)
{
    struct lt_parameters layout;
    struct lt_slice slice;
    world->exchange(world->arg, -1, NULL, 0, from, &layout, sizeof layout);
    world->exchange(world->arg, -1, NULL, 0, from, &slice, sizeof slice);
    float *own = malloc(layout.count * sizeof *own + 1);
    if (!own)
        return lt_no_memory(err);
    for (int i = -1; i < LT_OPTIMIZER_STATES; i++)
        if (array_of(whole, i)) {
            world->exchange(world->arg, -1, NULL, 0, from, own, layout.count * sizeof *own);
            copy_part(whole, &layout, &slice, (struct copying){own, array_of(whole, i), 1});
        }
    free(own);
    return 0;
}

static void send_part(const struct lt_group *world, const struct arrays *part)
{
    const struct lt_parameters *layout = &part->model.parameters;
    world->exchange(world->arg, 0, layout, sizeof *layout, -1, NULL, 0);
    world->exchange(world->arg, 0, &part->slice, sizeof part->slice, -1, NULL, 0);
    for (int i = -1; i < LT_OPTIMIZER_STATES; i++)
        if (array_of(part, i))
            world->exchange(world->arg, 0, array_of(part, i), layout->count * sizeof(float), -1,
                            NULL, 0);
}

/* From the arrays of all parts to one file, on rank 0. */
static int write_parts(const struct lt_division *division, const char *path,
                       const struct arrays *own, const struct lt_checkpoint *state,
                       struct tacho_error *err)
{
    const struct lt_layout *layout = &division->config.layout;
    const struct lt_group *world = lt_parallel_group(division->parallel);
    struct arrays whole;
    int rc = make_whole(&whole, division, &own->optimizer, err);
    for (int i = -1; rc == 0 && i < LT_OPTIMIZER_STATES; i++)
        if (array_of(&whole, i))
            copy_part(&whole, &own->model.parameters, &own->slice,
                      (struct copying){array_of(own, i), array_of(&whole, i), 1});
    for (int i = 1; rc == 0 && i < parts_of(layout); i++)
        rc = receive_part(world, &whole, rank_of_part(layout, i), err);
    if (rc == 0)
        rc = lt_checkpoint_write(path, &whole.model, &whole.optimizer, state, err);
    free_arrays(&whole);
    return rc;
}

int lt_division_write(const struct lt_division *division, const char *path,
                      const struct lt_optimizer *optimizer, const struct lt_checkpoint *state,
                      struct tacho_error *err)
{
    struct arrays own = {.model = *division->model};
    struct lt_parameters layout;
    const struct lt_group *world = lt_parallel_group(division->parallel);
    int rc = 0;
    if (collects(division))
        rc = lt_optimizer_create(&own.optimizer, &optimizer->config, &own.model.parameters, err);
    rc = lt_parallel_agree(division->parallel, rc, err);
    if (rc)
        goto out;
    lt_division_whole(division, 1);
    for (int i = 0; i < LT_OPTIMIZER_STATES; i++)
        if (optimizer->state[i])
            lt_shard_collect(division->shard, optimizer->state[i], own.optimizer.state[i]);
    if (is_divided(division))
        own.slice = division->model->ops->stage->whole(division->model, &layout);
    if (world->rank == 0 && is_divided(division))
        rc = write_parts(division, path, &own, state, err);
    else if (world->rank == 0)
        rc = lt_checkpoint_write(path, &own.model, &own.optimizer, state, err);
    else if (collects(division))
        send_part(world, &own);
    lt_division_whole(division, 0);
out:
    lt_optimizer_destroy(&own.optimizer);
    return rc;
}

/* The values of this rank's part of what was read, and of its copy of the tied tensor. */
static void take_values(const struct lt_division *division, const struct arrays *whole)
{
    const struct lt_stage_ops *ops = division->model->ops->stage;
    const struct lt_parameters *own = &division->model->parameters;
    const struct lt_weight *first = &whole->model.parameters.weight[0];
    float *values = whole->model.parameters.value;
    size_t tied;
    float *copy = ops->tied(division->model, &tied);
    copy_part(whole, own, &whole->slice, (struct copying){own->value, values, 0});
    if (copy)
        memcpy(copy,
               values + lt_share((size_t)first->rows, whole->slice.ranks, whole->slice.rank) *
                            (size_t)first->columns,
               tied * sizeof *copy);
    ops->tied_changed(division->model);
}

/* This rank's part of what was read. */
static int take(const struct lt_division *division, const struct arrays *whole,
                struct lt_optimizer *optimizer, struct tacho_error *err)
{
    const struct lt_parameters *own = &division->model->parameters;
    float *part = malloc(own->count * sizeof *part + 1);
    if (!part)
        return lt_no_memory(err);
    if (is_divided(division))
        take_values(division, whole);
    for (int i = 0; i < LT_OPTIMIZER_STATES; i++) {
        float *all = whole->optimizer.state[i];
        if (!optimizer->state[i])
            continue;
        if (is_divided(division)) {
            copy_part(whole, own, &whole->slice, (struct copying){part, all, 0});
            all = part;
        }
        lt_shard_take(division->shard, all, optimizer->state[i]);
    }
    free(part);
    return 0;
}

int lt_division_read(const struct lt_division *division, const char *path,
                     struct lt_optimizer *optimizer, struct lt_checkpoint *state,
                     struct tacho_error *err)
{
    struct arrays whole;
    int rc = make_whole(&whole, division, optimizer, err);
    if (rc == 0)
        rc = lt_checkpoint_read(path, &whole.model, &whole.optimizer, state, err);
    if (rc == 0)
        rc = take(division, &whole, optimizer, err);
    free_arrays(&whole);
    if (rc == 0) {
        lt_parameters_refresh(&division->model->parameters);
        lt_shard_adopt(division->shard);
    }
    return rc;
}
