/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run knows of each of its steps, for comparing it with another one: classes of the budget,
 * loader waits, ranks, host operators by self time, device work by name. Only made when asked for
 * (an_options.samples).
 *
 * Memory is bounded: ROWS_MOST names are kept, and values of each step for as many of the largest
 * as VALUES_MOST allows.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/diff/diff.h"
#include "analyzers/steps/analyzer.h"

#define ROWS_MOST   4000
#define VALUES_MOST 4000000 /* steps times rows: 32 MB */

struct column { /* one step index; those of several lanes are one */
    int64_t index;
    uint32_t lanes; /* that count it */
    uint32_t detailed_lanes;
    uint32_t detailed; /* its place among the detailed, AN_NONE: not one */
    double ns;
    int64_t tokens, samples;
};

struct row {
    uint64_t key; /* 0: free */
    const char *name;
    enum an_diff_kind kind;
    enum an_class class;
    int64_t calls, total, step_calls;
    double step_ns;
    double *ms;
};

struct table {
    struct an_context *c;
    struct column *column;
    size_t columns, detailed;
    uint32_t *of_step; /* column of each an_context.step, AN_NONE: not counted */
    struct row *row;   /* open addressing */
    size_t room, count;
    bool filling;      /* second pass: the rows that are kept get their values */
    int64_t *child_ns; /* of each slice: time of the slices right below it */
    uint8_t *in_loader;
};

/* ---- columns --------------------------------------------------------------------------------------------------------------- */

static int column_order(const void *a, const void *b)
{
    const struct column *x = a, *y = b;
    return (x->index > y->index) - (x->index < y->index);
}

static struct column *column_of(const struct table *x, int64_t index)
{
    struct column key = {.index = index};
    return x->columns ? bsearch(&key, x->column, x->columns, sizeof key, column_order) : NULL;
}

static void add_up(int64_t *sum, int64_t v)
{
    *sum = v == STORE_ABSENT || *sum == STORE_ABSENT ? STORE_ABSENT : an_time_add(*sum, v);
}

static int make_columns(struct table *x)
{
    struct an_context *c = x->c;
    size_t n = 0;
    x->column = an_arena_zero(c->work, c->step_count + 1, sizeof *x->column);
    x->of_step = an_arena_zero(c->work, c->step_count + 1, sizeof *x->of_step);
    if (!x->column || !x->of_step)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < c->step_count; i++)
        if (an_step_counted(&c->step[i]))
            x->column[n++] = (struct column){.index = c->step[i].index, .detailed = AN_NONE};
    if (n)
        qsort(x->column, n, sizeof *x->column, column_order);
    for (size_t i = 0; i < n; i++)
        if (!i || x->column[i].index != x->column[x->columns - 1].index)
            x->column[x->columns++] = x->column[i];
    for (size_t i = 0; i < c->step_count; i++) {
        const struct an_step *s = &c->step[i];
        struct column *k = an_step_counted(s) ? column_of(x, s->index) : NULL;
        x->of_step[i] = k ? (uint32_t)(k - x->column) : AN_NONE;
        if (!k)
            continue;
        k->lanes++;
        k->ns += (double)an_step_ns(s);
        add_up(&k->tokens, s->tokens);
        add_up(&k->samples, s->samples);
        k->detailed_lanes += an_step_detailed(s);
    }
    for (size_t i = 0; i < x->columns; i++)
        if (x->column[i].detailed_lanes)
            x->column[i].detailed = (uint32_t)x->detailed++;
    return 0;
}

/* ---- rows ------------------------------------------------------------------------------------------------------------------ */

static uint64_t row_key(enum an_diff_kind kind, enum an_class class, uint64_t name)
{
    return (name << 8 | (uint64_t)kind << 4 | (uint64_t) class) + 1;
}

static size_t slot_of(const struct table *x, uint64_t key)
{
    uint64_t h = key * 0x9e3779b97f4a7c15u;
    size_t at = (size_t)(h >> 20) & (x->room - 1);
    while (x->row[at].key && x->row[at].key != key)
        at = (at + 1) & (x->room - 1);
    return at;
}

