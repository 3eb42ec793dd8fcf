/* SPDX-License-Identifier: Apache-2.0
 *
 * The outputs of operations as a table, and what is looked for in them.
 */
#include "libtrain/ops/scan.h"

#include <math.h>
#include <string.h>

#define OUT(pointer, number, is_floats) \
    (struct lt_written) \
    { \
        .at = (pointer), .count = (number), .floats = (is_floats) \
    }

/* Of one output. */
static int one(struct lt_written out[LT_OUTPUTS], void *at, int64_t count)
{
    out[0] = OUT(at, count, 0);
    return 1;
}

/* The gradient of the input, then those of two tensors of parameters; NULL: it has none. */
static int slopes(struct lt_written out[LT_OUTPUTS], struct lt_written input,
                  struct lt_written weight, struct lt_written bias)
{
    const struct lt_written all[LT_OUTPUTS] = {input, weight, bias};
    int count = 0;
    for (int i = 0; i < LT_OUTPUTS; i++)
        if (all[i].at)
            out[count++] = all[i];
    return count;
}

static int64_t conv_outputs(const struct lt_conv *conv)
{
    return conv->b * lt_conv_out(conv->h, conv->k, conv->stride, conv->pad) *
           lt_conv_out(conv->w, conv->k, conv->stride, conv->pad) * conv->n;
}

static int64_t maxpool_outputs(const struct lt_maxpool *pool)
{
    return pool->b * lt_conv_out(pool->h, pool->k, pool->stride, pool->pad) *
           lt_conv_out(pool->w, pool->k, pool->stride, pool->pad) * pool->c;
}

/* The operations of images and of a mixture of experts, forward. */
static int other_forward_outputs(enum lt_op_id op, const union lt_args *args,
                                 struct lt_written *out)
{
    const struct lt_route *route = &args->route_forward;
    switch (op) {
    case LT_OP_IMAGE_FORWARD:
        return one(out, args->image_forward.out, args->image_forward.count);
    case LT_OP_CONV_FORWARD:
        return one(out, args->conv_forward.out, conv_outputs(&args->conv_forward));
    case LT_OP_BATCHNORM_FORWARD:
        return one(out, args->batchnorm_forward.out,
                   args->batchnorm_forward.rows * args->batchnorm_forward.c);
    case LT_OP_RELU_FORWARD:
        return one(out, args->relu_forward.out, args->relu_forward.count);
    case LT_OP_MAXPOOL_FORWARD:
        return one(out, args->maxpool_forward.out, maxpool_outputs(&args->maxpool_forward));
    case LT_OP_AVGPOOL_FORWARD:
        return one(out, args->avgpool_forward.out,
                   args->avgpool_forward.b * args->avgpool_forward.c);
    case LT_OP_ROUTE_FORWARD:
        return slopes(out, OUT(route->gate, route->rows * route->k, 1),
                      OUT(route->share, route->rows * route->experts, 1), OUT(NULL, 0, 0));
    case LT_OP_DISPATCH_FORWARD:
        return one(out, args->dispatch_forward.out,
                   args->dispatch_forward.slots * args->dispatch_forward.c);
    case LT_OP_EXPERTS_FORWARD:
        return one(out, args->experts_forward.out,
                   args->experts_forward.experts * args->experts_forward.capacity *
                       args->experts_forward.n);
    case LT_OP_COMBINE_FORWARD:
        return one(out, args->combine_forward.out,
                   args->combine_forward.rows * args->combine_forward.c);
    default:
        return 0;
    }
}

