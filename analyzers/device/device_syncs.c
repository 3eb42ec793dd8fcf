/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of the host that wait for device ops (device_edges.h): synchronise calls, copies that make
 * the host wait, and calls that free memory of a device, which wait for what runs.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/device/device_edges_private.h"

/* A call that lasts longer, and ends after what it may have waited for, waited for it: a copying
 * call of unknown memory, a call that waits for an event. */
#define LONG_CALL_NS 20000
/* Events recorded before a call that waits for one, of which it may mean any. */
#define RECORDS_MOST 1024

bool an_copy_waits(const struct an_devices *devices, size_t op)
{
    const struct an_trace *trace = devices->trace;
    const struct an_device_ops *ops = &devices->op;
    uint32_t launch = ops->launch[op];
    if (launch == AN_NONE || ops->class[op] == AN_DEVICE_MEMSET ||
        strcmp(an_slice_category(trace, ops->slice[op]), "memcpy") != 0)
        return false;
    uint32_t call = an_call_outermost(trace, launch);
    struct an_api_call api = an_slice_api(trace, call);
    const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[ops->slice[op]]);
    int64_t end = an_slice_end(trace, call);
    if (api.kind != AN_API_COPY || trace->slice.dur[call] == AN_OPEN ||
        ops->start[op] < trace->slice.start[call] ||
        ops->end[op] > an_time_add(end, AN_EDGE_SLACK_NS))
        return false;
    if (!api.async || (detail && !strcmp(detail->kind, "pageable")))
        return true;
    return (!detail || !*detail->kind) && trace->slice.dur[call] >= LONG_CALL_NS;
}

/* Returns the last op of a stream that was launched before `before` and ended no later than `end`;
 * AN_NONE if there is none. Ops of a stream end in the order of their launches. */
static uint32_t last_ended(const struct an_edge_builder *builder, uint32_t stream, int64_t before,
                           int64_t end)
{
    const struct an_device_ops *ops = &builder->devices->op;
    size_t low = builder->first[stream], high = an_edge_launched(builder, stream, before);
    AN_BISECT(low, high, ops->end[builder->op[middle]] <= end);
    return low == builder->first[stream] ? AN_NONE : builder->op[low - 1];
}

/* Adds the edges of a call that waits for a whole device: it waits for the last op of every stream
 * of its process. */
static int sync_device(struct an_edge_builder *builder, uint32_t call, size_t process)
{
    const struct an_trace *trace = builder->trace;
    const struct an_device_ops *ops = &builder->devices->op;
    int64_t end = an_time_add(an_slice_end(trace, call), AN_EDGE_SLACK_NS);
    int rc = 0;
    for (size_t i = builder->stream_of[process]; i < builder->stream_of[process + 1] && !rc; i++) {
        uint32_t stream = builder->stream[i];
        size_t last = an_edge_launched(builder, stream, trace->slice.start[call]);
        if (last > builder->first[stream] && ops->end[builder->op[last - 1]] <= end)
            rc = an_edge_add_sync(builder, builder->op[last - 1], call, false);
    }
    return rc;
}

/* Nothing in the file names what the call waits for: adds an inferred edge from the op that ended
 * last inside the call. */
static int sync_by_time(struct an_edge_builder *builder, uint32_t call, size_t process)
{
    const struct an_trace *trace = builder->trace;
    const struct an_device_ops *ops = &builder->devices->op;
    int64_t start = trace->slice.start[call],
            end = an_time_add(an_slice_end(trace, call), AN_EDGE_SLACK_NS);
    uint32_t best = AN_NONE;
    for (size_t i = builder->stream_of[process]; i < builder->stream_of[process + 1]; i++) {
        uint32_t last = last_ended(builder, builder->stream[i], start, end);
        if (last != AN_NONE && ops->end[last] > start &&
            (best == AN_NONE || ops->end[last] > ops->end[best]))
            best = last;
    }
    return best == AN_NONE ? 0 : an_edge_add_sync(builder, best, call, true);
}

/* A row of the device names the stream or the event that the call waits for. An event stands for
 * the ops that were launched before its record; where the record is not in the file, the last op
 * that ended in time is inferred. */
