/* SPDX-License-Identifier: Apache-2.0
 *
 * Captures without steps: how much work the candidate did for each unit of work of the baseline.
 * Windows of a fixed length last equally long however fast the program is, so that totals of time
 * say nothing; per unit of work they do. Names that both runs have count the work.
 */
#include <math.h>
#include <stdlib.h>

#include "analyzers/base/arena.h"
#include "analyzers/diff/diff_private.h"
#include "tacho_error.h"

#define NAMES_LEAST 5     /* that both runs have, to say how much work they did */
#define SAME_WORK   0.005 /* counts that differ by less are equal */
#define SAME_LENGTH 0.02  /* of windows of a fixed length */

/* How often the candidate called a name for each call of the baseline, and its time there. */
struct ratio {
    double calls, ms;
};

static int ratio_order(const void *left, const void *right)
{
    const struct ratio *first = left, *second = right;
    return (first->calls > second->calls) - (first->calls < second->calls);
}

/* The median of the ratios, weighted by time: a name that one run calls more often on purpose does
 * not move it. NAN: too few names. */
static double weighted_median(struct ratio *ratio, size_t count)
{
    double all = 0, below = 0;
    size_t i = 0;
    for (size_t k = 0; k < count; k++)
        all += ratio[k].ms;
    if (count < NAMES_LEAST || !(all > 0))
        return NAN;
    qsort(ratio, count, sizeof *ratio, ratio_order);
    while (i + 1 < count && below + ratio[i].ms < all / 2)
        below += ratio[i++].ms;
    return ratio[i].calls;
}

/* Work of the candidate for each unit of the baseline's, by device work or else by operators. */
static double work_ratio(const struct an_diff_comparison *comparison)
{
    static const enum an_diff_kind kinds[] = {AN_DIFF_KERNEL, AN_DIFF_OP};
    struct ratio *ratio = malloc((comparison->rows + 1) * sizeof *ratio);
    double median = NAN;
    for (size_t k = 0; ratio && k < 2 && isnan(median); k++) {
        size_t count = 0;
        for (size_t i = 0; i < comparison->rows; i++) {
            const struct an_diff_row *row = &comparison->row[i];
            if (row->kind == kinds[k] && row->good_calls > 0 && row->bad_calls > 0)
                ratio[count++] = (struct ratio){row->bad_calls / row->good_calls, row->good};
        }
        median = weighted_median(ratio, count);
    }
    free(ratio);
    return median;
}

static void scale_row(const struct an_diff *diff, struct an_diff_row *row, double ratio)
{
    row->bad /= ratio;
    row->bad_calls /= ratio;
    an_diff_row_finish(diff, row);
}

void an_diff_per_work(struct an_diff_comparison *comparison)
{
    struct an_diff *diff = comparison->diff;
    double ratio = work_ratio(comparison);
    bool fixed = fabs(diff->step.bad / diff->step.good - 1) < SAME_LENGTH;
    const char *windows = fixed ? "windows of equal length: " : "";
    if (isnan(ratio)) {
        diff->note = an_arena_format(diff->arena,
                                     "%s; %sthey have too few names in common to compare the same "
                                     "amount of work",
                                     diff->note, windows);
        return;
    }
    if (fabs(ratio - 1) < SAME_WORK)
        return;
    scale_row(diff, &diff->step, ratio);
    diff->per_work = true;
    for (size_t i = 0; i < comparison->rows; i++)
        scale_row(diff, &comparison->row[i], ratio);
    diff->note = an_arena_format(diff->arena,
                                 "%s; %sthe candidate did %.3g times the work of the baseline, by "
                                 "the counts of the names that both have, and its times are for "
                                 "the work of the baseline",
                                 diff->note, windows, ratio);
}
