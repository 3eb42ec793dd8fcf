/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of the host that wait for device ops (device_edges.h): synchronise calls, copies that make
 * the host wait, and calls that free memory of a device, which wait for what runs.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/device/device_edges.h"

#define LONG_COPY_NS \
    20000 /* a copying call of unknown memory that lasts longer and ends behind its copy waited \
             for it */

bool an_copy_waits(const struct an_context *c, size_t op)
{
    const struct an_trace *t = c->t;
    const struct an_device_ops *o = &c->gpu->op;
    uint32_t launch = o->launch[op];
    if (launch == AN_NONE || o->class[op] == AN_DEVICE_MEMSET ||
        strcmp(an_slice_category(t, o->slice[op]), "memcpy") != 0)
        return false;
    uint32_t call = an_call_outermost(t, launch);
    struct an_api_call a = an_slice_api(t, call);
    const struct an_detail *d = an_trace_detail(t, t->slice.detail[o->slice[op]]);
    int64_t end = an_slice_end(t, call);
    if (a.kind != AN_API_COPY || t->slice.dur[call] == AN_OPEN ||
        o->start[op] < t->slice.start[call] || o->end[op] > an_time_add(end, AN_EDGE_SLACK_NS))
        return false;
    if (!a.async || (d && !strcmp(d->kind, "pageable")))
        return true;
    return (!d || !*d->kind) && t->slice.dur[call] >= LONG_COPY_NS;
}

/* Of the ops of a stream launched before `before`, the last that ended no later than `end`;
 * AN_NONE: there is none. In a stream ops end in the order of their launches. */
static uint32_t last_ended(const struct an_edge_builder *b, uint32_t stream, int64_t before,
                           int64_t end)
{
    const struct an_device_ops *op = &b->c->gpu->op;
    size_t low = b->first[stream], high = an_edge_launched(b, stream, before);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (op->end[b->op[middle]] <= end)
            low = middle + 1;
        else
            high = middle;
    }
    return low == b->first[stream] ? AN_NONE : b->op[low - 1];
}

/* The call waits for a device: for the last op of every stream of its process. */
static int sync_device(struct an_edge_builder *b, uint32_t call, size_t process)
{
    const struct an_trace *t = b->c->t;
    const struct an_device_ops *op = &b->c->gpu->op;
    int64_t end = an_time_add(an_slice_end(t, call), AN_EDGE_SLACK_NS);
    int rc = 0;
    for (size_t i = b->stream_of[process]; i < b->stream_of[process + 1] && !rc; i++) {
        uint32_t s = b->stream[i];
        size_t at = an_edge_launched(b, s, t->slice.start[call]);
        if (at > b->first[s] && op->end[b->op[at - 1]] <= end)
            rc = an_edge_add_sync(b, b->op[at - 1], call, false);
    }
    return rc;
}

/* Nothing says for what the call waits: the op that ended last inside of it. */
static int sync_by_time(struct an_edge_builder *b, uint32_t call, size_t process)
{
    const struct an_trace *t = b->c->t;
    const struct an_device_ops *op = &b->c->gpu->op;
    int64_t start = t->slice.start[call],
            end = an_time_add(an_slice_end(t, call), AN_EDGE_SLACK_NS);
    uint32_t best = AN_NONE;
    for (size_t i = b->stream_of[process]; i < b->stream_of[process + 1]; i++) {
        uint32_t p = last_ended(b, b->stream[i], start, end);
        if (p != AN_NONE && op->end[p] > start && (best == AN_NONE || op->end[p] > op->end[best]))
            best = p;
    }
    return best == AN_NONE ? 0 : an_edge_add_sync(b, best, call, true);
}

