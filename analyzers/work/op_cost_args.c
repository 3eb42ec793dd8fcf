/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the recorded arguments of an operator: tensors, lists of integers, flags; and products and
 * sums of sizes that saturate. The tables of costs (op_cost_products.c, op_cost_others.c) call it.
 */
#include "analyzers/work/op_cost.h"

#include <stdlib.h>
#include <string.h>

#include "store/store.h"

int64_t an_op_mul(int64_t a, int64_t b)
{
    int64_t out;
    return a == STORE_ABSENT || b == STORE_ABSENT || __builtin_mul_overflow(a, b, &out)
               ? STORE_ABSENT
               : out;
}

int64_t an_op_add(int64_t a, int64_t b)
{
    int64_t out;
    return a == STORE_ABSENT || b == STORE_ABSENT || __builtin_add_overflow(a, b, &out)
               ? STORE_ABSENT
               : out;
}

int64_t an_op_elements(const struct an_op_tensor *op_tensor)
{
    int64_t n = op_tensor ? 1 : STORE_ABSENT;
    for (int i = 0; op_tensor && i < op_tensor->rank; i++)
        n = an_op_mul(n, op_tensor->dim[i]);
    return n;
}

int64_t an_op_bytes(const struct an_op_tensor *op_tensor)
{
    return op_tensor && op_tensor->bytes ? an_op_mul(an_op_elements(op_tensor), op_tensor->bytes)
                                         : STORE_ABSENT;
}

const struct an_op_tensor *an_op_tensor_at(const struct an_op_args *args, int i)
{
    const struct an_op_input *in = i >= 0 && (size_t)i < args->count ? &args->input[i] : NULL;
    return in && in->count == 1 && !in->list ? in->tensor : NULL;
}

int an_op_integers(const struct an_op_args *args, int i, int64_t *out, int room)
{
    const char *p = i >= 0 && (size_t)i < args->count ? args->input[i].concrete : "";
    int n = 0;
    if (!*p)
        return -1;
    for (p += *p == '['; *p && *p != ']';) {
        char *end;
        long long v = strtoll(p, &end, 10);
        if (end == p)
            return -1;
        if (n < room)
            out[n] = v;
        n++;
        p = end + strspn(end, ", ");
    }
    return n;
}

int an_op_flag(const struct an_op_args *args, int i)
{
    const char *p = i >= 0 && (size_t)i < args->count ? args->input[i].concrete : "";
    return !strcmp(p, "True") || !strcmp(p, "1")    ? 1
           : !strcmp(p, "False") || !strcmp(p, "0") ? 0
                                                    : -1;
}

struct an_op_cost an_op_absent(enum an_op_kind kind, const char *reason)
{
    return (struct an_op_cost){kind,         STORE_ABSENT, STORE_ABSENT, STORE_ABSENT,
                               STORE_ABSENT, "",           reason};
}
