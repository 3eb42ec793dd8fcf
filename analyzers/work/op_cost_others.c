/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators other than GEMMs, convolutions and attention: element-wise work, norms, reductions,
 * look-ups, copies.
 */
#include <string.h>

#include "analyzers/work/op_cost.h"
#include "store/store.h"

#define NO_SHAPE "the shapes of its operands are not in the trace"

typedef const struct an_op_tensor *tensor;

static bool is_integer(const char *dtype)
{
    return strstr(dtype, "int") || !strcmp(dtype, "bool");
}

/* Work on integers has no floating-point operations. */
static struct an_op_cost other(int64_t flops, int64_t bytes, const char *dtype)
{
    if (is_integer(dtype))
        flops = 0;
    if (flops == STORE_ABSENT)
        return an_op_absent(AN_OP_OTHER, "its FLOPs do not fit 64 bits");
    return (struct an_op_cost){AN_OP_OTHER, flops, 0, 0, bytes, dtype, NULL};
}

/* Shape that operands are broadcast to; false: they do not fit. */
static bool broadcast(tensor from, struct an_op_tensor *out)
{
    int64_t dim[AN_OP_RANK_MAX];
    int rank = from->rank > out->rank ? from->rank : out->rank;
    for (int i = 1; i <= rank; i++) {
        int64_t wanted = an_op_dim(out, i), given = an_op_dim(from, i);

        if (wanted != given && wanted != 1 && given != 1)
            return false;
        dim[rank - i] = wanted == 1 ? given : wanted;
    }
    memcpy(out->dim, dim, sizeof dim[0] * (size_t)rank);
    out->rank = rank;
    return true;
}

/* Of two types the one that holds both, in so far as a size tells: a tensor without dimensions does
 * not decide. */
static bool decides(tensor from, const struct an_op_tensor *out)
{
    bool integer = is_integer(from->dtype), out_integer = is_integer(out->dtype);
    if (!*out->dtype || (!out->rank && from->rank))
        return true;
    if (!from->rank && out->rank)
        return out_integer && !integer;
    return integer == out_integer ? from->bytes > out->bytes : out_integer;
}

/* The result: a new tensor, the first operand, a new tensor of bool, the first operand unread. */
enum { NEW, IN_PLACE, PREDICATE, WRITE };

/* The operands among the arguments are broadcast together; a tensor after them receives the result.
 * a: FLOPs an element, result, operands at most */
static struct an_op_cost elementwise(const struct an_op_row *row, const struct an_op_args *args,
                                     const struct an_op_context *context)
{
    struct an_op_tensor out = {.rank = 0, .dtype = ""};
    int64_t read = 0;
    int operands = 0;
    (void)context;
    for (int i = 0; (size_t)i < args->count && operands < row->a[2]; i++) {
        tensor from = an_op_tensor_at(args, i);
        if (!from)
            continue;
        if (decides(from, &out)) {
            out.dtype = from->dtype;
            out.bytes = from->bytes;
        }
        if (!broadcast(from, &out))
            return an_op_absent(AN_OP_OTHER, NO_SHAPE);
        if (row->a[1] != WRITE || operands)
            read = an_op_add(read, an_op_bytes(from));
        operands++;
    }
    if (!operands)
        return an_op_absent(AN_OP_OTHER, NO_SHAPE);
    tensor first = an_op_tensor_at(args, 0);
    if (row->a[1] != NEW && row->a[1] != PREDICATE && first)
        out = *first;
    int64_t elements = an_op_elements(&out),
            written = an_op_mul(elements, row->a[1] == PREDICATE ? 1 : out.bytes);
    return other(an_op_mul(elements, row->a[0]),
                 out.bytes ? an_op_add(read, written) : STORE_ABSENT, out.dtype);
}

/* Element-wise over lists of tensors: fused optimizers and _foreach_. a: FLOPs an element, lists
 * that are read, written */
