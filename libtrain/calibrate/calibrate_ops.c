/* SPDX-License-Identifier: Apache-2.0
 *
 * Every operation of LT_OP_MAP at shapes of GPT-2 124M (those of Llama at its width), through lt_op
 * as in training. An operation whose arguments are of a type that is known here appears by itself;
 * a new type of arguments needs a function that makes them and a line in MAKER.
 *
 * Cold: each call has operands that no call has used for twice the last cache's size. Hot: the same
 * operands over and over.
 */
#include <stdlib.h>
#include <string.h>

#include "libtrain/base/arena.h"
#include "libtrain/calibrate/calibrate.h"
#include "libtrain/ops/gemm.h"
#include "libtrain/ops/ops.h"
#include "tacho_nvtx.h"

#define CHANNELS 768
#define HEADS    12
#define WORDS    50257
#define MOST     ((size_t)1 << 30) /* bytes of all sets of operands */

/* Hands out memory for the operands of one shape; with base NULL it only counts. */
struct making {
    char *base;
    size_t used;
    size_t element; /* bytes of an activation */
    enum lt_op_id op;
    enum lt_dtype dtype;
    char shape[64];
};

static void *take(struct making *making, int64_t count, size_t size)
{
    void *place = making->base ? making->base + making->used : NULL;
    making->used += ((size_t)count * size + 63) / 64 * 64;
    return place;
}

static void *take_elements(struct making *making, int64_t count)
{
    return take(making, count, making->element);
}

