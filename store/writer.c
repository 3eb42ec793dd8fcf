/* SPDX-License-Identifier: Apache-2.0
 *
 * The writing handle: its life and its transactions. rows.c has one function a table, resume.c
 * opens existing files.
 *
 * These settings were measured on one core of the development machine (virtual machine, ext4 on a
 * virtual disk, SQLite 3.40.1):
 * batch        See batch.c: 2.42 M slices/s instead of 1.19 with a statement for each row.
 * page_size    4096: 2.3-2.5 M rows/s; 16384: 5 % faster; 65536: half as fast with 100 rows a
 *              commit, because each commit writes whole pages. An empty file has 22 pages, so small
 *              runs decide: 88 KiB against 350 KiB.
 * synchronous  NORMAL: 2.17-2.24 M rows/s, OFF: 2.3-2.4. NORMAL syncs at checkpoints only, and a
 *              file that was being written when the machine lost power is not damaged (it may miss
 *              its last commits). kill -9 loses nothing either way.
 * checkpoint   Every 4 MiB of WAL: as fast as every 1, 16 or 64 MiB (within 5 %). The file grows at
 *              checkpoints only, so this is also how much room a full disk must still have for the
 *              file to be finished.
 */
#include "store/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "store/db.h"

#define WRITING  "cannot be written"
#define CREATING "cannot be created"

static const char schema_sql[] =
#include "schema.inc"
    ;
static const char live_sql[] =
    "CREATE TABLE live_position(pool TEXT,segment INTEGER,generation INTEGER NOT NULL,bytes "
    "INTEGER "
    "NOT NULL,PRIMARY KEY(pool,segment)) WITHOUT ROWID;"
    "CREATE TABLE live_state(key TEXT PRIMARY KEY,value BLOB NOT NULL) WITHOUT ROWID;";
#define PATIENCE_MS 5000 /* with other processes that lock the file */

const char store_live_pragmas[] = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
                                  "PRAGMA journal_size_limit=16777216; PRAGMA cache_size=-8192;"
                                  "PRAGMA temp_store=MEMORY";

/* A file that is thrown away when anything fails needs no journal: each page is written once.
 * Measured on the slices of a 470 MB Kineto trace: docs/import.md. */
static const char private_pragmas[] =
    "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE;"
    "PRAGMA cache_size=-16384";

static const char *const statement_sql[] = {
#define STORE_STATEMENT_SQL(name, sql) sql,
    STORE_STATEMENT_MAP(STORE_STATEMENT_SQL)
#undef STORE_STATEMENT_SQL
};

/* ---- failures ---------------------------------------------------------------------------------------------------------- */

int store_note(store *writer, int status, const char *doing)
{
    int code = store_db_fail(&writer->error, writer->db, status, writer->path, doing);
    if (!writer->failed)
        writer->failed = code;
    return code;
}

sqlite3_stmt *store_statement(store *writer, enum store_statement which)
{
    if (!writer->in_transaction) /* alone a statement is its own transaction, so an old failure does
                               not touch it */
        writer->failed = 0;
    if (writer->failed)
        return NULL;
    if (!writer->statement[which]) {
        int status = sqlite3_prepare_v3(writer->db, statement_sql[which], -1,
                                        SQLITE_PREPARE_PERSISTENT, &writer->statement[which], NULL);
        if (status != SQLITE_OK) {
            store_note(writer, status, WRITING);
            return NULL;
        }
    }
    return writer->statement[which];
}

int store_run_statement(store *writer, sqlite3_stmt *st, const char *doing)
{
    errno = 0; /* see store_db_code */
    int status = sqlite3_step(st);
    if (status == SQLITE_DONE || status == SQLITE_ROW) {
        sqlite3_reset(st);
        return 0;
    }
    int code = store_note(writer, sqlite3_extended_errcode(writer->db), doing);
    sqlite3_reset(st);
    return code;
}

