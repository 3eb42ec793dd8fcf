/* SPDX-License-Identifier: Apache-2.0
 *
 * GEMMs, convolutions and attention. Positions of arguments are those of the operators'
 * schemas (PyTorch 1.8 to 2.15; the same position in all of them where the row does not say
 * otherwise).
 */
#include <string.h>

#include "analyzers/work/op_cost.h"
#include "store/store.h"

#define NO_SHAPE "the shapes of its operands are not in the trace"
#define NO_CONCRETE \
    "the values of its scalar arguments are not in the trace (PyTorch records them with " \
    "record_shapes from 2.1)"
#define NO_LENGTHS "the lengths of packed sequences are not in the trace"

typedef const struct an_op_tensor *tensor;

/* A product's cost: 2 * multiplications; bytes of two operands and a result of `out` elements of
 * the first one's type. */
static struct an_op_cost product(enum an_op_kind kind, int64_t multiplications, tensor x, tensor y,
                                 int64_t out)
{
    int64_t flops = an_op_mul(2, multiplications);
    struct an_op_cost cost = {kind, flops, flops, flops, STORE_ABSENT, x->dtype, NULL};
    if (flops == STORE_ABSENT)
        return an_op_absent(kind, "its FLOPs do not fit 64 bits");
    if (x->bytes)
        cost.bytes = an_op_add(an_op_add(an_op_bytes(x), an_op_bytes(y)), an_op_mul(out, x->bytes));
    return cost;
}

/* ---- GEMMs ----------------------------------------------------------------------------------- */

/* x [..., m, k] by y [..., k, n] of equal rank 2 or 3. a: position of x and y, of an addend (-1:
 * none) */
static struct an_op_cost matrix(const struct an_op_row *row, const struct an_op_args *args,
                                const struct an_op_context *context)
{
    tensor x = an_op_tensor_at(args, row->a[0]), y = an_op_tensor_at(args, row->a[1]),
           z = an_op_tensor_at(args, row->a[2]);
    (void)context;
    if (!x || !y || x->rank != y->rank || x->rank < 2 || x->rank > 3 ||
        x->dim[x->rank - 1] != y->dim[y->rank - 2] || (x->rank == 3 && x->dim[0] != y->dim[0]))
        return an_op_absent(AN_OP_MATRIX, NO_SHAPE);
    int64_t n = y->dim[y->rank - 1], rows = 1;
    for (int i = 0; i < x->rank - 1; i++)
        rows = an_op_mul(rows, x->dim[i]);
    struct an_op_cost cost =
        product(AN_OP_MATRIX, an_op_mul(an_op_elements(x), n), x, y, an_op_mul(rows, n));
    if (z && cost.bytes != STORE_ABSENT)
        cost.bytes = an_op_add(cost.bytes, an_op_bytes(z));
    return cost;
}

/* Matrix by vector, and vector by vector: every element of the larger one is multiplied once. */
static struct an_op_cost vector(const struct an_op_row *row, const struct an_op_args *args,
                                const struct an_op_context *context)
{
    tensor x = an_op_tensor_at(args, row->a[0]), y = an_op_tensor_at(args, row->a[1]);
    (void)context;
    if (!x || !y || x->rank < 1 || x->rank > 2 || y->rank != 1 || x->dim[x->rank - 1] != y->dim[0])
        return an_op_absent(AN_OP_MATRIX, NO_SHAPE);
    return product(AN_OP_MATRIX, an_op_elements(x), x, y, x->rank == 2 ? x->dim[0] : 1);
}

/* x [..., k] by weights [n, k]. */
static struct an_op_cost linear(const struct an_op_row *row, const struct an_op_args *args,
                                const struct an_op_context *context)
{
    tensor input = an_op_tensor_at(args, 0), weight = an_op_tensor_at(args, 1);
    (void)row;
    (void)context;
    if (!input || !weight || input->rank < 1 || weight->rank != 2 ||
        input->dim[input->rank - 1] != weight->dim[1] || !weight->dim[1])
        return an_op_absent(AN_OP_MATRIX, NO_SHAPE);
    int64_t all = an_op_mul(an_op_elements(input), weight->dim[0]);
    return product(AN_OP_MATRIX, all, input, weight,
                   all == STORE_ABSENT ? all : all / weight->dim[1]);
}

