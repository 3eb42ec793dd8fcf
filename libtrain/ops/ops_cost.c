/* SPDX-License-Identifier: Apache-2.0
 *
 * What each operation of a model costs, from its shapes alone (docs/engine.md has the closed forms
 * of a whole step).
 *
 * Matrix and attention work counts its multiply-adds, 2 each; a bias, a mask or a softmax inside it
 * is not included. Element-wise work counts its arithmetic: one for each +, -, *, / and one for
 * each exp, log, tanh or square root. It is no model FLOP. Bytes: every tensor the operation must
 * see once, at its size; what stays inside the operation is not traffic.
 */
#include "libtrain/base/share.h"
#include "libtrain/ops/kernels.h"
#include "tacho_nvtx.h"

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

void lt_cost_embedding_forward(const struct lt_context *context, const union lt_args *args,
                               struct tacho_work *work)
{
    const struct lt_embedding *embedding = &args->embedding_forward;
    uint64_t tokens = lt_u(embedding->b * embedding->t), n = tokens * lt_u(embedding->c),
             p = embedding->position ? lt_u(embedding->t * embedding->c) : 0;
    work_of(work, context, p ? n : 0, (struct traffic){n + p, tokens}, (struct traffic){n, 0});
}

void lt_cost_embedding_backward(const struct lt_context *context, const union lt_args *args,
                                struct tacho_work *work)
{
    const struct lt_embedding *embedding = &args->embedding_backward;
    uint64_t tokens = lt_u(embedding->b * embedding->t), n = tokens * lt_u(embedding->c),
             p = embedding->dposition ? lt_u(embedding->t * embedding->c) : 0;
    work_of(work, context, p ? 2 * n : n, (struct traffic){n, tokens + n + p},
            (struct traffic){0, n + p});
}

void lt_cost_layernorm_forward(const struct lt_context *context, const union lt_args *args,
                               struct tacho_work *work)
{
    const struct lt_layernorm *layernorm = &args->layernorm_forward;
    uint64_t n = lt_u(layernorm->rows * layernorm->c);
    /* mean 1, variance 3, normalise 2, scale and shift 2 */
    work_of(work, context, 8 * n, (struct traffic){n, 2 * lt_u(layernorm->c)},
            (struct traffic){n, 2 * lt_u(layernorm->rows)});
}

void lt_cost_layernorm_backward(const struct lt_context *context, const union lt_args *args,
                                struct tacho_work *work)
{
    const struct lt_layernorm *layernorm = &args->layernorm_backward;
    uint64_t n = lt_u(layernorm->rows * layernorm->c);
    /* normalised value 2, its gradient 1, two sums 3, input gradient 4 and its addition 1, dweight
     * 2, dbias 1 */
    work_of(work, context, 14 * n,
            (struct traffic){3 * n, 2 * lt_u(layernorm->rows) + 3 * lt_u(layernorm->c)},
            (struct traffic){n, 2 * lt_u(layernorm->c)});
}

/* A model needs a product once, so of one that several ranks make each counts its share. */
static void needs_product(struct tacho_work *work, const struct lt_matmul *matmul)
{
    uint64_t own = work->flops;
    if (matmul->copies > 1)
        own = lt_share(work->flops, matmul->copies, matmul->copy + 1) -
              lt_share(work->flops, matmul->copies, matmul->copy);
    work->model_flops = work->palm_flops = own;
}

void lt_cost_matmul_forward(const struct lt_context *context, const union lt_args *args,
                            struct tacho_work *work)
{
    const struct lt_matmul *matmul = &args->matmul_forward;
    uint64_t flops = 2 * lt_u(matmul->rows) * lt_u(matmul->n) * lt_u(matmul->k);
    work_of(work, context, flops,
            (struct traffic){lt_u(matmul->rows * matmul->k) + lt_u(matmul->n * matmul->k),
                             matmul->bias ? lt_u(matmul->n) : 0},
            (struct traffic){lt_u(matmul->rows * matmul->n), 0});
    needs_product(work, matmul);
}