int store_exec(store *writer, const char *sql, const char *doing)
{
    errno = 0;
    int status = sqlite3_exec(writer->db, sql, NULL, NULL, NULL);
    return status == SQLITE_OK ? 0
                               : store_note(writer, sqlite3_extended_errcode(writer->db), doing);
}

const struct tacho_error *store_error(const store *writer)
{
    return &writer->error;
}

/* ---- life -------------------------------------------------------------------------------------------------------------- */

/* The WAL may take 4 MiB, and no more than a sixteenth of what is free where there is little room.
 */
static void checkpoint_limit(store *writer)
{
    struct statvfs filesystem;
    int pages = 1024;
    int folder = openat(writer->place.folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0 && !fstatvfs(folder, &filesystem) &&
        filesystem.f_bavail * filesystem.f_frsize / 4096 / 16 < 1024)
        pages = (int)(filesystem.f_bavail * filesystem.f_frsize / 4096 / 16);
    if (folder >= 0)
        close(folder);
    sqlite3_wal_autocheckpoint(writer->db, pages < 16 ? 16 : pages);
}

int store_limit_wal(store *writer, int64_t max_bytes)
{
    char sql[64];
    int64_t pages = max_bytes / 64 / 4096;
    if (pages < 1024)
        sqlite3_wal_autocheckpoint(writer->db, pages < 16 ? 16 : (int)pages);
    if (max_bytes / 16 >= 16777216)
        return 0;
    snprintf(sql, sizeof sql, "PRAGMA journal_size_limit=%lld", (long long)(max_bytes / 16));
    return store_exec(writer, sql, WRITING);
}

/* Prepares the batches of the tables that grow by millions of rows. */
int store_writer_open(store *writer)
{
    checkpoint_limit(writer);
    writer->slices = (struct store_batch){.table = "slice", .columns = "iiiiiiii"};
    writer->counters = (struct store_batch){.table = "counter", .columns = "iiid"};
    writer->samples = (struct store_batch){.table = "sample", .columns = "iiii"};
    writer->aggregates = (struct store_batch){.table = "step_aggregate", .columns = "iiiiiiiiii"};
    struct store_batch *const batches[] = {&writer->slices, &writer->counters, &writer->aggregates,
                                           &writer->samples};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        int status = store_batch_open(batches[i], writer->db);
        if (status != SQLITE_OK)
            return store_note(writer, status, WRITING);
    }
    return 0;
}

store *store_writer_new(const struct store_place *place, const char *path)
{
    store *writer = calloc(1, sizeof *writer);
    if (!writer) {
        close(place->folder);
        return NULL;
    }
    writer->place = *place;
    writer->path = strdup(path);
    if (writer->path)
        return writer;
    store_close(writer);
    return NULL;
}

void store_close(store *writer)
{
    if (!writer)
        return;
    store_batch_close(&writer->slices);
    store_batch_close(&writer->counters);
    store_batch_close(&writer->samples);
    store_batch_close(&writer->aggregates);
    for (int i = 0; i < STORE_SQL_COUNT; i++)
        sqlite3_finalize(writer->statement[i]);
    sqlite3_close(writer->db); /* rolls back */
    store_intern_clear(&writer->strings);
    store_intern_clear(&writer->details);
    store_intern_clear(&writer->stacks);
    free(writer->key);
    store_place_close(&writer->place);
    free(writer->path);
    free(writer);
}

int store_writer_give_up(store *writer, int code, struct tacho_error *err)
{
    if (err && writer->error.code == code)
        *err = writer->error;
    store_close(writer);
    return code;
}

/* O_EXCL: an existing file is never touched, not even for a moment. */
static int make_file(store *writer)
{
    int fd = writer->place.folder < 0
                 ? -1
                 : openat(writer->place.folder, writer->place.name,
                          O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd >= 0)
        return close(fd);
    return tacho_fail(&writer->error, tacho_error_of_errno(errno),
                      tacho_error_hint(errno, "give another name or folder with -o FILE"), "%s: %s",
                      writer->path, strerror(errno));
}

