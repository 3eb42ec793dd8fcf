/* SPDX-License-Identifier: Apache-2.0
 *
 * The sets of compute-absent time of one device (noncompute.h): walks over the gaps between its
 * compute kernels, splits each gap by when the next kernel was issued and released, and finds the
 * communication in it that blocks.
 */
#include "analyzers/budget/noncompute.h"
#include "analyzers/steps/recorder.h"

#include <stdlib.h>

/* What starts later than this after its release waited for something that is not recorded. */
#define DISPATCH_MOST_NS 100000

/* What is found while the gaps of a device are walked. */
struct walk {
    struct an_context *context;
    const struct an_device_edges *edges;
    const struct an_device *device;
    const struct an_device_split *split;
    struct an_span_list part[AN_ABSENT_PARTS], unlinked, drained, proven, inferred, unknown;
    struct an_starved *starved;
    size_t starved_count, starved_room;
};

static int64_t issued_at(const struct an_context *context, uint32_t op)
{
    const struct an_device_ops *ops = &context->gpu->op;
    int64_t end = an_slice_end(context->trace, ops->launch[op]);
    return end < ops->start[op] ? end : ops->start[op];
}

/* Returns the compute op that starts at `time`; of several the one that was issued first, AN_NONE
 * without such an op. */
static uint32_t next_kernel(const struct walk *walk, int64_t time)
{
    const struct an_device_ops *ops = &walk->context->gpu->op;
    uint32_t best = AN_NONE;
    for (size_t i = an_device_op_seek(walk->context->gpu, walk->device, time);
         i < an_device_end(walk->device) && ops->start[i] == time; i++) {
        if (!(AN_DEVICE_COMPUTE_MASK >> ops->class[i] & 1) || ops->end[i] <= time)
            continue;
        bool known = ops->launch[i] != AN_NONE;
        if (best == AN_NONE || (known && ops->launch[best] == AN_NONE) ||
            (known && ops->launch[best] != AN_NONE &&
             issued_at(walk->context, (uint32_t)i) < issued_at(walk->context, best)))
            best = (uint32_t)i;
    }
    return best;
}

/* Returns the end of the last op that the op depends on directly, INT64_MIN if none is known. */
static int64_t released_at(const struct walk *walk, uint32_t op)
{
    const struct an_device_ops *ops = &walk->context->gpu->op;
    int64_t last =
        walk->edges->before[op] == AN_NONE ? INT64_MIN : ops->end[walk->edges->before[op]];
    for (size_t k = walk->edges->first[op]; k < walk->edges->first[op + 1]; k++)
        last = ops->end[walk->edges->from[k]] > last ? ops->end[walk->edges->from[k]] : last;
    return last < ops->start[op] ? last : ops->start[op];
}

/* Did the thread of a launch return from a call that waits, after `since`? */
static bool came_back(const struct walk *walk, uint32_t launch, int64_t since)
{
    const struct an_trace *trace = walk->context->trace;
    size_t i = an_sync_seek(walk->edges, an_call_outermost(trace, launch));
    if (!i)
        return false;
    uint32_t call = walk->edges->sync[i - 1].call;
    const struct an_track *track = &trace->track[an_slice_track(trace, launch)];
    return call >= track->slice_first && an_slice_end(trace, call) > since;
}

/* Adds launch-starved time, and remembers the thread that launched the kernel too late. */
static int add_starved(struct walk *walk, uint32_t next, int64_t start, int64_t end)
{
    if (end <= start)
        return 0;
    if (an_grow(&walk->starved, &walk->starved_room, walk->starved_count + 1,
                sizeof *walk->starved))
        return TACHO_ENOMEM;
    uint32_t launch = walk->context->gpu->op.launch[next];
    walk->starved[walk->starved_count++] =
        (struct an_starved){{start, end}, an_slice_track(walk->context->trace, launch)};
    int rc = an_span_list_add(&walk->part[AN_ABSENT_LAUNCH_STARVED], start, end);
    return rc || !came_back(walk, launch, start) ? rc
                                                 : an_span_list_add(&walk->drained, start, end);
}

/* Splits a gap: until the next kernel was issued it is launch-starved, until the ops before it
 * ended it is blocked, and what remains is dispatch if it is short enough for one, else
 * dependency. */
static int split_gap(struct walk *walk, int64_t start, int64_t end, uint32_t next)
{
    if (next == AN_NONE || walk->context->gpu->op.launch[next] == AN_NONE) {
        int rc = an_span_list_add(&walk->part[AN_ABSENT_DEPENDENCY], start, end);
        return rc ? rc : an_span_list_add(&walk->unlinked, start, end);
    }
    int64_t issued = issued_at(walk->context, next), released = released_at(walk, next);
    issued = issued < start ? start : issued;
    released = released < issued ? issued : released;
    int rc = add_starved(walk, next, start, issued);
    rc = rc ? rc : an_span_list_add(&walk->part[AN_ABSENT_BLOCKED], issued, released);
    bool dispatch =
        !walk->edges->unresolved[next] && an_time_sub(end, released) <= DISPATCH_MOST_NS;
    enum an_absent_part rest = dispatch ? AN_ABSENT_DISPATCH : AN_ABSENT_DEPENDENCY;
    return rc ? rc : an_span_list_add(&walk->part[rest], released, end);
}

