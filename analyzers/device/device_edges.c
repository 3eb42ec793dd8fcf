/* SPDX-License-Identifier: Apache-2.0
 *
 * What the edges between device ops and calls of the host are found with: calls that record, wait
 * and synchronise by their correlation, the rows of waits on streams, and the ops of each stream in
 * order of launch.
 */
#include "analyzers/device/device_edges.h"

#include <stdlib.h>
#include <string.h>

#include "analyzers/base/radix.h"

/* ---- reading the trace ----------------------------------------------------------------------------------------------------- */

int64_t an_edge_number(const struct an_trace *trace, size_t slice, const char *key)
{
    const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[slice]);
    const char *at = detail ? detail->payload : "";
    size_t n = strlen(key);
    for (at = strstr(at, key); at; at = strstr(at + 1, key)) {
        if (at[-1] != '"' || at[n] != '"') /* a payload begins with a brace */
            continue;
        const char *number = at + n + 1;
        number += strspn(number, " :");
        char *end;
        long long x = strtoll(number, &end, 10);
        return end == number || x < 0 ? STORE_ABSENT : x;
    }
    return STORE_ABSENT;
}

uint32_t an_call_outermost(const struct an_trace *trace, uint32_t i)
{
    int levels = AN_DEPTH_MAX;
    for (uint32_t p = trace->slice.parent[i]; p != AN_NONE && levels--;
         p = trace->slice.parent[p]) {
        if (!an_category_is_call(an_slice_category(trace, p)) || !an_slice_open_at(trace, p, i))
            break;
        i = p;
    }
    return i;
}

static bool is_wanted(enum an_api_kind k)
{
    return k == AN_API_SYNC || k == AN_API_RECORD || k == AN_API_WAIT || k == AN_API_FREE;
}

/* Of every string: as a category 1 is a call, 2 a wait or synchronisation on a device. */
static uint8_t *read_categories(const struct an_trace *trace)
{
    uint8_t *is = calloc(trace->string_count + 1, 1);
    for (size_t i = 0; is && i < trace->string_count; i++)
        is[i] = an_category_is_call(trace->string[i]) ? 1
                : !strcmp(trace->string[i], "sync")   ? 2
                                                      : 0;
    return is;
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

static int read_rows(struct an_edge_builder *builder)
{
    const struct an_trace *trace = builder->trace;
    uint8_t *is = read_categories(trace);
    int rc = is ? 0 : TACHO_ENOMEM;
    for (uint32_t k = 0; k < trace->track_count && !rc; k++) {
        const struct an_track *track = &trace->track[k];
        bool stream = !strcmp(track->kind, "stream");
        for (size_t i = track->slice_first; i < track->slice_first + track->slice_count && !rc;
             i++) {
            uint32_t category = trace->slice.category[i];
            if (category == AN_NONE || !is[category])
                continue;
            if (stream && is[category] == 2)
                rc = keep_row(builder, (uint32_t)i, k);
            else if (!stream && is[category] == 1)
                rc = keep_call(builder, (uint32_t)i, k);
        }
    }
    free(is);
    return rc;
}

/* ---- calls by correlation --------------------------------------------------------------------------------------------------- */

static int call_order(const struct an_edge_builder *builder, const struct an_edge_call *edge_call,
                      uint32_t process, int64_t correlation)
{
    const struct an_trace *trace = builder->trace;
    uint32_t p = trace->track[edge_call->track].process;
    int64_t own = trace->slice.correlation[edge_call->slice];
    if (p != process)
        return p < process ? -1 : 1;
    return (own > correlation) - (own < correlation);
}

static int by_correlation(const void *x, const void *y, void *ctx)
{
    const struct an_edge_builder *builder = ctx;
    uint32_t i = *(const uint32_t *)x, k = *(const uint32_t *)y;
    const struct an_trace *trace = builder->trace;
    const struct an_edge_call *other = &builder->call[k];
    int order = call_order(builder, &builder->call[i], trace->track[other->track].process,
                           trace->slice.correlation[other->slice]);
    return order ? order : (i > k) - (i < k);
}

static int index_calls(struct an_edge_builder *builder)
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
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (call_order(builder, &builder->call[builder->by_correlation[middle]], process,
                       correlation) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    bool found =
        correlation != STORE_ABSENT && low < builder->correlated &&
        !call_order(builder, &builder->call[builder->by_correlation[low]], process, correlation);
    return found ? builder->call[builder->by_correlation[low]].slice : AN_NONE;
}

/* ---- ops by stream ---------------------------------------------------------------------------------------------------------- */

/* Sorts tracks by process; *of gets the first of each process. */
static int group_tracks(const struct an_devices *devices, uint32_t *track, size_t n, size_t **of)
{
    const struct an_trace *trace = devices->trace;
    size_t *first = *of = an_arena_zero(devices->scratch, trace->process_count + 3, sizeof *first);
    uint32_t *copy = malloc((n + 1) * sizeof *copy);
    if (first && copy) {
        for (size_t i = 0; i < n; i++)
            first[an_edge_process(trace, copy[i] = track[i]) + 2]++;
        for (size_t p = 0; p <= trace->process_count; p++)
            first[p + 2] += first[p + 1];
        for (size_t i = 0; i < n; i++)
            track[first[an_edge_process(trace, copy[i]) + 1]++] = copy[i];
    }
    free(copy);
    return first && copy ? 0 : TACHO_ENOMEM;
}

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
    for (size_t d = 0; d < devices->device_count; d++)
        for (size_t i = devices->device[d].first;
             i < devices->device[d].first + devices->by_launch_known[d]; i++)
            if (devices->op.launch[devices->by_launch[i]] != AN_NONE)
                builder->op[builder->first[devices->op.track[devices->by_launch[i]] + 1]++] =
                    devices->by_launch[i];
    return group_tracks(builder->devices, builder->stream, streams, &builder->stream_of);
}

