/* SPDX-License-Identifier: Apache-2.0
 *
 * Divided runs: between the training loop, the optimizer, checkpoints, shards and stages.
 */
#include "libtrain/train/division.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/base/fail.h"

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
    if (config->shard.stage == 3 && !model->ops->tells_use)
        return tacho_fail(err, TACHO_EUSAGE, "use --zero 2",
                          "--zero 3: %s does not say when it uses its parameters", name);
    if (config->layout.pp > 1 && !model->ops->stage)
        return tacho_fail(err, TACHO_EUSAGE, "use --layout dpN, or a gpt2 model",
                          "--layout: %s cannot be divided into stages", name);
    return 0;
}

int lt_division_open(struct lt_division *out, const struct lt_division_config *config,
                     struct lt_parallel *parallel, struct lt_model *model,
                     const struct lt_optimizer_config *optimizer, int micro_steps,
                     struct lt_trace *trace, struct tacho_error *err)
{
    const struct lt_group *world = lt_parallel_group(parallel);
    *out = (struct lt_division){.config = *config, .parallel = parallel, .model = model};
    if (!config->shard.stage)
        return 0;
    int rc = check(config, optimizer, model, err);
    if (rc)
        return rc;
    out->replicas = lt_layout_replicas(&config->layout, world, &out->axis);
    out->config.shard.communicators = 4 * (uint64_t)config->layout.stage;
    rc = lt_shard_create(&out->shard, &out->config.shard, &out->replicas, &model->parameters, trace,
                         err);
    if (rc == 0 && config->layout.pp > 1)
        rc = lt_pipeline_create(&out->pipeline, config->schedule, &config->layout, micro_steps,
                                world, model, trace, err);
    return rc;
}

/* One row of the table, unless nothing was to be sent. */
static void add_row(struct lt_sent_table *table, const char *purpose, struct lt_group_sent sent,
                    struct lt_group_sent formula)
{
    if (sent.messages || formula.messages)
        table->row[table->rows++] = (struct lt_sent_row){purpose, sent, formula};
}

void lt_division_close(struct lt_division *division)
{
    struct lt_sent_table *table = division->config.sent;
    if (table && division->shard) {
        struct lt_shard_sent formula, sent = lt_shard_sent(division->shard, &formula);
        add_row(table, "gradients", sent.gradients, formula.gradients);
        add_row(table, "parameters", sent.parameters, formula.parameters);
    }
    if (table && division->pipeline) {
        struct lt_pipeline_sent formula, sent = lt_pipeline_sent(division->pipeline, &formula);
        add_row(table, "activations", sent.activations, formula.activations);
        add_row(table, "tied embedding", sent.tied, formula.tied);
    }
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
    if (division->pipeline)
        lt_pipeline_updated(division->pipeline);
}

void lt_division_whole(const struct lt_division *division, int whole)
{
    if (division->shard && whole)
        lt_shard_whole(division->shard);
    if (division->shard && !whole)
        lt_shard_release(division->shard);
}

/* ---- checkpoints ---------------------------------------------------------------------------------- */

/* The arrays of a stage, or of the whole model: values, and the optimizer's. */
struct arrays {
    struct lt_model model;  /* its parameters say the layout */
    struct lt_arena values; /* empty: the model's own */
    struct lt_optimizer optimizer;
    int64_t first; /* block of the whole model */
};

static float *array_of(const struct arrays *arrays, int index)
{
    return index < 0 ? arrays->model.parameters.value : arrays->optimizer.state[index];
}

/* Between the tensors of a stage and the same ones of the whole model; arrays are the index-th of
 * each. */
static void copy_stage(const struct arrays *whole, const struct lt_parameters *stage, int64_t first,
                       float *own, int index, int to_whole)
{
    float *all = array_of(whole, index);
    for (int i = 0; i < stage->weights; i++) {
        const struct lt_weight *mine = &stage->weight[i],
                               *theirs = &whole->model.parameters.weight[i];
        size_t size = (size_t)(mine->rows * mine->columns), count = size * (size_t)mine->repeat,
               skip = theirs->repeat > 1 ? size * (size_t)first : 0;
        if (to_whole)
            memcpy(all + theirs->first + skip, own + mine->first, count * sizeof *own);
        else
            memcpy(own + mine->first, all + theirs->first + skip, count * sizeof *own);
    }
}

