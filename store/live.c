/* SPDX-License-Identifier: Apache-2.0
 *
 * Bookkeeping of a file that is being written: how far each segment has been read, and what the
 * collector needs to go on.
 */
#include "store/writer.h"

#define READING "cannot be read"

int store_position_set(store *writer, const char *pool, int64_t segment, int64_t generation,
                       int64_t bytes)
{
    return store_write(writer, STORE_SQL_POSITION_SET, "tiii", pool, segment, generation, bytes);
}

int store_position_clear(store *writer, const char *pool, int64_t segment)
{
    return segment < 0 ? store_write(writer, STORE_SQL_POSITION_CLEAR_POOL, "t", pool)
                       : store_write(writer, STORE_SQL_POSITION_CLEAR, "ti", pool, segment);
}

int store_position_each(store *writer,
                        int (*row)(void *ctx, const char *pool, int64_t segment, int64_t generation,
                                   int64_t bytes),
                        void *ctx)
{
    sqlite3_stmt *st = NULL;
    int stop = 0, status = sqlite3_prepare_v2(writer->db,
                                              "SELECT * FROM live_position ORDER BY pool, segment",
                                              -1, &st, NULL);
    while (status == SQLITE_OK && (status = sqlite3_step(st)) == SQLITE_ROW) {
        stop = row(ctx, (const char *)sqlite3_column_text(st, 0), sqlite3_column_int64(st, 1),
                   sqlite3_column_int64(st, 2), sqlite3_column_int64(st, 3));
        status = stop ? SQLITE_DONE : SQLITE_OK;
    }
    sqlite3_finalize(st);
    return status == SQLITE_DONE ? stop : store_note(writer, status, READING);
}

int store_live_set(store *writer, const char *key, const void *value, size_t bytes)
{
    if (!value)
        return store_write(writer, STORE_SQL_LIVE_DELETE, "t", key);
    return store_write(writer, STORE_SQL_LIVE_SET, "tx", key, bytes ? value : "", bytes);
}

/* The range of keys ends with the last character that a key can have after the prefix. */
int store_live_each(store *writer, const char *prefix,
                    int (*row)(void *ctx, const char *key, const void *value, size_t bytes),
                    void *ctx)
{
    sqlite3_stmt *st = NULL;
    int stop = 0, status = sqlite3_prepare_v2(writer->db,
                                              "SELECT key, value FROM live_state WHERE key >= ?1 "
                                              "AND key < ?1 || char(1114111) ORDER BY key",
                                              -1, &st, NULL);
    if (status == SQLITE_OK)
        status = sqlite3_bind_text(st, 1, prefix, -1, SQLITE_STATIC);
    while (status == SQLITE_OK && (status = sqlite3_step(st)) == SQLITE_ROW) {
        const void *value = sqlite3_column_blob(st, 1); /* NULL for a blob of no bytes */
        stop = row(ctx, (const char *)sqlite3_column_text(st, 0), value ? value : "",
                   (size_t)sqlite3_column_bytes(st, 1));
        status = stop ? SQLITE_DONE : SQLITE_OK;
    }
    sqlite3_finalize(st);
    return status == SQLITE_DONE ? stop : store_note(writer, status, READING);
}
