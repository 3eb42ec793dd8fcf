/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs SQL that a user typed, read-only and without access to other files.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "store/db.h"
#include "store/reader.h"
#include "store/writer.h"
#include "tacho_clock.h"

/* Says what is wrong with a query: its SQL, its rights, or the file. */
static int query_fail(store_reader *reader, sqlite3_stmt *st, int status)
{
    sqlite3_finalize(st);
    if ((status & 0xff) == SQLITE_ERROR || status == SQLITE_RANGE || status == SQLITE_TOOBIG ||
        status == SQLITE_MISMATCH)
        return tacho_fail(&reader->error, TACHO_EUSAGE,
                          "'.tables' in sqlite3 lists the tables; docs/schema.md explains them",
                          "SQL: %s", sqlite3_errmsg(reader->db));
    if ((status & 0xff) == SQLITE_READONLY || (status & 0xff) == SQLITE_AUTH)
        return tacho_fail(&reader->error, TACHO_EUSAGE, "the file is opened read-only", "SQL: %s",
                          sqlite3_errmsg(reader->db));
    if ((status & 0xff) == SQLITE_INTERRUPT)
        return tacho_fail(&reader->error, TACHO_EINTERRUPTED,
                          "ask for less: a step, a track, LIMIT before JOIN",
                          "SQL: took longer than %lld ms", (long long)reader->limit_ms);
    return store_db_fail(&reader->error, reader->db, status, reader->path, "cannot be read");
}

static int is_late(void *context)
{
    const store_reader *reader = context;
    return tacho_now_ns() > reader->deadline_ns;
}

void store_query_limit(store_reader *reader, int64_t ms)
{
    reader->limit_ms = ms;
}

/* Reads one value of a row, with its type. */
static void cell_read(sqlite3_stmt *st, int column, struct store_cell *cell)
{
    *cell = (struct store_cell){.type = STORE_CELL_NULL};
    switch (sqlite3_column_type(st, column)) {
    case SQLITE_INTEGER:
        cell->type = STORE_CELL_INTEGER;
        cell->integer = sqlite3_column_int64(st, column);
        break;
    case SQLITE_FLOAT:
        cell->type = STORE_CELL_REAL;
        cell->real = sqlite3_column_double(st, column);
        break;
    case SQLITE_BLOB:
        cell->type = STORE_CELL_BLOB;
        cell->text = sqlite3_column_blob(st, column);
        cell->bytes = (size_t)sqlite3_column_bytes(st, column);
        return;
    case SQLITE_NULL:
        return;
    default:
        cell->type = STORE_CELL_TEXT;
    }
    cell->text = (const char *)sqlite3_column_text(st, column);
    cell->bytes = (size_t)sqlite3_column_bytes(st, column);
}

/* One statement. 0, what a callback returned, or a code. */
static int statement_run(store_reader *reader, sqlite3_stmt *st,
                         int (*head)(void *ctx, int columns, const char *const *names),
                         int (*row)(void *ctx, int columns, const struct store_cell *cells),
                         void *ctx)
{
    int columns = sqlite3_column_count(st), stop = 0, status = SQLITE_DONE;
    const char **names = calloc((size_t)columns + 1, sizeof *names);
    struct store_cell *cells = calloc((size_t)columns + 1, sizeof *cells);
    if (!names || !cells) {
        stop = tacho_fail(&reader->error, TACHO_ENOMEM, NULL, "%s: out of memory", reader->path);
        goto out;
    }
    for (int i = 0; i < columns; i++)
        names[i] = sqlite3_column_name(st, i);
    if (columns && head)
        stop = head(ctx, columns, names);
    while (!stop && (status = sqlite3_step(st)) == SQLITE_ROW) {
        for (int i = 0; i < columns; i++)
            cell_read(st, i, &cells[i]);
        stop = row(ctx, columns, cells);
    }
out:
    free(names);
    free(cells);
    if (!stop && status != SQLITE_DONE)
        return query_fail(reader, st, sqlite3_extended_errcode(reader->db));
    sqlite3_finalize(st);
    return stop;
}

/* The handle is read-only; this also refuses statements that reach beyond the file. */
static int authorize(void *ctx, int action, const char *first, const char *second,
                     const char *third, const char *fourth)
{
    (void)ctx, (void)first, (void)second, (void)third, (void)fourth;
    return action == SQLITE_ATTACH || action == SQLITE_DETACH || action == SQLITE_TRANSACTION
               ? SQLITE_DENY
               : SQLITE_OK;
}

int store_query(store_reader *reader, const char *sql,
                int (*head)(void *ctx, int columns, const char *const *names),
                int (*row)(void *ctx, int columns, const struct store_cell *cells), void *ctx)
{
    int code = 0;
    sqlite3_set_authorizer(reader->db, authorize, NULL);
    reader->deadline_ns = tacho_now_ns() + reader->limit_ms * 1000000;
    if (reader->limit_ms)
        sqlite3_progress_handler(reader->db, 10000, is_late, reader);
    while (!code && *sql) {
        sqlite3_stmt *st = NULL;
        int status = sqlite3_prepare_v2(reader->db, sql, -1, &st, &sql);
        if (status != SQLITE_OK)
            code = query_fail(reader, st, sqlite3_extended_errcode(reader->db));
        else if (st)
            code = statement_run(reader, st, head, row, ctx);
    }
    sqlite3_set_authorizer(reader->db, NULL, NULL);
    sqlite3_progress_handler(reader->db, 0, NULL, NULL);
    return code;
}

int store_id_order(const void *id, const void *row)
{
    int64_t left, right;
    memcpy(&left, id, sizeof left);
    memcpy(&right, row, sizeof right);
    return (left > right) - (left < right);
}

int store_index(store *writer)
{
    return store_exec(
        writer,
        "CREATE INDEX IF NOT EXISTS slice_by_track ON slice(track, start);"
        "CREATE INDEX IF NOT EXISTS slice_by_name ON slice(name);"
        "CREATE INDEX IF NOT EXISTS counter_by_track ON counter(track, time);"
        "CREATE INDEX IF NOT EXISTS step_by_index ON step(process, \"index\");"
        "CREATE INDEX IF NOT EXISTS step_aggregate_by_step ON step_aggregate(process, step);"
        "CREATE INDEX IF NOT EXISTS string_by_text ON string(text)",
        "cannot be indexed");
}
