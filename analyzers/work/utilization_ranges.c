/* SPDX-License-Identifier: Apache-2.0
 *
 * FLOPs of ranges with a tacho.work payload. A range inside the capture of a graph ran when the
 * graph was launched, as often as that: its FLOPs belong to the steps of these launches.
 */
#include <string.h>

#include "analyzers/work/utilization_private.h"

/* How the hook names the range that carries the FLOPs of the pass before it. */
#define COUNTED "FLOPs counted"

/* Is a range of work that has FLOPs of its own open around slice i? Then i is part of it and
 * counted there. */
static bool is_counted_above(const struct an_trace *trace, size_t i)
{
    int levels = AN_DEPTH_MAX;
    for (uint32_t parent = trace->slice.parent[i]; parent != AN_NONE && levels--;
         parent = trace->slice.parent[parent]) {
        const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[parent]);
        if (detail && detail->role == AN_ROLE_WORK && detail->flops > 0)
            return true;
    }
    return false;
}

/* The step of slice i on any thread of the process that runs steps; NULL outside of steps and
 * inside phases. */
static struct an_step *step_of(const struct an_flops_gather *gather, uint32_t process, size_t i)
{
    const struct an_context *context = gather->context;
    size_t k = process != AN_NONE ? gather->first_lane[process]
                                  : gather->first_lane[context->trace->process_count];
    int64_t time = context->trace->slice.start[i];
    for (; k < context->lane_count && context->lane[k].process == process; k++) {
        const struct an_lane *lane = &context->lane[k];
        struct an_step *step = an_step_at(context, lane, time);
        if (step && an_step_detailed(step))
            return an_spans_within(lane->cut, lane->cut_count, time, time + 1) ||
                           an_slice_in_phase(context->trace, i)
                       ? NULL
                       : step;
    }
    return NULL;
}

/* Adds a range of matrix work: its executed FLOPs, and how much of its time has known FLOPs. */
static void gather_hardware(struct an_flops_gather *gather, const struct an_detail *detail,
                            double ns, struct an_flops *sum)
{
    gather->hardware++;
    gather->hardware_ns += ns;
    gather->covered_ns += detail->flops != STORE_ABSENT ? ns : 0;
    gather->model_missing += detail->model_flops == STORE_ABSENT;
    gather->palm_missing += detail->palm_flops == STORE_ABSENT;
    an_flops_add(&sum->hardware, detail->flops);
    if (!strcmp(detail->pass, "recompute"))
        an_flops_add(&sum->again, detail->flops);
}

/* Does a range of work say anything of its FLOPs? */
static bool says_flops(const struct an_detail *detail)
{
    return detail->flops != STORE_ABSENT || detail->model_flops != STORE_ABSENT ||
           detail->palm_flops != STORE_ABSENT;
}

/* Adds what a range of work that takes `ns` computes to a step and its element type. False: it is
 * part of another range of work and counted with it. */
static bool gather_work(struct an_flops_gather *gather, struct an_step *step, size_t i, int64_t ns)
{
    const struct an_trace *trace = gather->context->trace;
    const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[i]);
    if (is_counted_above(trace, i))
        return false;
    struct an_flops *sum = &gather->step[step - gather->context->step];
    gather->works++;
    gather->known += says_flops(detail);
    an_flops_add(&sum->model, detail->model_flops);
    an_flops_add(&sum->palm, detail->palm_flops);
    if (detail->hardware)
        gather_hardware(gather, detail, (double)ns, sum);
    if (detail->hardware || detail->model_flops > 0) {
        struct an_flops *by =
            &gather->lane[step->lane].by_dtype[an_flops_dtype(gather, detail->dtype)];
        an_flops_add(&by->model, detail->model_flops);
        an_flops_add(&by->palm, detail->palm_flops);
        if (detail->hardware)
            an_flops_add(&by->hardware, detail->flops);
    }
    return true;
}

static bool is_work(const struct an_trace *trace, size_t i)
{
    const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[i]);
    return detail && detail->role == AN_ROLE_WORK;
}