static float *take_floats(struct making *making, int64_t count)
{
    return take(making, count, sizeof(float));
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

typedef int (*maker)(void *args, int i, struct making *m);

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

/* A layer's parameters, and as many as leave every cache. */
static int64_t parameters(int i, struct making *making)
{
    static const int64_t counts[] = {12 * CHANNELS * CHANNELS, (int64_t)32 << 20};
    if (i >= (int)(sizeof counts / sizeof *counts))
        return 0;
    snprintf(making->shape, sizeof making->shape, "%lld", (long long)counts[i]);
    return counts[i];
}

static int make_norm(void *args, int i, struct making *making)
{
    struct lt_norm *norm = args;
    *norm = (struct lt_norm){.count = parameters(i, making)};
    norm->x = take_floats(making, norm->count);
    norm->sum = take(making, 1, sizeof(double));
    norm->partial = take(making, (int64_t)lt_norm_partials(norm->count), sizeof(double));
    return norm->count > 0;
}

static int make_zero(void *args, int i, struct making *making)
{
    struct lt_zero *zero = args;
    *zero = (struct lt_zero){.count = parameters(i, making)};
    zero->x = take_floats(making, zero->count);
    return zero->count > 0;
}

static uint16_t *take_shadow(struct making *making, int64_t count)
{
    return making->dtype != LT_DTYPE_FP32 ? take(making, count, sizeof(uint16_t)) : NULL;
}

static int make_clip(void *args, int i, struct making *making)
{
    struct lt_clip *clip = args;
    *clip = (struct lt_clip){.count = parameters(i, making), .scale = 1, .bound = 1};
    clip->x = take_floats(making, clip->count);
    return clip->count > 0;
}

static int make_average(void *args, int i, struct making *making)
{
    struct lt_average *average = args;
    *average = (struct lt_average){.count = parameters(i, making), .share = 0.5};
    average->param = take_floats(making, average->count);
    average->other = take_floats(making, average->count);
    average->shadow = take_shadow(making, average->count);
    return average->count > 0;
}

/* An update of the hidden matrices of one kind, or of as many parameters as they are. */
static int make_update(void *args, int i, struct making *making)
{
    struct lt_update *update = args;
    /* Muon multiplies matrices: one shape of it takes long enough */
    int64_t count = making->op == LT_OP_MUON && i > 0 ? 0 : parameters(i, making),
            rows = 4 * CHANNELS;
    struct lt_weight weight = {.repeat = count / (rows * CHANNELS),
                               .rows = rows,
                               .columns = CHANNELS,
                               .role = LT_WEIGHT_HIDDEN};
    count = weight.repeat * rows * CHANNELS;
    *update = (struct lt_update){.count = count,
                                 .decayed = count,
                                 .repeat = weight.repeat,
                                 .rows = rows,
                                 .columns = CHANNELS,
                                 .role = weight.role,
                                 .terms = {.scale = 1,
                                           .rate = 1e-6,
                                           .decay = 0.1,
                                           .beta1 = 0.9,
                                           .beta2 = 0.95,
                                           .eps = 1e-8,
                                           .momentum = 0.9,
                                           .correction1 = 1,
                                           .correction2 = 1,
                                           .following1 = 1,
                                           .momentum_now = 1,
                                           .momentum_next = 1,
                                           .rectify = 1,
                                           .trust = 1e-3}};
    update->param = take_floats(making, count);
    for (int state = 0; state < LT_UPDATE_STATES; state++)
        update->state[state] =
            take_floats(making, (int64_t)lt_update_state(making->op, state, &weight));
    update->grad = take_floats(making, count);
    update->shadow = take_shadow(making, count);
    update->scratch = take_floats(making, (int64_t)lt_update_scratch(making->op, rows, CHANNELS));
    return count > 0;
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
             : make_norm, struct lt_clip \
             : make_clip, struct lt_average \
             : make_average, struct lt_update \
             : make_update, struct lt_zero \
             : make_zero, default \
             : (maker)NULL)

static const struct {
    const char *pass;
    maker make;
} table[LT_OP_COUNT] = {
#define ROW(id, function, name, p, k) [LT_OP_##id] = {.pass = #p, .make = MAKER(function)},
    LT_OP_MAP(ROW)
#undef ROW
};

/* ---- measuring ----------------------------------------------------------------------------------------------------------------- */

/* What an operation is measured with: one set of operands for each call of a round. */
struct subject {
    enum lt_op_id op;
    struct lt_context context;
    union lt_args *set;
    int sets;
};

/* Seconds of a call: `rounds` times through the first `sets` sets. */
static double time_calls(const struct subject *subject, int sets, int64_t rounds)
{
    double begin = lt_seconds();
    for (int64_t round = 0; round < rounds; round++)
        for (int i = 0; i < sets; i++)
            lt_op(&subject->context, subject->op, &subject->set[i]);
    return (lt_seconds() - begin) / (double)(rounds * sets);
}

/* Times a row: first once to learn how many rounds fill the time that a repeat should take, then
 * in repeats. */
static void measure(struct lt_op_time *row, const struct subject *subject, int sets,
                    const struct lt_calibrate_options *options)
{
    double seconds[LT_CALIBRATE_REPEATS], target = options->quick ? 0.004 : 0.012;
    double once = time_calls(subject, sets, 1), again = time_calls(subject, sets, 1);
    int64_t rounds = (int64_t)(target / ((once < again ? once : again) * sets)) + 1;
    row->repeats = options->quick || once * sets > 0.1 ? 3 : 7;
    for (int i = 0; i < row->repeats; i++)
        seconds[i] = time_calls(subject, sets, rounds);
    row->seconds = lt_median(seconds, row->repeats);
    row->best = seconds[0];
}

/* Appends a row of the result for the operation; NULL: no memory. */
static struct lt_op_time *add(struct lt_calibration *calibration, enum lt_op_id op,
                              enum lt_dtype dtype, const char *shape)
{
    static const char *const passes[][2] = {
        {"FORWARD", "forward"}, {"BACKWARD", "backward"}, {"OPTIMIZER", "optimizer"}};
    struct lt_op_time *grown = realloc(calibration->op, (calibration->ops + 1) * sizeof *grown);
    if (!grown)
        return NULL;
    calibration->op = grown;
    grown[calibration->ops] =
        (struct lt_op_time){.op = lt_op_names()[op], .pass = "", .dtype = lt_dtype_name(dtype)};
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++)
        if (!strcmp(table[op].pass, passes[i][0]))
            grown[calibration->ops].pass = passes[i][1];
    snprintf(grown[calibration->ops].shape, sizeof grown->shape, "%s", shape);
    return &grown[calibration->ops++];
}

/* Returns 0 or TACHO_ENOMEM. */
static int absent(struct lt_calibration *calibration, enum lt_op_id op, enum lt_dtype dtype,
                  const char *reason)
{
    struct lt_op_time *row = add(calibration, op, dtype, "");
    if (!row)
        return TACHO_ENOMEM;
    row->kind = "other";
    row->reason = reason;
    return 0;
}

/* Measures the operation at one shape, cold or hot, and adds its row. */
static int add_row(struct lt_calibration *calibration, const struct subject *subject,
                   const struct making *making, int cold,
                   const struct lt_calibrate_options *options)
{
#define KIND(name, value, text) [value] = text,
    static const char *const kinds[] = {TACHO_WORK_MAP(KIND)};
#undef KIND
    struct tacho_work work;
    struct lt_op_time *row = add(calibration, subject->op, subject->context.dtype, making->shape);
    if (!row)
        return TACHO_ENOMEM;
    lt_op_work(subject->op, &subject->context, &subject->set[0], &work);
    row->kind = kinds[work.kind];
    row->flops = work.flops;
    row->bytes_read = work.bytes_read;
    row->bytes_written = work.bytes_written;
    row->cold = cold;
    measure(row, subject, cold ? subject->sets : 1, options);
    return 0;
}

