/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens the SQLite database of another program.
 */
#include "store/import/input/database.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/import/input/input.h"

#define UNPACK_STEP (1 << 20)
#define VALUE_MAX   (64 << 20) /* bytes of a text or blob */
/* Instructions of SQLite's machine between two checks whether the user cancelled. */
#define STEPS_A_CHECK 100000

/* Instructions that all queries of a database may take: so many, and so many for each of its bytes.
 * Real ones take a few for a byte; pages of a damaged one can lead to each other, and a table of a
 * few pages then has more rows than any program has time for. */
#define STEPS_FREE   10000000
#define STEPS_A_BYTE 200

/* SQLite calls this now and then; non-zero stops a long query. */
static int on_progress(void *ctx)
{
    struct imp_database *database = ctx;
    database->stopped = database->stopped || imp_progress(database->run, 0) != 0;
    database->steps += STEPS_A_CHECK;
    return database->stopped || (database->steps_most && database->steps > database->steps_most);
}

/* Sets how many instructions queries may take. Pages that a log (-wal) holds count too. */
static void limit_steps(struct imp_database *database)
{
    sqlite3_stmt *st = NULL;
    sqlite3_prepare_v2(database->db,
                       "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size", -1,
                       &st, NULL);
    if (st && sqlite3_step(st) == SQLITE_ROW) {
        int64_t bytes = sqlite3_column_int64(st, 0);
        database->steps_most = database->steps + STEPS_FREE + STEPS_A_BYTE * bytes;
    }
    sqlite3_finalize(st);
}

/* Says why the database at `path` cannot be read; returns the code. */
static int fail(const struct imp_database *database, int status, const char *path,
                const char *again, struct tacho_error *err)
{
    char hint[200];
    if (status == SQLITE_NOMEM)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "%s: %s", path, tacho_error_text(TACHO_ENOMEM));
    if (status == SQLITE_NOTADB)
        return tacho_fail(err, TACHO_EFORMAT, again,
                          "%s: starts like an SQLite database, but is malformed", path);
    snprintf(hint, sizeof hint, "copy it again, or %s", again);
    if (status == SQLITE_CORRUPT)
        return tacho_fail(err, TACHO_ECORRUPT, hint, "%s: damaged SQLite database", path);
    return tacho_fail(err, TACHO_EIO, NULL, "%s: %s", path,
                      database->db ? sqlite3_errmsg(database->db) : sqlite3_errstr(status));
}

/* Something has to be read before SQLite looks at the file. */
static int first_read(sqlite3 *db)
{
    return sqlite3_exec(db, "SELECT count(*) FROM sqlite_master", NULL, NULL, NULL);
}

