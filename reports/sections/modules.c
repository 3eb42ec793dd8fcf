/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules of a model by pattern and by class.
 */
#include <string.h>

#include "reports/page/table.h"
#include "reports/sections/sections.h"
#include "reports/sections/tables.h"

/* The end of a long name is what tells modules apart: its start is cut. */
static void name(char text[REP_NAME], const void *row)
{
    const char *full = ((const struct an_module_row *)row)->name;
    size_t length = strlen(full), most = 56;
    snprintf(text, REP_NAME, "%s%s", length > most ? "..." : "",
             length > most ? full + length - most : full);
}

REP_CELL_OF(module_count, an_module_row, rep_cell_integer, modules)
REP_CELL_OF(call_count, an_module_row, rep_cell_tenths, calls)
REP_CELL_OF(own_time, an_module_row, rep_cell_ms, own_ms)
REP_CELL_OF(total_time, an_module_row, rep_cell_real_ms, total_ms)
REP_CELL_OF(step_count, an_module_row, rep_cell_integer, steps)

void rep_modules_left_out(struct page *page, const struct an_modules *modules)
{
    char text[PAGE_TEXT];
    if (!modules->left_out)
        return;
    snprintf(text, sizeof text, "Incomplete: %s.", modules->left_out);
    page_text(page, 0, text);
}

void rep_section_modules(struct page *page, const struct an_result *result)
{
    static const struct rep_column columns[] = {{"own a step", 11, own_time},
                                                {"with parts", 11, total_time},
                                                {"modules", 9, module_count},
                                                {"calls a step", 14, call_count},
                                                {"steps", 7, step_count}};
    const struct an_modules *modules = &result->modules;
    struct rep_table table = {.title = "Modules, forward, mean per step",
                              .name = name,
                              REP_COLUMNS(columns),
                              REP_ROWS_OF(modules->pattern, modules->pattern_count)};
    if (!modules->left_out)
        table.columns--; /* every row is of all counted steps */
    rep_modules_left_out(page, modules);
    if (modules->reason)
        return;
    rep_table_write(page, &table);
    table.title = "The same by class";
    table.rows = modules->class;
    table.count = modules->class_count;
    rep_table_write(page, &table);
}
