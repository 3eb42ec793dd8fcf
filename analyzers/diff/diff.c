/* SPDX-License-Identifier: Apache-2.0
 *
 * Two runs compared: matching of names, values in one unit, tests, what to print.
 */
#include "analyzers/diff/diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/arena.h"
#include "analyzers/diff/diff_private.h"
#include "store/store.h"
#include "tacho_error.h"

#define MOST_DEFAULT 10
#define LIST_MOST    20    /* added and removed names */
#define SMALLEST_PCT 0.05  /* of GOOD's step: smaller differences of one name are not rows */
#define LEAST_PCT    1.0   /* of GOOD's step: smaller ones are never called significant */
#define SIZES_DIFFER 0.001 /* tokens a step */
#define ALPHA        0.05
#define SEED_GOOD    0x7461636f676f6f64u
#define SEED_BAD     0x7461636f62616400u

const char *an_diff_kind_key(enum an_diff_kind k)
{
    static const char *const keys[] = {
#define KIND_KEY(name, key, text) key,
        AN_DIFF_KIND_MAP(KIND_KEY)
#undef KIND_KEY
    };
    return k < AN_DIFF_KIND_COUNT ? keys[k] : "";
}

const char *an_diff_kind_text(enum an_diff_kind k)
{
    static const char *const texts[] = {
#define KIND_TEXT(name, key, text) text,
        AN_DIFF_KIND_MAP(KIND_TEXT)
#undef KIND_TEXT
    };
    return k < AN_DIFF_KIND_COUNT ? texts[k] : "";
}

struct side {
    const struct an_result *r;
    const struct an_samples *s;
    double devices;                                 /* whole captures: what totals are divided by */
    double *scale;                                  /* of each counted step: to the common unit */
    double *step;                                   /* counted steps in the common unit */
    struct an_diff_draws *steps_drawn, *rows_drawn; /* NULL: too few steps */
};

struct item { /* a name of one run, on its way to its partner */
    const struct an_sample *sample;
    const char *key;
    int side;
    bool left; /* no equal name on the other side */
};

struct comparison {
    struct an_diff *d;
    struct side side[2];
    struct item *item;
    size_t items;
    struct an_diff_row *row; /* every name; values of its steps in ms[row * 2 + side] */
    double **ms;
    size_t rows;
    size_t ranks; /* that both have */
    bool tested;
};

/* ---- unit ------------------------------------------------------------------------------------------------------------------ */

/* Median of a step's tokens or samples; NAN unless every step says it. */
static double size_of_step(const int64_t *size, size_t n)
{
    double *x = malloc((2 * n + 1) * sizeof *x), r = NAN;
    for (size_t i = 0; x && i < n; i++) {
        if (size[i] == STORE_ABSENT || size[i] <= 0)
            goto out;
        x[i] = (double)size[i];
    }
    r = x ? an_diff_median(x, n, x + n) : NAN;
out:
    free(x);
    return r;
}

static bool differ(double a, double b)
{
    return !isnan(a) && !isnan(b) && fabs(b / a - 1) > SIZES_DIFFER;
}

static void choose_unit(struct comparison *x)
{
    struct an_diff *d = x->d;
    const struct an_samples *g = x->side[0].s, *b = x->side[1].s;
    d->unit = AN_DIFF_PER_STEP;
    d->unit_size = NAN;
    d->good.tokens_per_step = size_of_step(g->tokens, g->steps);
    d->bad.tokens_per_step = size_of_step(b->tokens, b->steps);
    if (!g->steps || !b->steps) {
        d->unit = AN_DIFF_CAPTURE;
        d->note = !g->steps && !b->steps
                      ? "no steps were found in either run: the whole captures are compared"
                  : !g->steps
                      ? "GOOD has no steps: the whole captures are compared, whatever their lengths"
                      : "BAD has no steps: the whole captures are compared, whatever their lengths";
        return;
    }
    double sg = size_of_step(g->samples, g->steps), sb = size_of_step(b->samples, b->steps);
    if (differ(d->good.tokens_per_step, d->bad.tokens_per_step)) {
        d->unit = AN_DIFF_PER_TOKENS;
        d->unit_size = d->good.tokens_per_step;
        d->note =
            an_arena_format(d->arena, "steps of %.0f and %.0f tokens: times are for %.0f tokens",
                            d->unit_size, d->bad.tokens_per_step, d->unit_size);
    } else if (isnan(d->good.tokens_per_step) && differ(sg, sb)) {
        d->unit = AN_DIFF_PER_SAMPLES;
        d->unit_size = sg;
        d->note = an_arena_format(
            d->arena, "steps of %.0f and %.0f samples: times are for %.0f samples", sg, sb, sg);
    }
    bool devices = !x->side[0].r->gpu.reason;
    if (!d->note && devices == (x->side[1].r->gpu.reason != NULL))
        d->note = an_arena_format(d->arena,
                                  "%s ran on an accelerator, %s on the CPU alone: a step of a "
                                  "device beside one of a host",
                                  devices ? "GOOD" : "BAD", devices ? "BAD" : "GOOD");
    if (!d->note && (!g->detailed || !b->detailed))
        d->note =
            "no step has all its parts in one of the files: only the steps themselves are compared";
}

