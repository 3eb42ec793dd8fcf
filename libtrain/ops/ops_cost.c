/* SPDX-License-Identifier: Apache-2.0
 *
 * What each operation costs, from its shapes alone (docs/engine.md has the closed forms of a whole
 * step).
 *
 * Matrix and attention work counts its multiply-adds, 2 each; a bias, a mask or a softmax inside it
 * is not included. Element-wise work counts its arithmetic: one for each +, -, *, / and one for
 * each exp, log, tanh or square root. It is no model FLOP. Bytes: every tensor the operation must
 * see once, at its size; what stays inside the operation is not traffic.
 */
#include "libtrain/ops/kernels.h"
#include "tacho_nvtx.h"

static uint64_t u(int64_t count)
{
    return (uint64_t)count;
}

/* Traffic: tensors of the context's type (activations, their gradients, weights that GEMMs
 * read), and of four bytes an element (statistics, losses, biases, parameters of layernorm,
 * gradients of parameters, tokens). */
struct traffic {
    uint64_t elements, words;
};

static uint64_t bytes(const struct lt_context *context, struct traffic traffic)
{
    return traffic.elements * lt_dtype_bytes(context->dtype) + traffic.words * sizeof(float);
}

static void work_of(struct tacho_work *work, const struct lt_context *context, uint64_t flops,
                    struct traffic read, struct traffic written)
{
    work->flops = flops;
    work->bytes_read = bytes(context, read);
    work->bytes_written = bytes(context, written);
}

/* The optimizer's passes: arithmetic, floats read, floats written. */
static void flat(struct tacho_work *work, uint64_t flops, uint64_t read, uint64_t written)
{
    work->flops = flops;
    work->bytes_read = read * sizeof(float);
    work->bytes_written = written * sizeof(float);
}

void lt_cost_embedding_forward(const struct lt_context *context, const union lt_args *args,
                               struct tacho_work *work)
{
    const struct lt_embedding *embedding = &args->embedding_forward;
    uint64_t tokens = u(embedding->b * embedding->t), n = tokens * u(embedding->c),
             p = embedding->position ? u(embedding->t * embedding->c) : 0;
    work_of(work, context, p ? n : 0, (struct traffic){n + p, tokens}, (struct traffic){n, 0});
}

void lt_cost_embedding_backward(const struct lt_context *context, const union lt_args *args,
                                struct tacho_work *work)
{
    const struct lt_embedding *embedding = &args->embedding_backward;
    uint64_t tokens = u(embedding->b * embedding->t), n = tokens * u(embedding->c),
             p = embedding->dposition ? u(embedding->t * embedding->c) : 0;
    work_of(work, context, p ? 2 * n : n, (struct traffic){n, tokens + n + p},
            (struct traffic){0, n + p});
}

void lt_cost_layernorm_forward(const struct lt_context *context, const union lt_args *args,
                               struct tacho_work *work)
{
    const struct lt_layernorm *layernorm = &args->layernorm_forward;
    uint64_t n = u(layernorm->rows * layernorm->c);
    /* mean 1, variance 3, normalise 2, scale and shift 2 */
    work_of(work, context, 8 * n, (struct traffic){n, 2 * u(layernorm->c)},
            (struct traffic){n, 2 * u(layernorm->rows)});
}

void lt_cost_layernorm_backward(const struct lt_context *context, const union lt_args *args,
                                struct tacho_work *work)
{
    const struct lt_layernorm *layernorm = &args->layernorm_backward;
    uint64_t n = u(layernorm->rows * layernorm->c);
    /* normalised value 2, its gradient 1, two sums 3, input gradient 4 and its addition 1, dweight
     * 2, dbias 1 */
    work_of(work, context, 14 * n,
            (struct traffic){3 * n, 2 * u(layernorm->rows) + 3 * u(layernorm->c)},
            (struct traffic){n, 2 * u(layernorm->c)});
}

void lt_cost_matmul_forward(const struct lt_context *context, const union lt_args *args,
                            struct tacho_work *work)
{
    const struct lt_matmul *matmul = &args->matmul_forward;
    uint64_t flops = 2 * u(matmul->rows) * u(matmul->n) * u(matmul->k);
    work_of(work, context, flops,
            (struct traffic){u(matmul->rows * matmul->k) + u(matmul->n * matmul->k),
                             matmul->bias ? u(matmul->n) : 0},
            (struct traffic){u(matmul->rows * matmul->n), 0});
    work->model_flops = work->palm_flops = flops;
}

