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
    struct an_context *c;
    const struct an_graph *g;
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

static int64_t time_of(const struct an_window *w, size_t n, size_t least)
{
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        if (w[i].count >= least)
            sum = an_time_add(sum, an_time_sub(w[i].end, w[i].start));
    return sum;
}

/* The lane with most time in steady windows; where none has any, in windows of any length. */
static int choose_lane(struct an_context *c, size_t *least, struct an_window **out, size_t *n)
{
    int64_t most = 0;
    *n = 0;
    for (*least = STEPS_LEAST; *least && !*n; *least = *n ? *least : *least - 1)
        for (uint32_t k = 0; k < c->lane_count; k++) {
            struct an_window *w;
            size_t count;
            int rc = an_windows_of(c, k, &w, &count);
            if (rc)
                return rc;
            int64_t ns = time_of(w, count, *least);
            if (ns > most) {
                most = ns;
                *out = w;
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
static void merge_ops(struct sums *x)
{
    size_t n = 0;
    if (x->ops)
        qsort(x->op, x->ops, sizeof *x->op, op_order);
    for (size_t i = 0; i < x->ops; i++) {
        if (n && !op_order(&x->op[n - 1], &x->op[i])) {
            x->op[n - 1].count += x->op[i].count;
            x->op[n - 1].ns += x->op[i].ns;
        } else {
            x->op[n++] = x->op[i];
        }
    }
    x->ops = n;
}

static int add_op(struct sums *x, const struct an_path_segment *s)
{
    const struct an_trace *t = x->c->t;
    bool host = s->node == AN_NONE || !an_graph_on_device(x->g, s->node);
    if (x->ops == x->op_merge) {
        merge_ops(x);
        x->op_merge = 2 * x->ops + OPS_MERGE;
    }
    if (an_grow(&x->op, &x->op_room, x->ops + 1, sizeof *x->op))
        return TACHO_ENOMEM;
    x->op[x->ops++] =
        (struct op_sum){.name = s->slice == AN_NONE ? AN_NONE : t->slice.name[s->slice],
                        .cause = s->cause,
                        .host = host,
                        .count = 1,
                        .ns = s->end - s->start};
    return 0;
}

static int add_row(struct sums *x, const struct an_path_segment *s)
{
    const struct an_trace *t = x->c->t;
    if (!x->c->o->path)
        return 0;
    if (an_grow(&x->row, &x->row_room, x->rows + 1, sizeof *x->row))
        return TACHO_ENOMEM;
    bool range = s->slice != AN_NONE;
    x->row[x->rows++] = (struct an_path_row){
        .start_ns = s->start,
        .end_ns = s->end,
        .track = s->node == AN_NONE ? STORE_ABSENT : t->track[x->g->track[s->node]].id,
        .range_start_ns = range ? t->slice.start[s->slice] : STORE_ABSENT,
        .range_end_ns = range ? an_slice_end(t, s->slice) : STORE_ABSENT,
        .name = an_arena_text(x->c->a, range ? an_trace_name(t, t->slice.name[s->slice]) : ""),
        .cause = an_cause_key((enum an_cause)s->cause),
        .link = an_path_link_key(s->link),
        .how = (enum an_path_how)s->how,
        .window = x->windows};
    return 0;
}

/* Spans of a window come in order of time; windows come in order, too. */
static int add_span(struct sums *x, const struct an_path_segment *s)
{
    if (s->node == AN_NONE || s->cause == AN_CAUSE_DISPATCH || s->cause == AN_CAUSE_OPAQUE)
        return 0;
    uint32_t k = x->g->track[s->node];
    size_t n = x->spans[k];
    if (n && x->span[k][n - 1].end >= s->start) {
        x->span[k][n - 1].end = s->end;
        return 0;
    }
    if (an_grow(&x->span[k], &x->span_room[k], n + 1, sizeof **x->span))
        return TACHO_ENOMEM;
    x->span[k][x->spans[k]++] = (struct an_span){s->start, s->end};
    return 0;
}

/* The step's share of a segment goes to the step; what lies between two marked steps of a thread to
 * the one before. */
static void add_to_steps(struct sums *x, const struct an_path_segment *s, const struct an_window *w,
                         size_t *step)
{
    const struct an_step *steps = &x->c->step[w->first];
    int64_t at = s->start;
    while (at < s->end) {
        while (*step + 1 < w->count && steps[*step + 1].start <= at)
            ++*step;
        int64_t until = *step + 1 < w->count && steps[*step + 1].start < s->end
                            ? steps[*step + 1].start
                            : s->end;
        x->step_cause[(x->steps + *step) * AN_CAUSE_COUNT + s->cause] += until - at;
        at = until;
    }
}

static int add_window(struct sums *x, const struct an_path_walk *p)
{
    size_t step = 0;
    int rc = 0;
    for (size_t i = 0; i < p->count && !rc; i++) {
        const struct an_path_segment *s = &p->at[i];
        int64_t ns = s->end - s->start;
        x->cause[s->cause] += ns;
        x->how[s->how] += ns;
        x->length += ns;
        add_to_steps(x, s, &p->window, &step);
        rc = add_op(x, s);
        rc = rc ? rc : add_row(x, s);
        rc = rc ? rc : add_span(x, s);
    }
    x->window += p->window.end - p->window.start;
    x->steps += p->window.count;
    x->windows++;
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

static int list_causes(struct sums *x, struct an_critical_path *r)
{
    struct an_path_cause *rows = an_arena_zero(x->c->a, AN_CAUSE_COUNT, sizeof *rows);
    double *ms = an_arena_zero(x->c->work, x->steps + 1, sizeof *ms);
    if (!rows || !ms)
        return TACHO_ENOMEM;
    for (int k = 0; k < AN_CAUSE_COUNT; k++) {
        if (!x->cause[k])
            continue;
        for (size_t i = 0; i < x->steps; i++)
            ms[i] = (double)x->step_cause[i * AN_CAUSE_COUNT + (size_t)k] / 1e6;
        an_sort(ms, x->steps);
        rows[r->cause_count++] =
            (struct an_path_cause){.key = an_cause_key((enum an_cause)k),
                                   .text = an_cause_text((enum an_cause)k),
                                   .ns = x->cause[k],
                                   .pct = share(x->cause[k], x->length),
                                   .step_median_ms = an_num(an_quantile(ms, x->steps, 0.5))};
    }
    qsort(rows, r->cause_count, sizeof *rows, cause_order);
    r->causes = rows;
    return 0;
}

static int ns_order(const void *a, const void *b)
{
    const struct op_sum *x = a, *y = b;
    if (x->ns != y->ns)
        return x->ns < y->ns ? 1 : -1;
    return op_order(a, b);
}

static int list_ops(struct sums *x, struct an_critical_path *r)
{
    merge_ops(x);
    if (x->ops)
        qsort(x->op, x->ops, sizeof *x->op, ns_order);
    size_t n = x->ops < OPS_MOST ? x->ops : OPS_MOST;
    struct an_path_op *rows = an_arena_zero(x->c->a, n, sizeof *rows);
    if (!rows)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const struct op_sum *o = &x->op[i];
        const char *name = o->name != AN_NONE ? an_trace_name(x->c->t, o->name) : "";
        rows[i] = (struct an_path_op){
            .name = an_arena_text(x->c->a, *name ? name : an_cause_text((enum an_cause)o->cause)),
            .cause = an_cause_key((enum an_cause)o->cause),
            .where = o->host ? "host" : "device",
            .count = o->count,
            .ns = o->ns,
            .pct = share(o->ns, x->length)};
    }
    r->ops = rows;
    r->op_count = n;
    return 0;
}

static const char *doubt_of(struct an_context *c, const struct an_critical_path *r, size_t least)
{
    if (r->explained_pct.valid && r->explained_pct.value < EXPLAINED_LEAST)
        return an_arena_format(c->a,
                               "only %.1f %% of the path is tied to what follows it by an edge: no "
                               "cause can be claimed",
                               r->explained_pct.value);
    if (least < STEPS_LEAST)
        return an_arena_format(
            c->a,
            "fewer than %d counted steps follow each other: what happened once may stand on it",
            STEPS_LEAST);
    return NULL;
}

static int keep_spans(struct sums *x)
{
    size_t tracks = x->c->t->track_count, n = 0;
    struct an_path_spans *p = an_arena_zero(x->c->work, 1, sizeof *p);
    for (size_t k = 0; k < tracks; k++)
        n += x->spans[k];
    if (!p || !(p->span = an_arena_zero(x->c->work, n, sizeof *p->span)) ||
        !(p->track_first = an_arena_zero(x->c->work, tracks + 1, sizeof *p->track_first)))
        return TACHO_ENOMEM;
    for (size_t k = 0; k < tracks; k++) {
        size_t first = p->track_first[k];
        if (x->spans[k])
            memcpy(p->span + first, x->span[k], x->spans[k] * sizeof *p->span);
        p->track_first[k + 1] = first + x->spans[k];
    }
    x->c->path = p;
    return 0;
}

bool an_path_holds(const struct an_path_spans *p, uint32_t track, int64_t start, int64_t end)
{
    if (!p)
        return false;
    const struct an_span *a = p->span + p->track_first[track];
    size_t n = p->track_first[track + 1] - p->track_first[track];
    int64_t middle = start + an_time_sub(end, start) / 2;
    size_t i = an_spans_seek(a, n, middle);
    return i < n && a[i].start <= middle;
}

static int finish(struct sums *x, size_t least)
{
    struct an_context *c = x->c;
    struct an_critical_path *r = &c->r->critical_path;
    int64_t gaps = x->how[AN_PATH_GAP];
    r->windows = (int64_t)x->windows;
    r->steps = (int64_t)x->steps;
    r->window_ns = an_int(x->window);
    r->length_ns = an_int(x->length);
    r->explained_pct = share(x->length - gaps, x->length);
    r->recorded_pct = share(x->how[AN_PATH_RECORDED], x->length);
    r->inferred_pct = share(x->how[AN_PATH_INFERRED], x->length);
    r->gap_pct = share(gaps, x->length);
    r->think_pct = share(x->cause[AN_CAUSE_THINK], x->length);
    r->doubt = doubt_of(c, r, least);
    r->rows = an_arena_copy(c->a, x->row, x->rows * sizeof *x->row);
    r->row_count = x->rows;
    int rc = list_causes(x, r);
    rc = rc ? rc : list_ops(x, r);
    return rc ? rc : keep_spans(x);
}

static void free_sums(struct sums *x)
{
    for (size_t k = 0; x->span && k < x->c->t->track_count; k++)
        free(x->span[k]);
    free(x->span);
    free(x->spans);
    free(x->span_room);
    free(x->op);
    free(x->row);
}

static void path_absent(struct an_context *c, const char *reason)
{
    struct an_critical_path *r = &c->r->critical_path;
    r->reason = reason;
    r->window_ns = r->length_ns = an_int_none(reason);
    r->explained_pct = r->recorded_pct = r->inferred_pct = r->gap_pct = r->think_pct =
        an_num_none(reason);
}

static int walk_windows(struct sums *x, const struct an_window *w, size_t n, size_t least)
{
    const struct an_step *typical;
    struct an_path_walk p = {0};
    int rc = an_path_typical(x->c, w, n, least, &typical);
    for (size_t i = 0; i < n && !rc; i++) {
        const struct an_step *first = &x->c->step[w[i].first];
        if (w[i].count < least)
            continue;
        rc = an_path_walk(x->c, x->g, &w[i], &p);
        rc = rc ? rc : an_path_label(x->c, x->g, &p);
        rc = rc ? rc : add_window(x, &p);
        if (!rc && typical && typical >= first && typical < first + w[i].count) {
            rc = an_path_keep_step(x->c, x->g, &p, typical);
            x->c->typical = typical;
        }
    }
    free(p.at);
    return rc;
}

static int path_run(struct an_context *c)
{
    struct sums x = {.c = c, .op_merge = OPS_MERGE};
    struct an_window *w = NULL;
    const char *why;
    size_t n, least, tracks = c->t->track_count + 1;
    int rc = choose_lane(c, &least, &w, &n);
    rc = rc ? rc : an_graph_of(c, &x.g, &why);
    if (rc)
        return rc;
    if (!n || !x.g) {
        path_absent(c, n ? why : "no counted step has all its ranges in the file");
        return 0;
    }
    const struct an_lane *l = &c->lane[w->lane];
    c->r->critical_path.rank = l->rank;
    c->r->critical_path.device =
        l->device == AN_NONE
            ? "cpu"
            : an_arena_format(c->a, "gpu:%" PRId64, c->gpu->device[l->device].ordinal);
    x.step_cause = an_arena_zero(c->work, l->count + 1, AN_CAUSE_COUNT * sizeof *x.step_cause);
    x.span = calloc(tracks, sizeof *x.span);
    x.spans = calloc(tracks, sizeof *x.spans);
    x.span_room = calloc(tracks, sizeof *x.span_room);
    rc = x.step_cause && x.span && x.spans && x.span_room ? walk_windows(&x, w, n, least)
                                                          : TACHO_ENOMEM;
    rc = rc ? rc : finish(&x, least);
    free_sums(&x);
    return rc;
}

const struct an_analyzer an_critical_path = {
    "critical path", "what the run's time depends on: every instant of steady steps once",
    AN_INPUT_SLICES | AN_INPUT_STEPS | AN_INPUT_DETAIL, path_run, path_absent};
