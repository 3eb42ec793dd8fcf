/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of `bounds` read of a trace: the blocks of a kernel, the arguments of an operator.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/work/bounds_private.h"

/* The product of "x,y,z", 0: not known. */
static int64_t product_of(const char *text)
{
    int64_t product = *text ? 1 : 0;
    while (*text) {
        char *end;
        product = an_op_mul(product, strtoll(text, &end, 10));
        if (end == text)
            return 0;
        text = end + (*end == ',');
    }
    return product > 0 ? product : 0;
}

/* A grid is in blocks; that of hipExtModuleLaunchKernel is in threads. */
int64_t an_kernel_blocks(const struct an_context *context, size_t op)
{
    const struct an_trace *trace = context->trace;
    const struct an_device_ops *ops = &context->gpu->op;
    const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[ops->slice[op]]);
    uint32_t launch = ops->launch[op];
    const char *call = launch == AN_NONE ? "" : an_trace_name(trace, trace->slice.name[launch]);
    int64_t grid = detail ? product_of(detail->grid) : 0;
    if (!strstr(call, "ExtModuleLaunch"))
        return grid;
    int64_t block = product_of(detail ? detail->block : "");
    return block ? grid / block : 0;
}

const struct an_op_args *an_bounds_args(struct an_context *context, uint32_t slice)
{
    static const struct an_op_args none = {.count = 0};
    const struct an_detail *detail =
        an_trace_detail(context->trace, context->trace->slice.detail[slice]);
    if (!detail || !*detail->payload || strncmp(detail->schema, "torch.", 6) != 0)
        return &none;
    struct an_op_args *args = an_arena_zero(context->scratch, 1, sizeof *args);
    return args && !an_op_args_parse(context->scratch, detail->payload, args) ? args : NULL;
}
