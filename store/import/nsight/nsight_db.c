/* SPDX-License-Identifier: Apache-2.0
 *
 * The export as a database: which tables and columns exist, queries, and values of rows.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/nsight/nsight_private.h"

#define VALUE_MAX (64 << 20) /* bytes of a text or blob */
/* Instructions of SQLite's machine between two checks whether the user cancelled. */
#define STEPS_A_CHECK 100000

/* ---- opening ---------------------------------------------------------------------------------------------------------------- */

/* SQLite calls this now and then; non-zero stops a long query. */
static int on_progress(void *ctx)
{
    struct nsight *nsight = ctx;
    nsight->stopped = nsight->stopped || imp_progress(nsight->run, 0) != 0;
    return nsight->stopped;
}

/* Says why the database at `path` cannot be read; returns the code. */
static int fail(struct nsight *nsight, int status, const char *path)
{
    if (status == SQLITE_NOMEM)
        return tacho_fail(nsight->err, TACHO_ENOMEM, NULL, "%s: %s", path,
                          tacho_error_text(TACHO_ENOMEM));
    if (status == SQLITE_NOTADB)
        return tacho_fail(nsight->err, TACHO_EFORMAT,
                          "export it again: nsys export --type sqlite FILE.nsys-rep",
                          "%s: starts like an SQLite database, but is malformed", path);
    if (status == SQLITE_CORRUPT)
        return tacho_fail(
            nsight->err, TACHO_ECORRUPT,
            "copy it again, or export it again: nsys export --type sqlite FILE.nsys-rep",
            "%s: damaged SQLite database", path);
    return tacho_fail(nsight->err, TACHO_EIO, NULL, "%s: %s", path,
                      nsight->db ? sqlite3_errmsg(nsight->db) : sqlite3_errstr(status));
}

