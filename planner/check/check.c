/* SPDX-License-Identifier: Apache-2.0
 *
 * Predicts the rows of a table of published runs and sums up the errors by source.
 */
#include "planner/check/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "planner/check/rows.h"
#include "planner/search/search.h"

#define GIB        1073741824.0
#define RUN_WEIGHT 1.0 /* halvings of a run's weight per unit of distance */
#define RAN_ANYWAY 1.2 /* of the memory: what was published did fit, whatever is predicted */

/* ---- predictions ----------------------------------------------------------------------------- */

static bool is_complete(const struct plan_layout *layout)
{
    return layout->data && layout->tensor && layout->pipeline && layout->micro_batch &&
           layout->recompute_given && layout->zero >= 0;
}

/* Fills what was not published: neutral members first; then the fastest layout that fits. */
static void complete_layout(struct plan_row *row)
{
    struct plan_layout *layout = &row->at.layout;
    struct plan_search *search = NULL;
    bool known = layout->tensor && layout->pipeline;
    if (known && !layout->context)
        layout->context = 1;
    if (known && !layout->data)
        layout->data = layout->devices / (layout->tensor * layout->pipeline * layout->context);
    if (known && !layout->chunks && (layout->pipeline == 1 || !layout->sequence_parallel))
        layout->chunks = 1;
    if (!layout->expert)
        layout->expert = row->at.model.experts ? 0 : 1;
    if (is_complete(layout) && layout->chunks)
        return;
    row->chosen = true;
    search = malloc(sizeof *search);
    if (search &&
        !plan_search_layouts(&row->at, RAN_ANYWAY * row->at.machine.device.bytes, 0, search, NULL))
        *layout = search->best_count ? search->best[0].layout : search->smallest.layout;
    else
        row->reason = "no layout can run with what was published";
    free(search);
}

/* The number of the kind that was published: what nvidia-smi shows, what the allocator reserved or
 * planned. */
static double memory_of_kind(const struct plan_row *row)
{
    double bytes = row->memory.total;
    if (strstr(row->memory_kind, "reserved"))
        bytes = row->memory.reserved;
    else if (strstr(row->memory_kind, "alloc"))
        bytes = row->memory.allocated;
    return bytes / GIB;
}

static void predict(struct plan_row *row)
{
    if (row->reason)
        return;
    complete_layout(row);
    if (row->reason)
        return;
    plan_memory_of(&row->at, &row->memory);
    plan_time_of(&row->at, 0, &row->time);
    row->memory_gib = memory_of_kind(row);
}

/* ---- conventions ----------------------------------------------------------------------------- */

/* FLOP/s of a device by a convention, at the published time. */
static double closed_form(const struct plan_row *row, enum plan_convention convention)
{
    double sequence = (double)row->at.layout.sequence;
    double flops = plan_flops(&row->at.model, sequence, convention);
    if (row->estimated) { /* 8 x parameters of the layers x tokens */
        double output = (double)row->at.model.width * (double)row->at.model.vocabulary;
        flops = 8 * (plan_matrix_parameters(&row->at.model) - output) * sequence;
    }
    flops *= (double)row->at.layout.global_batch;
    return flops / (row->measured_s * (double)row->at.layout.devices);
}

static bool has_formula(const struct plan_row *row)
{
    return !row->reason && row->printed_flops > 0 && row->measured_s > 0 && !row->at.model.experts;
}

/* The convention of a source is what it says (rows.c), unless more of its rows agree with another
 * one. Only what was printed counts, no prediction: it is settled before anything is fitted. */
static void choose_convention(struct plan_check *check, const char *source)
{
    size_t votes[PLAN_CONVENTIONS] = {0};
    int best = -1;
    for (size_t i = 0; i < check->row_count; i++) {
        const struct plan_row *row = &check->rows[i];
        if (strcmp(row->source, source) || !has_formula(row))
            continue;
        if (best < 0)
            best = (int)row->convention;
        for (int k = 0; k < PLAN_CONVENTIONS; k++)
            if (fabs(closed_form(row, (enum plan_convention)k) / row->printed_flops - 1) < 0.02)
                votes[k]++;
    }
    for (int k = 0; k < PLAN_CONVENTIONS; k++)
        if (best >= 0 && votes[k] > votes[best])
            best = k;
    for (size_t i = 0; i < check->row_count; i++) {
        struct plan_row *row = &check->rows[i];
        if (strcmp(row->source, source))
            continue;
        if (best >= 0)
            row->convention = (enum plan_convention)best;
        if (has_formula(row))
            row->ratio = closed_form(row, row->convention) / row->printed_flops;
    }
}

/* Where only FLOP/s were published, the source's formula gives the time. */
static void derive_time(struct plan_row *row)
{
    if (row->reason || row->measured_s > 0 || !(row->printed_flops > 0) || row->at.model.experts)
        return;
    row->measured_s = 1;
    row->measured_s = closed_form(row, row->convention) / row->printed_flops;
}

