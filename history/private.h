/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to history/: the open database.
 */
#ifndef HISTORY_PRIVATE_H
#define HISTORY_PRIVATE_H

#include <sqlite3.h>

#include "history/history.h"
#include "store/files.h"

struct history {
    sqlite3 *db;
    struct store_place place;
    char *path; /* as errors call it */
};

/* *err for the last failure of the database, "PATH: DOING: words"; returns the code. */
int history_fail(struct history *history, int status, const char *doing, struct tacho_error *err);
/* Prepares a statement; NULL after an error. */
sqlite3_stmt *history_prepare(struct history *history, const char *sql, struct tacho_error *err);
/* Ends a statement that is to give no row (any more): 0 or a code. */
int history_finish(struct history *history, sqlite3_stmt *statement, const char *doing,
                   struct tacho_error *err);
/* A column's text; NULL stays NULL. */
const char *history_text(sqlite3_stmt *statement, int column);
void history_bind(sqlite3_stmt *statement, int index, const char *text);

#endif
