/* SPDX-License-Identifier: Apache-2.0
 *
 * The writing handle: its life and its transactions. rows.c has one function a table.
 *
 * Choices, measured on one core of the development machine (virtual machine, ext4 on a virtual
 * disk, SQLite 3.40.1): batch        see batch.c: 2.42 M slices/s instead of 1.19 with a statement
 * a row. page_size    4096: 2.3-2.5 M rows/s; 16384: 5 % faster; 65536: half as fast with 100 rows
 * a commit, because each commit writes whole pages. An empty file has 22 pages, so small runs
 * decide: 88 KiB against 350 KiB. synchronous  NORMAL: 2.17-2.24 M rows/s, OFF: 2.3-2.4. NORMAL
 * syncs at checkpoints only, and a file that was being written when the machine lost power is not
 * damaged (it may miss its last commits). kill -9 loses nothing either way. checkpoint   every 4
 * MiB of WAL: as fast as every 1, 16 or 64 MiB (within 5 %). The file grows at checkpoints only, so
 * this is also how much room a full disk must still have for the file to be finished.
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

#define STORE_TEXT_(x) #x
#define STORE_TEXT(x)  STORE_TEXT_(x)

static const char schema_sql[] =
#include "schema.inc"
    ;
static const char live_sql[] =
    "CREATE TABLE live_position(pool TEXT,segment INTEGER,generation INTEGER NOT NULL,bytes "
    "INTEGER "
    "NOT NULL,PRIMARY KEY(pool,segment)) WITHOUT ROWID;"
    "CREATE TABLE live_state(key TEXT PRIMARY KEY,value BLOB NOT NULL) WITHOUT ROWID;";
static const char live_pragmas[] = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
                                   "PRAGMA journal_size_limit=16777216; PRAGMA cache_size=-8192";

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

int store_note(store *s, int rc, const char *doing)
{
    int code = store_db_fail(&s->error, s->db, rc, s->path, doing);
    if (!s->failed)
        s->failed = code;
    return code;
}

sqlite3_stmt *store_statement(store *s, enum store_statement which)
{
    if (!s->in_transaction) /* alone a statement is its own transaction, so an old failure does not
                               touch it */
        s->failed = 0;
    if (s->failed)
        return NULL;
    if (!s->statement[which]) {
        int rc = sqlite3_prepare_v3(s->db, statement_sql[which], -1, SQLITE_PREPARE_PERSISTENT,
                                    &s->statement[which], NULL);
        if (rc != SQLITE_OK) {
            store_note(s, rc, "cannot be written");
            return NULL;
        }
    }
    return s->statement[which];
}

int store_run_statement(store *s, sqlite3_stmt *st, const char *doing)
{
    errno = 0; /* see store_db_code */
    int rc = sqlite3_step(st);
    if (rc == SQLITE_DONE || rc == SQLITE_ROW) {
        sqlite3_reset(st);
        return 0;
    }
    int code = store_note(s, sqlite3_extended_errcode(s->db), doing);
    sqlite3_reset(st);
    return code;
}

int store_exec(store *s, const char *sql, const char *doing)
{
    errno = 0;
    int rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0 : store_note(s, sqlite3_extended_errcode(s->db), doing);
}

const struct tacho_error *store_error(const store *s)
{
    return &s->error;
}

/* ---- life -------------------------------------------------------------------------------------------------------------- */

/* The WAL may take 4 MiB, and no more than a sixteenth of what is free where there is little room.
 */
static void checkpoint_limit(store *s)
{
    struct statvfs fs;
    int pages = 1024;
    if (!statvfs(s->path, &fs) && fs.f_bavail * fs.f_frsize / 4096 / 16 < 1024)
        pages = (int)(fs.f_bavail * fs.f_frsize / 4096 / 16);
    sqlite3_wal_autocheckpoint(s->db, pages < 16 ? 16 : pages);
}

static int writer_open(store *s)
{
    checkpoint_limit(s);
    s->slices = (struct store_batch){.table = "slice", .columns = "iiiiiiii"};
    s->counters = (struct store_batch){.table = "counter", .columns = "iiid"};
    s->samples = (struct store_batch){.table = "sample", .columns = "iiii"};
    s->aggregates = (struct store_batch){.table = "step_aggregate", .columns = "iiiiiiiii"};
    struct store_batch *const batches[] = {&s->slices, &s->counters, &s->aggregates, &s->samples};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        int rc = store_batch_open(batches[i], s->db);
        if (rc != SQLITE_OK)
            return store_note(s, rc, "cannot be written");
    }
    return 0;
}

static store *writer_new(const char *path)
{
    store *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->path = strdup(path);
    s->wal_path = malloc(strlen(path) + 5);
    if (!s->path || !s->wal_path) {
        store_close(s);
        return NULL;
    }
    sprintf(s->wal_path, "%s-wal", path);
    return s;
}

