/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares two runs: matches names and brings values to one unit; diff_rows.c chooses the rows to
 * print and tests them. Names that only one run has are matched again without what changes from
 * build to build (diff_names.c).
 */
#include "analyzers/diff/diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/arena.h"
#include "analyzers/base/stats.h"
#include "analyzers/diff/diff_private.h"
#include "analyzers/diff/gate.h"
#include "store/store.h"
#include "tacho_error.h"

#define MOST_DEFAULT 10
#define SIZES_DIFFER 0.001 /* tokens a step */
#define SEED_GOOD    0x7461636f676f6f64u
#define SEED_BAD     0x7461636f62616400u

const char *an_diff_kind_key(enum an_diff_kind kind)
{
    static const char *const keys[] = {
#define KIND_KEY(name, key, text) key,
        AN_DIFF_KIND_MAP(KIND_KEY)
#undef KIND_KEY
    };
    return kind < AN_DIFF_KIND_COUNT ? keys[kind] : "";
}

const char *an_diff_kind_text(enum an_diff_kind kind)
{
    static const char *const texts[] = {
#define KIND_TEXT(name, key, text) text,
        AN_DIFF_KIND_MAP(KIND_TEXT)
#undef KIND_TEXT
    };
    return kind < AN_DIFF_KIND_COUNT ? texts[kind] : "";
}

/* A name of one run that looks for the same name in the other run. */
struct an_diff_item {
    const struct an_sample *sample;
    const char *key;
    int side;
    bool left; /* no equal name on the other side */
};

/* ---- unit ------------------------------------------------------------------------------------ */

/* Median of a step's tokens or samples; NAN unless every step says it. */
static double size_of_step(const int64_t *size, size_t count)
{
    double *sizes = malloc((2 * count + 1) * sizeof *sizes), median = NAN;
    for (size_t i = 0; sizes && i < count; i++) {
        if (size[i] == STORE_ABSENT || size[i] <= 0)
            goto out;
        sizes[i] = (double)size[i];
    }
    median = sizes ? an_diff_median(sizes, count, sizes + count) : NAN;
out:
    free(sizes);
    return median;
}

static bool differ(double first, double second)
{
    return !isnan(first) && !isnan(second) && fabs(second / first - 1) > SIZES_DIFFER;
}

/* Why whole captures are compared. */
static const char *no_steps(struct an_arena *arena, size_t good_steps, size_t bad_steps)
{
    if (!good_steps && !bad_steps)
        return "no steps were found in either run: the whole captures are compared";
    return an_arena_format(
        arena, "the %s has no steps: the whole captures are compared, regardless of their lengths",
        good_steps ? "candidate" : "baseline");
}

/* Times are of a step where the steps of both runs do the same work, else of as many tokens or
 * samples as a step of the baseline has. Without steps whole captures are compared. */
static void choose_unit(struct an_diff_comparison *comparison)
{
    struct an_diff *diff = comparison->diff;
    const struct an_samples *good = comparison->side[0].samples, *bad = comparison->side[1].samples;
    diff->unit = AN_DIFF_PER_STEP;
    diff->unit_size = NAN;
    diff->good.tokens_per_step = size_of_step(good->tokens, good->steps);
    diff->bad.tokens_per_step = size_of_step(bad->tokens, bad->steps);
    if (!good->steps || !bad->steps) {
        diff->unit = AN_DIFF_CAPTURE;
        diff->note = no_steps(diff->arena, good->steps, bad->steps);
        return;
    }
    double good_size = size_of_step(good->samples, good->steps),
           bad_size = size_of_step(bad->samples, bad->steps);
    if (differ(diff->good.tokens_per_step, diff->bad.tokens_per_step)) {
        diff->unit = AN_DIFF_PER_TOKENS;
        diff->unit_size = diff->good.tokens_per_step;
        diff->note =
            an_arena_format(diff->arena, "steps of %.0f and %.0f tokens: times are for %.0f tokens",
                            diff->unit_size, diff->bad.tokens_per_step, diff->unit_size);
    } else if (isnan(diff->good.tokens_per_step) && differ(good_size, bad_size)) {
        diff->unit = AN_DIFF_PER_SAMPLES;
        diff->unit_size = good_size;
        diff->note = an_arena_format(diff->arena,
                                     "steps of %.0f and %.0f samples: times are for %.0f samples",
                                     good_size, bad_size, good_size);
    }
}

