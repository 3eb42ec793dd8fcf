/* SPDX-License-Identifier: Apache-2.0
 *
 * Device ops and the host calls that launched them: by (process, correlation), both ways. Calls and
 * ops are sorted by it and merged. A correlation may name several ops (a graph) and, in long or
 * damaged traces, several calls.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/device/device_private.h"

#define KNOWN_LEAST 20 /* one op of so many has its launch in the file */

/* Sorts pairs by process, then by correlation: two stable passes. With one process the first one
 * is enough. */
static int pairs_by_correlation(struct builder *builder, size_t count, bool ops)
{
    const struct an_trace *trace = builder->trace;
    an_pairs_sort(builder->pair, builder->work, count);
    if (trace->process_count < 2)
        return 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t track =
            ops ? builder->devices->op.track[builder->pair[i].value] : builder->pair[i].extra;
        builder->pair[i].key = trace->track[track].process;
    }
    an_pairs_sort(builder->pair, builder->work, count);
    return 0;
}

struct key {
    uint32_t process;
    int64_t correlation;
};

static int key_order(struct key left, struct key right)
{
    if (left.process != right.process)
        return left.process < right.process ? -1 : 1;
    return (left.correlation > right.correlation) - (left.correlation < right.correlation);
}

static struct key call_key(const struct an_trace *trace, const struct an_pair *call)
{
    return (struct key){trace->track[call->extra].process, trace->slice.correlation[call->value]};
}

static int start_order(const void *first, const void *second, void *ctx)
{
    const struct an_trace *trace = ctx;
    const struct an_pair *left = first, *right = second;
    int64_t sa = trace->slice.start[left->value], sb = trace->slice.start[right->value];
    return AN_COMPARE(sa, sb);
}

/* Of calls that share a correlation (it was used again) returns the last one that began before the
 * op, or the first one. */
static uint32_t choose_call(const struct an_trace *trace, const struct an_pair *call, size_t count,
                            int64_t start)
{
    size_t low = 0, high = count;
    AN_BISECT(low, high, trace->slice.start[call[middle].value] <= start);
    return call[low ? low - 1 : 0].value;
}

/* Every call that has a correlation, as (slice, track). */
static int list_calls(struct builder *builder, struct an_pair **out, size_t *call_count)
{
    const struct an_trace *trace = builder->trace;
    size_t count = 0, room = 0;
    struct an_pair *call = NULL;
    for (uint32_t k = 0; k < trace->track_count; k++) {
        const struct an_track *track = &trace->track[k];
        for (size_t i = track->slice_first; i < an_track_end(track); i++) {
            if (an_row_of(builder, i) != ROW_CALL || trace->slice.correlation[i] == STORE_ABSENT)
                continue;
            if (count == room && an_grow(&call, &room, count + 1, sizeof *call)) {
                free(call);
                return TACHO_ENOMEM;
            }
            call[count++] =
                (struct an_pair){an_pair_key(trace->slice.correlation[i]), (uint32_t)i, k};
        }
    }
    *out = call;
    *call_count = count;
    return 0;
}

/* Fills op.launch by merging calls and ops in order of process and correlation. */
static void merge_launches(struct builder *builder, struct an_pair *call, size_t calls,
                           const struct an_pair *pair, size_t op_count)
{
    const struct an_trace *trace = builder->trace;
    struct an_device_ops *ops = &builder->devices->op;
    for (size_t i = 0, at = 0, next; i < calls && at < op_count; i = next) {
        struct key key = call_key(trace, &call[i]);
        for (next = i + 1; next < calls && !key_order(call_key(trace, &call[next]), key);)
            next++;
        bool ordered = next == i + 1;
        for (; at < op_count; at++) {
            uint32_t op = pair[at].value;
            int order = key_order((struct key){trace->track[ops->track[op]].process,
                                               trace->slice.correlation[ops->slice[op]]},
                                  key);
            if (order > 0)
                break;
            if (order < 0)
                continue;
            if (!ordered)
                qsort_r(call + i, next - i, sizeof *call, start_order, (void *)(uintptr_t)trace);
            ordered = true;
            ops->launch[op] = choose_call(trace, call + i, next - i, ops->start[op]);
        }
    }
}

/* Fills op.launch. Calls and ops are sorted by process and correlation with the same scratch
 * arrays, one after the other, and then merged. */
static int link_ops(struct builder *builder)
{
    const struct an_trace *trace = builder->trace;
    struct an_device_ops *ops = &builder->devices->op;
    struct an_pair *call = NULL;
    size_t calls = 0, linked = 0;
    for (size_t i = 0; i < ops->count; i++)
        ops->launch[i] = AN_NONE;
    int rc = list_calls(builder, &call, &calls);
    if (rc || (rc = an_builder_scratch(builder, calls)))
        goto out;
    if (calls)
        memcpy(builder->pair, call, calls * sizeof *call);
    pairs_by_correlation(builder, calls, false);
    if (calls)
        memcpy(call, builder->pair, calls * sizeof *call);
    if ((rc = an_builder_scratch(builder, ops->count)))
        goto out;
    for (size_t i = 0; i < ops->count; i++)
        if (trace->slice.correlation[ops->slice[i]] != STORE_ABSENT)
            builder->pair[linked++] = (struct an_pair){
                an_pair_key(trace->slice.correlation[ops->slice[i]]), (uint32_t)i, 0};
    pairs_by_correlation(builder, linked, true);
    merge_launches(builder, call, calls, builder->pair, linked);
out:
    free(call);
    return rc;
}

