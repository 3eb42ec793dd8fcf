/* SPDX-License-Identifier: Apache-2.0
 *
 * Ops of a graph and the calls that were captured into it. A stream without forks becomes a graph
 * whose nodes run in the order of their capture, so the n-th op of each launch is that of the n-th
 * captured call. Where anything disagrees, no op of the launch has an origin.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/device/device_private.h"

/* The launching calls of a capture, in order of start. */
struct captured {
    const struct an_capture *of;
    uint32_t *call;
    size_t count, room;
    bool forks; /* streams wait for each other: the order of the nodes is not that of the calls */
};

static int call_order(const void *first, const void *second, void *ctx)
{
    const struct an_trace *trace = ctx;
    uint32_t left = *(const uint32_t *)first, right = *(const uint32_t *)second;
    return 2 * AN_COMPARE(trace->slice.start[left], trace->slice.start[right]) +
           AN_COMPARE(left, right);
}

static int list_track(const struct builder *builder, const struct an_track *track,
                      struct captured *captured)
{
    const struct an_trace *trace = builder->trace;
    size_t end = an_slice_seek(trace, track, captured->of->end);
    for (size_t i = an_slice_seek(trace, track, captured->of->start); i < end; i++) {
        uint32_t parent = trace->slice.parent[i];
        struct an_api_call api = an_slice_api(trace, i);
        if (an_row_of(builder, i) != ROW_CALL ||
            (parent != AN_NONE && an_row_of(builder, parent) == ROW_CALL))
            continue;
        captured->forks = captured->forks || api.kind == AN_API_WAIT;
        if (!an_api_launches(api))
            continue;
        if (an_grow(&captured->call, &captured->room, captured->count + 1, sizeof(uint32_t)))
            return TACHO_ENOMEM;
        captured->call[captured->count++] = (uint32_t)i;
    }
    return 0;
}

static int list_captured(const struct builder *builder, struct captured *captured)
{
    const struct an_trace *trace = builder->trace;
    captured->count = 0;
    captured->forks = false;
    for (size_t k = 0; k < trace->track_count; k++)
        if (trace->track[k].process == captured->of->process &&
            list_track(builder, &trace->track[k], captured))
            return TACHO_ENOMEM;
    if (captured->count)
        qsort_r(captured->call, captured->count, sizeof *captured->call, call_order,
                (void *)(uintptr_t)trace);
    return 0;
}

/* Kind of the innermost range of work around a slice; "": there is none. */
static const char *work_around(const struct an_trace *trace, uint32_t slice)
{
    int levels = AN_DEPTH_MAX;
    for (uint32_t i = trace->slice.parent[slice]; i != AN_NONE && levels--;
         i = trace->slice.parent[i]) {
        const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[i]);
        if (detail && detail->role == AN_ROLE_WORK)
            return detail->kind;
    }
    return "";
}

/* Can the call have made the op? A GEMM kernel does not come from a range of other work. */
static bool agrees(const struct an_devices *devices, uint32_t call, uint32_t op)
{
    enum an_device_class class = (enum an_device_class)devices->op.class[op];
    enum an_api_kind kind = an_slice_api(devices->trace, call).kind;
    if (class == AN_DEVICE_MATRIX && !strcmp(work_around(devices->trace, call), "other"))
        return false;
    if (kind == AN_API_COPY)
        return class == AN_DEVICE_COPY || class == AN_DEVICE_COMM;
    if (kind == AN_API_MEMSET)
        return class == AN_DEVICE_MEMSET;
    return kind == AN_API_KERNEL && class != AN_DEVICE_COPY && class != AN_DEVICE_MEMSET &&
           class != AN_DEVICE_OPAQUE;
}

/* Gives the ops of a launch their origins, or none of them. */
static void set_origins(struct an_devices *devices, const struct captured *captured, size_t launch)
{
    const uint32_t *op = devices->launch_op + devices->launch_first[launch];
    size_t count = devices->launch_first[launch + 1] - devices->launch_first[launch];
    bool all = !captured->forks && count == captured->count;
    for (size_t i = 0; i < count && all; i++)
        all = agrees(devices, captured->call[i], op[i]) &&
              devices->op.track[op[i]] == devices->op.track[op[0]];
    for (size_t i = 0; i < count && all; i++)
        devices->op.origin[op[i]] = captured->call[i];
}

/* Looks at the launches of graphs by the calls of a thread. */
static int origins_of_track(struct builder *builder, const struct an_track *track, size_t *launch,
                            struct captured *captured)
{
    struct an_devices *devices = builder->devices;
    for (; *launch < devices->launch_count && devices->launch_slice[*launch] < an_track_end(track);
         ++*launch) {
        const struct an_capture *capture = NULL;
        if (an_slice_api(builder->trace, devices->launch_slice[*launch]).kind == AN_API_GRAPH)
            capture = an_device_replayed(devices, track->process, *launch);
        if (!capture)
            continue;
        if (captured->of != capture) {
            captured->of = capture;
            if (list_captured(builder, captured))
                return TACHO_ENOMEM;
        }
        set_origins(devices, captured, *launch);
    }
    return 0;
}

int an_builder_origins(struct builder *builder)
{
    struct an_devices *devices = builder->devices;
    struct captured captured = {.of = NULL};
    size_t launch = 0;
    int rc = 0;
    if (!devices->capture_count)
        return 0;
    devices->op.origin =
        an_arena_zero(builder->scratch, devices->op.count, sizeof *devices->op.origin);
    if (!devices->op.origin)
        return TACHO_ENOMEM;
    memset(devices->op.origin, 0xff, devices->op.count * sizeof *devices->op.origin);
    for (size_t k = 0; k < builder->trace->track_count && !rc; k++)
        rc = origins_of_track(builder, &builder->trace->track[k], &launch, &captured);
    free(captured.call);
    return rc;
}
