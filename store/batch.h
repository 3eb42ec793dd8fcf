/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/: rows that wait in memory and go into a table with one statement.
 *
 * A batch is a virtual table that SQLite reads while it runs `INSERT INTO t SELECT * FROM
 * store_batch_t`. Rows are arrays of int64 words; a word of a column of type 'd' holds the bits of
 * a double. STORE_ABSENT and NAN become NULL.
 */
#ifndef STORE_BATCH_H
#define STORE_BATCH_H

#include <sqlite3.h>
#include <stdint.h>

#define STORE_BATCH_ROWS    1024
#define STORE_BATCH_COLUMNS 10

struct store_batch {
    const char *table;   /* target table; the virtual table is "store_batch_" + this */
    const char *columns; /* one letter a column: 'i' integer, 'd' double */
    int width;           /* columns in use */
    int rows;
    int64_t (*row)[STORE_BATCH_COLUMNS];
    sqlite3_stmt *insert;
};

/* Registers the virtual table with `db` and prepares the statement. SQLite code. `b->table` and
 * `b->columns` must be set. */
int store_batch_open(struct store_batch *batch, sqlite3 *db);
void store_batch_close(struct store_batch *batch);
/* Writes the waiting rows and forgets them, also after a failure. SQLite code. */
int store_batch_flush(struct store_batch *batch);

#endif
