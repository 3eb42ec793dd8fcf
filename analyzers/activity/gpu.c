/* SPDX-License-Identifier: Apache-2.0
 *
 * What each accelerator did over everything that was recorded on it: compute, exposed
 * communication, exposed copies, opaque graphs and idle, which sum to the span
 * (docs/definitions.md). Exact in ns.
 */
#include <inttypes.h>

#include "analyzers/base/sets.h"
#include "analyzers/steps/context.h"

/* Sum of the times of a device's ops of a class mask, however they overlap. */
static struct an_count sum_ops(const struct an_devices *devices, const struct an_device *device,
                               unsigned mask)
{
    const struct an_device_ops *ops = &devices->op;
    int64_t sum = 0;
    for (size_t i = device->first; i < an_device_end(device); i++)
        if (mask >> ops->class[i] & 1)
            sum = an_time_add(sum, an_time_sub(ops->end[i], ops->start[i]));
    return an_int(sum);
}

static struct an_value overlap(const struct an_device_split *split)
{
    int64_t comm = an_set_measure(split->comm);
    if (comm > 0)
        return an_num(100.0 * (double)an_time_sub(comm, an_set_measure(split->exposed_comm)) /
                      (double)comm);
    return an_num_none(split->opaque.count || split->unseen_graphs
                           ? "no communication outside of opaque graphs"
                           : "no communication on this device");
}

/* None of the device's rows has a time. noncompute_report.c fills the last seven numbers for the
 * other devices. */
static void times_absent(struct an_gpu_device *out)
{
    static const char reason[] = "none of its rows has a time";
    struct an_count *all[] = {&out->span_ns,
                              &out->busy_ns,
                              &out->compute_ns,
                              &out->comm_ns,
                              &out->copy_ns,
                              &out->exposed_comm_ns,
                              &out->exposed_copy_ns,
                              &out->opaque_ns,
                              &out->idle_ns,
                              &out->compute_sum_ns,
                              &out->comm_sum_ns,
                              &out->copy_sum_ns,
                              &out->blocking_proven_ns,
                              &out->blocking_inferred_ns,
                              &out->blocking_unknown_ns,
                              &out->absent_launch_starved_ns,
                              &out->absent_blocked_ns,
                              &out->absent_dispatch_ns,
                              &out->absent_dependency_ns};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        *all[i] = an_int_none(reason);
    out->overlap_pct = an_num_none(reason);
}

/* The classes of a device must sum to its span; that they do not is noted as a problem. */
static void check_sum(struct an_context *context, const struct an_gpu_device *out)
{
    int64_t sum = an_time_add(out->compute_ns.value, out->exposed_comm_ns.value);
    sum = an_time_add(sum, out->exposed_copy_ns.value);
    sum = an_time_add(sum, an_time_add(out->opaque_ns.value, out->idle_ns.value));
    if (sum != out->span_ns.value)
        an_problem(context,
                   "device %" PRId64 " of rank %" PRId64 ": its classes sum to %" PRId64
                   " ns, not to its span of %" PRId64 " ns",
                   out->device, out->rank, sum, out->span_ns.value);
}

/* Fills the times of a device that has ops. */
static void fill_times(struct an_context *context, const struct an_device *device,
                       const struct an_device_split *split, struct an_gpu_device *out)
{
    int64_t span = an_time_sub(split->end, split->start), busy = an_set_measure(split->busy);
    out->span_ns = an_int(span);
    out->busy_ns = an_int(busy);
    out->compute_ns = an_int(an_set_measure(split->compute));
    out->comm_ns = an_int(an_set_measure(split->comm));
    out->copy_ns = an_int(an_set_measure(split->copy));
    out->exposed_comm_ns = an_int(an_set_measure(split->exposed_comm));
    out->exposed_copy_ns = an_int(an_set_measure(split->exposed_copy));
    out->opaque_ns = an_int(an_set_measure(split->exposed_opaque));
    out->idle_ns = an_int(an_time_sub(span, busy));
    out->overlap_pct = overlap(split);
    out->compute_sum_ns = sum_ops(context->gpu, device, AN_DEVICE_COMPUTE_MASK);
    out->comm_sum_ns = sum_ops(context->gpu, device, AN_DEVICE_COMM_MASK);
    out->copy_sum_ns = sum_ops(context->gpu, device, AN_DEVICE_COPY_MASK);
    check_sum(context, out);
}

