/* SPDX-License-Identifier: Apache-2.0
 *
 * What the finders of edges (device_waits.c, device_syncs.c) share: questions about calls, streams
 * and payloads of the run, and the two functions that add an edge.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/device/device_edges_private.h"

int64_t an_edge_number(const struct an_trace *trace, size_t slice, const char *key)
{
    const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[slice]);
    const char *found = detail ? detail->payload : "";
    size_t length = strlen(key);
    for (found = strstr(found, key); found; found = strstr(found + 1, key)) {
        if (found[-1] != '"' || found[length] != '"') /* a payload begins with a brace */
            continue;
        const char *number = found + length + 1;
        number += strspn(number, " :");
        char *end;
        long long value = strtoll(number, &end, 10);
        return end == number || value < 0 ? STORE_ABSENT : value;
    }
    return STORE_ABSENT;
}

uint32_t an_call_outermost(const struct an_trace *trace, uint32_t slice)
{
    int levels = AN_DEPTH_MAX;
    for (uint32_t parent = trace->slice.parent[slice]; parent != AN_NONE && levels--;
         parent = trace->slice.parent[parent]) {
        if (!an_category_is_call(an_slice_category(trace, parent)) ||
            !an_slice_open_at(trace, parent, slice))
            break;
        slice = parent;
    }
    return slice;
}

static int call_order(const struct an_edge_builder *builder, const struct an_edge_call *edge_call,
                      uint32_t process, int64_t correlation)
{
    const struct an_trace *trace = builder->trace;
    uint32_t own_process = trace->track[edge_call->track].process;
    int64_t own_correlation = trace->slice.correlation[edge_call->slice];
    if (own_process != process)
        return own_process < process ? -1 : 1;
    return (own_correlation > correlation) - (own_correlation < correlation);
}

static int by_correlation(const void *first, const void *second, void *ctx)
{
    const struct an_edge_builder *builder = ctx;
    uint32_t left = *(const uint32_t *)first, right = *(const uint32_t *)second;
    const struct an_trace *trace = builder->trace;
    const struct an_edge_call *other = &builder->call[right];
    int order = call_order(builder, &builder->call[left], trace->track[other->track].process,
                           trace->slice.correlation[other->slice]);
    return order ? order : (left > right) - (left < right);
}

int an_edge_index_calls(struct an_edge_builder *builder)
{
    const struct an_trace *trace = builder->trace;
    if (!(builder->by_correlation =
              malloc((builder->call_count + 1) * sizeof *builder->by_correlation)))
        return TACHO_ENOMEM;
    for (size_t i = 0; i < builder->call_count; i++)
        if (trace->slice.correlation[builder->call[i].slice] != STORE_ABSENT)
            builder->by_correlation[builder->correlated++] = (uint32_t)i;
    if (builder->correlated)
        qsort_r(builder->by_correlation, builder->correlated, sizeof *builder->by_correlation,
                by_correlation, builder);
    return 0;
}

uint32_t an_edge_call_of(const struct an_edge_builder *builder, uint32_t process,
                         int64_t correlation)
{
    size_t low = 0, high = builder->correlated;
    AN_BISECT(low, high,
              call_order(builder, &builder->call[builder->by_correlation[middle]], process,
                         correlation) < 0);
    bool found =
        correlation != STORE_ABSENT && low < builder->correlated &&
        !call_order(builder, &builder->call[builder->by_correlation[low]], process, correlation);
    return found ? builder->call[builder->by_correlation[low]].slice : AN_NONE;
}

uint32_t an_edge_stream(const struct an_edge_builder *builder, uint32_t like, int64_t tid)
{
    const struct an_trace *trace = builder->trace;
    size_t process = an_edge_process(trace, like);
    for (size_t i = builder->stream_of[process]; i < builder->stream_of[process + 1]; i++) {
        const struct an_track *track = &trace->track[builder->stream[i]];
        if (track->tid == tid && !strcmp(track->device, trace->track[like].device))
            return builder->stream[i];
    }
    return AN_NONE;
}

size_t an_edge_launched(const struct an_edge_builder *builder, uint32_t track, int64_t time)
{
    size_t low = builder->first[track], high = builder->first[track + 1];
    AN_BISECT(low, high, an_device_launch_time(builder->devices, builder->op[middle]) < time);
    return low;
}

int an_edge_add(struct an_edge_builder *builder, uint32_t from, uint32_t to, bool inferred)
{
    if (an_grow(&builder->pair, &builder->pair_room, builder->pair_count + 1,
                sizeof *builder->pair))
        return TACHO_ENOMEM;
    builder->pair[builder->pair_count++] = (struct an_edge_pair){from, to, inferred};
    return 0;
}

int an_edge_add_sync(struct an_edge_builder *builder, uint32_t op, uint32_t call, bool inferred)
{
    struct an_device_edges *edges = builder->edges;
    if (an_grow(&edges->sync, &builder->sync_room, edges->sync_count + 1, sizeof *edges->sync))
        return TACHO_ENOMEM;
    edges->sync[edges->sync_count++] =
        (struct an_sync_edge){op, an_call_outermost(builder->trace, call), inferred};
    return 0;
}
