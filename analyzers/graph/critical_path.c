/* SPDX-License-Identifier: Apache-2.0
 *
 * The critical path of a run: chooses the lane and its windows, walks and labels each window, and
 * sums the segments by cause and by operation. critical_path.h describes the parts, docs/graph.md
 * the method.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/graph/critical_path.h"

#define STEPS_LEAST     3  /* of a window whose path is called steady */
#define EXPLAINED_LEAST 90 /* per cent; below it no cause is named */
#define OPS_MOST        200

/* Time of one name, cause and place. */
struct op_sum {
    uint32_t name, next; /* op of the same name, index + 1; 0: none */
    uint8_t cause;
    bool host;
    int64_t count, ns;
};

struct sums {
    struct an_context *context;
    const struct an_graph *graph;
    int64_t cause[AN_CAUSE_COUNT], how[3], length, window;
    int64_t *step_cause; /* of every step of the windows: AN_CAUSE_COUNT sums */
    size_t steps, windows;
    struct op_sum *op;
    size_t op_count, op_room;
    uint32_t *op_of_name; /* of each string, and of no name: the newest op, index + 1; 0: none */
    struct an_path_row *row;
    size_t row_count, row_room;
    struct an_span **span; /* of every track, malloc'ed */
    size_t *span_count, *span_room;
    const struct an_step *typical; /* the step whose path was kept */
};

/* ---- which windows -------------------------------------------------------------------------------------------------------- */

static int64_t time_of(const struct an_window *window, size_t window_count, size_t least_steps)
{
    int64_t sum = 0;
    for (size_t i = 0; i < window_count; i++)
        if (window[i].count >= least_steps)
            sum = an_time_add(sum, an_time_sub(window[i].end, window[i].start));
    return sum;
}

/* Chooses the lane with most time in windows of STEPS_LEAST steps; where none exist, in shorter
 * windows. */
static int choose_lane(struct an_context *context, size_t *least_steps, struct an_window **out,
                       size_t *window_count)
{
    int64_t most = 0;
    *window_count = 0;
    for (*least_steps = STEPS_LEAST; *least_steps && !*window_count;
         *least_steps = *window_count ? *least_steps : *least_steps - 1)
        for (uint32_t lane = 0; lane < context->lane_count; lane++) {
            struct an_window *window;
            size_t count;
            int rc = an_windows_of(context, lane, &window, &count);
            if (rc)
                return rc;
            int64_t ns = time_of(window, count, *least_steps);
            if (ns > most) {
                most = ns;
                *out = window;
                *window_count = count;
            }
        }
    return 0;
}

/* ---- sums ----------------------------------------------------------------------------------------------------------------- */

static int op_order(const void *left, const void *right)
{
    const struct op_sum *first = left, *second = right;
    if (first->name != second->name)
        return first->name < second->name ? -1 : 1;
    if (first->cause != second->cause)
        return first->cause < second->cause ? -1 : 1;
    return (int)first->host - (int)second->host;
}

/* Adds a segment to the sum of its name, cause and place. A name has few of them. */
static int add_op(struct sums *sums, const struct an_path_segment *segment)
{
    const struct an_trace *trace = sums->context->trace;
    bool host = segment->node == AN_NONE || !an_graph_on_device(sums->graph, segment->node);
    uint32_t name = segment->slice == AN_NONE ? AN_NONE : trace->slice.name[segment->slice],
             *first = &sums->op_of_name[name == AN_NONE ? trace->string_count : name], at = *first;
    while (at && (sums->op[at - 1].cause != segment->cause || sums->op[at - 1].host != host))
        at = sums->op[at - 1].next;
    if (!at) {
        if (an_grow(&sums->op, &sums->op_room, sums->op_count + 1, sizeof *sums->op))
            return TACHO_ENOMEM;
        sums->op[sums->op_count++] =
            (struct op_sum){.name = name, .next = *first, .cause = segment->cause, .host = host};
        at = *first = (uint32_t)sums->op_count;
    }
    sums->op[at - 1].count++;
    sums->op[at - 1].ns += segment->end - segment->start;
    return 0;
}

static void fill_range(struct an_path_row *row, const struct an_trace *trace, size_t slice)
{
    row->range_start_ns = trace->slice.start[slice];
    row->range_end_ns = an_slice_end(trace, slice);
    row->name = an_trace_name(trace, trace->slice.name[slice]);
}

