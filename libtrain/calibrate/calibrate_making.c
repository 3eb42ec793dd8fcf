/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments of every operation of LT_OP_MAP at shapes of GPT-2 124M (those of Llama and of a
 * mixture at its width), and of ResNet-18. An operation whose arguments are of a type that is known
 * here appears by itself; a new type of arguments needs a function that makes them and a line in
 * MAKER.
 */
#include "libtrain/calibrate/calibrate_making.h"

#include <stdio.h>

#define CHANNELS LT_MAKING_CHANNELS
#define HEADS    12
#define WORDS    50257

static void *take_elements(struct making *making, int64_t count)
{
    return take(making, count, making->element);
}

/* Words that look drawn at random. */
static int32_t *take_words(struct making *making, int64_t count)
{
    int32_t *words = take(making, count, sizeof *words);
    for (int64_t i = 0; words && i < count; i++)
        words[i] = (int32_t)((uint64_t)i * 2654435761u % WORDS);
    return words;
}

/* ---- makers: fill the arguments of the i-th shape, return 0 after the last ----------------------------------------------------- */

static const int64_t tokens[] = {64, 256}; /* a sample; four samples */
#define BATCH  4
#define SHAPES ((int)(sizeof tokens / sizeof *tokens))

static int shape(struct making *making, int64_t rows, int columns)
{
    snprintf(making->shape, sizeof making->shape, "%lld x %d", (long long)rows, columns);
    return 1;
}

static int make_embedding(void *args, int i, struct making *making)
{
    struct lt_embedding *embedding = args;
    if (i >= SHAPES)
        return 0;
    int64_t t = tokens[i], count = BATCH * t * CHANNELS;
    *embedding = (struct lt_embedding){.b = BATCH, .t = t, .c = CHANNELS, .v = WORDS};
    embedding->out = take_elements(making, count);
    embedding->dout = take_elements(making, count);
    embedding->word = take_elements(making, (int64_t)WORDS * CHANNELS);
    embedding->position = take_elements(making, t * CHANNELS);
    embedding->dword = take_floats(making, (int64_t)WORDS * CHANNELS);
    embedding->dposition = take_floats(making, t * CHANNELS);
    embedding->tokens = take_words(making, BATCH * t);
    snprintf(making->shape, sizeof making->shape, "%d x %lld tokens, C %d", BATCH, (long long)t,
             CHANNELS);
    return 1;
}

static int make_layernorm(void *args, int i, struct making *making)
{
    struct lt_layernorm *layernorm = args;
    if (i >= SHAPES)
        return 0;
    int64_t rows = BATCH * tokens[i], count = rows * CHANNELS;
    *layernorm = (struct lt_layernorm){.rows = rows, .c = CHANNELS};
    layernorm->out = take_elements(making, count);
    layernorm->in = take_elements(making, count);
    layernorm->dout = take_elements(making, count);
    layernorm->din = take_elements(making, count);
    layernorm->mean = take_floats(making, rows);
    layernorm->rstd = take_floats(making, rows);
    layernorm->weight = take_floats(making, CHANNELS);
    layernorm->bias = take_floats(making, CHANNELS);
    layernorm->dweight = take_floats(making, CHANNELS);
    layernorm->dbias = take_floats(making, CHANNELS);
    return shape(making, rows, CHANNELS);
}

/* The linear layers of a block of GPT-2 124M and its LM head, at each number of rows. */
static int make_matmul(void *args, int i, struct making *making)
{
    static const int64_t layers[][2] = {{3 * CHANNELS, CHANNELS},
                                        {CHANNELS, CHANNELS},
                                        {4 * CHANNELS, CHANNELS},
                                        {CHANNELS, 4 * CHANNELS},
                                        {WORDS, CHANNELS}};
    struct lt_matmul *matmul = args;
    int count = (int)(sizeof layers / sizeof *layers);
    if (i >= SHAPES * count)
        return 0;
    int64_t rows = BATCH * tokens[i / count], n = layers[i % count][0], k = layers[i % count][1];
    *matmul = (struct lt_matmul){.rows = rows, .n = n, .k = k};
    matmul->out = take_elements(making, rows * n);
    matmul->in = take_elements(making, rows * k);
    matmul->weight = take_elements(making, n * k);
    matmul->bias = take_floats(making, n);
    matmul->dout = take_elements(making, rows * n);
    matmul->din = take_elements(making, rows * k);
    matmul->dweight = take_floats(making, n * k);
    matmul->dbias = take_floats(making, n);
    snprintf(making->shape, sizeof making->shape, "%lld x %lld x %lld", (long long)rows,
             (long long)n, (long long)k);
    return 1;
}