static int scale_steps(struct comparison *x, struct side *s)
{
    const int64_t *size = x->d->unit == AN_DIFF_PER_TOKENS    ? s->s->tokens
                          : x->d->unit == AN_DIFF_PER_SAMPLES ? s->s->samples
                                                              : NULL;
    s->scale = an_arena_zero(x->d->arena, s->s->steps + 1, sizeof *s->scale);
    s->step = an_arena_zero(x->d->arena, s->s->steps + 1, sizeof *s->step);
    if (!s->scale || !s->step)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < s->s->steps; i++) {
        s->scale[i] = size ? x->d->unit_size / (double)size[i] : 1;
        s->step[i] = s->s->step_ms[i] * s->scale[i];
    }
    return 0;
}

static int draw(struct comparison *x)
{
    struct an_diff *d = x->d;
    const struct an_samples *g = x->side[0].s, *b = x->side[1].s;
    if (d->unit == AN_DIFF_CAPTURE) {
        d->significance =
            "whole captures are one value each: nothing can be said about significance";
        return 0;
    }
    if (g->steps < AN_DIFF_STEPS_LEAST || b->steps < AN_DIFF_STEPS_LEAST) {
        d->significance = an_arena_format(
            d->arena,
            "%zu and %zu counted steps: not enough steps to say what is more than noise (%d each)",
            g->steps, b->steps, AN_DIFF_STEPS_LEAST);
        return 0;
    }
    x->tested = true;
    for (int i = 0; i < 2; i++) {
        struct side *s = &x->side[i];
        uint64_t seed = i ? SEED_BAD : SEED_GOOD;
        if (!(s->steps_drawn = an_diff_draws_new(s->s->steps, seed)))
            return TACHO_ENOMEM;
        if (g->detailed >= AN_DIFF_STEPS_LEAST && b->detailed >= AN_DIFF_STEPS_LEAST &&
            !(s->rows_drawn = an_diff_draws_new(s->s->detailed, seed)))
            return TACHO_ENOMEM;
    }
    return 0;
}

/* ---- names ----------------------------------------------------------------------------------------------------------------- */

static int item_order(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    if (x->sample->kind != y->sample->kind)
        return x->sample->kind < y->sample->kind ? -1 : 1;
    if (x->sample->class != y->sample->class)
        return x->sample->class < y->sample->class ? -1 : 1;
    if (x->left != y->left)
        return x->left ? 1 : -1;
    int order = strcmp(x->key, y->key);
    return order ? order : x->side - y->side;
}

static bool same_group(const struct item *a, const struct item *b)
{
    return a->sample->kind == b->sample->kind && a->sample->class == b->sample->class &&
           a->left == b->left && !strcmp(a->key, b->key);
}

static bool may_be_renamed(enum an_diff_kind k)
{
    return k == AN_DIFF_OP || k == AN_DIFF_KERNEL || k == AN_DIFF_LOADER;
}

static int list_items(struct comparison *x)
{
    size_t n = x->side[0].s->row_count + x->side[1].s->row_count;
    x->item = malloc((n + 1) * sizeof *x->item);
    if (!x->item)
        return TACHO_ENOMEM;
    for (int s = 0; s < 2; s++)
        for (size_t i = 0; i < x->side[s].s->row_count; i++) {
            const struct an_sample *sample = &x->side[s].s->rows[i];
            x->item[x->items++] = (struct item){.sample = sample, .key = sample->name, .side = s};
        }
    if (n)
        qsort(x->item, n, sizeof *x->item, item_order);
    for (size_t i = 0, next; i < n; i = next) {
        for (next = i + 1; next < n && same_group(&x->item[i], &x->item[next]);)
            next++;
        if (next - i > 1 || !may_be_renamed(x->item[i].sample->kind))
            continue;
        char *key = an_arena_zero(x->d->arena, strlen(x->item[i].sample->name) + 1, 1);
        if (!key)
            return TACHO_ENOMEM;
        an_diff_name(key, x->item[i].sample->name);
        x->item[i].key = key;
        x->item[i].left = true;
    }
    if (n)
        qsort(x->item, n, sizeof *x->item, item_order);
    return 0;
}

