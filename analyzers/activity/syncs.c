/* SPDX-License-Identifier: Apache-2.0
 *
 * Synchronise calls: host time in which a thread waited for a device, a stream or an event, over
 * the whole capture, and the part of it in which nothing ran on any device of its process. A driver
 * call inside a runtime call is part of that one.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/device/api.h"
#include "analyzers/steps/context.h"

/* What ran on the devices of a process. */
struct busy {
    bool known, device; /* computed already; the process has devices */
    struct an_span *span;
    size_t count;
};

struct rows {
    struct an_sync_row *row;
    size_t count, room;
    uint32_t *of_name; /* row + 1 of each name */
};

/* Computes when any device of a process worked: the union over its devices. */
static int busy_of(const struct an_context *context, uint32_t process, struct busy *busy)
{
    const struct an_devices *devices = context->gpu;
    busy->known = true;
    for (size_t device = 0; device < devices->device_count; device++) {
        struct an_span *span, *both;
        size_t count;
        if (devices->device[device].process != process)
            continue;
        int rc = an_device_spans(context->gpu, &devices->device[device], AN_DEVICE_ALL_MASK,
                                 INT64_MIN, INT64_MAX, &span, &count);
        if (rc)
            return rc;
        busy->device = true;
        if (!busy->count) {
            busy->span = span;
            busy->count = count;
            continue;
        }
        if (!(both = an_arena_zero(context->scratch, count + busy->count, sizeof *both)))
            return TACHO_ENOMEM;
        busy->count = an_spans_union(busy->span, busy->count, span, count, both);
        an_arena_give_back(context->scratch, busy->span);
        an_arena_give_back(context->scratch, span);
        busy->span = both;
    }
    return 0;
}

static bool is_sync(const struct an_trace *trace, size_t i)
{
    return an_slice_api(trace, i).kind == AN_API_SYNC &&
           an_category_is_call(an_slice_category(trace, i));
}

/* The row of that name, made when it is first met; NULL: no memory. */
static struct an_sync_row *row_of(struct an_context *context, struct rows *rows, uint32_t name)
{
    if (!rows->of_name[name]) {
        if (an_grow(&rows->row, &rows->room, rows->count + 1, sizeof *rows->row))
            return NULL;
        rows->row[rows->count] = (struct an_sync_row){
            .name = an_arena_text(context->arena, an_trace_name(context->trace, name)),
            .idle_ns = an_int(0)};
        rows->of_name[name] = (uint32_t)++rows->count;
    }
    return &rows->row[rows->of_name[name] - 1];
}

/* Adds one synchronise call to the row of its name: its host time, and the part of it in which no
 * device of its process worked. */
static int add_call(struct an_context *context, struct rows *rows, size_t i,
                    const struct busy *busy)
{
    const struct an_trace *trace = context->trace;
    struct an_sync_row *sync_row = row_of(context, rows, trace->slice.name[i]);
    if (!sync_row)
        return TACHO_ENOMEM;
    sync_row->count++;
    if (trace->slice.dur[i] == AN_OPEN)
        return 0;
    int64_t start = trace->slice.start[i], dur = trace->slice.dur[i];
    sync_row->host_ns = an_time_add(sync_row->host_ns, dur);
    sync_row->max_ns = dur > sync_row->max_ns ? dur : sync_row->max_ns;
    if (!busy->device)
        sync_row->idle_ns = an_int_none("a process that waited has no device op in this file");
    else if (sync_row->idle_ns.valid)
        sync_row->idle_ns.value = an_time_add(
            sync_row->idle_ns.value,
            dur - an_spans_within(busy->span, busy->count, start, an_time_add(start, dur)));
    return 0;
}

static int sync_order(const void *first, const void *second)
{
    const struct an_sync_row *left = first, *right = second;
    int order = AN_COMPARE(right->host_ns, left->host_ns);
    return order ? order : strcmp(left->name, right->name);
}

static void syncs_absent(struct an_context *context, const char *reason)
{
    context->result->syncs.reason = reason;
}

/* Sorts the rows and copies them to the result. */
static int keep_rows(struct an_context *context, struct rows *rows)
{
    if (!rows->count)
        return 0;
    qsort(rows->row, rows->count, sizeof *rows->row, sync_order);
    context->result->sync =
        an_arena_copy(context->arena, rows->row, rows->count * sizeof *rows->row);
    context->result->sync_count = context->result->sync ? rows->count : 0;
    return context->result->sync ? 0 : TACHO_ENOMEM;
}

/* Walks over the threads and counts the outermost synchronise calls of each. What ran on a
 * process's devices is computed when its first call is met. */
static int syncs_run(struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    struct rows rows = {.of_name = calloc(trace->string_count + 1, sizeof *rows.of_name)};
    struct busy *busy = an_arena_zero(context->scratch, trace->process_count + 1, sizeof *busy);
    int rc = rows.of_name && busy ? 0 : TACHO_ENOMEM;
    for (size_t k = 0; k < trace->track_count && !rc; k++) {
        const struct an_track *track = &trace->track[k];
        uint32_t process = track->process;
        struct busy *process_busy =
            &busy[process < trace->process_count ? process : trace->process_count];
        if (strcmp(track->kind, "thread") != 0)
            continue;
        for (size_t i = track->slice_first; i < an_track_end(track) && !rc; i++) {
            uint32_t parent = trace->slice.parent[i];
            if (!is_sync(trace, i) || (parent != AN_NONE && is_sync(trace, parent)))
                continue;
            if (!process_busy->known)
                rc = busy_of(context, process, process_busy);
            rc = rc ? rc : add_call(context, &rows, i, process_busy);
        }
    }
    rc = rc ? rc : keep_rows(context, &rows);
    for (size_t process = 0; busy && process <= trace->process_count; process++)
        an_arena_give_back(context->scratch, busy[process].span);
    free(rows.row);
    free(rows.of_name);
    return rc;
}

const struct an_analyzer an_syncs = {
    .name = "syncs",
    .help = "host time in synchronising calls, and the part of it in which no device worked",
    .needs = AN_INPUT_DEVICES,
    .run = syncs_run,
    .absent = syncs_absent,
};