void store_close(store *s)
{
    if (!s)
        return;
    store_batch_close(&s->slices);
    store_batch_close(&s->counters);
    store_batch_close(&s->samples);
    store_batch_close(&s->aggregates);
    for (int i = 0; i < STORE_SQL_COUNT; i++)
        sqlite3_finalize(s->statement[i]);
    sqlite3_close(s->db); /* rolls back */
    store_intern_clear(&s->strings);
    store_intern_clear(&s->details);
    store_intern_clear(&s->stacks);
    free(s->key);
    free(s->path);
    free(s->wal_path);
    free(s);
}

/* Hands the error of a handle that never got to its user over to *err. */
static int writer_give_up(store *s, int code, struct tacho_error *err)
{
    if (err && s->error.code == code)
        *err = s->error;
    store_close(s);
    return code;
}

static int writer_create(const char *path, const char *pragmas, store **out,
                         struct tacho_error *err)
{
    char version[128];
    *out = NULL;
    store *s = writer_new(path);
    if (!s)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", path);
    /* O_EXCL: an existing file is never touched, not even for a moment */
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    int code = 0;
    if (fd < 0) {
        code = errno == EEXIST                                       ? TACHO_EEXISTS
               : errno == ENOENT || errno == ENOTDIR                 ? TACHO_ENOTFOUND
               : errno == EACCES || errno == EROFS || errno == EPERM ? TACHO_EDENIED
               : errno == ENOSPC || errno == EDQUOT                  ? TACHO_ENOSPACE
                                                                     : TACHO_EIO;
        store_close(s);
        return tacho_fail(err, code, "give another name or folder with -o FILE", "%s: %s", path,
                          strerror(errno));
    }
    close(fd);
    int rc = sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    sqlite3_extended_result_codes(s->db, 1);
    if (rc != SQLITE_OK)
        code = store_note(s, rc, "cannot be created");
    sqlite3_busy_timeout(s->db, 5000);
    /* the tables are made before WAL is switched on, so that they stand in the file itself whatever
     * happens next */
    snprintf(version, sizeof version, "PRAGMA application_id=%d; PRAGMA user_version=%d",
             STORE_APPLICATION_ID, STORE_SCHEMA_VERSION);
    if (!code)
        code = store_exec(s, "PRAGMA page_size=4096; PRAGMA temp_store=MEMORY; BEGIN",
                          "cannot be created");
    if (!code)
        code = store_exec(s, version, "cannot be created");
    if (!code)
        code = store_exec(s, schema_sql, "cannot be created");
    if (!code)
        code = store_exec(s, live_sql, "cannot be created");
    if (!code)
        code = store_exec(s, "COMMIT", "cannot be created");
    if (!code)
        code = store_exec(s, pragmas, "cannot be created");
    if (!code)
        code = writer_open(s);
    if (code) {
        unlink(path); /* made by this call, so nothing of the user's is lost */
        return writer_give_up(s, code, err);
    }
    s->next = (struct store_mark){.slice = 1, .process = 1, .track = 1};
    s->failed = 0;
    *out = s;
    return 0;
}

int store_create(const char *path, store **out, struct tacho_error *err)
{
    return writer_create(path, live_pragmas, out, err);
}

int store_create_private(const char *path, store **out, struct tacho_error *err)
{
    return writer_create(path, private_pragmas, out, err);
}

/* ---- opening again ------------------------------------------------------------------------------------------------------ */

static int load_next(store *s, const char *sql, int64_t *next)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(s->db, sql, -1, &st, NULL);
    if (rc == SQLITE_OK && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        *next = sqlite3_column_int64(st, 0) + 1;
        rc = SQLITE_OK;
    }
    sqlite3_finalize(st);
    return rc == SQLITE_OK ? 0 : store_note(s, rc, "cannot be read");
}

/* Strings, details and stacks have dense ids from 1 (nothing else is ever written), so their order
 * gives their id. */
static int load_strings(store *s)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(s->db, "SELECT id, text FROM string ORDER BY id", -1, &st, NULL);
    while (rc == SQLITE_OK && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        int64_t id;
        bool added;
        const void *text = sqlite3_column_text(st, 1);
        rc = store_intern_put(&s->strings, text ? text : "", (size_t)sqlite3_column_bytes(st, 1),
                              &id, &added)
                 ? SQLITE_NOMEM
             : id == sqlite3_column_int64(st, 0) ? SQLITE_OK
                                                 : SQLITE_CORRUPT;
    }
    sqlite3_finalize(st);
    return rc == SQLITE_DONE ? 0 : store_note(s, rc, "cannot be read");
}

struct detail_load {
    store *s;
    int code;
};

static int load_detail(void *ctx, const struct store_detail *detail)
{
    struct detail_load *detail_load = ctx;
    int64_t id;
    bool added;
    detail_load->code = store_detail_key(detail_load->s, detail);
    if (!detail_load->code)
        detail_load->code = store_intern_put(&detail_load->s->details, detail_load->s->key,
                                             detail_load->s->key_used, &id, &added);
    if (!detail_load->code && id != detail->id)
        detail_load->code = store_note(detail_load->s, SQLITE_CORRUPT, "cannot be read");
    return detail_load->code;
}

