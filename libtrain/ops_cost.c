/* SPDX-License-Identifier: Apache-2.0
 *
 * What each operation costs, from its shapes alone (docs/engine.md has the closed forms of a whole step).
 *
 * Matrix and attention work counts its multiply-adds, 2 each; a bias, a mask or a softmax inside it is not counted.
 * Element-wise work counts its arithmetic: one for each +, -, *, / and one for each exp, log, tanh or square root. It is no
 * model FLOP. Bytes: every tensor the operation must see once, at its size; what stays inside the operation is not traffic.
 */
#include "libtrain/kernels.h"

static uint64_t u(int64_t n)
{
    return (uint64_t)n;
}

/* Element-wise work: arithmetic, floats read, floats written. */
static void elementwise(struct tacho_work *w, uint64_t flops, uint64_t read, uint64_t written)
{
    w->flops = flops;
    w->bytes_read = read * sizeof(float);
    w->bytes_written = written * sizeof(float);
}

void lt_cost_embedding_forward(enum lt_backend backend, const union lt_args *args, struct tacho_work *work)
{
    const struct lt_embedding *a = &args->embedding_forward;
    uint64_t tokens = u(a->b * a->t), n = tokens * u(a->c);
    (void)backend;
    elementwise(work, n, tokens + n + u(a->t * a->c), n);
}

void lt_cost_embedding_backward(enum lt_backend backend, const union lt_args *args, struct tacho_work *work)
{
    const struct lt_embedding *a = &args->embedding_backward;
    uint64_t tokens = u(a->b * a->t), n = tokens * u(a->c), p = u(a->t * a->c);
    (void)backend;
    elementwise(work, 2 * n, tokens + 2 * n + p, n + p);
}

void lt_cost_layernorm_forward(enum lt_backend backend, const union lt_args *args, struct tacho_work *work)
{
    const struct lt_layernorm *a = &args->layernorm_forward;
    uint64_t n = u(a->rows * a->c);
    (void)backend;
    /* mean 1, variance 3, normalise 2, scale and shift 2 */
    elementwise(work, 8 * n, n + 2 * u(a->c), n + 2 * u(a->rows));
}

void lt_cost_layernorm_backward(enum lt_backend backend, const union lt_args *args, struct tacho_work *work)
{
    const struct lt_layernorm *a = &args->layernorm_backward;
    uint64_t n = u(a->rows * a->c);
    (void)backend;
    /* normalised value 2, its gradient 1, two sums 3, input gradient 4 and its addition 1, dweight 2, dbias 1 */
    elementwise(work, 14 * n, 3 * n + 2 * u(a->rows) + 3 * u(a->c), n + 2 * u(a->c));
}

void lt_cost_matmul_forward(enum lt_backend backend, const union lt_args *args, struct tacho_work *work)
{
    const struct lt_matmul *a = &args->matmul_forward;
    uint64_t flops = 2 * u(a->rows) * u(a->n) * u(a->k);
    (void)backend;
    elementwise(work, flops, u(a->rows * a->k) + u(a->n * a->k) + (a->bias ? u(a->n) : 0), u(a->rows * a->n));
    work->model_flops = work->palm_flops = flops;
}

void lt_cost_matmul_backward(enum lt_backend backend, const union lt_args *args, struct tacho_work *work)
{
    const struct lt_matmul *a = &args->matmul_backward;
    uint64_t products = a->din ? 2 : 1, gradients = u(a->n * a->k) + (a->dbias ? u(a->n) : 0);
    uint64_t flops = 2 * products * u(a->rows) * u(a->n) * u(a->k), weight = a->din ? u(a->n * a->k) : 0;
    (void)backend;
    elementwise(work, flops, u(a->rows * a->n) + u(a->rows * a->k) + weight + (a->accumulate ? gradients : 0),
                (a->din ? u(a->rows * a->k) : 0) + gradients);
    work->model_flops = work->palm_flops = flops;
}

/* One product over all pairs of all heads: 2 * pairs * head channels * heads * sequences. */
static void attention(struct tacho_work *w, const struct lt_attention *a, enum lt_backend backend, uint64_t issued,
                      uint64_t needed)
{
    uint64_t bc = u(a->b * a->c), t = u(a->t);
    w->flops = 2 * issued * bc * lt_attention_pairs(backend, a->t);
    w->model_flops = needed * bc * t * (t + 1);
    w->palm_flops = 2 * needed * bc * t * t;
}

