/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/: an SQLite database of another program, opened for reading and hardened
 * against what a stranger may have written into it. A compressed one is unpacked into a file
 * without a name below TMPDIR first, because SQLite reads pages anywhere.
 */
#ifndef STORE_IMPORT_INPUT_DATABASE_H
#define STORE_IMPORT_INPUT_DATABASE_H

#include "store/import/input/importer.h"
#include "store/sqlite_open.h"

struct imp_database {
    struct imp_run *run;
    sqlite3 *db;
    struct store_place place; /* of the file */
    bool placed;
    bool stopped;              /* by the user, inside SQLite */
    bool cut;                  /* the compressed data ended early or is damaged */
    bool without_log;          /* there is a log beside it, which is not read */
    int64_t steps, steps_most; /* instructions of SQLite's machine so far; at most, 0: not known */
    /* Of a file that was cut off: bytes of a page, pages that it should have, that are gone; how
     * SQLite reads it then, and how any other one. */
    int64_t page, pages, missing;
    sqlite3_io_methods methods;
    const sqlite3_io_methods *whole;
};

/* `again`: the hint that says how the program that wrote it writes it again. The caller closes it,
 * whatever is returned. */
int imp_database_open(struct imp_database *database, struct imp_run *run, const char *path,
                      const char *again, struct tacho_error *err);
/* Writes what of the file is missing as losses. A file that was cut off is open all the same: its
 * tables can be read up to the first page that is gone. */
int imp_database_losses(struct imp_database *database);
void imp_database_close(struct imp_database *database);

#endif