/* Has PyTorch's hook counted this pass, which began before its FLOPs were known? They are on a
 * range without length right after it, beside it: the last module inside of the pass has none. */
static bool is_counted_after(const struct an_flops_gather *gather, const struct an_track *track,
                             size_t i)
{
    const struct an_trace *trace = gather->context->trace;
    int64_t end = an_time_add(trace->slice.start[i], trace->slice.dur[i]);
    if (gather->counted == AN_NONE)
        return false;
    for (size_t k = an_slice_seek(trace, track, end); k < an_track_end(track); k++)
        if (is_work(trace, k))
            return trace->slice.name[k] == gather->counted &&
                   trace->slice.parent[k] == trace->slice.parent[i];
    return false;
}

/* Is slice i inside of a pass that was counted, as the passes that reentrant checkpointing runs? */
static bool is_in_counted(const struct an_flops_gather *gather, const struct an_track *track,
                          size_t i)
{
    const struct an_trace *trace = gather->context->trace;
    int levels = AN_DEPTH_MAX;
    for (uint32_t parent = trace->slice.parent[i]; parent != AN_NONE && levels--;
         parent = trace->slice.parent[parent])
        if (is_work(trace, parent) && is_counted_after(gather, track, parent))
            return true;
    return false;
}

/* A pass of PyTorch without FLOPs. Where others of the same name have some, it is one that the hook
 * did not count: its time is of matrix work that is not covered. */
static bool is_silent_pass(const struct an_trace *trace, size_t i)
{
    const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[i]);
    return is_work(trace, i) && trace->slice.dur[i] != AN_OPEN && !detail->hardware &&
           !says_flops(detail) && !is_counted_above(trace, i);
}

static void gather_silent(struct an_flops_gather *gather, const struct an_track *track, size_t i)
{
    const struct an_trace *trace = gather->context->trace;
    uint32_t name = trace->slice.name[i];
    if (name == AN_NONE || !gather->has_flops[name] || !is_silent_pass(trace, i) ||
        is_in_counted(gather, track, i) || !step_of(gather, track->process, i))
        return;
    gather->hardware_ns += (double)trace->slice.dur[i];
    gather->covered_ns += is_counted_after(gather, track, i) ? (double)trace->slice.dur[i] : 0;
}

/* Notes the names of ranges that have FLOPs, themselves or right after them. */
static void find_names(struct an_flops_gather *gather)
{
    const struct an_trace *trace = gather->context->trace;
    gather->counted = AN_NONE;
    for (uint32_t name = 0; name < trace->string_count && gather->counted == AN_NONE; name++)
        if (!strcmp(an_trace_name(trace, name), COUNTED))
            gather->counted = name;
    for (size_t k = 0; k < trace->track_count; k++) {
        const struct an_track *track = &trace->track[k];
        for (size_t i = track->slice_first; i < an_track_end(track); i++) {
            uint32_t name = trace->slice.name[i];
            if (name != AN_NONE && !gather->has_flops[name] && is_work(trace, i))
                gather->has_flops[name] =
                    an_trace_detail(trace, trace->slice.detail[i])->flops > 0 ||
                    (is_silent_pass(trace, i) && is_counted_after(gather, track, i));
        }
    }
}

/* Adds a range of work to the step that it lies in, unless it was captured into a graph: then it
 * did not run. */
static void gather_slice(struct an_flops_gather *gather, uint32_t process, size_t i)
{
    const struct an_context *context = gather->context;
    const struct an_trace *trace = context->trace;
    if (!is_work(trace, i) ||
        (context->gpu && an_device_captured(context->gpu, process, trace->slice.start[i])))
        return;
    struct an_step *step = step_of(gather, process, i);
    if (!step)
        return;
    int64_t ns = trace->slice.dur[i] == AN_OPEN ? 0 : trace->slice.dur[i];
    const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[i]);
    if (!gather_work(gather, step, i, ns) || !detail->hardware)
        return;
    struct an_flops_rate *rate = &gather->rate[trace->slice.detail[i]];
    rate->calls++;
    an_flops_add(&rate->flops, detail->flops);
    rate->ns = an_time_add(rate->ns, ns);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

