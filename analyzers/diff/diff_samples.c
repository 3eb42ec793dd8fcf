/* SPDX-License-Identifier: Apache-2.0
 *
 * The values of each step of a run, for comparing it with another one: classes of the budget,
 * loader waits, ranks, host operators by self time, device work by name. They are only made when
 * asked for (an_options.samples). The rows are found in a first pass; a second one fills in the
 * values of the rows that are kept.
 *
 * Memory is bounded: ROWS_MOST names are kept, and values of each step for as many of the largest
 * as VALUES_MOST allows.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/diff/diff.h"
#include "analyzers/steps/context.h"

#define ROWS_MOST   4000
#define VALUES_MOST 4000000 /* steps times rows: 32 MB */

/* A step by its index: that of all lanes together. */
struct column {
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
    struct an_context *context;
    struct column *column;
    size_t columns, detailed;
    uint32_t *of_step; /* column of each an_context.step, AN_NONE: excluded */
    struct row *row;   /* open addressing */
    size_t room, count;
    bool filling;      /* second pass: the rows that are kept get their values */
    int64_t *child_ns; /* of each slice: time of the slices right below it */
    uint8_t *in_loader;
};

/* ---- columns --------------------------------------------------------------------------------- */

static int column_order(const void *left, const void *right)
{
    const struct column *first = left, *second = right;
    return (first->index > second->index) - (first->index < second->index);
}

static struct column *column_of(const struct table *table, int64_t index)
{
    struct column key = {.index = index};
    return table->columns ? bsearch(&key, table->column, table->columns, sizeof key, column_order)
                          : NULL;
}

static void add_up(int64_t *sum, int64_t value)
{
    *sum = value == STORE_ABSENT || *sum == STORE_ABSENT ? STORE_ABSENT : an_time_add(*sum, value);
}

/* Sums the counted steps of all lanes by their index. */
static int make_columns(struct table *table)
{
    struct an_context *context = table->context;
    size_t count = 0;
    table->column = an_arena_zero(context->scratch, context->step_count + 1, sizeof *table->column);
    table->of_step =
        an_arena_zero(context->scratch, context->step_count + 1, sizeof *table->of_step);
    if (!table->column || !table->of_step)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < context->step_count; i++)
        if (an_step_counted(&context->step[i]))
            table->column[count++] =
                (struct column){.index = context->step[i].index, .detailed = AN_NONE};
    if (count)
        qsort(table->column, count, sizeof *table->column, column_order);
    for (size_t i = 0; i < count; i++)
        if (!i || table->column[i].index != table->column[table->columns - 1].index)
            table->column[table->columns++] = table->column[i];
    for (size_t i = 0; i < context->step_count; i++) {
        const struct an_step *step = &context->step[i];
        struct column *column = an_step_counted(step) ? column_of(table, step->index) : NULL;
        table->of_step[i] = column ? (uint32_t)(column - table->column) : AN_NONE;
        if (!column)
            continue;
        column->lanes++;
        column->ns += (double)an_step_ns(step);
        add_up(&column->tokens, step->tokens);
        add_up(&column->samples, step->samples);
        column->detailed_lanes += an_step_detailed(step);
    }
    for (size_t i = 0; i < table->columns; i++)
        if (table->column[i].detailed_lanes)
            table->column[i].detailed = (uint32_t)table->detailed++;
    return 0;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static uint64_t row_key(enum an_diff_kind kind, enum an_class class, uint64_t name)
{
    return (name << 8 | (uint64_t)kind << 4 | (uint64_t) class) + 1;
}

static size_t slot_of(const struct table *table, uint64_t key)
{
    uint64_t hash = key * 0x9e3779b97f4a7c15u;
    size_t slot = (size_t)(hash >> 20) & (table->room - 1);
    while (table->row[slot].key && table->row[slot].key != key)
        slot = (slot + 1) & (table->room - 1);
    return slot;
}

/* Doubles the hash table. */
static int more_room(struct table *table)
{
    struct row *old = table->row;
    size_t slots = table->room;
    table->room = slots ? slots * 2 : 1024;
    if (!(table->row = calloc(table->room, sizeof *table->row))) {
        table->row = old;
        table->room = slots;
        return TACHO_ENOMEM;
    }
    for (size_t i = 0; i < slots; i++)
        if (old[i].key)
            table->row[slot_of(table, old[i].key)] = old[i];
    free(old);
    return 0;
}

