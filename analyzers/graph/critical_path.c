/* SPDX-License-Identifier: Apache-2.0
 *
 * The critical path of a run: the windows of one lane, walked and labelled, summed by cause and by
 * op. docs/graph.md says what stands behind it.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/graph/critical_path.h"

#define STEPS_LEAST     3  /* of a window whose path is called steady */
#define EXPLAINED_LEAST 90 /* per cent; below it no cause is named */
#define OPS_MOST        200
#define OPS_MERGE \
    4096 /* segments, before those of one op are added up: runs have few ops and many segments */

/* Time of one name, cause and place. */
struct op_sum {
    uint32_t name;
    uint8_t cause;
    bool host;
    int64_t device; /* ordinal */
    int64_t count, ns;
};

struct sums {
    struct an_context *context;
    const struct an_graph *graph;
    int64_t cause[AN_CAUSE_COUNT], how[3], length, window;
    int64_t *step_cause; /* of every step of the windows: AN_CAUSE_COUNT sums */
    size_t steps, windows;
    struct op_sum *op;
    size_t ops, op_room, op_merge; /* op_merge: rows at which they are merged next */
    struct an_path_row *row;
    size_t rows, row_room;
    struct an_span **span; /* of every track, malloc'ed */
    size_t *spans, *span_room;
};

/* ---- which windows -------------------------------------------------------------------------------------------------------- */

static int64_t time_of(const struct an_window *window, size_t n, size_t least)
{
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        if (window[i].count >= least)
            sum = an_time_add(sum, an_time_sub(window[i].end, window[i].start));
    return sum;
}

/* The lane with most time in steady windows; where none has any, in windows of any length. */
static int choose_lane(struct an_context *context, size_t *least, struct an_window **out, size_t *n)
{
    int64_t most = 0;
    *n = 0;
    for (*least = STEPS_LEAST; *least && !*n; *least = *n ? *least : *least - 1)
        for (uint32_t k = 0; k < context->lane_count; k++) {
            struct an_window *window;
            size_t count;
            int rc = an_windows_of(context, k, &window, &count);
            if (rc)
                return rc;
            int64_t ns = time_of(window, count, *least);
            if (ns > most) {
                most = ns;
                *out = window;
                *n = count;
            }
        }
    return 0;
}

/* ---- sums ----------------------------------------------------------------------------------------------------------------- */

static int op_order(const void *a, const void *b)
{
    const struct op_sum *x = a, *y = b;
    if (x->name != y->name)
        return x->name < y->name ? -1 : 1;
    if (x->cause != y->cause)
        return x->cause < y->cause ? -1 : 1;
    return (int)x->host - (int)y->host;
}

/* One row of each op. */
static void merge_ops(struct sums *sums)
{
    size_t n = 0;
    if (sums->ops)
        qsort(sums->op, sums->ops, sizeof *sums->op, op_order);
    for (size_t i = 0; i < sums->ops; i++) {
        if (n && !op_order(&sums->op[n - 1], &sums->op[i])) {
            sums->op[n - 1].count += sums->op[i].count;
            sums->op[n - 1].ns += sums->op[i].ns;
        } else {
            sums->op[n++] = sums->op[i];
        }
    }
    sums->ops = n;
}

static int add_op(struct sums *sums, const struct an_path_segment *segment)
{
    const struct an_trace *trace = sums->context->trace;
    bool host = segment->node == AN_NONE || !an_graph_on_device(sums->graph, segment->node);
    if (sums->ops == sums->op_merge) {
        merge_ops(sums);
        sums->op_merge = 2 * sums->ops + OPS_MERGE;
    }
    if (an_grow(&sums->op, &sums->op_room, sums->ops + 1, sizeof *sums->op))
        return TACHO_ENOMEM;
    sums->op[sums->ops++] = (struct op_sum){
        .name = segment->slice == AN_NONE ? AN_NONE : trace->slice.name[segment->slice],
        .cause = segment->cause,
        .host = host,
        .count = 1,
        .ns = segment->end - segment->start};
    return 0;
}

static int add_row(struct sums *sums, const struct an_path_segment *segment)
{
    const struct an_trace *trace = sums->context->trace;
    if (!sums->context->options->path)
        return 0;
    if (an_grow(&sums->row, &sums->row_room, sums->rows + 1, sizeof *sums->row))
        return TACHO_ENOMEM;
    bool range = segment->slice != AN_NONE;
    sums->row[sums->rows++] = (struct an_path_row){
        .start_ns = segment->start,
        .end_ns = segment->end,
        .track = segment->node == AN_NONE ? STORE_ABSENT
                                          : trace->track[sums->graph->track[segment->node]].id,
        .range_start_ns = range ? trace->slice.start[segment->slice] : STORE_ABSENT,
        .range_end_ns = range ? an_slice_end(trace, segment->slice) : STORE_ABSENT,
        .name = an_arena_text(sums->context->arena,
                              range ? an_trace_name(trace, trace->slice.name[segment->slice]) : ""),
        .cause = an_cause_key((enum an_cause)segment->cause),
        .link = an_path_link_key(segment->link),
        .how = (enum an_path_how)segment->how,
        .window = sums->windows};
    return 0;
}

