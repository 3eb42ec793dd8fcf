/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams that wait for events of other streams (device_edges.h): from the rows of waits where the
 * trace has them (Kineto with cuda_sync, Nsight Systems, tacho's own recordings), else from the
 * calls, else from the times alone.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/device/device_edges.h"

#define RELEASE_NS \
    20000 /* an op that began so soon behind another stream's end may have waited for it */

/* A stream waits for an event. */
struct wait {
    uint32_t on;      /* the stream that waits; AN_NONE: not known */
    uint32_t of;      /* the stream that recorded the event; AN_NONE: not known */
    int64_t called;   /* when the host said so */
    int64_t recorded; /* the event is behind what was launched before this */
    bool inferred;    /* which record it was is not in the file */
};

/* Of the ops launched before `before` on other streams of the process, each stream's last: the one
 * that ended last before op q began. AN_NONE: none ended in time. *late: some stream's last op
 * ended later, so that it may be the one. */
static uint32_t producer_by_time(const struct an_edge_builder *b, uint32_t q, int64_t before,
                                 bool *late)
{
    const struct an_trace *t = b->c->t;
    const struct an_device_ops *op = &b->c->gpu->op;
    uint32_t best = AN_NONE, own = op->track[q];
    *late = false;
    size_t process = an_edge_process(t, own);
    for (size_t i = b->stream_of[process]; i < b->stream_of[process + 1]; i++) {
        uint32_t s = b->stream[i];
        if (s == own)
            continue;
        size_t at = an_edge_launched(b, s, before);
        if (at == b->first[s])
            continue;
        uint32_t p = b->op[at - 1];
        if (op->end[p] > an_time_add(op->start[q], AN_EDGE_SLACK_NS))
            *late = true;
        else if (best == AN_NONE || op->end[p] > op->end[best])
            best = p;
    }
    return best;
}

/* Which op a wait holds back, and by which. */
static int resolve(struct an_edge_builder *b, const struct wait *w)
{
    const struct an_device_ops *op = &b->c->gpu->op;
    struct an_device_edges *e = b->e;
    size_t at = an_edge_launched(b, w->on, w->called);
    if (at == b->first[w->on + 1])
        return 0; /* nothing was launched behind it */
    uint32_t q = b->op[at];
    if (w->of != AN_NONE) {
        size_t last = an_edge_launched(b, w->of, w->recorded);
        if (w->of == w->on || last == b->first[w->of])
            return 0; /* order of the stream; or an event behind nothing that was recorded */
        uint32_t p = b->op[last - 1];
        bool agrees = op->end[p] <= an_time_add(op->start[q], AN_EDGE_SLACK_NS);
        if (agrees)
            return an_edge_add(b, p, q, w->inferred);
        e->unresolved[q] = 1;
        return 0;
    }
    bool late;
    uint32_t p = producer_by_time(b, q, w->recorded, &late);
    int64_t free_at = e->before[q] != AN_NONE ? op->end[e->before[q]] : INT64_MIN;
    if (p != AN_NONE && op->end[p] > free_at)
        return an_edge_add(b, p, q, true);
    e->unresolved[q] |= p == AN_NONE && late;
    return 0;
}

/* ---- from rows -------------------------------------------------------------------------------------------------------------- */

static bool is_wait_row(const struct an_trace *t, uint32_t row)
{
    return !strcmp(an_trace_name(t, t->slice.name[row]), "Stream Wait Event");
}

/* The last call before `slice` on its thread that records an event; AN_NONE: there is none near. */
static uint32_t record_before(const struct an_edge_builder *b, uint32_t slice)
{
    size_t low = 0, high = b->call_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (b->call[middle].slice < slice)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == b->call_count || b->call[low].slice != slice)
        return AN_NONE;
    uint32_t track = b->call[low].track;
    for (size_t i = low; i-- > 0 && b->call[i].track == track && low - i < 64;)
        if (b->call[i].kind == AN_API_RECORD)
            return b->call[i].slice;
    return AN_NONE;
}

