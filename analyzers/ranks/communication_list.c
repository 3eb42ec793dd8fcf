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

static struct an_count known_int(int64_t value, const char *reason)
{
    return value == STORE_ABSENT ? an_int_none(reason) : an_int(value);
}

/* Sums of one kind on one communicator. */
struct sums {
    int64_t calls, matched, sized, ranks;
    double ns, matched_ns, transfer, bytes;
    double *rank_bytes; /* by lane */
    int64_t *rank_calls;
};

/* Adds a call to the sums of its collective; without steps there are no ranks to tell apart. */
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

/* The largest share of the bytes that any rank moves over the mean of the ranks: 1 if all move as
 * many. */
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

/* Algorithm and bus bandwidth as nccl-tests define them: from the transfer of matched calls, else
 * from the whole time of the calls. */
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

/* Why no call of a collective could be matched over the ranks. */
static const char *why_unmatched(const struct an_context *context, const struct an_comm_call *call)
{
    if (!call->synchronises && !strcmp(call->kind, "send_recv"))
        return "the peer's calls are not in the file, or name no call that they belong to";
    if (!call->synchronises)
        return "ranks may leave it before the others arrive: which rank waits is unknown";
    if (call->ranks < 2)
        return call->ranks == 1 ? "one rank" : "the calls do not say how many ranks take part";
    if (call->sequence == STORE_ABSENT)
        return "the calls carry no sequence number";
    return context->result->communication.missing ? context->result->communication.missing
                                                  : "no call of it was recorded on every rank";
}

/* Fills the row of one kind of collective on one communicator from its sums. */
static void describe(struct an_context *context, const struct an_comm_call *first,
                     const struct sums *sums, struct an_collective *out)
{
    double calls = (double)sums->calls, steps = steps_of(context, sums);
    const char *none = "no counted step has all its ranges in the file",
               *why = why_unmatched(context, first);
    *out = (struct an_collective){
        .name = an_arena_text(context->arena, first->name),
        .communicator = known_int(first->communicator, "not given by the calls"),
        .ranks = known_int(sums->ranks > 0 ? sums->ranks : STORE_ABSENT, "not given by the calls"),
        .count = sums->calls,
        .matched = sums->matched,
        .mean_ms = an_num(sums->ns / calls / 1e6),
        .calls_per_step = an_num_if(steps > 0, calls / steps, none),
        .bytes_max_over_mean = uneven(context, sums)};
    bool sized = sums->sized == sums->calls;
    const char *no_bytes = "the calls do not say how many bytes they move";
    double matched = (double)sums->matched;
    out->bytes_per_call = an_num_if(sized, sums->bytes / calls, no_bytes);
    out->bytes_per_step =
        an_num_if(sized && steps > 0, sums->bytes / steps, sized ? none : no_bytes);
    out->transfer_ms = an_num_if(sums->matched, sums->transfer / matched / 1e6, why);
    out->waiting_ms =
        an_num_if(sums->matched, (sums->matched_ns - sums->transfer) / matched / 1e6, why);
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

/* What a communication kernel and its detail say of the collective. */
static struct kernel describe_kernel(struct an_context *context, size_t op)
{
    uint32_t slice = context->gpu->op.slice[op];
    const struct an_detail *detail =
        an_trace_detail(context->trace, context->trace->slice.detail[slice]);
    struct kernel kernel = {
        .name = an_trace_name(context->trace, context->trace->slice.name[slice]),
        .communicator = STORE_ABSENT,
        .ranks = STORE_ABSENT,
        .bytes = STORE_ABSENT,
        .ns = an_time_sub(context->gpu->op.end[op], context->gpu->op.start[op])};
    if (!detail)
        return kernel;
    if (*detail->collective)
        kernel.name = detail->collective;
    kernel.communicator = detail->communicator;
    kernel.ranks = detail->ranks;
    kernel.bytes = detail->bytes;
    return kernel;
}

/* Adds the row of one kind of kernel on one communicator, from all of its kernels. */
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
    const char *none = "measured over the whole capture",
               *no_bytes = "the trace does not say how many bytes they move";
    double factor = an_comm_bus_factor(kernel->name, ranks);
    *out = (struct an_collective){
        .name = short_name(context, kernel->name),
        .communicator = known_int(kernel->communicator, "not given by the trace"),
        .ranks = known_int(ranks > 0 ? ranks : STORE_ABSENT, "not given by the trace"),
        .count = (int64_t)call_count,
        .calls_per_step = an_num_none(none),
        .bytes_per_step = an_num_none(none),
        .bytes_max_over_mean = an_num_none(none),
        .bytes_per_call =
            an_num_if(sized == (int64_t)call_count, bytes / (double)call_count, no_bytes),
        .mean_ms = an_num(ns / (double)call_count / 1e6),
        .transfer_ms = an_num_none(AN_COMM_SPINS),
        .waiting_ms = an_num_none(AN_COMM_SPINS)};
    out->algorithm_bytes_per_s = out->bus_bytes_per_s = an_num_none(no_bytes);
    if (sized < (int64_t)call_count || ns <= 0 || bytes <= 0)
        return;
    out->bandwidth_of = "time";
    out->algorithm_bytes_per_s = an_num(bytes / ns * 1e9);
    out->bus_bytes_per_s = an_num_if(factor > 0, bytes / ns * 1e9 * factor,
                                     "the trace does not say how many ranks take part");
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
    return rc || rows ? rc : TACHO_ENOMEM;
}