static int sync_by_row(struct an_edge_builder *builder, uint32_t call, size_t process, size_t row)
{
    const struct an_trace *trace = builder->trace;
    const struct an_device_ops *ops = &builder->devices->op;
    uint32_t stream = builder->row_track[row], slice = builder->row[row];
    const char *name = an_trace_name(trace, trace->slice.name[slice]);
    int64_t before = trace->slice.start[call],
            end = an_time_add(an_slice_end(trace, call), AN_EDGE_SLACK_NS);
    bool inferred = false;
    if (!strcmp(name, "Context Sync") || !strcmp(name, "Device Sync"))
        return sync_device(builder, call, process);
    if (!strcmp(name, "Event Sync")) {
        int64_t number = an_edge_number(trace, slice, "stream");
        uint32_t record = an_edge_call_of(builder, trace->track[stream].process,
                                          an_edge_number(trace, slice, "record_correlation"));
        stream = number == STORE_ABSENT ? AN_NONE : an_edge_stream(builder, stream, number);
        inferred = record == AN_NONE;
        before = inferred ? before : trace->slice.start[record];
    } else if (trace->track[stream].tid == STORE_ABSENT) {
        stream = AN_NONE;
    }
    if (stream == AN_NONE || builder->first[stream] == builder->first[stream + 1])
        return sync_by_time(builder, call, process);
    size_t launched = an_edge_launched(builder, stream, before);
    uint32_t op = AN_NONE;
    if (inferred)
        op = last_ended(builder, stream, before, end);
    else if (launched > builder->first[stream])
        op = builder->op[launched - 1];
    if (op == AN_NONE || ops->end[op] > end)
        return 0;
    return an_edge_add_sync(builder, op, call, inferred);
}

/* ---- without a row ---- */

/* The stream of a process that has its device ops on one stream, AN_NONE if it has more or none. A
 * call that waits for a stream or event can then mean no other. */
static uint32_t only_stream(const struct an_edge_builder *builder, size_t process)
{
    const struct an_devices *devices = builder->devices;
    int64_t streams = 0;
    for (size_t i = 0; i < devices->device_count; i++) {
        uint32_t id = devices->device[i].process;
        size_t own = id < builder->trace->process_count ? id : builder->trace->process_count;
        if (own == process)
            streams += devices->device[i].streams;
    }
    bool launched = builder->stream_of[process + 1] - builder->stream_of[process] == 1;
    return streams == 1 && launched ? builder->stream[builder->stream_of[process]] : AN_NONE;
}

/* The last op of a stream that was launched before `before`; AN_NONE: none. */
static uint32_t last_launched(const struct an_edge_builder *builder, uint32_t stream,
                              int64_t before)
{
    size_t next = an_edge_launched(builder, stream, before);
    return next == builder->first[stream] ? AN_NONE : builder->op[next - 1];
}

/* Calls that record an event, as indexes into builder->call, by process and start. */
struct records {
    uint32_t *at;
    size_t count;
};

static int record_order(const struct an_edge_builder *builder, uint32_t at, size_t process,
                        int64_t start)
{
    const struct an_edge_call *record = &builder->call[at];
    size_t own = an_edge_process(builder->trace, record->track);
    return 2 * AN_COMPARE(own, process) +
           AN_COMPARE(builder->trace->slice.start[record->slice], start);
}

static int record_compare(const void *first, const void *second, void *ctx)
{
    const struct an_edge_builder *builder = ctx;
    uint32_t left = *(const uint32_t *)first, right = *(const uint32_t *)second;
    const struct an_edge_call *other = &builder->call[right];
    int order = record_order(builder, left, an_edge_process(builder->trace, other->track),
                             builder->trace->slice.start[other->slice]);
    return order ? order : AN_COMPARE(left, right);
}

static int list_records(struct an_edge_builder *builder, struct records *records)
{
    records->count = 0;
    if (!(records->at = malloc((builder->call_count + 1) * sizeof *records->at)))
        return TACHO_ENOMEM;
    for (size_t i = 0; i < builder->call_count; i++)
        if (builder->call[i].kind == AN_API_RECORD)
            records->at[records->count++] = (uint32_t)i;
    if (records->count)
        qsort_r(records->at, records->count, sizeof *records->at, record_compare, builder);
    return 0;
}

/* A call waits for an event of the only stream, but does not name it: of the events recorded before
 * the call, the last one that was reached before it returned. Where the call lasted long enough to
 * have waited, and only this one was reached inside of it, it was no other. Where no record is in
 * the file, the times of ops decide. */
static int sync_event(struct an_edge_builder *builder, const struct records *records, uint32_t call,
                      size_t process, uint32_t stream)
{
    const struct an_trace *trace = builder->trace;
    const struct an_device_ops *ops = &builder->devices->op;
    int64_t start = trace->slice.start[call],
            end = an_time_add(an_slice_end(trace, call), AN_EDGE_SLACK_NS);
    uint32_t best = AN_NONE;
    bool sure = trace->slice.dur[call] >= LONG_CALL_NS;
    size_t low = 0, high = records->count;
    AN_BISECT(low, high, record_order(builder, records->at[middle], process, start) < 0);
    for (size_t i = low; i-- > 0 && low - i <= RECORDS_MOST;) {
        const struct an_edge_call *record = &builder->call[records->at[i]];
        if (an_edge_process(trace, record->track) != process)
            break;
        uint32_t op = last_launched(builder, stream, trace->slice.start[record->slice]);
        if (op == AN_NONE)
            break;
        if (ops->end[op] > end || op == best)
            continue;
        if (best == AN_NONE) {
            best = op;
            sure = sure && ops->end[op] > start;
        } else if (ops->end[op] > start) {
            sure = false;
        }
        if (ops->end[op] <= start)
            break;
    }
    return best == AN_NONE ? sync_by_time(builder, call, process)
                           : an_edge_add_sync(builder, best, call, !sure);
}