/* ---- the nearest run ------------------------------------------------------------------------- */

static bool is_measured(const struct plan_row *row)
{
    return !row->reason && row->measured_s > 0;
}

/* Scales the prediction by measured over predicted of other runs of the source: the geometric mean
 * with weights that halve with each unit of distance beyond the nearest one, so that the noise of
 * one run does not pass to the prediction. */
static void find_nearest(struct plan_check *check, size_t index)
{
    struct plan_row *row = &check->rows[index];
    double least = INFINITY, total = 0, bias = 0, squares = 0;
    row->nearest = index;
    row->from_run = row->time;
    for (size_t i = 0; i < check->row_count && !row->reason; i++) {
        const struct plan_row *other = &check->rows[i];
        if (i == index || strcmp(other->source, row->source) || !is_measured(other))
            continue;
        double far = plan_distance(&row->at, &other->at), weight = exp2(-RUN_WEIGHT * far);
        total += weight;
        double ratio = log(other->measured_s / other->time.seconds);
        bias += weight * ratio;
        squares += weight * ratio * ratio;
        if (far >= least)
            continue;
        least = far;
        row->nearest = i;
    }
    if (row->nearest == index)
        return;
    const struct plan_constants *constants = row->at.constants;
    row->run_distance = least;
    bias /= total;
    row->run_spread = sqrt(fmax(squares / total - bias * bias, 0));
    row->from_run.seconds = fmax(row->time.seconds * exp(bias), row->time.least_seconds);
    plan_time_interval(&row->from_run, constants->spread_run + constants->spread_run_far * least +
                                           constants->spread_run_near * row->run_spread);
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* Sums over rows of one source. */
struct sums {
    double *widths, *run_widths, *memory;
    size_t rows, run_rows, memory_rows, formula_rows, formula_right;
    double error, run_error, covered, run_covered;
};

static void add_row(const struct plan_check *check, size_t index, struct sums *sums)
{
    const struct plan_row *row = &check->rows[index];
    if (row->ratio > 0) {
        sums->formula_rows++;
        sums->formula_right += fabs(row->ratio - 1) <= 0.02;
    }
    if (!row->reason && row->measured_gib > 0)
        sums->memory[sums->memory_rows++] = fabs(log(row->memory_gib / row->measured_gib));
    if (!is_measured(row) || !row->dense16)
        return;
    sums->error += fabs(log(row->time.seconds / row->measured_s));
    sums->covered += row->measured_s >= row->time.low && row->measured_s <= row->time.high;
    sums->widths[sums->rows++] = (row->time.high - row->time.low) / row->time.seconds;
    if (row->nearest == index)
        return;
    const struct plan_time *run = &row->from_run;
    sums->run_error += fabs(log(run->seconds / row->measured_s));
    sums->run_covered += row->measured_s >= run->low && row->measured_s <= run->high;
    sums->run_widths[sums->run_rows++] = (run->high - run->low) / run->seconds;
}

static double quantile(double *values, size_t count, double at)
{
    return count ? an_quantile_of(values, count, at) : NAN;
}

/* The errors of one source; `room` holds three numbers a row of the table. */
static void source_errors(const struct plan_check *check, const char *source, double *room,
                          struct plan_errors *out)
{
    struct sums sums = {.widths = room,
                        .run_widths = room + check->row_count,
                        .memory = room + 2 * check->row_count};
    for (size_t i = 0; i < check->row_count; i++)
        if (!strcmp(check->rows[i].source, source))
            add_row(check, i, &sums);
    double rows = (double)sums.rows, run_rows = (double)sums.run_rows;
    *out = (struct plan_errors){.source = source,
                                .rows = sums.rows,
                                .memory_rows = sums.memory_rows,
                                .formula_rows = sums.formula_rows,
                                .convention = -1};
    for (size_t i = 0; i < check->row_count; i++)
        if (!strcmp(check->rows[i].source, source) && check->rows[i].printed_flops > 0)
            out->convention = (int)check->rows[i].convention;
    out->error = sums.error / rows; /* NAN without rows */
    out->coverage = sums.covered / rows;
    out->run_error = sums.run_error / run_rows;
    out->run_coverage = sums.run_covered / run_rows;
    out->width = quantile(sums.widths, sums.rows, 0.5);
    out->run_width = quantile(sums.run_widths, sums.run_rows, 0.5);
    out->memory_median = quantile(sums.memory, sums.memory_rows, 0.5);
    out->memory_p90 = quantile(sums.memory, sums.memory_rows, 0.9);
    out->formula_share = (double)sums.formula_right / (double)sums.formula_rows;
}

/* The mean over sources of one member, without those that have none. */
static double mean_of(const struct plan_check *check, size_t offset)
{
    double total = 0, count = 0;
    for (size_t i = 0; i < check->source_count; i++) {
        double value = *(const double *)(const void *)((const char *)&check->sources[i] + offset);
        if (isnan(value))
            continue;
        total += value;
        count++;
    }
    return total / count;
}

static void all_errors(struct plan_check *check)
{
    static const size_t offsets[] = {
        offsetof(struct plan_errors, error),         offsetof(struct plan_errors, run_error),
        offsetof(struct plan_errors, coverage),      offsetof(struct plan_errors, run_coverage),
        offsetof(struct plan_errors, width),         offsetof(struct plan_errors, run_width),
        offsetof(struct plan_errors, memory_median), offsetof(struct plan_errors, memory_p90)};
    struct plan_errors *all = &check->all;
    double right = 0;
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++)
        *(double *)(void *)((char *)all + offsets[i]) = mean_of(check, offsets[i]);
    for (size_t i = 0; i < check->source_count; i++) {
        const struct plan_errors *source = &check->sources[i];
        all->rows += source->rows;
        all->memory_rows += source->memory_rows;
        all->formula_rows += source->formula_rows;
        if (source->formula_rows)
            right += source->formula_share * (double)source->formula_rows;
    }
    all->formula_share = right / (double)all->formula_rows;
}

