/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/: tables of comma-separated text whose columns are found by their names,
 * because they come and go between versions of a producer.
 */
#ifndef STORE_IMPORT_INPUT_TABLE_H
#define STORE_IMPORT_INPUT_TABLE_H

#include "store/import/input/csv.h"
#include "store/import/input/importer.h"

#define IMP_COLUMNS_MOST 32

/* The caller fills the first four. Columns of the caller are numbered as their names are. */
struct imp_table {
    const char *const *names; /* of each column that is read, in all versions, divided by '|' */
    int columns;              /* at most IMP_COLUMNS_MOST */
    int (*put)(void *ctx, const struct imp_table *table); /* takes a row; an error code ends all */
    void *ctx;
    int place[IMP_COLUMNS_MOST]; /* of a column in a row; -1: the table lacks it */
    const struct imp_cell *cell; /* of the present row */
    size_t count;
};

bool imp_table_has(const struct imp_table *table, int column);
/* The cell of the present row; empty where the table lacks the column. */
struct imp_cell imp_table_cell(const struct imp_table *table, int column);
/* Reads the table at `path`, then the other pieces of the run: each has its own names of columns.
 * Rows with too few cells are counted as lost. Errors: those of imp_whole_read() and of `put`. */
int imp_table_read(struct imp_table *table, struct imp_run *run, const char *path,
                   struct tacho_error *err);

#endif