/* What else the reader must know of the comparison. */
static void note_kinds(struct an_diff_comparison *comparison)
{
    struct an_diff *diff = comparison->diff;
    const struct an_diff_run *good = &comparison->side[0], *bad = &comparison->side[1];
    bool good_device = !good->result->gpu.reason, bad_device = !bad->result->gpu.reason;
    if (diff->note)
        return;
    if (good_device && !bad_device)
        diff->note = "the baseline ran on an accelerator, the candidate on the CPU alone: a device "
                     "step is compared with a host step";
    else if (bad_device && !good_device)
        diff->note = "the candidate ran on an accelerator, the baseline on the CPU alone: a host "
                     "step is compared with a device step";
    else if (!good->samples->detailed || !bad->samples->detailed)
        diff->note = "one of the files has no step with all its parts: only the steps themselves "
                     "are compared";
}

/* The steps of a side in the common unit. */
static int scale_steps(struct an_diff_comparison *comparison, struct an_diff_run *side)
{
    const int64_t *size = NULL;
    if (comparison->diff->unit == AN_DIFF_PER_TOKENS)
        size = side->samples->tokens;
    else if (comparison->diff->unit == AN_DIFF_PER_SAMPLES)
        size = side->samples->samples;

    side->scale =
        an_arena_zero(comparison->diff->arena, side->samples->steps + 1, sizeof *side->scale);
    side->step =
        an_arena_zero(comparison->diff->arena, side->samples->steps + 1, sizeof *side->step);
    if (!side->scale || !side->step)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < side->samples->steps; i++) {
        side->scale[i] = size ? comparison->diff->unit_size / (double)size[i] : 1;
        side->step[i] = side->samples->step_ms[i] * side->scale[i];
    }
    return 0;
}

/* Draws the resamples of both runs' steps. Without enough steps nothing is tested, and the reason
 * is noted. */
static int draw(struct an_diff_comparison *comparison)
{
    struct an_diff *diff = comparison->diff;
    const struct an_samples *good = comparison->side[0].samples, *bad = comparison->side[1].samples;
    if (diff->unit == AN_DIFF_CAPTURE) {
        diff->significance = "whole captures are one value each: significance cannot be tested";
        return 0;
    }
    if (good->steps < AN_DIFF_STEPS_LEAST || bad->steps < AN_DIFF_STEPS_LEAST) {
        diff->significance = an_arena_format(
            diff->arena,
            "%zu and %zu counted steps: not enough steps to test significance (%d each)",
            good->steps, bad->steps, AN_DIFF_STEPS_LEAST);
        return 0;
    }
    comparison->tested = true;
    for (int i = 0; i < 2; i++) {
        struct an_diff_run *side = &comparison->side[i];
        uint64_t seed = i ? SEED_BAD : SEED_GOOD;
        if (!(side->steps_drawn = an_diff_draws_new(side->samples->steps, seed)))
            return TACHO_ENOMEM;
        if (good->detailed >= AN_DIFF_STEPS_LEAST && bad->detailed >= AN_DIFF_STEPS_LEAST &&
            !(side->rows_drawn = an_diff_draws_new(side->samples->detailed, seed)))
            return TACHO_ENOMEM;
    }
    return 0;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* For qsort: makes items of the same group neighbours, the baseline first. */
static int item_order(const void *left, const void *right)
{
    const struct an_diff_item *first = left, *second = right;
    if (first->sample->kind != second->sample->kind)
        return first->sample->kind < second->sample->kind ? -1 : 1;
    if (first->sample->class != second->sample->class)
        return first->sample->class < second->sample->class ? -1 : 1;
    if (first->left != second->left)
        return first->left ? 1 : -1;
    int order = strcmp(first->key, second->key);
    return order ? order : first->side - second->side;
}

static bool same_group(const struct an_diff_item *first, const struct an_diff_item *second)
{
    return first->sample->kind == second->sample->kind &&
           first->sample->class == second->sample->class && first->left == second->left &&
           !strcmp(first->key, second->key);
}

/* Rows of names: other rows are classes, ranks and the step. */
static bool is_name(enum an_diff_kind kind)
{
    return kind == AN_DIFF_OP || kind == AN_DIFF_KERNEL || kind == AN_DIFF_LOADER;
}

/* Lists the names of both runs so that equal ones are neighbours. Names without an equal one are
 * sorted again by what is left of them without template arguments and the like. */
static int list_items(struct an_diff_comparison *comparison)
{
    size_t count = comparison->side[0].samples->row_count + comparison->side[1].samples->row_count;
    comparison->item = malloc((count + 1) * sizeof *comparison->item);
    if (!comparison->item)
        return TACHO_ENOMEM;
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < comparison->side[side].samples->row_count; i++) {
            const struct an_sample *sample = &comparison->side[side].samples->rows[i];
            comparison->item[comparison->items++] =
                (struct an_diff_item){.sample = sample, .key = sample->name, .side = side};
        }
    if (count)
        qsort(comparison->item, count, sizeof *comparison->item, item_order);
    for (size_t i = 0, next; i < count; i = next) {
        for (next = i + 1;
             next < count && same_group(&comparison->item[i], &comparison->item[next]);)
            next++;
        if (next - i > 1 || !is_name(comparison->item[i].sample->kind))
            continue;
        char *key =
            an_arena_zero(comparison->diff->arena, strlen(comparison->item[i].sample->name) + 1, 1);
        if (!key)
            return TACHO_ENOMEM;
        an_diff_name(key, comparison->item[i].sample->name);
        comparison->item[i].key = key;
        comparison->item[i].left = true;
    }
    if (count)
        qsort(comparison->item, count, sizeof *comparison->item, item_order);
    return 0;
}

