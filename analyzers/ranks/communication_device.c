/* SPDX-License-Identifier: Apache-2.0
 *
 * Communication of accelerators. The time of a step comes from the unions of the devices
 * (device_split.c). Communication kernels spin while they wait, and nothing on one device links
 * its kernels to those of another rank, so the split into transfer and waiting is absent unless
 * the ranks of the file are matched (communication.c).
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/ranks/ranks_compare.h"

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

/* Mean time of communication on the device of a step, exposed or not. */
static struct an_value mean_of_steps(const struct an_context *context)
{
    double ns = 0, steps = 0;
    for (size_t i = 0; i < context->step_count; i++) {
        const struct an_step *step = &context->step[i];
        uint32_t device = context->lane[step->lane].device;
        if (!an_step_detailed(step) || device == AN_NONE)
            continue;
        const struct an_set *all = &context->gpu->split[device].comm;
        ns += (double)an_spans_within(all->span, all->count, step->start, step->end);
        steps++;
    }
    return an_num_if(steps > 0, ns / steps / 1e6, "no counted steps");
}

int an_comm_device(struct an_context *context)
{
    struct an_communication *communication = &context->result->communication;
    const struct an_budget *budget = &context->result->budget;
    double comm = 0, hidden = 0;
    int rc = an_comm_list_kernels(context);
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
    communication->total_ms = mean_of_steps(context);
    communication->exposed_ms =
        budget->ns[AN_CLASS_COMM].valid && budget->steps
            ? an_num((double)budget->ns[AN_CLASS_COMM].value / (double)budget->steps / 1e6)
            : an_num_none("no counted steps");
    communication->overlap_pct =
        an_num_if(comm > 0, 100 * hidden / comm, "communication takes no time");
    communication->transfer_ms = communication->waiting_ms = communication->exposed_transfer_ms =
        communication->exposed_waiting_ms = communication->skew_ms = an_num_none(AN_COMM_SPINS);
    communication->bytes_per_step =
        an_num_none("measured over the whole capture: see collectives[]");
    blocking_of_steps(context);
    an_comm_rest_absent(communication, "see blocking_comm_us of devices[], over the whole capture");
    return 0;
}

void an_comm_rest_absent(struct an_communication *communication, const char *reason)
{
    struct an_value *all[] = {
        &communication->bytes_per_step,      &communication->total_ms,
        &communication->exposed_ms,          &communication->overlap_pct,
        &communication->transfer_ms,         &communication->waiting_ms,
        &communication->exposed_transfer_ms, &communication->exposed_waiting_ms,
        &communication->blocking_proven_ms,  &communication->blocking_inferred_ms,
        &communication->blocking_unknown_ms, &communication->skew_ms};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!all[i]->valid && !all[i]->reason)
            *all[i] = an_num_none(reason);
}
