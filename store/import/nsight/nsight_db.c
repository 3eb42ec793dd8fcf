/* SPDX-License-Identifier: Apache-2.0
 *
 * The export as a database: which tables and columns exist, queries, and values of rows.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/input/list.h"
#include "store/import/nsight/nsight_private.h"

#define NSIGHT_TEXT_MOST 65536 /* bytes */

/* ---- tables and columns ------------------------------------------------------------------------------------------------------- */

static sqlite3_stmt *select_list(struct nsight *nsight, const char *format, va_list arguments)
{
    sqlite3_stmt *st = NULL;
    char *sql = sqlite3_vmprintf(format, arguments);
    if (sql)
        sqlite3_prepare_v2(nsight->database.db, sql, -1, &st, NULL);
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
    sqlite3_str *sql = sqlite3_str_new(nsight->database.db);
    sqlite3_str_appendall(sql, "SELECT ");
    for (size_t i = 0; i < NSIGHT_COLUMN_MAX && table_spec->columns[i]; i++) {
        if (i)
            sqlite3_str_appendchar(sql, 1, ',');
        add_column(nsight, sql, table, table_spec->columns[i]);
    }
    sqlite3_str_appendf(sql, " FROM \"%w\"", table);
    char *text = sqlite3_str_finish(sql);
    int status = text ? sqlite3_prepare_v2(nsight->database.db, text, -1, st, NULL) : SQLITE_NOMEM;
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
        if (nsight->database.stopped)
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

/* Copies the ids and values of a table to a temporary one whose key the id is; of a damaged table
 * those before the damage. Row by row, each committed by itself: SQLite undoes a statement or a
 * transaction that meets damage. */
static void copy_texts(struct nsight *nsight, const char *table, const char *id, const char *value,
                       const char *copy)
{
    sqlite3 *db = nsight->database.db;
    char *make = sqlite3_mprintf("CREATE TEMP TABLE %s(\"%w\" INTEGER PRIMARY KEY, \"%w\")", copy,
                                 id, value);
    int status = make ? sqlite3_exec(db, make, NULL, NULL, NULL) : SQLITE_NOMEM;
    sqlite3_free(make);
    sqlite3_stmt *rows =
        nsight_select(nsight, "SELECT \"%w\", \"%w\" FROM \"%w\" WHERE typeof(\"%w\")='integer'",
                      id, value, table, id);
    sqlite3_stmt *put = nsight_select(nsight, "INSERT OR IGNORE INTO %s VALUES(?,?)", copy);
    while (status == SQLITE_OK && rows && put && (status = sqlite3_step(rows)) == SQLITE_ROW) {
        sqlite3_bind_value(put, 1, sqlite3_column_value(rows, 0));
        sqlite3_bind_value(put, 2, sqlite3_column_value(rows, 1));
        sqlite3_step(put);
        status = sqlite3_reset(put);
    }
    nsight->lost[NSIGHT_LOSS_NAMES] += status == SQLITE_CORRUPT;
    sqlite3_finalize(rows);
    sqlite3_finalize(put);
}

/* Prepares the look-up of a text by its id. Ids are looked up one at a time, because an export can
 * hold millions of strings of which few are needed. Where the id is no primary key, the look-up
 * uses a temporary copy that has one. */
static void prepare_texts(struct nsight *nsight, enum nsight_texts which)
{
    static const struct {
        const char *table, *id, *value;
    } texts[] = {[NSIGHT_STRINGS] = {"StringIds", "id", "value"},
                 [NSIGHT_PROGRAMS] = {"PROCESSES", "globalPid", "name"},
                 [NSIGHT_THREAD_NAMES] = {"ThreadNames", "globalTid", "nameId"}};
    const char *id = texts[which].id, *value = texts[which].value;
    char table[NSIGHT_NAME_MAX], copy[32];
    nsight->has_texts[which] = true;
    if (!nsight_find(nsight, texts[which].table, table))
        return;
    if (nsight_select_int(nsight,
                          "SELECT 1 FROM pragma_table_info(%Q) WHERE name=%Q AND pk=1 AND "
                          "upper(type)='INTEGER'",
                          table, id) == STORE_ABSENT) {
        snprintf(copy, sizeof copy, "tacho_texts_%d", (int)which);
        copy_texts(nsight, table, id, value, copy);
        strcpy(table, copy);
    }
    nsight->texts[which] =
        nsight_select(nsight, "SELECT \"%w\" FROM \"%w\" WHERE \"%w\"=?", value, table, id);
}

/* Looks an id up; NULL: it is not there. Valid until the next call. */
static sqlite3_stmt *look_up(struct nsight *nsight, enum nsight_texts which, int64_t id)
{
    if (!nsight->has_texts[which])
        prepare_texts(nsight, which);
    sqlite3_stmt *st = nsight->texts[which];
    if (!st || id == STORE_ABSENT)
        return NULL;
    sqlite3_reset(st);
    sqlite3_bind_int64(st, 1, id);
    int status = sqlite3_step(st);
    nsight->lost[NSIGHT_LOSS_NAME] += status == SQLITE_CORRUPT;
    return status == SQLITE_ROW ? st : NULL;
}

/* Keeps the beginning of a very long text, so that rows that name it do not cost its length. NULL:
 * no memory. */
static const char *keep_beginning(struct nsight *nsight, int64_t id, const char *text)
{
    if (imp_list_room((void **)&nsight->cut, &nsight->cut_room, nsight->cut_count,
                      sizeof *nsight->cut))
        return NULL;
    char *beginning = strndup(text, NSIGHT_TEXT_MOST);
    if (!beginning || imp_map_put(&nsight->long_text, id, 0, (int64_t)nsight->cut_count)) {
        free(beginning);
        return NULL;
    }
    return nsight->cut[nsight->cut_count++] = beginning;
}

const char *nsight_string(struct nsight *nsight, int64_t id)
{
    const int64_t *known = imp_map_find(&nsight->long_text, id, 0);
    if (known)
        return nsight->cut[*known];
    sqlite3_stmt *st = look_up(nsight, NSIGHT_STRINGS, id);
    const char *text = st ? nsight_text(st, 0) : NULL;
    if (text && sqlite3_column_bytes(st, 0) > NSIGHT_TEXT_MOST)
        text = keep_beginning(nsight, id, text);
    return text;
}

char *nsight_text_of(struct nsight *nsight, enum nsight_texts which, int64_t id)
{
    sqlite3_stmt *st = look_up(nsight, which, id);
    const char *found = st ? nsight_text(st, 0) : NULL;
    if (st && !found && nsight_int(st, 0) != STORE_ABSENT)
        found = nsight_string(nsight, nsight_int(st, 0));
    return found ? strdup(found) : NULL;
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