static int make_attention(void *args, int i, struct making *making)
{
    struct lt_attention *attention = args;
    if (i >= SHAPES)
        return 0;
    int64_t t = tokens[i], count = BATCH * t * CHANNELS;
    *attention =
        (struct lt_attention){.b = BATCH, .t = t, .c = CHANNELS, .h = HEADS, .slots = lt_threads()};
    attention->out = take_elements(making, count);
    attention->qkv = take_elements(making, 3 * count);
    attention->dout = take_elements(making, count);
    attention->dqkv = take_elements(making, 3 * count);
    attention->lse = take_floats(making, BATCH * HEADS * t);
    attention->scratch =
        take(making,
             attention->slots * (int64_t)lt_attention_scratch(making->dtype, t, CHANNELS / HEADS),
             sizeof(float));
    snprintf(making->shape, sizeof making->shape, "%d x %lld tokens, %d heads of %d", BATCH,
             (long long)t, HEADS, CHANNELS / HEADS);
    return 1;
}

static int make_gelu(void *args, int i, struct making *making)
{
    struct lt_gelu *gelu = args;
    if (i >= SHAPES)
        return 0;
    *gelu = (struct lt_gelu){.count = BATCH * tokens[i] * 4 * CHANNELS};
    gelu->out = take_elements(making, gelu->count);
    gelu->in = take_elements(making, gelu->count);
    gelu->dout = take_elements(making, gelu->count);
    gelu->din = take_elements(making, gelu->count);
    return shape(making, (BATCH * tokens[i]), 4 * CHANNELS);
}

/* The shapes of TinyLlama's block at GPT-2's width: a third of the heads for keys and values, and a
 * hidden width of 8/3. */
#define GROUPS 4
#define HIDDEN 2048

static int make_rmsnorm(void *args, int i, struct making *making)
{
    struct lt_rmsnorm *norm = args;
    if (i >= SHAPES)
        return 0;
    int64_t rows = BATCH * tokens[i], count = rows * CHANNELS;
    *norm = (struct lt_rmsnorm){.rows = rows, .c = CHANNELS, .add = 1};
    norm->out = take_elements(making, count);
    norm->in = take_elements(making, count);
    norm->dout = take_elements(making, count);
    norm->din = take_elements(making, count);
    norm->rstd = take_floats(making, rows);
    norm->weight = take_floats(making, CHANNELS);
    norm->dweight = take_floats(making, CHANNELS);
    return shape(making, rows, CHANNELS);
}

static int make_rope(void *args, int i, struct making *making)
{
    struct lt_rope *rope = args;
    if (i >= SHAPES)
        return 0;
    int64_t t = tokens[i], d = CHANNELS / HEADS, wide = BATCH * t * 3 * CHANNELS,
            narrow = BATCH * t * (CHANNELS + 2 * GROUPS * d);
    *rope = (struct lt_rope){.b = BATCH, .t = t, .c = CHANNELS, .h = HEADS, .groups = GROUPS};
    rope->out = take_elements(making, wide);
    rope->in = take_elements(making, narrow);
    rope->dout = take_elements(making, wide);
    rope->din = take_elements(making, narrow);
    rope->turn = take_floats(making, t * d);
    snprintf(making->shape, sizeof making->shape, "%d x %lld tokens, %d heads of %d, %d groups",
             BATCH, (long long)t, HEADS, CHANNELS / HEADS, GROUPS);
    return 1;
}

static int make_swiglu(void *args, int i, struct making *making)
{
    struct lt_swiglu *swiglu = args;
    if (i >= SHAPES)
        return 0;
    int64_t count = BATCH * tokens[i] * HIDDEN;
    *swiglu = (struct lt_swiglu){.rows = BATCH * tokens[i], .f = HIDDEN};
    swiglu->out = take_elements(making, count);
    swiglu->in = take_elements(making, 2 * count);
    swiglu->dout = take_elements(making, count);
    swiglu->din = take_elements(making, 2 * count);
    return shape(making, swiglu->rows, HIDDEN);
}