/* Fills the row of a device. */
static void describe(struct an_context *context, const struct an_device *device,
                     const struct an_device_split *split, struct an_gpu_device *out)
{
    const struct an_process *process = an_trace_process(context->trace, device->process);
    *out = (struct an_gpu_device){.rank = device->rank,
                                  .process = STORE_ABSENT,
                                  .device = device->ordinal,
                                  .label = device->label,
                                  .name = device->name,
                                  .host = "",
                                  .ops = (int64_t)device->count,
                                  .streams = device->streams};
    if (process) {
        out->process = process->pid;
        out->host = an_arena_text(context->arena, process->host);
    }
    times_absent(out);
    if (device->count)
        fill_times(context, device, split, out);
}

/* Notes opaque time as a problem, and what the user can do about it. */
static void note_opaque(struct an_context *context, const struct an_device *device,
                        const struct an_device_split *split)
{
    double ms = (double)an_set_measure(split->exposed_opaque) / 1e6,
           unseen = (double)split->unseen_ns / 1e6;
    if (ms - unseen > 0)
        an_problem(context,
                   "device %" PRId64 " of rank %" PRId64
                   ": %.3f ms are opaque: graphs were recorded as a whole, without their "
                   "kernels (nsys profile --cuda-graph-trace=node records them)",
                   device->ordinal, device->rank, ms - unseen);
    if (split->unseen_ns > 0)
        an_problem(context,
                   "device %" PRId64 " of rank %" PRId64 ": %" PRId64
                   " launches of graphs left no record on the device; %.3f ms "
                   "after them look idle and are counted as opaque, not as idle",
                   device->ordinal, device->rank, split->unseen_graphs, unseen);
}

/* A fused kernel is compute that holds communication: how much of either is not known, only the
 * bound. */
static int note_fused(struct an_context *context, const struct an_device *device,
                      const struct an_device_split *split)
{
    struct an_set fused;
    int rc = an_device_spans(context->gpu, device, 1u << AN_DEVICE_FUSED, INT64_MIN, INT64_MAX,
                             &fused.span, &fused.count);
    if (rc || !fused.count)
        return rc;
    double ms = (double)an_set_measure(fused) / 1e6,
           compute = (double)an_set_measure(split->compute) / 1e6;
    if (ms > compute / 100)
        an_problem(context,
                   "device %" PRId64 " of rank %" PRId64
                   ": kernels that compute and communicate at once run for %.3f of %.3f ms of "
                   "compute: up to that much of it is communication",
                   device->ordinal, device->rank, ms, compute);
    return 0;
}

static int gpu_run(struct an_context *context)
{
    const struct an_devices *devices = context->gpu;
    struct an_gpu_device *rows = an_arena_zero(context->arena, devices->device_count, sizeof *rows);
    int rc = 0;
    if (!rows)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < devices->device_count; i++) {
        describe(context, &devices->device[i], &devices->split[i], &rows[i]);
        note_opaque(context, &devices->device[i], &devices->split[i]);
        rc = rc ? rc : note_fused(context, &devices->device[i], &devices->split[i]);
    }
    context->result->gpus = rows;
    context->result->gpu_count = devices->device_count;
    return rc;
}

static void gpu_absent(struct an_context *context, const char *reason)
{
    context->result->gpu.reason = reason;
}

const struct an_analyzer an_gpu = {
    .name = "gpu",
    .help = "what each accelerator did: compute, exposed communication and copies, idle",
    .needs = AN_INPUT_DEVICES,
    .run = gpu_run,
    .absent = gpu_absent,
};
