/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of ranges, or, on an accelerator, of kernels and copies.
 */
#include <string.h>

#include "reports/sections/sections.h"
#include "reports/sections/tables.h"
#include "reports/words/kernel_name.h"
#include "reports/words/phrase.h"

static void cell_kind(char cell[REP_CELL], const void *row)
{
    snprintf(cell, REP_CELL, "%.24s", ((const struct an_op *)row)->kind);
}

static void name_range(char name[REP_NAME], const void *row)
{
    const struct an_op *op = row;
    const char *pass = strstr(op->name, op->pass) ? "" : op->pass;
    snprintf(name, REP_NAME, "%.1000s%s%.40s", rep_or(op->name, "(unnamed)"), *pass ? " " : "",
             pass);
}

static void name_device_op(char name[REP_NAME], const void *row)
{
    const struct an_op *op = row;
    if (*op->name)
        rep_kernel_name(name, REP_NAME, op->name);
    else
        snprintf(name, REP_NAME, "(unnamed)");
}

REP_CELL_OF(cell_count, an_op, rep_cell_integer, count)
REP_CELL_OF(cell_share, an_op, rep_cell_pct, share_pct)
REP_CELL_OF(cell_total, an_op, rep_cell_ns, total_ns)
REP_CELL_OF(cell_mean, an_op, rep_cell_us, mean_us)
REP_CELL_OF(cell_sd, an_op, rep_cell_us, sd_us)
REP_CELL_OF(cell_min, an_op, rep_cell_count_ns, min_ns)
REP_CELL_OF(cell_max, an_op, rep_cell_count_ns, max_ns)
REP_CELL_OF(cell_flops, an_op, rep_cell_rate, flops_per_s)
REP_CELL_OF(cell_bytes, an_op, rep_cell_rate, bytes_per_s)

static const struct rep_column of_ranges[] = {
    {"self %", 8, cell_share}, {"count", 10, cell_count}, {"mean", 9, cell_mean},
    {"FLOP/s", 8, cell_flops}, {"total", 9, cell_total},  {"sd", 9, cell_sd},
    {"B/s", 8, cell_bytes},    {"min", 9, cell_min},      {"max", 9, cell_max}};
static const struct rep_column of_kernels[] = {{"time %", 8, cell_share}, {"total", 9, cell_total},
                                               {"count", 8, cell_count},  {"mean", 9, cell_mean},
                                               {"class", 14, cell_kind},  {"min", 9, cell_min},
                                               {"max", 9, cell_max},      {"sd", 9, cell_sd}};

void rep_table_ops(const struct an_result *result, struct rep_table *table, char title[80])
{
    bool device = !result->gpu.reason;
    *table = (struct rep_table){.title = "Ranges by own time",
                                .name = name_range,
                                REP_COLUMNS(of_ranges),
                                REP_ROWS_OF(result->ops, result->op_count)};
    if (device) {
        snprintf(title, 80, "Kernels and copies, %.40s", rep_or(result->ops_window, "all"));
        table->title = title;
        table->name = name_device_op;
        table->name_least = 42;
        table->column = of_kernels;
        table->columns = sizeof of_kernels / sizeof *of_kernels;
    }
}

void rep_section_ops(struct page *page, const struct an_result *result)
{
    char title[80];
    struct rep_table table;
    rep_table_ops(result, &table, title);
    if (result->gpu.reason)
        rep_modules_left_out(page, &result->modules);
    rep_table_write(page, &table);
}
