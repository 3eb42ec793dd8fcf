/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to reports/ and tui/: a table of a report. On lines the name takes what is left, and a
 * page that gets wider takes more columns, in the order of the list.
 */
#ifndef REPORTS_TABLE_H
#define REPORTS_TABLE_H

#include <stddef.h>

#include "analyzers/result/result.h"
#include "reports/page/page.h"

#define REP_CELL 32
#define REP_NAME 1200
#define REP_ROWS 12 /* of a table, where the caller did not say */

struct rep_column {
    const char *head;
    int columns;
    void (*cell)(char b[REP_CELL], const void *row); /* "" where the value is not known */
};

struct rep_table {
    const char *title;
    void (*name)(char b[REP_NAME], const void *row); /* "": the sum of the rows above */
    const struct rep_column *column;
    size_t columns;
    const void *rows;
    size_t size, count; /* bytes of a row, rows */
    size_t most;        /* rows that are shown; 0: as many as the page says */
    int name_least;     /* columns of the name on a page of 100; 0 = 20 */
    bool words;         /* the names are tacho's own words */
    double (*bar)(
        const void *row); /* per cent, drawn behind the columns; NAN: none. NULL: no bars */
};

/* The table, and how many rows were left out. Nothing for an empty one. */
void rep_table_write(struct page *page, const struct rep_table *table);
/* Rows that the page shows of it. */
size_t rep_table_most(const struct page *page, const struct rep_table *table);

/* A cell of milliseconds as people read them; "" where the value is not known. */
void rep_cell_ms(char b[REP_CELL], struct an_value v);

#endif
