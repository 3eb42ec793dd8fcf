/* SPDX-License-Identifier: Apache-2.0
 *
 * GPT-2: named sizes, memory, initial values, and the closed forms of what a step costs.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/models/gpt2_layout.h"
#include "libtrain/ops/random.h"
#include "libtrain/train/optimizer.h"

const struct lt_gpt2_config lt_gpt2_configs[] = {
    {"gpt2-tiny", "0.84 M parameters, bytes as words; a step takes milliseconds", 4, 128, 4, 256,
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

static int check(const struct lt_gpt2_config *k, int64_t b, int64_t t, struct tacho_error *err)
{
    const int64_t most = 1 << 20;
    if (k->layers < 1 || k->channels < 1 || k->heads < 1 || k->vocab < 1 || b < 1 || t < 1 ||
        k->layers > 4096 || k->channels > most || k->vocab > 1 << 24 || b > most || t > most)
        return tacho_fail(
            err, TACHO_EUSAGE,
            "layers, channels, heads, vocab, seq and batch must be positive and of a sane size",
            "%s: impossible shape", k->name);
    if (k->channels % k->heads)
        return tacho_fail(err, TACHO_EUSAGE, "choose --channels as a multiple of --heads",
                          "%s: %lld channels do not divide among %lld heads", k->name,
                          (long long)k->channels, (long long)k->heads);
    return 0;
}

static void fill(float *x, int64_t count, float deviation, float constant, uint64_t key)
{
    if (deviation > 0) {
        lt_random_fill(x, count, deviation, key);
        return;
    }
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < count; i++)
        x[i] = constant;
}

static void initialise(struct gpt2 *g, uint64_t seed)
{
    int64_t l = g->config.layers, c = g->config.channels, v = g->config.vocab,
            p = g->config.positions;
    float residual = 1.0f / sqrtf(2.0f * (float)l);
    uint64_t tensor = 0;
#define FILL(name, count, deviation, constant) \
    fill(g->value.name, (count), (deviation), (constant), lt_random_bits(seed, tensor++));
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
#define ROW(n, size, deviation, constant) {.name = #n, .count = (size), .slot = &at->n},
        MATRICES(ROW) VECTORS(ROW)
#undef ROW
    };
    memcpy(table, rows, sizeof rows);
    return sizeof rows / sizeof *rows;
}

/* Activations, or with `workspace` what lies beside them. */
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
    memcpy(table, workspace ? beside : kept, workspace ? sizeof beside : sizeof kept);
    return workspace ? sizeof beside / sizeof *beside : sizeof kept / sizeof *kept;
}

static size_t padded(const struct lt_tensor *table, size_t rows)
{
    size_t count = 0;
    for (size_t i = 0; i < rows; i++)
        count += lt_arena_padded(table[i].count);
    return count;
}

/* All arenas of the model. */
static int allocate(struct gpt2 *g)
{
    struct lt_tensor table[TENSORS];
    int64_t b = g->model.b, t = g->model.t;
    size_t rows = parameter_table(table, &g->config, &g->value);
    float *copy = NULL;
    int rc = lt_arena_create(&g->value_arena, LT_MEMORY_PARAMETERS, table, rows);
    struct lt_tensor shadow = {
        .name = "shadow", .count = (padded(table, rows) + 1) / 2, .slot = &copy};
    if (rc == 0 && g->mode.dtype != LT_DTYPE_FP32)
        rc = lt_arena_create(&g->shadow_arena, LT_MEMORY_PARAMETERS, &shadow, 1);
    rows = parameter_table(table, &g->config, &g->grad);
    rc = rc ? rc : lt_arena_create(&g->grad_arena, LT_MEMORY_GRADIENTS, table, rows);
    rows = activation_table(table, &g->config, g->mode, b, t, g->slots, 0, &g->act);
    rc = rc ? rc : lt_arena_create(&g->activation_arena, LT_MEMORY_ACTIVATIONS, table, rows);
    rows = activation_table(table, &g->config, g->mode, b, t, g->slots, 1, &g->act);
    return rc ? rc : lt_arena_create(&g->workspace_arena, LT_MEMORY_WORKSPACE, table, rows);
}

static void describe(struct gpt2 *g)
{
    const struct lt_gpt2_config *k = &g->config;
    size_t l = (size_t)k->layers, c = (size_t)k->channels, v = (size_t)k->vocab,
           p = (size_t)k->positions;
    struct lt_parameters *q = &g->model.parameters;
    *q = (struct lt_parameters){.value = g->value_arena.base,
                                .grad = g->grad_arena.base,
                                .shadow = (uint16_t *)(void *)g->shadow_arena.base};
    q->count = g->value_arena.count;
    q->decayed = (size_t)(g->value.ln1_weight - g->value_arena.base);
#define ADD(name, size, deviation, constant) q->trainable += (size);
    MATRICES(ADD)
    VECTORS(ADD)
#undef ADD
    q->matrix = 12 * l * c * c + v * c;
    int64_t shape[LT_SHAPE_CAP] = {k->layers, k->channels, k->heads, k->vocab, k->positions};
    for (int i = 0; i < LT_SHAPE_CAP; i++)
        g->model.shape[i] = shape[i];
}

int lt_gpt2_create(struct lt_model **out, const struct lt_gpt2_config *config,
                   struct lt_gpt2_mode mode, int64_t b, int64_t t, uint64_t seed,
                   struct tacho_error *err)
{
    int rc = check(config, b, t, err);
    if (rc)
        return rc;
    struct gpt2 *g = calloc(1, sizeof *g);
    if (!g)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", config->name);
    g->model = (struct lt_model){.ops = &lt_gpt2_ops, .b = b, .t = t, .vocab = config->vocab};
    g->config = *config;
    g->mode = mode;
    if (g->config.positions < t)
        g->config.positions = t;
    g->slots = lt_threads();
    rc = allocate(g);
    if (rc) {
        lt_model_destroy(&g->model);
        return tacho_fail(err, rc, "choose a smaller model, --batch or --seq, or --recompute block",
                          "%s: not enough memory", config->name);
    }
    describe(g);
    initialise(g, seed);
    lt_parameters_refresh(&g->model.parameters);
    *out = &g->model;
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
