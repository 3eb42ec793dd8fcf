/* SPDX-License-Identifier: Apache-2.0
 *
 * What the operations of images and of experts read and write. Of slots that a choice looks up all
 * are named.
 */
#include "libtrain/ops/kernels.h"
#include "libtrain/ops/operands_list.h"

void lt_operands_image_forward(struct list *list, const union lt_args *args)
{
    words(list, READS, args->image_forward.in, args->image_forward.count);
    typed(list, WRITES, args->image_forward.out, args->image_forward.count);
}

static int64_t conv_in(const struct lt_conv *conv)
{
    return conv->b * conv->h * conv->w * conv->c;
}

static int64_t conv_out(const struct lt_conv *conv)
{
    return conv->b * lt_conv_out(conv->h, conv->k, conv->stride, conv->pad) *
           lt_conv_out(conv->w, conv->k, conv->stride, conv->pad) * conv->n;
}

static int64_t conv_weight(const struct lt_conv *conv)
{
    return conv->n * conv->k * conv->k * conv->c;
}

void lt_operands_conv_forward(struct list *list, const union lt_args *args)
{
    const struct lt_conv *conv = &args->conv_forward;
    typed(list, READS, conv->in, conv_in(conv));
    typed(list, READS, conv->weight, conv_weight(conv));
    typed(list, WRITES, conv->out, conv_out(conv));
}

void lt_operands_conv_backward(struct list *list, const union lt_args *args)
{
    const struct lt_conv *conv = &args->conv_backward;
    typed(list, READS, conv->dout, conv_out(conv));
    typed(list, READS, conv->in, conv_in(conv));
    if (conv->din)
        typed(list, READS, conv->weight, conv_weight(conv));
    typed(list, conv->add ? UPDATES : WRITES, conv->din, conv_in(conv));
    words(list, conv->accumulate ? UPDATES : WRITES, conv->dweight, conv_weight(conv));
}

/* The running statistics are read where they take part, and written where they move. */
void lt_operands_batchnorm_forward(struct list *list, const union lt_args *args)
{
    const struct lt_batchnorm *norm = &args->batchnorm_forward;
    unsigned running = norm->evaluation ? READS : 0;
    if (norm->update)
        running = UPDATES;
    typed(list, READS, norm->in, norm->rows * norm->c);
    words(list, READS, norm->weight, norm->c);
    words(list, READS, norm->bias, norm->c);
    words(list, WRITES, norm->mean, norm->c);
    words(list, WRITES, norm->rstd, norm->c);
    if (running) {
        words(list, running, norm->running_mean, norm->c);
        words(list, running, norm->running_variance, norm->c);
    }
    typed(list, WRITES, norm->out, norm->rows * norm->c);
}

void lt_operands_batchnorm_backward(struct list *list, const union lt_args *args)
{
    const struct lt_batchnorm *norm = &args->batchnorm_backward;
    typed(list, READS, norm->in, norm->rows * norm->c);
    typed(list, READS, norm->dout, norm->rows * norm->c);
    words(list, READS, norm->mean, norm->c);
    words(list, READS, norm->rstd, norm->c);
    words(list, READS, norm->weight, norm->c);
    words(list, UPDATES, norm->dweight, norm->c);
    words(list, UPDATES, norm->dbias, norm->c);
    typed(list, WRITES, norm->din, norm->rows * norm->c);
}

void lt_operands_relu_forward(struct list *list, const union lt_args *args)
{
    typed(list, READS, args->relu_forward.in, args->relu_forward.count);
    typed(list, WRITES, args->relu_forward.out, args->relu_forward.count);
}

void lt_operands_relu_backward(struct list *list, const union lt_args *args)
{
    const struct lt_relu *relu = &args->relu_backward;
    typed(list, READS, relu->out, relu->count);
    typed(list, READS, relu->dout, relu->count);
    typed(list, WRITES, relu->din, relu->count);
}

static int64_t maxpool_in(const struct lt_maxpool *pool)
{
    return pool->b * pool->h * pool->w * pool->c;
}

static int64_t maxpool_out(const struct lt_maxpool *pool)
{
    return pool->b * lt_conv_out(pool->h, pool->k, pool->stride, pool->pad) *
           lt_conv_out(pool->w, pool->k, pool->stride, pool->pad) * pool->c;
}

void lt_operands_maxpool_forward(struct list *list, const union lt_args *args)
{
    const struct lt_maxpool *pool = &args->maxpool_forward;
    typed(list, READS, pool->in, maxpool_in(pool));
    typed(list, WRITES, pool->out, maxpool_out(pool));
    words(list, WRITES, pool->where, maxpool_out(pool));
}