/* ---- values ---------------------------------------------------------------------------------------------------------------- */

static double mean_calls(const struct comparison *x, int side, int64_t calls)
{
    const struct side *s = &x->side[side];
    return (double)calls / (x->d->unit == AN_DIFF_CAPTURE ? s->devices : (double)s->s->detailed);
}

/* Value of a side and, where it is kept for every member, of each of its steps. */
static int side_value(struct comparison *x, struct an_diff_row *r, size_t row, int side,
                      const struct item *item, size_t n)
{
    const struct side *s = &x->side[side];
    size_t steps = s->s->detailed;
    double total = 0, *ms = NULL;
    int64_t calls = 0;
    bool known = x->d->unit != AN_DIFF_CAPTURE && steps, in = false;
    for (size_t i = 0; i < n; i++)
        if (item[i].side == side) {
            const struct an_sample *p = item[i].sample;
            in = true;
            known = known && p->ms;
            total += x->d->unit == AN_DIFF_CAPTURE ? (double)p->total_ns / 1e6 / s->devices
                     : steps                       ? p->step_ns / 1e6 / (double)steps
                                                   : 0;
            calls += x->d->unit == AN_DIFF_CAPTURE ? p->calls : p->step_calls;
        }
    if (known) {
        if (!(ms = an_arena_zero(x->d->arena, 2 * steps, sizeof *ms)))
            return TACHO_ENOMEM;
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < steps && item[i].side == side; k++)
                ms[k] += item[i].sample->ms[k] * s->scale[s->s->step_of[k]];
        total = an_diff_median(ms, steps, ms + steps);
    }
    x->ms[2 * row + (size_t)side] = ms;
    bool counts = r->kind == AN_DIFF_OP || r->kind == AN_DIFF_KERNEL || r->kind == AN_DIFF_LOADER;
    *(side ? &r->bad : &r->good) = total;
    *(side ? &r->bad_calls : &r->good_calls) =
        counts && (steps || x->d->unit == AN_DIFF_CAPTURE) ? mean_calls(x, side, calls) : NAN;
    *(side ? &r->in_bad : &r->in_good) = in;
    return 0;
}

static void finish_delta(struct comparison *x, struct an_diff_row *r)
{
    r->delta = r->bad - r->good;
    r->delta_pct = x->d->good.step > 0 ? 100 * r->delta / x->d->good.step : NAN;
    r->low = r->high = r->p = r->floor = NAN;
}

static int add_row(struct comparison *x, const struct item *item, size_t n)
{
    const struct an_sample *first = item->sample;
    struct an_diff_row *r = &x->row[x->rows];
    *r = (struct an_diff_row){.kind = first->kind,
                              .class = first->class,
                              .merged = n > 1 && item->left,
                              .name = an_arena_text(x->d->arena, n > 1 ? item->key : first->name)};
    int rc = side_value(x, r, x->rows, 0, item, n);
    if (!rc)
        rc = side_value(x, r, x->rows, 1, item, n);
    finish_delta(x, r);
    x->rows++;
    return rc;
}

static int make_rows(struct comparison *x)
{
    int rc = 0;
    x->row = an_arena_zero(x->d->arena, x->items + 1, sizeof *x->row);
    x->ms = calloc(2 * x->items + 2, sizeof *x->ms);
    if (!x->row || !x->ms)
        return TACHO_ENOMEM;
    for (size_t i = 0, next; i < x->items && !rc; i = next) {
        bool sides[2] = {false, false};
        for (next = i; next < x->items && same_group(&x->item[i], &x->item[next]); next++)
            sides[x->item[next].side] = true;
        if (sides[0] && sides[1]) {
            rc = add_row(x, &x->item[i], next - i);
            continue;
        }
        for (size_t k = i; k < next && !rc; k++) /* alone after all: under their own names */
            rc = add_row(x, &x->item[k], 1);
    }
    return rc;
}

