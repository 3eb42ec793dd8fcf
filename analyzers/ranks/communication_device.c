/* SPDX-License-Identifier: Apache-2.0
 *
 * Communication of accelerators: the collectives by the rows of the devices, the time of a step
 * from the unions that the devices' part has (device_split.c). Its kernels spin while they wait,
 * and nothing on a device ties a kernel of one rank to that of another, so the split into transfer
 * and waiting is absent.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/collectives/communication.h"

#define SPIN \
    "communication kernels spin while they wait: which part of them is transfer cannot be told " \
    "from one device"

struct kernel {
    const char *name;
    int64_t communicator, ranks, bytes, ns;
};

static int kernel_order(const void *left, const void *right)
{
    const struct kernel *first = left, *second = right;
    int order = strcmp(first->name, second->name);
    return order ? order
                 : (first->communicator > second->communicator) -
                       (first->communicator < second->communicator);
}

/* "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(...)" -> "ncclDevKernel_AllReduce_Sum_bf16_RING_LL" */
static const char *short_name(struct an_context *context, const char *name)
{
    return an_arena_format(context->arena, "%.*s", (int)strcspn(name, "(<"), name);
}

static struct kernel describe(struct an_context *context, size_t op)
{
    uint32_t slice = context->gpu->op.slice[op];
    const struct an_detail *detail =
        an_trace_detail(context->trace, context->trace->slice.detail[slice]);
    return (struct kernel){
        .name = detail && *detail->collective
                    ? detail->collective
                    : an_trace_name(context->trace, context->trace->slice.name[slice]),
        .communicator = detail ? detail->communicator : STORE_ABSENT,
        .ranks = detail ? detail->ranks : STORE_ABSENT,
        .bytes = detail ? detail->bytes : STORE_ABSENT,
        .ns = an_time_sub(context->gpu->op.end[op], context->gpu->op.start[op])};
}

static void add_row(struct an_context *context, const struct kernel *kernel, size_t call_count)
{
    struct an_communication *communication = &context->result->communication;
    struct an_collective *out =
        &((struct an_collective *)(uintptr_t)
              communication->collectives)[communication->collective_count++];
    double ns = 0, bytes = 0;
    int64_t sized = 0, ranks = 0;
    for (size_t i = 0; i < call_count; i++) {
        ns += (double)kernel[i].ns;
        sized += kernel[i].bytes != STORE_ABSENT;
        bytes += kernel[i].bytes != STORE_ABSENT ? (double)kernel[i].bytes : 0;
        ranks = kernel[i].ranks > ranks ? kernel[i].ranks : ranks;
    }
    const char *none = "counted over the whole capture",
               *no_bytes = "the trace does not say how many bytes they move";
    double factor = an_comm_bus_factor(kernel->name, ranks);
    *out = (struct an_collective){
        .name = short_name(context, kernel->name),
        .communicator = kernel->communicator != STORE_ABSENT ? an_int(kernel->communicator)
                                                             : an_int_none("not said by the trace"),
        .ranks = ranks > 0 ? an_int(ranks) : an_int_none("not said by the trace"),
        .count = (int64_t)call_count,
        .calls_per_step = an_num_none(none),
        .bytes_per_step = an_num_none(none),
        .bytes_max_over_mean = an_num_none(none),
        .bytes_per_call = sized == (int64_t)call_count ? an_num(bytes / (double)call_count)
                                                       : an_num_none(no_bytes),
        .mean_ms = an_num(ns / (double)call_count / 1e6),
        .transfer_ms = an_num_none(SPIN),
        .waiting_ms = an_num_none(SPIN)};
    out->algorithm_bytes_per_s = out->bus_bytes_per_s = an_num_none(no_bytes);
    if (sized < (int64_t)call_count || ns <= 0 || bytes <= 0)
        return;
    out->bandwidth_of = "time";
    out->algorithm_bytes_per_s = an_num(bytes / ns * 1e9);
    out->bus_bytes_per_s = factor > 0
                               ? an_num(bytes / ns * 1e9 * factor)
                               : an_num_none("the trace does not say how many ranks take part");
}

static int time_order(const void *left, const void *right)
{
    const struct an_collective *first = left, *second = right;
    double first_ms = first->mean_ms.value * (double)first->count,
           second_ms = second->mean_ms.value * (double)second->count;
    return (first_ms < second_ms) - (first_ms > second_ms);
}

