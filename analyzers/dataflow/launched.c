/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that launched work on a device, in the order of each stream, with the bytes of their
 * recorded shapes (PyTorch: record_shapes) or of their payload (tacho.work).
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/dataflow/flow.h"
#include "analyzers/work/attribution.h"

/* Splits the bytes of a call: what its operands hold is read, the rest of its model is written.
 * Calls of one cost have one payload, which is read once. */
static int split_bytes(struct flow *flow, const struct an_call *call, struct flow_op *op)
{
    struct an_context *context = flow->context;
    const struct an_detail *detail =
        an_trace_detail(context->trace, context->trace->slice.detail[call->slice]);
    int64_t all = context->calls->cost[call->cost].bytes, read = 0;
    int64_t *known = &flow->written[call->cost];
    op->read = op->written = STORE_ABSENT;
    if (detail && detail->role == AN_ROLE_WORK) {
        op->read = detail->bytes_read;
        op->written = detail->bytes_written;
        op->pass = detail->pass;
        return 0;
    }
    const struct an_op_args *args = *known ? NULL : an_bounds_args(context, call->slice);
    if (!*known && !args)
        return TACHO_ENOMEM;
    if (all <= 0)
        return 0;
    for (int i = 0; args && i < (int)args->count; i++) {
        int64_t bytes = an_op_bytes(an_op_tensor_at(args, i));
        read += bytes > 0 && bytes < INT64_MAX / 65536 ? bytes : 0;
    }
    /* The operands may include one that is only written or updated in place, so that they can
     * account for all bytes: then half are taken to be written. */
    if (!*known)
        *known = read < all ? all - read : (all + 1) / 2;
    op->written = *known;
    op->read = all - op->written;
    return 0;
}

/* PyTorch names the operators of a backward pass by their nodes. */
static const char *pass_of(const struct an_trace *trace, uint32_t slice)
{
    int levels = AN_DEPTH_MAX;
    for (; slice != AN_NONE && levels--; slice = trace->slice.parent[slice]) {
        const char *name = an_trace_name(trace, trace->slice.name[slice]);
        if (strstr(name, "autograd::engine") || strstr(name, "Backward"))
            return "backward";
        if (strstr(name, "Optimizer.step"))
            return "optimizer";
    }
    return "forward";
}

/* Does a device op compute on the memory of its device? A copy within it does; no kernel can do one
 * to or from a host or another device, nor a collective. */
static bool computes(const struct an_context *context, size_t device_op)
{
    const struct an_trace *trace = context->trace;
    const struct an_device_ops *ops = &context->gpu->op;
    const struct an_detail *detail =
        an_trace_detail(trace, trace->slice.detail[ops->slice[device_op]]);
    unsigned class = 1u << ops->class[device_op];
    return class & AN_DEVICE_COMPUTE_MASK ||
           (class & AN_DEVICE_COPY_MASK && detail && !strcmp(detail->copy_kind, "DtoD"));
}

/* Adds the call of a device op; several kernels of one call in a row are one operator. */
static int add_call(struct flow *flow, size_t device_op, uint32_t *last)
{
    struct an_context *context = flow->context;
    const struct an_devices *gpu = context->gpu;
    uint32_t index = context->calls->of_op[device_op];
    int64_t ns = an_time_sub(gpu->op.end[device_op], gpu->op.start[device_op]);
    if (index == *last && index != AN_NONE) {
        struct flow_op *before = &flow->op[flow->count - 1];
        before->end = gpu->op.end[device_op];
        before->ns = an_time_add(before->ns, ns);
        before->launches++;
        before->kind = computes(context, device_op) ? before->kind : FLOW_OTHER;
        return 0;
    }
    *last = index;
    struct flow_op op = {
        .name = an_trace_name(context->trace, context->trace->slice.name[gpu->op.slice[device_op]]),
        .pass = "",
        .kind = FLOW_OTHER,
        .slice = gpu->op.slice[device_op],
        .track = gpu->op.track[device_op],
        .start = gpu->op.start[device_op],
        .end = gpu->op.end[device_op],
        .ns = ns,
        .read = STORE_ABSENT,
        .written = STORE_ABSENT,
        .launches = 1};
    int rc = 0;
    if (index != AN_NONE) {
        const struct an_call *call = &context->calls->call[index];
        op.slice = call->slice;
        op.name = an_trace_name(context->trace, context->trace->slice.name[call->slice]);
        op.pass = pass_of(context->trace, call->slice);
        if (computes(context, device_op))
            op.kind = flow_kind_of(op.name, context->calls->cost[call->cost].kind != AN_OP_OTHER);
        /* A view that launches a kernel copies. */
        op.kind = op.kind == FLOW_VIEW ? FLOW_POINTWISE : op.kind;
        rc = split_bytes(flow, call, &op);
    }
    return !rc && flow_op_add(flow, &op) ? 0 : TACHO_ENOMEM;
}

static int track_order(const void *left, const void *right)
{
    const struct flow_op *first = left, *second = right;
    return 2 * AN_COMPARE(first->track, second->track) + AN_COMPARE(first->start, second->start);
}

static int read_launched(struct flow *flow)
{
    struct an_context *context = flow->context;
    const struct an_lane *lane = &context->lane[flow->step->lane];
    if (!context->calls || !context->gpu || lane->device == AN_NONE)
        return 0;
    const struct an_device *device = &context->gpu->device[lane->device];
    uint32_t last = AN_NONE;
    int rc = 0;
    if (!flow->written)
        flow->written =
            an_arena_zero(context->scratch, context->calls->costs + 1, sizeof *flow->written);
    if (!flow->written)
        return TACHO_ENOMEM;
    for (size_t i = an_device_op_seek(context->gpu, device, flow->step->start);
         i < an_device_end(device) && context->gpu->op.start[i] < flow->step->end && !rc &&
         flow->count < FLOW_OPS_MOST;
         i++)
        rc = add_call(flow, i, &last);
    flow->on_device = true;
    if (flow->count)
        qsort(flow->op, flow->count, sizeof *flow->op, track_order);
    rc = rc ? rc : flow_edges_by_operands(flow);
    return rc || flow->named ? rc : flow_edges_by_size(flow);
}

const struct flow_source flow_launched = {
    .words = "operators of the device: order on a stream and recorded shapes, not the tensors "
             "themselves",
    .read = read_launched};