void lt_cost_matmul_backward(const struct lt_context *context, const union lt_args *args,
                             struct tacho_work *work)
{
    const struct lt_matmul *matmul = &args->matmul_backward;
    uint64_t in = u(matmul->rows * matmul->k), out = u(matmul->rows * matmul->n);
    uint64_t weight = u(matmul->n * matmul->k), gradients = matmul->dweight ? weight : 0;
    uint64_t product = 2 * u(matmul->rows) * weight, flops = matmul->dweight ? product : 0;
    struct traffic read = {out + (matmul->dweight ? in : 0), 0}, written = {0, 0};
    if (matmul->dbias)
        gradients += u(matmul->n);
    if (matmul->din) { /* a product that reads the weight and writes the input's gradient */
        flops += product;
        read.elements += weight + (matmul->add ? in : 0);
        written.elements = in;
    }
    if (matmul->accumulate)
        read.words = gradients;
    written.words = gradients;
    work_of(work, context, flops, read, written);
    work->model_flops = work->palm_flops = flops;
}

/* One product over all pairs of all heads: 2 * pairs * head channels * heads * sequences. */
static void attention(struct tacho_work *work, const struct lt_attention *a,
                      const struct lt_context *context, uint64_t issued, uint64_t needed)
{
    uint64_t bc = u(a->b * a->c), t = u(a->t);
    work->flops = 2 * issued * bc * lt_attention_pairs(context->backend, a->t);
    work->model_flops = needed * bc * t * (t + 1);
    work->palm_flops = 2 * needed * bc * t * t;
}

void lt_cost_attention_forward(const struct lt_context *context, const union lt_args *args,
                               struct tacho_work *work)
{
    const struct lt_attention *heads = &args->attention_forward;
    uint64_t n = u(heads->b * heads->t * heads->c);
    work_of(work, context, 0, (struct traffic){3 * n, 0},
            (struct traffic){n, u(heads->b * heads->h * heads->t)});
    attention(work, heads, context, 2, 2); /* QK', PV */
}

void lt_cost_attention_backward(const struct lt_context *context, const union lt_args *args,
                                struct tacho_work *work)
{
    const struct lt_attention *heads = &args->attention_backward;
    uint64_t n = u(heads->b * heads->t * heads->c);
    work_of(work, context, 0, (struct traffic){5 * n, u(heads->b * heads->h * heads->t)},
            (struct traffic){3 * n, 0});
    /* dV, dP, dQ, dK, and QK' once more; a device makes QK' and dP for dQ and for dK */
    attention(work, heads, context, context->device ? 7 : 5, 4);
}

void lt_cost_gelu_forward(const struct lt_context *context, const union lt_args *args,
                          struct tacho_work *work)
{
    uint64_t n = u(args->gelu_forward.count);
    work_of(work, context, 9 * n, (struct traffic){n, 0}, (struct traffic){n, 0});
}

void lt_cost_gelu_backward(const struct lt_context *context, const union lt_args *args,
                           struct tacho_work *work)
{
    uint64_t n = u(args->gelu_backward.count);
    work_of(work, context, 19 * n, (struct traffic){2 * n, 0}, (struct traffic){n, 0});
}

void lt_cost_rmsnorm_forward(const struct lt_context *context, const union lt_args *args,
                             struct tacho_work *work)
{
    const struct lt_rmsnorm *norm = &args->rmsnorm_forward;
    uint64_t n = u(norm->rows * norm->c);
    /* squares 2, normalise 1, scale 1 */
    work_of(work, context, 4 * n, (struct traffic){n, u(norm->c)},
            (struct traffic){n, u(norm->rows)});
}

void lt_cost_rmsnorm_backward(const struct lt_context *context, const union lt_args *args,
                              struct tacho_work *work)
{
    const struct lt_rmsnorm *norm = &args->rmsnorm_backward;
    uint64_t n = u(norm->rows * norm->c), again = norm->add ? n : 0;
    /* normalised value 1, its gradient 1, their sum 2, input gradient 3, dweight 2; adding 1 */
    work_of(work, context, 9 * n + again,
            (struct traffic){2 * n + again, u(norm->rows) + 2 * u(norm->c)},
            (struct traffic){n, u(norm->c)});
}

