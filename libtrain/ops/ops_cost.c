/* SPDX-License-Identifier: Apache-2.0
 *
 * What each operation costs, from its shapes alone (docs/engine.md has the closed forms of a whole
 * step).
 *
 * Matrix and attention work counts its multiply-adds, 2 each; a bias, a mask or a softmax inside it
 * is not counted. Element-wise work counts its arithmetic: one for each +, -, *, / and one for each
 * exp, log, tanh or square root. It is no model FLOP. Bytes: every tensor the operation must see
 * once, at its size; what stays inside the operation is not traffic.
 */
#include "libtrain/ops/kernels.h"

static uint64_t u(int64_t n)
{
    return (uint64_t)n;
}

/* Traffic: tensors of the context's type (activations, their gradients, weights that products
 * read), and of four bytes an element (statistics, losses, biases, parameters of layernorm,
 * gradients of parameters, tokens). */
struct traffic {
    uint64_t elements, words;
};

static uint64_t bytes(const struct lt_context *x, struct traffic t)
{
    return t.elements * lt_dtype_bytes(x->dtype) + t.words * sizeof(float);
}

static void work_of(struct tacho_work *w, const struct lt_context *x, uint64_t flops,
                    struct traffic read, struct traffic written)
{
    w->flops = flops;
    w->bytes_read = bytes(x, read);
    w->bytes_written = bytes(x, written);
}

/* The optimizer's passes: arithmetic, floats read, floats written. */
static void flat(struct tacho_work *w, uint64_t flops, uint64_t read, uint64_t written)
{
    w->flops = flops;
    w->bytes_read = read * sizeof(float);
    w->bytes_written = written * sizeof(float);
}

void lt_cost_embedding_forward(const struct lt_context *x, const union lt_args *args,
                               struct tacho_work *work)
{
    const struct lt_embedding *a = &args->embedding_forward;
    uint64_t tokens = u(a->b * a->t), n = tokens * u(a->c);
    (void)x;
    work_of(work, x, n, (struct traffic){n + u(a->t * a->c), tokens}, (struct traffic){n, 0});
}

void lt_cost_embedding_backward(const struct lt_context *x, const union lt_args *args,
                                struct tacho_work *work)
{
    const struct lt_embedding *a = &args->embedding_backward;
    uint64_t tokens = u(a->b * a->t), n = tokens * u(a->c), p = u(a->t * a->c);
    (void)x;
    work_of(work, x, 2 * n, (struct traffic){n, tokens + n + p}, (struct traffic){0, n + p});
}

void lt_cost_layernorm_forward(const struct lt_context *x, const union lt_args *args,
                               struct tacho_work *work)
{
    const struct lt_layernorm *a = &args->layernorm_forward;
    uint64_t n = u(a->rows * a->c);
    (void)x;
    /* mean 1, variance 3, normalise 2, scale and shift 2 */
    work_of(work, x, 8 * n, (struct traffic){n, 2 * u(a->c)}, (struct traffic){n, 2 * u(a->rows)});
}

void lt_cost_layernorm_backward(const struct lt_context *x, const union lt_args *args,
                                struct tacho_work *work)
{
    const struct lt_layernorm *a = &args->layernorm_backward;
    uint64_t n = u(a->rows * a->c);
    (void)x;
    /* normalised value 2, its gradient 1, two sums 3, input gradient 4 and its addition 1, dweight
     * 2, dbias 1 */
    work_of(work, x, 14 * n, (struct traffic){3 * n, 2 * u(a->rows) + 3 * u(a->c)},
            (struct traffic){n, 2 * u(a->c)});
}

void lt_cost_matmul_forward(const struct lt_context *x, const union lt_args *args,
                            struct tacho_work *work)
{
    const struct lt_matmul *a = &args->matmul_forward;
    uint64_t flops = 2 * u(a->rows) * u(a->n) * u(a->k);
    (void)x;
    work_of(work, x, flops,
            (struct traffic){u(a->rows * a->k) + u(a->n * a->k), a->bias ? u(a->n) : 0},
            (struct traffic){u(a->rows * a->n), 0});
    work->model_flops = work->palm_flops = flops;
}

void lt_cost_matmul_backward(const struct lt_context *x, const union lt_args *args,
                             struct tacho_work *work)
{
    const struct lt_matmul *a = &args->matmul_backward;
    uint64_t products = a->din ? 2 : 1, gradients = u(a->n * a->k) + (a->dbias ? u(a->n) : 0);
    uint64_t flops = 2 * products * u(a->rows) * u(a->n) * u(a->k),
             weight = a->din ? u(a->n * a->k) : 0;
    (void)x;
    work_of(work, x, flops,
            (struct traffic){u(a->rows * a->n) + u(a->rows * a->k) + weight,
                             a->accumulate ? gradients : 0},
            (struct traffic){a->din ? u(a->rows * a->k) : 0, gradients});
    work->model_flops = work->palm_flops = flops;
}

