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

static int kernel_order(const void *x, const void *y)
{
    const struct kernel *a = x, *b = y;
    int order = strcmp(a->name, b->name);
    return order ? order
                 : (a->communicator > b->communicator) - (a->communicator < b->communicator);
}

/* "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(...)" -> "ncclDevKernel_AllReduce_Sum_bf16_RING_LL" */
static const char *short_name(struct an_context *c, const char *name)
{
    return an_arena_format(c->a, "%.*s", (int)strcspn(name, "(<"), name);
}

static struct kernel describe(struct an_context *c, size_t op)
{
    uint32_t i = c->gpu->op.slice[op];
    const struct an_detail *d = an_trace_detail(c->t, c->t->slice.detail[i]);
    return (struct kernel){.name = d && *d->collective ? d->collective
                                                       : an_trace_name(c->t, c->t->slice.name[i]),
                           .communicator = d ? d->communicator : STORE_ABSENT,
                           .ranks = d ? d->ranks : STORE_ABSENT,
                           .bytes = d ? d->bytes : STORE_ABSENT,
                           .ns = an_time_sub(c->gpu->op.end[op], c->gpu->op.start[op])};
}

static void add_row(struct an_context *c, const struct kernel *k, size_t n)
{
    struct an_communication *r = &c->r->communication;
    struct an_collective *out =
        &((struct an_collective *)(uintptr_t)r->collectives)[r->collective_count++];
    double ns = 0, bytes = 0;
    int64_t sized = 0, ranks = 0;
    for (size_t i = 0; i < n; i++) {
        ns += (double)k[i].ns;
        sized += k[i].bytes != STORE_ABSENT;
        bytes += k[i].bytes != STORE_ABSENT ? (double)k[i].bytes : 0;
        ranks = k[i].ranks > ranks ? k[i].ranks : ranks;
    }
    const char *none = "counted over the whole capture",
               *no_bytes = "the trace does not say how many bytes they move";
    double factor = an_comm_bus_factor(k->name, ranks);
    *out = (struct an_collective){
        .name = short_name(c, k->name),
        .communicator = k->communicator != STORE_ABSENT ? an_int(k->communicator)
                                                        : an_int_none("not said by the trace"),
        .ranks = ranks > 0 ? an_int(ranks) : an_int_none("not said by the trace"),
        .count = (int64_t)n,
        .calls_per_step = an_num_none(none),
        .bytes_per_step = an_num_none(none),
        .bytes_max_over_mean = an_num_none(none),
        .bytes_per_call = sized == (int64_t)n ? an_num(bytes / (double)n) : an_num_none(no_bytes),
        .mean_ms = an_num(ns / (double)n / 1e6),
        .transfer_ms = an_num_none(SPIN),
        .waiting_ms = an_num_none(SPIN)};
    out->algorithm_bytes_per_s = out->bus_bytes_per_s = an_num_none(no_bytes);
    if (sized < (int64_t)n || ns <= 0 || bytes <= 0)
        return;
    out->bandwidth_of = "time";
    out->algorithm_bytes_per_s = an_num(bytes / ns * 1e9);
    out->bus_bytes_per_s = factor > 0
                               ? an_num(bytes / ns * 1e9 * factor)
                               : an_num_none("the trace does not say how many ranks take part");
}

static int time_order(const void *x, const void *y)
{
    const struct an_collective *a = x, *b = y;
    double ta = a->mean_ms.value * (double)a->count, tb = b->mean_ms.value * (double)b->count;
    return (ta < tb) - (ta > tb);
}

