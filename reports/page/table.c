/* SPDX-License-Identifier: Apache-2.0
 *
 * A table on lines of a terminal.
 */
#include "reports/page/table.h"

#include <math.h>

#include "reports/page/lines.h"
#include "reports/text/text.h"

#define NAME_LEAST 20
#define NAME_MOST  60
#define NAME_BAR   34 /* beside bars */
#define BAR_LEAST  8
#define BAR_MOST   50

/* How the columns of a page are spent. */
struct fit {
    size_t shown;  /* columns of the table */
    int name, bar; /* cells */
    int gap;       /* what is cut does not run into the next column */
};

static struct fit fit_columns(const struct page *page, const struct rep_table *table)
{
    struct fit fit = {.gap = 1};
    int least = table->name_least * (page->width < 100 ? page->width : 100) / 100, used;
    used = least = least < NAME_LEAST ? NAME_LEAST : least;
    while (fit.shown < table->columns && used + table->column[fit.shown].columns <= page->width)
        used += table->column[fit.shown++].columns;
    fit.name = least + (page->width - used);
    fit.name = fit.name > NAME_MOST ? NAME_MOST : fit.name;
    if (table->bar) {
        fit.gap = 0; /* its columns are wide enough */
        int left = page->width - (used - least);
        fit.name = left - 1 < NAME_BAR ? left - 1 : NAME_BAR;
        fit.bar = left - fit.name - 3;
        fit.bar = fit.bar < BAR_LEAST ? 0 : fit.bar > BAR_MOST ? BAR_MOST : fit.bar;
    }
    return fit;
}

static void head(struct page *page, const struct rep_table *table, const struct fit *fit)
{
    line_bold(page, true);
    page->column = 0;
    line_cell(page, table->title, fit->name, false);
    for (size_t k = 0; k < fit->shown; k++)
        line_cell(page, table->column[k].head, table->column[k].columns, true);
    line_bold(page, false);
    line_newline(page);
}

void line_table(struct page *page, const struct rep_table *table)
{
    struct fit fit = fit_columns(page, table);
    size_t most = rep_table_most(page, table);
    line_blank(page);
    head(page, table, &fit);
    for (size_t i = 0; i < most; i++) {
        const void *row = (const char *)table->rows + i * table->size;
        char text[REP_NAME + 1] = " ", cell[REP_CELL];
        table->name(text + 1, row);
        page->column = 0;
        line_cell(page, text, fit.name - fit.gap, false);
        line_cell(page, "", fit.gap, false);
        for (size_t k = 0; k < fit.shown; k++) {
            cell[0] = 0;
            table->column[k].cell(cell, row);
            line_cell(page, cell, table->column[k].columns, true);
        }
        double bar = table->bar && fit.bar ? table->bar(row) : NAN;
        if (!isnan(bar)) {
            line_cell(page, "", 2, false);
            line_bar(page, bar, fit.bar);
        }
        line_newline(page);
    }
    if (table->count > most) {
        char text[80];
        snprintf(text, sizeof text, " %zu more rows: --top N, or tacho report --json",
                 table->count - most);
        page_text(page, 1, text);
    }
}

void rep_cell_ms(char b[REP_CELL], struct an_value v)
{
    if (v.valid)
        page_time(b, v.value * 1e6);
}
