/* SPDX-License-Identifier: Apache-2.0
 *
 * HTA 0.6.1: temporal breakdown and communication-computation overlap, with the rounding, filters
 * and classes of that tool. Times are whole us: an event lasts from ceil(ts) to floor(ts + dur), so
 * the end of a very short one may lie before its start. Such spans are merged and summed as HTA
 * does; they reduce the sum a little.
 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/compat/compat_private.h"

enum type { COMM, MEMORY, COMPUTE, OTHER };

struct gpu_event {
    int64_t ts, end;
    enum type type;
};

struct hta {
    const struct an_compat_view *view;
    size_t group;
    bool filter; /* two or more distinct ProfilerStep names in all ranks */
    bool include_last;
    /* first pass */
    int64_t min_ts;     /* of all ranks */
    uint8_t *step_name; /* of each string: it is a ProfilerStep#N; 2: seen */
    int64_t distinct;
    bool any_step;
    int64_t last_start, last_end;
    int64_t host_start, host_end; /* the same for a rank without steps */
                                  /* second pass */
    int64_t *kept;                /* correlations of host calls that the filter keeps, sorted */
    size_t kept_count, kept_room;
    struct gpu_event *event;
    size_t event_count, event_room;
};

static bool is_step_name(const char *name)
{
    return starts(name, "ProfilerStep#") && isdigit((unsigned char)name[13]);
}

/* HTA's classes of kernels, in its order of tests. */
static enum type type_of(const char *name)
{
    static const char *const no_compute[] = {"nccl",        "Stream Wait Event",
                                             "runFunction", "hip",
                                             "job_exe",     "packet",
                                             "pe_exe",      "cpum_exe_subgraph",
                                             "hccl",        "collective_subgraph_execution"};
    if (starts(name, "nccl") || starts(name, "hip") || starts(name, "hccl") ||
        strstr(name, "ncclKernel"))
        return COMM; /* hipMemcpy too: HTA looks for communication first */
    if (starts(name, "Memcpy") || starts(name, "Memset") || starts(name, "dma"))
        return MEMORY;
    if (strstr(name, "Memcpy") || strstr(name, "Memset") || strstr(name, "dma") ||
        strstr(name, "Sync") || (starts(name, "cuda") && strstr(name, "LaunchKernel")))
        return OTHER;
    for (size_t i = 0; i < sizeof no_compute / sizeof *no_compute; i++)
        if (starts(name, no_compute[i]))
            return OTHER;
    return COMPUTE;
}

/* ---- one event as a row of HTA's table ------------------------------------------------------- */

struct row {
    int64_t ts, end, correlation, stream; /* -1: none */
    bool gpu;                             /* its filter for GPU events takes it */
    const char *name;
};

/* A wait for all streams is on stream 4294967295 or, in newer traces, -1. */
static int64_t stream_of_device_row(const struct an_trace *trace,
                                    const struct an_compat_event *event)
{
    const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[event->slice]);
    if (event->track->tid != STORE_ABSENT)
        return event->track->tid;
    return detail && strstr(detail->payload, "\"all_streams\":true") ? (int64_t)UINT32_MAX : -1;
}

/* "stream": N in the payload of an operator that a compiler made, or -1. */
static int64_t stream_of_op(const struct an_trace *trace, size_t slice)
{
    const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[slice]);
    const char *text = detail && *detail->payload ? strstr(detail->payload, "\"stream\"") : NULL;
    if (!text)
        return -1;
    text += strlen("\"stream\"");
    text += strspn(text, " :");
    char *end;
    long long number = strtoll(text, &end, 10);
    return end == text ? -1 : number;
}

/* Reads an event as a row of HTA's table; false: HTA drops it, because it has no duration or is the
 * row of the trace itself. */
static bool row_of(const struct hta *hta, const struct an_compat_event *event, struct row *row)
{
    const struct an_trace *trace = hta->view->context->trace;
    if (event->category == AN_COMPAT_INSTANT)
        return false;
    double ts = an_compat_ts(hta->view, hta->group, event->slice);
    row->ts = (int64_t)ceil(ts);
    row->end = (int64_t)floor(ts + an_compat_dur(hta->view, event->slice));
    row->name = an_trace_name(trace, trace->slice.name[event->slice]);
    row->correlation = row->stream = -1;
    bool work = event->category == AN_COMPAT_KERNEL || event->category == AN_COMPAT_MEMCPY ||
                event->category == AN_COMPAT_MEMSET || event->category == AN_COMPAT_SYNC;
    if (event->device && work)
        row->stream = stream_of_device_row(trace, event);
    else if (event->category == AN_COMPAT_OP)
        row->stream = stream_of_op(trace, event->slice);
    if ((event->device && work) || event->category == AN_COMPAT_RUNTIME ||
        event->category == AN_COMPAT_DRIVER)
        row->correlation = trace->slice.correlation[event->slice];
    if (row->correlation == STORE_ABSENT)
        row->correlation = -1;

    row->gpu = (row->stream >= 0 && row->correlation >= 0) || !strcmp(row->name, "Event Sync") ||
               !strcmp(row->name, "Context Sync");
    return true;
}

