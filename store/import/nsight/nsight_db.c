/* SPDX-License-Identifier: Apache-2.0
 *
 * The export as a database: what exists in it, and rows of it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/nsight/nsight.h"

#define VALUE_MAX (64 << 20) /* bytes of a text or blob */
#define STEPS_A_CHECK \
    100000 /* of SQLite's machine, between two looks whether the user wants no more */

/* ---- map ------------------------------------------------------------------------------------------------------------------ */

static size_t map_hash(int64_t a, int64_t b)
{
    uint64_t h =
        (uint64_t)a * 0x9e3779b97f4a7c15ull ^ ((uint64_t)b + 0x7f4a7c15u) * 0xc2b2ae3d27d4eb4full;
    h ^= h >> 31;
    h *= 0xbf58476d1ce4e5b9ull;
    return (size_t)(h ^ h >> 29);
}

static struct nsight_map_slot *map_slot(const struct nsight_map *nsight_map, int64_t a, int64_t b)
{
    for (size_t at = map_hash(a, b) & (nsight_map->cap - 1);;
         at = (at + 1) & (nsight_map->cap - 1)) {
        struct nsight_map_slot *nsight_map_slot = &nsight_map->slot[at];
        if (!nsight_map_slot->used || (nsight_map_slot->a == a && nsight_map_slot->b == b))
            return nsight_map_slot;
    }
}

int64_t *nsight_map_find(const struct nsight_map *nsight_map, int64_t a, int64_t b)
{
    struct nsight_map_slot *nsight_map_slot = nsight_map->cap ? map_slot(nsight_map, a, b) : NULL;
    return nsight_map_slot && nsight_map_slot->used ? &nsight_map_slot->value : NULL;
}

int nsight_map_put(struct nsight_map *nsight_map, int64_t a, int64_t b, int64_t value)
{
    if (2 * (nsight_map->count + 1) > nsight_map->cap) {
        struct nsight_map bigger = {.cap = nsight_map->cap ? 2 * nsight_map->cap : 64};
        bigger.slot = calloc(bigger.cap, sizeof *bigger.slot);
        if (!bigger.slot)
            return TACHO_ENOMEM;
        for (size_t i = 0; i < nsight_map->cap; i++)
            if (nsight_map->slot[i].used)
                *map_slot(&bigger, nsight_map->slot[i].a, nsight_map->slot[i].b) =
                    nsight_map->slot[i];
        bigger.count = nsight_map->count;
        free(nsight_map->slot);
        *nsight_map = bigger;
    }
    struct nsight_map_slot *nsight_map_slot = map_slot(nsight_map, a, b);
    nsight_map->count += !nsight_map_slot->used;
    *nsight_map_slot = (struct nsight_map_slot){a, b, value, true};
    return 0;
}

void nsight_map_free(struct nsight_map *nsight_map)
{
    free(nsight_map->slot);
    *nsight_map = (struct nsight_map){0};
}

/* ---- opening ---------------------------------------------------------------------------------------------------------------- */

static int on_progress(void *ctx)
{
    struct nsight *nsight = ctx;
    nsight->stopped = nsight->stopped || imp_progress(nsight->run, 0) != 0;
    return nsight->stopped;
}

static int fail(struct nsight *nsight, int rc, const char *path)
{
    if (rc == SQLITE_NOMEM)
        return tacho_fail(nsight->err, TACHO_ENOMEM, NULL, "%s: %s", path,
                          tacho_error_text(TACHO_ENOMEM));
    if (rc == SQLITE_NOTADB)
        return tacho_fail(nsight->err, TACHO_EFORMAT,
                          "export it again: nsys export --type sqlite FILE.nsys-rep",
                          "%s: begins like an SQLite database, but is none", path);
    if (rc == SQLITE_CORRUPT)
        return tacho_fail(
            nsight->err, TACHO_ECORRUPT,
            "copy it again, or export it again: nsys export --type sqlite FILE.nsys-rep",
            "%s: damaged SQLite database", path);
    return tacho_fail(nsight->err, TACHO_EIO, NULL, "%s: %s", path,
                      nsight->db ? sqlite3_errmsg(nsight->db) : sqlite3_errstr(rc));
}

