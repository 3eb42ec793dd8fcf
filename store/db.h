/* SPDX-License-Identifier: Apache-2.0
 *
 * For the databases of this house (files of runs, the history): opening a file of a run, words for
 * errors.
 */
#ifndef STORE_DB_H
#define STORE_DB_H

#include <sqlite3.h>
#include <stdint.h>

#include "store/files.h"
#include "store/sqlite_open.h"
#include "store/store.h"

enum store_db_mode { STORE_DB_READ, STORE_DB_WRITE };

struct store_header {
    int64_t file_bytes; /* size of the file */
    int64_t page_bytes, pages;
    uint32_t user_version, application_id;
    uint32_t changes; /* transactions that have written it, outside of WAL mode */
    int wal;          /* 1: the file is in WAL mode, so it was not finished */
};

/* Opens the file at `place`, which errors call `path`, and checks that it is a .tacho file of a
 * version this program reads. Nothing is written. The place stays open as long as the database. */
int store_db_open(const char *path, const struct store_place *place, enum store_db_mode mode,
                  sqlite3 **out, struct store_header *header, struct tacho_error *err);

/* For any database that comes from elsewhere: nothing stored in it may run code (triggers, views,
 * functions of its schema) or break the parser. Sets a timeout of 5 s for locks. */
void store_db_harden(sqlite3 *db);
/* TACHO_E* code for an SQLite result code; `db` (may be NULL) gives the errno of an I/O error.
 */
int store_db_code(sqlite3 *db, int status);
/* Fills *err with "PATH: DOING: words" and the hint that fits, returns the code. */
int store_db_fail(struct tacho_error *err, sqlite3 *db, int status, const char *path,
                  const char *doing);

/* One row of the table of migrations: statements that turn schema version `from` into from + 1. */
struct store_migration {
    uint32_t from;
    const char *sql;
};
extern const struct store_migration store_migrations[];
/* Brings an open writable file from version `from` to `to`, one transaction a step; `table` ends
 * with sql NULL. */
int store_db_migrate(sqlite3 *db, const struct store_migration *table, uint32_t from, uint32_t to);

#endif
