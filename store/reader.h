/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/: the reading handle, shared by reader.c (life), scan.c (rows of tables) and
 * query.c.
 */
#ifndef STORE_READER_H
#define STORE_READER_H

#include <sqlite3.h>

#include "store/db.h"
#include "store/files.h"
#include "store/store.h"

struct store_reader {
    sqlite3 *db;
    struct store_header header; /* as it was when the file was opened */
    struct store_place place;
    char *path;
    struct tacho_error error;
    int64_t limit_ms, deadline_ns; /* of queries; 0: none. Monotonic time */
};

/* Fails if a table of the schema is missing. */
int store_tables_check(store_reader *reader, struct tacho_error *err);
/* Makes the SQL function known through which scans read rows. Returns a SQLite code. */
int store_scan_allow(sqlite3 *db);

#endif
