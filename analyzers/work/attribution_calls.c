/* SPDX-License-Identifier: Apache-2.0
 *
 * The step of each call of an operator, the device ops that it launched and the element type that
 * it ran in.
 */
#include <string.h>

#include "analyzers/device/classes.h"
#include "analyzers/hardware/peaks.h"
#include "analyzers/work/attribution_private.h"

/* Device of an op: an index; device_count: none. */
static size_t device_of(const struct an_context *context, uint32_t op)
{
    size_t device = 0;
    while (device < context->gpu->device_count &&
           op - context->gpu->device[device].first >= context->gpu->device[device].count)
        device++;
    return device;
}

/* The counted step with all its parts whose host part holds `time`: of a thread of the process, of
 * the lane of the device where there is one. AN_NONE: none. */
static uint32_t step_at(const struct an_context *context, uint32_t process, size_t device,
                        int64_t time)
{
    uint32_t found = AN_NONE;
    for (size_t lane = 0; lane < context->lane_count; lane++) {
        if (context->lane[lane].process != process ||
            (found != AN_NONE && context->lane[lane].device != device))
            continue;
        const struct an_step *step = an_step_at_host(context, &context->lane[lane], time);
        bool inside = step && an_step_detailed(step);
        if (inside || context->lane[lane].device == device)
            found = inside ? (uint32_t)(step - context->step) : AN_NONE;
        if (context->lane[lane].device == device)
            break;
    }
    return found;
}

/* Lists the device ops of each call: counts first, then places. */
static int call_ops(struct an_context *context)
{
    struct an_calls *calls = context->calls;
    size_t ops = context->gpu->op.count;
    uint32_t *first = an_arena_zero(context->scratch, calls->count + 2, sizeof *first),
             *op = an_arena_zero(context->scratch, ops, sizeof *op);
    if (!first || !op)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < ops; i++)
        if (calls->of_op[i] != AN_NONE)
            first[calls->of_op[i] + 2]++;
    for (size_t i = 0; i < calls->count; i++)
        first[i + 2] += first[i + 1];
    for (size_t i = 0; i < ops; i++)
        if (calls->of_op[i] != AN_NONE)
            op[first[calls->of_op[i] + 1]++] = (uint32_t)i;
    calls->first = first;
    calls->op = op;
    return 0;
}

/* Can fp32 operands have run as tf32? One entry for each device, the last one for a device that is
 * not known. */
static bool *find_tf32(const struct an_context *context)
{
    size_t devices = context->gpu->device_count;
    bool *out = an_arena_zero(context->scratch, devices + 1, sizeof *out);
    for (size_t device = 0; out && device <= devices; device++) {
        const char *name = device < devices ? context->gpu->device[device].name : "";
        struct an_peak peak;
        out[device] = an_peak_find(context->scratch, name, "tf32", &peak) ||
                      !an_peak_find(context->scratch, name, "bandwidth", &peak);
    }
    return out;
}

/* The element type that a call ran in: that of its longest matrix kernel whose name has one, else
 * of its operands. "": fp32 operands that may have run as tf32. */
static const char *dtype_of(const struct an_context *context, size_t call, bool tf32)
{
    const struct an_calls *calls = context->calls;
    const struct an_op_cost *cost = &calls->cost[calls->call[call].cost];
    const char *kernel_dtype = NULL;
    int64_t longest = -1;
    bool plain = false; /* a kernel says that it does not run on matrix units */
    if (cost->kind == AN_OP_OTHER)
        return cost->dtype;
    for (uint32_t k = calls->first[call]; k < calls->first[call + 1]; k++) {
        uint32_t op = calls->op[k], name = context->trace->slice.name[context->gpu->op.slice[op]];
        int64_t ns = an_time_sub(context->gpu->op.end[op], context->gpu->op.start[op]);
        if ((context->gpu->op.class[op] != AN_DEVICE_MATRIX &&
             context->gpu->op.class[op] != AN_DEVICE_ATTENTION) ||
            name >= context->trace->string_count)
            continue;
        const struct an_name_class *name_class = &context->gpu->name_class[name];
        plain = plain || name_class->matrix_unit == 0;
        if (name_class->dtype && ns > longest) {
            kernel_dtype = name_class->dtype;
            longest = ns;
        }
    }
    if (kernel_dtype)
        return kernel_dtype;
    return !strcmp(cost->dtype, "fp32") && !plain && tf32 ? "" : cost->dtype;
}

int an_attribution_calls(struct an_context *context)
{
    bool *tf32 = find_tf32(context);
    if (!tf32 || call_ops(context))
        return TACHO_ENOMEM;
    for (size_t i = 0; i < context->calls->count; i++) {
        struct an_call *call = &context->calls->call[i];
        uint32_t first = context->calls->first[i];
        size_t device = first < context->calls->first[i + 1]
                            ? device_of(context, context->calls->op[first])
                            : context->gpu->device_count;
        uint32_t begun = call->replay == AN_NONE ? call->slice : call->replay;
        call->step = step_at(context, call->process, device, context->trace->slice.start[begun]);
        call->dtype = dtype_of(context, i, tf32[device]);
    }
    return 0;
}