static int make_residual(void *args, int i, struct making *making)
{
    struct lt_residual *residual = args;
    if (i >= SHAPES)
        return 0;
    *residual = (struct lt_residual){.count = BATCH * tokens[i] * CHANNELS};
    residual->out = take_elements(making, residual->count);
    residual->a = take_elements(making, residual->count);
    residual->b = take_elements(making, residual->count);
    return shape(making, (BATCH * tokens[i]), CHANNELS);
}

static int make_classifier(void *args, int i, struct making *making)
{
    struct lt_classifier *classifier = args;
    if (i >= SHAPES)
        return 0;
    *classifier =
        (struct lt_classifier){.rows = BATCH * tokens[i], .v = WORDS, .scale = 1.0f, .backward = 1};
    classifier->logits = take_elements(making, classifier->rows * classifier->v);
    classifier->losses = take_floats(making, classifier->rows);
    classifier->targets = take_words(making, classifier->rows);
    return shape(making, classifier->rows, WORDS);
}

/* Half of the vocabulary, as one of two ranks has it. */
static int make_embedding_part(void *args, int i, struct making *making)
{
    struct lt_embedding_part *part = args;
    struct lt_embedding whole;
    if (!make_embedding(&whole, i, making))
        return 0;
    *part = (struct lt_embedding_part){.out = whole.out,
                                       .word = whole.word,
                                       .position = whole.position,
                                       .tokens = whole.tokens,
                                       .dout = whole.dout,
                                       .dword = whole.dword,
                                       .dposition = whole.dposition,
                                       .b = whole.b,
                                       .t = whole.t,
                                       .c = whole.c,
                                       .v = WORDS / 2};
    return 1;
}

static int make_classifier_part(void *args, int i, struct making *making)
{
    struct lt_classifier_part *part = args;
    if (i >= SHAPES)
        return 0;
    *part = (struct lt_classifier_part){
        .rows = BATCH * tokens[i], .v = WORDS / 2, .ranks = 2, .scale = 1.0f, .backward = 1};
    part->logits = take_elements(making, part->rows * part->v);
    part->losses = take_floats(making, part->rows);
    part->stats = take_floats(making, 2 * 3 * part->rows);
    part->targets = take_words(making, part->rows);
    return shape(making, part->rows, WORDS / 2);
}

/* ---- images, experts ---------------------------------------------------------------------------- */

#define IMAGES 8

/* The stages of ResNet-18 for images of 224 pixels: pixels a side, channels. */
static const int64_t stages[][2] = {{56, 64}, {28, 128}, {14, 256}, {7, 512}};
#define STAGES ((int)(sizeof stages / sizeof *stages))

static int stage_shape(struct making *making, int i)
{
    snprintf(making->shape, sizeof making->shape, "%d x %lld x %lld pixels, %lld channels", IMAGES,
             (long long)stages[i][0], (long long)stages[i][0], (long long)stages[i][1]);
    return 1;
}

/* Elements of a stage. */
static int64_t stage_count(int i)
{
    return IMAGES * stages[i][0] * stages[i][0] * stages[i][1];
}

/* What both directions read and write: `ins` elements on one side, `outs` on the other. */
#define TAKE(args, making, ins, outs) \
    do { \
        (args)->in = take_elements((making), (ins)); \
        (args)->din = take_elements((making), (ins)); \
        (args)->out = take_elements((making), (outs)); \
        (args)->dout = take_elements((making), (outs)); \
    } while (0)

static int make_image(void *args, int i, struct making *making)
{
    struct lt_image *image = args;
    if (i > 0)
        return 0;
    *image = (struct lt_image){.count = IMAGES * 224 * 224 * 3};
    image->out = take_elements(making, image->count);
    image->in = take_floats(making, image->count);
    return shape(making, IMAGES, 224 * 224 * 3);
}