/* x [..., m, k] by y [..., k, n] with broadcasting of the leading dimensions; y may be a vector
 * [k]. */
static struct an_op_cost matmul(const struct an_op_row *row, const struct an_op_args *args,
                                const struct an_op_context *context)
{
    tensor x = an_op_tensor_at(args, 0), y = an_op_tensor_at(args, 1);
    (void)row;
    (void)context;
    if (!x || !y || !x->rank || !y->rank)
        return an_op_absent(AN_OP_MATRIX, NO_SHAPE);
    bool column = y->rank == 1;
    int64_t m = an_op_dim(x, 2), n = column ? 1 : an_op_dim(y, 1), k = an_op_dim(x, 1);
    int64_t out = an_op_mul(m, n);
    if (k != an_op_dim(y, column ? 1 : 2))
        return an_op_absent(AN_OP_MATRIX, NO_SHAPE);
    for (int i = 3; i <= x->rank || i <= y->rank; i++) {
        int64_t left = an_op_dim(x, i), right = an_op_dim(y, i);
        if (left != right && left != 1 && right != 1)
            return an_op_absent(AN_OP_MATRIX, NO_SHAPE);
        out = an_op_mul(out, left == 1 ? right : left);
    }
    return product(AN_OP_MATRIX, an_op_mul(out, k), x, y, out);
}

/* Groups of GEMMs: of 3-dimensional operands one a group; a 2-dimensional one is cut along rows
 * or along k by offsets. */
static struct an_op_cost grouped(const struct an_op_row *row, const struct an_op_args *args,
                                 const struct an_op_context *context)
{
    tensor x = an_op_tensor_at(args, 0), y = an_op_tensor_at(args, 1),
           offsets = an_op_tensor_at(args, row->a[0]);
    (void)context;
    if (!x || !y || x->rank < 2 || x->rank > 3 || y->rank < 2 || y->rank > 3 ||
        x->dim[x->rank - 1] != y->dim[y->rank - 2])
        return an_op_absent(AN_OP_MATRIX, NO_SHAPE);
    int64_t n = y->dim[y->rank - 1], m = x->dim[x->rank - 2];
    /* Where one operand is 3-dimensional, the other one's rows or columns are divided among the
     * groups. */
    int64_t groups = 1, repeats = 1;
    if (x->rank == 3 && y->rank == 3)
        groups = repeats = x->dim[0];
    else if (x->rank == 2 && y->rank == 2)
        groups = offsets && offsets->rank == 1 ? offsets->dim[0] : STORE_ABSENT;
    int64_t all = an_op_mul(an_op_mul(repeats, m), an_op_mul(n, x->dim[x->rank - 1]));
    return product(AN_OP_MATRIX, all, x, y, an_op_mul(groups, an_op_mul(m, n)));
}

/* ---- convolutions ---------------------------------------------------------------------------- */

/* The value of an axis: one value may be given for all axes. */
static int64_t value_of(const int64_t *values, int count, int axis)
{
    return values[count == 1 ? 0 : axis];
}