/* Adds a segment to the list of segments, where the user asked for one (--path). */
static int add_row(struct sums *sums, const struct an_path_segment *segment)
{
    const struct an_trace *trace = sums->context->trace;
    if (!sums->context->options->path)
        return 0;
    if (an_grow(&sums->row, &sums->row_room, sums->row_count + 1, sizeof *sums->row))
        return TACHO_ENOMEM;
    struct an_path_row *row = &sums->row[sums->row_count++];
    *row = (struct an_path_row){.start_ns = segment->start,
                                .end_ns = segment->end,
                                .track = STORE_ABSENT,
                                .range_start_ns = STORE_ABSENT,
                                .range_end_ns = STORE_ABSENT,
                                .name = "",
                                .cause = an_cause_key((enum an_cause)segment->cause),
                                .link = an_path_link_key(segment->link),
                                .how = (enum an_path_how)segment->how,
                                .window = sums->windows};
    if (segment->node != AN_NONE)
        row->track = trace->track[sums->graph->track[segment->node]].id;
    if (segment->slice != AN_NONE)
        fill_range(row, trace, segment->slice);
    row->name = an_arena_text(sums->context->arena, row->name);
    return 0;
}

/* Spans of a window come in order of time; windows come in order, too. */
static int add_span(struct sums *sums, const struct an_path_segment *segment)
{
    if (segment->node == AN_NONE || segment->cause == AN_CAUSE_DISPATCH ||
        segment->cause == AN_CAUSE_OPAQUE)
        return 0;
    uint32_t track = sums->graph->track[segment->node];
    size_t span_count = sums->span_count[track];
    if (span_count && sums->span[track][span_count - 1].end >= segment->start) {
        sums->span[track][span_count - 1].end = segment->end;
        return 0;
    }
    if (an_grow(&sums->span[track], &sums->span_room[track], span_count + 1, sizeof **sums->span))
        return TACHO_ENOMEM;
    sums->span[track][sums->span_count[track]++] = (struct an_span){segment->start, segment->end};
    return 0;
}

/* Adds a segment to the causes of the steps that it lies in. Time between two marked steps of a
 * thread belongs to the step before. */
static void add_to_steps(struct sums *sums, const struct an_path_segment *segment,
                         const struct an_window *window, size_t *step)
{
    const struct an_step *steps = &sums->context->step[window->first];
    int64_t time = segment->start;
    while (time < segment->end) {
        while (*step + 1 < window->count && steps[*step + 1].start <= time)
            ++*step;
        int64_t end = *step + 1 < window->count && steps[*step + 1].start < segment->end
                          ? steps[*step + 1].start
                          : segment->end;
        sums->step_cause[(sums->steps + *step) * AN_CAUSE_COUNT + segment->cause] += end - time;
        time = end;
    }
}

static int add_window(struct sums *sums, const struct an_path_walk *walk)
{
    size_t step = 0;
    int rc = 0;
    for (size_t i = 0; i < walk->count && !rc; i++) {
        const struct an_path_segment *segment = &walk->segment[i];
        int64_t ns = segment->end - segment->start;
        sums->cause[segment->cause] += ns;
        sums->how[segment->how] += ns;
        sums->length += ns;
        add_to_steps(sums, segment, &walk->window, &step);
        rc = add_op(sums, segment);
        rc = rc ? rc : add_row(sums, segment);
        rc = rc ? rc : add_span(sums, segment);
    }
    sums->window += walk->window.end - walk->window.start;
    sums->steps += walk->window.count;
    sums->windows++;
    return rc;
}

/* ---- the result ------------------------------------------------------------------------------------------------------------ */

static int cause_order(const void *left, const void *right)
{
    const struct an_path_cause *first = left, *second = right;
    return (first->ns < second->ns) - (first->ns > second->ns);
}

static struct an_value share(int64_t ns, int64_t whole)
{
    return whole > 0 ? an_num(100.0 * (double)ns / (double)whole)
                     : an_num_none("the path lasts 0 ns");
}

/* Lists the causes with time on the path, the longest first, with the median over the steps. */
static int list_causes(struct sums *sums, struct an_critical_path *path)
{
    struct an_path_cause *rows = an_arena_zero(sums->context->arena, AN_CAUSE_COUNT, sizeof *rows);
    double *ms = an_arena_zero(sums->context->scratch, sums->steps + 1, sizeof *ms);
    if (!rows || !ms)
        return TACHO_ENOMEM;
    for (int cause = 0; cause < AN_CAUSE_COUNT; cause++) {
        if (!sums->cause[cause])
            continue;
        for (size_t i = 0; i < sums->steps; i++)
            ms[i] = (double)sums->step_cause[i * AN_CAUSE_COUNT + (size_t)cause] / 1e6;
        an_sort(ms, sums->steps);
        rows[path->cause_count++] =
            (struct an_path_cause){.key = an_cause_key((enum an_cause)cause),
                                   .text = an_cause_text((enum an_cause)cause),
                                   .ns = sums->cause[cause],
                                   .pct = share(sums->cause[cause], sums->length),
                                   .step_median_ms = an_num(an_quantile(ms, sums->steps, 0.5))};
    }
    qsort(rows, path->cause_count, sizeof *rows, cause_order);
    path->causes = rows;
    return 0;
}

