/* SPDX-License-Identifier: Apache-2.0
 *
 * FLOPs of accelerator traces: of the operators that launched device work in counted steps. The
 * operators of programs on the CPU that have none.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/device/classes.h"
#include "analyzers/work/utilization_private.h"

#define PRODUCTS   (1u << AN_DEVICE_MATRIX | 1u << AN_DEVICE_ATTENTION)
#define NEARLY_ALL 0.95
#define UNCOUNTED  "uncounted " /* how the hook begins the name of such an operator */

size_t an_flops_dtype(struct an_flops_gather *gather, const char *dtype)
{
    for (size_t i = 0; i < gather->dtypes; i++)
        if (!strcmp(gather->dtype[i], dtype))
            return i;
    if (gather->dtypes == AN_FLOPS_DTYPES)
        return AN_FLOPS_DTYPES - 1;
    gather->dtype[gather->dtypes] = dtype;
    return gather->dtypes++;
}

/* Adds the FLOPs of a call to its step and to the type that it ran in; those of graphs are added by
 * an_flops_of_replays. Recomputation is no model
 * work, and only products count as hardware FLOPs. */
static void gather_call(struct an_flops_gather *gather, const struct an_call *call)
{
    const struct an_op_cost *cost = &gather->context->calls->cost[call->cost];
    bool product = cost->kind != AN_OP_OTHER;
    if (call->replay != AN_NONE || call->step == AN_NONE || (!product && !(cost->model_flops > 0)))
        return;
    struct an_flops *sum = &gather->step[call->step];
    gather->works++;
    gather->hardware += product;
    if (cost->flops == STORE_ABSENT)
        return;
    struct an_flops *by = &gather->lane[gather->context->step[call->step].lane]
                               .by_dtype[an_flops_dtype(gather, call->dtype)];
    struct an_flops flops = {0};
    if (product)
        flops.hardware = cost->flops;
    if (call->recompute) {
        flops.again = flops.hardware;
    } else {
        flops.model = cost->model_flops;
        flops.palm = cost->palm_flops;
    }

    gather->known++;
    gather->model_missing += flops.model == STORE_ABSENT;
    gather->palm_missing += flops.palm == STORE_ABSENT;
    gather->unclear += product && call->unclear;
    gather->mixed = gather->mixed || (product && !*call->dtype && !strcmp(cost->dtype, "fp32"));
    an_flops_add_all(sum, &flops);
    an_flops_add_all(by, &flops);
}

/* Is a kernel part of a counted step? By its launch, where the file has it. */
static bool kernel_counts(const struct an_flops_gather *gather, const struct an_device *device,
                          size_t op)
{
    const struct an_context *context = gather->context;
    uint32_t call = context->calls->of_op[op];
    if (call != AN_NONE)
        return context->calls->call[call].step != AN_NONE;
    for (size_t k = 0; k < context->lane_count; k++) {
        const struct an_step *step =
            context->lane[k].process == device->process
                ? an_step_at(context, &context->lane[k], context->gpu->op.start[op])
                : NULL;
        if (step)
            return an_step_detailed(step);
    }
    return false;
}

void an_flops_of_calls(struct an_flops_gather *gather)
{
    const struct an_context *context = gather->context;
    for (size_t i = 0; i < context->calls->count; i++)
        gather_call(gather, &context->calls->call[i]);
    for (size_t device_index = 0; device_index < context->gpu->device_count; device_index++) {
        const struct an_device *device = &context->gpu->device[device_index];
        for (size_t i = device->first; i < device->first + device->count; i++) {
            if (!(PRODUCTS >> context->gpu->op.class[i] & 1) || !kernel_counts(gather, device, i))
                continue;
            const struct an_call *call = context->calls->of_op[i] == AN_NONE
                                             ? NULL
                                             : &context->calls->call[context->calls->of_op[i]];
            const struct an_op_cost *cost =
                call && call->replay == AN_NONE ? &context->calls->cost[call->cost] : NULL;
            double ns = (double)(context->gpu->op.end[i] - context->gpu->op.start[i]);
            gather->hardware_ns += ns;
            gather->covered_ns +=
                cost && cost->kind != AN_OP_OTHER && cost->flops != STORE_ABSENT ? ns : 0;
        }
    }
}

const char *an_flops_kernel_dtype(const struct an_context *context)
{
    const char *dtype[AN_FLOPS_DTYPES];
    double ns[AN_FLOPS_DTYPES] = {0}, all = 0;
    size_t count = 0;
    for (size_t i = 0; context->gpu && i < context->gpu->op.count; i++) {
        uint32_t name = context->trace->slice.name[context->gpu->op.slice[i]];
        if (!(PRODUCTS >> context->gpu->op.class[i] & 1))
            continue;
        double dur = (double)(context->gpu->op.end[i] - context->gpu->op.start[i]);
        const char *name_dtype =
            name < context->trace->string_count ? context->gpu->name_class[name].dtype : NULL;
        size_t k = 0;
        all += dur;
        while (name_dtype && k < count && strcmp(dtype[k], name_dtype))
            k++;
        if (name_dtype && k == count && count < AN_FLOPS_DTYPES)
            dtype[count++] = name_dtype;
        if (name_dtype && k < count)
            ns[k] += dur;
    }
    for (size_t k = 0; k < count; k++)
        if (ns[k] >= NEARLY_ALL * all)
            return dtype[k];
    return NULL;
}

static int by_text(const void *first, const void *second)
{
    return strcmp(*(const char *const *)first, *(const char *const *)second);
}

int an_flops_uncounted(struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    struct an_utilization *utilization = &context->result->utilization;
    const char **names = NULL;
    size_t count = 0, room = 0;
    for (size_t i = 0; i < trace->string_count; i++) {
        const char *name = an_trace_name(trace, (uint32_t)i);
        if (strncmp(name, UNCOUNTED "aten::", strlen(UNCOUNTED "aten::")) != 0)
            continue;
        if (an_grow(&names, &room, count + 1, sizeof *names)) {
            free(names);
            return TACHO_ENOMEM;
        }
        names[count++] = an_arena_text(context->arena, name + strlen(UNCOUNTED));
    }
    if (count)
        qsort(names, count, sizeof *names, by_text);
    utilization->uncounted = an_arena_copy(context->arena, names, count * sizeof *names);
    utilization->uncounted_count = utilization->uncounted ? count : 0;
    free(names);
    return utilization->uncounted ? 0 : TACHO_ENOMEM;
}