/* Elements of the result of one channel and one sample: the positions of the filter. */
static int64_t positions(const struct an_op_args *args, const int *places, tensor input,
                         tensor weight)
{
    int64_t stride[AN_OP_RANK_MAX], padding[AN_OP_RANK_MAX], dilation[AN_OP_RANK_MAX], total = 1;
    int spatial = input->rank - 2,
        strides = an_op_integers(args, places[0], stride, AN_OP_RANK_MAX),
        paddings = an_op_integers(args, places[1], padding, AN_OP_RANK_MAX),
        dilations = an_op_integers(args, places[2], dilation, AN_OP_RANK_MAX);
    if ((strides != 1 && strides != spatial) || (paddings != 1 && paddings != spatial) ||
        (places[2] >= 0 && dilations != 1 && dilations != spatial))
        return STORE_ABSENT;
    for (int i = 0; i < spatial; i++) {
        int64_t step = value_of(stride, strides, i), pad = value_of(padding, paddings, i);
        int64_t reach = places[2] < 0 ? 1 : value_of(dilation, dilations, i);

        int64_t span = an_op_add(an_op_mul(reach, weight->dim[2 + i] - 1), 1);
        int64_t room = an_op_add(input->dim[2 + i], an_op_mul(2, pad));
        if (step < 1 || reach < 1 || span == STORE_ABSENT || room == STORE_ABSENT || pad < 0 ||
            room < span)
            return STORE_ABSENT;
        total = an_op_mul(total, (room - span) / step + 1);
    }
    return total;
}

/* Multiplications one way through a convolution with weights [out, in / groups, filter ...]: each
 * element of the side that the filter is centred on (the result; the input of a transposed one)
 * meets in / groups * filter weights. */
static int64_t filtered(int64_t elements, tensor weight)
{
    for (int i = 1; i < weight->rank; i++)
        elements = an_op_mul(elements, weight->dim[i]);
    return elements;
}

static bool convolves(tensor input, tensor weight)
{
    return input && weight && input->rank >= 3 && input->rank == weight->rank;
}

/* a: stride, padding, dilation (-1: none), transposed (-1: never, -2: always) */
static struct an_op_cost convolution(const struct an_op_row *row, const struct an_op_args *args,
                                     const struct an_op_context *context)
{
    tensor input = an_op_tensor_at(args, 0), weight = an_op_tensor_at(args, 1),
           output = context->output;
    int transposed = row->a[3] < 0 ? row->a[3] == -2 : an_op_flag(args, row->a[3]);

    if (!convolves(input, weight))
        return an_op_absent(AN_OP_CONVOLUTION, NO_SHAPE);
    if (transposed < 0 && output && output->rank == input->rank && output->dim[1] == weight->dim[0])
        transposed = 0; /* of a transposed one dim 0 of the weights is the input's channels */
    if (transposed == 1) {
        struct an_op_cost cost = product(AN_OP_CONVOLUTION, filtered(an_op_elements(input), weight),
                                         input, weight, STORE_ABSENT);
        cost.bytes = STORE_ABSENT;
        return cost;
    }
    int64_t places = transposed < 0 ? STORE_ABSENT : positions(args, row->a, input, weight);
    int64_t out = an_op_mul(an_op_mul(input->dim[0], weight->dim[0]), places);
    if (out == STORE_ABSENT && output && output->rank == input->rank &&
        output->dim[0] == input->dim[0] && output->dim[1] == weight->dim[0])
        out = an_op_elements(output);
    if (out == STORE_ABSENT)
        return an_op_absent(AN_OP_CONVOLUTION, NO_CONCRETE);
    return product(AN_OP_CONVOLUTION, filtered(out, weight), input, weight, out);
}

/* Gradients of input and weights: as many products as forward, each. a: gradient, input, weights,
 * mask, transposed */