static int step_row(struct comparison *x)
{
    struct an_diff *d = x->d;
    d->step = (struct an_diff_row){.name = d->unit == AN_DIFF_CAPTURE ? "capture" : "step",
                                   .kind = AN_DIFF_STEP,
                                   .class = AN_CLASS_COUNT,
                                   .in_good = true,
                                   .in_bad = true,
                                   .good_calls = NAN,
                                   .bad_calls = NAN};
    for (int i = 0; i < 2; i++) {
        const struct side *s = &x->side[i];
        double *work = malloc((s->s->steps + 1) * sizeof *work);
        if (!work)
            return TACHO_ENOMEM;
        double v = d->unit == AN_DIFF_CAPTURE ? s->s->capture_ms
                                              : an_diff_median(s->step, s->s->steps, work);
        *(i ? &d->step.bad : &d->step.good) = v;
        free(work);
    }
    d->good.step = d->step.good;
    d->bad.step = d->step.bad;
    finish_delta(x, &d->step);
    return 0;
}

/* ---- what is printed, tested ----------------------------------------------------------------------------------------------- */

static int delta_order(const void *a, const void *b)
{
    const struct an_diff_row *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->kind == AN_DIFF_CLASS || x->kind == AN_DIFF_RANK) {
        if (x->class != y->class)
            return x->class < y->class ? -1 : 1;
        return strcmp(x->name, y->name);
    }
    double dx = fabs(x->delta), dy = fabs(y->delta);
    return dx != dy ? (dx > dy ? -1 : 1) : strcmp(x->name, y->name);
}

static bool test_row(struct comparison *x, struct an_diff_row *r, const double *good,
                     const double *bad, bool step, int *rc)
{
    const struct side *g = &x->side[0], *b = &x->side[1];
    const struct an_diff_draws *dg = step ? g->steps_drawn : g->rows_drawn,
                               *db = step ? b->steps_drawn : b->rows_drawn;
    size_t ng = step ? g->s->steps : g->s->detailed, nb = step ? b->s->steps : b->s->detailed;
    struct an_diff_test t;
    if (!good || !bad || !dg || !db || *rc || (*rc = an_diff_test(good, ng, dg, bad, nb, db, &t)))
        return false;
    r->low = t.low;
    r->high = t.high;
    r->p = t.p;
    r->floor = t.floor;
    return true;
}

static void judge(struct an_diff_row *r)
{
    r->significant = r->p < ALPHA && (r->low > 0 || r->high < 0) && fabs(r->delta) > r->floor &&
                     fabs(r->delta_pct) >= LEAST_PCT;
}

/* Keeps the largest differences of each kind: every class and rank, `most` names. Tests them. */
static int keep_and_test(struct comparison *x, size_t most)
{
    struct an_diff *d = x->d;
    struct an_diff_row *kept = an_arena_zero(d->arena, x->rows + 1, sizeof *kept), *all;
    double **p = an_arena_zero(d->arena, x->rows + 2, sizeof *p);
    size_t n = 0, tests = 0, of_kind = 0;
    int rc = 0;
    if (!kept || !p || !(all = an_arena_copy(d->arena, x->row, (x->rows + 1) * sizeof *all)))
        return TACHO_ENOMEM;
    for (size_t i = 0; i < x->rows; i++) {
        all[i].floor = (double)i; /* where its values stand, while it is sorted */
        d->compared += all[i].in_good && all[i].in_bad;
    }
    for (size_t i = 0; i < x->rows; i++)
        x->ranks += x->row[i].kind == AN_DIFF_RANK && x->row[i].in_good && x->row[i].in_bad;
    d->compared++; /* the step */
    if (x->rows)
        qsort(all, x->rows, sizeof *all, delta_order);
    for (size_t i = 0; i < x->rows && !rc; i++) {
        bool named = all[i].kind == AN_DIFF_OP || all[i].kind == AN_DIFF_KERNEL;
        bool both = all[i].in_good && all[i].in_bad;
        size_t at = (size_t)all[i].floor;
        all[i].floor = NAN;
        of_kind = i && all[i].kind == all[i - 1].kind ? of_kind : 0;
        if (named && (!both || of_kind >= most || !(fabs(all[i].delta_pct) >= SMALLEST_PCT)))
            continue;
        if (all[i].kind == AN_DIFF_RANK &&
            (!both || x->ranks < 2)) /* one rank is the step itself */
            continue;
        of_kind++;
        kept[n] = all[i];
        if (test_row(x, &kept[n], x->ms[2 * at], x->ms[2 * at + 1], false, &rc))
            p[tests++] = &kept[n].p;
        n++;
    }
    if (test_row(x, &d->step, x->side[0].step, x->side[1].step, true, &rc))
        p[tests++] = &d->step.p;
    an_diff_holm(p, tests, d->compared > tests ? d->compared : tests);
    judge(&d->step);
    d->differs = d->step.significant;
    for (size_t i = 0; i < n; i++) {
        judge(&kept[i]);
        d->differs = d->differs || kept[i].significant;
    }
    d->slower = d->step.significant && d->step.delta > 0;
    d->rows = kept;
    d->row_count = n;
    return rc;
}

