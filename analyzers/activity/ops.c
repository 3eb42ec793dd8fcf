/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of ops: one row for each name, category and kind.
 *
 * A run with an accelerator: the device ops of the whole capture; the kind is the class of the op.
 * The tables of attribution have what the host did.
 *
 * A run without: the ranges of all threads of the whole run. Self time is what no nested range of
 * the same thread covers. Where limits (--steps, --every, --max-size) left slices out, count, total
 * and self time of steps come from the aggregates, which are kept for the whole run; minimum,
 * maximum and spread from the slices there are.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/steps/context.h"
#include "tacho_hash.h"

struct op {
    uint32_t name, category;
    const char *kind, *pass; /* texts of details, shared */
    const char *schema;
    int64_t count, total, self, flops, bytes;
    struct an_tally seen;      /* of slices with an end */
    double flops_ns, bytes_ns; /* time of the calls whose FLOPs or bytes are known */
};

struct table {
    struct op *op;
    size_t count, room;
    uint32_t *bucket; /* open addressing, index + 1 */
    size_t buckets;
    uint32_t *of_slice; /* op of each open range on the stack of a sweep */
    int64_t *end;
    size_t stack_room;
};

static uint64_t op_hash(uint32_t name, uint32_t category, const char *kind, const char *pass)
{
    uint64_t hash = tacho_hash_number(tacho_hash_number(TACHO_HASH_BEGIN, name), category);
    hash = tacho_hash_number(tacho_hash_text(hash, kind), 0xff);
    hash = tacho_hash_text(hash, pass);
    return hash ^ (hash >> 29);
}

static int table_rehash(struct table *table)
{
    size_t size = table->buckets ? table->buckets * 2 : 1024;
    uint32_t *bucket = calloc(size, sizeof *bucket);
    if (!bucket)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < table->count; i++) {
        const struct op *op = &table->op[i];
        size_t slot = op_hash(op->name, op->category, op->kind, op->pass) & (size - 1);
        while (bucket[slot])
            slot = (slot + 1) & (size - 1);
        bucket[slot] = (uint32_t)i + 1;
    }
    free(table->bucket);
    table->bucket = bucket;
    table->buckets = size;
    return 0;
}

/* Row of a key; a new one if needed. AN_NONE when memory is out. */
static uint32_t table_row(struct table *table, uint32_t name, uint32_t category,
                          const struct an_detail *detail)
{
    const char *kind = detail ? detail->kind : "";
    const char *pass = detail ? detail->pass : "";
    if (2 * (table->count + 1) > table->buckets && table_rehash(table))
        return AN_NONE;
    size_t slot = op_hash(name, category, kind, pass) & (table->buckets - 1);
    for (; table->bucket[slot]; slot = (slot + 1) & (table->buckets - 1)) {
        const struct op *op = &table->op[table->bucket[slot] - 1];
        if (op->name == name && op->category == category && !strcmp(op->kind, kind) &&
            !strcmp(op->pass, pass))
            return table->bucket[slot] - 1;
    }
    if (an_grow(&table->op, &table->room, table->count + 1, sizeof *table->op))
        return AN_NONE;
    table->op[table->count] = (struct op){.name = name,
                                          .category = category,
                                          .kind = kind,
                                          .pass = pass,
                                          .schema = detail ? detail->schema : ""};
    table->bucket[slot] = (uint32_t)++table->count;
    return (uint32_t)table->count - 1;
}

/* A product of counts, saturating. */
static int64_t times(int64_t each, int64_t calls)
{
    int64_t product;
    return __builtin_mul_overflow(each, calls, &product) ? INT64_MAX : product;
}

/* Adds the FLOPs and bytes of `calls` calls that took `ns`, as far as the payload has them. */
static void op_payload(struct op *op, const struct an_detail *detail, int64_t calls, int64_t ns)
{
    if (!detail)
        return;
    if (detail->flops != STORE_ABSENT) {
        op->flops = an_time_add(op->flops, times(detail->flops, calls));
        op->flops_ns += (double)ns;
    }
    bool traffic = detail->bytes_read != STORE_ABSENT || detail->bytes_written != STORE_ABSENT;
    if (traffic || detail->bytes > 0) {
        int64_t bytes = traffic ? an_time_add(an_time_max(detail->bytes_read, 0),
                                              an_time_max(detail->bytes_written, 0))
                                : detail->bytes;
        op->bytes = an_time_add(op->bytes, times(bytes, calls));
        op->bytes_ns += (double)ns;
    }
}

static void op_call(struct op *op, const struct an_detail *detail, int64_t dur)
{
    op->count++;
    op->total = an_time_add(op->total, dur);
    an_tally_add(&op->seen, dur);
    op_payload(op, detail, 1, dur);
}

/* ---- slices ------------------------------------------------------------------------------------------------------------- */

static int stack_room(struct table *table, size_t need)
{
    size_t slice_room = table->stack_room, end_room = table->stack_room;
    if (an_grow(&table->of_slice, &slice_room, need, sizeof *table->of_slice) ||
        an_grow(&table->end, &end_room, need, sizeof *table->end))
        return TACHO_ENOMEM;
    table->stack_room = slice_room;
    return 0;
}