/* And backward. */
static int other_backward_outputs(enum lt_op_id op, const union lt_args *args,
                                  struct lt_written *out)
{
    const struct lt_conv *conv = &args->conv_backward;
    const struct lt_batchnorm *norm = &args->batchnorm_backward;
    const struct lt_maxpool *pool = &args->maxpool_backward;
    const struct lt_experts *experts = &args->experts_backward;
    const struct lt_combine *combine = &args->combine_backward;
    switch (op) {
    case LT_OP_CONV_BACKWARD:
        return slopes(out, OUT(conv->din, conv->b * conv->h * conv->w * conv->c, 0),
                      OUT(conv->dweight, conv->n * conv->k * conv->k * conv->c, 1),
                      OUT(NULL, 0, 0));
    case LT_OP_BATCHNORM_BACKWARD:
        return slopes(out, OUT(norm->din, norm->rows * norm->c, 0), OUT(norm->dweight, norm->c, 1),
                      OUT(norm->dbias, norm->c, 1));
    case LT_OP_RELU_BACKWARD:
        return one(out, args->relu_backward.din, args->relu_backward.count);
    case LT_OP_MAXPOOL_BACKWARD:
        return one(out, pool->din, pool->b * pool->h * pool->w * pool->c);
    case LT_OP_AVGPOOL_BACKWARD:
        return one(out, args->avgpool_backward.din,
                   args->avgpool_backward.b * args->avgpool_backward.pixels *
                       args->avgpool_backward.c);
    case LT_OP_ROUTE_BACKWARD:
        return one(out, args->route_backward.din,
                   args->route_backward.rows * args->route_backward.experts);
    case LT_OP_DISPATCH_BACKWARD:
        return one(out, args->dispatch_backward.din,
                   args->dispatch_backward.rows * args->dispatch_backward.c);
    case LT_OP_EXPERTS_BACKWARD:
        return slopes(out, OUT(experts->din, experts->experts * experts->capacity * experts->k, 0),
                      OUT(experts->dweight, experts->experts * experts->n * experts->k, 1),
                      OUT(NULL, 0, 0));
    case LT_OP_COMBINE_BACKWARD:
        return slopes(out, OUT(combine->din, combine->slots * combine->c, 0),
                      OUT(combine->dgate, combine->rows * combine->k, 1), OUT(NULL, 0, 0));
    default:
        return 0;
    }
}

/* The operations of forward, and their main output. */
static int forward_outputs(enum lt_op_id op, const union lt_args *args, struct lt_written *out)
{
    const struct lt_classifier *last = &args->classifier;
    const struct lt_classifier_part *part = &args->classifier_part;
    switch (op) {
    case LT_OP_EMBEDDING_FORWARD:
        return one(out, args->embedding_forward.out,
                   args->embedding_forward.b * args->embedding_forward.t *
                       args->embedding_forward.c);
    case LT_OP_LAYERNORM_FORWARD:
        return one(out, args->layernorm_forward.out,
                   args->layernorm_forward.rows * args->layernorm_forward.c);
    case LT_OP_RMSNORM_FORWARD:
        return one(out, args->rmsnorm_forward.out,
                   args->rmsnorm_forward.rows * args->rmsnorm_forward.c);
    case LT_OP_MATMUL_FORWARD:
        return one(out, args->matmul_forward.out,
                   args->matmul_forward.rows * args->matmul_forward.n);
    case LT_OP_ATTENTION_FORWARD:
        return one(out, args->attention_forward.out,
                   args->attention_forward.b * args->attention_forward.t *
                       args->attention_forward.c);
    case LT_OP_ROPE_FORWARD:
        return one(out, args->rope_forward.out,
                   3 * args->rope_forward.b * args->rope_forward.t * args->rope_forward.c);
    case LT_OP_SWIGLU_FORWARD:
        return one(out, args->swiglu_forward.out,
                   args->swiglu_forward.rows * args->swiglu_forward.f);
    case LT_OP_GELU_FORWARD:
        return one(out, args->gelu_forward.out, args->gelu_forward.count);
    case LT_OP_RESIDUAL_FORWARD:
        return one(out, args->residual_forward.out, args->residual_forward.count);
    case LT_OP_CLASSIFIER:
        return slopes(out, OUT(last->losses, last->rows, 1),
                      OUT(last->backward ? last->logits : NULL, last->rows * last->v, 0),
                      OUT(NULL, 0, 0));
    case LT_OP_EMBEDDING_PART_FORWARD:
        return one(out, args->embedding_part_forward.out,
                   args->embedding_part_forward.b * args->embedding_part_forward.t *
                       args->embedding_part_forward.c);
    case LT_OP_CLASSIFIER_PART:
        return slopes(out, OUT(part->stats, 3 * part->rows, 1), OUT(NULL, 0, 0), OUT(NULL, 0, 0));
    case LT_OP_CLASSIFIER_JOIN:
        return slopes(out, OUT(part->losses, part->rows, 1),
                      OUT(part->backward ? part->logits : NULL, part->rows * part->v, 0),
                      OUT(NULL, 0, 0));
    default:
        return other_forward_outputs(op, args, out);
    }
}