/* ---- values ---------------------------------------------------------------------------------- */

static double mean_calls(const struct an_diff_comparison *comparison, int side, int64_t calls)
{
    const struct an_diff_run *from = &comparison->side[side];
    return (double)calls / (comparison->diff->unit == AN_DIFF_CAPTURE
                                ? from->devices
                                : (double)from->samples->detailed);
}

/* Adds up the times of the items of a side in each of its steps. NULL: no memory. */
static double *steps_of_items(struct an_diff_comparison *comparison, int side,
                              const struct an_diff_item *item, size_t count)
{
    const struct an_diff_run *from = &comparison->side[side];
    size_t steps = from->samples->detailed;
    double *ms = an_arena_zero(comparison->diff->arena, 2 * steps, sizeof *ms);
    for (size_t i = 0; ms && i < count; i++)
        for (size_t k = 0; k < steps && item[i].side == side; k++)
            ms[k] += item[i].sample->ms[k] * from->scale[from->samples->step_of[k]];
    return ms;
}

/* Sets the value of one side from the items of a row: the median of its steps where the values of
 * all items are kept for each step, else the mean. */
static int side_value(struct an_diff_comparison *comparison, struct an_diff_row *out, size_t row,
                      int side, const struct an_diff_item *item, size_t count)
{
    const struct an_diff_run *from = &comparison->side[side];
    size_t steps = from->samples->detailed;
    double total = 0, *ms = NULL;
    int64_t calls = 0;
    bool capture = comparison->diff->unit == AN_DIFF_CAPTURE, known = !capture && steps,
         inside = false;
    for (size_t i = 0; i < count; i++)
        if (item[i].side == side) {
            const struct an_sample *sample = item[i].sample;
            inside = true;
            known = known && sample->ms;
            calls += capture ? sample->calls : sample->step_calls;
            if (capture)
                total += (double)sample->total_ns / 1e6 / from->devices;
            else if (steps)
                total += sample->step_ns / 1e6 / (double)steps;
        }
    if (known) {
        if (!(ms = steps_of_items(comparison, side, item, count)))
            return TACHO_ENOMEM;
        total = an_diff_median(ms, steps, ms + steps);
    }
    comparison->ms[2 * row + (size_t)side] = ms;
    double mean =
        is_name(out->kind) && (steps || capture) ? mean_calls(comparison, side, calls) : NAN;
    *(side ? &out->bad : &out->good) = total;
    *(side ? &out->bad_calls : &out->good_calls) = mean;
    *(side ? &out->in_bad : &out->in_good) = inside;
    return 0;
}

