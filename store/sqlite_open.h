/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens SQLite databases by the descriptor of their folder. What SQLite opens beside them is
 * checked on its own descriptor: nothing is written that is not the caller's, and nothing is made
 * beside the database of another user.
 */
#ifndef STORE_SQLITE_OPEN_H
#define STORE_SQLITE_OPEN_H

#include <sqlite3.h>

#include "store/files.h"

/* Bytes of a path that SQLite is given for a place. */
#define STORE_SPELLED 320
/* Spells the path of a place, with a suffix, as SQLite is to be given it. */
void store_place_spell(const struct store_place *place, const char *suffix,
                       char text[STORE_SPELLED]);
/* Opens the database at `place`, which stays open as long as the database. `options`: of a URI.
 * SQLite code; *out is to be closed. */
int store_sqlite_open(const struct store_place *place, int flags, const char *options,
                      sqlite3 **out);
/* Takes the modules of virtual tables away, so that a database of a stranger has none. False: a
 * table has a column that is computed when it is read, which could take any time and memory. To be
 * called when the database can be read, before its tables are. */
bool store_sqlite_is_data(sqlite3 *db);

#endif