static struct an_op_cost foreach(const struct an_op_row *row, const struct an_op_args *args,
                                 const struct an_op_context *context)
{
    const struct an_op_input *input = args->count ? args->input : NULL;
    int64_t elements = 0, bytes = 0, lists = 0;
    (void)context;
    if (!input || !input->list || !input->count)
        return an_op_absent(AN_OP_OTHER, NO_SHAPE);
    for (size_t i = 0; i < input->count; i++) {
        elements = an_op_add(elements, an_op_elements(&input->tensor[i]));
        bytes = an_op_add(bytes, an_op_bytes(&input->tensor[i]));
    }
    for (size_t i = 0; i < args->count && lists < row->a[1]; i++)
        lists += args->input[i].list && args->input[i].count > 0;
    return other(an_op_mul(elements, row->a[0]), an_op_mul(bytes, lists + row->a[2]),
                 input->tensor->dtype);
}

/* One pass over the first tensor into few elements: the dimensions that go are listed in argument
 * a[1], none: all. a: FLOPs an element, dimensions */
static struct an_op_cost reduction(const struct an_op_row *row, const struct an_op_args *args,
                                   const struct an_op_context *context)
{
    tensor reduced = an_op_tensor_at(args, 0);
    int64_t dim[AN_OP_RANK_MAX], out = 1, elements = an_op_elements(reduced);
    (void)context;
    if (!reduced)
        return an_op_absent(AN_OP_OTHER, NO_SHAPE);
    int gone = an_op_integers(args, row->a[1], dim, AN_OP_RANK_MAX);
    for (int axis = 0; gone > 0 && axis < reduced->rank; axis++) {
        bool stays = true;
        for (int i = 0; i < gone && i < AN_OP_RANK_MAX; i++)
            stays = stays && (dim[i] < 0 ? dim[i] + reduced->rank : dim[i]) != axis;
        out = an_op_mul(out, stays ? reduced->dim[axis] : 1);
    }
    return other(an_op_mul(elements, row->a[0]),
                 reduced->bytes ? an_op_add(an_op_bytes(reduced), an_op_mul(out, reduced->bytes))
                                : STORE_ABSENT,
                 reduced->dtype);
}

/* Norms: passes over tensors of the size of the input; scales and statistics are small beside them
 * and excluded from the bytes only where their shapes are not arguments. a: FLOPs an element,
 * position of the input, big results */
static struct an_op_cost norm(const struct an_op_row *row, const struct an_op_args *args,
                              const struct an_op_context *context)
{
    tensor normed = an_op_tensor_at(args, row->a[1]);
    int64_t elements = an_op_elements(normed), bytes = 0;
    (void)context;
    if (!normed)
        return an_op_absent(AN_OP_OTHER, NO_SHAPE);
    for (int i = 0; (size_t)i < args->count; i++)
        if (an_op_tensor_at(args, i))
            bytes = an_op_add(bytes, an_op_bytes(an_op_tensor_at(args, i)));
    return other(an_op_mul(elements, row->a[0]),
                 an_op_add(bytes, an_op_mul(row->a[2], an_op_bytes(normed))), normed->dtype);
}

/* Copy of the second tensor into the first. */
static struct an_op_cost copy(const struct an_op_row *row, const struct an_op_args *args,
                              const struct an_op_context *context)
{
    tensor to = an_op_tensor_at(args, 0), from = an_op_tensor_at(args, 1);
    (void)row;
    (void)context;
    return to && from ? other(0, an_op_add(an_op_bytes(to), an_op_bytes(from)), to->dtype)
                      : an_op_absent(AN_OP_OTHER, NO_SHAPE);
}

/* Lists of tensors into one. */
static struct an_op_cost concatenation(const struct an_op_row *row, const struct an_op_args *args,
                                       const struct an_op_context *context)
{
    const struct an_op_input *input = args->count ? args->input : NULL;
    int64_t bytes = 0;
    (void)row;
    (void)context;
    for (size_t i = 0; input && i < input->count; i++)
        bytes = an_op_add(bytes, an_op_bytes(&input->tensor[i]));
    return input && input->count ? other(0, an_op_mul(2, bytes), input->tensor->dtype)
                                 : an_op_absent(AN_OP_OTHER, NO_SHAPE);
}

/* Rows of a table: one for each index. a: the table, the indices */
static struct an_op_cost rows(const struct an_op_row *r, const struct an_op_args *args,
                              const struct an_op_context *context)
{
    tensor table = an_op_tensor_at(args, r->a[0]), index = an_op_tensor_at(args, r->a[1]);
    (void)context;
    if (!table || !index || table->rank != 2 || !table->bytes || !index->bytes)
        return an_op_absent(AN_OP_OTHER, NO_SHAPE);
    int64_t row = an_op_mul(table->dim[1], 2 * table->bytes);
    return other(0, an_op_mul(an_op_elements(index), an_op_add(row, index->bytes)), table->dtype);
}