/* Adds the time from *at to `time` to the self time of the innermost open range. */
static void pass_time(struct table *table, size_t depth, int64_t *at, int64_t time)
{
    uint32_t row = depth ? table->of_slice[depth - 1] : AN_NONE;
    if (time <= *at)
        return;
    if (row != AN_NONE)
        table->op[row].self = an_time_add(table->op[row].self, time - *at);
    *at = time;
}

/* One pass over a thread: the innermost range gets the time as its self time at each instant.
 * Ranges without an end have none. Ranges of tracks that are not nested are their own self
 * time. */
static int sweep_track(const struct an_trace *trace, const struct an_track *track,
                       struct table *table, bool nested)
{
    size_t depth = 0;
    int64_t at = 0;
    for (size_t i = track->slice_first; i <= an_track_end(track); i++) {
        bool last = i == an_track_end(track);
        int64_t start = last ? INT64_MAX : trace->slice.start[i];
        for (; depth && table->end[depth - 1] <= start; depth--)
            pass_time(table, depth, &at, table->end[depth - 1]);
        if (last)
            break;
        pass_time(table, depth, &at, start);
        const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[i]);
        uint32_t row = table_row(table, trace->slice.name[i], trace->slice.category[i], detail);
        if (row == AN_NONE || stack_room(table, depth + 1))
            return TACHO_ENOMEM;
        bool open = trace->slice.dur[i] == AN_OPEN;
        if (open) {
            table->op[row].count++;
            op_payload(&table->op[row], detail, 1, 0);
        } else {
            op_call(&table->op[row], detail, trace->slice.dur[i]);
        }
        if (!nested) {
            table->op[row].self = an_time_add(table->op[row].self, open ? 0 : trace->slice.dur[i]);
            continue;
        }
        /* what a paused step did is not known */
        table->of_slice[depth] = open || (detail && detail->paused) ? AN_NONE : row;
        table->end[depth++] = an_slice_end(trace, i);
    }
    return 0;
}

/* ---- aggregates --------------------------------------------------------------------------------------------------------- */

/* Sums the aggregates by op. */
static int sum_aggregates(const struct an_trace *trace, struct table *all)
{
    const struct an_aggregates *aggregates = &trace->aggregate;
    for (size_t i = 0; i < aggregates->count; i++) {
        const struct an_detail *detail = an_trace_detail(trace, aggregates->detail[i]);
        uint32_t row = table_row(all, aggregates->name[i], aggregates->category[i], detail);
        if (row == AN_NONE)
            return TACHO_ENOMEM;
        struct op *op = &all->op[row];
        op->count = an_time_add(op->count, aggregates->calls[i]);
        op->total = an_time_add(op->total, aggregates->total[i]);
        if (!detail || !detail->paused)
            op->self = an_time_add(op->self, aggregates->self[i]);
        op_payload(op, detail, aggregates->calls[i], aggregates->total[i]);
    }
    return 0;
}

/* Ranges outside steps are only in the slices, ranges inside steps are also in the aggregates, and
 * limits leave slices out. So all slices are counted first; a row of which the aggregates have more
 * calls takes their sums instead. */
static int merge_aggregates(const struct an_trace *trace, struct table *table)
{
    struct table all = {0};
    int rc = sum_aggregates(trace, &all);
    for (size_t i = 0; i < all.count && !rc; i++) {
        const struct op *known = &all.op[i];
        struct an_detail key = {.kind = known->kind, .pass = known->pass, .schema = known->schema};
        uint32_t row = table_row(table, known->name, known->category, &key);
        if (row == AN_NONE) {
            rc = TACHO_ENOMEM;
            break;
        }
        struct op *seen = &table->op[row];
        /* the same calls: what ran below them was cut */
        if (known->count == seen->count)
            seen->self = an_time_min(seen->self, known->self);
        if (known->count <= seen->count)
            continue;
        seen->count = known->count;
        seen->total = known->total;
        seen->self = known->self;
        seen->flops = known->flops;
        seen->bytes = known->bytes;
        seen->flops_ns = known->flops_ns;
        seen->bytes_ns = known->bytes_ns;
    }
    free(all.op);
    free(all.bucket);
    return rc;
}

/* ---- device ops --------------------------------------------------------------------------------------------------------- */

static int sum_devices(struct an_context *context, struct table *table)
{
    const struct an_device_ops *ops = &context->gpu->op;
    const struct an_slices *slices = &context->trace->slice;
    for (size_t i = 0; i < ops->count; i++) {
        const char *class = an_device_class_key((enum an_device_class)ops->class[i]);
        struct an_detail key = {.kind = class, .pass = "", .schema = "gpu.kernel"};
        uint32_t row =
            table_row(table, slices->name[ops->slice[i]], slices->category[ops->slice[i]], &key);
        if (row == AN_NONE)
            return TACHO_ENOMEM;
        op_call(&table->op[row], an_trace_detail(context->trace, slices->detail[ops->slice[i]]),
                an_time_sub(ops->end[i], ops->start[i]));
        table->op[row].self = table->op[row].total;
    }
    context->result->ops_window = "the whole capture";
    return 0;
}