static int load_stacks(store *s)
{
    sqlite3_stmt *st = NULL;
    int rc =
        sqlite3_prepare_v2(s->db, "SELECT id, parent, frame FROM stack ORDER BY id", -1, &st, NULL);
    while (rc == SQLITE_OK && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        bool no_parent = sqlite3_column_type(st, 1) == SQLITE_NULL, added;
        int64_t id, key[2] = {no_parent ? STORE_ABSENT : sqlite3_column_int64(st, 1),
                              sqlite3_column_int64(st, 2)};
        rc = store_intern_put(&s->stacks, key, sizeof key, &id, &added) ? SQLITE_NOMEM
             : id == sqlite3_column_int64(st, 0)                        ? SQLITE_OK
                                                                        : SQLITE_CORRUPT;
    }
    sqlite3_finalize(st);
    return rc == SQLITE_DONE ? 0 : store_note(s, rc, "cannot be read");
}

static int writer_load(store *s)
{
    struct detail_load detail_load = {.s = s};
    int code = load_strings(s);
    if (!code) {
        int stopped, rc = store_scan_details(s->db, 1, load_detail, &detail_load, &stopped);
        code = detail_load.code  ? detail_load.code
               : rc != SQLITE_OK ? store_note(s, rc, "cannot be read")
                                 : 0;
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

static int writer_open_existing(const char *path, bool live, store **out, struct tacho_error *err)
{
    struct store_header header;
    *out = NULL;
    store *s = writer_new(path);
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
        code = store_exec(s, live_pragmas, "cannot be opened");
    if (!code && live) /* a finished file is no live store */
        code =
            sqlite3_table_column_metadata(s->db, "main", "live_position", NULL, NULL, NULL, NULL,
                                          NULL, NULL) == SQLITE_OK
                ? 0
                : tacho_fail(&s->error, TACHO_EEXISTS, "nothing to do: read it with 'tacho report'",
                             "%s: finished already", path);
    if (!code)
        code = writer_open(s);
    if (!code && live)
        code = writer_load(s);
    if (code)
        return writer_give_up(s, code, err);
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

/* ---- transactions ------------------------------------------------------------------------------------------------------ */

/* After a failure the file is as it was at store_begin; what is kept in memory has to follow. */
static void writer_roll_back(store *s, int code)
{
    if (!sqlite3_get_autocommit(s->db))
        sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    if (code == TACHO_ENOSPACE) /* the WAL holds a page as often as it was committed: folding it in
                                   gives room back */
        sqlite3_wal_checkpoint_v2(s->db, "main", SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    s->slices.rows = s->counters.rows = s->aggregates.rows = s->samples.rows = 0;
    s->next = s->mark;
    store_intern_truncate(&s->strings, s->mark.strings);
    store_intern_truncate(&s->details, s->mark.details);
    store_intern_truncate(&s->stacks, s->mark.stacks);
    s->in_transaction = false;
}

int store_begin(store *s)
{
    if (s->in_transaction)
        return s->failed ? s->failed
                         : tacho_fail(&s->error, TACHO_EINTERNAL, NULL,
                                      "%s: a transaction is open already", s->path);
    sqlite3_stmt *st = store_statement(s, STORE_SQL_BEGIN);
    int code = st ? store_run_statement(s, st, "cannot be written") : s->failed;
    if (code)
        return code;
    s->next.strings = s->strings.count;
    s->next.details = s->details.count;
    s->next.stacks = s->stacks.count;
    s->mark = s->next;
    s->in_transaction = true;
    return 0;
}

int store_flush(store *s)
{
    struct store_batch *const batches[] = {&s->slices, &s->counters, &s->aggregates, &s->samples};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        int rc = store_batch_flush(batches[i]);
        if (rc != SQLITE_OK)
            return store_note(s, sqlite3_extended_errcode(s->db), "cannot be written");
    }
    return 0;
}

int store_commit(store *s)
{
    if (!s->in_transaction)
        return tacho_fail(&s->error, TACHO_EINTERNAL, NULL, "%s: no transaction is open", s->path);
    int code = s->failed ? s->failed : store_flush(s);
    if (!code) {
        sqlite3_stmt *st = store_statement(s, STORE_SQL_COMMIT);
        code = st ? store_run_statement(s, st, "cannot be written") : s->failed;
    }
    /* a checkpoint that fails inside COMMIT is not an error of SQLite: the rows are in the WAL, the
     * next commit tries again */
    if (code) {
        writer_roll_back(s, code);
        return code;
    }
    s->in_transaction = false;
    return 0;
}

int64_t store_bytes(const store *s)
{
    struct stat st;
    int64_t bytes = 0;
    if (!stat(s->path, &st))
        bytes += st.st_size;
    if (!stat(s->wal_path, &st))
        bytes += st.st_size;
    return bytes;
}