static int wait_of_row(struct an_edge_builder *b, size_t i)
{
    const struct an_trace *t = b->c->t;
    uint32_t row = b->row[i], on = b->row_track[i], process = t->track[on].process;
    uint32_t call = an_edge_call_of(b, process, t->slice.correlation[row]);
    uint32_t record = an_edge_call_of(b, process, an_edge_number(t, row, "record_correlation"));
    int64_t stream = an_edge_number(t, row, "stream");
    struct wait w = {
        .on = on, .of = AN_NONE, .called = t->slice.start[call == AN_NONE ? row : call]};
    if (b->first[on] == b->first[on + 1])
        return 0; /* no op of this stream has a launch in the file */
    w.inferred = record == AN_NONE;
    if (record == AN_NONE && call != AN_NONE)
        record = record_before(b, call);
    w.recorded = record == AN_NONE ? w.called : t->slice.start[record];
    if (stream != STORE_ABSENT) {
        w.of = an_edge_stream(b, on, stream);
        if (w.of == AN_NONE)
            return 0; /* a stream on which nothing was launched */
    }
    return resolve(b, &w);
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

static int flush(struct an_edge_builder *b, const struct pending *w, size_t n,
                 const struct launches_of_thread *l)
{
    const struct an_devices *g = b->c->gpu;
    uint32_t taken = AN_NONE;
    for (size_t i = n, used = 0; i-- > 0 && used < 2; used++) {
        uint32_t on = AN_NONE;
        for (size_t k = l->at; k < l->end && k - l->at < 256 && on == AN_NONE; k++) {
            uint32_t track = g->op.track[g->launch_op[g->launch_first[k]]];
            on = track != taken ? track : AN_NONE;
        }
        if (on == AN_NONE)
            break;
        taken = on;
        struct wait x = {on, AN_NONE, w[i].called, w[i].recorded, true};
        int rc = resolve(b, &x);
        if (rc)
            return rc;
    }
    return 0;
}

/* Waits of one thread: its calls are b->call[from .. to). */
static int waits_of_thread(struct an_edge_builder *b, size_t from, size_t to)
{
    const struct an_devices *g = b->c->gpu;
    const struct an_trace *t = b->c->t;
    const struct an_track *k = &t->track[b->call[from].track];
    struct launches_of_thread l = {an_launch_seek(g, k->slice_first),
                                   an_launch_seek(g, k->slice_first + k->slice_count)};
    struct pending w[64];
    size_t n = 0;
    uint32_t record = AN_NONE;
    int rc = 0;
    for (size_t i = from; i < to && !rc; i++) {
        uint32_t slice = b->call[i].slice;
        if (b->call[i].kind == AN_API_RECORD)
            record = slice;
        if (b->call[i].kind != AN_API_WAIT || an_call_outermost(t, slice) != slice)
            continue;
        size_t next = l.at;
        while (next < l.end && g->launch_slice[next] < slice)
            next++;
        if (n && next > l.at && w[n - 1].called < t->slice.start[g->launch_slice[next - 1]]) {
            size_t first = l.at;
            while (first < next && t->slice.start[g->launch_slice[first]] < w[n - 1].called)
                first++;
            rc = flush(b, w, n, &(struct launches_of_thread){first, l.end});
            n = 0;
        }
        l.at = next;
        if (n == sizeof w / sizeof *w)
            memmove(w, w + 1, --n * sizeof *w);
        w[n++] = (struct pending){t->slice.start[slice],
                                  t->slice.start[record == AN_NONE ? slice : record]};
    }
    if (n && !rc)
        rc = flush(b, w, n, &l);
    return rc;
}

static int waits_of_calls(struct an_edge_builder *b, const uint8_t *has_rows)
{
    const struct an_trace *t = b->c->t;
    int rc = 0;
    for (size_t i = 0, next; i < b->call_count && !rc; i = next) {
        for (next = i + 1; next < b->call_count && b->call[next].track == b->call[i].track;)
            next++;
        size_t process = an_edge_process(t, b->call[i].track);
        if (!has_rows[process])
            rc = waits_of_thread(b, i, next);
    }
    return rc;
}

/* ---- from times alone -------------------------------------------------------------------------------------------------------- */

/* Ops of a device by their end. */
static int end_order(const void *x, const void *y, void *ctx)
{
    const struct an_device_ops *op = ctx;
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    if (op->end[a] != op->end[b])
        return op->end[a] < op->end[b] ? -1 : 1;
    return (a > b) - (a < b);
}

/* The op of another stream that ended last before op q began; n: number of ops in by_end. */
static uint32_t ended_before(const struct an_device_ops *op, const uint32_t *by_end, size_t n,
                             uint32_t q)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (op->end[by_end[middle]] <= op->start[q])
            low = middle + 1;
        else
            high = middle;
    }
    int64_t since = an_time_sub(op->start[q], RELEASE_NS);
    for (size_t i = low; i-- > 0 && op->end[by_end[i]] >= since;)
        if (op->track[by_end[i]] != op->track[q] && op->start[by_end[i]] < op->start[q])
            return by_end[i];
    return AN_NONE;
}

