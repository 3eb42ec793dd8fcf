/* SPDX-License-Identifier: Apache-2.0
 *
 * The element types in which matrix and attention kernels compute, and whether they ran on matrix
 * units (tensor cores, matrix cores), as far as their names say (classes.tsv), over the whole
 * capture. Kernels without matrix work are excluded: a share of all kernel time would fall
 * whenever an optimizer is added.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/device/classes.h"
#include "analyzers/steps/context.h"

#define TOLD_LEAST 0.95 /* of the time of matrix kernels, for a share to be given */

struct rows {
    struct an_precision_row *row;
    size_t count, room;
    int64_t silent_ns; /* of kernels whose names do not say whether they ran on a matrix unit */
};

static struct an_precision_row *row_of(struct an_context *context, struct rows *rows,
                                       const char *dtype, int unit)
{
    for (size_t i = 0; i < rows->count; i++) {
        struct an_precision_row *precision_row = &rows->row[i];
        if (!strcmp(precision_row->dtype, dtype) && precision_row->told == (unit >= 0) &&
            precision_row->matrix_unit == (unit > 0))
            return precision_row;
    }
    if (an_grow(&rows->row, &rows->room, rows->count + 1, sizeof *rows->row))
        return NULL;
    rows->row[rows->count] = (struct an_precision_row){
        .dtype = an_arena_text(context->arena, dtype), .matrix_unit = unit > 0, .told = unit >= 0};
    return &rows->row[rows->count++];
}

static int row_order(const void *first, const void *second)
{
    const struct an_precision_row *left = first, *right = second;
    int order = AN_COMPARE(right->total_ns, left->total_ns);
    order = order ? order : strcmp(left->dtype, right->dtype);
    return order ? order : right->matrix_unit - left->matrix_unit;
}

static void precision_absent(struct an_context *context, const char *reason)
{
    context->result->precision =
        (struct an_precision){.reason = reason, .matrix_unit_pct = an_num_none(reason)};
}

static struct an_value share(struct an_context *context, int64_t all, int64_t unit, int64_t silent)
{
    if (all <= 0)
        return an_num_none("matrix kernels took 0 ns");
    if ((double)(all - silent) < TOLD_LEAST * (double)all)
        return an_num_none(an_arena_format(
            context->arena,
            "the names of kernels with %.0f %% of the time of matrix work do not show it",
            100 * (double)silent / (double)all));
    return an_num(100 * (double)unit / (double)(all - silent));
}

/* Adds the time of a kernel to the row of its element type and unit. */
static int add_kernel(struct an_context *context, struct rows *rows, size_t op)
{
    const struct an_devices *devices = context->gpu;
    struct an_precision *precision = &context->result->precision;
    uint32_t name = context->trace->slice.name[devices->op.slice[op]];
    struct an_name_class class = {.matrix_unit = -1};
    if (name < context->trace->string_count)
        class = devices->name_class[name];
    struct an_precision_row *row =
        row_of(context, rows, class.dtype ? class.dtype : "unknown", class.matrix_unit);
    if (!row)
        return TACHO_ENOMEM;
    int64_t dur = an_time_sub(devices->op.end[op], devices->op.start[op]);
    row->count++;
    row->total_ns = an_time_add(row->total_ns, dur);
    precision->matrix_ns = an_time_add(precision->matrix_ns, dur);
    if (class.matrix_unit > 0)
        precision->matrix_unit_ns = an_time_add(precision->matrix_unit_ns, dur);
    if (class.matrix_unit < 0)
        rows->silent_ns = an_time_add(rows->silent_ns, dur);
    return 0;
}

/* Sums the time of matrix and attention kernels by element type and unit. The share is given only
 * if the names of nearly all of that time say it. */
static int precision_run(struct an_context *context)
{
    const struct an_devices *devices = context->gpu;
    struct an_precision *precision = &context->result->precision;
    struct rows rows = {.count = 0};
    int rc = 0;
    for (size_t i = 0; i < devices->op.count && !rc; i++)
        if (1u << devices->op.class[i] & (1u << AN_DEVICE_MATRIX | 1u << AN_DEVICE_ATTENTION))
            rc = add_kernel(context, &rows, i);
    if (!rc && !rows.count)
        precision_absent(context,
                         "no kernel of this file does matrix or attention work by its name");
    if (!rc && rows.count) {
        qsort(rows.row, rows.count, sizeof *rows.row, row_order);
        precision->matrix_unit_pct =
            share(context, precision->matrix_ns, precision->matrix_unit_ns, rows.silent_ns);
        precision->rows = an_arena_copy(context->arena, rows.row, rows.count * sizeof *rows.row);
        precision->row_count = rows.count;
        rc = precision->rows ? 0 : TACHO_ENOMEM;
    }
    free(rows.row);
    return rc;
}

const struct an_analyzer an_precision = {
    .name = "precision",
    .help = "element types of matrix work, and its share on matrix units",
    .needs = AN_INPUT_DEVICES,
    .run = precision_run,
    .absent = precision_absent,
};