static int try_open(struct nsight *nsight, const char *name, int flags)
{
    sqlite3_close(nsight->db);
    nsight->db = NULL;
    int rc = sqlite3_open_v2(name, &nsight->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | flags,
                             NULL);
    if (rc != SQLITE_OK)
        return rc;
    sqlite3_db_config(nsight->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(nsight->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_limit(nsight->db, SQLITE_LIMIT_LENGTH, VALUE_MAX);
    sqlite3_exec(nsight->db, "PRAGMA cell_size_check=ON", NULL, NULL, NULL);
    sqlite3_progress_handler(nsight->db, STEPS_A_CHECK, on_progress, nsight);
    return sqlite3_exec(nsight->db, "SELECT count(*) FROM sqlite_master", NULL, NULL, NULL);
}

int nsight_open(struct nsight *nsight, const char *path)
{
    int rc = try_open(nsight, path, 0);
    if (rc == SQLITE_CANTOPEN ||
        rc == SQLITE_READONLY) { /* WAL mode in a folder where nothing can be written */
        char *uri = sqlite3_mprintf("file:%s?immutable=1", path);
        if (uri && !strpbrk(path, "?#%"))
            rc = try_open(nsight, uri, SQLITE_OPEN_URI);
        sqlite3_free(uri);
    }
    return rc == SQLITE_OK ? 0 : nsight->stopped ? TACHO_EINTERRUPTED : fail(nsight, rc, path);
}

/* ---- tables and columns ------------------------------------------------------------------------------------------------------- */

int64_t nsight_rows_about(struct nsight *nsight, const char *table)
{
    sqlite3_stmt *st = NULL;
    int64_t rows = 0;
    char *sql = sqlite3_mprintf("SELECT max(rowid) FROM \"%w\"", table);
    if (sql && sqlite3_prepare_v2(nsight->db, sql, -1, &st, NULL) == SQLITE_OK &&
        sqlite3_step(st) == SQLITE_ROW)
        rows = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    sqlite3_free(sql);
    return rows < 0 ? 0 : rows;
}

bool nsight_find(struct nsight *nsight, const char *name, char found[NSIGHT_NAME_MAX])
{
    static const char sql[] =
        "SELECT name FROM sqlite_master WHERE type='table' AND sql NOT LIKE 'CREATE VIRTUAL%' AND "
        "(name=?1 OR name GLOB ?1||'_V[0-9]*') ORDER BY length(name) DESC, name DESC";
    sqlite3_stmt *st = NULL;
    bool any = false;
    if (sqlite3_prepare_v2(nsight->db, sql, -1, &st, NULL) != SQLITE_OK)
        return false;
    sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC);
    while (sqlite3_step(st) == SQLITE_ROW) {
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

/* Is `column` (n bytes) one of the table's? */
static bool has_column(struct nsight *nsight, const char *table, const char *column, size_t bytes)
{
    sqlite3_stmt *st = NULL;
    bool found = false;
    char *sql = sqlite3_mprintf("PRAGMA table_info(\"%w\")", table);
    if (sql && sqlite3_prepare_v2(nsight->db, sql, -1, &st, NULL) == SQLITE_OK)
        while (!found && sqlite3_step(st) == SQLITE_ROW) {
            const char *name = (const char *)sqlite3_column_text(st, 1);
            found = name && strlen(name) == bytes && !sqlite3_strnicmp(name, column, (int)bytes);
        }
    sqlite3_finalize(st);
    sqlite3_free(sql);
    return found;
}

/* "a|b" -> the first that exists, else NULL */
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

static int prepare(struct nsight *nsight, const struct nsight_table *nsight_table,
                   const char *table, sqlite3_stmt **st)
{
    sqlite3_str *sql = sqlite3_str_new(nsight->db);
    sqlite3_str_appendall(sql, "SELECT ");
    for (size_t i = 0; i < NSIGHT_COLUMN_MAX && nsight_table->columns[i]; i++) {
        if (i)
            sqlite3_str_appendchar(sql, 1, ',');
        add_column(nsight, sql, table, nsight_table->columns[i]);
    }
    sqlite3_str_appendf(sql, " FROM \"%w\"", table);
    char *text = sqlite3_str_finish(sql);
    int rc = text ? sqlite3_prepare_v2(nsight->db, text, -1, st, NULL) : SQLITE_NOMEM;
    sqlite3_free(text);
    return rc;
}

/* Counts the row for the bar. */
static int step_progress(struct nsight *nsight)
{
    nsight->unreported += nsight->bytes_a_row;
    if (nsight->unreported < 1 << 18)
        return 0;
    int64_t bytes = (int64_t)nsight->unreported;
    nsight->unreported -= (double)bytes;
    return imp_progress(nsight->run, bytes);
}

int nsight_read(struct nsight *nsight, const struct nsight_table *nsight_table)
{
    char table[NSIGHT_NAME_MAX], reason[NSIGHT_NAME_MAX + 80];
    sqlite3_stmt *st = NULL;
    if (!nsight_find(nsight, nsight_table->name, table))
        return 0;
    int rc = prepare(nsight, nsight_table, table, &st), code = 0;
    if (rc == SQLITE_OK)
        while (!code && (rc = sqlite3_step(st)) == SQLITE_ROW) {
            code = nsight_table->row(nsight, st);
            if (!code)
                code = step_progress(nsight);
        }
    if (!code && rc != SQLITE_DONE) {
        snprintf(reason, sizeof reason, "table %s damaged: the rest of it was not read", table);
        if (nsight->stopped)
            code = TACHO_EINTERRUPTED;
        else if (rc == SQLITE_NOMEM)
            code = TACHO_ENOMEM;
        else
            code = imp_loss(nsight->run, reason, 1);
        nsight->run->import_result->truncated = true;
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

/* Ids are looked up one at a time: an export can hold millions of strings of which few are needed.
 * Where the table has no primary key, a temporary copy gets one. */
static int prepare_string(struct nsight *nsight)
{
    char table[NSIGHT_NAME_MAX];
    sqlite3_stmt *st = NULL;
    bool key = false;
    if (!nsight_find(nsight, "StringIds", table))
        return 0;
    char *sql = sqlite3_mprintf(
        "SELECT 1 FROM pragma_table_info(%Q) WHERE name='id' AND pk=1 AND upper(type)='INTEGER'",
        table);
    if (sql && sqlite3_prepare_v2(nsight->db, sql, -1, &st, NULL) == SQLITE_OK)
        key = sqlite3_step(st) == SQLITE_ROW;
    sqlite3_finalize(st);
    sqlite3_free(sql);
    if (!key) {
        sql = sqlite3_mprintf("CREATE TEMP TABLE tacho_strings(id INTEGER PRIMARY KEY, value TEXT);"
                              "INSERT OR IGNORE INTO tacho_strings SELECT id, value FROM \"%w\" "
                              "WHERE typeof(id)='integer'",
                              table);
        if (!sql || sqlite3_exec(nsight->db, sql, NULL, NULL, NULL) != SQLITE_OK)
            strcpy(table, ""); /* damaged: there are no names */
        else
            strcpy(table, "tacho_strings");
        sqlite3_free(sql);
    }
    sql = *table ? sqlite3_mprintf("SELECT value FROM \"%w\" WHERE id=?", table) : NULL;
    if (sql)
        sqlite3_prepare_v2(nsight->db, sql, -1, &nsight->string, NULL);
    sqlite3_free(sql);
    return 0;
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

int nsight_name(struct nsight *nsight, int64_t id, int64_t *string)
{
    size_t at = (uint64_t)id % NSIGHT_CACHE;
    if (nsight->cache[at].string && nsight->cache[at].id == id) {
        *string = nsight->cache[at].string;
        return 0;
    }
    const char *text = nsight_string(nsight, id);
    int code = nsight_intern(nsight, text ? text : "", string);
    if (!code) {
        nsight->cache[at].id = id;
        nsight->cache[at].string = *string;
    }
    return code;
}
