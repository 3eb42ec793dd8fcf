/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranges that the hardware counted one by one (docs/gpu.md): marks with a payload `tacho.counted`,
 * which hold seven metrics each, of all pieces of a step that lie in the same ranges and in none
 * inside these. They become operations, bytes, time; and points of the roofline with bytes that
 * were measured.
 */
#include "analyzers/counters/counted.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#define RANGES_MOST 4096 /* of all ranks */

/* Does the status of a kind of counters say why nothing was counted at all? */
static bool has_failed(const char *status)
{
    return !strncmp(status, "failed", 6) || !strncmp(status, "nothing", 7);
}

struct an_value an_counted_none(struct an_context *context, const char *which)
{
    char key[32];
    snprintf(key, sizeof key, "counters.%s", which);
    const char *status = an_trace_key(context->trace, key);
    if (!status)
        return an_num_none(an_arena_format(context->arena, "not asked for: tacho run --counters %s",
                                           strcmp(which, "ranges") ? which : "roofline"));
    return an_num_none(has_failed(status) ? an_arena_text(context->arena, status)
                                          : "this chip does not count it");
}

/* ---- from metrics to quantities -------------------------------------------------------------------------------------------- */

static struct an_value add_scaled(struct an_value left, struct an_value right, double factor)
{
    if (!left.valid || !right.valid)
        return left.valid ? right : left;
    return an_num(left.value + factor * right.value);
}

static struct an_value known_or_zero(struct an_value value, bool any)
{
    return value.valid || !any ? value : an_num(0); /* a type that the chip has no unit for */
}

static struct an_value ratio(struct an_value amount, struct an_value per, double factor)
{
    if (!amount.valid || !per.valid)
        return amount.valid ? per : amount;
    return per.value > 0 ? an_num(factor * amount.value / per.value)
                         : an_num_none("nothing was moved");
}

/* Element types of the matrix units, and the metrics that count their operations. */
#define MATRIX_TYPES 4
static const struct {
    const char *dtype, *metric;
} matrix[MATRIX_TYPES] = {{"bf16", "range_tensor_bf16"},
                          {"fp16", "range_tensor_fp16"},
                          {"tf32", "range_tensor_tf32"},
                          {"fp8", "range_tensor_fp8"}};

/* Returns the type of most operations. */
static const char *main_dtype(const struct an_value *matrix_ops, const struct an_value *fp32_flops)
{
    const char *dtype = "fp32";
    double most = fp32_flops->valid ? fp32_flops->value : 0;
    for (size_t i = 0; i < MATRIX_TYPES; i++)
        if (matrix_ops[i].valid && matrix_ops[i].value > most) {
            most = matrix_ops[i].value;
            dtype = matrix[i].dtype;
        }
    return dtype;
}

const char *an_counted_fill(struct an_step_counted *counted,
                            struct an_value (*get)(void *ctx, const char *metric), void *ctx)
{
    struct an_value ops[MATRIX_TYPES];
    bool any = false;
    for (size_t i = 0; i < MATRIX_TYPES; i++) {
        ops[i] = get(ctx, matrix[i].metric);
        any |= ops[i].valid;
    }
    counted->matrix_ops = known_or_zero(ops[0], any);
    for (size_t i = 1; i < MATRIX_TYPES; i++)
        counted->matrix_ops = add_scaled(counted->matrix_ops, known_or_zero(ops[i], any), 1);
    counted->fp32_flops =
        add_scaled(add_scaled(get(ctx, "range_fp32_add"), get(ctx, "range_fp32_mul"), 1),
                   get(ctx, "range_fp32_fma"), 2);
    counted->dram_bytes = add_scaled(get(ctx, "range_dram_read"), get(ctx, "range_dram_write"), 1);
    counted->l2_bytes = get(ctx, "range_l2");
    counted->l1_bytes = get(ctx, "range_l1");
    struct an_value ns = get(ctx, "range_time");
    counted->time_ms = ns.valid ? an_num(ns.value / 1e6) : ns;
    counted->occupancy_pct = get(ctx, "range_occupancy");
    struct an_value flops = add_scaled(counted->matrix_ops, counted->fp32_flops, 1);
    counted->intensity = ratio(flops, counted->dram_bytes, 1);
    counted->flops_per_s = ratio(flops, ns, 1e9);
    counted->dram_bytes_per_s = ratio(counted->dram_bytes, ns, 1e9);
    counted->stall_memory = get(ctx, "range_stall_memory");
    counted->stall_barrier = get(ctx, "range_stall_barrier");
    counted->stall_math = get(ctx, "range_stall_math");
    counted->stall_wait = get(ctx, "range_stall_wait");
    return main_dtype(ops, &counted->fp32_flops);
}

/* ---- ranges ------------------------------------------------------------------------------------------------------------------ */

/* The marks of one range: their payloads in one object. */
struct marks {
    struct an_context *context;
    uint32_t process, name;
    int64_t device;
    json_t *metrics;
};

struct finder {
    struct marks *row;
    size_t rows, room;
};