uint32_t an_edge_stream(const struct an_edge_builder *builder, uint32_t like, int64_t tid)
{
    const struct an_trace *trace = builder->trace;
    size_t p = an_edge_process(trace, like);
    for (size_t i = builder->stream_of[p]; i < builder->stream_of[p + 1]; i++) {
        const struct an_track *track = &trace->track[builder->stream[i]];
        if (track->tid == tid && !strcmp(track->device, trace->track[like].device))
            return builder->stream[i];
    }
    return AN_NONE;
}

size_t an_edge_launched(const struct an_edge_builder *builder, uint32_t track, int64_t time)
{
    size_t low = builder->first[track], high = builder->first[track + 1];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (an_device_launch_time(builder->devices, builder->op[middle]) < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int chain_streams(struct an_edge_builder *builder)
{
    const struct an_device_ops *op = &builder->devices->op;
    struct an_device_edges *edges = builder->edges;
    edges->before = an_arena_zero(builder->scratch, op->count, sizeof *edges->before);
    edges->unresolved = an_arena_zero(builder->scratch, op->count, 1);
    uint32_t *last = malloc((builder->trace->track_count + 1) * sizeof *last);
    if (edges->before && last) {
        memset(last, 0xff, (builder->trace->track_count + 1) * sizeof *last);
        for (size_t i = 0; i < op->count; i++) {
            edges->before[i] = last[op->track[i]];
            last[op->track[i]] = (uint32_t)i;
        }
    }
    free(last);
    return edges->before && edges->unresolved && last ? 0 : TACHO_ENOMEM;
}

/* ---- the edges --------------------------------------------------------------------------------------------------------------- */

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

static int pair_order(const void *x, const void *y)
{
    const struct an_edge_pair *a = x, *b = y;
    if (a->to != b->to)
        return a->to < b->to ? -1 : 1;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    return a->inferred - b->inferred;
}

static int sync_edge_order(const void *x, const void *y)
{
    const struct an_sync_edge *a = x, *b = y;
    if (a->call != b->call)
        return a->call < b->call ? -1 : 1;
    if (a->op != b->op)
        return a->op < b->op ? -1 : 1;
    return a->inferred - b->inferred;
}

static int list_tracks(const struct an_devices *devices, struct an_device_edges *edges)
{
    size_t n = 0;
    if (!(edges->sync_track = an_arena_zero(devices->scratch, devices->trace->track_count,
                                            sizeof *edges->sync_track)))
        return TACHO_ENOMEM;
    for (size_t i = 0; i < edges->sync_count; i++) { /* slices stand track by track */
        uint32_t k = an_slice_track(devices->trace, edges->sync[i].call);
        if (!n || edges->sync_track[n - 1] != k)
            edges->sync_track[n++] = k;
    }
    return group_tracks(devices, edges->sync_track, n, &edges->sync_of);
}

/* Sorts the edges, drops doubles (one that is recorded stays) and makes them columns. */
static int finish(struct an_edge_builder *builder)
{
    struct an_device_edges *edges = builder->edges;
    size_t ops = builder->devices->op.count, n = 0;
    if (builder->pair_count)
        qsort(builder->pair, builder->pair_count, sizeof *builder->pair, pair_order);
    for (size_t i = 0; i < builder->pair_count; i++)
        if (!n || builder->pair[i].to != builder->pair[n - 1].to ||
            builder->pair[i].from != builder->pair[n - 1].from)
            builder->pair[n++] = builder->pair[i];
    edges->count = n;
    edges->from = an_arena_zero(builder->scratch, n, sizeof *edges->from);
    edges->inferred = an_arena_zero(builder->scratch, n, 1);
    edges->first = an_arena_zero(builder->scratch, ops + 1, sizeof *edges->first);
    if (!edges->from || !edges->inferred || !edges->first)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        edges->from[i] = builder->pair[i].from;
        edges->inferred[i] = builder->pair[i].inferred;
        edges->inferred_count += builder->pair[i].inferred;
        edges->first[builder->pair[i].to + 1]++;
    }
    edges->recorded = n - edges->inferred_count;
    edges->waits = builder->row_count > 0;
    for (size_t i = 0; i < builder->call_count; i++)
        edges->waits = edges->waits || builder->call[i].kind == AN_API_WAIT ||
                       builder->call[i].kind == AN_API_SYNC;
    for (size_t i = 0; i < ops; i++) {
        edges->first[i + 1] += edges->first[i];
        edges->unresolved_count += edges->unresolved[i];
    }
    if (edges->sync_count)
        qsort(edges->sync, edges->sync_count, sizeof *edges->sync, sync_edge_order);
    n = 0;
    for (size_t i = 0; i < edges->sync_count; i++)
        if (!n || edges->sync[i].call != edges->sync[n - 1].call ||
            edges->sync[i].op != edges->sync[n - 1].op)
            edges->sync[n++] = edges->sync[i];
    edges->sync_count = n;
    struct an_sync_edge *grown = edges->sync;
    edges->sync = an_arena_copy(builder->scratch, grown, n * sizeof *grown);
    free(grown);
    return edges->sync ? list_tracks(builder->devices, edges) : TACHO_ENOMEM;
}

size_t an_sync_seek(const struct an_device_edges *edges, size_t slice)
{
    size_t low = 0, high = edges->sync_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (edges->sync[middle].call < slice)
            low = middle + 1;
        else
            high = middle;
    }
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
    rc = rc ? rc : index_calls(&builder);
    rc = rc ? rc : order_streams(&builder);
    rc = rc ? rc : chain_streams(&builder);
    rc = rc ? rc : an_edges_waits(&builder);
    rc = rc ? rc : an_edges_syncs(&builder);
    if (rc)
        free(builder.edges->sync);
    rc = rc ? rc : finish(&builder);
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
