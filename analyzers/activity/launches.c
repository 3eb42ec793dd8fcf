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
#include "analyzers/steps/context.h"
#include "analyzers/steps/recorder.h"

#define QUEUE_FULL 1024 /* launches that a CUDA stream takes before the call blocks */

/* One matched call in the queue of a stream. */
struct queued {
    uint32_t track, device; /* stream and device (index into an_devices.device) of its first op */
    int64_t enter, leave;
};

struct waiting {
    struct queued *call;
    size_t count;
};

struct queue {
    double area, time; /* sum of waiting times; of the streams' windows */
    int64_t longest;
    double full, window; /* of devices */
};

/* ---- calls by name ------------------------------------------------------------------------------------------------------ */

static int row_order(const void *first, const void *second)
{
    const struct an_launch_row *left = first, *right = second;
    int order =
        2 * AN_COMPARE(right->host_ns, left->host_ns) + AN_COMPARE(right->count, left->count);
    return order ? order : strcmp(left->name, right->name);
}

/* Is slice i a launching call? Either something on a device was launched by it (*next walks along
 * launch_slice), or its name says so. A call inside another call is part of that one. */
static bool is_launch(const struct an_context *context, size_t i, size_t *next)
{
    const struct an_devices *devices = context->gpu;
    while (*next < devices->launch_count && devices->launch_slice[*next] < i)
        ++*next;
    if (*next < devices->launch_count && devices->launch_slice[*next] == i)
        return true;
    uint32_t parent = context->trace->slice.parent[i];
    return an_slice_launches(context->trace, i) &&
           (parent == AN_NONE || !an_category_is_call(an_slice_category(context->trace, parent)));
}

/* Rows of calls by name. */
struct rows {
    struct an_launch_row *row;
    size_t count, room;
    uint32_t *of_name; /* row + 1 of a name; the last one: no name */
};

/* Returns the row of a slice's name, a new one if needed; NULL when memory is out. */
static struct an_launch_row *row_of(struct an_context *context, struct rows *rows, size_t slice)
{
    size_t name = context->trace->slice.name[slice];
    if (name > context->trace->string_count)
        name = context->trace->string_count;
    if (!rows->of_name[name]) {
        if (an_grow(&rows->row, &rows->room, rows->count + 1, sizeof *rows->row))
            return NULL;
        const char *text = an_trace_name(context->trace, (uint32_t)name);
        rows->row[rows->count] =
            (struct an_launch_row){.name = an_arena_text(context->arena, text)};
        rows->of_name[name] = (uint32_t)++rows->count;
    }
    return &rows->row[rows->of_name[name] - 1];
}

/* Sorts the rows and copies them to the result. */
static int keep_rows(struct an_context *context, struct rows *rows)
{
    struct an_launches *launches = &context->result->launches;
    if (!rows->count)
        return 0;
    qsort(rows->row, rows->count, sizeof *rows->row, row_order);
    launches->rows = an_arena_copy(context->arena, rows->row, rows->count * sizeof *rows->row);
    return launches->rows ? 0 : TACHO_ENOMEM;
}

/* Counts all launching calls and their time on the host, in one row for each name. */
static int count_calls(struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    struct an_launches *launches = &context->result->launches;
    struct rows rows = {.of_name = calloc(trace->string_count + 1, sizeof *rows.of_name)};
    size_t next_launch = 0;
    int64_t timed = 0, host = 0;
    int rc = rows.of_name ? 0 : TACHO_ENOMEM;
    for (size_t i = 0; i < trace->slice.count && !rc; i++) {
        if (!is_launch(context, i, &next_launch))
            continue;
        struct an_launch_row *launch_row = row_of(context, &rows, i);
        if (!launch_row) {
            rc = TACHO_ENOMEM;
            break;
        }
        launch_row->count++;
        launches->calls++;
        launches->graphs += an_slice_api(trace, i).kind == AN_API_GRAPH;
        if (trace->slice.dur[i] == AN_OPEN)
            continue;
        timed++;
        launch_row->host_ns = an_time_add(launch_row->host_ns, trace->slice.dur[i]);
        host = an_time_add(host, trace->slice.dur[i]);
    }
    rc = rc ? rc : keep_rows(context, &rows);
    launches->row_count = rc ? 0 : rows.count;
    launches->host_mean_us = timed ? an_num((double)host / (double)timed / 1e3)
                                   : an_num_none("no launching call is in the file");
    free(rows.row);
    free(rows.of_name);
    return rc;
}

/* ---- matched calls ------------------------------------------------------------------------------------------------------ */

/* First op of launch k on its device. */
static size_t first_op(const struct an_devices *devices, size_t launch)
{
    size_t first = devices->launch_op[devices->launch_first[launch]];
    for (size_t i = devices->launch_first[launch]; i < devices->launch_first[launch + 1]; i++)
        if (devices->op.start[devices->launch_op[i]] < devices->op.start[first])
            first = devices->launch_op[i];
    return first;
}