static int ns_order(const void *left, const void *right)
{
    const struct op_sum *first = left, *second = right;
    if (first->ns != second->ns)
        return first->ns < second->ns ? 1 : -1;
    return op_order(left, right);
}

/* Lists the operations on the path, the longest first. Time without a range is named after its
 * cause. */
static int list_ops(struct sums *sums, struct an_critical_path *path)
{
    if (sums->op_count)
        qsort(sums->op, sums->op_count, sizeof *sums->op, ns_order);
    size_t op_count = sums->op_count < OPS_MOST ? sums->op_count : OPS_MOST;
    struct an_path_op *rows = an_arena_zero(sums->context->arena, op_count, sizeof *rows);
    if (!rows)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < op_count; i++) {
        const struct op_sum *op_sum = &sums->op[i];
        const char *name =
            op_sum->name != AN_NONE ? an_trace_name(sums->context->trace, op_sum->name) : "";
        if (!*name)
            name = an_cause_text((enum an_cause)op_sum->cause);
        rows[i] = (struct an_path_op){.name = an_arena_text(sums->context->arena, name),
                                      .cause = an_cause_key((enum an_cause)op_sum->cause),
                                      .where = op_sum->host ? "host" : "device",
                                      .count = op_sum->count,
                                      .ns = op_sum->ns,
                                      .pct = share(op_sum->ns, sums->length)};
    }
    path->ops = rows;
    path->op_count = op_count;
    return 0;
}

/* Why the path should not be relied on; NULL if there is no such reason. */
static const char *doubt_of(struct an_context *context, const struct an_critical_path *path,
                            size_t least_steps)
{
    if (path->explained_pct.valid && path->explained_pct.value < EXPLAINED_LEAST)
        return an_arena_format(
            context->arena, "only %.1f %% of the path is connected by edges: no cause can be given",
            path->explained_pct.value);
    if (least_steps < STEPS_LEAST)
        return an_arena_format(
            context->arena,
            "fewer than %d consecutive counted steps: one-time events may be on the path",
            STEPS_LEAST);
    return NULL;
}

/* Keeps the path as spans of every track for the pictures (an_context.path). */
static int keep_spans(struct sums *sums)
{
    size_t tracks = sums->context->trace->track_count, span_count = 0;
    struct an_path_spans *path_spans = an_arena_zero(sums->context->scratch, 1, sizeof *path_spans);
    for (size_t track = 0; track < tracks; track++)
        span_count += sums->span_count[track];
    if (!path_spans ||
        !(path_spans->span =
              an_arena_zero(sums->context->scratch, span_count, sizeof *path_spans->span)) ||
        !(path_spans->track_first =
              an_arena_zero(sums->context->scratch, tracks + 1, sizeof *path_spans->track_first)))
        return TACHO_ENOMEM;
    for (size_t track = 0; track < tracks; track++) {
        size_t first = path_spans->track_first[track];
        if (sums->span_count[track])
            memcpy(path_spans->span + first, sums->span[track],
                   sums->span_count[track] * sizeof *path_spans->span);
        path_spans->track_first[track + 1] = first + sums->span_count[track];
    }
    path_spans->typical = sums->typical;
    sums->context->path = path_spans;
    return 0;
}

bool an_path_holds(const struct an_path_spans *path_spans, uint32_t track, int64_t start,
                   int64_t end)
{
    if (!path_spans)
        return false;
    const struct an_span *span = path_spans->span + path_spans->track_first[track];
    size_t span_count = path_spans->track_first[track + 1] - path_spans->track_first[track];
    int64_t middle = start + an_time_sub(end, start) / 2;
    size_t i = an_spans_seek(span, span_count, middle);
    return i < span_count && span[i].start <= middle;
}

static int fill_result(struct sums *sums, size_t least_steps)
{
    struct an_context *context = sums->context;
    struct an_critical_path *path = &context->result->critical_path;
    int64_t gaps = sums->how[AN_PATH_GAP];
    path->windows = (int64_t)sums->windows;
    path->steps = (int64_t)sums->steps;
    path->window_ns = an_int(sums->window);
    path->length_ns = an_int(sums->length);
    path->explained_pct = share(sums->length - gaps, sums->length);
    path->recorded_pct = share(sums->how[AN_PATH_RECORDED], sums->length);
    path->inferred_pct = share(sums->how[AN_PATH_INFERRED], sums->length);
    path->gap_pct = share(gaps, sums->length);
    path->think_pct = share(sums->cause[AN_CAUSE_UNTRACED], sums->length);
    path->doubt = doubt_of(context, path, least_steps);
    path->rows = an_arena_copy(context->arena, sums->row, sums->row_count * sizeof *sums->row);
    path->row_count = sums->row_count;
    int rc = list_causes(sums, path);
    rc = rc ? rc : list_ops(sums, path);
    return rc ? rc : keep_spans(sums);
}