static struct an_op_cost convolution_backward(const struct an_op_row *row,
                                              const struct an_op_args *args,
                                              const struct an_op_context *context)
{
    tensor gradient = an_op_tensor_at(args, row->a[0]),
           activation = an_op_tensor_at(args, row->a[1]), weight = an_op_tensor_at(args, row->a[2]);
    const char *mask = (size_t)row->a[3] < args->count ? args->input[row->a[3]].concrete : "";
    int transposed = row->a[4] < 0 ? 0 : an_op_flag(args, row->a[4]);
    (void)context;
    if (!convolves(activation, weight) || !gradient || gradient->rank != activation->rank)
        return an_op_absent(AN_OP_CONVOLUTION, NO_SHAPE);
    if (*mask != '[' || transposed < 0)
        return an_op_absent(AN_OP_CONVOLUTION, NO_CONCRETE);
    bool input = !strncmp(mask, "[True", 5),
         weights = strstr(mask, ", ") && !strncmp(strstr(mask, ", "), ", True", 6);
    int64_t once = filtered(an_op_elements(transposed ? activation : gradient), weight);
    struct an_op_cost cost =
        product(AN_OP_CONVOLUTION, an_op_mul(once, input + weights), gradient, gradient, 0);
    if (cost.reason)
        return cost;
    int64_t bytes = an_op_bytes(gradient);
    if (input)
        bytes = an_op_add(bytes, an_op_add(an_op_bytes(weight), an_op_bytes(activation)));
    if (weights)
        bytes = an_op_add(bytes, an_op_add(an_op_bytes(activation), an_op_bytes(weight)));
    cost.bytes = bytes;
    return cost;
}

/* One of the two gradients alone (PyTorch up to 1.10). Its own size only the enclosing operator
 * (input, gradient, weights) tells. a: gradient, the other operand, position of this gradient's
 * tensor in the enclosing operator */
static struct an_op_cost convolution_half(const struct an_op_row *row,
                                          const struct an_op_args *args,
                                          const struct an_op_context *context)
{
    tensor gradient = an_op_tensor_at(args, row->a[0]), input = an_op_tensor_at(args, row->a[1]);
    tensor result = context->outer ? an_op_tensor_at(context->outer, row->a[2]) : NULL;
    tensor weight = row->a[2] == 2 ? result : input;
    if (!gradient || !input || !convolves(input, weight) || gradient->rank != input->rank ||
        gradient->dim[1] != weight->dim[0])
        return an_op_absent(AN_OP_CONVOLUTION, NO_SHAPE);
    struct an_op_cost cost =
        product(AN_OP_CONVOLUTION, filtered(an_op_elements(gradient), weight), gradient, input, 0);
    if (!cost.reason)
        cost.bytes = an_op_add(cost.bytes, an_op_bytes(result));
    return cost;
}

/* ---- attention ------------------------------------------------------------------------------- */

static __int128 clamp(__int128 value, int64_t most)
{
    if (value < 0)
        return 0;
    return value < most ? value : most;
}

/* Sum over i = 0 .. count-1 of i + shift, clamped to 0 .. top; count * top fits int64. */
static int64_t clamped_sum(int64_t count, __int128 shift, int64_t top)
{
    /* The first i with i + shift >= 0, and the first one with i + shift >= top. */
    __int128 low = clamp(-shift, count), high = clamp(top - shift, count);

    return (int64_t)((high - low) * (low + high - 1 + 2 * shift) / 2 + (count - high) * top);
}

struct mask {
    bool causal;
    bool from_end; /* the last query sees all keys (bottom right), else query i sees keys 0 .. i */
    int64_t left, right; /* keys of a window before and after, -1: all */
};

/* Pairs of query and key that count. */
static int64_t pairs(int64_t queries, int64_t keys, const struct mask *mask)
{
    int64_t all = an_op_mul(queries, keys), right = mask->causal ? 0 : mask->right;
    __int128 shift = mask->from_end ? (__int128)keys - queries : 0;
    if (all == STORE_ABSENT)
        return all;
    int64_t upto = right < 0 ? all : clamped_sum(queries, shift + right + 1, keys);
    return upto - (mask->left < 0 ? 0 : clamped_sum(queries, shift - mask->left, keys));
}

/* What the argument of the causal flag means, and where a causal mask starts. */
enum { SAME_START, ENDS_MEET, MASK_TYPE };

struct attention {
    int64_t batch, heads, queries, keys, size, value_size;
};

/* Shapes are [batch, heads, length, size], or [batch, length, heads, size] with `length_first`;
 * fewer heads of k and v are shared by groups of queries' heads. */
