/* SPDX-License-Identifier: Apache-2.0
 *
 * The database of runs: where it is, its schema, and how a run is entered.
 *
 * It is written with a rollback journal, not a write-ahead log: home folders lie on network file
 * systems, where processes cannot share memory. A run is one transaction; a writer that dies in it
 * leaves the journal, from which the next one restores the state before.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "history/private.h"
#include "include/tacho_folder.h"
#include "store/db.h"

#define APPLICATION 0x74686973 /* "this": PRAGMA application_id of a history */
#define VERSION     1
#define WAIT_MS     10000

static const char schema[] =
    "BEGIN IMMEDIATE;"
    "CREATE TABLE recipe(id INTEGER PRIMARY KEY, hash TEXT NOT NULL UNIQUE, text TEXT NOT NULL);"
    "CREATE TABLE host(id INTEGER PRIMARY KEY, hash TEXT NOT NULL UNIQUE, text TEXT NOT NULL);"
    "CREATE TABLE environment(id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);"
    "CREATE TABLE name(id INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL,"
    " unit TEXT NOT NULL, UNIQUE(kind, name, unit));"
    "CREATE TABLE run(id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, begun_ns INTEGER NOT NULL,"
    " recipe INTEGER NOT NULL REFERENCES recipe, host INTEGER NOT NULL REFERENCES host,"
    " environment INTEGER REFERENCES environment, git_commit TEXT, file TEXT, verdict TEXT,"
    " steps INTEGER NOT NULL, step_ms BLOB);"
    "CREATE TABLE value(run INTEGER NOT NULL REFERENCES run, name INTEGER NOT NULL REFERENCES name,"
    " value REAL NOT NULL, PRIMARY KEY(run, name)) WITHOUT ROWID;"
    "CREATE INDEX run_begun ON run(begun_ns);"
    "CREATE INDEX run_recipe ON run(recipe, host, begun_ns);"
    "CREATE INDEX run_commit ON run(git_commit);"
    "PRAGMA application_id = 1952999795;"
    "PRAGMA user_version = 1;"
    "COMMIT;";

/* ---- where ------------------------------------------------------------------------------------ */

int history_path(bool make, char *path, size_t size, struct tacho_error *err)
{
    static const char hint[] = "set TACHO_HISTORY to a file of your own, or to 'off'";
    const char *set = getenv("TACHO_HISTORY");
    *path = 0;
    if (set && (!strcmp(set, "off") || !strcmp(set, "0")))
        return 0;
    if (set && *set) {
        if ((size_t)snprintf(path, size, "%s", set) < size)
            return 0;
        *path = 0;
        return tacho_fail(err, TACHO_EUSAGE, hint, "TACHO_HISTORY: the path is too long");
    }
    int error = tacho_folder_name("XDG_DATA_HOME", ".local/share", "tacho", path, size);
    if (!error && make)
        error = tacho_folder_make(path);
    if (!error && strlen(path) + sizeof "/history.db" > size)
        error = ENAMETOOLONG;
    if (error) {
        tacho_fail(err, tacho_error_of_errno(error), hint, "%s: %s", *path ? path : "history",
                   tacho_folder_problem(error));
        *path = 0;
        return tacho_error_of_errno(error);
    }
    strcat(path, "/history.db");
    return 0;
}

/* ---- errors ----------------------------------------------------------------------------------- */

int history_fail(struct history *history, int status, const char *doing, struct tacho_error *err)
{
    /* SQL that is refused is the history's own: then the tables are not those that it makes. */
    if ((status & 0xff) == SQLITE_ERROR)
        return tacho_fail(err, TACHO_ECORRUPT, "move it away: the next run begins a new one",
                          "%s: damaged: %s", history->path, sqlite3_errmsg(history->db));
    return store_db_fail(err, history->db, status, history->path, doing);
}

sqlite3_stmt *history_prepare(struct history *history, const char *sql, struct tacho_error *err)
{
    sqlite3_stmt *statement = NULL;
    int status = sqlite3_prepare_v2(history->db, sql, -1, &statement, NULL);
    if (status != SQLITE_OK)
        history_fail(history, status, "the history cannot be read", err);
    return statement;
}

