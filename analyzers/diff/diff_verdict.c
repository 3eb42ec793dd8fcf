/* SPDX-License-Identifier: Apache-2.0
 *
 * The verdict of a comparison in one sentence: how much longer or shorter, which class of the step
 * changed, which operator or kernel of it, and how sure that is.
 */
#include <math.h>
#include <string.h>

#include "analyzers/base/arena.h"
#include "analyzers/base/words.h"
#include "analyzers/diff/diff_private.h"

#define CLASS_LEAST 0.1 /* of the step's change: a class below it explains nothing */

struct rows {
    const struct an_diff *diff;
    const struct an_diff_row *row;
    size_t count;
};

/* Of the rows of a kind and class (AN_CLASS_COUNT: any) the one that moved most in the direction of
 * the step. */
static const struct an_diff_row *largest(const struct rows *rows, enum an_diff_kind kind,
                                         enum an_class class)
{
    const struct an_diff_row *best = NULL;
    double sign = rows->diff->step.delta < 0 ? -1 : 1;
    for (size_t i = 0; i < rows->count; i++) {
        const struct an_diff_row *row = &rows->row[i];
        if (row->kind == kind && (class == AN_CLASS_COUNT || row->class == class) &&
            sign * row->delta > 0 && (!best || sign * row->delta > sign * best->delta))
            best = row;
    }
    return best;
}

/* "+12.3 ms", "-1.9 s" */
static const char *change_text(struct an_arena *arena, double ms)
{
    return an_arena_format(arena, "%s%s", ms > 0 ? "+" : "", an_time_words(arena, ms, 3));
}

/* A class as reports name it; any other row by its own name. */
static const char *row_words(const struct an_diff_row *row)
{
    if (row->kind != AN_DIFF_CLASS || strcmp(row->name, an_class_key(row->class)) != 0)
        return row->name;
    if (row->class == AN_CLASS_HOST)
        return "host time"; /* without the colon of its label */
    return an_class_label(row->class);
}

/* "data wait +33.7 ms a step (loader: enumerate(DataLoader))"; NULL: no class explains the
 * change. */
static const char *what_moved(const struct rows *rows)
{
    struct an_arena *arena = rows->diff->arena;
    const struct an_diff_row *class = largest(rows, AN_DIFF_CLASS, AN_CLASS_COUNT), *name = NULL;
    const char *unit = rows->diff->unit == AN_DIFF_CAPTURE ? "" : " a step";
    if (!class || fabs(class->delta) < CLASS_LEAST * fabs(rows->diff->step.delta))
        return NULL;
    const char *change = change_text(arena, class->delta), *what = row_words(class);
    bool input = class->class == AN_CLASS_INPUT;
    name = largest(rows, AN_DIFF_LOADER, AN_CLASS_INPUT);
    /* Where the budget cannot identify the wait, the time of the loader's ranges does. */
    if (name &&
        (input || ((class->class == AN_CLASS_HOST || class->class == AN_CLASS_UNATTRIBUTED) &&
                   fabs(name->delta) >= 0.5 * fabs(class->delta))))
        return an_arena_format(arena, "%s %s%s (loader: %.120s)", what, change, unit, name->name);
    if (input)
        return an_arena_format(arena, "%s %s%s (loader)", what, change, unit);
    name = largest(rows, AN_DIFF_KERNEL, class->class);
    name = name ? name : largest(rows, AN_DIFF_OP, class->class);
    if (!name)
        return an_arena_format(arena, "%s %s%s", what, change, unit);
    /* Without template arguments: a sentence has no room for them. */
    char *plain = an_arena_zero(arena, strlen(name->name) + 1, 1);

    if (plain)
        an_diff_name(plain, name->name);
    return an_arena_format(arena, "%s %s%s (most of it: %.120s, %s)", what, change, unit,
                           plain && *plain ? plain : name->name, change_text(arena, name->delta));
}

static bool all_equal(const struct rows *rows)
{
    bool same = rows->diff->step.delta == 0;
    for (size_t i = 0; i < rows->count && same; i++)
        same = rows->row[i].delta == 0;
    return same;
}

/* The printed row that surely changed most, when the step as a whole did not. */
static const char *what_is_sure(const struct an_diff *diff)
{
    const struct an_diff_row *best = NULL;
    for (size_t i = 0; i < diff->row_count; i++)
        if (diff->rows[i].significant && (!best || fabs(diff->rows[i].delta) > fabs(best->delta)))
            best = &diff->rows[i];
    if (!best)
        return "";
    return an_arena_format(diff->arena, "; but %.120s changed by %s a step", row_words(best),
                           change_text(diff->arena, best->delta));
}

/* The verdict where the step was tested and its difference is not significant. */
static const char *not_significant(const struct an_diff *diff, const char *good, const char *bad)
{
    const struct an_diff_row *row = &diff->step;
    struct an_arena *arena = diff->arena;
    return an_arena_format(
        arena,
        "no significant difference: the candidate's median step is %s %% %s (%s instead of %s; "
        "95 %% interval of the difference [%s, %s], drift inside the runs %s)%s",
        an_number_words(arena, fabs(row->delta_pct), 2), row->delta < 0 ? "shorter" : "longer", bad,
        good, change_text(arena, row->low), change_text(arena, row->high),
        an_time_words(arena, row->floor, 3), what_is_sure(diff));
}

/* The verdict where the step changed, or nothing was tested. */
static const char *changed(const struct rows *rows, const char *good, const char *bad, bool tested)
{
    const struct an_diff *diff = rows->diff;
    struct an_arena *arena = diff->arena;
    double pct = fabs(diff->step.delta_pct);
    const char *moved = what_moved(rows), *per = "a step";
    if (diff->unit == AN_DIFF_CAPTURE)
        per = diff->per_work ? "for the same work" : "over the whole capture";
    const char *tail = tested ? "" : an_arena_format(arena, "; %s", diff->significance);
    const char *what = diff->step.delta < 0
                           ? an_arena_format(arena, "takes %.*f %% less time", pct < 10, pct)
                           : an_arena_format(arena, "is %.*f %% slower", pct < 10, pct);
    return an_arena_format(arena, "the candidate %s (%s %s instead of %s)%s%s", what, bad, per,
                           good, moved ? an_arena_format(arena, ": %s", moved) : "", tail);
}

void an_diff_verdict(struct an_diff *diff, const struct an_diff_row *rows, size_t count,
                     bool tested)
{
    const struct rows all_rows = {diff, rows, count};
    const struct an_diff_row *row = &diff->step;
    if (isnan(row->delta) || isnan(row->delta_pct)) {
        diff->verdict = "nothing to compare: one of the runs has no recorded time";
        return;
    }
    if (all_equal(&all_rows)) {
        diff->verdict =
            "no difference: both runs took the same time in everything that was compared";
        return;
    }
    const char *good = an_time_words(diff->arena, row->good, 4),
               *bad = an_time_words(diff->arena, row->bad, 4);
    diff->verdict = tested && !row->significant ? not_significant(diff, good, bad)
                                                : changed(&all_rows, good, bad, tested);
}
