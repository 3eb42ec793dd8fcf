/* SPDX-License-Identifier: Apache-2.0
 *
 * A comparison for people: the verdict, the two runs, then tables of what changed.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reports/diff/diff_write.h"
#include "reports/page/lines.h"
#include "reports/page/table.h"
#include "reports/words/kernel_name.h"
#include "reports/words/phrase.h"

/* Milliseconds with a sign: "+1.234 ms". */
static void signed_time(char cell[REP_CELL], double ms)
{
    const char *size = ms == 0 ? "0" : TIME_TEXT(fabs(ms) * 1e6);
    snprintf(cell, REP_CELL, "%c%.28s", ms < 0 ? '-' : '+', size);
}

REP_CELL_OF(cell_good, an_diff_row, rep_cell_real_ms, good)
REP_CELL_OF(cell_bad, an_diff_row, rep_cell_real_ms, bad)
static void cell_delta(char cell[REP_CELL], const void *row)
{
    signed_time(cell, ((const struct an_diff_row *)row)->delta);
}
static void cell_pct(char cell[REP_CELL], const void *row)
{
    const struct an_diff_row *diff_row = row;
    if (!isnan(diff_row->delta_pct))
        snprintf(cell, REP_CELL, "%+.1f", diff_row->delta_pct);
}
/* Says in a word whether the change is more than noise: colour is never the only sign. */
static void cell_sure(char cell[REP_CELL], const void *row)
{
    const struct an_diff_row *diff_row = row;
    rep_cell_text(cell, diff_row->significant ? "yes" : "no");
    if (isnan(diff_row->p))
        rep_cell_text(cell, "-");
}
/* Decimals that give a time in ms three digits, down to 0.1 us. */
static int decimals(double ms)
{
    int count = 0;
    for (double size = fabs(ms); size < 100 && count < 4; size *= 10)
        count++;
    return count;
}
static void cell_interval(char cell[REP_CELL], const void *row)
{
    const struct an_diff_row *diff_row = row;
    if (!isnan(diff_row->low)) /* as wide as the column at most */
        snprintf(cell, REP_CELL, "[%+.*f, %+.*f]", decimals(diff_row->low), diff_row->low,
                 decimals(diff_row->high), diff_row->high);
}
static void cell_calls(char cell[REP_CELL], double count)
{
    if (!isnan(count))
        snprintf(cell, REP_CELL, count == floor(count) ? "%.0f" : "%.1f", count);
}
static void cell_good_calls(char cell[REP_CELL], const void *row)
{
    cell_calls(cell, ((const struct an_diff_row *)row)->good_calls);
}
static void cell_bad_calls(char cell[REP_CELL], const void *row)
{
    cell_calls(cell, ((const struct an_diff_row *)row)->bad_calls);
}

/* Names a row: a class by its label, a kernel by its short name. An asterisk marks names that
 * were merged. */
static void name_row(char name[REP_NAME], const void *row)
{
    const struct an_diff_row *row_diff = row;
    if (row_diff->kind == AN_DIFF_CLASS && row_diff->class < AN_CLASS_COUNT)
        snprintf(name, REP_NAME, "%s",
                 strcmp(row_diff->name, an_class_key(row_diff->class))
                     ? row_diff->name
                     : an_class_label(row_diff->class));
    else if (row_diff->kind == AN_DIFF_KERNEL)
        rep_kernel_name(name, REP_NAME, row_diff->name);
    else
        snprintf(name, REP_NAME, "%.1000s", rep_or(row_diff->name, "(unnamed)"));
    size_t length = strlen(name);
    if (row_diff->merged && length < REP_NAME - 4)
        snprintf(name + length, REP_NAME - length, " *");
}

static const struct rep_column columns[] = {{"baseline", 10, cell_good},
                                            {"candidate", 10, cell_bad},
                                            {"change", 11, cell_delta},
                                            {"change %", 11, cell_pct},
                                            {"sure", 6, cell_sure},
                                            {"95 %, ms", 20, cell_interval},
                                            {"calls before", 13, cell_good_calls},
                                            {"calls after", 12, cell_bad_calls}};
static const struct rep_column columns_added[] = {
    {"time", 9, cell_bad}, {"% of baseline", 14, cell_pct}, {"calls", 9, cell_bad_calls}};
