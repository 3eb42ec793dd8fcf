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

static struct fit fit_columns(const struct page *p, const struct rep_table *t)
{
    struct fit f = {.gap = 1};
    int least = t->name_least * (p->width < 100 ? p->width : 100) / 100, used;
    used = least = least < NAME_LEAST ? NAME_LEAST : least;
    while (f.shown < t->columns && used + t->column[f.shown].columns <= p->width)
        used += t->column[f.shown++].columns;
    f.name = least + (p->width - used);
    f.name = f.name > NAME_MOST ? NAME_MOST : f.name;
    if (t->bar) {
        f.gap = 0; /* its columns are wide enough */
        int left = p->width - (used - least);
        f.name = left - 1 < NAME_BAR ? left - 1 : NAME_BAR;
        f.bar = left - f.name - 3;
        f.bar = f.bar < BAR_LEAST ? 0 : f.bar > BAR_MOST ? BAR_MOST : f.bar;
    }
    return f;
}

static void head(struct page *p, const struct rep_table *t, const struct fit *f)
{
    line_bold(p, true);
    p->column = 0;
    line_cell(p, t->title, f->name, false);
    for (size_t k = 0; k < f->shown; k++)
        line_cell(p, t->column[k].head, t->column[k].columns, true);
    line_bold(p, false);
    line_newline(p);
}

void line_table(struct page *p, const struct rep_table *t)
{
    struct fit f = fit_columns(p, t);
    size_t most = rep_table_most(p, t);
    line_blank(p);
    head(p, t, &f);
    for (size_t i = 0; i < most; i++) {
        const void *row = (const char *)t->rows + i * t->size;
        char text[REP_NAME + 1] = " ", cell[REP_CELL];
        t->name(text + 1, row);
        p->column = 0;
        line_cell(p, text, f.name - f.gap, false);
        line_cell(p, "", f.gap, false);
        for (size_t k = 0; k < f.shown; k++) {
            cell[0] = 0;
            t->column[k].cell(cell, row);
            line_cell(p, cell, t->column[k].columns, true);
        }
        double bar = t->bar && f.bar ? t->bar(row) : NAN;
        if (!isnan(bar)) {
            line_cell(p, "", 2, false);
            line_bar(p, bar, f.bar);
        }
        line_newline(p);
    }
    if (t->count > most) {
        char text[80];
        snprintf(text, sizeof text, " %zu more rows: --top N, or tacho report --json",
                 t->count - most);
        page_text(p, 1, text);
    }
}

void rep_cell_ms(char b[REP_CELL], struct an_value v)
{
    if (v.valid)
        page_time(b, v.value * 1e6);
}