/* The step of the host that a launch lies in; that of the device begins later. */
static struct an_step *step_of_launch(const struct an_flops_gather *gather, uint32_t process,
                                      size_t launch)
{
    const struct an_context *context = gather->context;
    int64_t time = context->trace->slice.start[launch];
    for (size_t k = gather->first_lane[process];
         k < context->lane_count && context->lane[k].process == process; k++) {
        struct an_step *step = an_step_at_host(context, &context->lane[k], time);
        if (step && an_step_detailed(step) && !an_slice_in_phase(context->trace, launch))
            return step;
    }
    return NULL;
}

/* Adds the time of the kernels of a launch for which the capture has FLOPs: of products where it
 * has some of products, of attention where it has some of attention. */
static void cover_replay(struct an_flops_gather *gather, size_t launch, bool product,
                         bool attention, bool counted)
{
    const struct an_devices *devices = gather->context->gpu;
    for (uint32_t k = devices->launch_first[launch]; k < devices->launch_first[launch + 1]; k++) {
        uint32_t op = devices->launch_op[k];
        double ns = (double)an_time_sub(devices->op.end[op], devices->op.start[op]);
        bool is_attention = devices->op.class[op] == AN_DEVICE_ATTENTION;
        if (!is_attention && devices->op.class[op] != AN_DEVICE_MATRIX)
            continue;
        gather->hardware_ns += counted ? 0 : ns;
        if (is_attention)
            gather->covered_ns += attention ? ns : 0;
        else
            gather->covered_ns += product ? ns : 0;
    }
}

/* Adds the work that was captured to the step that a launch of its graph lies in. */
static void gather_replay(struct an_flops_gather *gather, const struct an_capture *capture,
                          size_t launch, bool counted)
{
    const struct an_trace *trace = gather->context->trace;
    const struct an_track *track = &trace->track[capture->track];
    bool product = false, attention = false;
    struct an_step *step =
        step_of_launch(gather, capture->process, gather->context->gpu->launch_slice[launch]);
    if (!step)
        return;
    size_t end = an_slice_seek(trace, track, capture->end);
    for (size_t i = an_slice_seek(trace, track, capture->start); i < end; i++) {
        if (!is_work(trace, i))
            continue;
        const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[i]);
        bool known = detail->hardware && detail->flops != STORE_ABSENT;
        product = product || (known && strcmp(detail->kind, "attention") != 0);
        attention = attention || (known && !strcmp(detail->kind, "attention"));
        gather_work(gather, step, i, 0);
    }
    cover_replay(gather, launch, product, attention, counted);
}

void an_flops_of_replays(struct an_flops_gather *gather, bool counted)
{
    const struct an_trace *trace = gather->context->trace;
    const struct an_devices *devices = gather->context->gpu;
    size_t launch = 0;
    for (size_t k = 0; devices && devices->capture_count && k < trace->track_count; k++)
        for (; launch < devices->launch_count &&
               devices->launch_slice[launch] < an_track_end(&trace->track[k]);
             launch++) {
            if (an_slice_api(trace, devices->launch_slice[launch]).kind != AN_API_GRAPH)
                continue;
            const struct an_capture *capture =
                an_device_replayed(devices, trace->track[k].process, launch);
            if (capture)
                gather_replay(gather, capture, launch, counted);
        }
}

int an_flops_of_ranges(struct an_flops_gather *gather)
{
    const struct an_trace *trace = gather->context->trace;
    gather->has_flops =
        an_arena_zero(gather->context->scratch, trace->string_count + 1, sizeof *gather->has_flops);
    if (!gather->has_flops)
        return TACHO_ENOMEM;
    for (size_t k = 0; k < trace->track_count; k++)
        for (size_t i = trace->track[k].slice_first; i < an_track_end(&trace->track[k]); i++)
            gather_slice(gather, trace->track[k].process, i);
    find_names(gather);
    for (size_t k = 0; k < trace->track_count; k++)
        for (size_t i = trace->track[k].slice_first; i < an_track_end(&trace->track[k]); i++)
            gather_silent(gather, &trace->track[k], i);
    return 0;
}