/* Makes a row of items of equal names; where several were matched without their arguments, it gets
 * the common part as name. */
static int add_row(struct an_diff_comparison *comparison, const struct an_diff_item *item,
                   size_t count)
{
    const struct an_sample *first = item->sample;
    struct an_diff_row *row = &comparison->row[comparison->rows];
    *row = (struct an_diff_row){
        .kind = first->kind,
        .class = first->class,
        .merged = count > 1 && item->left,
        .name = an_arena_text(comparison->diff->arena, count > 1 ? item->key : first->name)};
    int rc = side_value(comparison, row, comparison->rows, 0, item, count);
    if (!rc)
        rc = side_value(comparison, row, comparison->rows, 1, item, count);
    an_diff_row_finish(comparison->diff, row);
    comparison->rows++;
    return rc;
}

/* Makes one row of each group that both runs have, and rows of their own for the others. */
static int make_rows(struct an_diff_comparison *comparison)
{
    int rc = 0;
    comparison->row =
        an_arena_zero(comparison->diff->arena, comparison->items + 1, sizeof *comparison->row);
    comparison->ms = calloc(2 * comparison->items + 2, sizeof *comparison->ms);
    if (!comparison->row || !comparison->ms)
        return TACHO_ENOMEM;
    for (size_t i = 0, next; i < comparison->items && !rc; i = next) {
        bool sides[2] = {false, false};
        for (next = i;
             next < comparison->items && same_group(&comparison->item[i], &comparison->item[next]);
             next++)
            sides[comparison->item[next].side] = true;
        if (sides[0] && sides[1]) {
            rc = add_row(comparison, &comparison->item[i], next - i);
            continue;
        }
        for (size_t k = i; k < next && !rc; k++) /* only one run has them: under their own names */
            rc = add_row(comparison, &comparison->item[k], 1);
    }
    return rc;
}