void lt_cost_matmul_backward(const struct lt_context *context, const union lt_args *args,
                             struct tacho_work *work)
{
    const struct lt_matmul *matmul = &args->matmul_backward;
    uint64_t in = lt_u(matmul->rows * matmul->k), out = lt_u(matmul->rows * matmul->n);
    uint64_t weight = lt_u(matmul->n * matmul->k), gradients = matmul->dweight ? weight : 0;
    uint64_t product = 2 * lt_u(matmul->rows) * weight, flops = matmul->dweight ? product : 0;
    struct traffic read = {out + (matmul->dweight ? in : 0), 0}, written = {0, 0};
    if (matmul->dbias)
        gradients += lt_u(matmul->n);
    if (matmul->din) { /* a product that reads the weight and writes the input's gradient */
        flops += product;
        read.elements += weight + (matmul->add ? in : 0);
        written.elements = in;
    }
    if (matmul->accumulate)
        read.words = gradients;
    written.words = gradients;
    work_of(work, context, flops, read, written);
    needs_product(work, matmul);
}

/* One product over all pairs of all heads: 2 * pairs * head channels * heads * sequences. */
static void attention(struct tacho_work *work, const struct lt_attention *a,
                      const struct lt_context *context, uint64_t issued, uint64_t needed)
{
    uint64_t bc = lt_u(a->b * a->c), t = lt_u(a->t);
    work->flops = 2 * issued * bc * lt_attention_pairs(context->backend, a->t);
    work->model_flops = needed * bc * t * (t + 1);
    work->palm_flops = 2 * needed * bc * t * t;
    if (a->kv && !a->own) { /* nothing is masked; half of it, in the convention of whole squares */
        uint64_t pairs = lt_u(a->t - a->skip) * lt_u(a->t - a->hidden);
        work->flops = 2 * issued * bc * pairs;
        work->model_flops = 2 * needed * bc * pairs;
        work->palm_flops = 2 * work->model_flops;
    }
}

/* Of a part of the keys: sums of floats beside what attention reads and writes otherwise. */
static void attention_part(struct tacho_work *work, const struct lt_context *context,
                           const struct lt_attention *a, int backward)
{
    uint64_t queries = lt_u(a->b * (a->t - a->skip) * a->c), before = a->own ? 0 : 1,
             keys = 2 * lt_u(a->b * (a->t - a->hidden) * a->c),
             rows = lt_u(a->b * a->h * (a->t - a->skip)), all = lt_u(a->b * a->t * a->c),
             sums = a->last ? all : queries, out = a->last ? all : 0;
    struct traffic read = {queries + keys, before * (sums + rows)}, written = {out, queries + rows};
    if (backward) {
        read = (struct traffic){3 * queries + keys, before * sums + keys + rows};
        written = (struct traffic){out, queries + keys};
    }
    work_of(work, context, 0, read, written);
}

void lt_cost_attention_forward(const struct lt_context *context, const union lt_args *args,
                               struct tacho_work *work)
{
    const struct lt_attention *heads = &args->attention_forward;
    uint64_t n = lt_u(heads->b * heads->t * heads->c);
    if (heads->kv)
        attention_part(work, context, heads, 0);
    else
        work_of(work, context, 0, (struct traffic){3 * n, 0},
                (struct traffic){n, lt_u(heads->b * heads->h * heads->t)});
    attention(work, heads, context, 2, 2); /* QK', PV */
}

void lt_cost_attention_backward(const struct lt_context *context, const union lt_args *args,
                                struct tacho_work *work)
{
    const struct lt_attention *heads = &args->attention_backward;
    uint64_t n = lt_u(heads->b * heads->t * heads->c);
    if (heads->kv)
        attention_part(work, context, heads, 1);
    else
        work_of(work, context, 0, (struct traffic){5 * n, lt_u(heads->b * heads->h * heads->t)},
                (struct traffic){3 * n, 0});
    /* dV, dP, dQ, dK, and QK' once more; a device makes QK' and dP for dQ and for dK */
    attention(work, heads, context, context->device ? 7 : 5, 4);
}

void lt_cost_gelu_forward(const struct lt_context *context, const union lt_args *args,
                          struct tacho_work *work)
{
    uint64_t n = lt_u(args->gelu_forward.count);
    work_of(work, context, 9 * n, (struct traffic){n, 0}, (struct traffic){n, 0});
}