static int more_room(struct table *x)
{
    struct row *old = x->row;
    size_t n = x->room;
    x->room = n ? n * 2 : 1024;
    if (!(x->row = calloc(x->room, sizeof *x->row))) {
        x->row = old;
        x->room = n;
        return TACHO_ENOMEM;
    }
    for (size_t i = 0; i < n; i++)
        if (old[i].key)
            x->row[slot_of(x, old[i].key)] = old[i];
    free(old);
    return 0;
}

/* One call of a name that took `ns`, in a step (index into an_context.step) or in none (AN_NONE).
 * `name` is a number that stands for `text`: a string index. */
static int put(struct table *x, enum an_diff_kind kind, enum an_class class, uint64_t name,
               const char *text, int64_t calls, double ns, uint32_t step)
{
    uint32_t column = step == AN_NONE ? AN_NONE : x->of_step[step];
    if (step != AN_NONE && (column == AN_NONE || !an_step_detailed(&x->c->step[step])))
        column = AN_NONE;
    if (!x->filling && 2 * (x->count + 1) > x->room && more_room(x))
        return TACHO_ENOMEM;
    struct row *r = &x->row[slot_of(x, row_key(kind, class, name))];
    const struct column *k = column == AN_NONE ? NULL : &x->column[column];
    double mean = k ? ns / (kind == AN_DIFF_RANK ? 1 : k->detailed_lanes) : 0;
    if (x->filling) {
        if (r->key && r->ms && k)
            r->ms[k->detailed] += mean / 1e6;
        return 0;
    }
    if (!r->key) {
        *r = (struct row){
            .key = row_key(kind, class, name), .name = text, .kind = kind, .class = class};
        x->count++;
    }
    r->calls += calls;
    r->total = an_time_add(r->total, ns < 0x1p62 ? (int64_t)ns : INT64_MAX);
    r->step_calls += k ? calls : 0;
    r->step_ns += mean;
    return 0;
}

/* ---- host ------------------------------------------------------------------------------------------------------------------ */