/* The row of the step itself, or of the whole capture. */
static int step_row(struct an_diff_comparison *comparison)
{
    struct an_diff *diff = comparison->diff;
    diff->step = (struct an_diff_row){.name = diff->unit == AN_DIFF_CAPTURE ? "capture" : "step",
                                      .kind = AN_DIFF_STEP,
                                      .class = AN_CLASS_COUNT,
                                      .in_good = true,
                                      .in_bad = true,
                                      .good_calls = NAN,
                                      .bad_calls = NAN};
    for (int i = 0; i < 2; i++) {
        const struct an_diff_run *side = &comparison->side[i];
        double *work = malloc((side->samples->steps + 1) * sizeof *work);
        if (!work)
            return TACHO_ENOMEM;
        double value = diff->unit == AN_DIFF_CAPTURE
                           ? side->samples->capture_ms
                           : an_diff_median(side->step, side->samples->steps, work);
        *(i ? &diff->step.bad : &diff->step.good) = value;
        free(work);
    }
    diff->good.step = diff->step.good;
    diff->bad.step = diff->step.bad;
    an_diff_row_finish(diff, &diff->step);
    return 0;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static struct an_diff_side describe(struct an_arena *arena, const struct an_diff_run *side)
{
    return (struct an_diff_side){
        .file = an_arena_text(arena, side->result->run.file ? side->result->run.file : ""),
        .steps = (int64_t)side->samples->steps,
        .detailed = (int64_t)side->samples->detailed,
        .source = an_arena_text(arena, side->result->steps.source)};
}

/* Lists the names that only one run has. */
static int list_only(struct an_diff_comparison *comparison)
{
    struct an_diff *diff = comparison->diff;
    int rc = an_diff_list_one_sided(comparison, true, &diff->added, &diff->added_count,
                                    &diff->added_total);
    return rc ? rc
              : an_diff_list_one_sided(comparison, false, &diff->removed, &diff->removed_count,
                                       &diff->removed_total);
}

/* Runs all stages; `most`: names to print. */
static int compare(struct an_diff_comparison *comparison, size_t most)
{
    struct an_diff *diff = comparison->diff;
    for (int i = 0; i < 2; i++)
        comparison->side[i].devices = comparison->side[i].result->gpu_count
                                          ? (double)comparison->side[i].result->gpu_count
                                          : 1;
    diff->good = describe(diff->arena, &comparison->side[0]);
    diff->bad = describe(diff->arena, &comparison->side[1]);
    choose_unit(comparison);
    note_kinds(comparison);
    int rc = scale_steps(comparison, &comparison->side[0]);
    rc = rc ? rc : scale_steps(comparison, &comparison->side[1]);
    rc = rc ? rc : draw(comparison);
    rc = rc ? rc : step_row(comparison);
    rc = rc ? rc : list_items(comparison);
    rc = rc ? rc : make_rows(comparison);
    if (!rc && diff->unit == AN_DIFF_CAPTURE)
        an_diff_per_work(comparison);
    rc = rc ? rc : an_diff_keep_and_test(comparison, most);
    rc = rc ? rc : list_only(comparison);
    rc = rc ? rc : an_diff_scaling(diff, comparison->side[0].result, comparison->side[1].result);
    if (!rc)
        an_diff_verdict(diff, comparison->row, comparison->rows, comparison->tested);
    return !rc && an_arena_failed(diff->arena) ? TACHO_ENOMEM : rc;
}

int an_diff_results(const struct an_result *good, const struct an_result *bad, int most,
                    struct an_diff **out)
{
    struct an_diff_comparison comparison = {.side = {{.result = good, .samples = good->samples},
                                                     {.result = bad, .samples = bad->samples}}};
    int rc = TACHO_ENOMEM;
    *out = NULL;
    if (!good->samples || !bad->samples)
        return TACHO_EUSAGE;
    comparison.diff = calloc(1, sizeof *comparison.diff);
    if (comparison.diff && (comparison.diff->arena = an_arena_new()))
        rc = compare(&comparison, most > 0 ? (size_t)most : MOST_DEFAULT);
    for (int i = 0; i < 2; i++) {
        an_diff_draws_free(comparison.side[i].steps_drawn);
        an_diff_draws_free(comparison.side[i].rows_drawn);
    }
    free(comparison.item);
    free(comparison.ms);
    if (rc)
        an_diff_free(comparison.diff);
    else
        *out = comparison.diff;
    return rc;
}

void an_diff_free(struct an_diff *diff)
{
    if (!diff)
        return;
    an_arena_free(diff->arena);
    free(diff);
}

double an_diff_within_pct(const struct an_diff *diff)
{
    const struct an_diff_row *step = &diff->step;
    return isnan(step->low) ? NAN : 100 * (step->high - step->low) / (2 * AN_Z95) / step->good;
}

/* Steps that are alike only together: several workers of a loader finish their batches at about the
 * same time, so one step in as many waits and the others do not. */
static size_t alike_together(const struct an_result *run, size_t steps)
{
    const struct an_count *workers = &run->loader.workers;
    size_t period = workers->valid && workers->value > 1 ? (size_t)workers->value : 1;
    return 2 * period <= steps ? period : 1;
}

/* Puts the mean of each `period` steps in a row into means[]; returns how many there are. */
static size_t period_means(const double *step, size_t steps, size_t period, double *means)
{
    size_t count = steps / period;
    for (size_t i = 0; i < count; i++)
        means[i] = an_mean(step + i * period, period);
    return count;
}

double an_diff_run_step(const struct an_result *base, const struct an_result *run, bool mean)
{
    struct an_diff diff = {.arena = an_arena_new()};
    struct an_diff_comparison comparison = {.diff = &diff,
                                            .side = {{.result = base, .samples = base->samples},
                                                     {.result = run, .samples = run->samples}}};
    size_t steps = run->samples->steps;
    double typical = NAN, *work = malloc((2 * steps + 1) * sizeof *work);
    if (diff.arena && work)
        choose_unit(&comparison);
    if (diff.arena && work && steps && diff.unit != AN_DIFF_CAPTURE &&
        !scale_steps(&comparison, &comparison.side[1])) {
        size_t count =
            period_means(comparison.side[1].step, steps, alike_together(run, steps), work + steps);
        typical = mean ? an_mean(comparison.side[1].step, steps)
                       : an_diff_median(work + steps, count, work);
    }
    free(work);
    an_arena_free(diff.arena);
    return typical;
}