static int waits_of_times(struct an_edge_builder *b, const struct an_device *d)
{
    const struct an_device_ops *op = &b->c->gpu->op;
    const struct an_trace *t = b->c->t;
    if (d->streams < 2)
        return 0;
    uint32_t *by_end = malloc((d->count + 1) * sizeof *by_end);
    int rc = by_end ? 0 : TACHO_ENOMEM;
    for (size_t i = 0; i < d->count && by_end; i++)
        by_end[i] = (uint32_t)(d->first + i);
    if (by_end)
        qsort_r(by_end, d->count, sizeof *by_end, end_order, (void *)(uintptr_t)op);
    for (uint32_t q = (uint32_t)d->first; q < d->first + d->count && !rc; q++) {
        uint32_t launch = op->launch[q];
        if (launch == AN_NONE)
            continue;
        int64_t free_at = b->e->before[q] != AN_NONE ? op->end[b->e->before[q]] : INT64_MIN;
        uint32_t p = ended_before(op, by_end, d->count, q);
        if (p != AN_NONE && op->end[p] > free_at && op->end[p] > an_slice_end(t, launch))
            rc = an_edge_add(b, p, q, true);
    }
    free(by_end);
    return rc;
}

/* ---- all of it --------------------------------------------------------------------------------------------------------------- */

int an_edges_waits(struct an_edge_builder *b)
{
    const struct an_trace *t = b->c->t;
    uint8_t *rows = calloc(t->process_count + 1, 1), *any = calloc(t->process_count + 1, 1);
    int rc = rows && any ? 0 : TACHO_ENOMEM;
    for (size_t i = 0; i < b->row_count && !rc; i++) {
        size_t process = an_edge_process(t, b->row_track[i]);
        if (!is_wait_row(t, b->row[i]))
            continue;
        rows[process] = 1;
        rc = wait_of_row(b, i);
    }
    rc = rc ? rc : waits_of_calls(b, rows);
    for (size_t i = 0; i < b->call_count && !rc; i++) {
        size_t process = an_edge_process(t, b->call[i].track);
        any[process] |= b->call[i].kind == AN_API_WAIT;
    }
    for (size_t d = 0; d < b->c->gpu->device_count && !rc; d++) {
        uint32_t process = b->c->gpu->device[d].process;
        size_t p = process < t->process_count ? process : t->process_count;
        if (!rows[p] && !any[p])
            rc = waits_of_times(b, &b->c->gpu->device[d]);
    }
    free(rows);
    free(any);
    return rc;
}
