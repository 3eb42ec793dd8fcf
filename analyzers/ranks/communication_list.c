/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of the collectives of a run: one for every kind on every communicator. On threads the
 * sums are taken over the calls of detailed steps; on devices over all kernels of the capture,
 * whose rows say less.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/ranks/ranks_compare.h"

static int time_order(const void *left, const void *right)
{
    const struct an_collective *first = left, *second = right;
    double first_ms = first->mean_ms.value * (double)first->count,
           second_ms = second->mean_ms.value * (double)second->count;
    return (first_ms < second_ms) - (first_ms > second_ms);
}

/* ---- calls of threads ---------------------------------------------------------------------------------------------------- */

/* Sums of one kind on one communicator. */
struct sums {
    int64_t calls, matched, sized, ranks;
    double ns, matched_ns, transfer, bytes;
    double *rank_bytes; /* by lane */
    int64_t *rank_calls;
};

static void add_call(struct sums *sums, const struct an_comm_call *call)
{
    double ns = (double)an_time_sub(call->end, call->start);
    sums->calls++;
    sums->ns += ns;
    sums->ranks = call->ranks > sums->ranks ? call->ranks : sums->ranks;
    if (call->bytes != STORE_ABSENT) {
        sums->sized++;
        sums->bytes += (double)call->bytes;
    }
    if (call->lane != AN_NONE && sums->rank_bytes) {
        sums->rank_calls[call->lane]++;
        sums->rank_bytes[call->lane] += call->bytes != STORE_ABSENT ? (double)call->bytes : 0;
    }
    if (call->transfer >= 0) {
        sums->matched++;
        sums->matched_ns += ns;
        sums->transfer += (double)call->transfer;
    }
}

/* Steps of the ranks that take part, summed; 0: there are no steps. */
static double steps_of(const struct an_context *context, const struct sums *sums)
{
    double count = 0;
    for (size_t i = 0; i < context->step_count; i++)
        count += an_step_detailed(&context->step[i]) && sums->rank_calls[context->step[i].lane] > 0;
    return count;
}

static struct an_value uneven(const struct an_context *context, const struct sums *sums)
{
    double most = 0, sum = 0, ranks = 0;
    for (size_t lane = 0; lane < context->lane_count; lane++)
        if (sums->rank_calls[lane]) {
            most = sums->rank_bytes[lane] > most ? sums->rank_bytes[lane] : most;
            sum += sums->rank_bytes[lane];
            ranks++;
        }
    if (ranks < 2)
        return an_num_none("one rank: nothing to compare");
    return sum > 0 ? an_num(most / (sum / ranks))
                   : an_num_none("the calls do not say how many bytes they move");
}

static void bandwidth(struct an_context *context, const struct sums *sums,
                      struct an_collective *out)
{
    double factor = an_comm_bus_factor(out->name, sums->ranks),
           seconds = (sums->matched ? sums->transfer : sums->ns) / 1e9;
    double calls = (double)(sums->matched ? sums->matched : sums->calls);
    if (sums->sized < sums->calls || sums->bytes <= 0 || seconds <= 0) {
        out->algorithm_bytes_per_s = out->bus_bytes_per_s =
            an_num_none(sums->bytes <= 0 || sums->sized < sums->calls
                            ? "the calls do not say how many bytes they move"
                            : "the calls take no time");
        return;
    }
    out->algorithm_bytes_per_s = an_num(sums->bytes / (double)sums->calls / (seconds / calls));
    out->bandwidth_of = sums->matched ? "transfer" : "time";
    if (sums->ranks < 2)
        out->bus_bytes_per_s = an_num_none("the calls do not say how many ranks take part");
    else if (factor <= 0)
        out->bus_bytes_per_s = an_num_none(
            an_arena_format(context->arena, "no factor is defined for %.60s", out->name));
    else
        out->bus_bytes_per_s = an_num(out->algorithm_bytes_per_s.value * factor);
}

static const char *why_unmatched(const struct an_context *context, const struct an_comm_call *call)
{
    if (!call->synchronises && !strcmp(call->kind, "send_recv"))
        return "the calls of the other rank are not in the file, or do not say which ones they "
               "belong to";
    if (!call->synchronises)
        return "ranks may leave it before the others come: who waits cannot be told";
    if (call->ranks < 2)
        return call->ranks == 1 ? "one rank" : "the calls do not say how many ranks take part";
    if (call->sequence == STORE_ABSENT)
        return "the calls carry no sequence number";
    return context->result->communication.missing ? context->result->communication.missing
                                                  : "no call of it was recorded on every rank";
}

