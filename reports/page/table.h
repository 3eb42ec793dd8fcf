/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of a report. The reports print it in every format; the dashboard sorts and filters it. On
 * lines of a terminal a wider page shows more columns, in the order of the list, and the name takes
 * the columns that are left.
 */
#ifndef REPORTS_TABLE_H
#define REPORTS_TABLE_H

#include <stddef.h>

#include "analyzers/result/result.h"
#include "reports/page/page.h"

#define REP_CELL 32
#define REP_NAME 1200
#define REP_ROWS 12 /* of a table whose caller gives no number */

struct rep_column {
    const char *head;
    int columns;
    void (*cell)(char cell[REP_CELL], const void *row); /* "" where the value is not known */
};

struct rep_table {
    const char *title;
    void (*name)(char name[REP_NAME], const void *row); /* "": the sum of the rows above */
    const struct rep_column *column;
    size_t columns;
    const void *rows;
    size_t size, count; /* bytes of a row, rows */
    size_t most;        /* rows that are shown; 0: as many as the page says */
    int name_least;     /* columns of the name on a page of 100; 0 = 20 */
    bool words;         /* the names are tacho's own words */
    /* Per cent, drawn right of the columns; NAN: none. NULL: a table without bars. */
    double (*bar)(const void *row);
};

/* Members of a table: its columns and its rows from arrays. */
#define REP_COLUMNS(list)          .column = (list), .columns = sizeof(list) / sizeof *(list)
#define REP_ROWS_OF(array, number) .rows = (array), .size = sizeof *(array), .count = (number)

/* The table, and how many rows were omitted. Nothing for an empty one. */
void rep_table_write(struct page *page, const struct rep_table *table);
/* Rows that the page shows of it. */
size_t rep_table_most(const struct page *page, const struct rep_table *table);
const void *rep_table_row(const struct rep_table *table, size_t index);
/* Fills and returns `cell`. */
const char *rep_table_cell(const struct rep_table *table, size_t column, const void *row,
                           char cell[REP_CELL]);

/* ---- cells: they stay "" where the value is not known ---------------------------------------- */

void rep_cell_integer(char cell[REP_CELL], int64_t number);
void rep_cell_tenths(char cell[REP_CELL], double number); /* "12.3" */
void rep_cell_text(char cell[REP_CELL], const char *text);
void rep_cell_ns(char cell[REP_CELL], int64_t ns);
void rep_cell_real_ms(char cell[REP_CELL], double ms);
void rep_cell_count(char cell[REP_CELL], struct an_count count);
void rep_cell_count_ns(char cell[REP_CELL], struct an_count ns);
void rep_cell_ms(char cell[REP_CELL], struct an_value ms);
void rep_cell_us(char cell[REP_CELL], struct an_value us);
void rep_cell_pct(char cell[REP_CELL], struct an_value pct);
void rep_cell_bytes_per_s(char cell[REP_CELL], struct an_value rate);
void rep_cell_rate(char cell[REP_CELL], struct an_value rate); /* without a unit; above 0 */

/* Defines `function` as the cell of a column: it prints `member` of the row, a struct `type`. */
#define REP_CELL_OF(function, type, print, member) \
    static void function(char cell[REP_CELL], const void *row) \
    { \
        print(cell, ((const struct type *)row)->member); \
    }

/* The same for the name of a row: `member` is a text. */
#define REP_NAME_OF(function, type, member) \
    static void function(char name[REP_NAME], const void *row) \
    { \
        snprintf(name, REP_NAME, "%s", ((const struct type *)row)->member); \
    }

#endif
