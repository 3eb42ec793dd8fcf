/* SPDX-License-Identifier: Apache-2.0
 *
 * Launches: host calls that put work on a device, over the whole capture. A call counts once, also
 * when it launches a graph of many kernels, and it is matched when at least one of its ops is in
 * the file. It waits in its stream's queue from its own start to the start of its first op; so a
 * launch without an op never enters the queue, an op without a launch never leaves it, and the
 * queue is never shorter than nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/device/api.h"
#include "analyzers/steps/analyzer.h"

#define QUEUE_FULL 1024 /* launches that a CUDA stream takes before the call blocks */

/* One matched call in the queue of a stream. */
struct waiting {
    size_t count;
    uint32_t *track, *device; /* stream and device (index into an_devices.device) of its first op */
    int64_t *enter, *leave;
};

struct queue {
    double area, time; /* sum of waiting times; of the streams' windows */
    int64_t longest;
    double full, window; /* of devices */
};

/* ---- calls by name ------------------------------------------------------------------------------------------------------ */

static int row_order(const void *x, const void *y)
{
    const struct an_launch_row *a = x, *b = y;
    if (a->host_ns != b->host_ns)
        return a->host_ns > b->host_ns ? -1 : 1;
    return a->count != b->count ? (a->count > b->count ? -1 : 1) : strcmp(a->name, b->name);
}

/* Is slice i a launching call? Because something on a device says so (*k walks along launch_slice),
 * or by its name; a call inside another call is part of that one. */
static bool launches(const struct an_context *c, size_t i, size_t *k)
{
    const struct an_devices *g = c->gpu;
    while (*k < g->launch_count && g->launch_slice[*k] < i)
        ++*k;
    if (*k < g->launch_count && g->launch_slice[*k] == i)
        return true;
    uint32_t parent = c->t->slice.parent[i];
    return an_slice_launches(c->t, i) &&
           (parent == AN_NONE || !an_category_is_call(an_slice_category(c->t, parent)));
}

static int count_calls(struct an_context *c)
{
    const struct an_trace *t = c->t;
    struct an_launches *r = &c->r->launches;
    struct an_launch_row *row = NULL;
    size_t rows = 0, room = 0, at = 0;
    int64_t timed = 0, host = 0;
    uint32_t *of_name =
        calloc(t->string_count + 1, sizeof *of_name); /* row + 1 of a name; the last one: no name */
    int rc = of_name ? 0 : TACHO_ENOMEM;
    for (size_t i = 0; i < t->slice.count && !rc; i++) {
        if (!launches(c, i, &at))
            continue;
        uint32_t name =
            t->slice.name[i] < t->string_count ? t->slice.name[i] : (uint32_t)t->string_count;
        if (!of_name[name] && !(rc = an_grow(&row, &room, rows + 1, sizeof *row))) {
            const char *text = an_trace_name(t, name);
            row[rows] = (struct an_launch_row){.name = an_arena_text(c->a, text)};
            of_name[name] = (uint32_t)++rows;
        }
        if (rc)
            break;
        struct an_launch_row *x = &row[of_name[name] - 1];
        x->count++;
        r->calls++;
        r->graphs += an_slice_api(t, i).kind == AN_API_GRAPH;
        if (t->slice.dur[i] == AN_OPEN)
            continue;
        timed++;
        x->host_ns = an_time_add(x->host_ns, t->slice.dur[i]);
        host = an_time_add(host, t->slice.dur[i]);
    }
    if (!rc && rows)
        qsort(row, rows, sizeof *row, row_order);
    if (!rc && rows && !(r->rows = an_arena_copy(c->a, row, rows * sizeof *row)))
        rc = TACHO_ENOMEM;
    r->row_count = rc ? 0 : rows;
    r->host_mean_us = timed ? an_num((double)host / (double)timed / 1e3)
                            : an_num_none("no launching call is in the file");
    free(row);
    free(of_name);
    return rc;
}

/* ---- matched calls ------------------------------------------------------------------------------------------------------ */

/* First op of launch k on its device. */
static size_t first_op(const struct an_devices *g, size_t k)
{
    size_t first = g->launch_op[g->launch_first[k]];
    for (size_t j = g->launch_first[k]; j < g->launch_first[k + 1]; j++)
        if (g->op.start[g->launch_op[j]] < g->op.start[first])
            first = g->launch_op[j];
    return first;
}

static uint32_t device_of(const struct an_devices *g, size_t op)
{
    uint32_t d = 0;
    while (d + 1 < g->device_count && op >= g->device[d].first + g->device[d].count)
        d++;
    return d;
}