/* The operations of backward: the gradient of the input, and those of parameters. */
static int backward_outputs(enum lt_op_id op, const union lt_args *args, struct lt_written *out)
{
    const struct lt_layernorm *ln = &args->layernorm_backward;
    const struct lt_rmsnorm *rms = &args->rmsnorm_backward;
    const struct lt_matmul *matmul = &args->matmul_backward;
    const struct lt_rope *rope = &args->rope_backward;
    const struct lt_embedding_part *part = &args->embedding_part_backward;
    switch (op) {
    case LT_OP_EMBEDDING_BACKWARD:
        return slopes(out, OUT(NULL, 0, 0),
                      OUT(args->embedding_backward.dword,
                          args->embedding_backward.v * args->embedding_backward.c, 1),
                      OUT(args->embedding_backward.dposition,
                          (args->embedding_backward.t + args->embedding_backward.jump) *
                              args->embedding_backward.c,
                          1));
    case LT_OP_EMBEDDING_PART_BACKWARD:
        return slopes(out, OUT(NULL, 0, 0), OUT(part->dword, part->v * part->c, 1),
                      OUT(part->dposition, (part->t + part->jump) * part->c, 1));
    case LT_OP_LAYERNORM_BACKWARD:
        return slopes(out, OUT(ln->din, ln->rows * ln->c, 0), OUT(ln->dweight, ln->c, 1),
                      OUT(ln->dbias, ln->c, 1));
    case LT_OP_RMSNORM_BACKWARD:
        return slopes(out, OUT(rms->din, rms->rows * rms->c, 0), OUT(rms->dweight, rms->c, 1),
                      OUT(NULL, 0, 0));
    case LT_OP_MATMUL_BACKWARD:
        return slopes(out, OUT(matmul->din, matmul->rows * matmul->k, 0),
                      OUT(matmul->dweight, matmul->n * matmul->k, 1),
                      OUT(matmul->dbias, matmul->n, 1));
    case LT_OP_ATTENTION_BACKWARD:
        return one(out, args->attention_backward.dqkv,
                   3 * args->attention_backward.b * args->attention_backward.t *
                       args->attention_backward.c);
    case LT_OP_ROPE_BACKWARD:
        return one(out, rope->din,
                   rope->b * rope->t * (rope->c + 2 * rope->groups * (rope->c / rope->h)));
    case LT_OP_SWIGLU_BACKWARD:
        return one(out, args->swiglu_backward.din,
                   2 * args->swiglu_backward.rows * args->swiglu_backward.f);
    case LT_OP_GELU_BACKWARD:
        return one(out, args->gelu_backward.din, args->gelu_backward.count);
    default:
        return other_backward_outputs(op, args, out);
    }
}

int lt_op_outputs(enum lt_op_id op, const union lt_args *args, struct lt_written out[LT_OUTPUTS])
{
    int count = forward_outputs(op, args, out);
    return count ? count : backward_outputs(op, args, out);
}

static enum lt_dtype type_of(const struct lt_written *output, const struct lt_context *context)
{
    return output->floats ? LT_DTYPE_FP32 : context->dtype;
}

/* Whether all elements are finite; *zeros: how many are 0. */
static int look(const struct lt_written *output, enum lt_dtype dtype, uint64_t *zeros)
{
    uint64_t none = 0;
    int finite = 1;
#pragma omp parallel for schedule(static) reduction(+ : none) reduction(&& : finite)
    for (int64_t i = 0; i < output->count; i++) {
        float value = lt_element_get(output->at, i, dtype);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits); /* the compiler may take all floats for finite */
        finite = finite && (bits & 0x7f800000u) != 0x7f800000u;
        none += (bits & 0x7fffffffu) == 0;
    }
    *zeros = none;
    return finite;
}

void lt_scan_op(struct lt_scan *scan, const struct lt_context *context, enum lt_op_id op,
                const union lt_args *args)
{
    struct lt_written out[LT_OUTPUTS];
    int count = forward_outputs(op, args, out), backward = count == 0;
    count = backward ? backward_outputs(op, args, out) : count;
    for (int i = 0; i < count; i++) {
        uint64_t zeros;
        if (!look(&out[i], type_of(&out[i], context), &zeros) && !scan->found) {
            scan->found = 1;
            scan->op = op;
            scan->layer = context->layer;
        }
        if (backward && !out[i].floats && context->layer <= LT_SCAN_LAYERS) {
            scan->gradient[context->layer].elements += (uint64_t)out[i].count;
            scan->gradient[context->layer].zeros += zeros;
        }
    }
}

void lt_fault_op(const struct lt_fault *fault, const struct lt_context *context, enum lt_op_id op,
                 const union lt_args *args)
{
    struct lt_written out[LT_OUTPUTS];
    if (op == fault->op && context->layer == fault->layer && lt_op_outputs(op, args, out))
        lt_element_put(out[0].at, 0, type_of(&out[0], context), fault->value);
}