/* A row says for which stream or event the call waits. */
static int sync_by_row(struct an_edge_builder *b, uint32_t call, size_t process, size_t row)
{
    const struct an_trace *t = b->c->t;
    const struct an_device_ops *op = &b->c->gpu->op;
    uint32_t stream = b->row_track[row], slice = b->row[row];
    const char *name = an_trace_name(t, t->slice.name[slice]);
    int64_t before = t->slice.start[call],
            end = an_time_add(an_slice_end(t, call), AN_EDGE_SLACK_NS);
    bool inferred = false;
    if (!strcmp(name, "Context Sync") || !strcmp(name, "Device Sync"))
        return sync_device(b, call, process);
    if (!strcmp(name, "Event Sync")) {
        int64_t of = an_edge_number(t, slice, "stream");
        uint32_t record = an_edge_call_of(b, t->track[stream].process,
                                          an_edge_number(t, slice, "record_correlation"));
        stream = of == STORE_ABSENT ? AN_NONE : an_edge_stream(b, stream, of);
        inferred = record == AN_NONE;
        before = inferred ? before : t->slice.start[record];
    } else if (t->track[stream].tid == STORE_ABSENT) {
        stream = AN_NONE;
    }
    if (stream == AN_NONE || b->first[stream] == b->first[stream + 1])
        return sync_by_time(b, call, process);
    size_t at = an_edge_launched(b, stream, before);
    uint32_t p = inferred                ? last_ended(b, stream, before, end)
                 : at > b->first[stream] ? b->op[at - 1]
                                         : AN_NONE;
    if (p == AN_NONE || op->end[p] > end)
        return 0;
    return an_edge_add_sync(b, p, call, inferred);
}

struct call_row {
    uint32_t call;
    uint32_t row; /* index into b->row */
};

static int call_row_order(const void *x, const void *y)
{
    const struct call_row *a = x, *b = y;
    if (a->call != b->call)
        return a->call < b->call ? -1 : 1;
    return (a->row > b->row) - (a->row < b->row);
}

/* Rows of synchronisation with the calls that they belong to, by call. */
static struct call_row *rows_of_calls(const struct an_edge_builder *b, size_t *count)
{
    const struct an_trace *t = b->c->t;
    struct call_row *rows = malloc((b->row_count + 1) * sizeof *rows);
    *count = 0;
    for (size_t i = 0; i < b->row_count && rows; i++) {
        uint32_t process = t->track[b->row_track[i]].process;
        uint32_t call = an_edge_call_of(b, process, t->slice.correlation[b->row[i]]);
        if (call != AN_NONE && an_slice_api(t, call).kind == AN_API_SYNC)
            rows[(*count)++] = (struct call_row){call, (uint32_t)i};
    }
    if (*count)
        qsort(rows, *count, sizeof *rows, call_row_order);
    return rows;
}

static int sync_call(struct an_edge_builder *b, const struct an_edge_call *k,
                     const struct call_row *row)
{
    const struct an_trace *t = b->c->t;
    size_t process = an_edge_process(t, k->track);
    const char *name = an_trace_name(t, t->slice.name[k->slice]);
    if (t->slice.dur[k->slice] == AN_OPEN)
        return 0;
    if (k->kind == AN_API_FREE)
        return an_slice_api(t, k->slice).async || strstr(name, "Host")
                   ? 0
                   : sync_by_time(b, k->slice, process);
    if (row)
        return sync_by_row(b, k->slice, process, row->row);
    if (strstr(name, "DeviceSynchronize") || strstr(name, "CtxSynchronize"))
        return sync_device(b, k->slice, process);
    return sync_by_time(b, k->slice, process);
}

int an_edges_syncs(struct an_edge_builder *b)
{
    const struct an_trace *t = b->c->t;
    const struct an_devices *g = b->c->gpu;
    size_t rows, at = 0;
    struct call_row *row = rows_of_calls(b, &rows);
    int rc = row ? 0 : TACHO_ENOMEM;
    for (size_t i = 0; i < b->call_count && !rc; i++) {
        const struct an_edge_call *k = &b->call[i];
        while (at < rows && row[at].call < k->slice)
            at++;
        bool has = at < rows && row[at].call == k->slice;
        if (k->kind == AN_API_SYNC ? !has && an_call_outermost(t, k->slice) != k->slice
                                   : k->kind != AN_API_FREE)
            continue; /* part of the call around it, unless a row speaks of this one */
        rc = sync_call(b, k, has ? &row[at] : NULL);
    }
    free(row);
    for (size_t i = 0; i < g->op.count && !rc; i++)
        if (g->op.class[i] != AN_DEVICE_OPAQUE && an_copy_waits(b->c, i))
            rc = an_edge_add_sync(b, (uint32_t)i, g->op.launch[i], false);
    return rc;
}
