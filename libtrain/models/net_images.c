/* SPDX-License-Identifier: Apache-2.0
 *
 * Building a list of operations: those of images.
 */
#include "libtrain/models/net_private.h"

struct lt_net_map lt_net_image(struct lt_net *net, int64_t h, int64_t w, int64_t c)
{
    struct lt_image args = {.count = net->model.b * h * w * c};
    int out = lt_net_elements(net, net->model.b * h * w, c);
    const struct net_use uses[] = {
        VALUE(image_forward.out, VALUE, out, NET_WRITE),
        VALUE(image_forward.in, FEATURES, 0, NET_READ),
    };
    net->value[out].gradient = NET_NONE; /* nothing below learns */
    NODE(net, LT_OP_IMAGE_FORWARD, NET_NONE, image_forward, args, uses);
    return (struct lt_net_map){out, h, w};
}

struct lt_net_map lt_net_conv(struct lt_net *net, struct lt_net_map in, int weight, int64_t i,
                              struct lt_net_window window)
{
    const struct net_value *value = &net->value[in.value];
    int64_t n = net->tensor[weight].shape.rows, taps = net->tensor[weight].shape.columns;
    struct lt_conv args = {.b = net->model.b,
                           .h = in.h,
                           .w = in.w,
                           .c = value->width,
                           .n = n,
                           .k = window.k,
                           .stride = window.stride,
                           .pad = window.pad};
    int learns = value->gradient != NET_NONE;
    struct lt_net_map out = {.h = lt_conv_out(in.h, window.k, window.stride, window.pad),
                             .w = lt_conv_out(in.w, window.k, window.stride, window.pad)};
    int64_t scratch = (int64_t)lt_conv_scratch(net->mode.dtype, &args);
    if (out.h < 1 || out.w < 1 || taps != window.k * window.k * value->width)
        lt_net_fail(net);
    out.value = lt_net_elements(net, args.b * out.h * out.w, n);
    net->model.parameters.matrix += (uint64_t)(n * taps);
    const struct net_use uses[] = {
        VALUE(conv_forward.in, VALUE, in.value, NET_READ | NET_BACK_READ),
        VALUE(conv_forward.out, VALUE, out.value, NET_WRITE),
        VALUE(conv_forward.dout, GRADIENT, out.value, NET_BACK_READ),
        VALUE(conv_forward.accumulate, ACCUMULATE, 0, 0),
        TENSOR(conv_forward.weight, WEIGHT, weight, i * n * taps, n * taps),
        TENSOR(conv_forward.dweight, SLOPE, weight, i * n * taps, n * taps),
        TENSOR(conv_forward.scratch, SCRATCH, 0, 0, scratch),
        VALUE(conv_forward.din, GRADIENT, in.value, NET_BACK_WRITE),
        VALUE(conv_forward.add, ADD, in.value, 0),
    };
    lt_net_add_node(net, LT_OP_CONV_FORWARD, LT_OP_CONV_BACKWARD,
                    (union lt_args){.conv_forward = args}, uses,
                    (int)(sizeof uses / sizeof *uses) - (learns ? 0 : 2));
    return out;
}

int lt_net_batchnorm(struct lt_net *net, int in, int weight, int bias, int64_t i)
{
    int64_t rows = net->value[in].rows, c = net->value[in].width, state = (int64_t)net->states;
    struct lt_batchnorm args = {.rows = rows, .c = c};
    int out = lt_net_elements(net, rows, c), mean = lt_net_statistics(net, 1, c),
        rstd = lt_net_statistics(net, 1, c);
    net->states += 2 * (size_t)c;
    const struct net_use uses[] = {
        VALUE(batchnorm_forward.in, VALUE, in, NET_READ | NET_BACK_READ),
        VALUE(batchnorm_forward.out, VALUE, out, NET_WRITE),
        VALUE(batchnorm_forward.mean, VALUE, mean, NET_WRITE | NET_BACK_READ),
        VALUE(batchnorm_forward.rstd, VALUE, rstd, NET_WRITE | NET_BACK_READ),
        VALUE(batchnorm_forward.dout, GRADIENT, out, NET_BACK_READ),
        VALUE(batchnorm_forward.din, GRADIENT, in, NET_BACK_WRITE),
        VALUE(batchnorm_forward.update, UPDATE, 0, 0),
        VALUE(batchnorm_forward.evaluation, EVALUATION, 0, 0),
        TENSOR(batchnorm_forward.running_mean, STATE, 0, state, c),
        TENSOR(batchnorm_forward.running_variance, STATE, 1, state + c, c),
        TENSOR(batchnorm_forward.weight, PARAMETER, weight, i * c, c),
        TENSOR(batchnorm_forward.bias, PARAMETER, bias, i * c, c),
        TENSOR(batchnorm_forward.dweight, SLOPE, weight, i * c, c),
        TENSOR(batchnorm_forward.dbias, SLOPE, bias, i * c, c),
        TENSOR(batchnorm_forward.scratch, SCRATCH, 0, 0, (int64_t)lt_batchnorm_scratch(c)),
    };
    NODE(net, LT_OP_BATCHNORM_FORWARD, LT_OP_BATCHNORM_BACKWARD, batchnorm_forward, args, uses);
    return out;
}