/* Adds `calls` of a name that took `ns`, in a step (index into an_context.step) or in none
 * (AN_NONE). `name` is the string index of `text`, or another number that identifies it. */
static int put(struct table *table, enum an_diff_kind kind, enum an_class class, uint64_t name,
               const char *text, int64_t calls, double ns, uint32_t step)
{
    uint32_t column = step == AN_NONE ? AN_NONE : table->of_step[step];
    if (step != AN_NONE && (column == AN_NONE || !an_step_detailed(&table->context->step[step])))
        column = AN_NONE;
    if (!table->filling && 2 * (table->count + 1) > table->room && more_room(table))
        return TACHO_ENOMEM;
    struct row *row = &table->row[slot_of(table, row_key(kind, class, name))];
    const struct column *of = column == AN_NONE ? NULL : &table->column[column];
    double mean = 0;
    if (of)
        mean = ns / (kind == AN_DIFF_RANK ? 1 : of->detailed_lanes);
    if (table->filling) {
        if (row->key && row->ms && of)
            row->ms[of->detailed] += mean / 1e6;
        return 0;
    }
    if (!row->key) {
        *row = (struct row){
            .key = row_key(kind, class, name), .name = text, .kind = kind, .class = class};
        table->count++;
    }
    row->calls += calls;
    row->total = an_time_add(row->total, ns < 0x1p62 ? (int64_t)ns : INT64_MAX);
    row->step_calls += of ? calls : 0;
    row->step_ns += mean;
    return 0;
}

/* ---- host ------------------------------------------------------------------------------------ */