/* Opens the file that was just made and writes all tables. */
static int write_schema(store *writer, const char *pragmas)
{
    char version[128];
    int status = store_sqlite_open(&writer->place, SQLITE_OPEN_READWRITE, "", &writer->db);
    int code = status == SQLITE_OK ? 0 : store_note(writer, status, CREATING);
    sqlite3_busy_timeout(writer->db, PATIENCE_MS);
    snprintf(version, sizeof version, "PRAGMA application_id=%d; PRAGMA user_version=%d",
             STORE_APPLICATION_ID, STORE_SCHEMA_VERSION);
    /* The tables are made before WAL is switched on, so they are in the file itself whatever
     * happens next. */
    const char *const steps[] = {"PRAGMA page_size=4096; PRAGMA temp_store=MEMORY; BEGIN",
                                 version,
                                 schema_sql,
                                 live_sql,
                                 "COMMIT",
                                 pragmas};
    for (size_t i = 0; !code && i < sizeof steps / sizeof *steps; i++)
        code = store_exec(writer, steps[i], CREATING);
    return code ? code : store_writer_open(writer);
}

/* Creates a file with all tables. A failure leaves no file. */
static int writer_create(const struct store_place *place, const char *path, const char *pragmas,
                         store **out, struct tacho_error *err)
{
    *out = NULL;
    store *writer = store_writer_new(place, path);
    if (!writer)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", path);
    int code = make_file(writer);
    if (code)
        return store_writer_give_up(writer, code, err);
    code = write_schema(writer, pragmas);
    if (code) { /* made by this call, so nothing of the user's is lost */
        unlinkat(writer->place.folder, writer->place.name, 0);
        return store_writer_give_up(writer, code, err);
    }
    writer->next = (struct store_mark){.slice = 1, .process = 1, .track = 1};
    writer->failed = 0;
    *out = writer;
    return 0;
}

/* SQLite syncs what is in the file; the names of the file and of its folder are synced here. */
static int create_synced(const struct store_place *place, const char *path, store **out,
                         struct tacho_error *err)
{
    int code = writer_create(place, path, store_live_pragmas, out, err);
    if (code)
        return code;
    int status = store_file_sync(place->folder, ".");
    if (!status)
        status = store_file_sync(place->folder, "..");
    if (!status)
        return 0;
    code = tacho_fail(err, TACHO_EIO, NULL, "%s: cannot be synced: %s", path, strerror(-status));
    unlinkat(place->folder, place->name, 0);
    store_close(*out);
    *out = NULL;
    return code;
}

int store_create(const char *path, store **out, struct tacho_error *err)
{
    struct store_place place;
    store_place_find(path, false, &place);
    return create_synced(&place, path, out, err);
}

int store_create_at(int folder, const char *path, store **out, struct tacho_error *err)
{
    struct store_place place;
    store_place_at(folder, path, &place);
    return create_synced(&place, path, out, err);
}

int store_create_private(const char *path, store **out, struct tacho_error *err)
{
    struct store_place place;
    store_place_find(path, false, &place);
    return writer_create(&place, path, private_pragmas, out, err);
}

/* ---- transactions ------------------------------------------------------------------------------------------------------ */