int lt_net_relu(struct lt_net *net, int in)
{
    int64_t rows = net->value[in].rows, width = net->value[in].width;
    struct lt_relu args = {.count = rows * width};
    int out = lt_net_elements(net, rows, width);
    const struct net_use uses[] = {
        VALUE(relu_forward.in, VALUE, in, NET_READ),
        VALUE(relu_forward.out, VALUE, out, NET_WRITE | NET_BACK_READ),
        VALUE(relu_forward.dout, GRADIENT, out, NET_BACK_READ),
        VALUE(relu_forward.din, GRADIENT, in, NET_BACK_WRITE),
    };
    NODE(net, LT_OP_RELU_FORWARD, LT_OP_RELU_BACKWARD, relu_forward, args, uses);
    return out;
}

struct lt_net_map lt_net_maxpool(struct lt_net *net, struct lt_net_map in,
                                 struct lt_net_window window)
{
    int64_t c = net->value[in.value].width;
    struct lt_maxpool args = {.b = net->model.b,
                              .h = in.h,
                              .w = in.w,
                              .c = c,
                              .k = window.k,
                              .stride = window.stride,
                              .pad = window.pad};
    struct lt_net_map out = {.h = lt_conv_out(in.h, window.k, window.stride, window.pad),
                             .w = lt_conv_out(in.w, window.k, window.stride, window.pad)};
    if (out.h < 1 || out.w < 1 || window.pad >= window.k)
        lt_net_fail(net);
    int64_t rows = net->model.b * out.h * out.w;
    out.value = lt_net_elements(net, rows, c);
    int where = lt_net_statistics(net, rows, c);
    const struct net_use uses[] = {
        VALUE(maxpool_forward.in, VALUE, in.value, NET_READ),
        VALUE(maxpool_forward.out, VALUE, out.value, NET_WRITE),
        VALUE(maxpool_forward.where, VALUE, where, NET_WRITE | NET_BACK_READ),
        VALUE(maxpool_forward.dout, GRADIENT, out.value, NET_BACK_READ),
        VALUE(maxpool_forward.din, GRADIENT, in.value, NET_BACK_WRITE),
    };
    NODE(net, LT_OP_MAXPOOL_FORWARD, LT_OP_MAXPOOL_BACKWARD, maxpool_forward, args, uses);
    return out;
}

int lt_net_avgpool(struct lt_net *net, struct lt_net_map in)
{
    int64_t c = net->value[in.value].width;
    struct lt_avgpool args = {.b = net->model.b, .pixels = in.h * in.w, .c = c};
    int out = lt_net_elements(net, args.b, c);
    const struct net_use uses[] = {
        VALUE(avgpool_forward.in, VALUE, in.value, NET_READ),
        VALUE(avgpool_forward.out, VALUE, out, NET_WRITE),
        VALUE(avgpool_forward.dout, GRADIENT, out, NET_BACK_READ),
        VALUE(avgpool_forward.din, GRADIENT, in.value, NET_BACK_WRITE),
    };
    NODE(net, LT_OP_AVGPOOL_FORWARD, LT_OP_AVGPOOL_BACKWARD, avgpool_forward, args, uses);
    return out;
}
