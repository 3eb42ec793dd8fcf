/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/table.h"

#define NAME_LEAST 20
#define NAME_MOST  60

static void head(struct page *p, const struct rep_table *t, size_t shown, int name)
{
    if (p->color)
        fputs("\x1b[1m", p->out);
    p->column = 0;
    page_cell(p, t->title, name, false);
    for (size_t k = 0; k < shown; k++)
        page_cell(p, t->column[k].head, t->column[k].columns, true);
    if (p->color)
        fputs("\x1b[0m", p->out);
    page_newline(p);
}

void rep_table_write(struct page *p, const struct rep_table *t)
{
    size_t shown = 0, most = t->most ? t->most : p->rows > 0 ? (size_t)p->rows : REP_ROWS;
    int least = t->name_least * (p->width < 100 ? p->width : 100) / 100, name = least = least < NAME_LEAST ? NAME_LEAST : least;
    if (!t->count)
        return;
    while (shown < t->columns && name + t->column[shown].columns <= p->width)
        name += t->column[shown++].columns;
    name = least + (p->width - name);
    name = name > NAME_MOST ? NAME_MOST : name;
    page_blank(p);
    head(p, t, shown, name);
    for (size_t i = 0; i < t->count && i < most; i++) {
        const void *row = (const char *)t->rows + i * t->size;
        char text[REP_NAME + 1] = " ", cell[REP_CELL];
        t->name(text + 1, row);
        p->column = 0;
        page_cell(p, text, name - 1, false);
        page_cell(p, "", 1, false); /* what is cut does not run into the next column */
        for (size_t k = 0; k < shown; k++) {
            cell[0] = 0;
            t->column[k].cell(cell, row);
            page_cell(p, cell, t->column[k].columns, true);
        }
        page_newline(p);
    }
    if (t->count > most) {
        char text[80];
        snprintf(text, sizeof text, " %zu more rows: --top N, or tacho report --json", t->count - most);
        page_text(p, 1, text);
    }
}