/* Opens the database, hardened against what a stranger may have written into it. */
static int try_open(struct nsight *nsight, const char *options)
{
    sqlite3_close(nsight->db);
    nsight->db = NULL;
    int status = store_sqlite_open(&nsight->place, SQLITE_OPEN_READONLY, options, &nsight->db);
    if (status != SQLITE_OK)
        return status & 0xff;
    sqlite3_extended_result_codes(nsight->db, 0);
    sqlite3_db_config(nsight->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(nsight->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(nsight->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(nsight->db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_limit(nsight->db, SQLITE_LIMIT_LENGTH, VALUE_MAX);
    sqlite3_limit(nsight->db, SQLITE_LIMIT_ATTACHED, 0);
    sqlite3_limit(nsight->db, SQLITE_LIMIT_WORKER_THREADS, 0);
    sqlite3_exec(nsight->db, "PRAGMA cell_size_check=ON; PRAGMA temp_store=MEMORY", NULL, NULL,
                 NULL);
    sqlite3_progress_handler(nsight->db, STEPS_A_CHECK, on_progress, nsight);
    return sqlite3_exec(nsight->db, "SELECT count(*) FROM sqlite_master", NULL, NULL, NULL);
}

int nsight_open(struct nsight *nsight, const char *path)
{
    if (store_place_find(path, true, &nsight->place) != 0)
        return fail(nsight, SQLITE_CANTOPEN, path);
    int status = try_open(nsight, "");
    /* In WAL mode a database in a folder that cannot be written only opens as immutable. */
    if (status == SQLITE_CANTOPEN || status == SQLITE_READONLY)
        status = try_open(nsight, "?immutable=1");
    if (status == SQLITE_OK)
        return 0;
    return nsight->stopped ? TACHO_EINTERRUPTED : fail(nsight, status, path);
}

void nsight_close(struct nsight *nsight)
{
    sqlite3_close(nsight->db);
    store_place_close(&nsight->place);
    nsight->db = NULL;
}

/* ---- tables and columns ------------------------------------------------------------------------------------------------------- */

static sqlite3_stmt *select_list(struct nsight *nsight, const char *format, va_list arguments)
{
    sqlite3_stmt *st = NULL;
    char *sql = sqlite3_vmprintf(format, arguments);
    if (sql)
        sqlite3_prepare_v2(nsight->db, sql, -1, &st, NULL);
    sqlite3_free(sql);
    return st;
}

sqlite3_stmt *nsight_select(struct nsight *nsight, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    sqlite3_stmt *st = select_list(nsight, format, arguments);
    va_end(arguments);
    return st;
}

bool nsight_next(sqlite3_stmt *st)
{
    return st && sqlite3_step(st) == SQLITE_ROW;
}

int64_t nsight_select_int(struct nsight *nsight, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    sqlite3_stmt *st = select_list(nsight, format, arguments);
    va_end(arguments);
    int64_t value = nsight_next(st) ? nsight_int(st, 0) : STORE_ABSENT;
    sqlite3_finalize(st);
    return value;
}

int64_t nsight_rows_about(struct nsight *nsight, const char *table)
{
    int64_t rows = nsight_select_int(nsight, "SELECT max(rowid) FROM \"%w\"", table);
    return rows < 0 ? 0 : rows;
}

bool nsight_find(struct nsight *nsight, const char *name, char found[NSIGHT_NAME_MAX])
{
    bool any = false;
    sqlite3_stmt *st = nsight_select(
        nsight,
        "SELECT name FROM sqlite_master WHERE type='table' AND sql NOT LIKE 'CREATE VIRTUAL%%' AND "
        "(name=%Q OR name GLOB %Q||'_V[0-9]*') ORDER BY length(name) DESC, name DESC",
        name, name);
    while (nsight_next(st)) {
        const char *text = (const char *)sqlite3_column_text(st, 0);
        if (!text || strlen(text) >= NSIGHT_NAME_MAX)
            continue;
        bool rows = nsight_rows_about(nsight, text) > 0;
        if (!any || rows)
            strcpy(found, text);
        any = true;
        if (rows)
            break;
    }
    sqlite3_finalize(st);
    return any;
}

/* Is there a column of this name (which ends after `bytes` bytes) in the table? */
static bool has_column(struct nsight *nsight, const char *table, const char *column, size_t bytes)
{
    bool found = false;
    sqlite3_stmt *st = nsight_select(nsight, "PRAGMA table_info(\"%w\")", table);
    while (!found && nsight_next(st)) {
        const char *name = (const char *)sqlite3_column_text(st, 1);
        found = name && strlen(name) == bytes && !sqlite3_strnicmp(name, column, (int)bytes);
    }
    sqlite3_finalize(st);
    return found;
}

/* Appends the first of the columns "a|b" that exists, else NULL. */
static void add_column(struct nsight *nsight, sqlite3_str *sql, const char *table,
                       const char *names)
{
    while (*names) {
        size_t bytes = strcspn(names, "|");
        if (has_column(nsight, table, names, bytes)) {
            sqlite3_str_appendf(sql, "\"%.*w\"", (int)bytes, names);
            return;
        }
        names += bytes + (names[bytes] == '|');
    }
    sqlite3_str_appendall(sql, "NULL");
}

/* Prepares the query of a table: the columns that it lacks are selected as NULL. */
static int prepare(struct nsight *nsight, const struct nsight_table *table_spec, const char *table,
                   sqlite3_stmt **st)
{
    sqlite3_str *sql = sqlite3_str_new(nsight->db);
    sqlite3_str_appendall(sql, "SELECT ");
    for (size_t i = 0; i < NSIGHT_COLUMN_MAX && table_spec->columns[i]; i++) {
        if (i)
            sqlite3_str_appendchar(sql, 1, ',');
        add_column(nsight, sql, table, table_spec->columns[i]);
    }
    sqlite3_str_appendf(sql, " FROM \"%w\"", table);
    char *text = sqlite3_str_finish(sql);
    int status = text ? sqlite3_prepare_v2(nsight->db, text, -1, st, NULL) : SQLITE_NOMEM;
    sqlite3_free(text);
    return status;
}

/* Counts one row for the progress bar. */
static int step_progress(struct nsight *nsight)
{
    nsight->unreported += nsight->bytes_a_row;
    if (nsight->unreported < 1 << 18)
        return 0;
    int64_t bytes = (int64_t)nsight->unreported;
    nsight->unreported -= (double)bytes;
    return imp_progress(nsight->run, bytes);
}

/* Reads the newest version of a table, one row after another, into `row`. Damage ends the table and
 * is counted as a loss. */
int nsight_read(struct nsight *nsight, const struct nsight_table *table_spec)
{
    char table[NSIGHT_NAME_MAX], reason[NSIGHT_NAME_MAX + 80];
    sqlite3_stmt *st = NULL;
    if (!nsight_find(nsight, table_spec->name, table))
        return 0;
    int status = prepare(nsight, table_spec, table, &st), code = 0;
    if (status == SQLITE_OK)
        while (!code && (status = sqlite3_step(st)) == SQLITE_ROW) {
            code = table_spec->row(nsight, st);
            if (!code)
                code = step_progress(nsight);
        }
    if (!code && status != SQLITE_DONE) {
        snprintf(reason, sizeof reason, "table %s damaged: the rest of it was not read", table);
        if (nsight->stopped)
            code = TACHO_EINTERRUPTED;
        else if (status == SQLITE_NOMEM)
            code = TACHO_ENOMEM;
        else
            code = imp_loss(nsight->run, reason, 1);
        nsight->run->truncated = true;
    }
    sqlite3_finalize(st);
    return code;
}

/* ---- values -------------------------------------------------------------------------------------------------------------------- */

int64_t nsight_int(sqlite3_stmt *st, int column)
{
    return sqlite3_column_type(st, column) == SQLITE_INTEGER ? sqlite3_column_int64(st, column)
                                                             : STORE_ABSENT;
}

const char *nsight_text(sqlite3_stmt *st, int column)
{
    return sqlite3_column_type(st, column) == SQLITE_TEXT
               ? (const char *)sqlite3_column_text(st, column)
               : NULL;
}

/* Prepares the look-up of one string. Ids are looked up one at a time, because an export can hold
 * millions of strings of which few are needed. Where the table has no primary key, the look-up uses
 * a temporary copy that has one. */
static void prepare_string(struct nsight *nsight)
{
    char table[NSIGHT_NAME_MAX];
    if (!nsight_find(nsight, "StringIds", table))
        return;
    if (nsight_select_int(nsight,
                          "SELECT 1 FROM pragma_table_info(%Q) WHERE name='id' AND pk=1 AND "
                          "upper(type)='INTEGER'",
                          table) == STORE_ABSENT) {
        char *sql =
            sqlite3_mprintf("CREATE TEMP TABLE tacho_strings(id INTEGER PRIMARY KEY, value TEXT);"
                            "INSERT OR IGNORE INTO tacho_strings SELECT id, value FROM \"%w\" "
                            "WHERE typeof(id)='integer'",
                            table);
        bool copied = sql && sqlite3_exec(nsight->db, sql, NULL, NULL, NULL) == SQLITE_OK;
        sqlite3_free(sql);
        if (!copied) /* damaged: there are no names */
            return;
        strcpy(table, "tacho_strings");
    }
    nsight->string = nsight_select(nsight, "SELECT value FROM \"%w\" WHERE id=?", table);
}

const char *nsight_string(struct nsight *nsight, int64_t id)
{
    if (!nsight->string)
        prepare_string(nsight);
    if (!nsight->string || id == STORE_ABSENT)
        return NULL;
    sqlite3_reset(nsight->string);
    sqlite3_bind_int64(nsight->string, 1, id);
    return sqlite3_step(nsight->string) == SQLITE_ROW ? nsight_text(nsight->string, 0) : NULL;
}

int nsight_intern(struct nsight *nsight, const char *text, int64_t *string)
{
    return store_string(nsight->out, text, strlen(text), string);
}

int nsight_name(struct nsight *nsight, int64_t id, int64_t *string)
{
    struct nsight_cached *cached = &nsight->cache[(uint64_t)id % NSIGHT_CACHE];
    if (cached->string && cached->id == id) {
        *string = cached->string;
        return 0;
    }
    const char *text = nsight_string(nsight, id);
    int code = nsight_intern(nsight, text ? text : "", string);
    if (!code) {
        cached->id = id;
        cached->string = *string;
    }
    return code;
}
