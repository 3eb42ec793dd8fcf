/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the steps of a device go: every instant belongs to the first class that matches. While the
 * device works: compute, exposed communication, exposed copy. While it is idle: input, if the
 * step's thread waits for a batch; io, if that thread does what a phase left to it; host, if a
 * range covers the instant on a thread that drives the device; else unattributed. Opaque time is
 * unattributed too, because what the device worked on is not recorded. So is time in which the
 * next op has been issued and the host waits for the device: the host does not delay it, and what
 * does is not in the trace (work from before the recording began, nodes of graphs). Ranges that
 * mark the steps themselves say nothing about the host.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/sets.h"
#include "analyzers/budget/budget.h"
#include "analyzers/device/device_edges.h"

/* ns: an op that is issued starts within this time (critical_path_walk.c). */
#define HELD_LEAST 100000

/* Adds a span. Ranges of a thread come in order of start, so a span inside the last one adds
 * nothing, and one that touches it makes it longer: the list stays small. */
static int cover(struct an_span_list *list, int64_t start, int64_t end)
{
    struct an_span *last = list->count ? &list->span[list->count - 1] : NULL;
    if (!last || start < last->start || start > last->end)
        return an_span_list_add(list, start, end);
    last->end = end > last->end ? end : last->end;
    return 0;
}

static bool is_input(enum an_role role)
{
    return role == AN_ROLE_INPUT_WAIT || role == AN_ROLE_READ || role == AN_ROLE_DECODE ||
           role == AN_ROLE_COLLATE || role == AN_ROLE_QUEUE_WAIT;
}

/* Returns, for every string, whether ranges of this name mark steps. */
static uint8_t *step_names(const struct an_context *context, const struct an_lane *lane)
{
    const struct an_trace *trace = context->trace;
    uint8_t *names = calloc(trace->string_count + 1, 1);
    for (size_t i = 0; names && i < trace->string_count; i++)
        names[i] = !strncmp(trace->string[i], "ProfilerStep#", 13);
    for (size_t i = lane->first; names && i < an_lane_end(lane); i++)
        if (context->step[i].slice != AN_NONE &&
            trace->slice.name[context->step[i].slice] != AN_NONE)
            names[trace->slice.name[context->step[i].slice]] = 1;
    return names;
}

/* Adds the time that is covered by ranges of a thread; with `input` only by its ranges of a
 * loader. */
static int cover_thread(const struct an_trace *trace, const struct an_track *track,
                        const uint8_t *is_step, bool input, struct an_span_list *span_list)
{
    int rc = 0;
    for (size_t i = track->slice_first; i < an_track_end(track) && !rc; i++) {
        uint32_t name = trace->slice.name[i];
        enum an_role role = an_slice_role(trace, i);
        if (input ? !is_input(role)
                  : role == AN_ROLE_STEP || role == AN_ROLE_MICRO_STEP ||
                        (name != AN_NONE && is_step[name]))
            continue;
        if (trace->slice.dur[i] != AN_OPEN) /* where a range ended that was cut is not known */
            rc = cover(span_list, trace->slice.start[i], an_slice_end(trace, i));
    }
    return rc;
}

/* Did the thread launch something on device d? */
static bool drives(const struct an_devices *devices, const struct an_device *device,
                   const struct an_track *track)
{
    for (size_t i = an_launch_seek(devices, track->slice_first);
         i < devices->launch_count &&
         devices->launch_slice[i] - track->slice_first < track->slice_count;
         i++) {
        uint32_t op = devices->launch_op[devices->launch_first[i]];
        if (op >= device->first && op - device->first < device->count)
            return true;
    }
    return false;
}

/* Rows of the threads that drive the lane's device, and the loader's ranges of the step's thread,
 * as lists. */
static int host_sets(struct an_context *context, const struct an_lane *lane,
                     struct an_span_list *host, struct an_span_list *input)
{
    const struct an_trace *trace = context->trace;
    const struct an_device *device = &context->gpu->device[lane->device];
    uint8_t *is_step = step_names(context, lane);
    int rc = is_step ? 0 : TACHO_ENOMEM;
    for (uint32_t k = 0; k < trace->track_count && !rc; k++) {
        const struct an_track *track = &trace->track[k];
        if (track->process != lane->process || strcmp(track->kind, "thread") != 0)
            continue;
        if (k == lane->track || drives(context->gpu, device, track))
            rc = cover_thread(trace, track, is_step, false, host);
        if (k == lane->track && !rc)
            rc = cover_thread(trace, track, is_step, true, input);
    }
    free(is_step);
    return rc;
}

/* Computes the idle time of the device from the first step to the last, without phases. */
static int idle_set(const struct an_context *context, const struct an_lane *lane,
                    struct an_arena *arena, struct an_set *out)
{
    struct an_set busy = context->gpu->split[lane->device].busy;
    struct an_span all = {INT64_MAX, INT64_MIN};
    for (size_t i = lane->first; i < an_lane_end(lane); i++) {
        const struct an_step *step = &context->step[i];
        if (step->end == STORE_ABSENT)
            continue;
        all.start = step->start < all.start ? step->start : all.start;
        all.end = step->end > all.end ? step->end : all.end;
    }
    struct an_set steps = {&all, all.end > all.start};
    int rc = an_set_combine(arena, an_spans_subtract, steps, busy, out);
    return rc ? rc : an_set_combine(arena, an_spans_subtract, *out, an_lane_cut(lane), out);
}