int history_finish(struct history *history, sqlite3_stmt *statement, const char *doing,
                   struct tacho_error *err)
{
    if (!statement)
        return err && err->code ? err->code : TACHO_EINTERNAL;
    int status = sqlite3_step(statement), rc = 0;
    while (status == SQLITE_ROW)
        status = sqlite3_step(statement);
    if (status != SQLITE_DONE)
        rc = history_fail(history, status, doing, err);
    sqlite3_finalize(statement);
    return rc;
}

const char *history_text(sqlite3_stmt *statement, int column)
{
    return (const char *)sqlite3_column_text(statement, column);
}

void history_bind(sqlite3_stmt *statement, int index, const char *text)
{
    if (text)
        sqlite3_bind_text(statement, index, text, -1, SQLITE_STATIC);
}

/* ---- opening ---------------------------------------------------------------------------------- */

static int pragma_of(struct history *history, const char *sql, int64_t *out,
                     struct tacho_error *err)
{
    sqlite3_stmt *statement = history_prepare(history, sql, err);
    if (!statement)
        return err && err->code ? err->code : TACHO_ECORRUPT;
    int status = sqlite3_step(statement);
    *out = sqlite3_column_int64(statement, 0);
    int rc = status == SQLITE_ROW ? 0 : history_fail(history, status, "it cannot be read", err);
    sqlite3_finalize(statement);
    return rc;
}

/* What tells a history from other databases, all read in one transaction: between two of them
 * another program may make the history. */
struct identity {
    int64_t application, version, tables;
};

