/* SPDX-License-Identifier: Apache-2.0
 *
 * For the fuzz targets that write rows: values of SQLite out of the input.
 */
#ifndef FUZZ_ROWS_H
#define FUZZ_ROWS_H

#include <sqlite3.h>

#include "fuzz.h"

/* A text or, with odd lengths, a blob, of any bytes. */
static inline void fuzz_bind_bytes(sqlite3_stmt *st, int column, struct fuzz_input *in)
{
    size_t n = (size_t)fuzz_take(in, 1);
    const uint8_t *p = fuzz_bytes(in, n, &n);
    if (n & 1)
        sqlite3_bind_blob(st, column, p, (int)n, SQLITE_TRANSIENT);
    else
        sqlite3_bind_text(st, column, (const char *)p, (int)n, SQLITE_TRANSIENT);
}

#endif
