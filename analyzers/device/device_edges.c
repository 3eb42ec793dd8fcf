/* SPDX-License-Identifier: Apache-2.0
 *
 * The edges between device ops and calls of the host, from the trace to sorted columns. This file
 * gathers what the edges are found with (calls that record, wait and synchronise, the rows of waits
 * on streams, and the ops of each stream in order of launch), has device_waits.c and device_syncs.c
 * find them, and sorts the result.
 */
#include "analyzers/device/device_edges_private.h"

#include <stdlib.h>
#include <string.h>

/* ---- reading the trace ----------------------------------------------------------------------------------------------------- */

static bool is_wanted(enum an_api_kind kind)
{
    return kind == AN_API_SYNC || kind == AN_API_RECORD || kind == AN_API_WAIT ||
           kind == AN_API_FREE;
}

/* Of every string: as a category 1 is a call, 2 a wait or synchronisation on a device. */
static uint8_t *read_categories(const struct an_trace *trace)
{
    uint8_t *kinds = calloc(trace->string_count + 1, 1);
    for (size_t i = 0; kinds && i < trace->string_count; i++)
        if (an_category_is_call(trace->string[i]))
            kinds[i] = 1;
        else if (!strcmp(trace->string[i], "sync"))
            kinds[i] = 2;
    return kinds;
}

static int keep_call(struct an_edge_builder *builder, uint32_t slice, uint32_t track)
{
    enum an_api_kind kind = an_slice_api(builder->trace, slice).kind;
    if (!is_wanted(kind))
        return 0;
    if (an_grow(&builder->call, &builder->call_room, builder->call_count + 1,
                sizeof *builder->call))
        return TACHO_ENOMEM;
    builder->call[builder->call_count++] = (struct an_edge_call){slice, track, kind};
    return 0;
}

static int keep_row(struct an_edge_builder *builder, uint32_t slice, uint32_t track)
{
    if (an_grow(&builder->row, &builder->row_room, builder->row_count + 1, sizeof *builder->row) ||
        an_grow(&builder->row_track, &builder->row_track_room, builder->row_count + 1,
                sizeof *builder->row_track))
        return TACHO_ENOMEM;
    builder->row[builder->row_count] = slice;
    builder->row_track[builder->row_count++] = track;
    return 0;
}

/* Gathers the rows that edges come from: on streams those of waits and synchronisation, on threads
 * the calls that record, wait, synchronise or free. */
static int read_rows(struct an_edge_builder *builder)
{
    const struct an_trace *trace = builder->trace;
    uint8_t *kinds = read_categories(trace);
    int rc = kinds ? 0 : TACHO_ENOMEM;
    for (uint32_t k = 0; k < trace->track_count && !rc; k++) {
        const struct an_track *track = &trace->track[k];
        bool stream = !strcmp(track->kind, "stream");
        for (size_t i = track->slice_first; i < an_track_end(track) && !rc; i++) {
            uint32_t category = trace->slice.category[i];
            if (category == AN_NONE || !kinds[category])
                continue;
            if (stream && kinds[category] == 2)
                rc = keep_row(builder, (uint32_t)i, k);
            else if (!stream && kinds[category] == 1)
                rc = keep_call(builder, (uint32_t)i, k);
        }
    }
    free(kinds);
    return rc;
}

/* ---- ops by stream ---------------------------------------------------------------------------------------------------------- */

/* Sorts tracks by process; *first_of gets the index of the first track of each process. */
static int group_tracks(const struct an_devices *devices, uint32_t *track, size_t count,
                        size_t **first_of)
{
    const struct an_trace *trace = devices->trace;
    size_t *first = *first_of =
        an_arena_zero(devices->scratch, trace->process_count + 3, sizeof *first);
    uint32_t *copy = malloc((count + 1) * sizeof *copy);
    if (first && copy) {
        for (size_t i = 0; i < count; i++)
            first[an_edge_process(trace, copy[i] = track[i]) + 2]++;
        for (size_t process = 0; process <= trace->process_count; process++)
            first[process + 2] += first[process + 1];
        for (size_t i = 0; i < count; i++)
            track[first[an_edge_process(trace, copy[i]) + 1]++] = copy[i];
    }
    free(copy);
    return first && copy ? 0 : TACHO_ENOMEM;
}