static int make_conv(void *args, int i, struct making *making)
{
    struct lt_conv *conv = args;
    if (i >= STAGES)
        return 0;
    int64_t side = stages[i][0], c = stages[i][1];
    *conv = (struct lt_conv){
        .b = IMAGES, .h = side, .w = side, .c = c, .n = c, .k = 3, .stride = 1, .pad = 1};
    TAKE(conv, making, stage_count(i), stage_count(i));
    conv->weight = take_elements(making, 9 * c * c);
    conv->dweight = take_floats(making, 9 * c * c);
    conv->scratch = take_floats(making, (int64_t)lt_conv_scratch(making->dtype, conv));
    return stage_shape(making, i);
}

static int make_batchnorm(void *args, int i, struct making *making)
{
    struct lt_batchnorm *norm = args;
    if (i >= STAGES)
        return 0;
    int64_t c = stages[i][1];
    *norm = (struct lt_batchnorm){.rows = IMAGES * stages[i][0] * stages[i][0], .c = c};
    TAKE(norm, making, stage_count(i), stage_count(i));
    float **vectors[] = {&norm->mean,    &norm->rstd, &norm->running_mean, &norm->running_variance,
                         &norm->dweight, &norm->dbias};
    for (size_t j = 0; j < sizeof vectors / sizeof *vectors; j++)
        *vectors[j] = take_floats(making, c);
    norm->weight = take_floats(making, c);
    norm->bias = take_floats(making, c);
    norm->scratch = take_floats(making, (int64_t)lt_batchnorm_scratch(c));
    return stage_shape(making, i);
}

static int make_relu(void *args, int i, struct making *making)
{
    struct lt_relu *relu = args;
    if (i >= STAGES)
        return 0;
    *relu = (struct lt_relu){.count = stage_count(i)};
    TAKE(relu, making, relu->count, relu->count);
    return stage_shape(making, i);
}

/* The pool behind the stem. */
static int make_maxpool(void *args, int i, struct making *making)
{
    struct lt_maxpool *pool = args;
    int64_t c = 64, count = IMAGES * 56 * 56 * c;
    if (i > 0)
        return 0;
    *pool =
        (struct lt_maxpool){.b = IMAGES, .h = 112, .w = 112, .c = c, .k = 3, .stride = 2, .pad = 1};
    TAKE(pool, making, 4 * count, count);
    pool->where = take(making, count, sizeof *pool->where);
    snprintf(making->shape, sizeof making->shape, "%d x 112 x 112 pixels, 64 channels", IMAGES);
    return 1;
}

static int make_avgpool(void *args, int i, struct making *making)
{
    struct lt_avgpool *pool = args;
    if (i > 0)
        return 0;
    i = STAGES - 1;
    *pool =
        (struct lt_avgpool){.b = IMAGES, .pixels = stages[i][0] * stages[i][0], .c = stages[i][1]};
    TAKE(pool, making, stage_count(i), IMAGES * pool->c);
    return stage_shape(making, i);
}

/* Eight experts, two a token, with room for a quarter more than an even share. */
#define EXPERTS        8
#define CHOICES        2
#define CAPACITY(rows) ((rows)*CHOICES * 5 / (4 * EXPERTS))

static int mixture_shape(struct making *making, int64_t rows)
{
    snprintf(making->shape, sizeof making->shape, "%lld x %d, %d of %d experts", (long long)rows,
             CHANNELS, CHOICES, EXPERTS);
    return 1;
}

/* Slots as an even router fills them. */
static int32_t *take_slots(struct making *making, int64_t rows)
{
    int32_t *slots = take(making, rows * CHOICES, sizeof *slots);
    for (int64_t j = 0; slots && j < rows * CHOICES; j++)
        slots[j] = (int32_t)(j % EXPERTS * CAPACITY(rows) + j / EXPERTS);
    return slots;
}

static int make_route(void *args, int i, struct making *making)
{
    struct lt_route *route = args;
    if (i >= SHAPES)
        return 0;
    int64_t rows = BATCH * tokens[i];
    *route = (struct lt_route){.rows = rows,
                               .experts = EXPERTS,
                               .k = CHOICES,
                               .capacity = CAPACITY(rows),
                               .balance = 0.01f};
    route->in = take_elements(making, rows * EXPERTS);
    route->din = take_elements(making, rows * EXPERTS);
    route->gate = take_floats(making, rows * CHOICES);
    route->dgate = take_floats(making, rows * CHOICES);
    route->share = take_floats(making, rows * EXPERTS);
    route->load = take_floats(making, EXPERTS);
    route->slot = take_slots(making, rows);
    return mixture_shape(making, rows);
}