static bool attention_shape(tensor query, tensor key, tensor value, bool length_first,
                            struct attention *attention)
{
    if (!query || !key || !value || query->rank < 3 || query->rank > 4 ||
        key->rank != query->rank || value->rank != query->rank)
        return false;
    int rank = query->rank, heads = rank - 3, length = rank - 2;
    if (length_first) {
        heads = rank - 2;
        length = rank - 3;
    }

    *attention = (struct attention){.batch = rank == 4 ? query->dim[0] : 1,
                                    .heads = query->dim[heads],
                                    .queries = query->dim[length],
                                    .keys = key->dim[length],
                                    .size = query->dim[rank - 1],
                                    .value_size = value->dim[rank - 1]};
    return key->dim[rank - 1] == attention->size && value->dim[length] == attention->keys &&
           key->dim[heads] > 0 && attention->heads % key->dim[heads] == 0;
}

static bool is_packed(const struct an_op_args *args, int i)
{
    tensor lengths = an_op_tensor_at(args, i);
    return i >= 0 && lengths && lengths->rank == 1 && lengths->dim[0] > 1;
}

/* Reads the mask from the arguments; false: the values were not recorded. */
static bool mask_of(const struct an_op_row *row, const struct an_op_args *args, int windows,
                    struct mask *mask)
{
    int64_t value;
    *mask = (struct mask){.left = -1, .right = -1};
    if (row->a[3] == MASK_TYPE) { /* 0 none, 1 from the top left, 2 from the bottom right */
        if (an_op_integers(args, row->a[1], &value, 1) != 1)
            return false;
        mask->causal = value != 0;
        mask->from_end = value == 2;
        return true;
    }
    int causal = an_op_flag(args, row->a[1]);
    mask->causal = causal == 1;
    mask->from_end = row->a[3] == ENDS_MEET;
    if (windows && an_op_integers(args, row->a[1] + 1, &value, 1) == 1)
        mask->left = value;
    if (windows && an_op_integers(args, row->a[1] + 2, &value, 1) == 1)
        mask->right = value;
    return causal >= 0;
}

#define LENGTH_FIRST 1
#define BACKWARD     2
#define WINDOWS      4 /* the two arguments after the causal flag */

/* a: query (key and value follow), causal flag, tensor that is there where sequences are packed
 * (-1: none), what the flag means, LENGTH_FIRST | BACKWARD | WINDOWS */
static struct an_op_cost attention(const struct an_op_row *row, const struct an_op_args *args,
                                   const struct an_op_context *context)
{
    tensor query = an_op_tensor_at(args, row->a[0]), key = an_op_tensor_at(args, row->a[0] + 1),
           value = an_op_tensor_at(args, row->a[0] + 2);
    struct attention sizes;
    struct mask mask;
    (void)context;
    if (is_packed(args, row->a[2]))
        return an_op_absent(AN_OP_ATTENTION, NO_LENGTHS);
    if (!attention_shape(query, key, value, row->a[4] & LENGTH_FIRST, &sizes))
        return an_op_absent(AN_OP_ATTENTION, NO_SHAPE);
    if (!mask_of(row, args, row->a[4] & WINDOWS, &mask))
        return an_op_absent(AN_OP_ATTENTION, NO_CONCRETE);
    int64_t each = an_op_mul(2, an_op_mul(sizes.batch, sizes.heads)),
            both = an_op_add(sizes.size, sizes.value_size);
    int64_t some = an_op_mul(each, pairs(sizes.queries, sizes.keys, &mask)),
            all = an_op_mul(each, an_op_mul(sizes.queries, sizes.keys));
    struct an_op_cost cost = {AN_OP_ATTENTION,
                              an_op_mul(some, both),
                              an_op_mul(some, both),
                              an_op_mul(all, both),
                              STORE_ABSENT,
                              query->dtype,
                              NULL};
    int64_t out =
        an_op_mul(an_op_mul(sizes.batch, sizes.heads), an_op_mul(sizes.queries, sizes.value_size));
    int64_t operands =
        an_op_add(an_op_bytes(query), an_op_add(an_op_bytes(key), an_op_bytes(value)));
    out = query->bytes ? an_op_mul(out, query->bytes) : STORE_ABSENT;
    cost.bytes = an_op_add(operands, out);
    if (row->a[4] & BACKWARD) {
        cost.flops = an_op_add(an_op_mul(2, cost.model_flops), an_op_mul(some, sizes.size));
        cost.model_flops = an_op_mul(2, cost.model_flops);
        cost.palm_flops = an_op_mul(2, cost.palm_flops);
        /* Read: q k v o do; written: dq dk dv. */
        cost.bytes = an_op_add(an_op_mul(2, operands), an_op_mul(2, out));
    }
    if (cost.flops == STORE_ABSENT || cost.palm_flops == STORE_ABSENT)
        return an_op_absent(AN_OP_ATTENTION, "its FLOPs do not fit 64 bits");
    return cost;
}

