/* SPDX-License-Identifier: Apache-2.0
 *
 * The reading handle. All reads of a handle see one state of the file (one read transaction, from
 * the first read until store_reader_refresh or close), so ids found in one table are in the others
 * even while a collector writes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/db.h"
#include "store/reader.h"

const struct tacho_error *store_reader_error(const store_reader *reader)
{
    return &reader->error;
}

void store_reader_close(store_reader *reader)
{
    if (!reader)
        return;
    sqlite3_close(reader->db);
    store_place_close(&reader->place);
    free(reader->path);
    free(reader);
}

int store_open(const char *path, store_reader **out, struct tacho_error *err)
{
    *out = NULL;
    store_reader *reader = calloc(1, sizeof *reader);
    if (!reader || !(reader->path = strdup(path))) {
        free(reader);
        return tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", path);
    }
    store_place_find(path, true, &reader->place);
    int code =
        store_db_open(path, &reader->place, STORE_DB_READ, &reader->db, &reader->header, err);
    if (!code)
        code = store_tables_check(reader, err);
    if (!code) {
        /* Scans read each page once and look-ups by id are few, so a large cache would only keep
         * pages that are not needed again. */
        int status = store_scan_allow(reader->db);
        if (status == SQLITE_OK)
            status = sqlite3_exec(reader->db, "PRAGMA cache_size=-1024; BEGIN", NULL, NULL, NULL);
        code = status == SQLITE_OK ? 0
                                   : store_db_fail(err, reader->db, status, path, "cannot be read");
    }
    if (code) {
        store_reader_close(reader);
        return code;
    }
    *out = reader;
    return 0;
}

store_reader *store_reader_twin(const store_reader *reader)
{
    struct tacho_error ignored;
    store_reader *twin;
    if (reader->header.wal || store_open(reader->path, &twin, &ignored))
        return NULL;
    const struct store_header *ours = &reader->header, *other = &twin->header;
    if (!other->wal && other->changes == ours->changes && other->pages == ours->pages &&
        other->file_bytes == ours->file_bytes)
        return twin;
    store_reader_close(twin);
    return NULL;
}

void store_reader_rest(store_reader *reader)
{
    if (!sqlite3_get_autocommit(reader->db))
        sqlite3_exec(reader->db, "COMMIT", NULL, NULL, NULL);
}

int store_reader_refresh(store_reader *reader)
{
    store_reader_rest(reader);
    int status = sqlite3_exec(reader->db, "BEGIN", NULL, NULL, NULL);
    return status == SQLITE_OK
               ? 0
               : store_db_fail(&reader->error, reader->db, status, reader->path, "cannot be read");
}