static uint32_t device_of(const struct an_devices *devices, size_t op)
{
    uint32_t device = 0;
    while (device + 1 < devices->device_count && op >= an_device_end(&devices->device[device]))
        device++;
    return device;
}

/* Counts the kernels of a call that is no graph launch, and those of them that ran for less time
 * than the call itself took. */
static void count_short(const struct an_context *context, size_t launch, int64_t host,
                        int64_t *kernels, int64_t *brief)
{
    const struct an_devices *devices = context->gpu;
    for (size_t i = devices->launch_first[launch]; i < devices->launch_first[launch + 1]; i++) {
        size_t op = devices->launch_op[i];
        if (strcmp(an_slice_category(context->trace, devices->op.slice[op]), "kernel") != 0)
            continue;
        ++*kernels;
        *brief += an_time_sub(devices->op.end[op], devices->op.start[op]) < host;
    }
}

/* Quantile of the delays in us; reorders them. */
static struct an_value delay_us(double *delay, size_t count, double quantile)
{
    return count ? an_num(an_quantile_of(delay, count, quantile) / 1e3)
                 : an_num_none("no device op of this file has its launching call in it");
}

/* Delays and short kernels; fills w, which has room for all launches. */
static int match_calls(struct an_context *context, struct waiting *waiting)
{
    const struct an_trace *trace = context->trace;
    const struct an_devices *devices = context->gpu;
    struct an_launches *launches = &context->result->launches;
    double *delay = malloc((devices->launch_count + 1) * sizeof *delay);
    int64_t sum = 0, kernels = 0, brief = 0;
    size_t count = 0;
    if (!delay)
        return TACHO_ENOMEM;
    for (size_t launch = 0; launch < devices->launch_count; launch++) {
        size_t call = devices->launch_slice[launch];
        if (devices->launch_first[launch] == devices->launch_first[launch + 1])
            continue;
        size_t op = first_op(devices, launch);
        int64_t start = trace->slice.start[call], op_start = devices->op.start[op];
        launches->matched++;
        waiting->call[waiting->count++] = (struct queued){
            devices->op.track[op], device_of(devices, op), start, an_time_max(op_start, start)};
        if (trace->slice.dur[call] == AN_OPEN)
            continue;
        int64_t wait = an_time_sub(op_start, an_time_add(start, trace->slice.dur[call]));
        wait = an_time_max(wait, 0);
        delay[count++] = (double)wait;
        sum = an_time_add(sum, wait);
        if (an_slice_api(trace, call).kind != AN_API_GRAPH)
            count_short(context, launch, trace->slice.dur[call], &kernels, &brief);
    }
    launches->delay_median_us = delay_us(delay, count, 0.5);
    launches->delay_p95_us = delay_us(delay, count, 0.95);
    launches->delay_mean_us = launches->delay_max_us = delay_us(delay, count, 1);
    if (count)
        launches->delay_mean_us = an_num((double)sum / (double)count / 1e3);
    const char *no_kernel = "no kernel of this file has its launching call in it";
    launches->short_kernels = kernels ? an_int(brief) : an_int_none(no_kernel);
    launches->short_pct =
        kernels ? an_num(100 * (double)brief / (double)kernels) : an_num_none(no_kernel);
    free(delay);
    return 0;
}

/* ---- queues ------------------------------------------------------------------------------------------------------------- */

static int time_order(const void *first, const void *second, void *ctx)
{
    (void)ctx;
    int64_t left = *(const int64_t *)first, right = *(const int64_t *)second;
    return AN_COMPARE(left, right);
}

/* Sweeps over the queue of one stream: `count` calls that enter and leave it. Sorts both times.
 * The spans in which the queue is full are appended to `full`; returns how many. */
static size_t sweep_stream(struct queue *queue, int64_t *enter, int64_t *leave, size_t count,
                           struct an_span *full)
{
    size_t entered = 0, left = 0, spans = 0;
    int64_t since = 0;
    an_order(enter, count, sizeof *enter, time_order, NULL);
    an_order(leave, count, sizeof *leave, time_order, NULL);
    while (left < count) {
        bool enters = entered < count && enter[entered] < leave[left];
        int64_t before = (int64_t)(entered - left);
        if (enters) {
            since = before + 1 == QUEUE_FULL ? enter[entered] : since;
            entered++;
            queue->longest = before + 1 > queue->longest ? before + 1 : queue->longest;
        } else {
            if (before == QUEUE_FULL)
                full[spans++] = (struct an_span){since, leave[left]};
            left++;
        }
    }
    return spans;
}

/* Gathers the calls by stream: those of track k lie in [first[k], first[k + 1]). Calls that did
 * not wait in the queue are excluded. */
static void group_streams(const struct waiting *waiting, size_t tracks, size_t *first,
                          int64_t *enter, int64_t *leave)
{
    memset(first, 0, (tracks + 1) * sizeof *first);
    for (size_t i = 0; i < waiting->count; i++)
        first[waiting->call[i].track + 1] += waiting->call[i].leave > waiting->call[i].enter;
    for (size_t track = 0; track < tracks; track++)
        first[track + 1] += first[track];
    for (size_t i = 0; i < waiting->count; i++) {
        const struct queued *call = &waiting->call[i];
        if (call->leave == call->enter)
            continue;
        enter[first[call->track]] = call->enter;
        leave[first[call->track]++] = call->leave;
    }
    for (size_t track = tracks; track; track--)
        first[track] = first[track - 1];
    first[0] = 0;
}