void lt_operands_maxpool_backward(struct list *list, const union lt_args *args)
{
    const struct lt_maxpool *pool = &args->maxpool_backward;
    typed(list, READS, pool->dout, maxpool_out(pool));
    words(list, READS, pool->where, maxpool_out(pool));
    typed(list, WRITES, pool->din, maxpool_in(pool));
}

void lt_operands_avgpool_forward(struct list *list, const union lt_args *args)
{
    const struct lt_avgpool *pool = &args->avgpool_forward;
    typed(list, READS, pool->in, pool->b * pool->pixels * pool->c);
    typed(list, WRITES, pool->out, pool->b * pool->c);
}

void lt_operands_avgpool_backward(struct list *list, const union lt_args *args)
{
    const struct lt_avgpool *pool = &args->avgpool_backward;
    typed(list, READS, pool->dout, pool->b * pool->c);
    typed(list, WRITES, pool->din, pool->b * pool->pixels * pool->c);
}

void lt_operands_route_forward(struct list *list, const union lt_args *args)
{
    const struct lt_route *route = &args->route_forward;
    typed(list, READS, route->in, route->rows * route->experts);
    words(list, WRITES, route->share, route->rows * route->experts);
    words(list, WRITES, route->gate, route->rows * route->k);
    words(list, WRITES, route->slot, route->rows * route->k);
    words(list, WRITES, route->load, route->experts);
}

void lt_operands_route_backward(struct list *list, const union lt_args *args)
{
    const struct lt_route *route = &args->route_backward;
    words(list, READS, route->share, route->rows * route->experts);
    words(list, READS, route->gate, route->rows * route->k);
    words(list, READS, route->slot, route->rows * route->k);
    words(list, READS, route->dgate, route->rows * route->k);
    words(list, READS, route->load, route->experts);
    typed(list, WRITES, route->din, route->rows * route->experts);
}

void lt_operands_dispatch_forward(struct list *list, const union lt_args *args)
{
    const struct lt_dispatch *dispatch = &args->dispatch_forward;
    typed(list, READS, dispatch->in, dispatch->rows * dispatch->c);
    words(list, READS, dispatch->slot, dispatch->rows * dispatch->k);
    typed(list, WRITES, dispatch->out, dispatch->slots * dispatch->c);
}

void lt_operands_dispatch_backward(struct list *list, const union lt_args *args)
{
    const struct lt_dispatch *dispatch = &args->dispatch_backward;
    typed(list, READS, dispatch->dout, dispatch->slots * dispatch->c);
    words(list, READS, dispatch->slot, dispatch->rows * dispatch->k);
    typed(list, dispatch->add ? UPDATES : WRITES, dispatch->din, dispatch->rows * dispatch->c);
}

void lt_operands_experts_forward(struct list *list, const union lt_args *args)
{
    const struct lt_experts *experts = &args->experts_forward;
    int64_t slots = experts->experts * experts->capacity;
    typed(list, READS, experts->in, slots * experts->k);
    typed(list, READS, experts->weight, experts->experts * experts->n * experts->k);
    typed(list, WRITES, experts->out, slots * experts->n);
}

void lt_operands_experts_backward(struct list *list, const union lt_args *args)
{
    const struct lt_experts *experts = &args->experts_backward;
    int64_t slots = experts->experts * experts->capacity,
            weight = experts->experts * experts->n * experts->k;
    typed(list, READS, experts->in, slots * experts->k);
    typed(list, READS, experts->weight, weight);
    typed(list, READS, experts->dout, slots * experts->n);
    typed(list, WRITES, experts->din, slots * experts->k);
    words(list, experts->accumulate ? UPDATES : WRITES, experts->dweight, weight);
}

void lt_operands_combine_forward(struct list *list, const union lt_args *args)
{
    const struct lt_combine *combine = &args->combine_forward;
    typed(list, READS, combine->in, combine->slots * combine->c);
    words(list, READS, combine->slot, combine->rows * combine->k);
    words(list, READS, combine->gate, combine->rows * combine->k);
    typed(list, WRITES, combine->out, combine->rows * combine->c);
}

void lt_operands_combine_backward(struct list *list, const union lt_args *args)
{
    const struct lt_combine *combine = &args->combine_backward;
    typed(list, READS, combine->in, combine->slots * combine->c);
    typed(list, READS, combine->dout, combine->rows * combine->c);
    words(list, READS, combine->slot, combine->rows * combine->k);
    words(list, READS, combine->gate, combine->rows * combine->k);
    typed(list, WRITES, combine->din, combine->slots * combine->c);
    words(list, WRITES, combine->dgate, combine->rows * combine->k);
}
