/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens an existing file for writing: a live one whose recording goes on, or a finished one that
 * results are saved into.
 */
#include "store/db.h"
#include "store/writer.h"

#define READING "cannot be read"

/* Loads the next id of a table. */
static int load_next(store *writer, const char *sql, int64_t *next)
{
    sqlite3_stmt *st = NULL;
    int status = sqlite3_prepare_v2(writer->db, sql, -1, &st, NULL);
    if (status == SQLITE_OK && (status = sqlite3_step(st)) == SQLITE_ROW) {
        *next = sqlite3_column_int64(st, 0) + 1;
        status = SQLITE_OK;
    }
    sqlite3_finalize(st);
    return status == SQLITE_OK ? 0 : store_note(writer, status, READING);
}

/* Strings, details and stacks have dense ids from 1 (nothing else is ever written), so putting them
 * into the map in the order of the file must give each its id again. SQLite code. */
static int load_entry(struct store_intern *intern, const void *key, size_t bytes, int64_t expected)
{
    int64_t id;
    bool added;
    if (store_intern_put(intern, key, bytes, &id, &added))
        return SQLITE_NOMEM;
    return id == expected ? SQLITE_OK : SQLITE_CORRUPT;
}

static int load_strings(store *writer)
{
    sqlite3_stmt *st = NULL;
    int status =
        sqlite3_prepare_v2(writer->db, "SELECT id, text FROM string ORDER BY id", -1, &st, NULL);
    while (status == SQLITE_OK && (status = sqlite3_step(st)) == SQLITE_ROW) {
        const void *text = sqlite3_column_text(st, 1);
        status = load_entry(&writer->strings, text ? text : "", (size_t)sqlite3_column_bytes(st, 1),
                            sqlite3_column_int64(st, 0));
    }
    sqlite3_finalize(st);
    return status == SQLITE_DONE ? 0 : store_note(writer, status, READING);
}

/* store_scan_details calls this for each detail. The failure is noted in the handle. */
static int load_detail(void *ctx, const struct store_detail *detail)
{
    store *writer = ctx;
    int status = store_detail_key(writer, detail)
                     ? SQLITE_NOMEM
                     : load_entry(&writer->details, writer->key, writer->key_used, detail->id);
    return status == SQLITE_OK ? 0 : store_note(writer, status, READING);
}

/* Loads the call stacks, whose key is parent and frame. */
static int load_stacks(store *writer)
{
    sqlite3_stmt *st = NULL;
    int status = sqlite3_prepare_v2(writer->db, "SELECT id, parent, frame FROM stack ORDER BY id",
                                    -1, &st, NULL);
    while (status == SQLITE_OK && (status = sqlite3_step(st)) == SQLITE_ROW) {
        bool no_parent = sqlite3_column_type(st, 1) == SQLITE_NULL;
        int64_t key[2] = {no_parent ? STORE_ABSENT : sqlite3_column_int64(st, 1),
                          sqlite3_column_int64(st, 2)};
        status = load_entry(&writer->stacks, key, sizeof key, sqlite3_column_int64(st, 0));
    }
    sqlite3_finalize(st);
    return status == SQLITE_DONE ? 0 : store_note(writer, status, READING);
}

/* Loads what a writer keeps in memory: the maps of interned rows and the next ids. */
static int writer_load(store *writer)
{
    int stopped, code = load_strings(writer);
    if (!code) {
        int status = store_scan_details(writer->db, 1, load_detail, writer, &stopped);
        code = status == SQLITE_OK || stopped ? stopped : store_note(writer, status, READING);
    }
    if (!code)
        code = load_stacks(writer);
    if (!code)
        code = load_next(writer, "SELECT max(id) FROM slice", &writer->next.slice);
    if (!code)
        code = load_next(writer, "SELECT max(id) FROM process", &writer->next.process);
    if (!code)
        code = load_next(writer, "SELECT max(id) FROM track", &writer->next.track);
    writer->next.strings = writer->strings.count;
    writer->next.details = writer->details.count;
    writer->next.stacks = writer->stacks.count;
    return code;
}

/* Opens a file of ours for writing: a live one to record into, or a finished one for results. */
static int writer_open_existing(const struct store_place *place, const char *path, bool live,
                                store **out, struct tacho_error *err)
{
    struct store_header header;
    *out = NULL;
    store *writer = store_writer_new(place, path);
    if (!writer)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", path);
    int code = live ? store_finish_again(&writer->place) : 0;
    if (code)
        tacho_fail(err, code, NULL, "%s: cannot be finished", path);
    else
        code = store_db_open(path, &writer->place, STORE_DB_WRITE, &writer->db, &header, err);
    if (code) {
        store_close(writer);
        return code;
    }
    int status =
        store_db_migrate(writer->db, store_migrations, header.user_version, STORE_SCHEMA_VERSION);
    if (status != SQLITE_OK)
        code = store_note(writer, status, "cannot be upgraded to this version");
    if (!code && live &&
        sqlite3_table_column_metadata(writer->db, "main", "live_position", NULL, NULL, NULL, NULL,
                                      NULL, NULL) != SQLITE_OK) {
        /* its writer may have been killed before the WAL was folded in, or on the way */
        writer->failed = 0;
        code = store_finish(writer, err);
        return code ? code
                    : tacho_fail(err, TACHO_EEXISTS, "nothing to do: read it with 'tacho report'",
                                 "%s: already finished", path);
    }
    if (!code && live) {
        sqlite3_limit(writer->db, SQLITE_LIMIT_LENGTH, STORE_LIVE_MOST);
        code = store_exec(writer, store_live_pragmas, "cannot be opened");
    }
    if (!code)
        code = store_writer_open(writer);
    if (!code && live)
        code = writer_load(writer);
    if (code)
        return store_writer_give_up(writer, code, err);
    writer->failed = 0;
    *out = writer;
    return 0;
}

int store_resume(const char *path, store **out, struct tacho_error *err)
{
    struct store_place place;
    store_place_find(path, true, &place);
    return writer_open_existing(&place, path, true, out, err);
}

int store_resume_at(int folder, const char *path, store **out, struct tacho_error *err)
{
    struct store_place place;
    store_place_at(folder, path, &place);
    return writer_open_existing(&place, path, true, out, err);
}

int store_open_results(const char *path, store **out, struct tacho_error *err)
{
    struct store_place place;
    store_place_find(path, true, &place);
    return writer_open_existing(&place, path, false, out, err);
}