static const struct rep_column columns_removed[] = {
    {"time", 9, cell_good}, {"% of baseline", 14, cell_pct}, {"calls", 9, cell_good_calls}};

/* One line about one of the runs: how long its step is, how many steps there are and where they
 * come from. */
static void side_line(struct page *page, const char *label, const struct an_diff_side *diff_side,
                      const struct an_diff *diff)
{
    char time[32];
    bool capture = diff->unit == AN_DIFF_CAPTURE;
    page_label(page, label);
    if (!isnan(diff_side->step))
        page_time(time, diff_side->step * 1e6);
    else
        snprintf(time, sizeof time, "unknown");
    if (capture)
        page_item(page, "capture of %s", time);
    if (!diff_side->source)
        page_item(page, "no steps");
    else if (capture)
        page_item(page, "%" PRId64 " counted steps (%.60s)", diff_side->steps, diff_side->source);
    else
        page_item(page, "%" PRId64 " counted steps, median %s (%.60s)", diff_side->steps, time,
                  diff_side->source);
    if (!isnan(diff_side->tokens_per_step))
        page_item(page, "%.0f tokens a step", diff_side->tokens_per_step);
    page_item(page, "%.1000s", diff_side->file);
    page_end(page);
}

/* Says whether the limit of --fail-above is kept, and which change so many runs can show. */
static void gate_line(struct page *page, const struct an_gate *gate)
{
    static const char *const states[] = {"", "passed", "FAILED", "UNDECIDED"};
    char outlook[AN_GATE_WORDS];
    if (gate->state == AN_GATE_NONE)
        return;
    page_label(page, "Limit");
    page_item(page, "%s: the step may be up to %s %% longer", states[gate->state],
              NUMBER_TEXT(gate->limit_pct));
    if (!isnan(gate->change_pct))
        page_item(page, "the change is %+.3g %%", gate->change_pct);
    if (!isnan(gate->high_pct))
        page_item(page, "at most %+.3g %% (95 %%), p %.2g that it is not slower", gate->high_pct,
                  gate->p);
    page_item(page, "%zu and %zu runs", gate->good_runs, gate->bad_runs);
    if (!isnan(gate->detectable_pct))
        page_item(page, "smallest detectable change %+.3g %%", gate->detectable_pct);
    if (gate->reason)
        page_item(page, "%s", gate->reason);
    if (*an_gate_outlook(gate, outlook))
        page_item(page, "%s", outlook);
    page_end(page);
}

/* Is the row worth a line? Classes that neither run spent time in are left to JSON. */
static bool is_news(const struct an_diff_row *row)
{
    return row->kind != AN_DIFF_CLASS || row->good != 0 || row->bad != 0;
}

static void scaling_losses(struct page *page, const struct an_scaling *scaling)
{
    AN_EACH_CLASS(class)
        if (scaling->lost_pct[class].valid && fabs(scaling->lost_pct[class].value) >= 0.5)
            page_item(page, "%s %+.1f %%", an_class_label((enum an_class) class),
                      scaling->lost_pct[class].value > 0 ? -scaling->lost_pct[class].value
                                                         : fabs(scaling->lost_pct[class].value));
}

static void scaling_items(struct page *page, const struct an_scaling *scaling)
{
    if (scaling->low.valid)
        page_item(page, "efficiency %.1f %% [%.1f, %.1f]", 100 * scaling->efficiency.value,
                  100 * scaling->low.value, 100 * scaling->high.value);
    else
        page_item(page, "efficiency %.1f %%", 100 * scaling->efficiency.value);
    page_item(page,
              "%s times the %s/s (%s instead of %s) on %s times the ranks (%" PRId64
              " instead of %" PRId64 ")",
              DIGITS_TEXT(scaling->speed_up.value, 3), scaling->of,
              NUMBER_TEXT(scaling->bad_rate.value), NUMBER_TEXT(scaling->good_rate.value),
              DIGITS_TEXT((double)scaling->bad_ranks / (double)scaling->good_ranks, 3),
              scaling->bad_ranks, scaling->good_ranks);
    page_item(page, "%s scaling: %s and %s %s a step", scaling->kind,
              NUMBER_TEXT(scaling->good_batch.value), NUMBER_TEXT(scaling->bad_batch.value),
              scaling->of);
}