static void describe(struct an_context *context, const struct an_comm_call *first,
                     const struct sums *sums, struct an_collective *out)
{
    double calls = (double)sums->calls, steps = steps_of(context, sums);
    const char *none = "no counted step has all its ranges in the file",
               *why = why_unmatched(context, first);
    *out = (struct an_collective){
        .name = an_arena_text(context->arena, first->name),
        .communicator = first->communicator != STORE_ABSENT ? an_int(first->communicator)
                                                            : an_int_none("not said by the calls"),
        .ranks = sums->ranks > 0 ? an_int(sums->ranks) : an_int_none("not said by the calls"),
        .count = sums->calls,
        .matched = sums->matched,
        .mean_ms = an_num(sums->ns / calls / 1e6),
        .calls_per_step = steps > 0 ? an_num(calls / steps) : an_num_none(none),
        .bytes_max_over_mean = uneven(context, sums)};
    bool sized = sums->sized == sums->calls;
    const char *no_bytes = "the calls do not say how many bytes they move";
    out->bytes_per_call = sized ? an_num(sums->bytes / calls) : an_num_none(no_bytes);
    out->bytes_per_step = !sized      ? an_num_none(no_bytes)
                          : steps > 0 ? an_num(sums->bytes / steps)
                                      : an_num_none(none);
    out->transfer_ms =
        sums->matched ? an_num(sums->transfer / (double)sums->matched / 1e6) : an_num_none(why);
    out->waiting_ms =
        sums->matched ? an_num((sums->matched_ns - sums->transfer) / (double)sums->matched / 1e6)
                      : an_num_none(why);
    bandwidth(context, sums, out);
}

static bool same_kind(const struct an_comm_call *first, const struct an_comm_call *second)
{
    return !strcmp(first->name, second->name) && first->communicator == second->communicator;
}

static int name_order(const void *left, const void *right)
{
    const struct an_comm_call *first = left, *second = right;
    int order = strcmp(first->name, second->name);
    order = order ? order : AN_COMPARE(first->communicator, second->communicator);
    return order ? order : AN_COMPARE(first->slice, second->slice);
}

int an_comm_collectives(struct an_context *context, struct an_comm_calls *calls)
{
    struct an_communication *communication = &context->result->communication;
    size_t most = 0;
    if (calls->count)
        qsort(calls->call, calls->count, sizeof *calls->call, name_order);
    for (size_t i = 0; i < calls->count; i++)
        most += !i || !same_kind(&calls->call[i - 1], &calls->call[i]);
    struct an_collective *rows = an_arena_zero(context->arena, most + 1, sizeof *rows);
    double *rank_bytes =
        an_arena_zero(context->scratch, context->lane_count + 1, sizeof *rank_bytes);
    int64_t *rank_calls =
        an_arena_zero(context->scratch, context->lane_count + 1, sizeof *rank_calls);
    if (!rows || !rank_bytes || !rank_calls)
        return TACHO_ENOMEM;
    for (size_t i = 0, next; i < calls->count; i = next) {
        memset(rank_bytes, 0, (context->lane_count + 1) * sizeof *rank_bytes);
        memset(rank_calls, 0, (context->lane_count + 1) * sizeof *rank_calls);
        /* without steps there are no ranks to tell apart */
        struct sums sums = {.rank_bytes = context->lane_count ? rank_bytes : NULL,
                            .rank_calls = rank_calls};
        for (next = i; next < calls->count && same_kind(&calls->call[i], &calls->call[next]);
             next++)
            if (!context->result->steps.detailed || calls->call[next].step != AN_NONE)
                add_call(&sums, &calls->call[next]);
        if (sums.calls)
            describe(context, &calls->call[i], &sums, &rows[communication->collective_count++]);
    }
    if (communication->collective_count)
        qsort(rows, communication->collective_count, sizeof *rows, time_order);
    communication->collectives = rows;
    return 0;
}

/* ---- kernels of devices -------------------------------------------------------------------------------------------------- */

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

static struct kernel describe_kernel(struct an_context *context, size_t op)
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

static void add_kernel_row(struct an_context *context, const struct kernel *kernel,
                           size_t call_count)
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
        .transfer_ms = an_num_none(AN_COMM_SPINS),
        .waiting_ms = an_num_none(AN_COMM_SPINS)};
    out->algorithm_bytes_per_s = out->bus_bytes_per_s = an_num_none(no_bytes);
    if (sized < (int64_t)call_count || ns <= 0 || bytes <= 0)
        return;
    out->bandwidth_of = "time";
    out->algorithm_bytes_per_s = an_num(bytes / ns * 1e9);
    out->bus_bytes_per_s = factor > 0
                               ? an_num(bytes / ns * 1e9 * factor)
                               : an_num_none("the trace does not say how many ranks take part");
}

int an_comm_list_kernels(struct an_context *context)
{
    struct an_communication *communication = &context->result->communication;
    struct kernel *kernels = NULL;
    size_t kernel_count = 0, room = 0;
    int rc = 0;
    for (size_t i = 0; i < context->gpu->op.count && !rc; i++)
        if (1u << context->gpu->op.class[i] & AN_DEVICE_COMM_MASK &&
            !(rc = an_grow(&kernels, &room, kernel_count + 1, sizeof *kernels)))
            kernels[kernel_count++] = describe_kernel(context, i);
    if (kernel_count)
        qsort(kernels, kernel_count, sizeof *kernels, kernel_order);
    struct an_collective *rows = an_arena_zero(context->arena, kernel_count + 1, sizeof *rows);
    communication->collectives = rows;
    for (size_t i = 0, next; i < kernel_count && rows && !rc; i = next) {
        for (next = i + 1; next < kernel_count && !kernel_order(&kernels[i], &kernels[next]);)
            next++;
        add_kernel_row(context, &kernels[i], next - i);
    }
    if (rows && communication->collective_count)
        qsort(rows, communication->collective_count, sizeof *rows, time_order);
    communication->calls = (int64_t)kernel_count;
    free(kernels);
    return rc ? rc : rows ? 0 : TACHO_ENOMEM;
}
