/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators of a program that declares its work (payload tacho.work) and computes on the thread
 * that runs the steps: innermost ranges with bytes, and with the memory of their operands where the
 * program names it.
 */
#include <string.h>

#include "analyzers/dataflow/flow.h"

static const struct an_detail *work_of(const struct an_trace *trace, size_t slice)
{
    const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[slice]);
    return detail && detail->role == AN_ROLE_WORK ? detail : NULL;
}

/* Is there work inside of it? Slices are sorted, so it would come next. */
static bool holds_work(const struct an_trace *trace, const struct an_track *track, size_t slice)
{
    for (size_t i = slice + 1; i < an_track_end(track) && trace->slice.parent[i] == slice; i++)
        if (work_of(trace, i))
            return true;
    return false;
}

/* The track of the thread that runs the steps; NULL: they run on a device, or it is not known. */
static const struct an_track *thread_of(const struct flow *flow)
{
    const struct an_context *context = flow->context;
    const struct an_lane *lane = &context->lane[flow->step->lane];
    return lane->track == AN_NONE || lane->device != AN_NONE ? NULL
                                                             : &context->trace->track[lane->track];
}

static int read_ranges(struct flow *flow)
{
    const struct an_trace *trace = flow->context->trace;
    const struct an_track *track = thread_of(flow);
    if (!track)
        return 0;
    size_t i = an_slice_seek(trace, track, flow->step->host_start);
    for (; i < an_track_end(track) && trace->slice.start[i] < flow->step->host_end; i++) {
        const struct an_detail *detail = work_of(trace, i);
        if (!detail || trace->slice.dur[i] == AN_OPEN || holds_work(trace, track, i) ||
            an_slice_in_phase(trace, i) || flow->count >= FLOW_OPS_MOST)
            continue;
        const char *name = an_trace_name(trace, trace->slice.name[i]);
        struct flow_op op = {.name = name,
                             .pass = detail->pass,
                             .kind = flow_kind_of(name, *detail->kind && detail->hardware),
                             .slice = (uint32_t)i,
                             .track = (uint32_t)(track - trace->track),
                             .start = trace->slice.start[i],
                             .end = an_slice_end(trace, i),
                             .ns = trace->slice.dur[i],
                             .read = detail->bytes_read,
                             .written = detail->bytes_written,
                             .launches = 1};
        if (!flow_op_add(flow, &op))
            return TACHO_ENOMEM;
    }
    int rc = flow->count ? flow_edges_by_operands(flow) : 0;
    return rc || !flow->count || flow->named ? rc : flow_edges_by_size(flow);
}

const struct flow_source flow_ranges = {
    .words = "ranges with tacho.work: order and sizes, not the tensors themselves",
    .read = read_ranges};
