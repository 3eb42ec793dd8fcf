/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/: the reading handle, shared by reader.c and query.c.
 */
#ifndef STORE_READER_H
#define STORE_READER_H

#include <sqlite3.h>

#include "store/files.h"
#include "store/store.h"

struct store_reader {
    sqlite3 *db;
    struct store_place place;
    char *path;
    struct tacho_error error;
    int64_t limit_ms, deadline_ns; /* of queries; 0: none. Monotonic time */
};

#endif
