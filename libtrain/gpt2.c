/* SPDX-License-Identifier: Apache-2.0 */
#include "libtrain/gpt2.h"

#include <math.h>
#include <stdlib.h>

#include "libtrain/arena.h"
#include "libtrain/random.h"

const struct lt_gpt2_config lt_gpt2_configs[] = {
    {"gpt2-tiny", "0.84 M parameters, bytes as words; a step takes milliseconds", 4, 128, 4, 256, 128, 128, 8},
    {"gpt2-124M", "GPT-2 small: 12 layers, 768 channels, 12 heads", 12, 768, 12, 50257, 1024, 64, 4},
    {"gpt2", "the same as gpt2-124M", 12, 768, 12, 50257, 1024, 64, 4},
    {"gpt2-350M", "GPT-2 medium: 24 layers, 1024 channels, 16 heads", 24, 1024, 16, 50257, 1024, 64, 4},
    {"gpt2-774M", "GPT-2 large: 36 layers, 1280 channels, 20 heads", 36, 1280, 20, 50257, 1024, 64, 4},
    {"gpt2-1558M", "GPT-2 XL: 48 layers, 1600 channels, 25 heads", 48, 1600, 25, 50257, 1024, 64, 4},
    {0},
};

/* Parameters. tensor, elements, standard deviation of the initial value (0: constant), constant. Tensors with weight decay come
 * first, so that the optimizer's pass splits at one place. */
#define MATRICES(X) \
    X(word, v *c, 0.02f, 0) \
    X(position, p *c, 0.02f, 0) \
    X(qkv_weight, l * 3 * c * c, 0.02f, 0) \
    X(projection_weight, l *c *c, 0.02f * residual, 0) \
    X(up_weight, l * 4 * c * c, 0.02f, 0) \
    X(down_weight, l * 4 * c * c, 0.02f * residual, 0)
#define VECTORS(X) \
    X(ln1_weight, l *c, 0, 1) \
    X(ln1_bias, l *c, 0, 0) \
    X(qkv_bias, l * 3 * c, 0, 0) \
    X(projection_bias, l *c, 0, 0) \
    X(ln2_weight, l *c, 0, 1) \
    X(ln2_bias, l *c, 0, 0) \
    X(up_bias, l * 4 * c, 0, 0) \
    X(down_bias, l *c, 0, 0) \
    X(final_weight, c, 0, 1) \
    X(final_bias, c, 0, 0)

/* Activations, kept from forward to backward. tensor, elements. stream: the residual stream before each block, and after the
 * last; middle: the stream between attention and MLP. */
#define ACTIVATIONS(X) \
    X(stream, (l + 1) * n * c) \
    X(ln1, l *n *c) \
    X(ln1_mean, l *n) \
    X(ln1_rstd, l *n) \
    X(qkv, l * 3 * n * c) \
    X(lse, l *b *h *t) \
    X(attention, l *n *c) \
    X(middle, l *n *c) \
    X(ln2, l *n *c) \
    X(ln2_mean, l *n) \
    X(ln2_rstd, l *n) \
    X(up, l * 4 * n * c) \
    X(gelu, l * 4 * n * c) \
    X(final, n *c) \
    X(final_mean, n) \
    X(final_rstd, n) \
    X(logits, n *v) \
    X(losses, n) \
    X(branch, n *c) \
    X(dstream, n *c) \
    X(dbranch, n *c) \
    X(dwide, 4 * n * c) \
    X(dqkv, 3 * n * c) \
    X(scratch, slots *scratch_floats)

struct parameters {
#define FIELD(name, count, deviation, constant) float *name;
    MATRICES(FIELD) VECTORS(FIELD)
#undef FIELD
};

struct activations {
#define FIELD(name, count) float *name;
    ACTIVATIONS(FIELD)
#undef FIELD
};

struct gpt2 {
    struct lt_model model; /* first: a struct lt_model * is a struct gpt2 * */
    struct lt_gpt2_config config;
    int slots;
    struct lt_arena value_arena, grad_arena, activation_arena;
    struct parameters value, grad;
    struct activations act;
};

/* ---- forward and backward ------------------------------------------------------------------------------------------------ */

static void layernorm(const struct lt_context *x, struct lt_layernorm args)
{
    lt_op(x, LT_OP_LAYERNORM_FORWARD, &(union lt_args){.layernorm_forward = args});
}

static void matmul(const struct lt_context *x, struct lt_matmul args)
{
    lt_op(x, LT_OP_MATMUL_FORWARD, &(union lt_args){.matmul_forward = args});
}