/* Arrays of the undivided model. */
static int make_whole(struct arrays *out, const struct lt_division *division,
                      const struct lt_optimizer *optimizer, struct tacho_error *err)
{
    struct lt_parameters layout;
    float *value = NULL;
    *out = (struct arrays){.model = *division->model};
    if (division->pipeline) {
        out->first = division->model->ops->stage->whole(division->model, &layout);
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

/* Rank 0 gets the arrays of another stage's first replica, which sends them with their layout. */
static int receive_stage(const struct lt_group *world, const struct arrays *whole, int from,
                         struct tacho_error *err)
{
    struct lt_parameters layout;
    int64_t first;
    world->exchange(world->arg, -1, NULL, 0, from, &layout, sizeof layout);
    world->exchange(world->arg, -1, NULL, 0, from, &first, sizeof first);
    float *own = malloc(layout.count * sizeof *own + 1);
    if (!own)
        return lt_no_memory(err);
    for (int i = -1; i < LT_OPTIMIZER_STATES; i++)
        if (array_of(whole, i)) {
            world->exchange(world->arg, -1, NULL, 0, from, own, layout.count * sizeof *own);
            copy_stage(whole, &layout, first, own, i, 1);
        }
    free(own);
    return 0;
}

static void send_stage(const struct lt_group *world, const struct arrays *stage)
{
    const struct lt_parameters *layout = &stage->model.parameters;
    world->exchange(world->arg, 0, layout, sizeof *layout, -1, NULL, 0);
    world->exchange(world->arg, 0, &stage->first, sizeof stage->first, -1, NULL, 0);
    for (int i = -1; i < LT_OPTIMIZER_STATES; i++)
        if (array_of(stage, i))
            world->exchange(world->arg, 0, array_of(stage, i), layout->count * sizeof(float), -1,
                            NULL, 0);
}

/* From the arrays of stages to one file, on rank 0, whose own stage is the first. */
static int write_stages(const struct lt_division *division, const char *path,
                        const struct arrays *stage, const struct lt_checkpoint *state,
                        struct tacho_error *err)
{
    const struct lt_group *world = lt_parallel_group(division->parallel);
    struct arrays whole;
    int rc = make_whole(&whole, division, &stage->optimizer, err);
    for (int i = -1; rc == 0 && i < LT_OPTIMIZER_STATES; i++)
        if (array_of(&whole, i))
            copy_stage(&whole, &stage->model.parameters, 0, array_of(stage, i), i, 1);
    for (int i = 1; rc == 0 && i < division->config.layout.pp; i++)
        rc = receive_stage(world, &whole, i * division->config.layout.dp, err);
    if (rc == 0)
        rc = lt_checkpoint_write(path, &whole.model, &whole.optimizer, state, err);
    free_arrays(&whole);
    return rc;
}

int lt_division_write(const struct lt_division *division, const char *path,
                      const struct lt_optimizer *optimizer, const struct lt_checkpoint *state,
                      struct tacho_error *err)
{
    struct arrays stage = {.model = *division->model};
    struct lt_parameters layout;
    const struct lt_group *world = lt_parallel_group(division->parallel);
    int collects = division->replicas.rank == 0, rc = 0;
    if (collects)
        rc =
            lt_optimizer_create(&stage.optimizer, &optimizer->config, &stage.model.parameters, err);
    rc = lt_parallel_agree(division->parallel, rc, err);
    if (rc)
        goto out;
    lt_division_whole(division, 1);
    for (int i = 0; i < LT_OPTIMIZER_STATES; i++)
        if (optimizer->state[i])
            lt_shard_collect(division->shard, optimizer->state[i], stage.optimizer.state[i]);
    if (division->pipeline)
        stage.first = division->model->ops->stage->whole(division->model, &layout);
    if (world->rank == 0 && division->pipeline)
        rc = write_stages(division, path, &stage, state, err);
    else if (world->rank == 0)
        rc = lt_checkpoint_write(path, &stage.model, &stage.optimizer, state, err);
    else if (collects)
        send_stage(world, &stage);
    lt_division_whole(division, 0);
out:
    lt_optimizer_destroy(&stage.optimizer);
    return rc;
}

/* This rank's part of what was read. */
static int take(const struct lt_division *division, const struct arrays *whole,
                struct lt_optimizer *optimizer, struct tacho_error *err)
{
    const struct lt_parameters *own = &division->model->parameters;
    size_t tied;
    float *stage = malloc(own->count * sizeof *stage + 1), *copy;
    if (!stage)
        return lt_no_memory(err);
    if (division->pipeline) {
        const struct lt_stage_ops *ops = division->model->ops->stage;
        copy_stage(whole, own, whole->first, own->value, -1, 0);
        copy = ops->tied(division->model, &tied); /* the first tensor of the whole model */
        if (copy)
            memcpy(copy, whole->model.parameters.value, tied * sizeof *copy);
        ops->tied_changed(division->model);
    }
    for (int i = 0; i < LT_OPTIMIZER_STATES; i++) {
        if (!optimizer->state[i])
            continue;
        float *all = whole->optimizer.state[i];
        if (division->pipeline) {
            copy_stage(whole, own, whole->first, stage, i, 0);
            all = stage;
        }
        lt_shard_take(division->shard, all, optimizer->state[i]);
    }
    free(stage);
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