/* Spans of a window come in order of time; windows come in order, too. */
static int add_span(struct sums *sums, const struct an_path_segment *segment)
{
    if (segment->node == AN_NONE || segment->cause == AN_CAUSE_DISPATCH ||
        segment->cause == AN_CAUSE_OPAQUE)
        return 0;
    uint32_t k = sums->graph->track[segment->node];
    size_t n = sums->spans[k];
    if (n && sums->span[k][n - 1].end >= segment->start) {
        sums->span[k][n - 1].end = segment->end;
        return 0;
    }
    if (an_grow(&sums->span[k], &sums->span_room[k], n + 1, sizeof **sums->span))
        return TACHO_ENOMEM;
    sums->span[k][sums->spans[k]++] = (struct an_span){segment->start, segment->end};
    return 0;
}

/* The step's share of a segment goes to the step; what lies between two marked steps of a thread to
 * the one before. */
static void add_to_steps(struct sums *sums, const struct an_path_segment *segment,
                         const struct an_window *window, size_t *step)
{
    const struct an_step *steps = &sums->context->step[window->first];
    int64_t at = segment->start;
    while (at < segment->end) {
        while (*step + 1 < window->count && steps[*step + 1].start <= at)
            ++*step;
        int64_t until = *step + 1 < window->count && steps[*step + 1].start < segment->end
                            ? steps[*step + 1].start
                            : segment->end;
        sums->step_cause[(sums->steps + *step) * AN_CAUSE_COUNT + segment->cause] += until - at;
        at = until;
    }
}

static int add_window(struct sums *sums, const struct an_path_walk *walk)
{
    size_t step = 0;
    int rc = 0;
    for (size_t i = 0; i < walk->count && !rc; i++) {
        const struct an_path_segment *segment = &walk->at[i];
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

static int cause_order(const void *a, const void *b)
{
    const struct an_path_cause *x = a, *y = b;
    return (x->ns < y->ns) - (x->ns > y->ns);
}

static struct an_value share(int64_t ns, int64_t of)
{
    return of > 0 ? an_num(100.0 * (double)ns / (double)of) : an_num_none("the path lasts 0 ns");
}

static int list_causes(struct sums *sums, struct an_critical_path *path)
{
    struct an_path_cause *rows = an_arena_zero(sums->context->arena, AN_CAUSE_COUNT, sizeof *rows);
    double *ms = an_arena_zero(sums->context->scratch, sums->steps + 1, sizeof *ms);
    if (!rows || !ms)
        return TACHO_ENOMEM;
    for (int k = 0; k < AN_CAUSE_COUNT; k++) {
        if (!sums->cause[k])
            continue;
        for (size_t i = 0; i < sums->steps; i++)
            ms[i] = (double)sums->step_cause[i * AN_CAUSE_COUNT + (size_t)k] / 1e6;
        an_sort(ms, sums->steps);
        rows[path->cause_count++] =
            (struct an_path_cause){.key = an_cause_key((enum an_cause)k),
                                   .text = an_cause_text((enum an_cause)k),
                                   .ns = sums->cause[k],
                                   .pct = share(sums->cause[k], sums->length),
                                   .step_median_ms = an_num(an_quantile(ms, sums->steps, 0.5))};
    }
    qsort(rows, path->cause_count, sizeof *rows, cause_order);
    path->causes = rows;
    return 0;
}

static int ns_order(const void *a, const void *b)
{
    const struct op_sum *x = a, *y = b;
    if (x->ns != y->ns)
        return x->ns < y->ns ? 1 : -1;
    return op_order(a, b);
}

static int list_ops(struct sums *sums, struct an_critical_path *path)
{
    merge_ops(sums);
    if (sums->ops)
        qsort(sums->op, sums->ops, sizeof *sums->op, ns_order);
    size_t n = sums->ops < OPS_MOST ? sums->ops : OPS_MOST;
    struct an_path_op *rows = an_arena_zero(sums->context->arena, n, sizeof *rows);
    if (!rows)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const struct op_sum *op_sum = &sums->op[i];
        const char *name =
            op_sum->name != AN_NONE ? an_trace_name(sums->context->trace, op_sum->name) : "";
        rows[i] = (struct an_path_op){
            .name = an_arena_text(sums->context->arena,
                                  *name ? name : an_cause_text((enum an_cause)op_sum->cause)),
            .cause = an_cause_key((enum an_cause)op_sum->cause),
            .where = op_sum->host ? "host" : "device",
            .count = op_sum->count,
            .ns = op_sum->ns,
            .pct = share(op_sum->ns, sums->length)};
    }
    path->ops = rows;
    path->op_count = n;
    return 0;
}

static const char *doubt_of(struct an_context *context, const struct an_critical_path *path,
                            size_t least)
{
    if (path->explained_pct.valid && path->explained_pct.value < EXPLAINED_LEAST)
        return an_arena_format(context->arena,
                               "only %.1f %% of the path is tied to what follows it by an edge: no "
                               "cause can be claimed",
                               path->explained_pct.value);
    if (least < STEPS_LEAST)
        return an_arena_format(
            context->arena,
            "fewer than %d counted steps follow each other: what happened once may stand on it",
            STEPS_LEAST);
    return NULL;
}

static int keep_spans(struct sums *sums)
{
    size_t tracks = sums->context->trace->track_count, n = 0;
    struct an_path_spans *path_spans = an_arena_zero(sums->context->scratch, 1, sizeof *path_spans);
    for (size_t k = 0; k < tracks; k++)
        n += sums->spans[k];
    if (!path_spans ||
        !(path_spans->span = an_arena_zero(sums->context->scratch, n, sizeof *path_spans->span)) ||
        !(path_spans->track_first =
              an_arena_zero(sums->context->scratch, tracks + 1, sizeof *path_spans->track_first)))
        return TACHO_ENOMEM;
    for (size_t k = 0; k < tracks; k++) {
        size_t first = path_spans->track_first[k];
        if (sums->spans[k])
            memcpy(path_spans->span + first, sums->span[k],
                   sums->spans[k] * sizeof *path_spans->span);
        path_spans->track_first[k + 1] = first + sums->spans[k];
    }
    sums->context->path = path_spans;
    return 0;
}

bool an_path_holds(const struct an_path_spans *path_spans, uint32_t track, int64_t start,
                   int64_t end)
{
    if (!path_spans)
        return false;
    const struct an_span *span = path_spans->span + path_spans->track_first[track];
    size_t n = path_spans->track_first[track + 1] - path_spans->track_first[track];
    int64_t middle = start + an_time_sub(end, start) / 2;
    size_t i = an_spans_seek(span, n, middle);
    return i < n && span[i].start <= middle;
}

static int finish(struct sums *sums, size_t least)
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
    path->think_pct = share(sums->cause[AN_CAUSE_THINK], sums->length);
    path->doubt = doubt_of(context, path, least);
    path->rows = an_arena_copy(context->arena, sums->row, sums->rows * sizeof *sums->row);
    path->row_count = sums->rows;
    int rc = list_causes(sums, path);
    rc = rc ? rc : list_ops(sums, path);
    return rc ? rc : keep_spans(sums);
}