static void residual(const struct lt_context *x, float *out, const float *a, const float *b, int64_t count)
{
    lt_op(x, LT_OP_RESIDUAL_FORWARD, &(union lt_args){.residual_forward = {.out = out, .a = a, .b = b, .count = count}});
}

/* The arguments of attention in layer i, for both directions. */
static struct lt_attention attention_args(struct gpt2 *g, int64_t i)
{
    int64_t b = g->model.b, t = g->model.t, n = b * t, c = g->config.channels, h = g->config.heads;
    return (struct lt_attention){.out = g->act.attention + i * n * c,
                                 .lse = g->act.lse + i * b * h * t,
                                 .qkv = g->act.qkv + i * 3 * n * c,
                                 .scratch = g->act.scratch,
                                 .b = b,
                                 .t = t,
                                 .c = c,
                                 .h = h,
                                 .slots = g->slots};
}

static void block_forward(struct gpt2 *g, const struct lt_context *x, int64_t i)
{
    const struct parameters *p = &g->value;
    const struct activations *s = &g->act;
    int64_t n = g->model.b * g->model.t, c = g->config.channels, nc = n * c;
    layernorm(x, (struct lt_layernorm){.out = s->ln1 + i * nc,
                                       .mean = s->ln1_mean + i * n,
                                       .rstd = s->ln1_rstd + i * n,
                                       .in = s->stream + i * nc,
                                       .weight = p->ln1_weight + i * c,
                                       .bias = p->ln1_bias + i * c,
                                       .rows = n,
                                       .c = c});
    matmul(x, (struct lt_matmul){.out = s->qkv + i * 3 * nc,
                                 .in = s->ln1 + i * nc,
                                 .weight = p->qkv_weight + i * 3 * c * c,
                                 .bias = p->qkv_bias + i * 3 * c,
                                 .rows = n,
                                 .n = 3 * c,
                                 .k = c});
    lt_op(x, LT_OP_ATTENTION_FORWARD, &(union lt_args){.attention_forward = attention_args(g, i)});
    matmul(x, (struct lt_matmul){.out = s->branch,
                                 .in = s->attention + i * nc,
                                 .weight = p->projection_weight + i * c * c,
                                 .bias = p->projection_bias + i * c,
                                 .rows = n,
                                 .n = c,
                                 .k = c});
    residual(x, s->middle + i * nc, s->stream + i * nc, s->branch, nc);
    layernorm(x, (struct lt_layernorm){.out = s->ln2 + i * nc,
                                       .mean = s->ln2_mean + i * n,
                                       .rstd = s->ln2_rstd + i * n,
                                       .in = s->middle + i * nc,
                                       .weight = p->ln2_weight + i * c,
                                       .bias = p->ln2_bias + i * c,
                                       .rows = n,
                                       .c = c});
    matmul(x, (struct lt_matmul){.out = s->up + i * 4 * nc,
                                 .in = s->ln2 + i * nc,
                                 .weight = p->up_weight + i * 4 * c * c,
                                 .bias = p->up_bias + i * 4 * c,
                                 .rows = n,
                                 .n = 4 * c,
                                 .k = c});
    lt_op(x, LT_OP_GELU_FORWARD,
          &(union lt_args){.gelu_forward = {.out = s->gelu + i * 4 * nc, .in = s->up + i * 4 * nc, .count = 4 * nc}});
    matmul(x, (struct lt_matmul){.out = s->branch,
                                 .in = s->gelu + i * 4 * nc,
                                 .weight = p->down_weight + i * 4 * c * c,
                                 .bias = p->down_bias + i * c,
                                 .rows = n,
                                 .n = c,
                                 .k = 4 * c});
    residual(x, s->stream + (i + 1) * nc, s->middle + i * nc, s->branch, nc);
}

static double gpt2_forward(struct lt_model *model, const struct lt_context *x, const struct lt_batch *batch, int parts)
{
    struct gpt2 *g = (struct gpt2 *)model;
    const struct parameters *p = &g->value;
    const struct activations *s = &g->act;
    int64_t n = model->b * model->t, c = g->config.channels, l = g->config.layers, v = model->vocab;
    lt_op(x, LT_OP_EMBEDDING_FORWARD,
          &(union lt_args){.embedding_forward = {.out = s->stream,
                                                 .word = p->word,
                                                 .position = p->position,
                                                 .tokens = batch->tokens,
                                                 .b = model->b,
                                                 .t = model->t,
                                                 .c = c,
                                                 .v = v}});
    for (int64_t i = 0; i < l; i++)
        block_forward(g, x, i);
    layernorm(x, (struct lt_layernorm){.out = s->final,
                                       .mean = s->final_mean,
                                       .rstd = s->final_rstd,
                                       .in = s->stream + l * n * c,
                                       .weight = p->final_weight,
                                       .bias = p->final_bias,
                                       .rows = n,
                                       .c = c});
    matmul(x, (struct lt_matmul){.out = s->logits, .in = s->final, .weight = p->word, .rows = n, .n = v, .k = c});
    lt_op(x, LT_OP_CLASSIFIER,
          &(union lt_args){.classifier = {.logits = s->logits,
                                          .losses = s->losses,
                                          .targets = batch->targets,
                                          .rows = n,
                                          .v = v,
                                          .scale = 1.0f / (float)(n * parts),
                                          .backward = !x->evaluation}});
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)s->losses[i];
    return sum / (double)n;
}