/* Opens the database with the limits of a file that is not trusted. */
static int try_open(struct imp_database *database, const char *options)
{
    sqlite3_close(database->db);
    database->db = NULL;
    int status = store_sqlite_open(&database->place, SQLITE_OPEN_READONLY, options, &database->db);
    if (status != SQLITE_OK)
        return status & 0xff;
    sqlite3_extended_result_codes(database->db, 0);
    sqlite3_db_config(database->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(database->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(database->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(database->db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_limit(database->db, SQLITE_LIMIT_LENGTH, VALUE_MAX);
    sqlite3_limit(database->db, SQLITE_LIMIT_ATTACHED, 0);
    sqlite3_limit(database->db, SQLITE_LIMIT_WORKER_THREADS, 0);
    sqlite3_exec(database->db, "PRAGMA cell_size_check=ON; PRAGMA temp_store=MEMORY", NULL, NULL,
                 NULL);
    sqlite3_progress_handler(database->db, STEPS_A_CHECK, on_progress, database);
    return first_read(database->db);
}

static uint32_t be32(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* Is the file shorter than its header says? The header counts pages in its bytes 28 to 31, if it
 * was written last by a program that counts them: then 24 to 27 are 92 to 95. */
static bool is_cut(struct imp_database *database)
{
    unsigned char head[100];
    sqlite3_file *file = NULL;
    sqlite3_int64 bytes = 0;
    sqlite3_file_control(database->db, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    if (!file || !file->pMethods || file->pMethods->xFileSize(file, &bytes) != SQLITE_OK ||
        file->pMethods->xRead(file, head, sizeof head, 0) != SQLITE_OK ||
        memcmp(head + 24, head + 92, 4) != 0)
        return false;
    database->page = head[16] << 8 | head[17];
    if (database->page == 1)
        database->page = 65536; /* which two bytes cannot say */
    database->pages = be32(head + 28);
    database->missing = database->page ? database->pages - bytes / database->page : 0;
    return database->missing > 0;
}

/* The size of a file without the page in which it was cut: SQLite would take the rest of that for
 * zeros. */
static int size_of_cut(sqlite3_file *file, sqlite3_int64 *bytes)
{
    const struct imp_database *database =
        (const void *)((const char *)file->pMethods - offsetof(struct imp_database, methods));
    int status = database->whole->xFileSize(file, bytes);
    if (status == SQLITE_OK)
        *bytes -= *bytes % database->page;
    return status;
}

/* Lets SQLite read a file that was cut off: it takes the size of the file for that of the database
 * where the schema may be written, which the connection, for reading, cannot. A table whose first
 * page is gone makes the first reading fail; then the others are known. */
static int open_cut(struct imp_database *database)
{
    sqlite3_file *file = NULL;
    sqlite3_file_control(database->db, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    database->whole = file->pMethods;
    database->methods = *database->whole;
    database->methods.xFileSize = size_of_cut;
    if (database->methods.iVersion > 3)
        database->methods.iVersion = 3; /* all that is copied */
    file->pMethods = &database->methods;
    sqlite3_db_config(database->db, SQLITE_DBCONFIG_DEFENSIVE, 0, NULL);
    sqlite3_db_config(database->db, SQLITE_DBCONFIG_WRITABLE_SCHEMA, 1, NULL);
    int status = first_read(database->db);
    return status == SQLITE_OK ? status : first_read(database->db);
}

/* Is there a log (-wal) beside it? What it holds is not in the file yet: its program was killed, or
 * still writes. */
static bool has_log(const struct store_place *place)
{
    char name[sizeof place->name + 8];
    struct stat stat;
    snprintf(name, sizeof name, "%s-wal", place->name);
    return !fstatat(place->folder, name, &stat, AT_SYMLINK_NOFOLLOW) && stat.st_size > 0;
}

/* Opens a database that is not compressed. */
static int open_plain(struct imp_database *database, const char *path, const char *again,
                      struct tacho_error *err)
{
    if (store_place_find(path, true, &database->place) != 0)
        return fail(database, SQLITE_CANTOPEN, path, again, err);
    database->placed = true;
    int status = try_open(database, "");
    /* In WAL mode a database in a folder that cannot be written only opens as immutable, which
     * leaves its log out. */
    if (status == SQLITE_CANTOPEN || status == SQLITE_READONLY) {
        status = try_open(database, "?immutable=1");
        database->without_log = has_log(&database->place);
    }
    if (status == SQLITE_CORRUPT && !database->stopped && is_cut(database))
        status = open_cut(database);
    if (status == SQLITE_OK && !store_sqlite_is_data(database->db))
        return tacho_fail(err, TACHO_EFORMAT, again,
                          "%s: an SQLite database with generated columns, which no profiler writes",
                          path);
    if (status == SQLITE_OK) {
        limit_steps(database);
        return 0;
    }
    database->missing = 0;
    return database->stopped ? TACHO_EINTERRUPTED : fail(database, status, path, again, err);
}

/* 0 or an errno. */
static int write_all(int fd, const char *data, size_t bytes)
{
    while (bytes) {
        ssize_t written = write(fd, data, bytes);
        if (written < 0 && errno != EINTR)
            return errno;
        if (written > 0) {
            data += written;
            bytes -= (size_t)written;
        }
    }
    return 0;
}

/* Decompresses `in` into a new file below TMPDIR and writes its path to `name`. Data that was cut
 * off is kept as far as it goes. */
static int unpack(struct imp_database *database, struct imp_input *in, char *name, size_t size,
                  struct tacho_error *err)
{
    const char *tmp = getenv("TMPDIR");
    char *buffer = malloc(UNPACK_STEP);
    size_t got = 1;
    int code = buffer ? 0 : TACHO_ENOMEM, os = 0, fd = -1;
    snprintf(name, size, "%s/tacho-import-XXXXXX", tmp && *tmp == '/' ? tmp : "/tmp");
    if (!code && (fd = mkstemp(name)) < 0)
        os = errno;
    while (!code && !os && got) {
        code = imp_input_read(in, buffer, UNPACK_STEP, &got, err);
        if (!code)
            os = write_all(fd, buffer, got);
        if (!code && imp_progress(database->run, 0))
            code = TACHO_EINTERRUPTED;
    }
    if (fd >= 0 && close(fd) && !os)
        os = errno;
    free(buffer);
    if (!code && imp_input_truncated(in)) {
        database->cut = true;
        database->run->truncated = true;
    }
    if (os)
        code = tacho_fail(err, os == ENOSPC || os == EDQUOT ? TACHO_ENOSPACE : TACHO_EIO,
                          "TMPDIR names the folder that compressed exports are unpacked into",
                          "%s: %s", name, strerror(os));
    if (code && fd >= 0)
        unlink(name);
    return code;
}

int imp_database_open(struct imp_database *database, struct imp_run *run, const char *path,
                      const char *again, struct tacho_error *err)
{
    struct imp_input *in = NULL;
    char name[4096], hint[200];
    *database = (struct imp_database){.run = run};
    int code = imp_input_open(path, &in, err);
    if (code)
        return code;
    if (!imp_input_is_gzip(in)) {
        imp_input_close(in);
        return open_plain(database, path, again, err);
    }
    code = unpack(database, in, name, sizeof name, err);
    imp_input_close(in);
    if (code)
        return code;
    code = open_plain(database, name, again, err); /* it stays open, so its name can go */
    unlink(name);
    snprintf(hint, sizeof hint, "copy it again, or %s", again);
    if (code && code != TACHO_EINTERRUPTED && code != TACHO_ENOMEM)
        code = tacho_fail(err, code, hint,
                          "%s: a compressed SQLite database that is damaged or cut off", path);
    return code;
}

int imp_database_losses(struct imp_database *database)
{
    int code = 0;
    if (database->cut)
        code = imp_loss(database->run, "gzip data ends early or is damaged", 1);
    if (database->missing && !code)
        code = imp_loss(database->run, "database page missing: the file was cut off",
                        database->missing);
    if (database->without_log && !code)
        code = imp_loss(database->run, "log beside the database (-wal) was not read", 1);
    database->run->truncated |= database->missing > 0 || database->without_log;
    return code;
}

void imp_database_close(struct imp_database *database)
{
    sqlite3_close(database->db);
    if (database->placed)
        store_place_close(&database->place);
    database->db = NULL;
    database->placed = false;
}
