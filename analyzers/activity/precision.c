/* SPDX-License-Identifier: Apache-2.0
 *
 * Precision: which element type matrix and attention kernels compute in and whether they ran on
 * matrix units (tensor cores, matrix cores), as far as their names tell (classes.tsv), over the
 * whole capture. Kernels that do no matrix work are not part of it: a share of all kernel time
 * would fall whenever an optimizer is added.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/device/classes.h"
#include "analyzers/steps/analyzer.h"

#define TOLD_LEAST 0.95 /* of the time of matrix kernels, for a share to be given */

struct rows {
    struct an_precision_row *row;
    size_t count, room;
};

static struct an_precision_row *row_of(struct an_context *c, struct rows *s, const char *dtype,
                                       int unit)
{
    for (size_t i = 0; i < s->count; i++) {
        struct an_precision_row *x = &s->row[i];
        if (!strcmp(x->dtype, dtype) && x->told == (unit >= 0) && x->matrix_unit == (unit > 0))
            return x;
    }
    if (an_grow(&s->row, &s->room, s->count + 1, sizeof *s->row))
        return NULL;
    s->row[s->count] = (struct an_precision_row){
        .dtype = an_arena_text(c->a, dtype), .matrix_unit = unit > 0, .told = unit >= 0};
    return &s->row[s->count++];
}

static int row_order(const void *x, const void *y)
{
    const struct an_precision_row *a = x, *b = y;
    if (a->total_ns != b->total_ns)
        return a->total_ns > b->total_ns ? -1 : 1;
    int dtype = strcmp(a->dtype, b->dtype);
    return dtype ? dtype : (int)b->matrix_unit - (int)a->matrix_unit;
}

static void precision_absent(struct an_context *c, const char *reason)
{
    c->r->precision =
        (struct an_precision){.reason = reason, .matrix_unit_pct = an_num_none(reason)};
}

static struct an_value share(struct an_context *c, int64_t all, int64_t unit, int64_t silent)
{
    if (all <= 0)
        return an_num_none("matrix kernels took 0 ns");
    if ((double)(all - silent) < TOLD_LEAST * (double)all)
        return an_num_none(an_arena_format(
            c->a, "the names of kernels with %.0f %% of the time of matrix work do not tell",
            100 * (double)silent / (double)all));
    return an_num(100 * (double)unit / (double)(all - silent));
}

static int precision_run(struct an_context *c)
{
    const struct an_devices *g = c->gpu;
    struct an_precision *r = &c->r->precision;
    struct rows s = {.count = 0};
    int64_t silent = 0;
    int rc = 0;
    for (size_t i = 0; i < g->op.count && !rc; i++) {
        if (g->op.class[i] != AN_DEVICE_MATRIX && g->op.class[i] != AN_DEVICE_ATTENTION)
            continue;
        uint32_t name = c->t->slice.name[g->op.slice[i]];
        struct an_name_class told = {.matrix_unit = -1};
        if (name < c->t->string_count)
            told = g->name_class[name];
        struct an_precision_row *x =
            row_of(c, &s, told.dtype ? told.dtype : "unknown", told.matrix_unit);
        if (!x) {
            rc = TACHO_ENOMEM;
            break;
        }
        int64_t dur = an_time_sub(g->op.end[i], g->op.start[i]);
        x->count++;
        x->total_ns = an_time_add(x->total_ns, dur);
        r->matrix_ns = an_time_add(r->matrix_ns, dur);
        r->matrix_unit_ns = an_time_add(r->matrix_unit_ns, told.matrix_unit > 0 ? dur : 0);
        silent = an_time_add(silent, told.matrix_unit < 0 ? dur : 0);
    }
    if (!rc && !s.count)
        precision_absent(c, "no kernel of this file does matrix or attention work by its name");
    if (!rc && s.count) {
        qsort(s.row, s.count, sizeof *s.row, row_order);
        r->matrix_unit_pct = share(c, r->matrix_ns, r->matrix_unit_ns, silent);
        r->rows = an_arena_copy(c->a, s.row, s.count * sizeof *s.row);
        r->row_count = s.count;
        rc = r->rows ? 0 : TACHO_ENOMEM;
    }
    free(s.row);
    return rc;
}

const struct an_analyzer an_precision = {
    "precision", "element types of matrix work, and its share on matrix units", AN_INPUT_DEVICES,
    precision_run, precision_absent};
