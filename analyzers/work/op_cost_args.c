/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the recorded arguments of an operator: tensors, lists of integers, flags; and products and
 * sums of sizes that saturate. The tables of costs (op_cost_products.c, op_cost_others.c) call it.
 */
#include "analyzers/work/op_cost.h"

#include <stdlib.h>
#include <string.h>

#include "store/store.h"

int64_t an_op_mul(int64_t left, int64_t right)
{
    int64_t out;
    return left == STORE_ABSENT || right == STORE_ABSENT ||
                   __builtin_mul_overflow(left, right, &out)
               ? STORE_ABSENT
               : out;
}

int64_t an_op_add(int64_t left, int64_t right)
{
    int64_t out;
    return left == STORE_ABSENT || right == STORE_ABSENT ||
                   __builtin_add_overflow(left, right, &out)
               ? STORE_ABSENT
               : out;
}

int64_t an_op_elements(const struct an_op_tensor *op_tensor)
{
    int64_t elements = op_tensor ? 1 : STORE_ABSENT;
    for (int i = 0; op_tensor && i < op_tensor->rank; i++)
        elements = an_op_mul(elements, op_tensor->dim[i]);
    return elements;
}

int64_t an_op_dim(const struct an_op_tensor *op_tensor, int from_end)
{
    return from_end <= op_tensor->rank ? op_tensor->dim[op_tensor->rank - from_end] : 1;
}

int64_t an_op_bytes(const struct an_op_tensor *op_tensor)
{
    return op_tensor && op_tensor->bytes ? an_op_mul(an_op_elements(op_tensor), op_tensor->bytes)
                                         : STORE_ABSENT;
}

const struct an_op_tensor *an_op_tensor_at(const struct an_op_args *args, int i)
{
    const struct an_op_input *input = i >= 0 && (size_t)i < args->count ? &args->input[i] : NULL;
    return input && input->count == 1 && !input->list ? input->tensor : NULL;
}

int an_op_integers(const struct an_op_args *args, int i, int64_t *out, int room)
{
    const char *text = i >= 0 && (size_t)i < args->count ? args->input[i].concrete : "";
    int count = 0;
    if (!*text)
        return -1;
    for (text += *text == '['; *text && *text != ']';) {
        char *end;
        long long value = strtoll(text, &end, 10);
        if (end == text)
            return -1;
        if (count < room)
            out[count] = value;
        count++;
        text = end + strspn(end, ", ");
    }
    return count;
}

int an_op_flag(const struct an_op_args *args, int i)
{
    const char *text = i >= 0 && (size_t)i < args->count ? args->input[i].concrete : "";
    if (!strcmp(text, "True") || !strcmp(text, "1"))
        return 1;
    return !strcmp(text, "False") || !strcmp(text, "0") ? 0 : -1;
}

struct an_op_cost an_op_absent(enum an_op_kind kind, const char *reason)
{
    return (struct an_op_cost){kind,         STORE_ABSENT, STORE_ABSENT, STORE_ABSENT,
                               STORE_ABSENT, "",           reason};
}