/* Builds the links from calls to ops: the launching calls in order, and the ops of each. */
static int invert_launches(struct builder *builder)
{
    struct an_devices *devices = builder->devices;
    size_t count = 0;
    for (size_t i = 0; i < devices->op.count; i++)
        if (devices->op.launch[i] != AN_NONE)
            builder->pair[count++] = (struct an_pair){devices->op.launch[i], (uint32_t)i, 0};
    an_pairs_sort(builder->pair, builder->work, count);
    for (size_t i = 0; i < count; i++)
        devices->launch_count += !i || builder->pair[i].key != builder->pair[i - 1].key;
    devices->launch_op = an_arena_zero(builder->scratch, count, sizeof *devices->launch_op);
    devices->launch_slice =
        an_arena_zero(builder->scratch, devices->launch_count, sizeof *devices->launch_slice);
    devices->launch_first =
        an_arena_zero(builder->scratch, devices->launch_count + 1, sizeof *devices->launch_first);
    if (!devices->launch_op || !devices->launch_slice || !devices->launch_first)
        return TACHO_ENOMEM;
    size_t launch = 0;
    for (size_t i = 0; i < count; i++) {
        if (!i || builder->pair[i].key != builder->pair[i - 1].key) {
            devices->launch_slice[launch] = (uint32_t)builder->pair[i].key;
            devices->launch_first[launch++] = (uint32_t)i;
        }
        devices->launch_op[i] = builder->pair[i].value;
    }
    devices->launch_first[launch] = (uint32_t)count;
    return 0;
}

/* Counts launching calls without an op. A call inside another launching call is part of that
 * one, and one that was captured into a graph runs with the graph. */
static void count_lost(struct builder *builder, const struct an_track *track, size_t *launch)
{
    const struct an_trace *trace = builder->trace;
    struct an_devices *devices = builder->devices;
    for (size_t i = track->slice_first; i < an_track_end(track); i++) {
        while (*launch < devices->launch_count && devices->launch_slice[*launch] < i)
            ++*launch;
        if (an_row_of(builder, i) != ROW_CALL || !an_api_launches(an_slice_api(trace, i)))
            continue;
        uint32_t parent = trace->slice.parent[i];
        bool inside = parent != AN_NONE && an_row_of(builder, parent) == ROW_CALL,
             linked = *launch < devices->launch_count && devices->launch_slice[*launch] == i;
        devices->launches_lost +=
            !inside && !linked && !an_builder_captured(builder, track->process, i);
    }
}

bool an_device_is_launched(const struct an_devices *devices, const struct an_device *device)
{
    size_t known = 0;
    for (size_t i = device->first; i < an_device_end(device); i++)
        known += devices->op.launch[i] != AN_NONE;
    return known >= (device->count + KNOWN_LEAST - 1) / KNOWN_LEAST;
}

/* Lists the ops of a device with their times of launch: those whose launch is in the file, or all
 * of them where that is so for nearly none. Then an op's own start stands for its launch. Returns
 * how many there are. */
static size_t list_launched(struct builder *builder, const struct an_device *device)
{
    const struct an_devices *devices = builder->devices;
    size_t count = 0;
    bool all = !an_device_is_launched(devices, device);
    for (size_t i = device->first; i < an_device_end(device); i++)
        if (all || devices->op.launch[i] != AN_NONE)
            builder->pair[count++] =
                (struct an_pair){an_pair_key(an_device_launch_time(devices, i)), (uint32_t)i, 0};
    return count;
}

/* Sorts the ops of each device by their launches. */
static int order_launches(struct builder *builder)
{
    struct an_devices *devices = builder->devices;
    devices->by_launch =
        an_arena_zero(builder->scratch, devices->op.count, sizeof *devices->by_launch);
    devices->by_launch_known =
        an_arena_zero(builder->scratch, devices->device_count, sizeof *devices->by_launch_known);
    if (!devices->by_launch || !devices->by_launch_known)
        return TACHO_ENOMEM;
    for (size_t number = 0; number < devices->device_count; number++) {
        const struct an_device *device = &devices->device[number];
        size_t count = list_launched(builder, device);
        an_pairs_sort(builder->pair, builder->work, count);
        for (size_t i = 0; i < count; i++)
            devices->by_launch[device->first + i] = builder->pair[i].value;
        devices->by_launch_known[number] = count;
    }
    return 0;
}

int an_builder_links(struct builder *builder)
{
    int rc = link_ops(builder);
    rc = rc ? rc : invert_launches(builder);
    rc = rc ? rc : order_launches(builder);
    rc = rc ? rc : an_builder_captures(builder);
    size_t launch = 0;
    for (size_t k = 0; k < builder->trace->track_count && !rc; k++)
        count_lost(builder, &builder->trace->track[k], &launch);
    return rc;
}