void lt_cost_gelu_backward(const struct lt_context *context, const union lt_args *args,
                           struct tacho_work *work)
{
    uint64_t n = lt_u(args->gelu_backward.count);
    work_of(work, context, 19 * n, (struct traffic){2 * n, 0}, (struct traffic){n, 0});
}

void lt_cost_rmsnorm_forward(const struct lt_context *context, const union lt_args *args,
                             struct tacho_work *work)
{
    const struct lt_rmsnorm *norm = &args->rmsnorm_forward;
    uint64_t n = lt_u(norm->rows * norm->c);
    /* squares 2, normalise 1, scale 1 */
    work_of(work, context, 4 * n, (struct traffic){n, lt_u(norm->c)},
            (struct traffic){n, lt_u(norm->rows)});
}

void lt_cost_rmsnorm_backward(const struct lt_context *context, const union lt_args *args,
                              struct tacho_work *work)
{
    const struct lt_rmsnorm *norm = &args->rmsnorm_backward;
    uint64_t n = lt_u(norm->rows * norm->c), again = norm->add ? n : 0;
    /* normalised value 1, its gradient 1, their sum 2, input gradient 3, dweight 2; adding 1 */
    work_of(work, context, 9 * n + again,
            (struct traffic){2 * n + again, lt_u(norm->rows) + 2 * lt_u(norm->c)},
            (struct traffic){n, lt_u(norm->c)});
}

/* Of one direction: `sums` FLOPs a row, and 3 for each turned channel of the h + g heads. `narrow`
 * and `wide` are the rows of what has g and of what has h heads of keys and values. */
static void rope_cost(struct tacho_work *work, const struct lt_context *context,
                      const struct lt_rope *rope, uint64_t sums, int forward)
{
    uint64_t rows = lt_u(rope->b * rope->t), c = lt_u(rope->c),
             kept = lt_u(rope->groups) * c / lt_u(rope->h), narrow = rows * (c + 2 * kept),
             wide = rows * 3 * c, turns = lt_u(rope->t) * c / lt_u(rope->h),
             read = forward ? narrow : wide;
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
    uint64_t c = lt_u(rope->c), kept = lt_u(rope->groups) * c / lt_u(rope->h);
    rope_cost(work, context, rope, 2 * (c - kept), 0);
}

/* The gate 4 (negate, exp, add, divide), its product with up 1. */
void lt_cost_swiglu_forward(const struct lt_context *context, const union lt_args *args,
                            struct tacho_work *work)
{
    uint64_t n = lt_u(args->swiglu_forward.rows * args->swiglu_forward.f);
    work_of(work, context, 5 * n, (struct traffic){2 * n, 0}, (struct traffic){n, 0});
}

/* The sigmoid 4, the gradient of up 2, its slope 4, the gradient of the gate 2. */
void lt_cost_swiglu_backward(const struct lt_context *context, const union lt_args *args,
                             struct tacho_work *work)
{
    uint64_t n = lt_u(args->swiglu_backward.rows * args->swiglu_backward.f);
    work_of(work, context, 12 * n, (struct traffic){3 * n, 0}, (struct traffic){2 * n, 0});
}

void lt_cost_residual_forward(const struct lt_context *context, const union lt_args *args,
                              struct tacho_work *work)
{
    uint64_t n = lt_u(args->residual_forward.count);
    work_of(work, context, n, (struct traffic){2 * n, 0}, (struct traffic){n, 0});
}

void lt_cost_classifier(const struct lt_context *context, const union lt_args *args,
                        struct tacho_work *work)
{
    const struct lt_classifier *classifier = &args->classifier;
    uint64_t n = lt_u(classifier->rows * classifier->v), rows = lt_u(classifier->rows);
    /* maximum 1, subtract, exp, sum 3; log, subtract and add a row; gradient: subtract, exp, scale
     * 3, one correction a row */
    work_of(work, context, 4 * n + 3 * rows + (classifier->backward ? 3 * n + rows : 0),
            (struct traffic){n, rows}, (struct traffic){classifier->backward ? n : 0, rows});
}