/* Sorts the ops of every stream by their launch. Ops without a launch in the file are left out: no
 * edge can be found for them. by_launch is in that order for each device already, so one pass
 * distributes it over the streams. */
static int order_streams(struct an_edge_builder *builder)
{
    const struct an_devices *devices = builder->devices;
    size_t tracks = builder->trace->track_count, streams = 0;
    builder->first = calloc(tracks + 2, sizeof *builder->first);
    builder->op = malloc((devices->op.count + 1) * sizeof *builder->op);
    builder->stream = malloc((tracks + 1) * sizeof *builder->stream);
    if (!builder->first || !builder->op || !builder->stream)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < devices->op.count; i++)
        if (devices->op.launch[i] != AN_NONE)
            builder->first[devices->op.track[i] + 2]++;
    for (uint32_t k = 0; k < tracks; k++) {
        if (builder->first[k + 2])
            builder->stream[streams++] = k;
        builder->first[k + 2] += builder->first[k + 1];
    }
    for (size_t device = 0; device < devices->device_count; device++)
        for (size_t i = devices->device[device].first;
             i < devices->device[device].first + devices->by_launch_known[device]; i++)
            if (devices->op.launch[devices->by_launch[i]] != AN_NONE)
                builder->op[builder->first[devices->op.track[devices->by_launch[i]] + 1]++] =
                    devices->by_launch[i];
    return group_tracks(builder->devices, builder->stream, streams, &builder->stream_of);
}

/* Fills `before`: the previous op of the same stream. */
static int chain_streams(struct an_edge_builder *builder)
{
    const struct an_device_ops *ops = &builder->devices->op;
    struct an_device_edges *edges = builder->edges;
    edges->before = an_arena_zero(builder->scratch, ops->count, sizeof *edges->before);
    edges->unresolved = an_arena_zero(builder->scratch, ops->count, 1);
    uint32_t *last = malloc((builder->trace->track_count + 1) * sizeof *last);
    if (edges->before && last) {
        memset(last, 0xff, (builder->trace->track_count + 1) * sizeof *last);
        for (size_t i = 0; i < ops->count; i++) {
            edges->before[i] = last[ops->track[i]];
            last[ops->track[i]] = (uint32_t)i;
        }
    }
    free(last);
    return edges->before && edges->unresolved && last ? 0 : TACHO_ENOMEM;
}

/* ---- the edges --------------------------------------------------------------------------------------------------------------- */

static int pair_order(const void *first, const void *second)
{
    const struct an_edge_pair *left = first, *right = second;
    int order = 2 * AN_COMPARE(left->to, right->to) + AN_COMPARE(left->from, right->from);
    return order ? order : left->inferred - right->inferred;
}

static int sync_edge_order(const void *first, const void *second)
{
    const struct an_sync_edge *left = first, *right = second;
    int order = 2 * AN_COMPARE(left->call, right->call) + AN_COMPARE(left->op, right->op);
    return order ? order : left->inferred - right->inferred;
}

static int list_tracks(const struct an_devices *devices, struct an_device_edges *edges)
{
    size_t count = 0;
    if (!(edges->sync_track = an_arena_zero(devices->scratch, devices->trace->track_count,
                                            sizeof *edges->sync_track)))
        return TACHO_ENOMEM;
    for (size_t i = 0; i < edges->sync_count; i++) { /* slices are sorted by track */
        uint32_t track = an_slice_track(devices->trace, edges->sync[i].call);
        if (!count || edges->sync_track[count - 1] != track)
            edges->sync_track[count++] = track;
    }
    return group_tracks(devices, edges->sync_track, count, &edges->sync_of);
}