/* These two tell that the gradients they leave are final: every parameter is used once, but for the tied word embedding. */
static void layernorm_backward(const struct gpt2 *g, const struct lt_context *x, struct lt_layernorm args)
{
    lt_op(x, LT_OP_LAYERNORM_BACKWARD, &(union lt_args){.layernorm_backward = args});
    lt_model_ready(&g->model, x, args.dweight, (size_t)args.c);
    lt_model_ready(&g->model, x, args.dbias, (size_t)args.c);
}

static void matmul_backward(const struct gpt2 *g, const struct lt_context *x, struct lt_matmul args)
{
    lt_op(x, LT_OP_MATMUL_BACKWARD, &(union lt_args){.matmul_backward = args});
    lt_model_ready(&g->model, x, args.dweight, (size_t)(args.n * args.k));
    lt_model_ready(&g->model, x, args.dbias, (size_t)args.n);
}

/* dstream holds the gradient of the block's output and becomes that of its input; layernorm's backward adds into it, which is
 * the sum of the two paths of the residual connection. */
static void block_backward(struct gpt2 *g, const struct lt_context *x, int64_t i, int accumulate)
{
    const struct parameters *p = &g->value, *d = &g->grad;
    const struct activations *s = &g->act;
    int64_t n = g->model.b * g->model.t, c = g->config.channels, nc = n * c;
    matmul_backward(g, x,
                    (struct lt_matmul){.din = s->dwide,
                                       .dweight = d->down_weight + i * 4 * c * c,
                                       .dbias = d->down_bias + i * c,
                                       .dout = s->dstream,
                                       .in = s->gelu + i * 4 * nc,
                                       .weight = p->down_weight + i * 4 * c * c,
                                       .rows = n,
                                       .n = c,
                                       .k = 4 * c,
                                       .accumulate = accumulate});
    lt_op(x, LT_OP_GELU_BACKWARD,
          &(union lt_args){.gelu_backward = {.in = s->up + i * 4 * nc, .dout = s->dwide, .din = s->dwide, .count = 4 * nc}});
    matmul_backward(g, x,
                    (struct lt_matmul){.din = s->dbranch,
                                       .dweight = d->up_weight + i * 4 * c * c,
                                       .dbias = d->up_bias + i * 4 * c,
                                       .dout = s->dwide,
                                       .in = s->ln2 + i * nc,
                                       .weight = p->up_weight + i * 4 * c * c,
                                       .rows = n,
                                       .n = 4 * c,
                                       .k = c,
                                       .accumulate = accumulate});
    layernorm_backward(g, x,
                       (struct lt_layernorm){.din = s->dstream,
                                             .dweight = d->ln2_weight + i * c,
                                             .dbias = d->ln2_bias + i * c,
                                             .dout = s->dbranch,
                                             .in = s->middle + i * nc,
                                             .weight = p->ln2_weight + i * c,
                                             .mean = s->ln2_mean + i * n,
                                             .rstd = s->ln2_rstd + i * n,
                                             .rows = n,
                                             .c = c});
    matmul_backward(g, x,
                    (struct lt_matmul){.din = s->dbranch,
                                       .dweight = d->projection_weight + i * c * c,
                                       .dbias = d->projection_bias + i * c,
                                       .dout = s->dstream,
                                       .in = s->attention + i * nc,
                                       .weight = p->projection_weight + i * c * c,
                                       .rows = n,
                                       .n = c,
                                       .k = c,
                                       .accumulate = accumulate});
    struct lt_attention attention = attention_args(g, i);
    attention.dout = s->dbranch;
    attention.dqkv = s->dqkv;
    lt_op(x, LT_OP_ATTENTION_BACKWARD, &(union lt_args){.attention_backward = attention});
    matmul_backward(g, x,
                    (struct lt_matmul){.din = s->dbranch,
                                       .dweight = d->qkv_weight + i * 3 * c * c,
                                       .dbias = d->qkv_bias + i * 3 * c,
                                       .dout = s->dqkv,
                                       .in = s->ln1 + i * nc,
                                       .weight = p->qkv_weight + i * 3 * c * c,
                                       .rows = n,
                                       .n = 3 * c,
                                       .k = c,
                                       .accumulate = accumulate});
    layernorm_backward(g, x,
                       (struct lt_layernorm){.din = s->dstream,
                                             .dweight = d->ln1_weight + i * c,
                                             .dbias = d->ln1_bias + i * c,
                                             .dout = s->dbranch,
                                             .in = s->stream + i * nc,
                                             .weight = p->ln1_weight + i * c,
                                             .mean = s->ln1_mean + i * n,
                                             .rstd = s->ln1_rstd + i * n,
                                             .rows = n,
                                             .c = c});
}