static int make_dispatch(void *args, int i, struct making *making)
{
    struct lt_dispatch *dispatch = args;
    if (i >= SHAPES)
        return 0;
    int64_t rows = BATCH * tokens[i], slots = EXPERTS * CAPACITY(rows);
    *dispatch = (struct lt_dispatch){.rows = rows, .k = CHOICES, .slots = slots, .c = CHANNELS};
    TAKE(dispatch, making, rows * CHANNELS, slots * CHANNELS);
    dispatch->slot = take_slots(making, rows);
    return mixture_shape(making, rows);
}

/* The first layer of each expert. */
static int make_experts(void *args, int i, struct making *making)
{
    struct lt_experts *experts = args;
    if (i >= SHAPES)
        return 0;
    int64_t rows = BATCH * tokens[i], slots = EXPERTS * CAPACITY(rows), n = 2 * HIDDEN;
    *experts = (struct lt_experts){.experts = EXPERTS,
                                   .capacity = CAPACITY(rows),
                                   .n = n,
                                   .k = CHANNELS,
                                   .routed = rows * CHOICES};
    TAKE(experts, making, slots * CHANNELS, slots * n);
    experts->weight = take_elements(making, EXPERTS * n * CHANNELS);
    experts->dweight = take_floats(making, EXPERTS * n * CHANNELS);
    return mixture_shape(making, rows);
}

static int make_combine(void *args, int i, struct making *making)
{
    struct lt_combine *combine = args;
    if (i >= SHAPES)
        return 0;
    int64_t rows = BATCH * tokens[i], slots = EXPERTS * CAPACITY(rows);
    *combine = (struct lt_combine){.rows = rows, .k = CHOICES, .slots = slots, .c = CHANNELS};
    TAKE(combine, making, slots * CHANNELS, rows * CHANNELS);
    combine->gate = take_floats(making, rows * CHOICES);
    combine->dgate = take_floats(making, rows * CHOICES);
    combine->slot = take_slots(making, rows);
    return mixture_shape(making, rows);
}

/* By the type of an operation's arguments. */
#define MAKER(member) \
    _Generic(((union lt_args *)NULL)->member, struct lt_embedding \
             : make_embedding, struct lt_layernorm \
             : make_layernorm, struct lt_matmul \
             : make_matmul, struct lt_attention \
             : make_attention, struct lt_gelu \
             : make_gelu, struct lt_rmsnorm \
             : make_rmsnorm, struct lt_rope \
             : make_rope, struct lt_swiglu \
             : make_swiglu, struct lt_residual \
             : make_residual, struct lt_classifier \
             : make_classifier, struct lt_embedding_part \
             : make_embedding_part, struct lt_classifier_part \
             : make_classifier_part, struct lt_norm \
             : lt_make_norm, struct lt_clip \
             : lt_make_clip, struct lt_centre \
             : lt_make_centre, struct lt_rounding \
             : lt_make_rounding, struct lt_average \
             : lt_make_average, struct lt_update \
             : lt_make_update, struct lt_kfac_factors \
             : lt_make_kfac_factors, struct lt_kfac_average \
             : lt_make_kfac_average, struct lt_kfac_inverse \
             : lt_make_kfac_inverse, struct lt_kfac_direction \
             : lt_make_kfac_direction, struct lt_image \
             : make_image, struct lt_conv \
             : make_conv, struct lt_batchnorm \
             : make_batchnorm, struct lt_relu \
             : make_relu, struct lt_maxpool \
             : make_maxpool, struct lt_avgpool \
             : make_avgpool, struct lt_route \
             : make_route, struct lt_dispatch \
             : make_dispatch, struct lt_experts \
             : make_experts, struct lt_combine \
             : make_combine, struct lt_zero \
             : lt_make_zero, default \
             : (lt_make)NULL)

const struct lt_maker lt_makers[LT_OP_COUNT] = {
#define ROW(id, function, name, p, k) [LT_OP_##id] = {.pass = #p, .make = MAKER(function)},
    LT_OP_MAP(ROW)
#undef ROW
};