/* What the optimizer does is the same in every type, unless it writes a copy in that type. */
static int repeats_fp32(enum lt_op_id op, enum lt_dtype dtype, int i, const struct tacho_work *work)
{
    struct lt_context fp32 = {.backend = LT_BACKEND_CPU, .dtype = LT_DTYPE_FP32};
    struct making making = {.element = sizeof(float), .op = op};
    struct tacho_work other;
    union lt_args args;
    memset(&args, 0, sizeof args);
    if (dtype == LT_DTYPE_FP32 || work->pass != TACHO_PASS_OPTIMIZER ||
        !table[op].make(&args, i, &making))
        return 0;
    lt_op_work(op, &fp32, &args, &other);
    return other.bytes_read == work->bytes_read && other.bytes_written == work->bytes_written;
}

/* All calls of one operation at one shape. Returns 1, 0 where there is no such shape, or a negative
 * code. */
static int one(struct lt_calibration *calibration, enum lt_op_id op, enum lt_dtype dtype, int i,
               const struct lt_calibrate_options *options)
{
    struct subject subject = {.op = op, .context = {.backend = LT_BACKEND_CPU, .dtype = dtype}};
    struct making making = {.element = lt_dtype_bytes(dtype), .op = op, .dtype = dtype};
    struct lt_arena arena;
    struct tacho_work work;
    union lt_args first;
    float *base;
    int cores, rc;
    memset(&first, 0, sizeof first);
    if (!table[op].make(&first, i, &making))
        return 0;
    lt_op_work(op, &subject.context, &first, &work);
    if (repeats_fp32(op, dtype, i, &work))
        return 0;
    if (work.kind == TACHO_WORK_MATRIX && !lt_gemm_fast(dtype))
        return absent(calibration, op, dtype,
                      "the GEMM library does not support this type on this CPU");
    size_t size = making.used, room = MOST / size, last = (size_t)lt_cache_bytes(3, &cores);
    last *= (size_t)(cores > 0 ? (lt_threads() + cores - 1) / cores : 1);
    last = options->last_cache ? (size_t)options->last_cache : last;
    size_t sets = 2 * last / (work.bytes_read + work.bytes_written) +
                  1; /* what it touches may be less than it has */
    int cold = sets <= room || sets == 1;
    subject.sets = cold ? (int)sets : 1;
    subject.set = calloc((size_t)subject.sets, sizeof *subject.set);
    struct lt_tensor tensors[] = {{"operands", (size_t)subject.sets * size / sizeof(float), &base}};
    if (!subject.set)
        return TACHO_ENOMEM;
    rc = lt_arena_create(&arena, LT_MEMORY_WORKSPACE, tensors, 1);
    if (rc == 0) {
        lt_calibrate_fill(base, (size_t)subject.sets * size);
        for (int set = 0; set < subject.sets; set++) {
            making.base = (char *)base + (size_t)set * size;
            making.used = 0;
            table[op].make(&subject.set[set], i, &making);
        }
        if (cold)
            rc = add_row(calibration, &subject, &making, 1, options);
        if (rc == 0 &&
            (subject.sets > 1 || !cold)) /* one set may be colder than any cache by itself */
            rc = add_row(calibration, &subject, &making, 0, options);
        lt_arena_destroy(&arena);
    }
    free(subject.set);
    return rc ? rc : 1;
}

static int all_shapes(struct lt_calibration *calibration, enum lt_op_id op, enum lt_dtype dtype,
                      const struct lt_calibrate_options *options)
{
    int rc = 1;
    for (int i = 0; rc > 0 && !(options->quick && i); i++)
        rc = one(calibration, op, dtype, i, options);
    return rc < 0 ? rc : 0;
}

int lt_calibrate_ops(struct lt_calibration *out, const struct lt_calibrate_options *options)
{
    int rc = 0;
    for (int op = 0; op < LT_OP_COUNT && rc == 0; op++)
        for (int dtype = 0; dtype < LT_DTYPE_EMULATED && rc == 0; dtype++)
            rc = table[op].make ? all_shapes(out, (enum lt_op_id)op, (enum lt_dtype)dtype, options)
                                : absent(out, (enum lt_op_id)op, (enum lt_dtype)dtype,
                                         "calibrate_ops.c does not make arguments of its type yet");
    return rc;
}