static struct an_value metric(void *ctx, const char *name)
{
    const struct marks *marks = ctx;
    const json_t *json = json_object_get(marks->metrics, name);
    if (json_is_number(json))
        return an_num(json_number_value(json));
    return json_is_null(json) ? an_num_none("no kernel of this range was counted")
                              : an_counted_none(marks->context, "ranges");
}

/* Adds the payload of a mark to its range. Each mark holds seven metrics of the same range, so
 * later marks only add the metrics that are still missing. */
static int add_mark(struct an_context *context, struct finder *finder, uint32_t process,
                    size_t slice)
{
    const struct an_trace *trace = context->trace;
    uint32_t name = trace->slice.name[slice];
    json_t *payload =
        json_loads(an_trace_detail(trace, trace->slice.detail[slice])->payload, 0, NULL);
    const json_t *device = json_object_get(payload, "device");
    size_t i = finder->rows;
    if (!json_is_integer(device) || process == AN_NONE) { /* of a damaged file */
        json_decref(payload);
        return 0;
    }
    while (i && (finder->row[i - 1].process != process || finder->row[i - 1].name != name ||
                 finder->row[i - 1].device != json_integer_value(device)))
        i--;
    if (i) { /* another seven of its metrics */
        json_object_update_missing(finder->row[i - 1].metrics, payload);
        json_decref(payload);
        return 0;
    }
    if (finder->rows == RANGES_MOST ||
        an_grow(&finder->row, &finder->room, finder->rows + 1, sizeof *finder->row)) {
        json_decref(payload);
        return finder->rows == RANGES_MOST ? 0 : TACHO_ENOMEM;
    }
    finder->row[finder->rows++] =
        (struct marks){context, process, name, json_integer_value(device), payload};
    return 0;
}

static int find_marks(struct an_context *context, struct finder *finder)
{
    const struct an_trace *trace = context->trace;
    bool *counted = an_arena_zero(context->scratch, trace->detail_count + 1, sizeof *counted),
         any = false;
    if (!counted)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < trace->detail_count; i++)
        any |= counted[i] = !strcmp(trace->detail[i].schema, "tacho.counted");
    int rc = 0;
    for (size_t k = 0; any && k < trace->track_count; k++)
        for (size_t i = trace->track[k].slice_first; i < an_track_end(&trace->track[k]) && !rc; i++)
            if (trace->slice.detail[i] != AN_NONE && counted[trace->slice.detail[i]])
                rc = add_mark(context, finder, trace->track[k].process, i);
    return rc;
}

static double time_or_less(const struct an_step_counted *counted)
{
    return counted->time_ms.valid ? counted->time_ms.value : -1;
}

/* Rank by rank, the longest first; what has no time comes last. */
static int range_order(const void *first, const void *second)
{
    const struct an_range_counted *left = first, *right = second;
    int order = 2 * AN_COMPARE(left->rank, right->rank) +
                AN_COMPARE(time_or_less(&right->counted), time_or_less(&left->counted));
    return order ? order : strcmp(left->name, right->name);
}

static const char *why_none(struct an_context *context)
{
    const char *whole = an_trace_key(context->trace, "counters.roofline"),
               *ranges = an_trace_key(context->trace, "counters.ranges");
    if (!whole)
        return "not asked for: tacho run --counters roofline";
    if (ranges || has_failed(whole))
        return an_arena_text(context->arena, ranges ? ranges : whole);
    return "the steps have no ranges inside (NVTX push and pop on the thread of the step)";
}

static void counted_absent(struct an_context *context, const char *reason)
{
    context->result->counted.reason = reason;
}

/* Turns the metrics of a range into operations and bytes. */
static void fill_row(struct an_context *context, struct marks *from, struct an_range_counted *out)
{
    out->rank = context->trace->process[from->process].rank;
    out->device = from->device;
    out->name = an_arena_text(context->arena, an_trace_name(context->trace, from->name));
    out->pieces = json_integer_value(json_object_get(from->metrics, "pieces"));
    out->dtype = an_counted_fill(&out->counted, metric, from);
}

/* Gathers the marks by range and turns the metrics of each range into operations and bytes. */
static int counted_run(struct an_context *context)
{
    struct finder finder = {0};
    int rc = find_marks(context, &finder);
    struct an_range_counted *rows =
        rc ? NULL : an_arena_zero(context->arena, finder.rows + 1, sizeof *rows);
    rc = rows ? rc : TACHO_ENOMEM;
    for (size_t i = 0; i < finder.rows && !rc; i++)
        fill_row(context, &finder.row[i], &rows[i]);
    if (!rc) {
        qsort(rows, finder.rows, sizeof *rows, range_order);
        context->result->ranges_counted = rows;
        context->result->range_counted_count = finder.rows;
        context->result->counted.reason = finder.rows ? NULL : why_none(context);
    }
    for (size_t i = 0; i < finder.rows; i++)
        json_decref(finder.row[i].metrics);
    free(finder.row);
    return rc;
}

const struct an_analyzer an_counted = {
    .name = "counted",
    .help = "operations and bytes of ranges, counted by the hardware",
    .needs = AN_INPUT_SLICES,
    .run = counted_run,
    .absent = counted_absent,
};