/* Sum of the windows of all streams, or of all devices: each from the first call that enters to the
 * last one that leaves. `window` has room for `count`. */
static double sum_windows(const struct waiting *waiting, bool devices, struct an_span *window,
                          size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        window[i] = (struct an_span){INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < waiting->count; i++) {
        const struct queued *call = &waiting->call[i];
        struct an_span *span = &window[devices ? call->device : call->track];
        span->start = an_time_min(span->start, call->enter);
        span->end = an_time_max(span->end, call->leave);
    }
    for (size_t i = 0; i < count; i++)
        if (window[i].end > window[i].start)
            sum += (double)an_time_sub(window[i].end, window[i].start);
    return sum;
}

/* Computes length and full time of the queues: grouped by stream, swept stream by stream, and
 * added up for each device, because a device with a full stream blocks its host whatever its other
 * streams do. */
static int sweep_queues(const struct an_context *context, const struct waiting *waiting,
                        struct queue *queue)
{
    const struct an_devices *devices = context->gpu;
    size_t tracks = context->trace->track_count, calls = waiting->count;
    struct an_arena *arena = an_arena_new();
    if (!arena)
        return TACHO_ENOMEM;
    size_t *first = an_arena_zero(arena, tracks + 1, sizeof *first);
    uint32_t *device_of_track = an_arena_zero(arena, tracks, sizeof *device_of_track);
    int64_t *enter = an_arena_zero(arena, calls, sizeof *enter);
    int64_t *leave = an_arena_zero(arena, calls, sizeof *leave);
    struct an_span *full = an_arena_zero(arena, calls, sizeof *full);
    struct an_span *window = an_arena_zero(arena, tracks + devices->device_count, sizeof *window);
    if (!an_arena_failed(arena)) {
        for (size_t i = 0; i < calls; i++) {
            const struct queued *call = &waiting->call[i];
            queue->area += (double)an_time_sub(call->leave, call->enter);
            device_of_track[call->track] = call->device;
        }
        queue->time = sum_windows(waiting, false, window, tracks);
        queue->window = sum_windows(waiting, true, window, devices->device_count);
        group_streams(waiting, tracks, first, enter, leave);
    }
    for (uint32_t device = 0; device < devices->device_count && !an_arena_failed(arena); device++) {
        size_t count = 0;
        for (size_t k = 0; k < tracks; k++)
            if (device_of_track[k] == device)
                count += sweep_stream(queue, enter + first[k], leave + first[k],
                                      first[k + 1] - first[k], full + count);
        count = an_spans_normalize(full, count);
        queue->full += (double)an_spans_measure(full, count);
    }
    int rc = an_arena_failed(arena) ? TACHO_ENOMEM : 0;
    an_arena_free(arena);
    return rc;
}

/* ---- the analyzer ------------------------------------------------------------------------------------------------------- */

static void launches_absent(struct an_context *context, const char *reason)
{
    struct an_launches *launches = &context->result->launches;
    struct an_value none = an_num_none(reason);
    *launches = (struct an_launches){.reason = reason,
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

/* Counts the calls, matches them with their ops, and sweeps the queues that they make. */
static int launches_run(struct an_context *context)
{
    struct an_launches *launches = &context->result->launches;
    struct waiting waiting = {.call =
                                  malloc((context->gpu->launch_count + 1) * sizeof *waiting.call)};
    struct queue queue = {.area = 0};
    int rc = waiting.call ? count_calls(context) : TACHO_ENOMEM;
    if (!rc && !launches->calls) {
        launches_absent(context,
                        an_arena_format(context->arena,
                                        "the trace holds no calls that launch device work (%s)",
                                        an_say(context, AN_SAY_CALLS,
                                               "record CPU activities too: ProfilerActivity.CPU, "
                                               "nsys --trace=cuda")));
    } else if (!rc && !(rc = match_calls(context, &waiting)) &&
               !(rc = sweep_queues(context, &waiting, &queue))) {
        const char *none = "no device op of this file waited for its start";
        launches->queue_mean = queue.time > 0 ? an_num(queue.area / queue.time) : an_num_none(none);
        launches->queue_max = launches->matched ? an_num((double)queue.longest) : an_num_none(none);
        launches->full_queue_pct =
            queue.window > 0 ? an_num(100 * queue.full / queue.window) : an_num_none(none);
    }
    free(waiting.call);
    return rc;
}

const struct an_analyzer an_launches = {
    .name = "launches",
    .help = "calls that put work on a device: delay, queue length, short kernels, graphs",
    .needs = AN_INPUT_DEVICES,
    .run = launches_run,
    .absent = launches_absent,
};
