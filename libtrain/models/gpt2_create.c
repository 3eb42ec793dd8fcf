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

/* Normal values, or a constant where the deviation is 0. */
static void fill(float *values, int64_t count, float deviation, float constant, uint64_t key)
{
    if (deviation > 0) {
        lt_random_fill(values, count, deviation, key);
        return;
    }
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < count; i++)
        values[i] = constant;
}

/* Initial values of all tensors, each from its own stream of random numbers. */
static void initialise(struct gpt2 *model, uint64_t seed)
{
    int64_t l = model->config.layers, c = model->config.channels, v = model->config.vocab,
            p = model->config.positions;
    float residual = 1.0f / sqrtf(2.0f * (float)l);
    uint64_t tensor = 0;
#define FILL(name, repeat, rows, columns, role, deviation, constant) \
    fill(model->value.name, (repeat) * (rows) * (columns), (deviation), (constant), \
         lt_random_bits(seed, tensor++));
    MATRICES(FILL)
    VECTORS(FILL)
#undef FILL
}

/* ---- memory ------------------------------------------------------------------------------------------------------------------ */

#define TENSORS 32

/* The tables of gpt2_layout.h as tensors of an arena, with their places in *at; the number of rows
 * is returned. */
static size_t parameter_table(struct lt_tensor *table, const struct lt_gpt2_config *config,
                              struct parameters *at)
{
    size_t l = (size_t)config->layers, c = (size_t)config->channels, v = (size_t)config->vocab,
           p = (size_t)config->positions;
    const struct lt_tensor rows[] = {
#define ROW(n, repeat, rows, columns, ...) \
    {.name = #n, .count = (repeat) * (rows) * (columns), .slot = &at->n},
        MATRICES(ROW) VECTORS(ROW)
#undef ROW
    };
    memcpy(table, rows, sizeof rows);
    return sizeof rows / sizeof *rows;
}

/* Activations, or with `workspace` the scratch memory of the operations. */
static size_t activation_table(struct lt_tensor *table, const struct lt_gpt2_config *config,
                               struct lt_gpt2_mode mode, int64_t batch, int64_t seq, int threads,
                               int workspace, struct activations *at)
{
    size_t l = (size_t)config->layers, c = (size_t)config->channels, v = (size_t)config->vocab,
           h = (size_t)config->heads;
    size_t b = (size_t)batch, t = (size_t)seq, n = b * t,
           k = mode.recompute == LT_RECOMPUTE_BLOCK ? 1 : l;
    size_t slots = (size_t)threads,
           scratch_floats = lt_attention_scratch(mode.dtype, seq, config->channels / config->heads);
    size_t size = lt_dtype_bytes(mode.dtype);
#define COUNT_E(count) (((count)*size + sizeof(float) - 1) / sizeof(float))
#define COUNT_F(count) (count)
#define ROW(name_, type, count_) \
    {.name = #name_, .count = COUNT_##type(count_), .slot = &at->name_},
    const struct lt_tensor kept[] = {ACTIVATIONS(ROW)}, beside[] = {WORKSPACE(ROW)};
#undef ROW
#undef COUNT_E
#undef COUNT_F
    if (workspace) {
        memcpy(table, beside, sizeof beside);
        return sizeof beside / sizeof *beside;
    }
    memcpy(table, kept, sizeof kept);
    return sizeof kept / sizeof *kept;
}

static size_t padded(const struct lt_tensor *table, size_t rows)
{
    size_t count = 0;
    for (size_t i = 0; i < rows; i++)
        count += lt_arena_padded(table[i].count);
    return count;
}

/* All arenas of the model. */
static int allocate(struct gpt2 *model)
{
    struct lt_tensor table[TENSORS];
    int64_t b = model->model.b, t = model->model.t;
    size_t rows = parameter_table(table, &model->config, &model->value);
    float *copy = NULL;
    int rc = lt_arena_create(&model->value_arena, LT_MEMORY_PARAMETERS, table, rows);
    struct lt_tensor shadow = {
        .name = "shadow", .count = (padded(table, rows) + 1) / 2, .slot = &copy};
    if (rc == 0 && model->mode.dtype != LT_DTYPE_FP32)
        rc = lt_arena_create(&model->shadow_arena, LT_MEMORY_PARAMETERS, &shadow, 1);
    rows = parameter_table(table, &model->config, &model->grad);
    rc = rc ? rc : lt_arena_create(&model->grad_arena, LT_MEMORY_GRADIENTS, table, rows);
    rows = activation_table(table, &model->config, model->mode, b, t, model->slots, 0, &model->act);
    rc = rc ? rc : lt_arena_create(&model->activation_arena, LT_MEMORY_ACTIVATIONS, table, rows);
    rows = activation_table(table, &model->config, model->mode, b, t, model->slots, 1, &model->act);
    return rc ? rc : lt_arena_create(&model->workspace_arena, LT_MEMORY_WORKSPACE, table, rows);
}

void lt_gpt2_parameters(const struct lt_gpt2_config *config, struct lt_parameters *out)
{
    int64_t l = config->layers, c = config->channels, v = config->vocab, p = config->positions;
    *out = (struct lt_parameters){.matrix = (uint64_t)(12 * l * c * c + v * c)};
#define ADD(name, repeat_, rows_, columns_, role_, ...) \
    lt_parameters_add(out, \
                      (struct lt_weight){.repeat = (repeat_), \
                                         .rows = (rows_), \
                                         .columns = (columns_), \
                                         .role = LT_WEIGHT_##role_}, \
                      LT_WEIGHT_##role_ != LT_WEIGHT_VECTOR);
    MATRICES(ADD)
    VECTORS(ADD)
#undef ADD
}

/* What training, optimizer and checkpoints need to know of the model. */
static void describe(struct gpt2 *model)
{
    const struct lt_gpt2_config *config = &model->config;
    struct lt_parameters *parameters = &model->model.parameters;
    lt_gpt2_parameters(config, parameters);
    parameters->value = model->value_arena.base;
    parameters->grad = model->grad_arena.base;
    parameters->shadow = (uint16_t *)(void *)model->shadow_arena.base;
    int64_t shape[LT_SHAPE_CAP] = {config->layers, config->channels, config->heads, config->vocab,
                                   config->positions};
    for (int i = 0; i < LT_SHAPE_CAP; i++)
        model->model.shape[i] = shape[i];
}

int lt_gpt2_create(struct lt_model **out, const struct lt_gpt2_config *config,
                   struct lt_gpt2_mode mode, int64_t b, int64_t t, uint64_t seed,
                   struct tacho_error *err)
{
    int rc = check(config, b, t, err);
    if (rc)
        return rc;
    struct gpt2 *model = calloc(1, sizeof *model);
    if (!model)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", config->name);
    model->model = (struct lt_model){.ops = &lt_gpt2_ops, .b = b, .t = t, .vocab = config->vocab};
    model->config = *config;
    model->mode = mode;
    if (model->config.positions < t)
        model->config.positions = t;
    model->slots = lt_threads();
    rc = allocate(model);
    if (rc) {
        lt_model_destroy(&model->model);
        return tacho_fail(err, rc, "choose a smaller model, --batch or --seq, or --recompute block",
                          "%s: not enough memory", config->name);
    }
    describe(model);
    initialise(model, seed);
    lt_parameters_refresh(&model->model.parameters);
    *out = &model->model;
    return 0;
}

struct lt_gpt2_flops lt_gpt2_flops(const struct lt_gpt2_config *config, enum lt_backend backend,
                                   struct lt_gpt2_mode mode, int64_t b, int64_t t,
                                   int64_t micro_steps)
{
    uint64_t l = (uint64_t)config->layers, c = (uint64_t)config->channels, u = (uint64_t)t;
    uint64_t sequences = (uint64_t)(b * micro_steps), pairs = lt_attention_pairs(backend, t);
    uint64_t matrix = 6 * (12 * l * c * c + (uint64_t)config->vocab * c) * sequences * u;
    uint64_t again = mode.recompute == LT_RECOMPUTE_BLOCK
                         ? (l - 1) * (16 * c * c * u + 4 * c * pairs) * sequences
                         : 0;
    return (struct lt_gpt2_flops){.model = matrix + 6 * l * c * u * (u + 1) * sequences,
                                  .palm = matrix + 12 * l * c * u * u * sequences,
                                  .issued = matrix + 14 * l * c * pairs * sequences + again,
                                  .recomputed = again};
}
