/* SPDX-License-Identifier: Apache-2.0
 *
 * GPT-2: named sizes, memory, initial values, and the closed forms of what a step costs.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/models/gpt2_layout.h"
#include "libtrain/ops/random.h"

const struct lt_gpt2_config lt_gpt2_configs[] = {
    {"gpt2-tiny", "0.84 M parameters, bytes as tokens; a step takes milliseconds", 4, 128, 4, 256,
     128, 128, 8},
    {"gpt2-124M", "GPT-2 small: 12 layers, 768 channels, 12 heads", 12, 768, 12, 50257, 1024, 64,
     4},
    {"gpt2", "the same as gpt2-124M", 12, 768, 12, 50257, 1024, 64, 4},
    {"gpt2-350M", "GPT-2 medium: 24 layers, 1024 channels, 16 heads", 24, 1024, 16, 50257, 1024, 64,
     4},
    {"gpt2-774M", "GPT-2 large: 36 layers, 1280 channels, 20 heads", 36, 1280, 20, 50257, 1024, 64,
     4},
    {"gpt2-1558M", "GPT-2 XL: 48 layers, 1600 channels, 25 heads", 48, 1600, 25, 50257, 1024, 64,
     4},
    {0},
};

/* Refuses shapes that cannot be computed, before memory is asked for. */
static int check(const struct lt_gpt2_config *config, int64_t b, int64_t t, struct tacho_error *err)
{
    const int64_t most = 1 << 20;
    if (config->layers < 1 || config->channels < 1 || config->heads < 1 || config->vocab < 1 ||
        b < 1 || t < 1 || config->layers > 4096 || config->channels > most ||
        config->vocab > 1 << 24 || b > most || t > most)
        return tacho_fail(
            err, TACHO_EUSAGE,
            "layers, channels, heads, vocab, seq and batch must be positive and of a sane size",
            "%s: impossible shape", config->name);
    if (config->channels % config->heads)
        return tacho_fail(err, TACHO_EUSAGE, "choose --channels as a multiple of --heads",
                          "%s: %lld channels do not divide among %lld heads", config->name,
                          (long long)config->channels, (long long)config->heads);
    return 0;
}

/* One tensor while it is filled: normal values, or a constant where the deviation is 0. */
struct filling {
    float *values;
    size_t first; /* of the tensor in the whole model */
    float deviation, constant;
    uint64_t key;
};

/* Every element has the value that the whole model has there. */
static void fill(void *arg, size_t from, size_t to, size_t count)
{
    const struct filling *filling = arg;
    float *values = filling->values + from;
    if (filling->deviation > 0) {
        lt_random_fill_from(values, (int64_t)count, filling->deviation, filling->key,
                            (int64_t)(to - filling->first));
        return;
    }
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < (int64_t)count; i++)
        values[i] = filling->constant;
}

/* Initial values of all tensors, each from its own stream of random numbers. */
static void initialise(struct gpt2 *model, uint64_t seed)
{
    float residual = 1.0f / sqrtf(2.0f * (float)model->whole.layers);
    struct lt_parameters whole, *own = &model->model.parameters;
    struct lt_slice slice = lt_gpt2_stage_ops.whole(&model->model, &whole);
    static const struct {
        float deviation, constant;
        int shrinks;
    } initial[] = {
#define VALUE(name, repeat, rows, columns, role, deviation, constant, shrinks) \
    {(deviation), (constant), (shrinks)},
        MATRICES(VALUE) VECTORS(VALUE)
#undef VALUE
    };
    for (int i = 0; i < own->weights; i++) {
        struct filling filling = {.values = own->value,
                                  .first = whole.weight[i].first,
                                  .deviation = initial[i].deviation,
                                  .constant = initial[i].constant,
                                  .key = lt_random_bits(seed, (uint64_t)i)};
        if (initial[i].shrinks)
            filling.deviation *= residual;
        lt_slice_runs(&own->weight[i], &whole.weight[i], own->groups[i], &slice, fill, &filling);
    }
    if (model->copy)
        lt_random_fill_from(model->copy, model->config.vocab * model->config.channels, 0.02f,
                            lt_random_bits(seed, 0),
                            lt_gpt2_first_word(model) * model->config.channels);
}