/* Of one direction: `sums` FLOPs a row, and 3 for each turned channel of the h + g heads. `narrow`
 * and `wide` are the rows of what has g and of what has h heads of keys and values. */
static void rope_cost(struct tacho_work *work, const struct lt_context *context,
                      const struct lt_rope *rope, uint64_t sums, int forward)
{
    uint64_t rows = u(rope->b * rope->t), c = u(rope->c), kept = u(rope->groups) * c / u(rope->h),
             narrow = rows * (c + 2 * kept), wide = rows * 3 * c,
             turns = u(rope->t) * c / u(rope->h), read = forward ? narrow : wide;
    work_of(work, context, rows * (3 * (c + kept) + sums), (struct traffic){read, turns},
            (struct traffic){narrow + wide - read, 0});
}

void lt_cost_rope_forward(const struct lt_context *context, const union lt_args *args,
                          struct tacho_work *work)
{
    rope_cost(work, context, &args->rope_forward, 0, 1);
}

/* The gradients of the h / g copies of each key and value head are added up. */
void lt_cost_rope_backward(const struct lt_context *context, const union lt_args *args,
                           struct tacho_work *work)
{
    const struct lt_rope *rope = &args->rope_backward;
    uint64_t c = u(rope->c), kept = u(rope->groups) * c / u(rope->h);
    rope_cost(work, context, rope, 2 * (c - kept), 0);
}

/* The gate 4 (negate, exp, add, divide), its product with up 1. */
void lt_cost_swiglu_forward(const struct lt_context *context, const union lt_args *args,
                            struct tacho_work *work)
{
    uint64_t n = u(args->swiglu_forward.rows * args->swiglu_forward.f);
    work_of(work, context, 5 * n, (struct traffic){2 * n, 0}, (struct traffic){n, 0});
}

/* The sigmoid 4, the gradient of up 2, its slope 4, the gradient of the gate 2. */
void lt_cost_swiglu_backward(const struct lt_context *context, const union lt_args *args,
                             struct tacho_work *work)
{
    uint64_t n = u(args->swiglu_backward.rows * args->swiglu_backward.f);
    work_of(work, context, 12 * n, (struct traffic){3 * n, 0}, (struct traffic){2 * n, 0});
}

void lt_cost_residual_forward(const struct lt_context *context, const union lt_args *args,
                              struct tacho_work *work)
{
    uint64_t n = u(args->residual_forward.count);
    work_of(work, context, n, (struct traffic){2 * n, 0}, (struct traffic){n, 0});
}

void lt_cost_classifier(const struct lt_context *context, const union lt_args *args,
                        struct tacho_work *work)
{
    const struct lt_classifier *classifier = &args->classifier;
    uint64_t n = u(classifier->rows * classifier->v), rows = u(classifier->rows);
    /* maximum 1, subtract, exp, sum 3; log, subtract and add a row; gradient: subtract, exp, scale
     * 3, one correction a row */
    work_of(work, context, 4 * n + 3 * rows + (classifier->backward ? 3 * n + rows : 0),
            (struct traffic){n, rows}, (struct traffic){classifier->backward ? n : 0, rows});
}

void lt_cost_embedding_part_forward(const struct lt_context *context, const union lt_args *args,
                                    struct tacho_work *work)
{
    const struct lt_embedding_part *part = &args->embedding_part_forward;
    uint64_t tokens = u(part->b * part->t), n = tokens * u(part->c),
             p = part->position ? u(part->t * part->c) : 0;
    work_of(work, context, p ? n : 0, (struct traffic){n + p, tokens}, (struct traffic){n, 0});
}

/* Which tokens are this rank's is not known from the shapes: as if all were. */
void lt_cost_embedding_part_backward(const struct lt_context *context, const union lt_args *args,
                                     struct tacho_work *work)
{
    const struct lt_embedding_part *part = &args->embedding_part_backward;
    uint64_t tokens = u(part->b * part->t), n = tokens * u(part->c), p = u(part->t * part->c);
    work_of(work, context, 2 * n, (struct traffic){n, tokens + n + p}, (struct traffic){0, n + p});
}