/* Kernels of a call that is no graph launch, against the call's own time on the host. */
static void count_short(const struct an_context *c, size_t k, int64_t host, int64_t *kernels,
                        int64_t *brief)
{
    const struct an_devices *g = c->gpu;
    for (size_t j = g->launch_first[k]; j < g->launch_first[k + 1]; j++) {
        size_t op = g->launch_op[j];
        if (strcmp(an_slice_category(c->t, g->op.slice[op]), "kernel") != 0)
            continue;
        ++*kernels;
        *brief += an_time_sub(g->op.end[op], g->op.start[op]) < host;
    }
}

/* Delays and short kernels; fills w, which has room for all launches. */
static int match_calls(struct an_context *c, struct waiting *w)
{
    const struct an_trace *t = c->t;
    const struct an_devices *g = c->gpu;
    struct an_launches *r = &c->r->launches;
    double *delay = malloc((g->launch_count + 1) * sizeof *delay);
    int64_t sum = 0, kernels = 0, brief = 0;
    size_t n = 0;
    if (!delay)
        return TACHO_ENOMEM;
    for (size_t k = 0; k < g->launch_count; k++) {
        size_t call = g->launch_slice[k];
        if (g->launch_first[k] == g->launch_first[k + 1])
            continue;
        size_t op = first_op(g, k);
        int64_t start = t->slice.start[call], at = g->op.start[op];
        r->matched++;
        w->track[w->count] = g->op.track[op];
        w->device[w->count] = device_of(g, op);
        w->enter[w->count] = start;
        w->leave[w->count++] = at > start ? at : start;
        if (t->slice.dur[call] == AN_OPEN)
            continue;
        int64_t wait = an_time_sub(at, an_time_add(start, t->slice.dur[call]));
        delay[n++] = wait > 0 ? (double)wait : 0;
        sum = an_time_add(sum, wait > 0 ? wait : 0);
        if (an_slice_api(t, call).kind != AN_API_GRAPH)
            count_short(c, k, t->slice.dur[call], &kernels, &brief);
    }
    const char *none = "no device op of this file has its launching call in it";
    r->delay_mean_us = n ? an_num((double)sum / (double)n / 1e3) : an_num_none(none);
    r->delay_median_us = n ? an_num(an_quantile_of(delay, n, 0.5) / 1e3) : an_num_none(none);
    r->delay_p95_us = n ? an_num(an_quantile_of(delay, n, 0.95) / 1e3) : an_num_none(none);
    r->delay_max_us = n ? an_num(an_quantile_of(delay, n, 1) / 1e3) : an_num_none(none);
    const char *no_kernel = "no kernel of this file has its launching call in it";
    r->short_kernels = kernels ? an_int(brief) : an_int_none(no_kernel);
    r->short_pct = kernels ? an_num(100 * (double)brief / (double)kernels) : an_num_none(no_kernel);
    free(delay);
    return 0;
}

/* ---- queues ------------------------------------------------------------------------------------------------------------- */

static int time_order(const void *x, const void *y)
{
    int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return (a > b) - (a < b);
}

static void sort_times(int64_t *x, size_t n)
{
    size_t sorted = 1;
    while (sorted < n && x[sorted - 1] <= x[sorted])
        sorted++;
    if (sorted < n)
        qsort(x, n, sizeof *x, time_order);
}

/* One stream: n calls that enter and leave, each by time. The times at which it is full are
 * appended to `full`. */
static size_t sweep_stream(struct queue *q, const int64_t *enter, const int64_t *leave, size_t n,
                           struct an_span *full)
{
    size_t in = 0, out = 0, spans = 0;
    int64_t since = 0;
    while (out < n) {
        bool enters = in < n && enter[in] < leave[out];
        int64_t before = (int64_t)(in - out);
        if (enters) {
            since = before + 1 == QUEUE_FULL ? enter[in] : since;
            in++;
            q->longest = before + 1 > q->longest ? before + 1 : q->longest;
        } else {
            if (before == QUEUE_FULL)
                full[spans++] = (struct an_span){since, leave[out]};
            out++;
        }
    }
    return spans;
}

/* Gathers the calls of each stream behind each other: first[k] .. first[k + 1] are those of track
 * k. Calls that never waited are left out of it. */
static void group_streams(const struct waiting *w, size_t tracks, size_t *first, int64_t *enter,
                          int64_t *leave)
{
    memset(first, 0, (tracks + 1) * sizeof *first);
    for (size_t i = 0; i < w->count; i++)
        first[w->track[i] + 1] += w->leave[i] > w->enter[i];
    for (size_t k = 0; k < tracks; k++)
        first[k + 1] += first[k];
    for (size_t i = 0; i < w->count; i++) {
        if (w->leave[i] == w->enter[i])
            continue;
        enter[first[w->track[i]]] = w->enter[i];
        leave[first[w->track[i]]++] = w->leave[i];
    }
    for (size_t k = tracks; k; k--)
        first[k] = first[k - 1];
    first[0] = 0;
}

