/* SPDX-License-Identifier: Apache-2.0
 *
 * What the optimizer's operations cost, from their shapes alone, counted as in ops_cost.c; and the
 * sizes of what updates keep.
 */
#include "libtrain/ops/kernels.h"
#include "tacho_nvtx.h"

/* The optimizer's passes: arithmetic, floats read, floats written. */
static void flat(struct tacho_work *work, uint64_t flops, uint64_t read, uint64_t written)
{
    work->flops = flops;
    work->bytes_read = read * sizeof(float);
    work->bytes_written = written * sizeof(float);
}

void lt_cost_norm(const struct lt_context *context, const union lt_args *args,
                  struct tacho_work *work)
{
    uint64_t n = lt_u(args->norm.count);
    (void)context;
    flat(work, 2 * n, n, 0);
}

/* The bf16 copy that an optimizer writes beside the parameters. */
static void shadow(struct tacho_work *work, const uint16_t *copy, int64_t count)
{
    work->bytes_written += copy ? lt_u(count) * sizeof *copy : 0;
}

/* Flat updates: the FLOPs of the list in update.h; parameters, gradients and state are read,
 * parameters and state are written. */
#define FLAT(X, id, name, text, states, element, decay) \
    void lt_cost_##name(const struct lt_context *context, const union lt_args *args, \
                        struct tacho_work *work) \
    { \
        const struct lt_update *update = &args->name; \
        uint64_t n = lt_u(update->count); \
        (void)context; \
        flat(work, (element)*n + (decay)*lt_u(update->decayed), ((states) + 2) * n, \
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
    uint64_t n = lt_u(update->count);
    (void)context;
    flat(work, 26 * n + 4 * lt_u(update->decayed), 7 * n, 3 * n);
    shadow(work, update->shadow, update->count);
}

/* Two passes: scale and sums 5, step and velocity 5; decay 2 in each. */
void lt_cost_lars(const struct lt_context *context, const union lt_args *args,
                  struct tacho_work *work)
{
    const struct lt_update *update = &args->lars;
    uint64_t n = lt_u(update->count);
    (void)context;
    flat(work, 10 * n + 4 * lt_u(update->decayed), 5 * n, 2 * n);
    shadow(work, update->shadow, update->count);
}

/* Means of rows and columns 4 each (of a vector the moment 6), then the step twice, 5 each, sums 4,
 * update 2. The gradient is read once a pass, the parameters twice. */
void lt_cost_adafactor(const struct lt_context *context, const union lt_args *args,
                       struct tacho_work *work)
{
    const struct lt_update *update = &args->adafactor;
    uint64_t n = lt_u(update->count);
    int factored = update->rows > 1 && update->columns > 1;
    (void)context;
    flat(work, (factored ? 24 : 20) * n + lt_u(update->decayed), (factored ? 6 : 8) * n,
         (factored ? 1 : 2) * n);
    shadow(work, update->shadow, update->count);
}

/* Five times x x^T, its square and the product with x, of r x c with r <= c; before and after, 8
 * FLOPs and 6 floats of traffic an element. What is no hidden matrix costs what AdamW costs. */
void lt_cost_muon(const struct lt_context *context, const union lt_args *args,
                  struct tacho_work *work)
{
    const struct lt_update *update = &args->muon;
    uint64_t n = lt_u(update->count), rows = lt_u(update->rows), columns = lt_u(update->columns),
             least = rows < columns ? rows : columns;
    if (update->role != LT_WEIGHT_HIDDEN) {
        lt_cost_adamw(context, &(union lt_args){.adamw = *update}, work);
        work->kind = TACHO_WORK_OTHER;
        return;
    }
    flat(work,
         12 * n + lt_u(update->decayed) +
             5 * lt_u(update->repeat) * (4 * least * rows * columns + 2 * least * least * least),
         4 * n, 3 * n);
    shadow(work, update->shadow, update->count);
}

/* As AdamW, with the moments read and written as bytes; eight comparisons for each code. */
void lt_cost_adamw8(const struct lt_context *context, const union lt_args *args,
                    struct tacho_work *work)
{
    const struct lt_update *update = &args->adamw8;
    uint64_t n = lt_u(update->count), blocks = (n + LT_ADAMW8_BLOCK - 1) / LT_ADAMW8_BLOCK;
    (void)context;
    flat(work, 35 * n + lt_u(update->decayed), 2 * n + n / 2 + 2 * blocks, n + n / 2 + 2 * blocks);
    shadow(work, update->shadow, update->count);
}

/* Of each pair three products and two additions of vectors, 2 an element each; besides them the
 * differences 3, the first scale 5, the update 2. Read: both vectors of all pairs, parameters,
 * gradient, and both of the update before; written: one pair, these two, the direction, the
 * parameters. Counted as if all pairs were there. */
void lt_cost_lbfgs(const struct lt_context *context, const union lt_args *args,
                   struct tacho_work *work)
{
    const struct lt_update *update = &args->lbfgs;
    uint64_t n = lt_u(update->count);
    (void)context;
    flat(work, (10 * LT_LBFGS_PAIRS + 10) * n + lt_u(update->decayed), (2 * LT_LBFGS_PAIRS + 4) * n,
         6 * n);
    shadow(work, update->shadow, update->count);
}

void lt_cost_clip(const struct lt_context *context, const union lt_args *args,
                  struct tacho_work *work)
{
    uint64_t n = lt_u(args->clip.count);
    (void)context;
    flat(work, 3 * n, n, n);
}

/* A sum and a subtraction for each element, a division for each row. */
void lt_cost_centre(const struct lt_context *context, const union lt_args *args,
                    struct tacho_work *work)
{
    uint64_t rows = lt_u(args->centre.rows), n = rows * lt_u(args->centre.columns);
    (void)context;
    flat(work, 2 * n + rows, n, n);
}

void lt_cost_rounding(const struct lt_context *context, const union lt_args *args,
                      struct tacho_work *work)
{
    uint64_t n = lt_u(args->rounding.count);
    (void)context;
    flat(work, n, n, n);
    shadow(work, args->rounding.shadow, args->rounding.count);
}

void lt_cost_lookahead(const struct lt_context *context, const union lt_args *args,
                       struct tacho_work *work)
{
    uint64_t n = lt_u(args->lookahead.count);
    (void)context;
    flat(work, 3 * n, 2 * n, 2 * n);
    shadow(work, args->lookahead.shadow, args->lookahead.count);
}

void lt_cost_exchange(const struct lt_context *context, const union lt_args *args,
                      struct tacho_work *work)
{
    uint64_t n = lt_u(args->exchange.count);
    (void)context;
    flat(work, 0, 2 * n, 2 * n);
    shadow(work, args->exchange.shadow, args->exchange.count);
}

/* The multiply-adds of both products; the sums of columns inside are not counted, as those of a
 * bias are not. */
void lt_cost_kfac_factors(const struct lt_context *context, const union lt_args *args,
                          struct tacho_work *work)
{
    const struct lt_kfac_factors *factors = &args->kfac_factors;
    uint64_t rows = lt_u(factors->rows), n = lt_u(factors->n), k = lt_u(factors->k),
             sums = (k + 1) * (k + 1) + n * n;
    work->flops = 2 * rows * (k * k + n * n);
    work->bytes_read =
        rows * (k + n) * lt_dtype_bytes(context->dtype) + (factors->add ? sums : 0) * sizeof(float);
    work->bytes_written = sums * sizeof(float);
}

void lt_cost_kfac_average(const struct lt_context *context, const union lt_args *args,
                          struct tacho_work *work)
{
    uint64_t n = lt_u(args->kfac_average.count);
    (void)context;
    flat(work, 3 * n, 2 * n, n);
}

/* An inverse of order m is m rank-one updates of a matrix of m x m. */
void lt_cost_kfac_inverse(const struct lt_context *context, const union lt_args *args,
                          struct tacho_work *work)
{
    uint64_t n = lt_u(args->kfac_inverse.n), k = lt_u(args->kfac_inverse.k) + 1,
             elements = k * k + n * n;
    (void)context;
    flat(work, 2 * (k * k * k + n * n * n), elements, elements);
}

/* Two products of n x n and k + 1 x k + 1 with the gradient. */
void lt_cost_kfac_direction(const struct lt_context *context, const union lt_args *args,
                            struct tacho_work *work)
{
    uint64_t n = lt_u(args->kfac_direction.n), k = lt_u(args->kfac_direction.k) + 1;
    (void)context;
    flat(work, 2 * n * k * (n + k), n * k + n * n + k * k, n * k);
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
    if (op == LT_OP_LBFGS) {
        static const size_t vectors[LT_UPDATE_STATES] = {2 * LT_LBFGS_PAIRS, 2, 1};
        return vectors[state] * count;
    }
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
    flat(work, 0, 0, lt_u(args->zero.count));
}