/* For runs with different numbers of ranks: how well the second uses them, and which classes cost
 * more of a rank's time. */
static void scaling_line(struct page *page, const struct an_diff *diff)
{
    const struct an_scaling *scaling = &diff->scaling;
    if (scaling->reason && scaling->good_ranks == scaling->bad_ranks)
        return;
    page_label(page, "Scaling");
    if (scaling->reason) {
        page_item(page, "unknown: %.300s", scaling->reason);
        page_end(page);
        return;
    }
    scaling_items(page, scaling);
    scaling_losses(page, scaling);
    page_end(page);
}

/* Everything above the tables: the verdict, both runs, a note, scaling, the test of
 * significance, and the limit of --fail-above. */
static void diff_head(struct page *page, const struct an_diff *diff, const struct an_gate *gate)
{
    page_head(page, diff->verdict);
    page_blank(page);
    side_line(page, "Baseline", &diff->good, diff);
    side_line(page, "Candidate", &diff->bad, diff);
    if (diff->note) {
        page_line(page, "Note", "%s", diff->note);
    }
    scaling_line(page, diff);
    page_label(page, "Significance");
    if (diff->significance)
        page_item(page, "%s", diff->significance);
    else
        page_item(page,
                  "sure means: 95 %% confidence over all %zu names compared (block bootstrap of "
                  "medians, Holm), a change above the drift within each run, and at least 1 %% "
                  "of the step",
                  diff->compared);
    page_end(page);
    gate_line(page, gate);
}

/* Writes the rows that are worth a line. Without memory for a copy the table is empty. */
static void write_table(struct page *page, const char *title, const struct an_diff_row *rows,
                        size_t row_count, const struct rep_column *column, size_t column_count)
{
    struct an_diff_row *news = malloc((row_count + 1) * sizeof *news);
    struct rep_table table = {.title = title,
                              .name = name_row,
                              .column = column,
                              .columns = column_count,
                              REP_ROWS_OF(news, 0),
                              .most = row_count,
                              .name_least = 30};
    for (size_t i = 0; news && i < row_count; i++)
        if (is_news(&rows[i]))
            news[table.count++] = rows[i];
    rep_table_write(page, &table);
    free(news);
}

#define TABLE(p, title, rows, n, list) \
    write_table(p, title, rows, n, list, sizeof list / sizeof *list)

/* One table for each kind of rows. Returns whether a row stands for several names. */
static bool kind_tables(struct page *page, const struct an_diff *diff)
{
    bool merged = false;
    for (size_t i = 0, next; i < diff->row_count; i = next) {
        for (next = i; next < diff->row_count && diff->rows[next].kind == diff->rows[i].kind;
             next++)
            merged = merged || diff->rows[next].merged;
        TABLE(page, an_diff_kind_text(diff->rows[i].kind), &diff->rows[i], next - i, columns);
    }
    return merged;
}

/* One table for each kind of name, in the order in which the analysis sorted them, then the
 * names that only one of the runs has. */
int rep_diff_text(const struct an_diff *diff, const struct an_gate *gate,
                  const struct rep_options *options, FILE *out)
{
    struct page page = {.out = out,
                        .ops = &page_lines,
                        .width = page_lines_width(options->width),
                        .utf8 = options->utf8,
                        .color = options->color},
                *p = &page;
    char title[120];
    diff_head(p, diff, gate);
    const char *whole = diff->unit == AN_DIFF_CAPTURE ? "Whole capture, per device" : "Median step";
    TABLE(p, whole, &diff->step, isnan(diff->step.delta) ? 0u : 1u, columns);
    bool merged = kind_tables(p, diff);
    snprintf(title, sizeof title, "Only in the candidate (%zu names)", diff->added_total);
    TABLE(p, title, diff->added, diff->added_count, columns_added);
    snprintf(title, sizeof title, "Only in the baseline (%zu names)", diff->removed_total);
    TABLE(p, title, diff->removed, diff->removed_count, columns_removed);
    if (merged) {
        page_blank(p);
        page_text(p, 0,
                  "* names that differ only in template arguments, argument lists, addresses or "
                  "long numbers are added up");
    }
    return page_flush(p);
}