void lt_cost_attention_forward(enum lt_backend backend, const union lt_args *args, struct tacho_work *work)
{
    const struct lt_attention *a = &args->attention_forward;
    uint64_t n = u(a->b * a->t * a->c);
    elementwise(work, 0, 3 * n, n + u(a->b * a->h * a->t));
    attention(work, a, backend, 2, 2); /* QK', PV */
}

void lt_cost_attention_backward(enum lt_backend backend, const union lt_args *args, struct tacho_work *work)
{
    const struct lt_attention *a = &args->attention_backward;
    uint64_t n = u(a->b * a->t * a->c);
    elementwise(work, 0, 5 * n + u(a->b * a->h * a->t), 3 * n);
    attention(work, a, backend, 5, 4); /* dV, dP, dQ, dK, and QK' once more */
}

void lt_cost_gelu_forward(enum lt_backend backend, const union lt_args *args, struct tacho_work *work)
{
    uint64_t n = u(args->gelu_forward.count);
    (void)backend;
    elementwise(work, 9 * n, n, n);
}

void lt_cost_gelu_backward(enum lt_backend backend, const union lt_args *args, struct tacho_work *work)
{
    uint64_t n = u(args->gelu_backward.count);
    (void)backend;
    elementwise(work, 19 * n, 2 * n, n);
}

void lt_cost_residual_forward(enum lt_backend backend, const union lt_args *args, struct tacho_work *work)
{
    uint64_t n = u(args->residual_forward.count);
    (void)backend;
    elementwise(work, n, 2 * n, n);
}

void lt_cost_classifier(enum lt_backend backend, const union lt_args *args, struct tacho_work *work)
{
    const struct lt_classifier *a = &args->classifier;
    uint64_t n = u(a->rows * a->v), rows = u(a->rows);
    (void)backend;
    /* maximum 1, subtract, exp, sum 3, gradient 1 (scale) and one correction a row; log, subtract and add a row */
    elementwise(work, 4 * n + 3 * rows + (a->backward ? n + rows : 0), n + rows, rows + (a->backward ? n : 0));
}

void lt_cost_norm(enum lt_backend backend, const union lt_args *args, struct tacho_work *work)
{
    uint64_t n = u(args->norm.count);
    (void)backend;
    elementwise(work, 2 * n, n, 0);
}

/* The bf16 copy that an optimizer writes beside the parameters. */
static void shadow(struct tacho_work *w, const uint16_t *copy, int64_t count)
{
    w->bytes_written += copy ? u(count) * sizeof *copy : 0;
}

void lt_cost_adamw(enum lt_backend backend, const union lt_args *args, struct tacho_work *work)
{
    const struct lt_adamw *a = &args->adamw;
    (void)backend;
    /* gradient scale 1, m 3, v 4, corrections 2, root, sum, quotient 3, update 2; decay 1 */
    elementwise(work, 15 * u(a->count) + u(a->decayed), 4 * u(a->count), 3 * u(a->count));
    shadow(work, a->shadow, a->count);
}

void lt_cost_momentum(enum lt_backend backend, const union lt_args *args, struct tacho_work *work)
{
    const struct lt_momentum *a = &args->momentum;
    (void)backend;
    /* gradient scale 1, velocity 2, update 2; decay 1 */
    elementwise(work, 5 * u(a->count) + u(a->decayed), 3 * u(a->count), 2 * u(a->count));
    shadow(work, a->shadow, a->count);
}

void lt_cost_sgd(enum lt_backend backend, const union lt_args *args, struct tacho_work *work)
{
    const struct lt_sgd *a = &args->sgd;
    (void)backend;
    /* gradient scale 1, update 2; decay 1 */
    elementwise(work, 3 * u(a->count) + u(a->decayed), 2 * u(a->count), u(a->count));
    shadow(work, a->shadow, a->count);
}

void lt_cost_zero(enum lt_backend backend, const union lt_args *args, struct tacho_work *work)
{
    (void)backend;
    elementwise(work, 0, 0, u(args->zero.count));
}