/* Gradient of a table: every incoming row is added to one of its `a[2]` rows. */
static struct an_op_cost rows_backward(const struct an_op_row *row, const struct an_op_args *args,
                                       const struct an_op_context *context)
{
    tensor gradient = an_op_tensor_at(args, 0), index = an_op_tensor_at(args, 1);
    int64_t elements = 0, bytes = STORE_ABSENT;
    (void)context;
    if (!gradient || !index || !gradient->rank)
        return an_op_absent(AN_OP_OTHER, NO_SHAPE);
    if (an_op_integers(args, row->a[2], &elements, 1) == 1 && elements >= 0)
        bytes = an_op_add(
            an_op_add(an_op_bytes(gradient), an_op_bytes(index)),
            an_op_mul(an_op_mul(elements, gradient->dim[gradient->rank - 1]), gradient->bytes));
    return other(an_op_elements(gradient), bytes, gradient->dtype);
}

#define ELEMENT(name, flops, operands) \
    { \
        "aten::" name, elementwise, \
        { \
            flops, NEW, operands \
        } \
    }
#define ELEMENT_(name, flops, operands) \
    ELEMENT(name, flops, operands), \
    { \
        "aten::" name "_", elementwise, \
        { \
            flops, IN_PLACE, operands \
        } \
    }
#define COMPARE(name, operands) \
    { \
        "aten::" name, elementwise, \
        { \
            1, PREDICATE, operands \
        } \
    }
#define FOREACH(name, flops, read) \
    {"aten::_foreach_" name, foreach, {flops, read, 1}}, \
    { \
        "aten::_foreach_" name "_", foreach, \
        { \
            flops, read, 1 \
        } \
    }
#define REDUCTION(name, flops, dims) \
    { \
        "aten::" name, reduction, \
        { \
            flops, dims \
        } \
    }