/* Does a name hold one of the words? */
static bool has_one(const char *name, const char *const words[3])
{
    for (size_t i = 0; i < 3; i++)
        if (strstr(name, words[i]))
            return true;
    return false;
}

/* No row says what the call waits for. It follows from the name of the call where that means the
 * whole device, or where the process has one stream. */
static int sync_by_name(struct an_edge_builder *builder, const struct records *records,
                        uint32_t call, size_t process)
{
    static const char *const device[3] = {"DeviceSynchronize", "CtxSynchronize",
                                          "SynchronizeDevice"},
                             *const event[3] = {"EventSynchronize", "SynchronizeEvent",
                                                "EventHostSynchronize"},
                             *const queue[3] = {"StreamSynchronize", "SynchronizeStream",
                                                "QueueFinish"};
    const struct an_trace *trace = builder->trace;
    const char *name = an_trace_name(trace, trace->slice.name[call]);
    uint32_t stream = only_stream(builder, process);
    if (has_one(name, device))
        return sync_device(builder, call, process);
    if (stream != AN_NONE && has_one(name, event))
        return sync_event(builder, records, call, process, stream);
    if (stream == AN_NONE || !has_one(name, queue))
        return sync_by_time(builder, call, process);
    uint32_t op = last_launched(builder, stream, trace->slice.start[call]);
    bool waited = op != AN_NONE && builder->devices->op.end[op] <=
                                       an_time_add(an_slice_end(trace, call), AN_EDGE_SLACK_NS);
    return waited ? an_edge_add_sync(builder, op, call, false)
                  : sync_by_time(builder, call, process);
}

/* ---- all calls ---- */

struct call_row {
    uint32_t call;
    uint32_t row; /* index into builder->row */
};

static int call_row_order(const void *first, const void *second)
{
    const struct call_row *left = first, *right = second;
    return 2 * AN_COMPARE(left->call, right->call) + AN_COMPARE(left->row, right->row);
}

/* Pairs the rows of synchronisation with the calls that they belong to, in order of calls. */
static struct call_row *rows_of_calls(const struct an_edge_builder *builder, size_t *count)
{
    const struct an_trace *trace = builder->trace;
    struct call_row *rows = malloc((builder->row_count + 1) * sizeof *rows);
    *count = 0;
    for (size_t i = 0; i < builder->row_count && rows; i++) {
        uint32_t process = trace->track[builder->row_track[i]].process;
        uint32_t call =
            an_edge_call_of(builder, process, trace->slice.correlation[builder->row[i]]);
        if (call != AN_NONE && an_slice_api(trace, call).kind == AN_API_SYNC)
            rows[(*count)++] = (struct call_row){call, (uint32_t)i};
    }
    if (*count)
        qsort(rows, *count, sizeof *rows, call_row_order);
    return rows;
}

static int sync_call(struct an_edge_builder *builder, const struct an_edge_call *edge_call,
                     const struct call_row *row, const struct records *records)
{
    const struct an_trace *trace = builder->trace;
    size_t process = an_edge_process(trace, edge_call->track);
    const char *name = an_trace_name(trace, trace->slice.name[edge_call->slice]);
    if (trace->slice.dur[edge_call->slice] == AN_OPEN)
        return 0;
    if (edge_call->kind == AN_API_FREE)
        return an_slice_api(trace, edge_call->slice).async || strstr(name, "Host")
                   ? 0
                   : sync_by_time(builder, edge_call->slice, process);
    if (row)
        return sync_by_row(builder, edge_call->slice, process, row->row);
    return sync_by_name(builder, records, edge_call->slice, process);
}

int an_edges_syncs(struct an_edge_builder *builder)
{
    const struct an_trace *trace = builder->trace;
    const struct an_devices *devices = builder->devices;
    size_t rows, next = 0;
    struct call_row *row = rows_of_calls(builder, &rows);
    struct records records = {0};
    int rc = row ? list_records(builder, &records) : TACHO_ENOMEM;
    for (size_t i = 0; i < builder->call_count && !rc; i++) {
        const struct an_edge_call *edge_call = &builder->call[i];
        while (next < rows && row[next].call < edge_call->slice)
            next++;
        bool has = next < rows && row[next].call == edge_call->slice;
        if (edge_call->kind == AN_API_SYNC
                ? !has && an_call_outermost(trace, edge_call->slice) != edge_call->slice
                : edge_call->kind != AN_API_FREE)
            continue; /* part of the call around it, unless a row names this one */
        rc = sync_call(builder, edge_call, has ? &row[next] : NULL, &records);
    }
    free(row);
    free(records.at);
    for (size_t i = 0; i < devices->op.count && !rc; i++)
        if (devices->op.class[i] != AN_DEVICE_OPAQUE && an_copy_waits(devices, i))
            rc = an_edge_add_sync(builder, (uint32_t)i, devices->op.launch[i], false);
    return rc;
}