static void zero(const struct lt_context *x, float *from, int64_t count)
{
    lt_op(x, LT_OP_ZERO, &(union lt_args){.zero = {.x = from, .count = count}});
}

/* The first micro-step overwrites the weights' gradients, so only those that are always added to are zeroed: positions, vectors
 * (they lie together at the end of the array), and the residual stream's. */
static void gpt2_backward(struct lt_model *model, const struct lt_context *x, const struct lt_batch *batch, int first)
{
    struct gpt2 *g = (struct gpt2 *)model;
    const struct parameters *p = &g->value, *d = &g->grad;
    const struct activations *s = &g->act;
    int64_t n = model->b * model->t, c = g->config.channels, l = g->config.layers, v = model->vocab;
    if (first) {
        zero(x, d->position, g->config.positions * c);
        zero(x, d->ln1_weight, (int64_t)(model->parameters.count - model->parameters.decayed));
    }
    zero(x, s->dstream, n * c);
    lt_op(x, LT_OP_MATMUL_BACKWARD,
          &(union lt_args){.matmul_backward = {.din = s->dbranch,
                                               .dweight = d->word,
                                               .dout = s->logits,
                                               .in = s->final,
                                               .weight = p->word,
                                               .rows = n,
                                               .n = v,
                                               .k = c,
                                               .accumulate = !first}});
    layernorm_backward(g, x,
                       (struct lt_layernorm){.din = s->dstream,
                                             .dweight = d->final_weight,
                                             .dbias = d->final_bias,
                                             .dout = s->dbranch,
                                             .in = s->stream + l * n * c,
                                             .weight = p->final_weight,
                                             .mean = s->final_mean,
                                             .rstd = s->final_rstd,
                                             .rows = n,
                                             .c = c});
    for (int64_t i = l - 1; i >= 0; i--)
        block_backward(g, x, i, !first);
    lt_op(x, LT_OP_EMBEDDING_BACKWARD,
          &(union lt_args){.embedding_backward = {.dout = s->dstream,
                                                  .dword = d->word,
                                                  .dposition = d->position,
                                                  .tokens = batch->tokens,
                                                  .b = model->b,
                                                  .t = model->t,
                                                  .c = c,
                                                  .v = v}});
    lt_model_ready(model, x, d->position, (size_t)(g->config.positions * c));
    lt_model_ready(model, x, d->word, (size_t)(v * c)); /* the LM head's product and the look-up have both added to it */
}

/* ---- making one ---------------------------------------------------------------------------------------------------------- */

static void gpt2_destroy(struct lt_model *model)
{
    struct gpt2 *g = (struct gpt2 *)model;
    lt_arena_destroy(&g->value_arena);
    lt_arena_destroy(&g->grad_arena);
    lt_arena_destroy(&g->activation_arena);
    free(g);
}

static const struct lt_model_ops gpt2_ops = {
    .name = "gpt2", .forward = gpt2_forward, .backward = gpt2_backward, .destroy = gpt2_destroy};

static int check(const struct lt_gpt2_config *k, int64_t b, int64_t t, struct tacho_error *err)
{
    const int64_t most = 1 << 20;
    if (k->layers < 1 || k->channels < 1 || k->heads < 1 || k->vocab < 1 || b < 1 || t < 1 || k->layers > 4096 ||
        k->channels > most || k->vocab > 1 << 24 || b > most || t > most)
        return tacho_fail(err, TACHO_EUSAGE,
                          "layers, channels, heads, vocab, seq and batch must be positive and of a sane size",
                          "%s: impossible shape", k->name);
    if (k->channels % k->heads)
        return tacho_fail(err, TACHO_EUSAGE, "choose --channels as a multiple of --heads",
                          "%s: %lld channels do not divide among %lld heads", k->name, (long long)k->channels,
                          (long long)k->heads);
    return 0;
}

