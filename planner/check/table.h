/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to planner/: a table of comma-separated values (RFC 4180), held in memory.
 */
#ifndef PLANNER_TABLE_H
#define PLANNER_TABLE_H

#include <stddef.h>

#include "tacho_error.h"

struct plan_table {
    char *text;           /* the file; cells end in a zero byte */
    const char **cell;    /* rows x columns; the first row are the names */
    size_t columns, rows; /* rows without the names */
};

/* TACHO_ENOTFOUND, TACHO_EIO, TACHO_EFORMAT (a row has more or fewer cells than the first),
 * TACHO_ENOMEM. */
int plan_table_read(const char *path, struct plan_table *out, struct tacho_error *err);
void plan_table_free(struct plan_table *table);
/* The column of that name, or -1. */
long plan_table_column(const struct plan_table *table, const char *name);
/* The cell of a row, from 0; "" where column is -1. */
const char *plan_table_cell(const struct plan_table *table, size_t row, long column);

#endif
