/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses the rows that a comparison prints, tests their differences and judges which ones are
 * significant.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/arena.h"
#include "analyzers/diff/diff_private.h"
#include "tacho_error.h"

#define LIST_MOST 20 /* added and removed names */
#define SMALLEST_PCT \
    0.05              /* of the baseline's step: smaller differences of one name are not rows \
                       */
#define LEAST_PCT 1.0 /* of the baseline's step: smaller ones are never called significant */
#define ALPHA     0.05

/* For qsort: by kind; classes and ranks in their own order, names by the size of their difference.
 */
static int delta_order(const void *left, const void *right)
{
    const struct an_diff_row *first = left, *second = right;
    if (first->kind != second->kind)
        return first->kind < second->kind ? -1 : 1;
    if (first->kind == AN_DIFF_CLASS || first->kind == AN_DIFF_RANK) {
        if (first->class != second->class)
            return first->class < second->class ? -1 : 1;
        return strcmp(first->name, second->name);
    }
    double first_delta = fabs(first->delta), second_delta = fabs(second->delta);
    if (first_delta != second_delta)
        return first_delta > second_delta ? -1 : 1;
    return strcmp(first->name, second->name);
}

/* Values of each step of one side, and how its steps were drawn. */
struct values {
    const double *ms; /* NULL: not kept */
    size_t count;
    const struct an_diff_draws *drawn;
};

static struct values row_values(const struct an_diff_comparison *comparison, size_t row,
                                size_t side)
{
    const struct an_diff_run *from = &comparison->side[side];
    return (struct values){comparison->ms[2 * row + side], from->samples->detailed,
                           from->rows_drawn};
}

static struct values step_values(const struct an_diff_run *side)
{
    return (struct values){side->step, side->samples->steps, side->steps_drawn};
}

/* Tests a row where the values of both sides are known; false: it could not be tested. */
static bool test_row(struct an_diff_row *row, struct values good, struct values bad, int *rc)
{
    struct an_diff_test test;
    if (!good.ms || !bad.ms || !good.drawn || !bad.drawn || *rc ||
        (*rc = an_diff_test(good.ms, good.count, good.drawn, bad.ms, bad.count, bad.drawn, &test)))
        return false;
    row->low = test.low;
    row->high = test.high;
    row->p = test.p;
    row->floor = test.floor;
    return true;
}

static void judge(struct an_diff_row *row)
{
    row->significant = row->p < ALPHA && (row->low > 0 || row->high < 0) &&
                       fabs(row->delta) > row->floor && fabs(row->delta_pct) >= LEAST_PCT;
}

/* Is a row printed? `of_kind`: rows of its kind that are. Names must be in both runs and large
 * enough; the only rank is the step itself. */
static bool is_kept(const struct an_diff_comparison *comparison, const struct an_diff_row *row,
                    size_t of_kind, size_t most)
{
    bool both = row->in_good && row->in_bad;
    if (row->kind == AN_DIFF_OP || row->kind == AN_DIFF_KERNEL)
        return both && of_kind < most && fabs(row->delta_pct) >= SMALLEST_PCT;
    return row->kind != AN_DIFF_RANK || (both && comparison->ranks >= 2);
}

/* Counts what was compared, and sorts a copy of the rows; Until a row is kept, `floor` holds
 * the index of its values. NULL: no memory. */
static struct an_diff_row *sorted_rows(struct an_diff_comparison *comparison)
{
    struct an_diff *diff = comparison->diff;
    struct an_diff_row *all =
        an_arena_copy(diff->arena, comparison->row, (comparison->rows + 1) * sizeof *all);
    if (!all)
        return NULL;
    diff->compared++; /* the step */
    for (size_t i = 0; i < comparison->rows; i++) {
        bool both = all[i].in_good && all[i].in_bad;
        all[i].floor = (double)i;
        diff->compared += both;
        comparison->ranks += both && all[i].kind == AN_DIFF_RANK;
    }
    if (comparison->rows)
        qsort(all, comparison->rows, sizeof *all, delta_order);
    return all;
}

/* Judges the step and the kept rows, whose p-values are adjusted. */
static void judge_all(struct an_diff *diff, struct an_diff_row *kept, size_t count)
{
    judge(&diff->step);
    diff->differs = diff->step.significant;
    for (size_t i = 0; i < count; i++) {
        judge(&kept[i]);
        diff->differs = diff->differs || kept[i].significant;
    }
    diff->slower = diff->step.significant && diff->step.delta > 0;
    diff->rows = kept;
    diff->row_count = count;
}

int an_diff_keep_and_test(struct an_diff_comparison *comparison, size_t most)
{
    struct an_diff *diff = comparison->diff;
    struct an_diff_row *kept = an_arena_zero(diff->arena, comparison->rows + 1, sizeof *kept);
    double **p_values = an_arena_zero(diff->arena, comparison->rows + 2, sizeof *p_values);
    struct an_diff_row *all = sorted_rows(comparison);
    size_t kept_count = 0, tests = 0, of_kind = 0;
    int rc = 0;
    if (!kept || !p_values || !all)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < comparison->rows && !rc; i++) {
        size_t row = (size_t)all[i].floor;
        all[i].floor = NAN;
        if (i && all[i].kind != all[i - 1].kind)
            of_kind = 0;
        if (!is_kept(comparison, &all[i], of_kind, most))
            continue;
        of_kind++;
        kept[kept_count] = all[i];
        if (test_row(&kept[kept_count], row_values(comparison, row, 0),
                     row_values(comparison, row, 1), &rc))
            p_values[tests++] = &kept[kept_count].p;
        kept_count++;
    }
    if (test_row(&diff->step, step_values(&comparison->side[0]), step_values(&comparison->side[1]),
                 &rc))
        p_values[tests++] = &diff->step.p;
    an_diff_holm(p_values, tests, diff->compared > tests ? diff->compared : tests);
    judge_all(diff, kept, kept_count);
    return rc;
}

int an_diff_list_one_sided(struct an_diff_comparison *comparison, bool added,
                           const struct an_diff_row **out, size_t *count, size_t *total)
{
    struct an_diff_row *rows =
        an_arena_zero(comparison->diff->arena, comparison->rows + 1, sizeof *rows);
    size_t found = 0;
    if (!rows)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < comparison->rows; i++) {
        const struct an_diff_row *row = &comparison->row[i];
        if ((row->kind == AN_DIFF_OP || row->kind == AN_DIFF_KERNEL) &&
            row->in_good != row->in_bad && row->in_bad == added)
            rows[found++] = *row;
    }
    if (found)
        qsort(rows, found, sizeof *rows, delta_order);
    *out = rows;
    *total = found;
    *count = found < LIST_MOST ? found : LIST_MOST;
    return 0;
}