/* ---- memory ------------------------------------------------------------------------------------------------------------------ */

#define TENSORS 40

/* The tables of gpt2_layout.h as tensors of an arena, with their places in *at; the number of rows
 * is returned. */
static size_t parameter_table(struct lt_tensor *table, const struct gpt2 *model,
                              struct parameters *at)
{
    size_t l = (size_t)model->config.layers, c = (size_t)model->config.channels,
           w = (size_t)model->config.vocab, p = (size_t)model->config.positions,
           a = (size_t)model->own;
    size_t e = (size_t)model->stage.embeds, f = (size_t)model->stage.answers;
    const struct lt_tensor rows[] = {
#define ROW(n, repeat, rows, columns, ...) \
    {.name = #n, .count = (repeat) * (rows) * (columns), .slot = &at->n},
        MATRICES(ROW) VECTORS(ROW)
#undef ROW
    };
    memcpy(table, rows, sizeof rows);
    return sizeof rows / sizeof *rows;
}

/* What activations are needed for. */
enum part { KEPT_PART, PASSING_PART, WORKSPACE_PART };

/* Activations of one micro-batch, those of one pass, or the scratch memory of the operations. */
static size_t activation_table(struct lt_tensor *table, const struct gpt2 *model, enum part part,
                               struct activations *at)
{
    const struct lt_gpt2_config *config = &model->config;
    size_t l = (size_t)lt_gpt2_chunk(&model->stage), c = (size_t)config->channels,
           w = (size_t)config->vocab, z = l * (model->stage.split != 0), h = (size_t)config->heads,
           f = (size_t)model->stage.answers, a = (size_t)model->own,
           s = model->stage.ranks > 1 ? f * (size_t)(model->stage.ranks + 1) : 0;
    size_t b = (size_t)model->model.b, t = (size_t)model->model.t, n = b * t,
           m = n / (size_t)lt_gpt2_row_ranks(&model->stage),
           k = (size_t)lt_gpt2_kept(model->mode, (int64_t)l),
           contexts = (size_t)lt_gpt2_turners(&model->stage), x = contexts > 1, y = x * k,
           o = model->stage.ring && lt_gpt2_contexts(&model->stage) > 1;
    size_t slots = (size_t)model->slots,
           scratch_floats =
               lt_attention_scratch(model->mode.dtype, (int64_t)(contexts * t), (int64_t)(a / h));
    size_t size = lt_dtype_bytes(model->mode.dtype);
#define COUNT_E(count) (((count)*size + sizeof(float) - 1) / sizeof(float))
#define COUNT_F(count) (count)
#define ROW(name_, type, count_) \
    {.name = #name_, .count = COUNT_##type(count_), .slot = &at->name_},
    const struct lt_tensor kept[] = {KEPT(ROW)}, passing[] = {PASSING(ROW)},
                           beside[] = {WORKSPACE(ROW)};
#undef ROW
#undef COUNT_E
#undef COUNT_F
    const struct {
        const struct lt_tensor *rows;
        size_t count;
    } parts[] = {{kept, sizeof kept / sizeof *kept},
                 {passing, sizeof passing / sizeof *passing},
                 {beside, sizeof beside / sizeof *beside}};
    memcpy(table, parts[part].rows, parts[part].count * sizeof *table);
    return parts[part].count;
}

static size_t padded(const struct lt_tensor *table, size_t rows)
{
    size_t count = 0;
    for (size_t i = 0; i < rows; i++)
        count += lt_arena_padded(table[i].count);
    return count;
}

/* The activations of all micro-batches in flight, and what they share. */
static int allocate_activations(struct gpt2 *model)
{
    size_t in_flight = (size_t)model->stage.in_flight, rows = 0;
    struct activations shared = {0};
    struct lt_tensor *table = calloc((in_flight + 1) * TENSORS, sizeof *table);
    model->flight = calloc(in_flight, sizeof *model->flight);
    int rc = table && model->flight ? 0 : TACHO_ENOMEM;
    for (size_t i = 0; i < in_flight && rc == 0; i++)
        rows += activation_table(table + rows, model, KEPT_PART, &model->flight[i]);
    if (rc == 0) {
        rows += activation_table(table + rows, model, PASSING_PART, &shared);
        rc = lt_arena_create_in(&model->activation_arena, model->stage.space, LT_MEMORY_ACTIVATIONS,
                                table, rows);
    }
    if (rc == 0) {
        rows = activation_table(table, model, WORKSPACE_PART, &shared);
        rc = lt_arena_create_in(&model->workspace_arena, model->stage.space, LT_MEMORY_WORKSPACE,
                                table, rows);
    }
    for (size_t i = 0; i < in_flight && rc == 0; i++) {
#define SHARE(name, ...) model->flight[i].name = shared.name;
        PASSING(SHARE) WORKSPACE(SHARE)
#undef SHARE
    }
    if (rc == 0)
        model->act = model->flight[0];
    free(table);
    return rc;
}

static int allocate_one(struct lt_arena *arena, struct lt_space *space, enum lt_memory_tag tag,
                        size_t count, float **slot)
{
    struct lt_tensor whole = {.name = "word", .count = count, .slot = slot};
    return lt_arena_create_in(arena, space, tag, &whole, 1);
}

/* The word embedding of a last stage that does not embed. */
static int allocate_copy(struct gpt2 *model)
{
    size_t count = (size_t)(model->config.vocab * model->config.channels);
    if (!model->stage.answers || model->stage.embeds)
        return 0;
    int rc = allocate_one(&model->copy_arena, model->stage.space, LT_MEMORY_PARAMETERS, count,
                          &model->copy);
    if (rc == 0)
        rc = allocate_one(&model->copy_grad_arena, model->stage.space, LT_MEMORY_GRADIENTS, count,
                          &model->copy_grad);
    if (rc == 0 && model->mode.dtype != LT_DTYPE_FP32)
        rc = allocate_one(&model->copy_shadow_arena, model->stage.space, LT_MEMORY_PARAMETERS,
                          (count + 1) / 2, &model->copy_shadow);
    return rc;
}

/* All arenas of the model. */
static int allocate(struct gpt2 *model)
{
    struct lt_tensor table[TENSORS];
    size_t rows = parameter_table(table, model, &model->value);
    float *copy = NULL;
    int rc = lt_arena_create_in(&model->value_arena, model->stage.space, LT_MEMORY_PARAMETERS,
                                table, rows);
    if (rc == 0 && model->mode.dtype != LT_DTYPE_FP32)
        rc = allocate_one(&model->shadow_arena, model->stage.space, LT_MEMORY_PARAMETERS,
                          (padded(table, rows) + 1) / 2, &copy);
    rows = parameter_table(table, model, &model->grad);
    rc = rc ? rc
            : lt_arena_create_in(&model->grad_arena, model->stage.space, LT_MEMORY_GRADIENTS, table,
                                 rows);
    rc = rc ? rc : allocate_copy(model);
    return rc ? rc : allocate_activations(model);
}

/* Initial values; those of a model in a device's memory are made in a copy of the host. */
static int initialise_in(struct gpt2 *model, uint64_t seed)
{
    struct lt_space *space = model->stage.space;
    struct lt_parameters *parameters = &model->model.parameters;
    float *there = parameters->value;
    struct lt_tensor values = {
        .name = "values", .count = parameters->count, .slot = &parameters->value};
    struct lt_arena copy;
    if (!space) {
        initialise(model, seed);
        return 0;
    }
    if (!space->write)
        return 0;
    int rc = lt_arena_create(&copy, LT_MEMORY_WORKSPACE, &values, 1);
    if (rc == 0) {
        initialise(model, seed);
        space->write(space, there, copy.base, parameters->count * sizeof(float));
    }
    lt_arena_destroy(&copy);
    parameters->value = there;
    return rc;
}

/* What training, optimizer and checkpoints need to know of the model. */
static void describe(struct gpt2 *model)
{
    const struct lt_gpt2_config *config = &model->whole;
    struct lt_parameters *parameters = &model->model.parameters;
    lt_gpt2_stage_parameters(config, &model->stage, parameters);
    parameters->value = model->value_arena.base;
    parameters->grad = model->grad_arena.base;
    parameters->shadow = (uint16_t *)(void *)model->shadow_arena.base;
    parameters->space = model->stage.space;
    parameters->shadow_dtype = model->mode.dtype;
    int64_t shape[LT_SHAPE_CAP] = {config->layers, config->channels, config->heads, config->vocab,
                                   config->positions};
    for (int i = 0; i < LT_SHAPE_CAP; i++)
        model->model.shape[i] = shape[i];
}

int lt_gpt2_create(struct lt_model **out, const struct lt_gpt2_config *config,
                   struct lt_gpt2_mode mode, int64_t b, int64_t t, uint64_t seed,
                   struct tacho_error *err)
{
    struct lt_gpt2_stage whole = lt_gpt2_whole(config);
    return lt_gpt2_create_stage(out, config, mode, &whole, b, t, seed, err);
}

int lt_gpt2_create_stage(struct lt_model **out, const struct lt_gpt2_config *config,
                         struct lt_gpt2_mode mode, const struct lt_gpt2_stage *stage, int64_t b,
                         int64_t t, uint64_t seed, struct tacho_error *err)
{
    int rc = check(config, b, t, err);
    if (rc)
        return rc;
    struct gpt2 *model = calloc(1, sizeof *model);
    if (!model)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", config->name);
    model->model = (struct lt_model){.ops = &lt_gpt2_ops, .b = b, .t = t, .vocab = config->vocab};
    model->whole = *config;
    if (config->positions < t * lt_gpt2_contexts(stage))
        model->whole.positions = t * lt_gpt2_contexts(stage);
    model->config = model->whole;
    model->config.layers = stage->layers;
    model->config.heads = config->heads / stage->ranks;
    model->config.vocab = lt_gpt2_words(config, stage);
    model->own = config->channels / stage->ranks;
    model->stage = *stage;
    model->mode = mode;
    model->slots = stage->space ? 0 : lt_threads(); /* a device has scratch of its own */
    rc = allocate(model);
    if (rc == 0) {
        describe(model);
        rc = initialise_in(model, seed);
    }
    if (rc) {
        lt_model_destroy(&model->model);
        return tacho_fail(err, rc, "choose a smaller model, --batch or --seq, or --recompute block",
                          "%s: not enough memory", config->name);
    }
    lt_parameters_refresh(&model->model.parameters);
    if (model->copy)
        lt_gpt2_stage_ops.tied_changed(&model->model);
    *out = &model->model;
    return 0;
}

struct lt_flops lt_gpt2_flops(const struct lt_gpt2_config *config, enum lt_backend backend,
                              struct lt_gpt2_mode mode, int64_t b, int64_t t, int64_t micro_steps)
{
    uint64_t l = (uint64_t)config->layers, c = (uint64_t)config->channels, u = (uint64_t)t;
    uint64_t sequences = (uint64_t)(b * micro_steps), pairs = lt_attention_pairs(backend, t);
    /* of frozen blocks backward makes nothing: two thirds of the model's FLOPs */
    uint64_t f = (uint64_t)mode.frozen, last = l - (uint64_t)lt_gpt2_kept(mode, config->layers),
             matrix = (6 * (12 * l * c * c + (uint64_t)config->vocab * c) - 48 * f * c * c) *
                      sequences * u;
    uint64_t again = last > f ? (last - f) * (16 * c * c * u + 4 * c * pairs) * sequences : 0;
    return (struct lt_flops){.model = matrix + (6 * l - 4 * f) * c * u * (u + 1) * sequences,
                             .palm = matrix + (12 * l - 8 * f) * c * u * u * sequences,
                             .issued = matrix + (14 * l - 10 * f) * c * pairs * sequences + again,
                             .recomputed = again};
}