static bool starts(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

static bool is_loader_stage(enum an_role r)
{
    return r == AN_ROLE_READ || r == AN_ROLE_DECODE || r == AN_ROLE_COLLATE || r == AN_ROLE_PIN ||
           r == AN_ROLE_QUEUE_WAIT;
}

static enum an_class host_class(const struct table *x, size_t i)
{
    enum an_role r = an_slice_role(x->c->t, i);
    if (x->in_loader[i] || is_loader_stage(r))
        return AN_CLASS_INPUT;
    if (x->c->gpu) /* the device decides there: what the host does is host */
        return AN_CLASS_HOST;
    bool comm = r == AN_ROLE_COMM || r == AN_ROLE_COMM_WAIT;
    return r == AN_ROLE_WORK ? AN_CLASS_COMPUTE : comm ? AN_CLASS_COMM : AN_CLASS_HOST;
}

/* Names that differ in every step or that say nothing of their own; and waiting for room in a queue
 * is no work. */
static bool is_left_out(const struct an_trace *t, size_t i)
{
    const char *category = an_slice_category(t, i);
    enum an_role role = an_slice_role(t, i);
    return role == AN_ROLE_STEP || role == AN_ROLE_QUEUE_WAIT ||
           starts(an_trace_name(t, t->slice.name[i]), "ProfilerStep#") ||
           !strcmp(category, "python") || !strcmp(category, "overhead") ||
           !strcmp(category, "instant") || !strcmp(category, "trace");
}

static void measure_children(struct table *x)
{
    const struct an_trace *t = x->c->t;
    for (size_t i = 0; i < t->slice.count; i++) {
        uint32_t p = t->slice.parent[i];
        bool loader = an_slice_role(t, i) == AN_ROLE_INPUT_WAIT;
        if (p != AN_NONE && p < i) {
            int64_t end = an_slice_end(t, i), limit = an_slice_end(t, p);
            int64_t inside = an_time_sub(end < limit ? end : limit, t->slice.start[i]);
            if (inside > 0)
                x->child_ns[p] = an_time_add(x->child_ns[p], inside);
            x->in_loader[i] = x->in_loader[p] || loader;
        } else {
            x->in_loader[i] = loader;
        }
    }
}

/* Lane whose step a host slice belongs to: that of its thread, else the first of its process. */
static const struct an_lane *lane_of_track(const struct an_context *c, uint32_t track)
{
    const struct an_lane *of_process = NULL;
    for (size_t k = 0; k < c->lane_count; k++) {
        if (c->lane[k].track == track)
            return &c->lane[k];
        if (!of_process && c->lane[k].process == c->t->track[track].process)
            of_process = &c->lane[k];
    }
    return of_process;
}

static void step_window(const struct an_lane *l, const struct an_step *s, bool host, int64_t *start,
                        int64_t *end)
{
    bool device = l->device != AN_NONE && host;
    *start = device ? s->host_start : s->start;
    *end = device ? s->host_end : s->end;
}

/* Step of the lane that holds `time`, starting the search at *from (a slice's start never lies
 * before the last one's). */
static uint32_t step_from(const struct an_context *c, const struct an_lane *l, bool host,
                          int64_t time, size_t *from)
{
    for (; l && *from < l->first + l->count; ++*from) {
        int64_t start, end;
        step_window(l, &c->step[*from], host, &start, &end);
        if (time < start)
            return AN_NONE;
        if (end != STORE_ABSENT && time < end)
            return (uint32_t)*from;
    }
    return AN_NONE;
}

static int put_host(struct table *x)
{
    const struct an_trace *t = x->c->t;
    int rc = 0;
    for (uint32_t k = 0; k < t->track_count && !rc; k++) {
        const struct an_track *track = &t->track[k];
        if (strcmp(track->kind, "thread") || track->process == AN_NONE)
            continue;
        const struct an_lane *l = lane_of_track(x->c, k);
        bool runs_steps = l && l->track == k;
        size_t from = l ? l->first : 0;
        for (size_t i = track->slice_first; i < track->slice_first + track->slice_count && !rc;
             i++) {
            if (t->slice.dur[i] == AN_OPEN || is_left_out(t, i))
                continue;
            uint32_t step = step_from(x->c, l, true, t->slice.start[i], &from),
                     name = t->slice.name[i];
            const char *text = an_trace_name(t, name);
            int64_t self = t->slice.dur[i] > x->child_ns[i] ? t->slice.dur[i] - x->child_ns[i] : 0;
            uint32_t p = t->slice.parent[i];
            rc = put(x, AN_DIFF_OP, host_class(x, i), name, text, 1, (double)self, step);
            if (!rc && runs_steps && x->in_loader[i] && (p == AN_NONE || !x->in_loader[p]))
                rc = put(x, AN_DIFF_LOADER, AN_CLASS_INPUT, name, text, 1, (double)t->slice.dur[i],
                         step);
        }
    }
    return rc;
}

/* ---- devices --------------------------------------------------------------------------------------------------------------- */

static enum an_class device_class(uint8_t class)
{
    unsigned bit = 1u << class;
    return bit & AN_DEVICE_COMM_MASK   ? AN_CLASS_COMM
           : bit & AN_DEVICE_COPY_MASK ? AN_CLASS_COPY
                                       : AN_CLASS_COMPUTE;
}

static int put_devices(struct table *x)
{
    const struct an_context *c = x->c;
    int rc = 0;
    for (uint32_t d = 0; c->gpu && d < c->gpu->device_count && !rc; d++) {
        const struct an_device *device = &c->gpu->device[d];
        const struct an_lane *l = NULL;
        for (size_t k = 0; k < c->lane_count && !l; k++)
            l = c->lane[k].device == d ? &c->lane[k] : NULL;
        size_t from = l ? l->first : 0;
        for (size_t i = device->first; i < device->first + device->count && !rc; i++) {
            uint32_t name = c->t->slice.name[c->gpu->op.slice[i]];
            uint32_t step = step_from(c, l, false, c->gpu->op.start[i], &from);
            rc = put(x, AN_DIFF_KERNEL, device_class(c->gpu->op.class[i]), name,
                     an_trace_name(c->t, name), 1,
                     (double)an_time_sub(c->gpu->op.end[i], c->gpu->op.start[i]), step);
        }
    }
    return rc;
}

/* ---- classes, ranks -------------------------------------------------------------------------------------------------------- */

/* "rank 3"; with the device where a rank runs several. Which one a single one is changes from run
 * to run. */
static const char *lane_name(const struct an_context *c, const struct an_lane *l)
{
    int lanes = 0;
    for (size_t k = 0; k < c->lane_count; k++)
        lanes += c->lane[k].rank == l->rank;
    if (lanes < 2 || l->device == AN_NONE || !c->gpu)
        return an_arena_format(c->work, "rank %" PRId64, l->rank);
    return an_arena_format(c->work, "rank %" PRId64 " gpu:%" PRId64, l->rank,
                           c->gpu->device[l->device].ordinal);
}

static int put_steps(struct table *x)
{
    struct an_context *c = x->c;
    int rc = 0;
    for (uint32_t i = 0; i < c->step_count && !rc; i++) {
        const struct an_step *s = &c->step[i];
        const struct an_lane *l = &c->lane[s->lane];
        if (!an_step_detailed(s))
            continue;
        for (int k = 0; k < AN_CLASS_COUNT && !rc; k++)
            if (c->r->budget.ns[k].valid)
                rc = put(x, AN_DIFF_CLASS, (enum an_class)k, (uint64_t)k,
                         an_class_key((enum an_class)k), 0, (double)s->class_ns[k], i);
        if (rc)
            break;
        rc = put(x, AN_DIFF_RANK, AN_CLASS_COUNT, s->lane, lane_name(c, l), 0,
                 (double)an_step_ns(s), i);
    }
    return rc;
}

/* Without steps: the temporal split of the devices over the capture, summed. */
static int put_capture(struct table *x)
{
    const struct an_result *r = x->c->r;
    int rc = 0;
    for (size_t g = 0; g < r->gpu_count && !rc; g++) {
        const struct an_gpu_device *d = &r->gpus[g];
        const struct {
            enum an_class class;
            const char *name;
            struct an_count ns;
        } parts[] = {{AN_CLASS_COMPUTE, an_class_key(AN_CLASS_COMPUTE), d->compute_ns},
                     {AN_CLASS_COMM, an_class_key(AN_CLASS_COMM), d->exposed_comm_ns},
                     {AN_CLASS_COPY, an_class_key(AN_CLASS_COPY), d->exposed_copy_ns},
                     {AN_CLASS_UNATTRIBUTED, "opaque", d->opaque_ns},
                     {AN_CLASS_HOST, "idle", d->idle_ns}};
        for (size_t k = 0; k < sizeof parts / sizeof *parts && !rc; k++)
            if (parts[k].ns.valid)
                rc = put(x, AN_DIFF_CLASS, parts[k].class, k, parts[k].name, 0,
                         (double)parts[k].ns.value, AN_NONE);
    }
    return rc;
}

/* ---- the result ------------------------------------------------------------------------------------------------------------ */

static int put_all(struct table *x)
{
    int rc = x->columns ? put_steps(x) : put_capture(x);
    if (!rc)
        rc = put_host(x);
    return rc ? rc : put_devices(x);
}

static int row_order(const void *a, const void *b)
{
    const struct row *x = *(struct row *const *)a, *y = *(struct row *const *)b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->step_ns != y->step_ns)
        return x->step_ns > y->step_ns ? -1 : 1;
    if (x->total != y->total)
        return x->total > y->total ? -1 : 1;
    return (x->key > y->key) - (x->key < y->key);
}