/* One product over all pairs of all heads: 2 * pairs * head channels * heads * sequences. */
static void attention(struct tacho_work *w, const struct lt_attention *a,
                      const struct lt_context *x, uint64_t issued, uint64_t needed)
{
    uint64_t bc = u(a->b * a->c), t = u(a->t);
    w->flops = 2 * issued * bc * lt_attention_pairs(x->backend, a->t);
    w->model_flops = needed * bc * t * (t + 1);
    w->palm_flops = 2 * needed * bc * t * t;
}

void lt_cost_attention_forward(const struct lt_context *x, const union lt_args *args,
                               struct tacho_work *work)
{
    const struct lt_attention *a = &args->attention_forward;
    uint64_t n = u(a->b * a->t * a->c);
    work_of(work, x, 0, (struct traffic){3 * n, 0}, (struct traffic){n, u(a->b * a->h * a->t)});
    attention(work, a, x, 2, 2); /* QK', PV */
}

void lt_cost_attention_backward(const struct lt_context *x, const union lt_args *args,
                                struct tacho_work *work)
{
    const struct lt_attention *a = &args->attention_backward;
    uint64_t n = u(a->b * a->t * a->c);
    work_of(work, x, 0, (struct traffic){5 * n, u(a->b * a->h * a->t)}, (struct traffic){3 * n, 0});
    attention(work, a, x, 5, 4); /* dV, dP, dQ, dK, and QK' once more */
}

void lt_cost_gelu_forward(const struct lt_context *x, const union lt_args *args,
                          struct tacho_work *work)
{
    uint64_t n = u(args->gelu_forward.count);
    (void)x;
    work_of(work, x, 9 * n, (struct traffic){n, 0}, (struct traffic){n, 0});
}

void lt_cost_gelu_backward(const struct lt_context *x, const union lt_args *args,
                           struct tacho_work *work)
{
    uint64_t n = u(args->gelu_backward.count);
    (void)x;
    work_of(work, x, 19 * n, (struct traffic){2 * n, 0}, (struct traffic){n, 0});
}

void lt_cost_residual_forward(const struct lt_context *x, const union lt_args *args,
                              struct tacho_work *work)
{
    uint64_t n = u(args->residual_forward.count);
    (void)x;
    work_of(work, x, n, (struct traffic){2 * n, 0}, (struct traffic){n, 0});
}

void lt_cost_classifier(const struct lt_context *x, const union lt_args *args,
                        struct tacho_work *work)
{
    const struct lt_classifier *a = &args->classifier;
    uint64_t n = u(a->rows * a->v), rows = u(a->rows);
    (void)x;
    /* maximum 1, subtract, exp, sum 3; log, subtract and add a row; gradient: subtract, exp, scale
     * 3, one correction a row */
    work_of(work, x, 4 * n + 3 * rows + (a->backward ? 3 * n + rows : 0), (struct traffic){n, rows},
            (struct traffic){a->backward ? n : 0, rows});
}

void lt_cost_norm(const struct lt_context *x, const union lt_args *args, struct tacho_work *work)
{
    uint64_t n = u(args->norm.count);
    (void)x;
    flat(work, 2 * n, n, 0);
}

/* The bf16 copy that an optimizer writes beside the parameters. */
static void shadow(struct tacho_work *w, const uint16_t *copy, int64_t count)
{
    w->bytes_written += copy ? u(count) * sizeof *copy : 0;
}

void lt_cost_adamw(const struct lt_context *x, const union lt_args *args, struct tacho_work *work)
{
    const struct lt_adamw *a = &args->adamw;
    (void)x;
    /* gradient scale 1, m 3, v 4, corrections 2, root, sum, quotient 3, update 2; decay 1 */
    flat(work, 15 * u(a->count) + u(a->decayed), 4 * u(a->count), 3 * u(a->count));
    shadow(work, a->shadow, a->count);
}

void lt_cost_momentum(const struct lt_context *x, const union lt_args *args,
                      struct tacho_work *work)
{
    const struct lt_momentum *a = &args->momentum;
    (void)x;
    /* gradient scale 1, velocity 2, update 2; decay 1 */
    flat(work, 5 * u(a->count) + u(a->decayed), 3 * u(a->count), 2 * u(a->count));
    shadow(work, a->shadow, a->count);
}

void lt_cost_sgd(const struct lt_context *x, const union lt_args *args, struct tacho_work *work)
{
    const struct lt_sgd *a = &args->sgd;
    (void)x;
    /* gradient scale 1, update 2; decay 1 */
    flat(work, 3 * u(a->count) + u(a->decayed), 2 * u(a->count), u(a->count));
    shadow(work, a->shadow, a->count);
}

void lt_cost_zero(const struct lt_context *x, const union lt_args *args, struct tacho_work *work)
{
    (void)x;
    flat(work, 0, 0, u(args->zero.count));
}