/* ---- images ------------------------------------------------------------------------------------ */

void lt_cost_image_forward(const struct lt_context *context, const union lt_args *args,
                           struct tacho_work *work)
{
    uint64_t n = lt_u(args->image_forward.count);
    work_of(work, context, 0, (struct traffic){0, n}, (struct traffic){n, 0});
}

/* Windows of an image that are placed on it, those that reach over its edge included. */
static uint64_t windows(const struct lt_conv *conv)
{
    return lt_u(conv->b * lt_conv_out(conv->h, conv->k, conv->stride, conv->pad) *
                lt_conv_out(conv->w, conv->k, conv->stride, conv->pad));
}

/* A multiply-add for each tap of each window and channel of the result, zeros beyond the edge
 * included, as everybody counts it. */
void lt_cost_conv_forward(const struct lt_context *context, const union lt_args *args,
                          struct tacho_work *work)
{
    const struct lt_conv *conv = &args->conv_forward;
    uint64_t weight = lt_u(conv->n * conv->k * conv->k * conv->c), seen = windows(conv);
    work_of(work, context, 2 * seen * weight,
            (struct traffic){lt_u(conv->b * conv->h * conv->w * conv->c) + weight, 0},
            (struct traffic){seen * lt_u(conv->n), 0});
    work->model_flops = work->palm_flops = work->flops;
}

void lt_cost_conv_backward(const struct lt_context *context, const union lt_args *args,
                           struct tacho_work *work)
{
    const struct lt_conv *conv = &args->conv_backward;
    uint64_t weight = lt_u(conv->n * conv->k * conv->k * conv->c), seen = windows(conv),
             in = lt_u(conv->b * conv->h * conv->w * conv->c), flops = 2 * seen * weight;
    struct traffic read = {seen * lt_u(conv->n) + in, conv->accumulate ? weight : 0},
                   written = {0, weight};
    if (conv->din) { /* a second product, which reads the weight and writes the input's gradient */
        flops *= 2;
        read.elements += weight + (conv->add ? in : 0);
        written.elements = in;
    }
    work_of(work, context, flops, read, written);
    work->model_flops = work->palm_flops = flops;
}

/* Mean 1, variance 3, unless they are the running ones; normalise 2, scale and shift 2. */
void lt_cost_batchnorm_forward(const struct lt_context *context, const union lt_args *args,
                               struct tacho_work *work)
{
    const struct lt_batchnorm *norm = &args->batchnorm_forward;
    uint64_t n = lt_u(norm->rows * norm->c), c = lt_u(norm->c), flops = 8 * n;
    struct traffic read = {n, 2 * c}, written = {n, 2 * c};
    if (norm->evaluation)
        flops = 4 * n;
    if (norm->evaluation || norm->update)
        read.words += 2 * c;
    if (norm->update)
        written.words += 2 * c;
    work_of(work, context, flops, read, written);
}

void lt_cost_batchnorm_backward(const struct lt_context *context, const union lt_args *args,
                                struct tacho_work *work)
{
    const struct lt_batchnorm *norm = &args->batchnorm_backward;
    uint64_t n = lt_u(norm->rows * norm->c), c = lt_u(norm->c);
    /* sums: normalised value 2, product 1, additions 2; gradient: normalised value 2, means 3,
     * factors 2 */
    work_of(work, context, 12 * n, (struct traffic){2 * n, 5 * c}, (struct traffic){n, 2 * c});
}

void lt_cost_relu_forward(const struct lt_context *context, const union lt_args *args,
                          struct tacho_work *work)
{
    uint64_t n = lt_u(args->relu_forward.count);
    work_of(work, context, n, (struct traffic){n, 0}, (struct traffic){n, 0});
}

void lt_cost_relu_backward(const struct lt_context *context, const union lt_args *args,
                           struct tacho_work *work)
{
    uint64_t n = lt_u(args->relu_backward.count);
    work_of(work, context, n, (struct traffic){2 * n, 0}, (struct traffic){n, 0});
}