static int size_order(const void *a, const void *b)
{
    const struct row *x = *(struct row *const *)a, *y = *(struct row *const *)b;
    bool fx = x->kind < AN_DIFF_OP,
         fy = y->kind < AN_DIFF_OP; /* classes, loader, ranks are always kept */
    if (fx != fy)
        return fx ? -1 : 1;
    if (x->step_ns != y->step_ns)
        return x->step_ns > y->step_ns ? -1 : 1;
    if (x->total != y->total)
        return x->total > y->total ? -1 : 1;
    return (x->key > y->key) - (x->key < y->key);
}

static int keep_rows(struct table *x, struct an_samples *out)
{
    struct an_context *c = x->c;
    size_t n = 0, values = x->detailed ? VALUES_MOST / x->detailed : 0;
    struct row **all = an_arena_zero(c->work, x->count + 1, sizeof *all);
    if (!all)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < x->room; i++)
        if (x->row[i].key)
            all[n++] = &x->row[i];
    if (n)
        qsort(all, n, sizeof *all, size_order);
    out->names_left_out = n > ROWS_MOST ? (int64_t)(n - ROWS_MOST) : 0;
    n = n < ROWS_MOST ? n : ROWS_MOST;
    for (size_t i = 0; i < n && i < values; i++)
        if (!(all[i]->ms = an_arena_zero(c->a, x->detailed, sizeof(double))))
            return TACHO_ENOMEM;
    x->filling = true;
    int rc = put_all(x);
    struct an_sample *rows = an_arena_zero(c->a, n + 1, sizeof *rows);
    if (rc || !rows)
        return TACHO_ENOMEM;
    if (n)
        qsort(all, n, sizeof *all, row_order);
    for (size_t i = 0; i < n; i++)
        rows[i] = (struct an_sample){.name = an_arena_text(c->a, all[i]->name),
                                     .kind = all[i]->kind,
                                     .class = all[i]->class,
                                     .calls = all[i]->calls,
                                     .total_ns = all[i]->total,
                                     .step_calls = all[i]->step_calls,
                                     .step_ns = all[i]->step_ns,
                                     .ms = all[i]->ms};
    out->rows = rows;
    out->row_count = n;
    return 0;
}