static int walk_gap(struct walk *walk, int64_t start, int64_t end)
{
    if (end <= start)
        return 0;
    uint32_t next = next_kernel(walk, end);
    int rc = split_gap(walk, start, end, next);
    if (rc || !an_set_within(walk->split->exposed_comm, start, end))
        return rc;
    if (next == AN_NONE || walk->context->gpu->op.launch[next] == AN_NONE ||
        walk->edges->unresolved[next])
        rc = an_span_list_add(&walk->unknown, start, end);
    return rc || next == AN_NONE ? rc
                                 : an_blocking_gap(walk->context, walk->edges,
                                                   (struct an_compute_gap){start, end, next},
                                                   &walk->proven, &walk->inferred);
}

/* ---- the sets ---------------------------------------------------------------------------------------------------------------- */

/* Keeps what blocks: proven; inferred without what is proven; unknown without both. All of it is
 * part of exposed communication. */
static int keep_blocking(struct walk *walk, struct an_noncompute_sets *out)
{
    struct an_arena *arena = walk->context->scratch;
    struct an_span_list *const found[] = {&walk->proven, &walk->inferred, &walk->unknown};
    struct an_set *proven = &out->blocking[AN_BLOCKING_PROVEN],
                  *inferred = &out->blocking[AN_BLOCKING_INFERRED],
                  *unknown = &out->blocking[AN_BLOCKING_UNKNOWN], both;
    int rc = 0;
    for (int k = 0; k < AN_BLOCKING_COUNT && !rc; k++)
        rc = an_set_combine(arena, an_spans_intersect, an_span_list_set(found[k]),
                            walk->split->exposed_comm, &out->blocking[k]);
    rc = rc ? rc : an_set_combine(arena, an_spans_subtract, *inferred, *proven, inferred);
    rc = rc ? rc : an_set_combine(arena, an_spans_union, *proven, *inferred, &both);
    return rc ? rc : an_set_combine(arena, an_spans_subtract, *unknown, both, unknown);
}

/* Returns why nothing can be said about blocking communication on the device, NULL if something
 * can: then the file has waits, or a stream that both computes and communicates. */
static const char *why_no_blocking(const struct walk *walk)
{
    const struct an_device_ops *ops = &walk->context->gpu->op;
    if (!walk->split->exposed_comm.count || walk->edges->count || walk->edges->sync_count ||
        walk->edges->waits)
        return NULL;
    for (size_t i = walk->device->first; i < an_device_end(walk->device);
         i++) { /* order of a stream that does both */
        uint32_t before = walk->edges->before[i];
        if (before != AN_NONE &&
            (ops->class[before] == AN_DEVICE_COMM) != (ops->class[i] == AN_DEVICE_COMM))
            return NULL;
    }
    return an_arena_format(
        walk->context->arena,
        "the trace holds no event, stream wait or synchronising call: record them (%s)",
        an_say(walk->context, AN_SAY_SYNCS,
               "tacho run does; torch.profiler with "
               "experimental_config=_ExperimentalConfig(enable_cuda_sync_events=True)"));
}

/* Returns why the parts of a device cannot be distinguished, NULL if they can: one launch is
 * enough.
 */
static const char *why_no_parts(const struct walk *walk)
{
    for (size_t i = walk->device->first; i < an_device_end(walk->device); i++)
        if (walk->context->gpu->op.launch[i] != AN_NONE)
            return NULL;
    return an_arena_format(
        walk->context->arena, "no launch of this device's ops is in the file: %s",
        an_say(walk->context, AN_SAY_CALLS,
               "record the calls of the runtime too (tacho run, nsys --trace=cuda, "
               "torch.profiler with ProfilerActivity.CPU)"));
}

static void walk_free(struct walk *walk)
{
    for (int k = 0; k < AN_ABSENT_PARTS; k++)
        free(walk->part[k].span);
    free(walk->unlinked.span);
    free(walk->drained.span);
    free(walk->proven.span);
    free(walk->inferred.span);
    free(walk->unknown.span);
    free(walk->starved);
}

int an_noncompute_sets_of(struct an_context *context, size_t device, struct an_noncompute_sets *out)
{
    struct walk walk = {.context = context,
                        .device = &context->gpu->device[device],
                        .split = &context->gpu->split[device]};
    const struct an_set *compute = &walk.split->compute;
    int rc = an_device_edges_of(context->gpu, &walk.edges);
    *out = (struct an_noncompute_sets){.reason = NULL};
    int64_t start = walk.split->start;
    for (size_t i = 0; i <= compute->count && !rc && walk.device->count; i++) {
        rc = walk_gap(&walk, start, i < compute->count ? compute->span[i].start : walk.split->end);
        start = i < compute->count ? compute->span[i].end : start;
    }
    for (int k = 0; k < AN_ABSENT_PARTS && !rc; k++)
        rc = an_span_list_keep(&walk.part[k], context->scratch, &out->part[k]);
    rc = rc ? rc : an_span_list_keep(&walk.unlinked, context->scratch, &out->unlinked);
    rc = rc ? rc : an_span_list_keep(&walk.drained, context->scratch, &out->drained);
    rc = rc ? rc : keep_blocking(&walk, out);
    if (!rc) {
        out->starved_count = walk.starved_count;
        out->starved = an_arena_copy(context->scratch, walk.starved,
                                     walk.starved_count * sizeof *walk.starved);
        out->reason = why_no_parts(&walk);
        out->blocking_reason = why_no_blocking(&walk);
        rc = out->starved ? 0 : TACHO_ENOMEM;
    }
    walk_free(&walk);
    return rc;
}
