/* SPDX-License-Identifier: Apache-2.0
 *
 * The one sentence of a comparison: how much, which class of the step, which operator or kernel of
 * it, how sure.
 */
#include <math.h>
#include <string.h>

#include "analyzers/base/arena.h"
#include "analyzers/base/words.h"
#include "analyzers/diff/diff_private.h"

#define CLASS_LEAST 0.1 /* of the step's change: a class below it explains nothing */

struct rows {
    const struct an_diff *d;
    const struct an_diff_row *row;
    size_t count;
};

/* Of the rows of a kind and class (AN_CLASS_COUNT: any) the one that moved most in the direction of
 * the step. */
static const struct an_diff_row *largest(const struct rows *x, enum an_diff_kind kind,
                                         enum an_class class)
{
    const struct an_diff_row *best = NULL;
    double sign = x->d->step.delta < 0 ? -1 : 1;
    for (size_t i = 0; i < x->count; i++) {
        const struct an_diff_row *r = &x->row[i];
        if (r->kind == kind && (class == AN_CLASS_COUNT || r->class == class) &&
            sign * r->delta > 0 && (!best || sign * r->delta > sign * best->delta))
            best = r;
    }
    return best;
}

/* "12.3 ms", "-1.9 s". */
static const char *time_text(struct an_arena *a, double ms, bool sign)
{
    return an_arena_format(a, "%s%s", sign && ms > 0 ? "+" : "",
                           an_time_words(a, ms, sign ? 3 : 4));
}

/* "input +33.7 ms a step (loader: enumerate(DataLoader))"; NULL: no class explains the change. */
static const char *what_moved(const struct rows *x)
{
    struct an_arena *a = x->d->arena;
    const struct an_diff_row *class = largest(x, AN_DIFF_CLASS, AN_CLASS_COUNT), *name = NULL;
    const char *unit = x->d->unit == AN_DIFF_CAPTURE ? "" : " a step";
    if (!class || fabs(class->delta) < CLASS_LEAST * fabs(x->d->step.delta))
        return NULL;
    const char *change = time_text(a, class->delta, true);
    bool input = class->class == AN_CLASS_INPUT;
    name = largest(x, AN_DIFF_LOADER, AN_CLASS_INPUT);
    /* where the budget cannot see the wait as one, the loader's own time still tells */
    if (name &&
        (input || ((class->class == AN_CLASS_HOST || class->class == AN_CLASS_UNATTRIBUTED) &&
                   fabs(name->delta) >= 0.5 * fabs(class->delta))))
        return an_arena_format(a, "%s %s%s (loader: %.120s)", class->name, change, unit,
                               name->name);
    if (input)
        return an_arena_format(a, "%s %s%s (loader)", class->name, change, unit);
    name = largest(x, AN_DIFF_KERNEL, class->class);
    name = name ? name : largest(x, AN_DIFF_OP, class->class);
    if (!name)
        return an_arena_format(a, "%s %s%s", class->name, change, unit);
    char *plain =
        an_arena_zero(a, strlen(name->name) + 1,
                      1); /* without template arguments: a sentence has no room for them */
    if (plain)
        an_diff_name(plain, name->name);
    return an_arena_format(a, "%s %s%s (most of it: %.120s, %s)", class->name, change, unit,
                           plain && *plain ? plain : name->name, time_text(a, name->delta, true));
}

static bool all_equal(const struct rows *x)
{
    bool same = x->d->step.delta == 0;
    for (size_t i = 0; i < x->count && same; i++)
        same = x->row[i].delta == 0;
    return same;
}

/* The printed row that surely changed most, when the step as a whole did not. */
static const char *what_is_sure(const struct an_diff *d)
{
    const struct an_diff_row *best = NULL;
    for (size_t i = 0; i < d->row_count; i++)
        if (d->rows[i].significant && (!best || fabs(d->rows[i].delta) > fabs(best->delta)))
            best = &d->rows[i];
    return best ? an_arena_format(d->arena, "; but %.120s changed by %s a step", best->name,
                                  time_text(d->arena, best->delta, true))
                : "";
}

void an_diff_verdict(struct an_diff *d, const struct an_diff_row *rows, size_t count, bool tested)
{
    const struct rows x = {d, rows, count};
    const struct an_diff_row *s = &d->step;
    double pct = fabs(s->delta_pct);
    if (isnan(s->delta) || isnan(s->delta_pct)) {
        d->verdict = "nothing to compare: one of the runs holds no time at all";
        return;
    }
    if (all_equal(&x)) {
        d->verdict = "no difference: both runs took the same time in everything that was compared";
        return;
    }
    const char *good = time_text(d->arena, s->good, false),
               *bad = time_text(d->arena, s->bad, false);
    if (tested && !s->significant) {
        d->verdict = an_arena_format(
            d->arena,
            "no significant difference: BAD's median step is %s %% %s (%s instead of %s; 95 %% "
            "interval "
            "of the difference [%s, %s], drift inside the runs %s)%s",
            an_number_words(d->arena, pct, 2), s->delta < 0 ? "shorter" : "longer", bad, good,
            time_text(d->arena, s->low, true), time_text(d->arena, s->high, true),
            an_time_words(d->arena, s->floor, 3), what_is_sure(d));
        return;
    }
    const char *moved = what_moved(&x),
               *per = d->unit == AN_DIFF_CAPTURE ? "over the whole capture" : "a step";
    const char *tail = tested ? "" : an_arena_format(d->arena, "; %s", d->significance);
    const char *what = s->delta < 0
                           ? an_arena_format(d->arena, "BAD takes %.*f %% less time", pct < 10, pct)
                           : an_arena_format(d->arena, "BAD is %.*f %% slower", pct < 10, pct);
    d->verdict = an_arena_format(d->arena, "%s (%s %s instead of %s)%s%s%s", what, bad, per, good,
                                 moved ? ": " : "", moved ? moved : "", tail);
}