/* ---- the rows ----------------------------------------------------------------------------------------------------------- */

/* Does the op only wait? A worker of a loader that waits for room in its queue has no share of the
 * work. */
static bool is_idle(const struct op *op)
{
    return !strcmp(op->kind, "queue_wait");
}

static int op_order(const void *first, const void *second)
{
    const struct op *left = first, *right = second;
    if (is_idle(left) != is_idle(right))
        return is_idle(left) ? 1 : -1;
    int order = 4 * AN_COMPARE(right->self, left->self) +
                2 * AN_COMPARE(right->total, left->total) + AN_COMPARE(left->name, right->name);
    return order ? order : strcmp(left->pass, right->pass);
}

/* Makes the row of the result; a value that the run does not have gets the reason. */
static struct an_op op_row(struct an_context *context, const struct op *op, int64_t self_all)
{
    const char *none = "the file holds no call with an end";
    struct an_op row = {
        .name = an_arena_text(context->arena, an_trace_name(context->trace, op->name)),
        .category = an_arena_text(context->arena, an_trace_name(context->trace, op->category)),
        .kind = an_arena_text(context->arena, op->kind),
        .pass = an_arena_text(context->arena, op->pass),
        .count = op->count,
        .total_ns = op->total,
        .self_ns = op->self};
    row.min_ns = op->seen.count ? an_int(op->seen.min) : an_int_none(none);
    row.max_ns = op->seen.count ? an_int(op->seen.max) : an_int_none(none);
    row.mean_us =
        op->count ? an_num((double)op->total / (double)op->count / 1e3) : an_num_none(none);
    double sd = an_tally_sd(&op->seen);
    const char *no_sd = op->seen.count > 1 ? "the times contradict each other"
                                           : "fewer than two calls with an end in the file";
    row.sd_us = !isnan(sd) ? an_num(sd / 1e3) : an_num_none(no_sd);
    if (is_idle(op))
        row.share_pct = an_num_none("waiting for room in the queue is not work");
    else
        row.share_pct = self_all > 0 ? an_num(100 * (double)op->self / (double)self_all)
                                     : an_num_none("no time was recorded");
    const char *silent = "its payload does not say";
    row.flops = op->flops > 0 || op->flops_ns > 0 ? an_int(op->flops) : an_int_none(silent);
    row.bytes = op->bytes > 0 || op->bytes_ns > 0 ? an_int(op->bytes) : an_int_none(silent);
    row.flops_per_s =
        op->flops_ns > 0 ? an_num((double)op->flops / op->flops_ns * 1e9) : an_num_none(silent);
    row.bytes_per_s =
        op->bytes_ns > 0 ? an_num((double)op->bytes / op->bytes_ns * 1e9) : an_num_none(silent);
    return row;
}

static int sum_threads(const struct an_trace *trace, struct table *table)
{
    int rc = 0;
    for (size_t k = 0; k < trace->track_count && !rc; k++) {
        bool ranges = !strcmp(trace->track[k].kind, "range");
        if (ranges && *trace->track[k].device) /* lives of blocks of memory: no work */
            continue;
        rc = sweep_track(trace, &trace->track[k], table, !ranges);
    }
    return !rc && trace->aggregate.count ? merge_aggregates(trace, table) : rc;
}

/* Sums the device ops of a run with an accelerator, else the ranges of all threads, and sorts the
 * rows by self time. */
static int ops_run(struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    struct table table = {0};
    struct an_op *rows = NULL;
    int rc = 0;
    int64_t self_all = 0;
    context->result->ops_window = "the whole run";
    if (context->gpu && context->gpu->op.count)
        rc = sum_devices(context, &table);
    else
        rc = sum_threads(trace, &table);
    if (!rc && !(rows = an_arena_zero(context->arena, table.count, sizeof *rows)))
        rc = TACHO_ENOMEM;
    if (!rc) {
        if (table.count)
            qsort(table.op, table.count, sizeof *table.op, op_order);
        for (size_t i = 0; i < table.count; i++)
            self_all = an_time_add(self_all, is_idle(&table.op[i]) ? 0 : table.op[i].self);
        for (size_t i = 0; i < table.count; i++)
            rows[i] = op_row(context, &table.op[i], self_all);
        context->result->ops = rows;
        context->result->op_count = table.count;
    }
    free(table.op);
    free(table.bucket);
    free(table.of_slice);
    free(table.end);
    return rc;
}

static void ops_absent(struct an_context *context, const char *reason)
{
    (void)reason; /* no ranges is an empty table */
    context->result->op_count = 0;
}

const struct an_analyzer an_ops = {
    .name = "ops",
    .help =
        "every kernel, else every range, by name: count, time, spread, self time, FLOP/s, bytes/s",
    .needs = AN_INPUT_SLICES,
    .run = ops_run,
    .absent = ops_absent,
};