const struct an_op_row an_op_others[] = {
    ELEMENT_("add", 1, 2),
    ELEMENT_("sub", 1, 2),
    ELEMENT_("rsub", 1, 2),
    ELEMENT_("mul", 1, 2),
    ELEMENT_("div", 1, 2),
    ELEMENT_("neg", 1, 1),
    ELEMENT_("abs", 1, 1),
    ELEMENT_("pow", 1, 2),
    ELEMENT_("exp", 1, 1),
    ELEMENT_("log", 1, 1),
    ELEMENT_("sqrt", 1, 1),
    ELEMENT_("rsqrt", 2, 1),
    ELEMENT_("reciprocal", 1, 1),
    ELEMENT_("sin", 1, 1),
    ELEMENT_("cos", 1, 1),
    ELEMENT_("erf", 1, 1),
    ELEMENT_("tanh", 1, 1),
    ELEMENT_("sigmoid", 3, 1),
    ELEMENT_("relu", 1, 1),
    ELEMENT_("clamp", 2, 3),
    ELEMENT_("clamp_min", 1, 1),
    ELEMENT_("clamp_max", 1, 1),
    ELEMENT_("maximum", 1, 2),
    ELEMENT_("minimum", 1, 2),
    ELEMENT_("lerp", 3, 3),
    ELEMENT_("addcmul", 3, 3),
    ELEMENT_("addcdiv", 3, 3),
    ELEMENT_("masked_fill", 0, 3),
    ELEMENT_("silu", 4, 1),
    ELEMENT_("hardtanh", 2, 1),
    ELEMENT_("leaky_relu", 2, 1),
    ELEMENT_("bitwise_and", 0, 2),
    ELEMENT_("bitwise_or", 0, 2),
    ELEMENT_("bitwise_not", 0, 1),
    ELEMENT_("logical_and", 0, 2),
    ELEMENT_("logical_not", 0, 1),
    ELEMENT("where", 0, 3),
    ELEMENT("gelu", 5, 1),
    ELEMENT("gelu_backward", 10, 2),
    ELEMENT("silu_backward", 7, 2),
    ELEMENT("threshold_backward", 1, 2),
    ELEMENT("tanh_backward", 3, 2),
    ELEMENT("sigmoid_backward", 3, 2),
    ELEMENT("hardtanh_backward", 2, 2),
    ELEMENT("leaky_relu_backward", 2, 2),
    ELEMENT("native_dropout_backward", 2, 2),
    ELEMENT("mse_loss_backward", 3, 3),
    COMPARE("eq", 2),
    COMPARE("ne", 2),
    COMPARE("lt", 2),
    COMPARE("le", 2),
    COMPARE("gt", 2),
    COMPARE("ge", 2),
    COMPARE("isnan", 1),
    {"aten::fill_", elementwise, {0, WRITE, 2}},
    {"aten::zero_", elementwise, {0, WRITE, 2}},
    {"aten::copy_", copy, {0}},
    {"aten::cat", concatenation, {0}},
    {"aten::stack", concatenation, {0}},
    {"aten::embedding", rows, {0, 1}},
    {"aten::index_select", rows, {0, 2}},
    {"aten::embedding_dense_backward", rows_backward, {0, 1, 2}},
    REDUCTION("sum", 1, 1),
    REDUCTION("mean", 1, 1),
    REDUCTION("var", 4, 1),
    REDUCTION("std", 4, 1),
    REDUCTION("var_mean", 4, 1),
    REDUCTION("norm", 2, 2),
    REDUCTION("linalg_vector_norm", 2, 2),
    REDUCTION("amax", 1, 1),
    REDUCTION("amin", 1, 1),
    REDUCTION("max", 1, -1),
    REDUCTION("min", 1, -1),
    REDUCTION("argmax", 1, 1),
    REDUCTION("argmin", 1, 1),
    /* softmax: maximum, difference, exponential, sum, quotient; its logarithm has the sum's
     * logarithm and a difference instead
     */
    {"aten::_softmax", norm, {5, 0, 1}},
    {"aten::_log_softmax", norm, {5, 0, 1}},
    {"aten::_softmax_backward_data", norm, {4, 0, 1}},
    {"aten::_log_softmax_backward_data", norm, {4, 0, 1}},
    /* mean (1), variance (3), normalised value (2), scale and shift (2) */
    {"aten::native_layer_norm", norm, {8, 0, 1}},
    {"aten::native_group_norm", norm, {8, 0, 1}},
    {"aten::native_batch_norm", norm, {8, 0, 1}},
    {"aten::cudnn_batch_norm", norm, {8, 0, 1}},
    {"aten::miopen_batch_norm", norm, {8, 0, 1}},
    {"aten::_batch_norm_with_update", norm, {8, 0, 1}},
    {"aten::_native_batch_norm_legit", norm, {8, 0, 1}},
    {"aten::_fused_rms_norm", norm, {5, 0, 1}},
    /* normalised value (2), two sums (3), gradient of the input (6), of scale and shift (3) */
    {"aten::native_layer_norm_backward", norm, {14, 1, 1}},
    {"aten::native_group_norm_backward", norm, {14, 1, 1}},
    {"aten::native_batch_norm_backward", norm, {14, 1, 1}},
    {"aten::cudnn_batch_norm_backward", norm, {14, 0, 1}},
    {"aten::miopen_batch_norm_backward", norm, {14, 0, 1}},
    {"aten::_fused_rms_norm_backward", norm, {10, 1, 1}},
    {"aten::mse_loss", norm, {3, 0, 0}},
    FOREACH("add", 1, 2),
    FOREACH("sub", 1, 2),
    FOREACH("mul", 1, 2),
    FOREACH("div", 1, 2),
    FOREACH("sqrt", 1, 1),
    FOREACH("lerp", 3, 2),
    FOREACH("addcmul", 3, 3),
    FOREACH("addcdiv", 3, 3),
    {"aten::_foreach_norm", foreach, {2, 1, 0}},
    {"aten::_foreach_copy_", foreach, {0, 2, 0}},
    {"aten::_fused_adam_", foreach, {14, 4, 3}},
    {"aten::_fused_adamw_", foreach, {14, 4, 3}},
    {"aten::_fused_sgd_", foreach, {4, 3, 2}},
    {NULL, NULL, {0}}};