/* Window of each stream (track) or device: first call that enters to the last that leaves. */
static void windows(const struct waiting *w, const uint32_t *of, struct an_span *window, size_t n)
{
    for (size_t k = 0; k < n; k++)
        window[k] = (struct an_span){INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < w->count; i++) {
        struct an_span *x = &window[of[i]];
        x->start = w->enter[i] < x->start ? w->enter[i] : x->start;
        x->end = w->leave[i] > x->end ? w->leave[i] : x->end;
    }
}

static double sum_windows(const struct an_span *window, size_t n)
{
    double sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += window[k].end > window[k].start ? (double)an_time_sub(window[k].end, window[k].start)
                                               : 0;
    return sum;
}

static int sweep_queues(const struct an_context *c, const struct waiting *w, struct queue *q)
{
    const struct an_devices *g = c->gpu;
    size_t tracks = c->t->track_count, most = tracks > g->device_count ? tracks : g->device_count;
    size_t *first = calloc(tracks + 1, sizeof *first);
    uint32_t *device = calloc(tracks + 1, sizeof *device);
    int64_t *enter = calloc(w->count + 1, sizeof *enter),
            *leave = calloc(w->count + 1, sizeof *leave);
    struct an_span *window = calloc(most + 1, sizeof *window),
                   *full = calloc(w->count + 1, sizeof *full);
    int rc = first && device && enter && leave && window && full ? 0 : TACHO_ENOMEM;
    if (rc)
        goto out;
    for (size_t i = 0; i < w->count; i++) {
        q->area += (double)an_time_sub(w->leave[i], w->enter[i]);
        device[w->track[i]] = w->device[i];
    }
    windows(w, w->track, window, tracks);
    q->time = sum_windows(window, tracks);
    windows(w, w->device, window, g->device_count);
    q->window = sum_windows(window, g->device_count);
    group_streams(w, tracks, first, enter, leave);
    for (uint32_t d = 0; d < g->device_count; d++) {
        size_t n = 0;
        for (size_t k = 0; k < tracks; k++) {
            size_t calls = first[k + 1] - first[k];
            if (!calls || device[k] != d)
                continue;
            sort_times(enter + first[k], calls);
            sort_times(leave + first[k], calls);
            n += sweep_stream(q, enter + first[k], leave + first[k], calls, full + n);
        }
        n = an_spans_normalize(full, n);
        q->full += (double)an_spans_measure(full, n);
    }
out:
    free(first);
    free(device);
    free(enter);
    free(leave);
    free(window);
    free(full);
    return rc;
}

/* ---- the analyzer ------------------------------------------------------------------------------------------------------- */

static void launches_absent(struct an_context *c, const char *reason)
{
    struct an_launches *r = &c->r->launches;
    struct an_value none = an_num_none(reason);
    *r = (struct an_launches){.reason = reason,
                              .host_mean_us = none,
                              .delay_mean_us = none,
                              .delay_median_us = none,
                              .delay_p95_us = none,
                              .delay_max_us = none,
                              .queue_mean = none,
                              .queue_max = none,
                              .full_queue_pct = none,
                              .short_kernels = an_int_none(reason),
                              .short_pct = none};
}

static int launches_run(struct an_context *c)
{
    struct an_launches *r = &c->r->launches;
    size_t n = c->gpu->launch_count;
    struct waiting w = {.track = malloc((n + 1) * sizeof *w.track),
                        .device = malloc((n + 1) * sizeof *w.device),
                        .enter = malloc((n + 1) * sizeof *w.enter),
                        .leave = malloc((n + 1) * sizeof *w.leave)};
    struct queue q = {.area = 0};
    int rc = w.track && w.device && w.enter && w.leave ? count_calls(c) : TACHO_ENOMEM;
    if (!rc && !r->calls) {
        launches_absent(
            c, "the trace holds no calls that launch device work (record CPU activities too: "
               "ProfilerActivity.CPU, nsys --trace=cuda)");
    } else if (!rc && !(rc = match_calls(c, &w)) && !(rc = sweep_queues(c, &w, &q))) {
        const char *none = "no device op of this file waited for its start";
        r->queue_mean = q.time > 0 ? an_num(q.area / q.time) : an_num_none(none);
        r->queue_max = r->matched ? an_num((double)q.longest) : an_num_none(none);
        r->full_queue_pct = q.window > 0 ? an_num(100 * q.full / q.window) : an_num_none(none);
    }
    free(w.track);
    free(w.device);
    free(w.enter);
    free(w.leave);
    return rc;
}

const struct an_analyzer an_launches = {
    "launches", "calls that put work on a device: delay, queue length, short kernels, graphs",
    AN_INPUT_DEVICES, launches_run, launches_absent};
