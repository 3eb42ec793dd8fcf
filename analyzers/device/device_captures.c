/* SPDX-License-Identifier: Apache-2.0
 *
 * Captures of streams into graphs. What a program launches between the calls that begin and end a
 * capture does not run then: it becomes the nodes of a graph, which run at each launch of the graph
 * instead.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/device/device_private.h"

/* Makes a capture of each pair of calls of a thread that begin and end one. */
static int list_captures(struct builder *builder, uint32_t track, struct an_capture **all,
                         size_t *count, size_t *room)
{
    const struct an_trace *trace = builder->trace;
    const struct an_track *thread = &trace->track[track];
    size_t begin = SIZE_MAX;
    for (size_t i = thread->slice_first; i < an_track_end(thread); i++) {
        const char *name = an_trace_name(trace, trace->slice.name[i]);
        if (an_row_of(builder, i) != ROW_CALL || thread->process == AN_NONE)
            continue;
        if (strstr(name, "BeginCapture")) {
            begin = i;
        } else if (strstr(name, "EndCapture") && begin != SIZE_MAX) {
            if (an_grow(all, room, *count + 1, sizeof **all))
                return TACHO_ENOMEM;
            (*all)[(*count)++] = (struct an_capture){.process = thread->process,
                                                     .track = track,
                                                     .start = trace->slice.start[begin],
                                                     .end = trace->slice.start[i]};
            begin = SIZE_MAX;
        }
    }
    return 0;
}

static int capture_order(const void *first, const void *second)
{
    const struct an_capture *left = first, *right = second;
    return 2 * AN_COMPARE(left->process, right->process) + AN_COMPARE(left->start, right->start);
}

static struct an_capture *capture_at(const struct an_devices *devices, uint32_t process,
                                     int64_t time)
{
    for (size_t i = devices->capture_count; i--;)
        if (devices->capture[i].process == process && devices->capture[i].start <= time &&
            time < devices->capture[i].end)
            return &devices->capture[i];
    return NULL;
}

bool an_device_captured(const struct an_devices *devices, uint32_t process, int64_t time)
{
    return capture_at(devices, process, time) != NULL;
}

const struct an_capture *an_device_replayed(const struct an_devices *devices, uint32_t process,
                                            size_t launch)
{
    const struct an_capture *found = NULL;
    int64_t ops = devices->launch_first[launch + 1] - devices->launch_first[launch],
            time = devices->trace->slice.start[devices->launch_slice[launch]];
    for (size_t i = 0; i < devices->capture_count; i++) {
        const struct an_capture *capture = &devices->capture[i];
        if (capture->process != process || capture->end > time || capture->launches != ops)
            continue;
        if (found)
            return NULL;
        found = capture;
    }
    return found;
}

int an_builder_captures(struct builder *builder)
{
    const struct an_trace *trace = builder->trace;
    struct an_devices *devices = builder->devices;
    struct an_capture *all = NULL;
    size_t count = 0, room = 0;
    int rc = 0;
    for (uint32_t k = 0; k < trace->track_count && !rc; k++)
        rc = list_captures(builder, k, &all, &count, &room);
    if (!rc && count) {
        qsort(all, count, sizeof *all, capture_order);
        devices->capture = an_arena_copy(builder->scratch, all, count * sizeof *all);
        devices->capture_count = devices->capture ? count : 0;
        rc = devices->capture ? 0 : TACHO_ENOMEM;
    }
    free(all);
    return rc;
}

bool an_builder_captured(struct builder *builder, uint32_t process, size_t call)
{
    struct an_capture *capture =
        capture_at(builder->devices, process, builder->trace->slice.start[call]);
    if (capture)
        capture->launches++;
    return capture != NULL;
}
