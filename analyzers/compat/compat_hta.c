/* SPDX-License-Identifier: Apache-2.0
 *
 * HTA 0.6.1: temporal breakdown and communication-computation overlap, as it rounds, filters and
 * classifies. Times are whole us: an event lasts from ceil(ts) to floor(ts + dur), which puts the
 * end of a very short one before its start; such spans are merged and summed as HTA does, they take
 * a little away.
 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/compat/compat.h"

enum type { COMM, MEMORY, COMPUTE, OTHER };

struct gpu_event {
    int64_t ts, end;
    enum type type;
};

struct hta {
    const struct an_compat_view *v;
    size_t g;
    bool filter; /* two or more distinct ProfilerStep names in all ranks */
    bool include_last;
    /* first pass */
    int64_t min_ts;     /* of all ranks */
    uint8_t *step_name; /* of each string: it is a ProfilerStep#N; 2: seen */
    int64_t distinct;
    bool any_step;
    int64_t last_start, last_end;
    int64_t host_start, host_end; /* what takes their place in a rank without steps */
    /* second pass */
    int64_t *kept; /* correlations of host calls that stay, sorted */
    size_t kept_count, kept_room;
    struct gpu_event *event;
    size_t event_count, event_room;
};

static bool starts(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

static bool is_step_name(const char *name)
{
    return starts(name, "ProfilerStep#") && isdigit((unsigned char)name[13]);
}

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

/* ---- one event as a row of HTA's table ------------------------------------------------------------------------------------- */

struct row {
    int64_t ts, end, correlation, stream; /* -1: none */
    bool gpu;                             /* its filter for GPU events takes it */
    const char *name;
};

/* A wait for all streams is on stream 4294967295 or, in newer traces, -1. */
static int64_t stream_of_device_row(const struct an_trace *t, const struct an_compat_event *e)
{
    const struct an_detail *d = an_trace_detail(t, t->slice.detail[e->slice]);
    if (e->track->tid != STORE_ABSENT)
        return e->track->tid;
    return d && strstr(d->payload, "\"all_streams\":true") ? (int64_t)UINT32_MAX : -1;
}

/* "stream": N in the payload of an operator that a compiler made, or -1. */
static int64_t stream_of_op(const struct an_trace *t, size_t slice)
{
    const struct an_detail *d = an_trace_detail(t, t->slice.detail[slice]);
    const char *at = d && *d->payload ? strstr(d->payload, "\"stream\"") : NULL;
    if (!at)
        return -1;
    at += strlen("\"stream\"");
    at += strspn(at, " :");
    char *end;
    long long n = strtoll(at, &end, 10);
    return end == at ? -1 : n;
}

static bool row_of(const struct hta *h, const struct an_compat_event *e, struct row *r)
{
    const struct an_trace *t = h->v->c->t;
    if (e->category ==
        AN_COMPAT_INSTANT) /* has no dur, or is the row of the trace itself: HTA drops them */
        return false;
    double ts = an_compat_ts(h->v, h->g, e->slice);
    r->ts = (int64_t)ceil(ts);
    r->end = (int64_t)floor(ts + an_compat_dur(h->v, e->slice));
    r->name = an_trace_name(t, t->slice.name[e->slice]);
    r->correlation = r->stream = -1;
    bool work = e->category == AN_COMPAT_KERNEL || e->category == AN_COMPAT_MEMCPY ||
                e->category == AN_COMPAT_MEMSET || e->category == AN_COMPAT_SYNC;
    if (e->device && work)
        r->stream = stream_of_device_row(t, e);
    else if (e->category == AN_COMPAT_OP)
        r->stream = stream_of_op(t, e->slice);
    if ((e->device && work) || e->category == AN_COMPAT_RUNTIME || e->category == AN_COMPAT_DRIVER)
        r->correlation =
            t->slice.correlation[e->slice] == STORE_ABSENT ? -1 : t->slice.correlation[e->slice];
    r->gpu = (r->stream >= 0 && r->correlation >= 0) || !strcmp(r->name, "Event Sync") ||
             !strcmp(r->name, "Context Sync");
    return true;
}

/* ---- passes ---------------------------------------------------------------------------------------------------------------- */

static int look(void *ctx, const struct an_compat_event *e)
{
    struct hta *h = ctx;
    struct row r;
    if (!row_of(h, e, &r))
        return 0;
    uint32_t name = h->v->c->t->slice.name[e->slice];
    h->min_ts = r.ts < h->min_ts ? r.ts : h->min_ts;
    if (name != AN_NONE && h->step_name[name] == 1) {
        h->step_name[name] = 2;
        h->distinct++;
    }
    return 0;
}

/* The last step of the rank. HTA moves the starts of all events so that the first one is 0, but not
 * the ends. */
static int find_last_step(void *ctx, const struct an_compat_event *e)
{
    struct hta *h = ctx;
    struct row r;
    if (!row_of(h, e, &r) || r.gpu)
        return 0;
    uint32_t name = h->v->c->t->slice.name[e->slice];
    h->host_start = r.ts < h->host_start ? r.ts : h->host_start;
    h->host_end = r.end > h->host_end ? r.end : h->host_end;
    if (name == AN_NONE || !h->step_name[name])
        return 0;
    h->last_start = !h->any_step || r.ts > h->last_start ? r.ts : h->last_start;
    h->last_end = !h->any_step || r.end > h->last_end ? r.end : h->last_end;
    h->any_step = true;
    return 0;
}

static bool host_stays(const struct hta *h, const struct row *r)
{
    int64_t start = h->any_step ? h->last_start : h->host_start,
            end = h->any_step ? h->last_end : h->host_end;
    return h->include_last ? r->ts - h->min_ts <= end : r->ts < start;
}

static int keep_correlation(void *ctx, const struct an_compat_event *e)
{
    struct hta *h = ctx;
    struct row r;
    if (!row_of(h, e, &r) || r.gpu || r.correlation < 0 || !host_stays(h, &r))
        return 0;
    if (an_grow(&h->kept, &h->kept_room, h->kept_count + 1, sizeof *h->kept))
        return TACHO_ENOMEM;
    h->kept[h->kept_count++] = r.correlation;
    return 0;
}

static int number_order(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static int keep_event(void *ctx, const struct an_compat_event *e)
{
    struct hta *h = ctx;
    struct row r;
    if (!row_of(h, e, &r) || r.stream == -1)
        return 0;
    if (h->filter && (r.gpu ? !h->kept_count || !bsearch(&r.correlation, h->kept, h->kept_count,
                                                         sizeof *h->kept, number_order)
                            : !host_stays(h, &r)))
        return 0;
    if (an_grow(&h->event, &h->event_room, h->event_count + 1, sizeof *h->event))
        return TACHO_ENOMEM;
    h->event[h->event_count++] = (struct gpu_event){r.ts, r.end, type_of(r.name)};
    return 0;
}

/* ---- merging --------------------------------------------------------------------------------------------------------------- */

static int event_order(const void *a, const void *b)
{
    const struct gpu_event *x = a, *y = b;
    if (x->ts != y->ts)
        return x->ts < y->ts ? -1 : 1;
    return (x->end < y->end) - (x->end > y->end); /* HTA leaves equal starts in any order */
}

struct merged {
    struct an_span *span; /* HTA's groups in order of start; an end may lie before its start */
    size_t count;
    int64_t sum; /* of ends - of starts */
};

/* A new group begins where an event starts after everything before it ended. `type` OTHER + 1: all
 * events. */
static int merge(const struct hta *h, enum type type, bool all, struct merged *m)
{
    int64_t latest = INT64_MIN;
    *m = (struct merged){.span = malloc((h->event_count + 1) * sizeof *m->span)};
    if (!m->span)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < h->event_count; i++) {
        const struct gpu_event *e = &h->event[i];
        if (!all && e->type != type)
            continue;
        if (!m->count || e->ts > latest)
            m->span[m->count++] = (struct an_span){e->ts, e->end};
        else if (e->end > m->span[m->count - 1].end)
            m->span[m->count - 1].end = e->end;
        latest = e->end > latest ? e->end : latest;
    }
    for (size_t i = 0; i < m->count; i++)
        m->sum += m->span[i].end - m->span[i].start;
    return 0;
}

struct mark {
    int64_t time;
    int change;
};

static int mark_order(const void *a, const void *b)
{
    const struct mark *x = a, *y = b;
    return (x->time > y->time) - (x->time < y->time);
}

static size_t marks_of(const struct merged *m, int weight, struct mark *out)
{
    size_t n = 0;
    for (size_t i = 0; i < m->count; i++) {
        out[n++] = (struct mark){m->span[i].start, weight};
        out[n++] = (struct mark){m->span[i].end, -weight};
    }
    return n;
}

/* Time with exactly one communication and one computation group open, by HTA's running sum of 1
 * and 2. */
static int overlap_of(const struct merged *comm, const struct merged *compute, int64_t *out)
{
    size_t n = 0;
    int running = 0;
    struct mark *mark = malloc((2 * (comm->count + compute->count) + 1) * sizeof *mark);
    *out = 0;
    if (!mark)
        return TACHO_ENOMEM;
    n = marks_of(comm, 1, mark);
    n += marks_of(compute, 2, mark + n);
    qsort(mark, n, sizeof *mark, mark_order);
    for (size_t i = 0; i + 1 < n; i++) {
        running += mark[i].change;
        *out += running == 3 ? mark[i + 1].time - mark[i].time : 0;
    }
    free(mark);
    return 0;
}

/* To two decimals, as numpy rounds. */
static double percent(int64_t part, int64_t whole)
{
    return whole ? rint(100 * ((double)part / (double)whole) * 100) / 100 : NAN;
}

static int put_rows(struct an_compat_view *v, const struct hta *h)
{
    struct merged all = {0}, compute = {0}, comm = {0};
    int64_t overlap = 0, rank = v->group[h->g].rank;
    int rc = merge(h, OTHER, true, &all);
    if (!rc)
        rc = merge(h, COMPUTE, false, &compute);
    if (!rc)
        rc = merge(h, COMM, false, &comm);
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
            rc = an_compat_put(v, rank, STORE_ABSENT, rows[i].section, rows[i].key, rows[i].unit,
                               rows[i].value);
    }
    free(all.span);
    free(compute.span);
    free(comm.span);
    return rc;
}