void lt_cost_classifier_part(const struct lt_context *context, const union lt_args *args,
                             struct tacho_work *work)
{
    const struct lt_classifier_part *part = &args->classifier_part;
    uint64_t n = u(part->rows * part->v), rows = u(part->rows);
    /* maximum 1, subtract, exp, sum 3 */
    work_of(work, context, 4 * n, (struct traffic){n, rows}, (struct traffic){0, 3 * rows});
}

/* Of each rank and row: maximum 1, subtract, exp, scale, sum 4, target 1; a row: log, subtract and
 * add 3; gradient: subtract, exp, scale 3, one correction a row. */
void lt_cost_classifier_join(const struct lt_context *context, const union lt_args *args,
                             struct tacho_work *work)
{
    const struct lt_classifier_part *part = &args->classifier_join;
    uint64_t n = u(part->rows * part->v), rows = u(part->rows), ranks = u(part->ranks),
             gradient = part->backward ? n : 0;
    work_of(work, context, 6 * ranks * rows + 3 * rows + 3 * gradient + (gradient ? rows : 0),
            (struct traffic){gradient, (3 * ranks + 1) * rows}, (struct traffic){gradient, rows});
}

void lt_cost_norm(const struct lt_context *context, const union lt_args *args,
                  struct tacho_work *work)
{
    uint64_t n = u(args->norm.count);
    (void)context;
    flat(work, 2 * n, n, 0);
}

/* The bf16 copy that an optimizer writes beside the parameters. */
static void shadow(struct tacho_work *work, const uint16_t *copy, int64_t count)
{
    work->bytes_written += copy ? u(count) * sizeof *copy : 0;
}

/* Flat updates: the FLOPs of the list in update.h; parameters, gradients and state are read,
 * parameters and state are written. */
#define FLAT(X, id, name, text, states, element, decay) \
    void lt_cost_##name(const struct lt_context *context, const union lt_args *args, \
                        struct tacho_work *work) \
    { \
        const struct lt_update *update = &args->name; \
        uint64_t n = u(update->count); \
        (void)context; \
        flat(work, (element)*n + (decay)*u(update->decayed), ((states) + 2) * n, \
             ((states) + 1) * n); \
        shadow(work, update->shadow, update->count); \
    }
LT_UPDATE_MAP(FLAT, )
#undef FLAT

/* Two passes: moments and sums 18 FLOPs (20 with decay), then the step again 8. */
void lt_cost_lamb(const struct lt_context *context, const union lt_args *args,
                  struct tacho_work *work)
{
    const struct lt_update *update = &args->lamb;
    uint64_t n = u(update->count);
    (void)context;
    flat(work, 26 * n + 4 * u(update->decayed), 7 * n, 3 * n);
    shadow(work, update->shadow, update->count);
}

/* Two passes: scale and sums 5, step and velocity 5; decay 2 in each. */
void lt_cost_lars(const struct lt_context *context, const union lt_args *args,
                  struct tacho_work *work)
{
    const struct lt_update *update = &args->lars;
    uint64_t n = u(update->count);
    (void)context;
    flat(work, 10 * n + 4 * u(update->decayed), 5 * n, 2 * n);
    shadow(work, update->shadow, update->count);
}

/* Means of rows and columns 4 each (of a vector the moment 6), then the step twice, 5 each, sums 4,
 * update 2. The gradient is read once a pass, the parameters twice. */
void lt_cost_adafactor(const struct lt_context *context, const union lt_args *args,
                       struct tacho_work *work)
{
    const struct lt_update *update = &args->adafactor;
    uint64_t n = u(update->count);
    int factored = update->rows > 1 && update->columns > 1;
    (void)context;
    flat(work, (factored ? 24 : 20) * n + u(update->decayed), (factored ? 6 : 8) * n,
         (factored ? 1 : 2) * n);
    shadow(work, update->shadow, update->count);
}

/* Five times x x^T, its square and the product with x, of r x c with r <= c; before and after, 8
 * FLOPs and 6 floats of traffic an element. What is no hidden matrix costs what AdamW costs. */
