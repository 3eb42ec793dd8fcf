/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens an existing file for writing: a live one whose recording goes on, or a finished one that
 * results are saved into.
 */
#include "store/db.h"
#include "store/writer.h"

#define READING "cannot be read"

static int load_next(store *s, const char *sql, int64_t *next)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(s->db, sql, -1, &st, NULL);
    if (rc == SQLITE_OK && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        *next = sqlite3_column_int64(st, 0) + 1;
        rc = SQLITE_OK;
    }
    sqlite3_finalize(st);
    return rc == SQLITE_OK ? 0 : store_note(s, rc, READING);
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

static int load_strings(store *s)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(s->db, "SELECT id, text FROM string ORDER BY id", -1, &st, NULL);
    while (rc == SQLITE_OK && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        const void *text = sqlite3_column_text(st, 1);
        rc = load_entry(&s->strings, text ? text : "", (size_t)sqlite3_column_bytes(st, 1),
                        sqlite3_column_int64(st, 0));
    }
    sqlite3_finalize(st);
    return rc == SQLITE_DONE ? 0 : store_note(s, rc, READING);
}

/* store_scan_details calls this for each detail. The failure is noted in the handle. */
static int load_detail(void *ctx, const struct store_detail *detail)
{
    store *s = ctx;
    int rc = store_detail_key(s, detail) ? SQLITE_NOMEM
                                         : load_entry(&s->details, s->key, s->key_used, detail->id);
    return rc == SQLITE_OK ? 0 : store_note(s, rc, READING);
}

static int load_stacks(store *s)
{
    sqlite3_stmt *st = NULL;
    int rc =
        sqlite3_prepare_v2(s->db, "SELECT id, parent, frame FROM stack ORDER BY id", -1, &st, NULL);
    while (rc == SQLITE_OK && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        bool no_parent = sqlite3_column_type(st, 1) == SQLITE_NULL;
        int64_t key[2] = {no_parent ? STORE_ABSENT : sqlite3_column_int64(st, 1),
                          sqlite3_column_int64(st, 2)};
        rc = load_entry(&s->stacks, key, sizeof key, sqlite3_column_int64(st, 0));
    }
    sqlite3_finalize(st);
    return rc == SQLITE_DONE ? 0 : store_note(s, rc, READING);
}

/* Loads what a writer keeps in memory: the maps of interned rows and the next ids. */
static int writer_load(store *s)
{
    int stopped, code = load_strings(s);
    if (!code) {
        int rc = store_scan_details(s->db, 1, load_detail, s, &stopped);
        code = rc == SQLITE_OK || stopped ? stopped : store_note(s, rc, READING);
    }
    if (!code)
        code = load_stacks(s);
    if (!code)
        code = load_next(s, "SELECT max(id) FROM slice", &s->next.slice);
    if (!code)
        code = load_next(s, "SELECT max(id) FROM process", &s->next.process);
    if (!code)
        code = load_next(s, "SELECT max(id) FROM track", &s->next.track);
    s->next.strings = s->strings.count;
    s->next.details = s->details.count;
    s->next.stacks = s->stacks.count;
    return code;
}

/* Opens a file of ours for writing: a live one to record into, or a finished one for results. */
static int writer_open_existing(const char *path, bool live, store **out, struct tacho_error *err)
{
    struct store_header header;
    *out = NULL;
    store *s = store_writer_new(path);
    if (!s)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", path);
    int code = store_db_open(path, STORE_DB_WRITE, &s->db, &header, err);
    if (code) {
        store_close(s);
        return code;
    }
    int rc = store_db_migrate(s->db, store_migrations, header.user_version, STORE_SCHEMA_VERSION);
    if (rc != SQLITE_OK)
        code = store_note(s, rc, "cannot be brought to this version");
    if (!code && live)
        code = store_exec(s, store_live_pragmas, "cannot be opened");
    if (!code && live &&
        sqlite3_table_column_metadata(s->db, "main", "live_position", NULL, NULL, NULL, NULL, NULL,
                                      NULL) != SQLITE_OK)
        code = tacho_fail(&s->error, TACHO_EEXISTS, "nothing to do: read it with 'tacho report'",
                          "%s: finished already", path);
    if (!code)
        code = store_writer_open(s);
    if (!code && live)
        code = writer_load(s);
    if (code)
        return store_writer_give_up(s, code, err);
    s->failed = 0;
    *out = s;
    return 0;
}

int store_resume(const char *path, store **out, struct tacho_error *err)
{
    return writer_open_existing(path, true, out, err);
}

int store_open_results(const char *path, store **out, struct tacho_error *err)
{
    return writer_open_existing(path, false, out, err);
}