static int read_identity(struct history *history, struct identity *identity,
                         struct tacho_error *err)
{
    int status = sqlite3_exec(history->db, "BEGIN", NULL, NULL, NULL);
    if (status != SQLITE_OK)
        return history_fail(history, status, "it cannot be read", err);
    int rc = pragma_of(history, "PRAGMA application_id", &identity->application, err);
    if (!rc)
        rc = pragma_of(history, "PRAGMA user_version", &identity->version, err);
    if (!rc)
        rc = pragma_of(history, "SELECT count(*) FROM sqlite_master", &identity->tables, err);
    sqlite3_exec(history->db, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}

/* Is it a history that this program reads? An empty file becomes one. */
static int check(struct history *history, bool write, struct tacho_error *err)
{
    struct identity found = {0};
    int rc = read_identity(history, &found, err);
    if (rc)
        return rc;
    if (!found.tables && !found.application && write) {
        int status = sqlite3_exec(history->db, schema, NULL, NULL, NULL);
        if (status == SQLITE_OK)
            return 0;
        rc = history_fail(history, status, "the history cannot be made", err);
        sqlite3_exec(history->db, "ROLLBACK", NULL, NULL, NULL);
        /* Another program may have made it meanwhile. */
        bool made = read_identity(history, &found, NULL) == 0 && found.application == APPLICATION;
        return made ? 0 : rc;
    }
    if (found.application != APPLICATION)
        return tacho_fail(err, TACHO_EFORMAT, "set TACHO_HISTORY to another file",
                          "%s: not a history of tacho", history->path);
    if (found.version > VERSION)
        return tacho_fail(err, TACHO_EVERSION, "use that version of tacho",
                          "%s: written by a newer tacho (history version %d)", history->path,
                          (int)found.version);
    return 0;
}

/* Finds the place of the file and opens the database in it; the caller closes both. */
static int open_at(struct history *history, bool write, struct tacho_error *err)
{
    if (store_place_find(history->path, true, &history->place)) {
        int error = errno;
        return tacho_fail(err, tacho_error_of_errno(error), NULL, "%s: %s", history->path,
                          strerror(error));
    }
    struct stat stat;
    bool there = fstatat(history->place.folder, history->place.name, &stat, 0) == 0;
    if (!there && !write)
        return tacho_fail(err, TACHO_ENOTFOUND, "'tacho run -- COMMAND' enters the runs it records",
                          "%s: no run has been entered yet", history->path);
    if (there && write && !store_stat_is_own(&stat))
        return tacho_fail(err, TACHO_EDENIED, "set TACHO_HISTORY to a file of your own",
                          "%s: it is not a file of yours", history->path);
    /* made for the user alone: commands and verdicts are in it */
    int made = there ? -1
                     : store_file_open(history->place.folder, history->place.name,
                                       O_RDWR | O_CREAT | O_CLOEXEC);
    if (made >= 0)
        close(made);
    int flags = write ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
    int status = store_sqlite_open(&history->place, flags, "", &history->db);
    if (status != SQLITE_OK)
        return history_fail(history, status, "the history cannot be opened", err);
    store_db_harden(history->db);
    sqlite3_busy_timeout(history->db, WAIT_MS);
    return check(history, write, err);
}

int history_open(const char *path, bool write, struct history **out, struct tacho_error *err)
{
    *out = NULL;
    struct history *history = calloc(1, sizeof *history);
    if (!history || !(history->path = strdup(path))) {
        free(history);
        return tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", path);
    }
    history->place.folder = -1;
    int rc = open_at(history, write, err);
    if (rc) {
        history_close(history);
        return rc;
    }
    *out = history;
    return 0;
}

void history_close(struct history *history)
{
    if (!history)
        return;
    sqlite3_close(history->db);
    if (history->place.folder >= 0)
        store_place_close(&history->place);
    free(history->path);
    free(history);
}

/* ---- writing ---------------------------------------------------------------------------------- */

static int execute(struct history *history, const char *sql, struct tacho_error *err)
{
    int status = sqlite3_exec(history->db, sql, NULL, NULL, NULL);
    return status == SQLITE_OK ? 0 : history_fail(history, status, "the run is not entered", err);
}

int history_begin(struct history *history, struct tacho_error *err)
{
    return execute(history, "BEGIN IMMEDIATE", err);
}

int history_commit(struct history *history, struct tacho_error *err)
{
    int rc = execute(history, "COMMIT", err);
    if (rc)
        sqlite3_exec(history->db, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}

/* The row of a table of texts that are kept once: `insert` adds it, `select` finds it, both with
 * the same one to three texts. */
static int row_of(struct history *history, const char *insert, const char *select,
                  const char *const text[3], int64_t *id, struct tacho_error *err)
{
    for (int pass = 0; pass < 2; pass++) {
        sqlite3_stmt *statement = history_prepare(history, pass ? select : insert, err);
        if (!statement)
            return TACHO_EIO;
        for (int i = 0; i < sqlite3_bind_parameter_count(statement); i++)
            history_bind(statement, i + 1, text[i]);
        if (pass && sqlite3_step(statement) == SQLITE_ROW)
            *id = sqlite3_column_int64(statement, 0);
        int rc = history_finish(history, statement, "the run is not entered", err);
        if (rc)
            return rc;
    }
    return 0;
}

static int enter_values(struct history *history, const struct history_entry *entry, int64_t run,
                        struct tacho_error *err)
{
    static const char insert[] = "INSERT OR IGNORE INTO name(kind, name, unit) VALUES(?1, ?2, ?3)";
    static const char select[] = "SELECT id FROM name WHERE kind = ?1 AND name = ?2 AND unit = ?3";
    for (size_t i = 0; i < entry->value_count; i++) {
        const struct history_value *value = &entry->values[i];
        int64_t name = 0;
        int rc = row_of(history, insert, select,
                        (const char *const[3]){value->kind, value->name, value->unit}, &name, err);
        sqlite3_stmt *statement =
            rc ? NULL
               : history_prepare(history, "INSERT OR REPLACE INTO value VALUES(?1, ?2, ?3)", err);
        if (!statement)
            return rc ? rc : TACHO_EIO;
        sqlite3_bind_int64(statement, 1, run);
        sqlite3_bind_int64(statement, 2, name);
        sqlite3_bind_double(statement, 3, value->value);
        rc = history_finish(history, statement, "the run is not entered", err);
        if (rc)
            return rc;
    }
    return 0;
}

/* Removes the entry with that key, with what belongs to it; its commit is kept where the new one
 * has none. */
static int remove_old(struct history *history, const char *key, struct tacho_error *err)
{
    static const char *const sql[] = {
        "DELETE FROM value WHERE run = (SELECT id FROM run WHERE key = ?1)",
        "DELETE FROM run WHERE key = ?1"};
    for (int i = 0; i < 2; i++) {
        sqlite3_stmt *statement = history_prepare(history, sql[i], err);
        if (statement)
            history_bind(statement, 1, key);
        int rc = history_finish(history, statement, "the run is not entered", err);
        if (rc)
            return rc;
    }
    return 0;
}

/* The commit that the present entry with that key has. The caller's; NULL: none. */
static char *old_commit(struct history *history, const char *key)
{
    char *commit = NULL;
    sqlite3_stmt *statement =
        history_prepare(history, "SELECT git_commit FROM run WHERE key = ?1", NULL);
    if (!statement)
        return NULL;
    history_bind(statement, 1, key);
    if (sqlite3_step(statement) == SQLITE_ROW && history_text(statement, 0))
        commit = strdup(history_text(statement, 0));
    sqlite3_finalize(statement);
    return commit;
}

static int enter_run(struct history *history, const struct history_entry *entry, const char *commit,
                     struct tacho_error *err)
{
    int64_t recipe = 0, host = 0, environment = 0;
    int rc = row_of(history, "INSERT OR IGNORE INTO recipe(hash, text) VALUES(?1, ?2)",
                    "SELECT id FROM recipe WHERE hash = ?1",
                    (const char *const[3]){entry->recipe, entry->recipe_text, NULL}, &recipe, err);
    if (!rc)
        rc = row_of(history, "INSERT OR IGNORE INTO host(hash, text) VALUES(?1, ?2)",
                    "SELECT id FROM host WHERE hash = ?1",
                    (const char *const[3]){entry->host, entry->host_text, NULL}, &host, err);
    if (!rc && entry->environment)
        rc = row_of(history, "INSERT OR IGNORE INTO environment(text) VALUES(?1)",
                    "SELECT id FROM environment WHERE text = ?1",
                    (const char *const[3]){entry->environment, NULL, NULL}, &environment, err);
    if (rc)
        return rc;
    sqlite3_stmt *statement = history_prepare(
        history,
        "INSERT INTO run(key, begun_ns, recipe, host, environment, git_commit, file, verdict,"
        " steps, step_ms) VALUES(?1, ?2, ?3, ?4, nullif(?5, 0), ?6, ?7, ?8, ?9, ?10)",
        err);
    if (!statement)
        return TACHO_EIO;
    history_bind(statement, 1, entry->key);
    sqlite3_bind_int64(statement, 2, entry->begun_ns);
    sqlite3_bind_int64(statement, 3, recipe);
    sqlite3_bind_int64(statement, 4, host);
    sqlite3_bind_int64(statement, 5, environment);
    history_bind(statement, 6, commit);
    history_bind(statement, 7, entry->file);
    history_bind(statement, 8, entry->verdict);
    sqlite3_bind_int64(statement, 9, entry->steps);
    if (entry->sample_count)
        sqlite3_bind_blob(statement, 10, entry->step_ms,
                          (int)(entry->sample_count * sizeof *entry->step_ms), SQLITE_STATIC);
    rc = history_finish(history, statement, "the run is not entered", err);
    return rc ? rc : enter_values(history, entry, sqlite3_last_insert_rowid(history->db), err);
}

int history_enter(struct history *history, const struct history_entry *entry,
                  struct tacho_error *err)
{
    bool alone = sqlite3_get_autocommit(history->db) != 0;
    int rc = alone ? history_begin(history, err) : 0;
    if (rc)
        return rc;
    char *kept = entry->commit ? NULL : old_commit(history, entry->key);
    rc = remove_old(history, entry->key, err);
    if (!rc)
        rc = enter_run(history, entry, entry->commit ? entry->commit : kept, err);
    free(kept);
    if (!rc && alone)
        rc = history_commit(history, err);
    else if (rc)
        sqlite3_exec(history->db, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}