/* After a failure the file is as it was at store_begin; what is kept in memory has to follow. */
static void writer_roll_back(store *writer, int code)
{
    if (!sqlite3_get_autocommit(writer->db))
        sqlite3_exec(writer->db, "ROLLBACK", NULL, NULL, NULL);
    if (code == TACHO_ENOSPACE) /* the WAL holds a page as often as it was committed: folding it in
                                   gives room back */
        sqlite3_wal_checkpoint_v2(writer->db, "main", SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    writer->slices.rows = writer->counters.rows = writer->aggregates.rows = writer->samples.rows =
        0;
    writer->next = writer->mark;
    store_intern_truncate(&writer->strings, writer->mark.strings);
    store_intern_truncate(&writer->details, writer->mark.details);
    store_intern_truncate(&writer->stacks, writer->mark.stacks);
    writer->in_transaction = false;
}

int store_begin(store *writer)
{
    if (writer->in_transaction)
        return writer->failed ? writer->failed
                              : tacho_fail(&writer->error, TACHO_EINTERNAL, NULL,
                                           "%s: a transaction is open already", writer->path);
    sqlite3_stmt *st = store_statement(writer, STORE_SQL_BEGIN);
    int code = st ? store_run_statement(writer, st, WRITING) : writer->failed;
    if (code)
        return code;
    writer->next.strings = writer->strings.count;
    writer->next.details = writer->details.count;
    writer->next.stacks = writer->stacks.count;
    writer->mark = writer->next;
    writer->in_transaction = true;
    return 0;
}

int store_flush(store *writer)
{
    struct store_batch *const batches[] = {&writer->slices, &writer->counters, &writer->aggregates,
                                           &writer->samples};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        int status = store_batch_flush(batches[i]);
        if (status != SQLITE_OK)
            return store_note(writer, sqlite3_extended_errcode(writer->db), WRITING);
    }
    return 0;
}

int store_commit(store *writer)
{
    if (!writer->in_transaction)
        return tacho_fail(&writer->error, TACHO_EINTERNAL, NULL, "%s: no transaction is open",
                          writer->path);
    int code = writer->failed ? writer->failed : store_flush(writer);
    if (!code) {
        sqlite3_stmt *st = store_statement(writer, STORE_SQL_COMMIT);
        code = st ? store_run_statement(writer, st, WRITING) : writer->failed;
    }
    /* a checkpoint that fails inside COMMIT is not an error of SQLite: the rows are in the WAL, the
     * next commit tries again */
    if (code) {
        writer_roll_back(writer, code);
        return code;
    }
    writer->in_transaction = false;
    writer->unsynced = true;
    return 0;
}

/* The frames of the WAL are enough: after a crash SQLite reads them back from there. A checkpoint
 * would do the same and more, but not while a reader holds an old state of the file. */
int store_sync_due(store *writer, int64_t now, int64_t interval)
{
    sqlite3_file *wal = NULL;
    if (writer->unsynced && !writer->unsynced_since)
        writer->unsynced_since = now;
    if (!writer->unsynced || now - writer->unsynced_since < interval / 4 * 3)
        return 0;
    errno = 0; /* see store_db_code */
    int status = sqlite3_file_control(writer->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal);
    if (status == SQLITE_OK && wal && wal->pMethods)
        status = wal->pMethods->xSync(wal, SQLITE_SYNC_NORMAL);
    if (status != SQLITE_OK)
        return store_note(writer, status, "cannot be synced");
    writer->unsynced = false;
    writer->unsynced_since = 0;
    return 0;
}

int64_t store_wal_bytes(const store *writer)
{
    struct stat st;
    char wal[sizeof writer->place.name + 8];
    snprintf(wal, sizeof wal, "%s-wal", writer->place.name);
    return fstatat(writer->place.folder, wal, &st, AT_SYMLINK_NOFOLLOW) ? 0 : st.st_size;
}

bool store_fold_wal(store *writer)
{
    sqlite3_busy_timeout(writer->db, 0);
    int status =
        sqlite3_wal_checkpoint_v2(writer->db, "main", SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    sqlite3_busy_timeout(writer->db, PATIENCE_MS);
    return status == SQLITE_OK;
}

int64_t store_bytes(const store *writer)
{
    struct stat st;
    bool there = !fstatat(writer->place.folder, writer->place.name, &st, AT_SYMLINK_NOFOLLOW);
    return (there ? st.st_size : 0) + store_wal_bytes(writer);
}
