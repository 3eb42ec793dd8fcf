/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/: rows of a table as comma-separated text.
 */
#ifndef STORE_IMPORT_INPUT_CSV_H
#define STORE_IMPORT_INPUT_CSV_H

#include <stdbool.h>
#include <stddef.h>

/* A cell of a row, in the text that it is part of; not terminated. */
struct imp_cell {
    const char *text;
    size_t bytes;
};

/* Length of the first line among the first 8 KiB of a file; 0 if it does not end there. */
size_t imp_csv_first_line(const unsigned char *head, size_t bytes);

/* Splits the row at *at into at most `most` cells and moves behind its end; cells beyond are left
 * out, as are white space and quotes around a cell. False: there is no row. */
bool imp_csv_row(const char **at, const char *end, struct imp_cell *cell, size_t most,
                 size_t *count);

/* Is the cell one of the words, divided by '|'? */
bool imp_cell_is_one_of(struct imp_cell cell, const char *words);
/* The place of the first cell that is one of the words; -1: there is none. */
int imp_csv_column(const struct imp_cell *cell, size_t count, const char *words);
/* The cell at a place that imp_csv_column() gave for the names of columns; empty: a short row. */
struct imp_cell imp_csv_at(const struct imp_cell *cell, size_t count, int place);

#endif