/* ---- passes ---------------------------------------------------------------------------------- */

/* First pass over all ranks: the earliest time, and how many distinct steps there are. */
static int look(void *ctx, const struct an_compat_event *event)
{
    struct hta *hta = ctx;
    struct row row;
    if (!row_of(hta, event, &row))
        return 0;
    uint32_t name = hta->view->context->trace->slice.name[event->slice];
    if (row.ts < hta->min_ts)
        hta->min_ts = row.ts;

    if (name != AN_NONE && hta->step_name[name] == 1) {
        hta->step_name[name] = 2;
        hta->distinct++;
    }
    return 0;
}

/* The last step of the rank. HTA moves the starts of all events so that the first one is 0, but not
 * the ends. */
static int find_last_step(void *ctx, const struct an_compat_event *event)
{
    struct hta *hta = ctx;
    struct row row;
    if (!row_of(hta, event, &row) || row.gpu)
        return 0;
    uint32_t name = hta->view->context->trace->slice.name[event->slice];
    if (row.ts < hta->host_start)
        hta->host_start = row.ts;
    if (row.end > hta->host_end)
        hta->host_end = row.end;

    if (name == AN_NONE || !hta->step_name[name])
        return 0;
    if (!hta->any_step || row.ts > hta->last_start)
        hta->last_start = row.ts;
    if (!hta->any_step || row.end > hta->last_end)
        hta->last_end = row.end;

    hta->any_step = true;
    return 0;
}

/* Is a row of the host before the last step, or up to its end where that step is included? */
static bool host_stays(const struct hta *hta, const struct row *row)
{
    if (hta->include_last)
        return row->ts - hta->min_ts <= (hta->any_step ? hta->last_end : hta->host_end);
    return row->ts < (hta->any_step ? hta->last_start : hta->host_start);
}

/* Second pass: remembers the correlation of host calls that the filter keeps. */
static int keep_correlation(void *ctx, const struct an_compat_event *event)
{
    struct hta *hta = ctx;
    struct row row;
    if (!row_of(hta, event, &row) || row.gpu || row.correlation < 0 || !host_stays(hta, &row))
        return 0;
    if (an_grow(&hta->kept, &hta->kept_room, hta->kept_count + 1, sizeof *hta->kept))
        return TACHO_ENOMEM;
    hta->kept[hta->kept_count++] = row.correlation;
    return 0;
}

static int number_order(const void *left, const void *right)
{
    const int64_t *first = left, *second = right;
    return (*first > *second) - (*first < *second);
}

/* Last pass: keeps events on streams. With the filter, GPU events follow their host call, other
 * events their own time. */
static int keep_event(void *ctx, const struct an_compat_event *event)
{
    struct hta *hta = ctx;
    struct row row;
    if (!row_of(hta, event, &row) || row.stream == -1)
        return 0;
    if (hta->filter &&
        (row.gpu ? !hta->kept_count || !bsearch(&row.correlation, hta->kept, hta->kept_count,
                                                sizeof *hta->kept, number_order)
                 : !host_stays(hta, &row)))
        return 0;
    if (an_grow(&hta->event, &hta->event_room, hta->event_count + 1, sizeof *hta->event))
        return TACHO_ENOMEM;
    hta->event[hta->event_count++] = (struct gpu_event){row.ts, row.end, type_of(row.name)};
    return 0;
}

/* ---- merging --------------------------------------------------------------------------------- */

static int event_order(const void *left, const void *right)
{
    const struct gpu_event *first = left, *second = right;
    if (first->ts != second->ts)
        return first->ts < second->ts ? -1 : 1;
    /* HTA leaves equal starts in any order. */
    return (first->end < second->end) - (first->end > second->end);
}

struct merged {
    struct an_span *span; /* HTA's groups in order of start; an end may lie before its start */
    size_t count;
    int64_t sum; /* of ends - of starts */
};

/* A new group begins where an event starts after everything before it ended. `type` OTHER + 1: all
 * events. */
static int merge(const struct hta *hta, enum type type, bool all, struct merged *merged)
{
    int64_t latest = INT64_MIN;
    *merged = (struct merged){.span = malloc((hta->event_count + 1) * sizeof *merged->span)};
    if (!merged->span)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < hta->event_count; i++) {
        const struct gpu_event *gpu_event = &hta->event[i];
        if (!all && gpu_event->type != type)
            continue;
        if (!merged->count || gpu_event->ts > latest)
            merged->span[merged->count++] = (struct an_span){gpu_event->ts, gpu_event->end};
        else if (gpu_event->end > merged->span[merged->count - 1].end)
            merged->span[merged->count - 1].end = gpu_event->end;
        if (gpu_event->end > latest)
            latest = gpu_event->end;
    }
    for (size_t i = 0; i < merged->count; i++)
        merged->sum += merged->span[i].end - merged->span[i].start;
    return 0;
}

struct mark {
    int64_t time;
    int change;
};

static int mark_order(const void *left, const void *right)
{
    const struct mark *first = left, *second = right;
    return (first->time > second->time) - (first->time < second->time);
}

