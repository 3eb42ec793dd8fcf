/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads tables of comma-separated text row by row.
 */
#include "store/import/input/table.h"

#include "store/import/input/input.h"
#include "store/import/input/whole.h"

#define BYTES_MOST ((size_t)4 << 30)
#define CELLS_MOST 128

bool imp_table_has(const struct imp_table *table, int column)
{
    return table->place[column] >= 0;
}

struct imp_cell imp_table_cell(const struct imp_table *table, int column)
{
    return imp_csv_at(table->cell, table->count, table->place[column]);
}

static int read_rows(struct imp_table *table, const char *at, const char *end, int64_t *short_rows)
{
    struct imp_cell cell[CELLS_MOST];
    size_t names = 0;
    int rc = 0;
    table->cell = cell;
    imp_csv_row(&at, end, cell, CELLS_MOST, &names);
    for (int column = 0; column < table->columns; column++)
        table->place[column] = imp_csv_column(cell, names, table->names[column]);
    while (!rc && imp_csv_row(&at, end, cell, CELLS_MOST, &table->count)) {
        if (table->count == 1 && !cell[0].bytes)
            continue;
        if (table->count < names)
            ++*short_rows;
        else
            rc = table->put(table->ctx, table);
    }
    return rc;
}

int imp_table_read(struct imp_table *table, struct imp_run *run, const char *path,
                   struct tacho_error *err)
{
    int64_t short_rows = 0;
    int rc = 0;
    for (size_t i = 0; i <= run->pieces && !rc; i++) {
        struct imp_whole whole;
        rc = imp_whole_read(run, i ? run->piece[i - 1] : path, BYTES_MOST, &whole, err);
        if (rc)
            break;
        rc = read_rows(table, (const char *)whole.data, (const char *)whole.data + whole.bytes,
                       &short_rows);
        imp_whole_free(&whole);
    }
    return rc || !short_rows ? rc : imp_loss(run, "row with too few cells", short_rows);
}
