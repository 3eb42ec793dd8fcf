/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to tui/: a table of the report (reports/page/table.h) in cells: columns drop from the
 * last one on as it gets narrower, rows sort, filter and scroll, the row under the cursor is
 * marked.
 */
#ifndef TUI_TABLE_H
#define TUI_TABLE_H

#include "reports/sections/tables.h"
#include "tui/screen/view.h"

/* An order of the rows: the column it belongs to (index; -1: the name) and what it sorts by,
 * largest first; NULL: by name. */
struct tui_order {
    int column;
    double (*key)(const void *row); /* NAN sorts last */
};

struct tui_list {
    const struct rep_table *table;
    const struct tui_order *orders; /* none: the rows stay as they are */
    size_t order_count;
    const char *letters; /* NULL, or: the i-th row of the table as it is has this letter before its
                            name, ' ' behind the last */
};

/* Draws head and rows into the rectangle; the last row says what is filtered and sorted. Limits the
 * state to what exists. Returns the row under the cursor; NULL: no cursor. */
const void *tui_table_draw(struct tui_cells *cells, struct tui_rect area,
                           const struct tui_list *list, struct tui_view_state *state);

/* All columns of a row, "head value", in a rectangle; the name in full before them. Returns the
 * rows it took. */
int tui_table_details(struct tui_cells *cells, struct tui_rect area, const struct rep_table *table,
                      const void *row);

#endif