/* Of a pool: a comparison for each tap; backward an addition for each result. */
static void maxpool_cost(struct tacho_work *work, const struct lt_context *context,
                         const struct lt_maxpool *pool, int forward)
{
    uint64_t in = lt_u(pool->b * pool->h * pool->w * pool->c),
             out = lt_u(pool->b * lt_conv_out(pool->h, pool->k, pool->stride, pool->pad) *
                        lt_conv_out(pool->w, pool->k, pool->stride, pool->pad) * pool->c);
    struct traffic narrow = {out, out}, wide = {in, 0};
    if (forward)
        work_of(work, context, out * lt_u(pool->k * pool->k), wide, narrow);
    else
        work_of(work, context, out, narrow, wide);
}

void lt_cost_maxpool_forward(const struct lt_context *context, const union lt_args *args,
                             struct tacho_work *work)
{
    maxpool_cost(work, context, &args->maxpool_forward, 1);
}

void lt_cost_maxpool_backward(const struct lt_context *context, const union lt_args *args,
                              struct tacho_work *work)
{
    maxpool_cost(work, context, &args->maxpool_backward, 0);
}

void lt_cost_avgpool_forward(const struct lt_context *context, const union lt_args *args,
                             struct tacho_work *work)
{
    const struct lt_avgpool *pool = &args->avgpool_forward;
    uint64_t out = lt_u(pool->b * pool->c), in = out * lt_u(pool->pixels);
    work_of(work, context, in + out, (struct traffic){in, 0}, (struct traffic){out, 0});
}

void lt_cost_avgpool_backward(const struct lt_context *context, const union lt_args *args,
                              struct tacho_work *work)
{
    const struct lt_avgpool *pool = &args->avgpool_backward;
    uint64_t out = lt_u(pool->b * pool->c), in = out * lt_u(pool->pixels);
    work_of(work, context, in, (struct traffic){out, 0}, (struct traffic){in, 0});
}

/* ---- a mixture of experts ---------------------------------------------------------------------- */

void lt_cost_route_forward(const struct lt_context *context, const union lt_args *args,
                           struct tacho_work *work)
{
    const struct lt_route *route = &args->route_forward;
    uint64_t rows = lt_u(route->rows), e = lt_u(route->experts), k = lt_u(route->k);
    /* softmax over all: maximum 1, subtract, exp, sum, divide 4; over the chosen 4; comparisons */
    work_of(work, context, rows * (5 * e + 4 * k + k * e), (struct traffic){rows * e, 0},
            (struct traffic){0, rows * (e + 2 * k) + e});
}

void lt_cost_route_backward(const struct lt_context *context, const union lt_args *args,
                            struct tacho_work *work)
{
    const struct lt_route *route = &args->route_backward;
    uint64_t rows = lt_u(route->rows), e = lt_u(route->experts), k = lt_u(route->k);
    /* two means: 3 and 2; the balance 4; the gates 3 */
    work_of(work, context, rows * (7 * e + 5 * k), (struct traffic){0, rows * (e + 3 * k) + e},
            (struct traffic){rows * e, 0});
}

/* How many choices have a place is not known from the shapes: as if all had. */
void lt_cost_dispatch_forward(const struct lt_context *context, const union lt_args *args,
                              struct tacho_work *work)
{
    const struct lt_dispatch *a = &args->dispatch_forward;
    work_of(work, context, 0, (struct traffic){lt_u(a->rows * a->c), lt_u(a->rows * a->k)},
            (struct traffic){lt_u(a->slots * a->c), 0});
}

void lt_cost_dispatch_backward(const struct lt_context *context, const union lt_args *args,
                               struct tacho_work *work)
{
    const struct lt_dispatch *a = &args->dispatch_backward;
    uint64_t n = lt_u(a->rows * a->c), again = a->add ? n : 0;
    work_of(work, context, n * lt_u(a->k) - n + again,
            (struct traffic){n * lt_u(a->k) + again, lt_u(a->rows * a->k)}, (struct traffic){n, 0});
}

/* Every slot is multiplied, whether a row is in it or not; a model needs one row for each choice.
 */