static void free_sums(struct sums *sums)
{
    for (size_t track = 0; sums->span && track < sums->context->trace->track_count; track++)
        free(sums->span[track]);
    free(sums->span);
    free(sums->span_count);
    free(sums->span_room);
    free(sums->op);
    free(sums->row);
}

static void path_absent(struct an_context *context, const char *reason)
{
    struct an_critical_path *path = &context->result->critical_path;
    path->reason = reason;
    path->window_ns = path->length_ns = an_int_none(reason);
    path->explained_pct = path->recorded_pct = path->inferred_pct = path->gap_pct =
        path->think_pct = an_num_none(reason);
}

static int walk_windows(struct sums *sums, const struct an_window *window, size_t window_count,
                        size_t least_steps)
{
    const struct an_step *typical;
    struct an_path_walk walk = {0};
    int rc = an_path_typical(sums->context, window, window_count, least_steps, &typical);
    for (size_t i = 0; i < window_count && !rc; i++) {
        const struct an_step *first = &sums->context->step[window[i].first];
        if (window[i].count < least_steps)
            continue;
        rc = an_path_walk(sums->context, sums->graph, &window[i], &walk);
        rc = rc ? rc : an_path_label(sums->context, sums->graph, &walk);
        rc = rc ? rc : add_window(sums, &walk);
        if (!rc && typical && typical >= first && typical < first + window[i].count) {
            rc = an_path_keep_step(sums->context, sums->graph, &walk, typical);
            sums->typical = typical;
        }
    }
    free(walk.segment);
    return rc;
}

/* Adds up the suspected waits of the capture. */
static void sum_suspected(struct an_context *context, const struct an_graph *graph)
{
    struct an_critical_path *path = &context->result->critical_path;
    int64_t longest = 0;
    for (uint32_t node = 0; node < graph->node_count; node++) {
        int64_t ns = an_time_sub(graph->end[node], graph->start[node]);
        if (graph->cause[node] != AN_CAUSE_SUSPECTED || graph->slice[node] == AN_NONE)
            continue;
        path->suspected_count++;
        path->suspected_ns = an_time_add(path->suspected_ns, ns);
        if (ns <= longest)
            continue;
        longest = ns;
        path->suspected_name = an_arena_text(
            context->arena,
            an_trace_name(context->trace, context->trace->slice.name[graph->slice[node]]));
    }
}

/* The analyzer: walks the windows of the chosen lane and fills the part of the result. */
static int path_run(struct an_context *context)
{
    struct sums sums = {.context = context};
    struct an_window *window = NULL;
    const char *why;
    size_t window_count, least_steps, tracks = context->trace->track_count + 1;
    int rc = choose_lane(context, &least_steps, &window, &window_count);
    rc = rc ? rc : an_graph_of(context, &sums.graph, &why);
    if (rc)
        return rc;
    if (!window_count || !sums.graph) {
        path_absent(context, window_count ? why : "no counted step has all its ranges in the file");
        return 0;
    }
    const struct an_lane *lane = &context->lane[window->lane];
    context->result->critical_path.rank = lane->rank;
    context->result->critical_path.device =
        lane->device == AN_NONE ? "cpu" : context->gpu->device[lane->device].label;
    sums.step_cause =
        an_arena_zero(context->scratch, lane->count + 1, AN_CAUSE_COUNT * sizeof *sums.step_cause);
    sums.op_of_name =
        an_arena_zero(context->scratch, context->trace->string_count + 1, sizeof *sums.op_of_name);
    sums.span = calloc(tracks, sizeof *sums.span);
    sums.span_count = calloc(tracks, sizeof *sums.span_count);
    sums.span_room = calloc(tracks, sizeof *sums.span_room);
    rc = sums.step_cause && sums.op_of_name && sums.span && sums.span_count && sums.span_room
             ? walk_windows(&sums, window, window_count, least_steps)
             : TACHO_ENOMEM;
    rc = rc ? rc : fill_result(&sums, least_steps);
    sum_suspected(context, sums.graph);
    free_sums(&sums);
    return rc;
}

const struct an_analyzer an_critical_path = {
    .name = "critical path",
    .help = "critical path: what determines the time of the steady steps",
    .after = "steps",
    .needs = AN_INPUT_SLICES | AN_INPUT_STEPS | AN_INPUT_DETAIL,
    .run = path_run,
    .absent = path_absent,
};