static void count_chance(struct plan_check *check, const struct plan_row *row)
{
    int i = 0;
    if (isnan(row->memory.probability))
        return;
    while (i < PLAN_CHANCES - 1 && row->memory.probability >= check->chances[i].below)
        i++;
    check->chances[i].rows++;
    check->chances[i].expected += row->memory.probability;
    check->chances[i].out_of_memory += row->out_of_memory;
}

/* Rows that ran or ran out of memory, against whether the plan fits. */
static void count_fits(struct plan_check *check)
{
    static const struct plan_chance chances[PLAN_CHANCES] = {{.words = "below 2 %", .below = 0.02},
                                                             {.words = "2 to 10 %", .below = 0.1},
                                                             {.words = "10 to 50 %", .below = 0.5},
                                                             {.words = "50 to 90 %", .below = 0.9},
                                                             {.words = "above 90 %", .below = 1}};
    memcpy(check->chances, chances, sizeof chances);
    for (size_t i = 0; i < check->row_count; i++) {
        const struct plan_row *row = &check->rows[i];
        if (row->reason)
            continue;
        double peak = an_accelerator_peak(&row->at.machine.device, row->at.machine.type);
        check->above_peak +=
            row->time.executed_flops / row->time.seconds >
            1.0001 * peak * (double)row->at.layout.devices * (double)row->at.layout.pipeline;
        if (row->out_of_memory) {
            count_chance(check, row);
            check->out_of_memory++;
            check->out_of_memory_predicted += row->memory.fit != PLAN_FITS;
        } else if (!row->chosen && (row->measured_s > 0 || row->measured_gib > 0)) {
            count_chance(check, row);
            check->fitting++;
            check->fitting_refused += row->memory.fit == PLAN_DOES_NOT_FIT;
        }
    }
}

/* ---- the whole table ------------------------------------------------------------------------- */

static int list_sources(struct plan_check *check)
{
    check->sources = calloc(check->row_count + 1, sizeof *check->sources);
    if (!check->sources)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < check->row_count; i++) {
        size_t k = 0;
        while (k < check->source_count && strcmp(check->sources[k].source, check->rows[i].source))
            k++;
        if (k == check->source_count)
            check->sources[check->source_count++].source = check->rows[i].source;
    }
    return 0;
}

static int judge_sources(struct plan_check *check)
{
    double *room = malloc((3 * check->row_count + 1) * sizeof *room);
    if (!room)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < check->source_count; i++)
        choose_convention(check, check->sources[i].source);
    for (size_t i = 0; i < check->row_count; i++)
        derive_time(&check->rows[i]);
    for (size_t i = 0; i < check->row_count; i++)
        find_nearest(check, i);
    for (size_t i = 0; i < check->source_count; i++)
        source_errors(check, check->sources[i].source, room, &check->sources[i]);
    all_errors(check);
    count_fits(check);
    free(room);
    return 0;
}

int plan_check_file(const char *path, const struct plan_constants *constants,
                    struct plan_check *out, struct tacho_error *err)
{
    struct plan_table table;
    *out = (struct plan_check){0};
    int rc = plan_table_read(path, &table, err);
    if (rc)
        return rc;
    rc = plan_rows_columns(&table, path, err);
    if (!rc) {
        out->rows = calloc(table.rows + 1, sizeof *out->rows);
        out->row_count = out->rows ? table.rows : 0;
        rc = out->rows ? 0 : tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", path);
    }
    for (size_t i = 0; !rc && i < out->row_count; i++) {
        plan_rows_read(&table, i, constants, &out->rows[i]);
        predict(&out->rows[i]);
    }
    plan_table_free(&table);
    if (!rc && (list_sources(out) || judge_sources(out)))
        rc = tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", path);
    if (rc)
        plan_check_free(out);
    return rc;
}

void plan_check_free(struct plan_check *check)
{
    free(check->rows);
    free(check->sources);
    *check = (struct plan_check){0};
}
