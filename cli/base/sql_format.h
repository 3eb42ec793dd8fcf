/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: rows of a query in a format. To add one: a row in the table of sql_format.c.
 */
#ifndef CLI_BASE_SQL_FORMAT_H
#define CLI_BASE_SQL_FORMAT_H

#include <stdio.h>

#include "store/store.h"

struct cli_sql_writer {
    const struct cli_sql_format *format;
    FILE *out;
    bool utf8;
    bool raw;     /* csv: texts as they are stored */
    bool visible; /* csv: control characters become visible, for a terminal */
    int columns;  /* of the statement that is being written; 0: none is */
    char **names;
    int *width;      /* table: width of each column */
    char ***waiting; /* table: the first rows wait until the widths are known; [row][column], NULL
                        for NULL */
    char *numeric;   /* table: 1 where a column is aligned right */
    int rows_waiting;
    int64_t rows;
};

struct cli_sql_format {
    const char *name;
    /* Each returns 0 or a TACHO_E* code. */
    int (*head)(struct cli_sql_writer *w);
    int (*row)(struct cli_sql_writer *w, const struct store_cell *cells);
    int (*end)(struct cli_sql_writer *w);
};

/* Ends with name NULL. */
extern const struct cli_sql_format cli_sql_formats[];

/* Cells of rows that are made here. `text` is where a number is printed, and lives as long as the
 * cell. A text that is NULL, and a number that is NaN, give an absent cell. */
struct store_cell cli_cell_text(const char *text);
struct store_cell cli_cell_integer(int64_t value, char text[24]);
struct store_cell cli_cell_real(double value, char text[32]);

/* For store_query; ctx is a struct cli_sql_writer. */
int cli_sql_head(void *ctx, int columns, const char *const *names);
int cli_sql_row(void *ctx, int columns, const struct store_cell *cells);
/* After the last statement. */
int cli_sql_end(struct cli_sql_writer *writer);

#endif