/* Moves what of `idle` lies in `by` to *in. */
static int split_off(struct an_arena *arena, struct an_set *idle, struct an_set by,
                     struct an_set *in)
{
    int rc = an_set_combine(arena, an_spans_intersect, *idle, by, in);
    return rc ? rc : an_set_combine(arena, an_spans_subtract, *idle, by, idle);
}

/* Calls of the process that wait for the device. */
static int waiting_calls(struct an_context *context, const struct an_lane *lane,
                         struct an_span_list *out)
{
    const struct an_device_edges *edges;
    const struct an_trace *trace = context->trace;
    int rc = an_device_edges_of(context->gpu, &edges);
    for (size_t i = 0; !rc && i < edges->sync_count; i++) {
        uint32_t call = edges->sync[i].call;
        if (trace->track[an_slice_track(trace, call)].process == lane->process)
            rc = cover(out, trace->slice.start[call], an_slice_end(trace, call));
    }
    return rc;
}

/* Computes the held time: idle time after the next op was issued, in which the host waits for the
 * device. */
static int held_set(struct an_context *context, const struct an_lane *lane, struct an_arena *arena,
                    const struct an_set *idle, struct an_set *out)
{
    const struct an_device *device = &context->gpu->device[lane->device];
    const struct an_device_ops *ops = &context->gpu->op;
    struct an_span_list held = {0}, waits = {0};
    int rc = 0;
    for (size_t i = 0; i < idle->count && !rc; i++) {
        int64_t from = idle->span[i].start, end = idle->span[i].end;
        size_t next = an_device_op_seek(context->gpu, device, end);
        if (an_time_sub(end, from) < HELD_LEAST || next == an_device_end(device) ||
            ops->launch[next] == AN_NONE)
            continue;
        int64_t issued = an_slice_end(context->trace, ops->launch[next]);
        from = issued > from ? issued : from;
        rc = an_time_sub(end, from) < HELD_LEAST ? 0 : cover(&held, from, end);
    }
    rc = rc || !held.count ? rc : waiting_calls(context, lane, &waits);
    rc = rc ? rc
            : an_set_combine(arena, an_spans_intersect, an_span_list_set(&held),
                             an_span_list_set(&waits), out);
    free(held.span);
    free(waits.span);
    return rc;
}

/* Splits the time of the lane's device into one set for each class; of_held gets the part of the
 * idle time that is held. The sets lie in `arena`. */
static int split_classes(struct an_context *context, const struct an_lane *lane,
                         struct an_arena *arena, struct an_budget_host *known,
                         struct an_set part[AN_CLASS_COUNT], struct an_set *of_held)
{
    const struct an_device_split *split = &context->gpu->split[lane->device];
    const struct an_set cut = an_lane_cut(lane), left = {lane->left, lane->left_count};
    const struct {
        enum an_class class;
        struct an_set set;
    } busy[] = {{AN_CLASS_COMPUTE, split->compute},
                {AN_CLASS_COMM, split->exposed_comm},
                {AN_CLASS_COPY, split->exposed_copy}};
    struct an_set idle = {NULL, 0}, held = {NULL, 0};
    struct an_span_list host = {0}, input = {0};
    int rc = host_sets(context, lane, &host, &input);
    known->rows = host.count > 0;
    known->loader = input.count > 0;
    for (size_t i = 0; i < sizeof busy / sizeof *busy && !rc; i++)
        rc = an_set_combine(arena, an_spans_subtract, busy[i].set, cut, &part[busy[i].class]);
    rc = rc ? rc : idle_set(context, lane, arena, &idle);
    rc = rc ? rc : split_off(arena, &idle, an_span_list_set(&input), &part[AN_CLASS_INPUT]);
    rc = rc ? rc : split_off(arena, &idle, left, &part[AN_CLASS_IO]);
    rc = rc ? rc : held_set(context, lane, arena, &idle, &held);
    rc = rc ? rc : split_off(arena, &idle, held, of_held);
    rc = rc ? rc : split_off(arena, &idle, an_span_list_set(&host), &part[AN_CLASS_HOST]);
    free(host.span);
    free(input.span);
    return rc;
}

int an_budget_device(struct an_context *context, const struct an_lane *lane,
                     struct an_budget_host *known)
{
    struct an_set part[AN_CLASS_COUNT] = {{NULL, 0}}, of_held = {NULL, 0};
    struct an_arena *arena = an_arena_new();
    int rc = arena ? split_classes(context, lane, arena, known, part, &of_held) : TACHO_ENOMEM;
    for (size_t i = lane->first; i < an_lane_end(lane) && !rc; i++) {
        struct an_step *step = &context->step[i];
        if (!an_step_detailed(step))
            continue;
        step->cut_ns = an_set_within(an_lane_cut(lane), step->start, step->end);
        int64_t rest = an_step_ns(step);
        for (int k = 0; k < AN_CLASS_COUNT; k++) {
            step->class_ns[k] = an_set_within(part[k], step->start, step->end);
            rest = an_time_sub(rest, step->class_ns[k]);
        }
        step->class_ns[AN_CLASS_UNATTRIBUTED] = rest;
        context->held_ns =
            an_time_add(context->held_ns, an_set_within(of_held, step->start, step->end));
    }
    an_arena_free(arena);
    return rc;
}