static int keep_steps(struct table *x, struct an_samples *out)
{
    struct an_arena *a = x->c->a;
    double *ms = an_arena_zero(a, x->columns + 1, sizeof *ms);
    int64_t *tokens = an_arena_zero(a, x->columns + 1, sizeof *tokens),
            *samples = an_arena_zero(a, x->columns + 1, sizeof *samples);
    uint32_t *step_of = an_arena_zero(a, x->detailed + 1, sizeof *step_of);
    if (!ms || !tokens || !samples || !step_of)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < x->columns; i++) {
        ms[i] = x->column[i].ns / x->column[i].lanes / 1e6;
        tokens[i] = x->column[i].tokens;
        samples[i] = x->column[i].samples;
        if (x->column[i].detailed != AN_NONE)
            step_of[x->column[i].detailed] = (uint32_t)i;
    }
    *out = (struct an_samples){.steps = x->columns,
                               .step_ms = ms,
                               .tokens = tokens,
                               .samples = samples,
                               .detailed = x->detailed,
                               .step_of = step_of,
                               .capture_ms = NAN};
    for (size_t g = 0; g < x->c->r->gpu_count; g++) {
        struct an_count span = x->c->r->gpus[g].span_ns;
        if (span.valid && !((double)span.value / 1e6 <= out->capture_ms))
            out->capture_ms = (double)span.value / 1e6;
    }
    if (isnan(out->capture_ms) && x->c->r->run.duration_s.valid)
        out->capture_ms = x->c->r->run.duration_s.value * 1e3;
    return 0;
}

static int samples_run(struct an_context *c)
{
    struct table x = {.c = c};
    if (!c->o->samples)
        return 0;
    struct an_samples *out = an_arena_zero(c->a, 1, sizeof *out);
    x.child_ns = an_arena_zero(c->work, c->t->slice.count + 1, sizeof *x.child_ns);
    x.in_loader = an_arena_zero(c->work, c->t->slice.count + 1, 1);
    int rc = !out || !x.child_ns || !x.in_loader ? TACHO_ENOMEM : more_room(&x);
    if (!rc)
        rc = make_columns(&x);
    if (!rc) {
        measure_children(&x);
        rc = keep_steps(&x, out);
    }
    if (!rc)
        rc = put_all(&x);
    if (!rc)
        rc = keep_rows(&x, out);
    free(x.row);
    if (!rc)
        c->r->samples = out;
    return rc;
}

static void samples_absent(struct an_context *c, const char *reason)
{
    (void)c;
    (void)reason; /* needs nothing */
}

const struct an_analyzer an_sample_steps = {"samples", "values of each step, for tacho diff", 0,
                                            samples_run, samples_absent};