/* Sorts the edges to the host and drops duplicates. */
static int store_sync_edges(struct an_edge_builder *builder)
{
    struct an_device_edges *edges = builder->edges;
    struct an_sync_edge *sync = edges->sync;
    size_t kept = 0;
    if (edges->sync_count)
        qsort(sync, edges->sync_count, sizeof *sync, sync_edge_order);
    for (size_t i = 0; i < edges->sync_count; i++)
        if (!kept || sync[i].call != sync[kept - 1].call || sync[i].op != sync[kept - 1].op)
            sync[kept++] = sync[i];
    edges->sync_count = kept;
    edges->sync = an_arena_copy(builder->scratch, sync, kept * sizeof *sync);
    free(sync);
    return edges->sync ? list_tracks(builder->devices, edges) : TACHO_ENOMEM;
}

/* Sorts the edges, drops duplicates (a recorded one is kept rather than an inferred one) and
 * stores them as columns. */
static int store_edges(struct an_edge_builder *builder)
{
    struct an_device_edges *edges = builder->edges;
    size_t ops = builder->devices->op.count, kept = 0;
    if (builder->pair_count)
        qsort(builder->pair, builder->pair_count, sizeof *builder->pair, pair_order);
    for (size_t i = 0; i < builder->pair_count; i++)
        if (!kept || builder->pair[i].to != builder->pair[kept - 1].to ||
            builder->pair[i].from != builder->pair[kept - 1].from)
            builder->pair[kept++] = builder->pair[i];
    edges->count = kept;
    edges->from = an_arena_zero(builder->scratch, kept, sizeof *edges->from);
    edges->inferred = an_arena_zero(builder->scratch, kept, 1);
    edges->first = an_arena_zero(builder->scratch, ops + 1, sizeof *edges->first);
    if (!edges->from || !edges->inferred || !edges->first)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < kept; i++) {
        edges->from[i] = builder->pair[i].from;
        edges->inferred[i] = builder->pair[i].inferred;
        edges->inferred_count += builder->pair[i].inferred;
        edges->first[builder->pair[i].to + 1]++;
    }
    edges->recorded = kept - edges->inferred_count;
    edges->waits = builder->row_count > 0;
    for (size_t i = 0; i < builder->call_count; i++)
        edges->waits = edges->waits || builder->call[i].kind == AN_API_WAIT ||
                       builder->call[i].kind == AN_API_SYNC;
    for (size_t i = 0; i < ops; i++) {
        edges->first[i + 1] += edges->first[i];
        edges->unresolved_count += edges->unresolved[i];
    }
    return store_sync_edges(builder);
}

size_t an_sync_seek(const struct an_device_edges *edges, size_t slice)
{
    size_t low = 0, high = edges->sync_count;
    AN_BISECT(low, high, edges->sync[middle].call < slice);
    return low;
}

int an_device_edges_of(struct an_devices *devices, const struct an_device_edges **out)
{
    struct an_edge_builder builder = {
        .trace = devices->trace, .devices = devices, .scratch = devices->scratch};
    *out = devices->edges;
    if (devices->edges)
        return 0;
    if (!(builder.edges = an_arena_zero(devices->scratch, 1, sizeof *builder.edges)))
        return TACHO_ENOMEM;
    int rc = read_rows(&builder);
    rc = rc ? rc : an_edge_index_calls(&builder);
    rc = rc ? rc : order_streams(&builder);
    rc = rc ? rc : chain_streams(&builder);
    rc = rc ? rc : an_edges_waits(&builder);
    rc = rc ? rc : an_edges_syncs(&builder);
    if (rc)
        free(builder.edges->sync);
    rc = rc ? rc : store_edges(&builder);
    free(builder.call);
    free(builder.by_correlation);
    free(builder.row);
    free(builder.row_track);
    free(builder.op);
    free(builder.first);
    free(builder.stream);
    free(builder.pair);
    if (!rc)
        *out = devices->edges = builder.edges;
    return rc;
}