static void free_sums(struct sums *sums)
{
    for (size_t k = 0; sums->span && k < sums->context->trace->track_count; k++)
        free(sums->span[k]);
    free(sums->span);
    free(sums->spans);
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

static int walk_windows(struct sums *sums, const struct an_window *window, size_t n, size_t least)
{
    const struct an_step *typical;
    struct an_path_walk walk = {0};
    int rc = an_path_typical(sums->context, window, n, least, &typical);
    for (size_t i = 0; i < n && !rc; i++) {
        const struct an_step *first = &sums->context->step[window[i].first];
        if (window[i].count < least)
            continue;
        rc = an_path_walk(sums->context, sums->graph, &window[i], &walk);
        rc = rc ? rc : an_path_label(sums->context, sums->graph, &walk);
        rc = rc ? rc : add_window(sums, &walk);
        if (!rc && typical && typical >= first && typical < first + window[i].count) {
            rc = an_path_keep_step(sums->context, sums->graph, &walk, typical);
            sums->context->typical = typical;
        }
    }
    free(walk.at);
    return rc;
}

static int path_run(struct an_context *context)
{
    struct sums sums = {.context = context, .op_merge = OPS_MERGE};
    struct an_window *window = NULL;
    const char *why;
    size_t n, least, tracks = context->trace->track_count + 1;
    int rc = choose_lane(context, &least, &window, &n);
    rc = rc ? rc : an_graph_of(context, &sums.graph, &why);
    if (rc)
        return rc;
    if (!n || !sums.graph) {
        path_absent(context, n ? why : "no counted step has all its ranges in the file");
        return 0;
    }
    const struct an_lane *lane = &context->lane[window->lane];
    context->result->critical_path.rank = lane->rank;
    context->result->critical_path.device =
        lane->device == AN_NONE ? "cpu"
                                : an_arena_format(context->arena, "gpu:%" PRId64,
                                                  context->gpu->device[lane->device].ordinal);
    sums.step_cause =
        an_arena_zero(context->scratch, lane->count + 1, AN_CAUSE_COUNT * sizeof *sums.step_cause);
    sums.span = calloc(tracks, sizeof *sums.span);
    sums.spans = calloc(tracks, sizeof *sums.spans);
    sums.span_room = calloc(tracks, sizeof *sums.span_room);
    rc = sums.step_cause && sums.span && sums.spans && sums.span_room
             ? walk_windows(&sums, window, n, least)
             : TACHO_ENOMEM;
    rc = rc ? rc : finish(&sums, least);
    free_sums(&sums);
    return rc;
}

const struct an_analyzer an_critical_path = {
    .name = "critical path",
    .help = "what the run's time depends on: every instant of steady steps once",
    .after = "steps",
    .needs = AN_INPUT_SLICES | AN_INPUT_STEPS | AN_INPUT_DETAIL,
    .run = path_run,
    .absent = path_absent,
};