static int rank_rows(struct an_compat_view *v, struct hta *h)
{
    int rc = 0;
    h->any_step = false;
    h->kept_count = h->event_count = 0;
    h->host_start = INT64_MAX;
    h->host_end = INT64_MIN;
    if (h->filter) {
        rc = an_compat_each(v, h->g, find_last_step, h);
        if (!rc)
            rc = an_compat_each(v, h->g, keep_correlation, h);
        if (h->kept_count)
            qsort(h->kept, h->kept_count, sizeof *h->kept, number_order);
    }
    if (!rc)
        rc = an_compat_each(v, h->g, keep_event, h);
    if (rc || !h->event_count)
        return rc;
    qsort(h->event, h->event_count, sizeof *h->event, event_order);
    return put_rows(v, h);
}

int an_compat_hta(struct an_compat_view *v, bool include_last)
{
    const struct an_trace *t = v->c->t;
    struct hta h = {.v = v, .include_last = include_last, .min_ts = INT64_MAX};
    int rc = (h.step_name = an_arena_zero(v->c->work, t->string_count, 1)) ? 0 : TACHO_ENOMEM;
    for (size_t i = 0; i < t->string_count && !rc; i++)
        h.step_name[i] = is_step_name(t->string[i]);
    for (h.g = 0; h.g < v->group_count && !rc; h.g++)
        rc = an_compat_each(v, h.g, look, &h);
    h.filter = h.distinct >= 2;
    for (h.g = 0; h.g < v->group_count && !rc; h.g++)
        rc = rank_rows(v, &h);
    free(h.kept);
    free(h.event);
    return rc;
}