static int list_kernels(struct an_context *c)
{
    struct an_communication *r = &c->r->communication;
    struct kernel *all = NULL;
    size_t n = 0, room = 0;
    int rc = 0;
    for (size_t i = 0; i < c->gpu->op.count && !rc; i++)
        if (1u << c->gpu->op.class[i] & AN_DEVICE_COMM_MASK &&
            !(rc = an_grow(&all, &room, n + 1, sizeof *all)))
            all[n++] = describe(c, i);
    if (n)
        qsort(all, n, sizeof *all, kernel_order);
    struct an_collective *rows = an_arena_zero(c->a, n + 1, sizeof *rows);
    r->collectives = rows;
    for (size_t i = 0, next; i < n && rows && !rc; i = next) {
        for (next = i + 1; next < n && !kernel_order(&all[i], &all[next]);)
            next++;
        add_row(c, &all[i], next - i);
    }
    if (rows && r->collective_count)
        qsort(rows, r->collective_count, sizeof *rows, time_order);
    r->calls = (int64_t)n;
    free(all);
    return rc ? rc : rows ? 0 : TACHO_ENOMEM;
}

void an_comm_device_split(struct an_context *c, const struct an_comm_calls *x)
{
    struct an_communication *r = &c->r->communication;
    for (size_t k = 0; k < r->collective_count; k++) {
        struct an_collective *row = &((struct an_collective *)(uintptr_t)r->collectives)[k];
        double ns = 0, transfer = 0;
        for (size_t i = 0; i < x->count; i++) {
            const struct an_comm_call *call = &x->call[i];
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
static void blocking_of_steps(struct an_context *c)
{
    struct an_communication *r = &c->r->communication;
    struct an_value *all[AN_BLOCKING_COUNT] = {&r->blocking_proven_ms, &r->blocking_inferred_ms,
                                               &r->blocking_unknown_ms};
    for (int k = 0; k < AN_BLOCKING_COUNT; k++) {
        const char *reason = NULL;
        double ns = 0;
        int64_t steps = 0;
        for (size_t i = 0; i < c->r->absent_count; i++) {
            const struct an_absent *x = &c->r->absent[i];
            if (x->steps && !x->blocking_ns[k].valid)
                reason = x->blocking_ns[k].reason;
            if (!x->steps || reason)
                continue;
            ns += (double)x->blocking_ns[k].value;
            steps += x->steps;
        }
        if (steps || reason)
            *all[k] = reason ? an_num_none(reason) : an_num(ns / (double)steps / 1e6);
    }
}

int an_comm_device(struct an_context *c)
{
    struct an_communication *r = &c->r->communication;
    const struct an_budget *b = &c->r->budget;
    double comm = 0, hidden = 0, ns = 0;
    int64_t steps = 0;
    int rc = list_kernels(c);
    if (rc)
        return rc;
    if (!r->calls) {
        r->reason = "no communication on a device";
        an_comm_rest_absent(r, r->reason);
        return 0;
    }
    for (size_t i = 0; i < c->gpu->device_count; i++) {
        const struct an_set *all = &c->gpu->split[i].comm,
                            *exposed = &c->gpu->split[i].exposed_comm;
        comm += (double)an_spans_measure(all->span, all->count);
        hidden += (double)(an_spans_measure(all->span, all->count) -
                           an_spans_measure(exposed->span, exposed->count));
    }
    for (size_t i = 0; i < c->step_count; i++) {
        uint32_t device = c->lane[c->step[i].lane].device;
        if (!an_step_detailed(&c->step[i]) || device == AN_NONE)
            continue;
        const struct an_set *all = &c->gpu->split[device].comm;
        ns += (double)an_spans_within(all->span, all->count, c->step[i].start, c->step[i].end);
        steps++;
    }
    r->total_ms = steps ? an_num(ns / (double)steps / 1e6) : an_num_none("no counted steps");
    r->exposed_ms = b->ns[AN_CLASS_COMM].valid && b->steps
                        ? an_num((double)b->ns[AN_CLASS_COMM].value / (double)b->steps / 1e6)
                        : an_num_none("no counted steps");
    r->overlap_pct =
        comm > 0 ? an_num(100 * hidden / comm) : an_num_none("communication takes no time");
    r->transfer_ms = r->waiting_ms = r->exposed_transfer_ms = r->exposed_waiting_ms = r->skew_ms =
        an_num_none(SPIN);
    r->bytes_per_step = an_num_none("counted over the whole capture: collectives[]");
    blocking_of_steps(c);
    an_comm_rest_absent(r, "devices[] has it over the whole capture: blocking_comm_us");
    return 0;
}