static void experts_cost(struct tacho_work *work, const struct lt_context *context,
                         const struct lt_experts *a, int backward)
{
    uint64_t slots = lt_u(a->experts * a->capacity), layer = lt_u(a->n * a->k),
             weight = lt_u(a->experts) * layer, in = slots * lt_u(a->k), out = slots * lt_u(a->n),
             products = 1;
    struct traffic read = {in + weight, 0}, written = {out, 0};
    if (backward) {
        products = 2;
        read.elements += out;
        read.words = a->accumulate ? weight : 0;
        written = (struct traffic){in, weight};
    }
    work_of(work, context, 2 * products * slots * layer, read, written);
    work->model_flops = work->palm_flops = 2 * products * lt_u(a->routed) * layer;
}

void lt_cost_experts_forward(const struct lt_context *context, const union lt_args *args,
                             struct tacho_work *work)
{
    experts_cost(work, context, &args->experts_forward, 0);
}

void lt_cost_experts_backward(const struct lt_context *context, const union lt_args *args,
                              struct tacho_work *work)
{
    experts_cost(work, context, &args->experts_backward, 1);
}

void lt_cost_combine_forward(const struct lt_context *context, const union lt_args *args,
                             struct tacho_work *work)
{
    const struct lt_combine *a = &args->combine_forward;
    uint64_t n = lt_u(a->rows * a->c), k = lt_u(a->k);
    work_of(work, context, 2 * n * k, (struct traffic){n * k, 2 * lt_u(a->rows) * k},
            (struct traffic){n, 0});
}

void lt_cost_combine_backward(const struct lt_context *context, const union lt_args *args,
                              struct tacho_work *work)
{
    const struct lt_combine *a = &args->combine_backward;
    uint64_t n = lt_u(a->rows * a->c), k = lt_u(a->k), choices = lt_u(a->rows) * k;
    work_of(work, context, 3 * n * k, (struct traffic){n + n * k, 2 * choices},
            (struct traffic){lt_u(a->slots * a->c), choices});
}

/* ---- parts of the vocabulary -------------------------------------------------------------------- */

void lt_cost_embedding_part_forward(const struct lt_context *context, const union lt_args *args,
                                    struct tacho_work *work)
{
    const struct lt_embedding_part *part = &args->embedding_part_forward;
    uint64_t tokens = lt_u(part->b * part->t), n = tokens * lt_u(part->c),
             p = part->position ? lt_u(part->t * part->c) : 0;
    work_of(work, context, p ? n : 0, (struct traffic){n + p, tokens}, (struct traffic){n, 0});
}

/* Which tokens are this rank's is not known from the shapes: as if all were. */
void lt_cost_embedding_part_backward(const struct lt_context *context, const union lt_args *args,
                                     struct tacho_work *work)
{
    const struct lt_embedding_part *part = &args->embedding_part_backward;
    uint64_t tokens = lt_u(part->b * part->t), n = tokens * lt_u(part->c),
             p = part->dposition ? lt_u(part->t * part->c) : 0;
    work_of(work, context, p ? 2 * n : n, (struct traffic){n, tokens + n + p},
            (struct traffic){0, n + p});
}

void lt_cost_classifier_part(const struct lt_context *context, const union lt_args *args,
                             struct tacho_work *work)
{
    const struct lt_classifier_part *part = &args->classifier_part;
    uint64_t n = lt_u(part->rows * part->v), rows = lt_u(part->rows);
    /* maximum 1, subtract, exp, sum 3 */
    work_of(work, context, 4 * n, (struct traffic){n, rows}, (struct traffic){0, 3 * rows});
}

/* Of each rank and row: maximum 1, subtract, exp, scale, sum 4, target 1; a row: log, subtract and
 * add 3; gradient: subtract, exp, scale 3, one correction a row. */
void lt_cost_classifier_join(const struct lt_context *context, const union lt_args *args,
                             struct tacho_work *work)
{
    const struct lt_classifier_part *part = &args->classifier_join;
    uint64_t n = lt_u(part->rows * part->v), rows = lt_u(part->rows), ranks = lt_u(part->ranks),
             gradient = part->backward ? n : 0;
    work_of(work, context, 6 * ranks * rows + 3 * rows + 3 * gradient + (gradient ? rows : 0),
            (struct traffic){gradient, (3 * ranks + 1) * rows}, (struct traffic){gradient, rows});
}