static size_t marks_of(const struct merged *merged, int weight, struct mark *out)
{
    size_t mark_count = 0;
    for (size_t i = 0; i < merged->count; i++) {
        out[mark_count++] = (struct mark){merged->span[i].start, weight};
        out[mark_count++] = (struct mark){merged->span[i].end, -weight};
    }
    return mark_count;
}

/* Time with exactly one communication and one computation group open, by HTA's running sum of 1
 * and 2. */
static int overlap_of(const struct merged *comm, const struct merged *compute, int64_t *out)
{
    size_t mark_count = 0;
    int running = 0;
    struct mark *mark = malloc((2 * (comm->count + compute->count) + 1) * sizeof *mark);
    *out = 0;
    if (!mark)
        return TACHO_ENOMEM;
    mark_count = marks_of(comm, 1, mark);
    mark_count += marks_of(compute, 2, mark + mark_count);
    qsort(mark, mark_count, sizeof *mark, mark_order);
    for (size_t i = 0; i + 1 < mark_count; i++) {
        running += mark[i].change;
        if (running == 3)
            *out += mark[i + 1].time - mark[i].time;
    }
    free(mark);
    return 0;
}

/* To two decimals, as numpy rounds. */
static double percent(int64_t part, int64_t whole)
{
    return whole ? rint(100 * ((double)part / (double)whole) * 100) / 100 : NAN;
}

/* Computes the breakdown and the overlap of a rank, and adds them to the result. */
static int put_rows(struct an_compat_view *view, const struct hta *hta)
{
    struct merged all = {0}, compute = {0}, comm = {0};
    int64_t overlap = 0, rank = view->group[hta->group].rank;
    int rc = merge(hta, OTHER, true, &all);
    if (!rc)
        rc = merge(hta, COMPUTE, false, &compute);
    if (!rc)
        rc = merge(hta, COMM, false, &comm);
    if (!rc)
        rc = overlap_of(&comm, &compute, &overlap);
    if (!rc) {
        int64_t kernel = all.span[all.count - 1].end - all.span[0].start, idle = kernel - all.sum;
        int64_t other = kernel - compute.sum - idle;
        const struct {
            const char *section, *key, *unit;
            double value;
        } rows[] = {
            {"temporal_breakdown", "idle_time(us)", "us", (double)idle},
            {"temporal_breakdown", "compute_time(us)", "us", (double)compute.sum},
            {"temporal_breakdown", "non_compute_time(us)", "us", (double)other},
            {"temporal_breakdown", "kernel_time(us)", "us", (double)kernel},
            {"temporal_breakdown", "idle_time_pctg", "%", percent(idle, kernel)},
            {"temporal_breakdown", "compute_time_pctg", "%", percent(compute.sum, kernel)},
            {"temporal_breakdown", "non_compute_time_pctg", "%", percent(other, kernel)},
            {"comm_comp_overlap", "comp_comm_overlap_pctg", "%", percent(overlap, comm.sum)}};
        for (size_t i = 0; i < sizeof rows / sizeof *rows && !rc; i++)
            rc = an_compat_put(view, rank, STORE_ABSENT, rows[i].section, rows[i].key, rows[i].unit,
                               rows[i].value);
    }
    free(all.span);
    free(compute.span);
    free(comm.span);
    return rc;
}

/* One rank: finds the last step and filters by it, then merges the events that are kept. */
static int rank_rows(struct an_compat_view *view, struct hta *hta)
{
    int rc = 0;
    hta->any_step = false;
    hta->kept_count = hta->event_count = 0;
    hta->host_start = INT64_MAX;
    hta->host_end = INT64_MIN;
    if (hta->filter) {
        rc = an_compat_each(view, hta->group, find_last_step, hta);
        if (!rc)
            rc = an_compat_each(view, hta->group, keep_correlation, hta);
        if (hta->kept_count)
            qsort(hta->kept, hta->kept_count, sizeof *hta->kept, number_order);
    }
    if (!rc)
        rc = an_compat_each(view, hta->group, keep_event, hta);
    if (rc || !hta->event_count)
        return rc;
    qsort(hta->event, hta->event_count, sizeof *hta->event, event_order);
    return put_rows(view, hta);
}

int an_compat_hta(struct an_compat_view *view, bool include_last)
{
    const struct an_trace *trace = view->context->trace;
    struct hta hta = {.view = view, .include_last = include_last, .min_ts = INT64_MAX};
    int rc = (hta.step_name = an_arena_zero(view->context->scratch, trace->string_count, 1))
                 ? 0
                 : TACHO_ENOMEM;
    for (size_t i = 0; i < trace->string_count && !rc; i++)
        hta.step_name[i] = is_step_name(trace->string[i]);
    for (hta.group = 0; hta.group < view->group_count && !rc; hta.group++)
        rc = an_compat_each(view, hta.group, look, &hta);
    hta.filter = hta.distinct >= 2;
    for (hta.group = 0; hta.group < view->group_count && !rc; hta.group++)
        rc = rank_rows(view, &hta);
    free(hta.kept);
    free(hta.event);
    return rc;
}