static void fill(float *x, int64_t count, float deviation, float constant, uint64_t key)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < count; i++)
        x[i] = deviation > 0 ? deviation * lt_random_normal(key, (uint64_t)i) : constant;
}

static void initialise(struct gpt2 *g, uint64_t seed)
{
    int64_t l = g->config.layers, c = g->config.channels, v = g->config.vocab, p = g->config.positions;
    float residual = 1.0f / sqrtf(2.0f * (float)l);
    uint64_t tensor = 0;
#define FILL(name, count, deviation, constant) \
    fill(g->value.name, (count), (deviation), (constant), lt_random_bits(seed, tensor++));
    MATRICES(FILL)
    VECTORS(FILL)
#undef FILL
}

/* One arena with the layout of the parameters. */
static int parameter_arena(const struct gpt2 *g, struct lt_arena *arena, enum lt_memory_tag tag, struct parameters *at)
{
    size_t l = (size_t)g->config.layers, c = (size_t)g->config.channels, v = (size_t)g->config.vocab,
           p = (size_t)g->config.positions;
    const struct lt_tensor table[] = {
#define ROW(n, size, deviation, constant) {.name = #n, .count = (size), .slot = &at->n},
        MATRICES(ROW) VECTORS(ROW)
#undef ROW
    };
    return lt_arena_create(arena, tag, table, sizeof table / sizeof *table);
}

static int activation_arena(struct gpt2 *g)
{
    size_t l = (size_t)g->config.layers, c = (size_t)g->config.channels, v = (size_t)g->config.vocab,
           h = (size_t)g->config.heads;
    size_t b = (size_t)g->model.b, t = (size_t)g->model.t, n = b * t;
    size_t slots = (size_t)g->slots, scratch_floats = lt_attention_scratch(g->model.t);
    const struct lt_tensor table[] = {
#define ROW(n_, size) {.name = #n_, .count = (size), .slot = &g->act.n_},
        ACTIVATIONS(ROW)
#undef ROW
    };
    return lt_arena_create(&g->activation_arena, LT_MEMORY_ACTIVATIONS, table, sizeof table / sizeof *table);
}

static void describe(struct gpt2 *g)
{
    const struct lt_gpt2_config *k = &g->config;
    size_t l = (size_t)k->layers, c = (size_t)k->channels, v = (size_t)k->vocab, p = (size_t)k->positions;
    struct lt_parameters *q = &g->model.parameters;
    *q = (struct lt_parameters){.value = g->value_arena.base, .grad = g->grad_arena.base};
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

int lt_gpt2_create(struct lt_model **out, const struct lt_gpt2_config *config, int64_t b, int64_t t, uint64_t seed,
                   struct tacho_error *err)
{
    int rc = check(config, b, t, err);
    if (rc)
        return rc;
    struct gpt2 *g = calloc(1, sizeof *g);
    if (!g)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", config->name);
    g->model = (struct lt_model){.ops = &gpt2_ops, .b = b, .t = t, .vocab = config->vocab};
    g->config = *config;
    if (g->config.positions < t)
        g->config.positions = t;
    g->slots = lt_threads();
    rc = parameter_arena(g, &g->value_arena, LT_MEMORY_PARAMETERS, &g->value);
    rc = rc ? rc : parameter_arena(g, &g->grad_arena, LT_MEMORY_GRADIENTS, &g->grad);
    rc = rc ? rc : activation_arena(g);
    if (rc) {
        gpt2_destroy(&g->model);
        return tacho_fail(err, rc, "choose a smaller model, --batch or --seq", "%s: not enough memory", config->name);
    }
    describe(g);
    initialise(g, seed);
    *out = &g->model;
    return 0;
}

struct lt_gpt2_flops lt_gpt2_flops(const struct lt_gpt2_config *k, enum lt_backend backend, int64_t b, int64_t t,
                                   int64_t micro_steps)
{
    uint64_t l = (uint64_t)k->layers, c = (uint64_t)k->channels, u = (uint64_t)t, sequences = (uint64_t)(b * micro_steps);
    uint64_t matrix = 6 * (12 * l * c * c + (uint64_t)k->vocab * c) * sequences * u;
    return (struct lt_gpt2_flops){.model = matrix + 6 * l * c * u * (u + 1) * sequences,
                                  .palm = matrix + 12 * l * c * u * u * sequences,
                                  .issued = matrix + 14 * l * c * lt_attention_pairs(backend, t) * sequences};
}