void lt_cost_muon(const struct lt_context *context, const union lt_args *args,
                  struct tacho_work *work)
{
    const struct lt_update *update = &args->muon;
    uint64_t n = u(update->count), rows = u(update->rows), columns = u(update->columns),
             least = rows < columns ? rows : columns;
    if (update->role != LT_WEIGHT_HIDDEN) {
        lt_cost_adamw(context, &(union lt_args){.adamw = *update}, work);
        work->kind = TACHO_WORK_OTHER;
        return;
    }
    flat(work,
         12 * n + u(update->decayed) +
             5 * u(update->repeat) * (4 * least * rows * columns + 2 * least * least * least),
         4 * n, 3 * n);
    shadow(work, update->shadow, update->count);
}

/* As AdamW, with the moments read and written as bytes; eight comparisons for each code. */
void lt_cost_adamw8(const struct lt_context *context, const union lt_args *args,
                    struct tacho_work *work)
{
    const struct lt_update *update = &args->adamw8;
    uint64_t n = u(update->count), blocks = (n + LT_ADAMW8_BLOCK - 1) / LT_ADAMW8_BLOCK;
    (void)context;
    flat(work, 35 * n + u(update->decayed), 2 * n + n / 2 + 2 * blocks, n + n / 2 + 2 * blocks);
    shadow(work, update->shadow, update->count);
}

void lt_cost_clip(const struct lt_context *context, const union lt_args *args,
                  struct tacho_work *work)
{
    uint64_t n = u(args->clip.count);
    (void)context;
    flat(work, 3 * n, n, n);
}

void lt_cost_lookahead(const struct lt_context *context, const union lt_args *args,
                       struct tacho_work *work)
{
    uint64_t n = u(args->lookahead.count);
    (void)context;
    flat(work, 3 * n, 2 * n, 2 * n);
    shadow(work, args->lookahead.shadow, args->lookahead.count);
}

void lt_cost_exchange(const struct lt_context *context, const union lt_args *args,
                      struct tacho_work *work)
{
    uint64_t n = u(args->exchange.count);
    (void)context;
    flat(work, 0, 2 * n, 2 * n);
    shadow(work, args->exchange.shadow, args->exchange.count);
}

/* ---- sizes of updates ------------------------------------------------------------------------ */

size_t lt_update_scratch(enum lt_op_id op, int64_t rows, int64_t columns)
{
    size_t least = (size_t)(rows < columns ? rows : columns);
    return op == LT_OP_MUON ? 2 * (size_t)(rows * columns) + 2 * least * least : 0;
}

/* Adafactor: a mean a row and a column, of a vector a moment an element. */
static size_t adafactor_state(int state, const struct lt_weight *tensor)
{
    if (tensor->rows < 2 || tensor->columns < 2)
        return state == 0 ? (size_t)(tensor->repeat * tensor->rows * tensor->columns) : 0;
    const int64_t means[] = {tensor->rows, tensor->columns};
    return state < 2 ? (size_t)(tensor->repeat * means[state]) : 0;
}

size_t lt_update_state(enum lt_op_id op, int state, const struct lt_weight *tensor)
{
    static const int states[LT_OP_COUNT] = {
#define ROW(X, id, name, text, arrays, element, decay) [LT_OP_##id] = (arrays),
        LT_UPDATE_MAP(ROW, )
#undef ROW
            [LT_OP_LAMB] = 2,
        [LT_OP_LARS] = 1, [LT_OP_MUON] = 2};
    size_t count = (size_t)(tensor->repeat * tensor->rows * tensor->columns),
           blocks = (count + LT_ADAMW8_BLOCK - 1) / LT_ADAMW8_BLOCK;
    if (op == LT_OP_ADAFACTOR)
        return adafactor_state(state, tensor);
    if (op == LT_OP_ADAMW8)
        return state == 2 ? 2 * blocks : (count + 3) / 4;
    if (op == LT_OP_MUON && state == 1 && tensor->role == LT_WEIGHT_HIDDEN)
        return 0;
    return state < states[op] ? count : 0;
}

void lt_cost_zero(const struct lt_context *context, const union lt_args *args,
                  struct tacho_work *work)
{
    (void)context;
    flat(work, 0, 0, u(args->zero.count));
}