static int list_kernels(struct an_context *context)
{
    struct an_communication *communication = &context->result->communication;
    struct kernel *kernels = NULL;
    size_t kernel_count = 0, room = 0;
    int rc = 0;
    for (size_t i = 0; i < context->gpu->op.count && !rc; i++)
        if (1u << context->gpu->op.class[i] & AN_DEVICE_COMM_MASK &&
            !(rc = an_grow(&kernels, &room, kernel_count + 1, sizeof *kernels)))
            kernels[kernel_count++] = describe(context, i);
    if (kernel_count)
        qsort(kernels, kernel_count, sizeof *kernels, kernel_order);
    struct an_collective *rows = an_arena_zero(context->arena, kernel_count + 1, sizeof *rows);
    communication->collectives = rows;
    for (size_t i = 0, next; i < kernel_count && rows && !rc; i = next) {
        for (next = i + 1; next < kernel_count && !kernel_order(&kernels[i], &kernels[next]);)
            next++;
        add_row(context, &kernels[i], next - i);
    }
    if (rows && communication->collective_count)
        qsort(rows, communication->collective_count, sizeof *rows, time_order);
    communication->calls = (int64_t)kernel_count;
    free(kernels);
    return rc ? rc : rows ? 0 : TACHO_ENOMEM;
}

void an_comm_device_split(struct an_context *context, const struct an_comm_calls *calls)
{
    struct an_communication *communication = &context->result->communication;
    for (size_t row_index = 0; row_index < communication->collective_count; row_index++) {
        struct an_collective *row =
            &((struct an_collective *)(uintptr_t)communication->collectives)[row_index];
        double ns = 0, transfer = 0;
        for (size_t i = 0; i < calls->count; i++) {
            const struct an_comm_call *call = &calls->call[i];
            bool same = call->communicator ==
                        (row->communicator.valid ? row->communicator.value : STORE_ABSENT);
            if (!same || call->transfer < 0 || strncmp(call->name, row->name, strlen(row->name)))
                continue;
            ns += (double)an_time_sub(call->end, call->start);
            transfer += (double)call->transfer;
            row->matched++;
        }
        if (!row->matched)
            continue;
        row->transfer_ms = an_num(transfer / (double)row->matched / 1e6);
        row->waiting_ms = an_num((ns - transfer) / (double)row->matched / 1e6);
    }
}

/* Communication that blocks, of a step: mean over the devices whose steps are counted. */
static void blocking_of_steps(struct an_context *context)
{
    struct an_communication *communication = &context->result->communication;
    struct an_value *all[AN_BLOCKING_COUNT] = {&communication->blocking_proven_ms,
                                               &communication->blocking_inferred_ms,
                                               &communication->blocking_unknown_ms};
    for (int kind = 0; kind < AN_BLOCKING_COUNT; kind++) {
        const char *reason = NULL;
        double ns = 0;
        int64_t steps = 0;
        for (size_t i = 0; i < context->result->absent_count; i++) {
            const struct an_absent *absent = &context->result->absent[i];
            if (absent->steps && !absent->blocking_ns[kind].valid)
                reason = absent->blocking_ns[kind].reason;
            if (!absent->steps || reason)
                continue;
            ns += (double)absent->blocking_ns[kind].value;
            steps += absent->steps;
        }
        if (steps || reason)
            *all[kind] = reason ? an_num_none(reason) : an_num(ns / (double)steps / 1e6);
    }
}

int an_comm_device(struct an_context *context)
{
    struct an_communication *communication = &context->result->communication;
    const struct an_budget *budget = &context->result->budget;
    double comm = 0, hidden = 0, ns = 0;
    int64_t steps = 0;
    int rc = list_kernels(context);
    if (rc)
        return rc;
    if (!communication->calls) {
        communication->reason = "no communication on a device";
        an_comm_rest_absent(communication, communication->reason);
        return 0;
    }
    for (size_t i = 0; i < context->gpu->device_count; i++) {
        const struct an_set *all = &context->gpu->split[i].comm,
                            *exposed = &context->gpu->split[i].exposed_comm;
        comm += (double)an_spans_measure(all->span, all->count);
        hidden += (double)(an_spans_measure(all->span, all->count) -
                           an_spans_measure(exposed->span, exposed->count));
    }
    for (size_t i = 0; i < context->step_count; i++) {
        uint32_t device = context->lane[context->step[i].lane].device;
        if (!an_step_detailed(&context->step[i]) || device == AN_NONE)
            continue;
        const struct an_set *all = &context->gpu->split[device].comm;
        ns += (double)an_spans_within(all->span, all->count, context->step[i].start,
                                      context->step[i].end);
        steps++;
    }
    communication->total_ms =
        steps ? an_num(ns / (double)steps / 1e6) : an_num_none("no counted steps");
    communication->exposed_ms =
        budget->ns[AN_CLASS_COMM].valid && budget->steps
            ? an_num((double)budget->ns[AN_CLASS_COMM].value / (double)budget->steps / 1e6)
            : an_num_none("no counted steps");
    communication->overlap_pct =
        comm > 0 ? an_num(100 * hidden / comm) : an_num_none("communication takes no time");
    communication->transfer_ms = communication->waiting_ms = communication->exposed_transfer_ms =
        communication->exposed_waiting_ms = communication->skew_ms = an_num_none(SPIN);
    communication->bytes_per_step = an_num_none("counted over the whole capture: collectives[]");
    blocking_of_steps(context);
    an_comm_rest_absent(communication, "devices[] has it over the whole capture: blocking_comm_us");
    return 0;
}