/* Attention over sequences of different lengths: q, k, v are packed, their lengths are data. */
static struct an_op_cost packed(const struct an_op_row *row, const struct an_op_args *args,
                                const struct an_op_context *context)
{
    (void)row;
    (void)args;
    (void)context;
    return an_op_absent(AN_OP_ATTENTION, NO_LENGTHS);
}

const struct an_op_row an_op_products[] = {
    {"aten::mm", matrix, {0, 1, -1}},
    {"aten::addmm", matrix, {1, 2, 0}},
    {"aten::addmm_", matrix, {1, 2, 0}},
    {"aten::_addmm_activation", matrix, {1, 2, 0}},
    {"aten::bmm", matrix, {0, 1, -1}},
    {"aten::baddbmm", matrix, {1, 2, 0}},
    {"aten::baddbmm_", matrix, {1, 2, 0}},
    {"aten::addbmm", matrix, {1, 2, 0}},
    {"aten::_scaled_mm", matrix, {0, 1, -1}},
    {"aten::mv", vector, {0, 1}},
    {"aten::addmv", vector, {1, 2}},
    {"aten::addmv_", vector, {1, 2}},
    {"aten::dot", vector, {0, 1}},
    {"aten::linear", linear, {0}},
    {"aten::matmul", matmul, {0}},
    {"aten::_grouped_mm", grouped, {2}},
    {"aten::_scaled_grouped_mm", grouped, {4}},
    {"aten::convolution", convolution, {3, 4, 5, 6}},
    {"aten::_convolution", convolution, {3, 4, 5, 6}},
    {"aten::convolution_overrideable", convolution, {3, 4, 5, 6}},
    {"aten::conv1d", convolution, {3, 4, 5, -1}},
    {"aten::conv2d", convolution, {3, 4, 5, -1}},
    {"aten::conv3d", convolution, {3, 4, 5, -1}},
    {"aten::cudnn_convolution", convolution, {3, 2, 4, -1}},
    {"aten::cudnn_convolution_relu", convolution, {3, 4, 5, -1}},
    {"aten::cudnn_convolution_add_relu", convolution, {5, 6, 7, -1}},
    {"aten::miopen_convolution", convolution, {4, 3, 5, -1}},
    {"aten::miopen_depthwise_convolution", convolution, {4, 3, 5, -1}},
    {"aten::mkldnn_convolution", convolution, {4, 3, 5, -1}},
    {"aten::thnn_conv2d", convolution, {4, 5, -1, -1}},
    {"aten::_slow_conv2d_forward", convolution, {4, 5, -1, -1}},
    {"aten::slow_conv3d_forward", convolution, {4, 5, -1, -1}},
    {"aten::slow_conv_dilated2d", convolution, {4, 5, 6, -1}},
    {"aten::slow_conv_dilated3d", convolution, {4, 5, 6, -1}},
    {"aten::_conv_depthwise2d", convolution, {4, 5, 6, -1}},
    {"aten::conv_depthwise3d", convolution, {4, 5, 6, -1}},
    {"aten::cudnn_convolution_transpose", convolution, {-1, -1, -1, -2}},
    {"aten::miopen_convolution_transpose", convolution, {-1, -1, -1, -2}},
    {"aten::slow_conv_transpose2d", convolution, {-1, -1, -1, -2}},
    {"aten::slow_conv_transpose3d", convolution, {-1, -1, -1, -2}},
    {"aten::convolution_backward", convolution_backward, {0, 1, 2, 10, 7}},
    {"aten::convolution_backward_overrideable", convolution_backward, {0, 1, 2, 9, 6}},
    {"aten::_slow_conv2d_backward", convolution_backward, {0, 1, 2, 6, -1}},
    {"aten::cudnn_convolution_backward", convolution_backward, {1, 0, 2, 10, -1}},
    {"aten::miopen_convolution_backward", convolution_backward, {1, 0, 2, 9, -1}},
    {"aten::cudnn_convolution_backward_input", convolution_half, {1, 2, 0}},
    {"aten::miopen_convolution_backward_input", convolution_half, {1, 2, 0}},
    {"aten::cudnn_convolution_backward_weight", convolution_half, {1, 2, 2}},
    {"aten::miopen_convolution_backward_weight", convolution_half, {1, 2, 2}},
    {"aten::scaled_dot_product_attention", attention, {0, 5, -1, SAME_START, 0}},
    {"aten::_scaled_dot_product_flash_attention", attention, {0, 4, -1, SAME_START, 0}},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", attention, {0, 4, -1, SAME_START, 0}},
    {"aten::_scaled_dot_product_efficient_attention", attention, {0, 6, -1, SAME_START, 0}},
    {"aten::_scaled_dot_product_cudnn_attention", attention, {0, 6, -1, SAME_START, 0}},
    {"aten::_scaled_dot_product_fused_attention_overrideable",
     attention,
     {0, 5, -1, SAME_START, 0}},
    {"aten::_flash_attention_forward", attention, {0, 8, 3, ENDS_MEET, LENGTH_FIRST}},
    {"aten::_efficient_attention_forward", attention, {0, 9, 4, MASK_TYPE, LENGTH_FIRST}},
    {"aten::_cudnn_attention_forward", attention, {0, 10, 4, SAME_START, 0}},
    {"flash_attn::_flash_attn_forward", attention, {0, 5, -1, ENDS_MEET, LENGTH_FIRST | WINDOWS}},
    {"aten::_scaled_dot_product_flash_attention_backward",
     attention,
     {1, 11, 6, SAME_START, BACKWARD}},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward",
     attention,
     {1, 7, -1, SAME_START, BACKWARD}},
    {"aten::_scaled_dot_product_efficient_attention_backward",
     attention,
     {1, 11, -1, SAME_START, BACKWARD}},
    {"aten::_scaled_dot_product_cudnn_attention_backward",
     attention,
     {1, 14, 9, SAME_START, BACKWARD}},
    {"aten::_scaled_dot_product_fused_attention_overrideable_backward",
     attention,
     {1, 13, 8, SAME_START, BACKWARD}},
    {"aten::_flash_attention_backward", attention, {1, 11, 6, ENDS_MEET, LENGTH_FIRST | BACKWARD}},
    {"aten::_efficient_attention_backward",
     attention,
     {1, 14, 6, MASK_TYPE, LENGTH_FIRST | BACKWARD}},
    {"aten::_cudnn_attention_backward", attention, {1, 14, 9, SAME_START, BACKWARD}},
    {"flash_attn::_flash_attn_backward",
     attention,
     {1, 11, -1, ENDS_MEET, LENGTH_FIRST | BACKWARD | WINDOWS}},
    {"flash_attn::_flash_attn_varlen_forward", packed, {0}},
    {"flash_attn::_flash_attn_varlen_backward", packed, {0}},
    {NULL, NULL, {0}}};
