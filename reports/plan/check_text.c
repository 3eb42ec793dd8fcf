/* SPDX-License-Identifier: Apache-2.0
 *
 * The planner against published runs, for people.
 */
#include <math.h>
#include <string.h>

#include "reports/page/lines.h"
#include "reports/page/table.h"
#include "reports/plan/plan_write.h"

static void cell_number(char cell[REP_CELL], const char *format, double value)
{
    if (!isnan(value))
        snprintf(cell, REP_CELL, format, value);
}
#define PERCENT_CELL(function, member) \
    static void function(char cell[REP_CELL], const void *row) \
    { \
        cell_number(cell, "%.1f", 100 * ((const struct plan_errors *)row)->member); \
    }
PERCENT_CELL(cell_error, error)
PERCENT_CELL(cell_coverage, coverage)
PERCENT_CELL(cell_width, width)
PERCENT_CELL(cell_run_error, run_error)
PERCENT_CELL(cell_run_coverage, run_coverage)
PERCENT_CELL(cell_run_width, run_width)
PERCENT_CELL(cell_memory, memory_median)
PERCENT_CELL(cell_formula, formula_share)
static void cell_rows(char cell[REP_CELL], const void *row)
{
    rep_cell_integer(cell, (int64_t)((const struct plan_errors *)row)->rows);
}
REP_NAME_OF(name_source, plan_errors, source)

static void cell_convention(char cell[REP_CELL], const void *row)
{
    int convention = ((const struct plan_errors *)row)->convention;
    if (convention >= 0)
        rep_cell_text(cell, plan_convention_name((enum plan_convention)convention));
}

static const struct rep_column source_columns[] = {{"rows", 5, cell_rows},
                                                   {"convention", 13, cell_convention},
                                                   {"error %", 8, cell_error},
                                                   {"covered %", 10, cell_coverage},
                                                   {"width %", 8, cell_width},
                                                   {"from run %", 11, cell_run_error},
                                                   {"formula %", 10, cell_formula},
                                                   {"memory %", 9, cell_memory},
                                                   {"covered run %", 14, cell_run_coverage},
                                                   {"width run %", 12, cell_run_width}};

static void cell_layouts(char cell[REP_CELL], const void *row)
{
    rep_cell_integer(cell, (int64_t)((const struct plan_chance *)row)->rows);
}
static void cell_expected(char cell[REP_CELL], const void *row)
{
    rep_cell_tenths(cell, ((const struct plan_chance *)row)->expected);
}
static void cell_out(char cell[REP_CELL], const void *row)
{
    rep_cell_integer(cell, (int64_t)((const struct plan_chance *)row)->out_of_memory);
}
REP_NAME_OF(name_chance, plan_chance, words)
static const struct rep_column chance_columns[] = {
    {"layouts", 8, cell_layouts}, {"expected", 9, cell_expected}, {"ran out", 8, cell_out}};

static void cell_seconds(char cell[REP_CELL], double seconds)
{
    cell_number(cell, "%.4g", seconds);
}
#define ROW_CELL(function, print, member) \
    static void function(char cell[REP_CELL], const void *row) \
    { \
        const struct plan_row *of = row; \
        if (!of->reason) \
            print(cell, of->member); \
    }
ROW_CELL(cell_step, cell_seconds, time.seconds)
ROW_CELL(cell_low, cell_seconds, time.low)
ROW_CELL(cell_high, cell_seconds, time.high)
ROW_CELL(cell_run_step, cell_seconds, from_run.seconds)
ROW_CELL(cell_run_low, cell_seconds, from_run.low)
ROW_CELL(cell_run_high, cell_seconds, from_run.high)
ROW_CELL(cell_gib, cell_seconds, memory_gib)
static void cell_measured(char cell[REP_CELL], const void *row)
{
    cell_seconds(cell, ((const struct plan_row *)row)->measured_s);
}
static void cell_published_gib(char cell[REP_CELL], const void *row)
{
    const struct plan_row *of = row;
    if (of->out_of_memory)
        rep_cell_text(cell, "none");
    else
        cell_seconds(cell, of->measured_gib);
}
static void name_row(char name[REP_NAME], const void *row)
{
    const struct plan_row *of = row;
    snprintf(name, REP_NAME, "%s %s%s%s", of->id, of->at.model.name, of->reason ? ": " : "",
             of->reason ? of->reason : "");
}

static const struct rep_column row_columns[] = {
    {"predicted s", 12, cell_step}, {"low", 8, cell_low},
    {"high", 8, cell_high},         {"published s", 12, cell_measured},
    {"GiB", 6, cell_gib},           {"published GiB", 14, cell_published_gib}};
static const struct rep_column run_columns[] = {{"from run s", 12, cell_run_step},
                                                {"low", 8, cell_run_low},
                                                {"high", 8, cell_run_high},
                                                {"published s", 12, cell_measured},
                                                {"GiB", 6, cell_gib},
                                                {"published GiB", 14, cell_published_gib}};

int rep_plan_check_text(const struct plan_check *check, bool from_run,
                        const struct rep_options *options, FILE *out)
{
    struct page page = {.out = out,
                        .ops = &page_lines,
                        .utf8 = options->utf8,
                        .color = options->color,
                        .width = page_lines_width(options->width)};
    const struct plan_errors *all = &check->all;
    struct rep_table rows = {.title = "Rows",
                             .name = name_row,
                             .column = from_run ? run_columns : row_columns,
                             .columns = sizeof row_columns / sizeof *row_columns,
                             REP_ROWS_OF(check->rows, check->row_count),
                             .most = check->row_count};
    struct rep_table sources = {.title = "Sources, mean over rows",
                                .name = name_source,
                                REP_COLUMNS(source_columns),
                                REP_ROWS_OF(check->sources, check->source_count),
                                .most = check->source_count};
    rep_table_write(&page, &rows);
    struct rep_table chances = {.title = "Probability of running out of memory",
                                .name = name_chance,
                                REP_COLUMNS(chance_columns),
                                REP_ROWS_OF(check->chances, PLAN_CHANCES),
                                .most = PLAN_CHANCES};
    rep_table_write(&page, &sources);
    rep_table_write(&page, &chances);
    page_head(&page, "All, mean over sources");
    page_line(&page, "Step", "error %.1f %%, in the interval %.1f %%, width %.1f %% (median)",
              100 * all->error, 100 * all->coverage, 100 * all->width);
    page_line(&page, "From a run", "error %.1f %%, in the interval %.1f %%, width %.1f %% (median)",
              100 * all->run_error, 100 * all->run_coverage, 100 * all->run_width);
    page_line(&page, "Memory", "error %.1f %% (median), %.1f %% (p90), %zu rows",
              100 * all->memory_median, 100 * all->memory_p90, all->memory_rows);
    page_line(&page, "Fit",
              "%zu of %zu that ran out of memory predicted, %zu of %zu that ran refused",
              check->out_of_memory_predicted, check->out_of_memory, check->fitting_refused,
              check->fitting);
    page_line(&page, "Formula",
              "%.1f %% of %zu printed FLOP/s within 2 %% of the source's convention",
              100 * all->formula_share, all->formula_rows);
    return page_flush(&page);
}
