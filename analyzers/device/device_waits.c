/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams that wait for events of other streams (device_edges.h): from the rows of waits where the
 * trace has them (Kineto with cuda_sync, Nsight Systems, tacho's own recordings), else from the
 * calls, else from the times alone.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/device/device_edges_private.h"

/* An op that begins so soon after an op of another stream ended may have waited for it. */
#define RELEASE_NS 20000

/* A stream waits for an event. */
struct wait {
    uint32_t on;      /* the stream that waits; AN_NONE: not known */
    uint32_t of;      /* the stream that recorded the event; AN_NONE: not known */
    int64_t called;   /* when the host said so */
    int64_t recorded; /* the event waits for what was launched before this */
    bool inferred;    /* which record it was is not in the file */
};

/* Of the ops that were launched before `before` on other streams of the process, takes the last
 * one of each stream, and returns the one that ended last before op `waiter` began; AN_NONE if
 * none ended in time. *late: a stream's last op ended later, so it may be the one. */
static uint32_t producer_by_time(const struct an_edge_builder *builder, uint32_t waiter,
                                 int64_t before, bool *late)
{
    const struct an_trace *trace = builder->trace;
    const struct an_device_ops *ops = &builder->devices->op;
    uint32_t best = AN_NONE, own = ops->track[waiter];
    *late = false;
    size_t process = an_edge_process(trace, own);
    for (size_t i = builder->stream_of[process]; i < builder->stream_of[process + 1]; i++) {
        uint32_t stream = builder->stream[i];
        if (stream == own)
            continue;
        size_t last = an_edge_launched(builder, stream, before);
        if (last == builder->first[stream])
            continue;
        uint32_t producer = builder->op[last - 1];
        if (ops->end[producer] > an_time_add(ops->start[waiter], AN_EDGE_SLACK_NS))
            *late = true;
        else if (best == AN_NONE || ops->end[producer] > ops->end[best])
            best = producer;
    }
    return best;
}

/* Finds the op that a wait holds back and the op that it waits for, and adds the edge. Where the
 * times contradict the record, or more than one op may be meant, the op is marked as unresolved
 * instead. */
static int resolve(struct an_edge_builder *builder, const struct wait *wait)
{
    const struct an_device_ops *ops = &builder->devices->op;
    struct an_device_edges *edges = builder->edges;
    size_t next = an_edge_launched(builder, wait->on, wait->called);
    /* Nothing was launched after it. */
    if (next == builder->first[wait->on + 1])
        return 0;
    uint32_t waiter = builder->op[next];
    if (wait->of != AN_NONE) {
        size_t last = an_edge_launched(builder, wait->of, wait->recorded);
        /* Order of the stream; or an event after no op that was recorded. */
        if (wait->of == wait->on || last == builder->first[wait->of])
            return 0;
        uint32_t producer = builder->op[last - 1];
        bool agrees = ops->end[producer] <= an_time_add(ops->start[waiter], AN_EDGE_SLACK_NS);
        if (agrees)
            return an_edge_add(builder, producer, waiter, wait->inferred);
        edges->unresolved[waiter] = 1;
        return 0;
    }
    bool late;
    uint32_t producer = producer_by_time(builder, waiter, wait->recorded, &late);
    int64_t free_at =
        edges->before[waiter] != AN_NONE ? ops->end[edges->before[waiter]] : INT64_MIN;
    if (producer != AN_NONE && ops->end[producer] > free_at)
        return an_edge_add(builder, producer, waiter, true);
    edges->unresolved[waiter] |= producer == AN_NONE && late;
    return 0;
}

/* When the recorder left out what the streams of a process wait for, because one of them had all
 * the work; off == on: it did not. */
struct unrecorded {
    int64_t off, on;
    bool rows; /* the process has rows of waits */
};

static struct unrecorded unrecorded_of(struct an_edge_builder *builder, size_t process)
{
    const struct an_trace *trace = builder->trace;
    struct unrecorded out = {0};
    int64_t off = 0, on = 0;
    if (process >= trace->process_count)
        return out;
    long long id = (long long)trace->process[process].id;
    const char *off_key = an_arena_format(builder->scratch, "process.%lld.waits_off_ns", id),
               *on_key = an_arena_format(builder->scratch, "process.%lld.waits_on_ns", id);
    if (!off_key || !an_trace_key_integer(trace, off_key, &off))
        return out;
    out.off = an_time_add(trace->process[process].start, off);
    out.on = INT64_MAX;
    if (on_key && an_trace_key_integer(trace, on_key, &on))
        out.on = an_time_add(trace->process[process].start, on);
    return out;
}

/* ---- from rows -------------------------------------------------------------------------------------------------------------- */

static bool is_wait_row(const struct an_trace *trace, uint32_t row)
{
    return !strcmp(an_trace_name(trace, trace->slice.name[row]), "Stream Wait Event");
}

/* Index in builder->call of the call that is `slice`; call_count: no call is. */
static size_t call_place(const struct an_edge_builder *builder, uint32_t slice)
{
    size_t low = 0, high = builder->call_count;
    AN_BISECT(low, high, builder->call[middle].slice < slice);
    return low < builder->call_count && builder->call[low].slice == slice ? low
                                                                          : builder->call_count;
}

/* Returns the last call before `slice` on its thread that records an event; AN_NONE if there is
 * none among the 64 calls before it. */
static uint32_t record_before(const struct an_edge_builder *builder, uint32_t slice)
{
    size_t low = call_place(builder, slice);
    if (low == builder->call_count)
        return AN_NONE;
    uint32_t track = builder->call[low].track;
    for (size_t i = low; i-- > 0 && builder->call[i].track == track && low - i < 64;)
        if (builder->call[i].kind == AN_API_RECORD)
            return builder->call[i].slice;
    return AN_NONE;
}

/* A row names the stream that waits and, in most traces, the stream and the call that recorded the
 * event; what is missing is inferred from the calls of the thread. `rowed` gets a mark at the
 * wait's call. */
static int wait_of_row(struct an_edge_builder *builder, size_t i, uint8_t *rowed)
{
    const struct an_trace *trace = builder->trace;
    uint32_t row = builder->row[i], on = builder->row_track[i], process = trace->track[on].process;
    uint32_t call = an_edge_call_of(builder, process, trace->slice.correlation[row]);
    uint32_t record =
        an_edge_call_of(builder, process, an_edge_number(trace, row, "record_correlation"));
    int64_t stream = an_edge_number(trace, row, "stream");
    struct wait wait = {
        .on = on, .of = AN_NONE, .called = trace->slice.start[call == AN_NONE ? row : call]};
    if (call != AN_NONE)
        rowed[call_place(builder, an_call_outermost(trace, call))] = 1;
    /* No op of this stream has a launch in the file. */
    if (builder->first[on] == builder->first[on + 1])
        return 0;
    wait.inferred = record == AN_NONE;
    if (record == AN_NONE && call != AN_NONE)
        record = record_before(builder, call);
    wait.recorded = record == AN_NONE ? wait.called : trace->slice.start[record];
    if (stream != STORE_ABSENT) {
        wait.of = an_edge_stream(builder, on, stream);
        /* A stream on which nothing was launched. */
        if (wait.of == AN_NONE)
            return 0;
    }
    return resolve(builder, &wait);
}

/* ---- from calls ------------------------------------------------------------------------------------------------------------- */

/* A thread's calls that wait, without rows that say for which stream. The stream is that of the
 * next op the thread launches; of several waits before one launch, the one before the last is for
 * the next other stream that it launches on. */
struct pending {
    int64_t called, recorded;
};

struct launches_of_thread {
    size_t at, end; /* in an_devices.launch_slice */
};

/* Resolves the pending waits of a thread once it launches again. The last wait belongs to the
 * stream of the next launch, the one before it to the next other stream; earlier ones cannot be
 * told apart and are dropped. */
static int resolve_pending(struct an_edge_builder *builder, const struct pending *pending,
                           size_t count, const struct launches_of_thread *launches_of_thread)
{
    const struct an_devices *devices = builder->devices;
    uint32_t taken = AN_NONE;
    for (size_t i = count, used = 0; i-- > 0 && used < 2; used++) {
        uint32_t stream = AN_NONE;
        for (size_t launch = launches_of_thread->at;
             launch < launches_of_thread->end && launch - launches_of_thread->at < 256 &&
             stream == AN_NONE;
             launch++) {
            uint32_t track = devices->op.track[devices->launch_op[devices->launch_first[launch]]];
            stream = track != taken ? track : AN_NONE;
        }
        if (stream == AN_NONE)
            break;
        taken = stream;
        struct wait wait = {stream, AN_NONE, pending[i].called, pending[i].recorded, true};
        int rc = resolve(builder, &wait);
        if (rc)
            return rc;
    }
    return 0;
}

/* Is what a call waits for to be found without a row? */
static bool without_row(const struct an_edge_builder *builder, size_t i,
                        const struct unrecorded *unrecorded, const uint8_t *rowed)
{
    int64_t start = builder->trace->slice.start[builder->call[i].slice];
    return !unrecorded->rows || (!rowed[i] && start >= unrecorded->off && start < unrecorded->on);
}

/* Finds the waits of one thread, whose calls are builder->call[from .. end). Calls do not say for
 * which stream they wait, so waits are kept until the thread launches. */
static int waits_of_thread(struct an_edge_builder *builder, size_t from, size_t end,
                           const struct unrecorded *unrecorded, const uint8_t *rowed)
{
    const struct an_devices *devices = builder->devices;
    const struct an_trace *trace = builder->trace;
    const struct an_track *track = &trace->track[builder->call[from].track];
    struct launches_of_thread launches_of_thread = {an_launch_seek(devices, track->slice_first),
                                                    an_launch_seek(devices, an_track_end(track))};
    struct pending pending[64];
    size_t count = 0;
    uint32_t record = AN_NONE;
    int rc = 0;
    for (size_t i = from; i < end && !rc; i++) {
        uint32_t slice = builder->call[i].slice;
        if (builder->call[i].kind == AN_API_RECORD)
            record = slice;
        if (builder->call[i].kind != AN_API_WAIT || an_call_outermost(trace, slice) != slice ||
            !without_row(builder, i, unrecorded, rowed))
            continue;
        size_t next = launches_of_thread.at;
        while (next < launches_of_thread.end && devices->launch_slice[next] < slice)
            next++;
        if (count && next > launches_of_thread.at &&
            pending[count - 1].called < trace->slice.start[devices->launch_slice[next - 1]]) {
            size_t first = launches_of_thread.at;
            while (first < next &&
                   trace->slice.start[devices->launch_slice[first]] < pending[count - 1].called)
                first++;
            rc = resolve_pending(builder, pending, count,
                                 &(struct launches_of_thread){first, launches_of_thread.end});
            count = 0;
        }
        launches_of_thread.at = next;
        if (count == sizeof pending / sizeof *pending)
            memmove(pending, pending + 1, --count * sizeof *pending);
        pending[count++] = (struct pending){trace->slice.start[slice],
                                            trace->slice.start[record == AN_NONE ? slice : record]};
    }
    if (count && !rc)
        rc = resolve_pending(builder, pending, count, &launches_of_thread);
    return rc;
}

/* All calls of a process without rows of waits; else those that were made while no such rows were
 * recorded. */
static int waits_of_calls(struct an_edge_builder *builder, const struct unrecorded *unrecorded,
                          const uint8_t *rowed)
{
    const struct an_trace *trace = builder->trace;
    int rc = 0;
    for (size_t i = 0, next; i < builder->call_count && !rc; i = next) {
        for (next = i + 1;
             next < builder->call_count && builder->call[next].track == builder->call[i].track;)
            next++;
        size_t process = an_edge_process(trace, builder->call[i].track);
        rc = waits_of_thread(builder, i, next, &unrecorded[process], rowed);
    }
    return rc;
}

/* ---- from times alone -------------------------------------------------------------------------------------------------------- */

/* Ops of a device by their end. */
static int end_order(const void *first, const void *second, void *ctx)
{
    const struct an_device_ops *ops = ctx;
    uint32_t left = *(const uint32_t *)first, right = *(const uint32_t *)second;
    return 2 * AN_COMPARE(ops->end[left], ops->end[right]) + AN_COMPARE(left, right);
}

/* Returns the op of another stream that ended last before op `waiter` began; AN_NONE if none ended
 * within RELEASE_NS before it. `count`: number of ops in by_end. */
static uint32_t ended_before(const struct an_device_ops *ops, const uint32_t *by_end, size_t count,
                             uint32_t waiter)
{
    size_t low = 0, high = count;
    AN_BISECT(low, high, ops->end[by_end[middle]] <= ops->start[waiter]);
    int64_t since = an_time_sub(ops->start[waiter], RELEASE_NS);
    for (size_t i = low; i-- > 0 && ops->end[by_end[i]] >= since;)
        if (ops->track[by_end[i]] != ops->track[waiter] &&
            ops->start[by_end[i]] < ops->start[waiter])
            return by_end[i];
    return AN_NONE;
}

/* Infers waits from times alone, for processes without any record of waits: an op that began right
 * after an op of another stream ended, later than its own launch and its own stream allowed, is
 * taken to have waited for it. */
static int waits_of_times(struct an_edge_builder *builder, const struct an_device *device)
{
    const struct an_device_ops *ops = &builder->devices->op;
    const struct an_trace *trace = builder->trace;
    if (device->streams < 2)
        return 0;
    uint32_t *by_end = malloc((device->count + 1) * sizeof *by_end);
    int rc = by_end ? 0 : TACHO_ENOMEM;
    for (size_t i = 0; i < device->count && by_end; i++)
        by_end[i] = (uint32_t)(device->first + i);
    if (by_end)
        qsort_r(by_end, device->count, sizeof *by_end, end_order, (void *)(uintptr_t)ops);
    for (uint32_t waiter = (uint32_t)device->first; waiter < an_device_end(device) && !rc;
         waiter++) {
        uint32_t launch = ops->launch[waiter];
        if (launch == AN_NONE)
            continue;
        int64_t free_at = builder->edges->before[waiter] != AN_NONE
                              ? ops->end[builder->edges->before[waiter]]
                              : INT64_MIN;
        uint32_t producer = ended_before(ops, by_end, device->count, waiter);
        if (producer != AN_NONE && ops->end[producer] > free_at &&
            ops->end[producer] > an_slice_end(trace, launch))
            rc = an_edge_add(builder, producer, waiter, true);
    }
    free(by_end);
    return rc;
}

/* ---- all of it --------------------------------------------------------------------------------------------------------------- */

int an_edges_waits(struct an_edge_builder *builder)
{
    const struct an_trace *trace = builder->trace;
    size_t processes = trace->process_count + 1;
    struct unrecorded *unrecorded = malloc(processes * sizeof *unrecorded);
    uint8_t *any = calloc(processes, 1), *rowed = calloc(builder->call_count + 1, 1);
    int rc = unrecorded && any && rowed ? 0 : TACHO_ENOMEM;
    for (size_t i = 0; i < processes && !rc; i++)
        unrecorded[i] = unrecorded_of(builder, i);
    for (size_t i = 0; i < builder->row_count && !rc; i++) {
        if (!is_wait_row(trace, builder->row[i]))
            continue;
        unrecorded[an_edge_process(trace, builder->row_track[i])].rows = true;
        rc = wait_of_row(builder, i, rowed);
    }
    rc = rc ? rc : waits_of_calls(builder, unrecorded, rowed);
    for (size_t i = 0; i < builder->call_count && !rc; i++) {
        size_t id = an_edge_process(trace, builder->call[i].track);
        any[id] |= builder->call[i].kind == AN_API_WAIT;
    }
    for (size_t device = 0; device < builder->devices->device_count && !rc; device++) {
        uint32_t id = builder->devices->device[device].process;
        size_t process = id < trace->process_count ? id : trace->process_count;
        if (!unrecorded[process].rows && !any[process])
            rc = waits_of_times(builder, &builder->devices->device[device]);
    }
    free(unrecorded);
    free(any);
    free(rowed);
    return rc;
}