static int list_one_sided(struct comparison *x, bool added, const struct an_diff_row **out,
                          size_t *count, size_t *total)
{
    struct an_diff_row *rows = an_arena_zero(x->d->arena, x->rows + 1, sizeof *rows);
    size_t n = 0;
    if (!rows)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < x->rows; i++) {
        const struct an_diff_row *r = &x->row[i];
        if ((r->kind == AN_DIFF_OP || r->kind == AN_DIFF_KERNEL) && r->in_good != r->in_bad &&
            r->in_bad == added)
            rows[n++] = *r;
    }
    if (n)
        qsort(rows, n, sizeof *rows, delta_order);
    *out = rows;
    *total = n;
    *count = n < LIST_MOST ? n : LIST_MOST;
    return 0;
}

/* ---- all of it ------------------------------------------------------------------------------------------------------------- */

static struct an_diff_side describe(struct an_arena *a, const struct side *s)
{
    return (struct an_diff_side){.file = an_arena_text(a, s->r->run.file ? s->r->run.file : ""),
                                 .steps = (int64_t)s->s->steps,
                                 .detailed = (int64_t)s->s->detailed,
                                 .source = an_arena_text(a, s->r->steps.source)};
}

static int compare(struct comparison *x, size_t most)
{
    struct an_diff *d = x->d;
    for (int i = 0; i < 2; i++)
        x->side[i].devices = x->side[i].r->gpu_count ? (double)x->side[i].r->gpu_count : 1;
    d->good = describe(d->arena, &x->side[0]);
    d->bad = describe(d->arena, &x->side[1]);
    choose_unit(x);
    int rc = scale_steps(x, &x->side[0]);
    rc = rc ? rc : scale_steps(x, &x->side[1]);
    rc = rc ? rc : draw(x);
    rc = rc ? rc : step_row(x);
    rc = rc ? rc : list_items(x);
    rc = rc ? rc : make_rows(x);
    rc = rc ? rc : keep_and_test(x, most);
    rc = rc ? rc : list_one_sided(x, true, &d->added, &d->added_count, &d->added_total);
    rc = rc ? rc : list_one_sided(x, false, &d->removed, &d->removed_count, &d->removed_total);
    rc = rc ? rc : an_diff_scaling(d, x->side[0].r, x->side[1].r);
    if (!rc)
        an_diff_verdict(d, x->row, x->rows, x->tested);
    return rc ? rc : an_arena_failed(d->arena) ? TACHO_ENOMEM : 0;
}

int an_diff_results(const struct an_result *good, const struct an_result *bad, int most,
                    struct an_diff **out)
{
    struct comparison x = {
        .side = {{.r = good, .s = good->samples}, {.r = bad, .s = bad->samples}}};
    int rc = TACHO_ENOMEM;
    *out = NULL;
    if (!good->samples || !bad->samples)
        return TACHO_EUSAGE;
    x.d = calloc(1, sizeof *x.d);
    if (x.d && (x.d->arena = an_arena_new()))
        rc = compare(&x, most > 0 ? (size_t)most : MOST_DEFAULT);
    for (int i = 0; i < 2; i++) {
        an_diff_draws_free(x.side[i].steps_drawn);
        an_diff_draws_free(x.side[i].rows_drawn);
    }
    free(x.item);
    free(x.ms);
    if (rc)
        an_diff_free(x.d);
    else
        *out = x.d;
    return rc;
}

void an_diff_free(struct an_diff *d)
{
    if (!d)
        return;
    an_arena_free(d->arena);
    free(d);
}

bool an_diff_above(const struct an_diff *d, double pct)
{
    return d->slower && d->step.delta_pct > pct;
}