static bool starts(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

static bool is_loader_stage(enum an_role role)
{
    return role == AN_ROLE_READ || role == AN_ROLE_DECODE || role == AN_ROLE_COLLATE ||
           role == AN_ROLE_PIN || role == AN_ROLE_QUEUE_WAIT;
}

/* Class of a host range: input inside the loader, else by its role. */
static enum an_class host_class(const struct table *table, size_t i)
{
    enum an_role role = an_slice_role(table->context->trace, i);
    if (table->in_loader[i] || is_loader_stage(role))
        return AN_CLASS_INPUT;
    if (table->context->gpu) /* there the device has the other classes */
        return AN_CLASS_HOST;
    if (role == AN_ROLE_WORK)
        return AN_CLASS_COMPUTE;
    return role == AN_ROLE_COMM || role == AN_ROLE_COMM_WAIT ? AN_CLASS_COMM : AN_CLASS_HOST;
}

/* Names that differ in every step or have no meaning of their own, and waits for room in a queue.
 */
static bool is_left_out(const struct an_trace *trace, size_t i)
{
    const char *category = an_slice_category(trace, i);
    enum an_role role = an_slice_role(trace, i);
    return role == AN_ROLE_STEP || role == AN_ROLE_QUEUE_WAIT ||
           starts(an_trace_name(trace, trace->slice.name[i]), "ProfilerStep#") ||
           !strcmp(category, "python") || !strcmp(category, "overhead") ||
           !strcmp(category, "instant") || !strcmp(category, "trace");
}

/* Sums the time of the ranges right below each range, for self times, and marks ranges inside the
 * loader. Parents come before their children. */
static void measure_children(struct table *table)
{
    const struct an_trace *trace = table->context->trace;
    for (size_t i = 0; i < trace->slice.count; i++) {
        uint32_t parent = trace->slice.parent[i];
        bool loader = an_slice_role(trace, i) == AN_ROLE_INPUT_WAIT;
        if (parent != AN_NONE && parent < i) {
            int64_t end = an_slice_end(trace, i), limit = an_slice_end(trace, parent);
            int64_t inside = an_time_sub(end < limit ? end : limit, trace->slice.start[i]);
            if (inside > 0)
                table->child_ns[parent] = an_time_add(table->child_ns[parent], inside);
            table->in_loader[i] = table->in_loader[parent] || loader;
        } else {
            table->in_loader[i] = loader;
        }
    }
}

/* Lane whose step a host slice belongs to: that of its thread, else the first of its process. */
static const struct an_lane *lane_of_track(const struct an_context *context, uint32_t track)
{
    uint32_t lane = an_lane_of_track(context, track);
    if (lane == AN_NONE)
        lane = an_own_lane(context, context->trace->track[track].process);
    return lane == AN_NONE ? NULL : &context->lane[lane];
}

static void step_window(const struct an_lane *lane, const struct an_step *step, bool host,
                        int64_t *start, int64_t *end)
{
    bool device = lane->device != AN_NONE && host;
    *start = device ? step->host_start : step->start;
    *end = device ? step->host_end : step->end;
}

/* Step of the lane that holds `time`, starting the search at *from (a slice's start never lies
 * before the last one's). */
static uint32_t step_from(const struct an_context *context, const struct an_lane *lane, bool host,
                          int64_t time, size_t *from)
{
    for (; lane && *from < lane->first + lane->count; ++*from) {
        int64_t start, end;
        step_window(lane, &context->step[*from], host, &start, &end);
        if (time < start)
            return AN_NONE;
        if (end != STORE_ABSENT && time < end)
            return (uint32_t)*from;
    }
    return AN_NONE;
}

/* Adds the ranges of all threads: host operators by self time, and on threads that run steps the
 * outermost data waits. */
static int put_host(struct table *table)
{
    const struct an_trace *trace = table->context->trace;
    int rc = 0;
    for (uint32_t k = 0; k < trace->track_count && !rc; k++) {
        const struct an_track *track = &trace->track[k];
        if (strcmp(track->kind, "thread") || track->process == AN_NONE)
            continue;
        const struct an_lane *lane = lane_of_track(table->context, k);
        bool runs_steps = lane && lane->track == k;
        size_t from = lane ? lane->first : 0;
        for (size_t i = track->slice_first; i < track->slice_first + track->slice_count && !rc;
             i++) {
            if (trace->slice.dur[i] == AN_OPEN || is_left_out(trace, i))
                continue;
            uint32_t step = step_from(table->context, lane, true, trace->slice.start[i], &from),
                     name = trace->slice.name[i];
            const char *text = an_trace_name(trace, name);
            int64_t self = trace->slice.dur[i] - table->child_ns[i];

            uint32_t parent = trace->slice.parent[i];
            rc = put(table, AN_DIFF_OP, host_class(table, i), name, text, 1,
                     self > 0 ? (double)self : 0, step);
            if (!rc && runs_steps && table->in_loader[i] &&
                (parent == AN_NONE || !table->in_loader[parent]))
                rc = put(table, AN_DIFF_LOADER, AN_CLASS_INPUT, name, text, 1,
                         (double)trace->slice.dur[i], step);
        }
    }
    return rc;
}

/* ---- devices --------------------------------------------------------------------------------- */

static enum an_class device_class(uint8_t class)
{
    unsigned bit = 1u << class;
    if (bit & AN_DEVICE_COMM_MASK)
        return AN_CLASS_COMM;
    return bit & AN_DEVICE_COPY_MASK ? AN_CLASS_COPY : AN_CLASS_COMPUTE;
}

/* Adds the ops of all devices by name. */
static int put_devices(struct table *table)
{
    const struct an_context *context = table->context;
    int rc = 0;
    for (uint32_t device_index = 0;
         context->gpu && device_index < context->gpu->device_count && !rc; device_index++) {
        const struct an_device *device = &context->gpu->device[device_index];
        const struct an_lane *lane = NULL;
        for (size_t k = 0; k < context->lane_count && !lane; k++)
            lane = context->lane[k].device == device_index ? &context->lane[k] : NULL;
        size_t from = lane ? lane->first : 0;
        for (size_t i = device->first; i < device->first + device->count && !rc; i++) {
            uint32_t name = context->trace->slice.name[context->gpu->op.slice[i]];
            uint32_t step = step_from(context, lane, false, context->gpu->op.start[i], &from);
            rc = put(table, AN_DIFF_KERNEL, device_class(context->gpu->op.class[i]), name,
                     an_trace_name(context->trace, name), 1,
                     (double)an_time_sub(context->gpu->op.end[i], context->gpu->op.start[i]), step);
        }
    }
    return rc;
}

/* ---- classes, ranks -------------------------------------------------------------------------- */

/* "rank 3"; with the device where a rank runs several. The number of a single device changes from
 * run to run and is excluded. */
static const char *lane_name(const struct an_context *context, const struct an_lane *lane)
{
    int lanes = 0;
    for (size_t k = 0; k < context->lane_count; k++)
        lanes += context->lane[k].rank == lane->rank;
    if (lanes < 2 || lane->device == AN_NONE || !context->gpu)
        return an_arena_format(context->scratch, "rank %" PRId64, lane->rank);
    return an_arena_format(context->scratch, "rank %" PRId64 " %s", lane->rank,
                           context->gpu->device[lane->device].label);
}

/* Adds the classes of the budget and the time of each rank. */
static int put_steps(struct table *table)
{
    struct an_context *context = table->context;
    int rc = 0;
    for (uint32_t i = 0; i < context->step_count && !rc; i++) {
        const struct an_step *step = &context->step[i];
        const struct an_lane *lane = &context->lane[step->lane];
        if (!an_step_detailed(step))
            continue;
        for (int k = 0; k < AN_CLASS_COUNT && !rc; k++)
            if (context->result->budget.ns[k].valid)
                rc = put(table, AN_DIFF_CLASS, (enum an_class)k, (uint64_t)k,
                         an_class_key((enum an_class)k), 0, (double)step->class_ns[k], i);
        if (rc)
            break;
        rc = put(table, AN_DIFF_RANK, AN_CLASS_COUNT, step->lane, lane_name(context, lane), 0,
                 (double)an_step_ns(step), i);
    }
    return rc;
}

/* Without steps: the temporal split of the devices over the capture, summed. */
static int put_capture(struct table *table)
{
    const struct an_result *result = table->context->result;
    int rc = 0;
    for (size_t gpu = 0; gpu < result->gpu_count && !rc; gpu++) {
        const struct an_gpu_device *device = &result->gpus[gpu];
        const struct {
            enum an_class class;
            const char *name;
            struct an_count ns;
        } parts[] = {{AN_CLASS_COMPUTE, an_class_key(AN_CLASS_COMPUTE), device->compute_ns},
                     {AN_CLASS_COMM, an_class_key(AN_CLASS_COMM), device->exposed_comm_ns},
                     {AN_CLASS_COPY, an_class_key(AN_CLASS_COPY), device->exposed_copy_ns},
                     {AN_CLASS_UNATTRIBUTED, "opaque", device->opaque_ns},
                     {AN_CLASS_HOST, "idle", device->idle_ns}};
        for (size_t k = 0; k < sizeof parts / sizeof *parts && !rc; k++)
            if (parts[k].ns.valid)
                rc = put(table, AN_DIFF_CLASS, parts[k].class, k, parts[k].name, 0,
                         (double)parts[k].ns.value, AN_NONE);
    }
    return rc;
}

/* ---- the result ------------------------------------------------------------------------------ */

static int put_all(struct table *table)
{
    int rc = table->columns ? put_steps(table) : put_capture(table);
    if (!rc)
        rc = put_host(table);
    return rc ? rc : put_devices(table);
}

/* By size: step time, total time, key. */
static int size_order(const struct row *first, const struct row *second)
{
    if (first->step_ns != second->step_ns)
        return first->step_ns > second->step_ns ? -1 : 1;
    if (first->total != second->total)
        return first->total > second->total ? -1 : 1;
    return (first->key > second->key) - (first->key < second->key);
}

/* The order of the result: by kind, then by size. */
static int row_order(const void *left, const void *right)
{
    const struct row *first = *(struct row *const *)left, *second = *(struct row *const *)right;
    if (first->kind != second->kind)
        return first->kind < second->kind ? -1 : 1;
    return size_order(first, second);
}

/* The order in which rows are kept: classes, loader and ranks before names, then by size. */
static int keep_order(const void *left, const void *right)
{
    const struct row *first = *(struct row *const *)left, *second = *(struct row *const *)right;
    bool first_fixed = first->kind < AN_DIFF_OP, second_fixed = second->kind < AN_DIFF_OP;
    if (first_fixed != second_fixed)
        return first_fixed ? -1 : 1;
    return size_order(first, second);
}

/* Lists the rows in use, those to keep first; returns their number. */
static size_t list_rows(const struct table *table, struct row **all)
{
    size_t count = 0;
    for (size_t i = 0; i < table->room; i++)
        if (table->row[i].key)
            all[count++] = &table->row[i];
    if (count)
        qsort(all, count, sizeof *all, keep_order);
    return count;
}

static struct an_sample sample_of(struct an_arena *arena, const struct row *row)
{
    return (struct an_sample){.name = an_arena_text(arena, row->name),
                              .kind = row->kind,
                              .class = row->class,
                              .calls = row->calls,
                              .total_ns = row->total,
                              .step_calls = row->step_calls,
                              .step_ns = row->step_ns,
                              .ms = row->ms};
}

/* Keeps the largest rows, fills the values of each step for as many as memory allows, and copies
 * them into the result. */
static int keep_rows(struct table *table, struct an_samples *out)
{
    struct an_context *context = table->context;
    size_t values = table->detailed ? VALUES_MOST / table->detailed : 0;
    struct row **all = an_arena_zero(context->scratch, table->count + 1, sizeof *all);
    if (!all)
        return TACHO_ENOMEM;
    size_t kept = list_rows(table, all);
    out->names_left_out = kept > ROWS_MOST ? (int64_t)(kept - ROWS_MOST) : 0;
    kept = kept < ROWS_MOST ? kept : ROWS_MOST;
    for (size_t i = 0; i < kept && i < values; i++)
        if (!(all[i]->ms = an_arena_zero(context->arena, table->detailed, sizeof(double))))
            return TACHO_ENOMEM;
    table->filling = true;
    int rc = put_all(table);
    struct an_sample *rows = an_arena_zero(context->arena, kept + 1, sizeof *rows);
    if (rc || !rows)
        return TACHO_ENOMEM;
    if (kept)
        qsort(all, kept, sizeof *all, row_order);
    for (size_t i = 0; i < kept; i++)
        rows[i] = sample_of(context->arena, all[i]);
    out->rows = rows;
    out->row_count = kept;
    return 0;
}

/* Copies the steps into the result: the mean over the lanes. The capture is that of the longest
 * device, else of the run. */
static int keep_steps(struct table *table, struct an_samples *out)
{
    struct an_arena *arena = table->context->arena;
    double *ms = an_arena_zero(arena, table->columns + 1, sizeof *ms);
    int64_t *tokens = an_arena_zero(arena, table->columns + 1, sizeof *tokens),
            *samples = an_arena_zero(arena, table->columns + 1, sizeof *samples);
    uint32_t *step_of = an_arena_zero(arena, table->detailed + 1, sizeof *step_of);
    if (!ms || !tokens || !samples || !step_of)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < table->columns; i++) {
        ms[i] = table->column[i].ns / table->column[i].lanes / 1e6;
        tokens[i] = table->column[i].tokens;
        samples[i] = table->column[i].samples;
        if (table->column[i].detailed != AN_NONE)
            step_of[table->column[i].detailed] = (uint32_t)i;
    }
    *out = (struct an_samples){.steps = table->columns,
                               .step_ms = ms,
                               .tokens = tokens,
                               .samples = samples,
                               .detailed = table->detailed,
                               .step_of = step_of,
                               .capture_ms = NAN};
    for (size_t gpu = 0; gpu < table->context->result->gpu_count; gpu++) {
        struct an_count span = table->context->result->gpus[gpu].span_ns;
        if (span.valid && !((double)span.value / 1e6 <= out->capture_ms))
            out->capture_ms = (double)span.value / 1e6;
    }
    if (isnan(out->capture_ms) && table->context->result->run.duration_s.valid)
        out->capture_ms = table->context->result->run.duration_s.value * 1e3;
    return 0;
}

/* Makes the samples where they were asked for. */
static int samples_run(struct an_context *context)
{
    struct table table = {.context = context};
    if (!context->options->samples)
        return 0;
    struct an_samples *out = an_arena_zero(context->arena, 1, sizeof *out);
    table.child_ns =
        an_arena_zero(context->scratch, context->trace->slice.count + 1, sizeof *table.child_ns);
    table.in_loader = an_arena_zero(context->scratch, context->trace->slice.count + 1, 1);
    int rc = !out || !table.child_ns || !table.in_loader ? TACHO_ENOMEM : more_room(&table);
    if (!rc)
        rc = make_columns(&table);
    if (!rc) {
        measure_children(&table);
        rc = keep_steps(&table, out);
    }
    if (!rc)
        rc = put_all(&table);
    if (!rc)
        rc = keep_rows(&table, out);
    free(table.row);
    if (!rc)
        context->result->samples = out;
    return rc;
}

static void samples_absent(struct an_context *context, const char *reason)
{
    (void)context;
    (void)reason; /* needs nothing */
}

const struct an_analyzer an_sample_steps = {
    .name = "samples",
    .help = "values of each step, for tacho diff",
    .after = "steps, gpu, budget",
    .run = samples_run,
    .absent = samples_absent,
};
