/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens the SQLite database of a run, for reading or writing, and says in words what is wrong with
 * a file that cannot be opened.
 */
#include "store/db.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NEWEST_SCHEMA_FORMAT 4 /* of the header of an SQLite file */

/* Forward only. A file of version 1 read by a program of version 3 gets row 1, then row 2, the
 * first time it is opened for writing; readers know all older versions. */
const struct store_migration store_migrations[] = {
    {1, "ALTER TABLE step_aggregate ADD COLUMN steps INTEGER NOT NULL DEFAULT 1"}, {0, NULL}};

/* The errno of a failure. SQLite keeps it for opens and reads, but not for a COMMIT that could
 * not be written: then errno is still that of the failed call (callers set it to 0 before). */
static int system_errno(sqlite3 *db, int status)
{
    int now = errno;
    if ((status & 0xff) != SQLITE_IOERR && (status & 0xff) != SQLITE_CANTOPEN)
        return 0;
    int kept = db ? sqlite3_system_errno(db) : 0;
    return kept ? kept : now;
}

int store_db_code(sqlite3 *db, int status)
{
    int os = system_errno(db, status);
    switch (status & 0xff) {
    case SQLITE_OK:
    case SQLITE_DONE:
    case SQLITE_ROW:
        return 0;
    case SQLITE_NOMEM:
        return TACHO_ENOMEM;
    case SQLITE_FULL:
        return TACHO_ENOSPACE;
    case SQLITE_IOERR:
        return tacho_error_of_errno(os) == TACHO_ENOSPACE ? TACHO_ENOSPACE : TACHO_EIO;
    case SQLITE_CANTOPEN:
        return tacho_error_of_errno(os);
    case SQLITE_CORRUPT:
    case SQLITE_TOOBIG:
        return TACHO_ECORRUPT;
    case SQLITE_NOTADB:
        return TACHO_EFORMAT;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return TACHO_EBUSY;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return TACHO_EDENIED;
    default:
        return TACHO_EINTERNAL;
    }
}

/* What a user can do about a failure of the database. */
static const char *hint_for(int code)
{
    switch (code) {
    case TACHO_ENOSPACE:
        return "free some space, or write somewhere else (tacho run -o FILE)";
    case TACHO_ECORRUPT:
        return "to save what is readable: sqlite3 FILE .recover";
    case TACHO_EBUSY:
        return "another process is writing this file: wait for that process, or end it";
    case TACHO_EDENIED:
        return "check the permissions of the file and of its folder";
    case TACHO_EIO:
        return "the disk or filesystem reported an error: see the kernel log";
    default:
        return "";
    }
}

int store_db_fail(struct tacho_error *err, sqlite3 *db, int status, const char *path,
                  const char *doing)
{
    int os = system_errno(db, status), code = store_db_code(db, status);
    if (os)
        return tacho_fail(err, code, tacho_error_hint(os, hint_for(code)), "%s: %s: %s", path,
                          doing, strerror(os));
    if (code == TACHO_EINTERNAL && db)
        return tacho_fail(err, code, hint_for(code), "%s: %s: %s", path, doing, sqlite3_errmsg(db));
    return tacho_fail(err, code, hint_for(code), "%s: %s: %s", path, doing, tacho_error_text(code));
}

static const char import_hint[] = "for a trace of another tool: tacho import FILE -o RUN.tacho";

/* Files that users may try by mistake, by their first bytes, and what they are told. */
static const struct foreign {
    const char *magic;
    size_t bytes;
    const char *what, *hint;
} foreign[] = {
    {"{", 1, "a JSON file (a Kineto or Chrome trace?)", import_hint},
    {"[", 1, "a JSON file (a Chrome trace?)", import_hint},
    {"\x1f\x8b", 2, "a gzip file (a compressed trace?)", import_hint},
    {"NSYS", 4, "an Nsight Systems report (.nsys-rep)",
     "export it: nsys export --type sqlite FILE; tacho reads the .sqlite file"},
    {"QDSTRM", 6, "an Nsight Systems stream (.qdstrm)",
     "convert it with Nsight's QdstrmImporter, then: nsys export --type sqlite FILE"},
    {"PERFILE2", 8, "a perf.data file", "tacho does not read it: use 'perf report'"},
};

static int ends_with(const char *path, const char *suffix)
{
    size_t length = strlen(path), end = strlen(suffix);
    return length >= end && !strcmp(path + length - end, suffix);
}

/* Says what a file is that is not a database: empty, a trace of another tool, or something else. */
static int fail_not_sqlite(struct tacho_error *err, const char *path, const unsigned char *head,
                           int64_t bytes)
{
    if (bytes == 0)
        return tacho_fail(
            err, TACHO_EFORMAT,
            "nothing was recorded into it, or the recording is still in NAME.tacho.live",
            "%s: the file is empty", path);
    if (ends_with(path, ".nsys-rep"))
        return tacho_fail(err, TACHO_ENOTSUP, foreign[3].hint, "%s: this is %s", path,
                          foreign[3].what);
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if ((size_t)bytes >= foreign[i].bytes && !memcmp(head, foreign[i].magic, foreign[i].bytes))
            return tacho_fail(err, TACHO_ENOTSUP, foreign[i].hint, "%s: this is %s", path,
                              foreign[i].what);
    return tacho_fail(err, TACHO_EFORMAT, "give a .tacho file; 'tacho run -- CMD' records one",
                      "%s: not a .tacho file", path);
}

/* Says that a database is not a run, and whether it is an export of Nsight Systems. */
static int fail_foreign_sqlite(struct tacho_error *err, const char *path, sqlite3 *db)
{
    sqlite3_stmt *statement = NULL;
    int nsight = 0;
    if (sqlite3_prepare_v2(db,
                           "SELECT 1 FROM sqlite_master WHERE name IN "
                           "('StringIds','TARGET_INFO_SYSTEM_ENV') LIMIT 1",
                           -1, &statement, NULL) == SQLITE_OK)
        nsight = sqlite3_step(statement) == SQLITE_ROW;
    sqlite3_finalize(statement);
    if (nsight)
        return tacho_fail(err, TACHO_ENOTSUP, import_hint,
                          "%s: this is an Nsight Systems export (SQLite)", path);
    return tacho_fail(err, TACHO_EFORMAT, "give a .tacho file; 'tacho run -- CMD' records one",
                      "%s: an SQLite database, but not a .tacho file", path);
}

/* A big-endian number of the header. */
static uint32_t be32(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* Reads the file's own header through SQLite's descriptor: a second descriptor of this process
 * would, when closed, drop the POSIX locks that SQLite holds on the file. */
static int header_read(const char *path, sqlite3 *db, struct store_header *header,
                       struct tacho_error *err)
{
    unsigned char head[100] = {0};
    sqlite3_file *file = NULL;
    sqlite3_int64 bytes = 0;
    int status = sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    if (status != SQLITE_OK || !file || !file->pMethods)
        return tacho_fail(err, TACHO_EIO, "copy it to a local disk, and read it there",
                          "%s: cannot be read", path);
    status = file->pMethods->xFileSize(file, &bytes);
    if (status == SQLITE_OK && bytes)
        status = file->pMethods->xRead(file, head, sizeof head, 0);
    if (status != SQLITE_OK &&
        status != SQLITE_IOERR_SHORT_READ) /* a short read fills up with zeros */
        return store_db_fail(err, db, status, path, "cannot be read");
    if (bytes < 100 || memcmp(head, "SQLite format 3", 16))
        return fail_not_sqlite(err, path, head, bytes);
    if (be32(head + 44) > NEWEST_SCHEMA_FORMAT) /* SQLite has no result code of its own for it */
        return tacho_fail(err, TACHO_ECORRUPT, "copy it again, or record the run again",
                          "%s: damaged: its header names a schema format that SQLite does not have",
                          path);
    header->file_bytes = bytes;
    header->page_bytes = head[16] << 8 | head[17];
    if (header->page_bytes == 1)
        header->page_bytes = 65536;
    header->wal = head[19] == 2;
    header->changes = be32(head + 24);
    header->pages = be32(head + 28);
    header->user_version = be32(head + 60);
    header->application_id = be32(head + 68);
    return 0;
}

/* Fails if the file is not a run, is of a newer version, or was cut off. */
static int header_check(const char *path, sqlite3 *db, const struct store_header *header,
                        struct tacho_error *err)
{
    if (header->application_id != STORE_APPLICATION_ID)
        return fail_foreign_sqlite(err, path, db);
    if (header->user_version > STORE_SCHEMA_VERSION)
        return tacho_fail(
            err, TACHO_EVERSION, "update tacho, or read the file with the tacho that wrote it",
            "%s: written by a newer tacho (schema version %u, this one reads up to %d)", path,
            header->user_version, STORE_SCHEMA_VERSION);
    if (header->user_version < 1)
        return tacho_fail(err, TACHO_ECORRUPT, "copy it again, or record the run again",
                          "%s: damaged: it has no schema version", path);
    /* the page count of the header is exact in a finished file; in WAL mode pages may still be in
     * the WAL */
    if (!header->wal && header->file_bytes < header->pages * header->page_bytes)
        return tacho_fail(
            err, TACHO_ECORRUPT, "copy it again; to save what is readable: sqlite3 FILE .recover",
            "%s: damaged: cut off at %lld of %lld bytes", path, (long long)header->file_bytes,
            (long long)(header->pages * header->page_bytes));
    return 0;
}

/* Says why SQLite could not open the file. Called only after a failure. */
static int open_fail(const char *path, sqlite3 *db, int status, struct tacho_error *err)
{
    struct stat st;
    if (stat(path, &st)) {
        int code = tacho_error_of_errno(errno);
        return tacho_fail(err, code,
                          code == TACHO_ENOTFOUND
                              ? "'tacho run -- CMD' records one; 'latest' is the newest one"
                              : NULL,
                          "%s: %s", path, strerror(errno));
    }
    if (S_ISDIR(st.st_mode))
        return tacho_fail(err, TACHO_EFORMAT, "give the .tacho file, not a folder",
                          "%s: is a folder", path);
    if (!S_ISREG(st.st_mode))
        return tacho_fail(err, TACHO_EFORMAT,
                          "give a .tacho file; tacho does not read runs from a pipe or a device",
                          "%s: not a file", path);
    if (access(path, R_OK))
        return tacho_fail(err, TACHO_EDENIED, "check the permissions of the file", "%s: %s", path,
                          strerror(errno));
    return store_db_fail(err, db, status, path, "cannot be opened");
}

void store_db_harden(sqlite3 *db)
{
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_exec(db, "PRAGMA cell_size_check=ON; PRAGMA temp_store=MEMORY", NULL, NULL, NULL);
    sqlite3_busy_timeout(db, 5000);
}

/* Reads something, because SQLite opens a file only at the first read. */
static int first_read(sqlite3 *db)
{
    return sqlite3_exec(db, "SELECT 1 FROM sqlite_master LIMIT 1", NULL, NULL, NULL);
}

/* Opens it as immutable: nothing is written beside the file (read-only folder or medium, a file of
 * another user), where SQLite wants a -shm or a journal. If no WAL holds rows, the file alone is
 * complete. */
static int open_immutable(const char *path, const struct store_place *place, sqlite3 **db,
                          struct tacho_error *err)
{
    char wal[sizeof place->name + 8];
    struct stat st;
    snprintf(wal, sizeof wal, "%s-wal", place->name);
    if (!fstatat(place->folder, wal, &st, AT_SYMLINK_NOFOLLOW) && st.st_size > 0)
        return tacho_fail(err, TACHO_EDENIED,
                          "copy the folder to a place you can write to, and read it there",
                          "%s: unfinished, and its folder cannot be written to", path);
    sqlite3_close(*db);
    int status = store_sqlite_open(place, SQLITE_OPEN_READONLY, "?immutable=1", db);
    if (status == SQLITE_OK) {
        store_db_harden(*db);
        status = first_read(*db);
    }
    return status == SQLITE_OK ? 0 : store_db_fail(err, *db, status, path, "cannot be opened");
}

/* Reads the last bytes of a journal. A journal that belongs to a transaction over several databases
 * ends with the name of a super-journal and the magic number, and SQLite removes the file of that
 * name when it rolls the journal back. tacho never writes such a journal. */
static bool names_super_journal(int fd)
{
    static const unsigned char magic[8] = {0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7};
    unsigned char end[sizeof magic];
    off_t size = lseek(fd, 0, SEEK_END);
    return size >= (off_t)sizeof end &&
           (pread(fd, end, sizeof end, size - (off_t)sizeof end) != (ssize_t)sizeof end ||
            memcmp(end, magic, sizeof magic) == 0);
}

/* May SQLite roll back what lies in the journal beside the file? Only if file and journal are the
 * caller's, and the journal names no other file to remove. True without a journal. */
static bool journal_is_safe(const struct store_place *place)
{
    char journal[sizeof place->name + 16];
    struct stat file;
    snprintf(journal, sizeof journal, "%s-journal", place->name);
    int fd = store_file_open(place->folder, journal, O_RDONLY);
    if (fd < 0)
        return errno == ENOENT;
    bool safe = !fstatat(place->folder, place->name, &file, AT_SYMLINK_NOFOLLOW) &&
                file.st_uid == geteuid() && !names_super_journal(fd);
    close(fd);
    return safe;
}

static int journal_fail(const char *path, struct tacho_error *err)
{
    return tacho_fail(err, TACHO_EDENIED,
                      "let its owner open it once, or copy the .tacho file without the journal",
                      "%s: unfinished, and its journal belongs to another user", path);
}

/* A process died while it saved results: only a writer may roll its journal back. */
static void roll_back_journal(const struct store_place *place)
{
    sqlite3 *db = NULL;
    if (store_sqlite_open(place, SQLITE_OPEN_READWRITE, "", &db) == SQLITE_OK)
        first_read(db);
    sqlite3_close(db);
}

/* May SQLite make a WAL and its index beside the file, to read it? */
static bool may_write_beside(const struct store_place *place)
{
    struct stat file;
    return !place->is_led && !fstatat(place->folder, place->name, &file, AT_SYMLINK_NOFOLLOW) &&
           file.st_uid == geteuid();
}

/* Reads the schema for the first time, which opens what is beside the file. `safe`: its journal may
 * be rolled back. */
static int read_first(const char *path, const struct store_place *place, bool reads, bool safe,
                      sqlite3 **db, struct tacho_error *err)
{
    int status = first_read(*db);
    if (status == SQLITE_READONLY_ROLLBACK && reads) {
        if (!safe)
            return journal_fail(path, err);
        roll_back_journal(place);
        status = first_read(*db);
    }
    if (status == SQLITE_OK)
        return 0;
    bool is_refused = (status & 0xff) == SQLITE_CANTOPEN || (status & 0xff) == SQLITE_READONLY;
    /* a hot journal: the file alone is not consistent */
    if (reads && is_refused && status != SQLITE_READONLY_ROLLBACK)
        return open_immutable(path, place, db, err);
    return store_db_fail(err, *db, status, path, "cannot be read");
}

/* Opens the database and reads its header, but not yet what is beside it. */
static int open_and_look(const char *path, const struct store_place *place, bool reads,
                         sqlite3 **db, struct store_header *header, struct tacho_error *err)
{
    const char *options = reads && !may_write_beside(place) ? "?readonly_shm=1" : "";
    int status =
        store_sqlite_open(place, reads ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE, options, db);
    if (status != SQLITE_OK)
        return open_fail(path, *db, status, err);
    store_db_harden(*db);
    int code = header_read(path, *db, header, err);
    char wal[sizeof place->name + 8];
    snprintf(wal, sizeof wal, "%s-wal", place->name);
    if (code || !*options || !header->wal || !faccessat(place->folder, wal, F_OK, 0))
        return code;
    return open_immutable(path, place, db, err); /* SQLite would make the WAL */
}

int store_db_open(const char *path, const struct store_place *place, enum store_db_mode mode,
                  sqlite3 **out, struct store_header *header, struct tacho_error *err)
{
    sqlite3 *db = NULL;
    bool reads = mode == STORE_DB_READ;
    *out = NULL;
    if (place->folder < 0)
        return open_fail(path, NULL, SQLITE_CANTOPEN, err);
    /* Asked before SQLite opens anything: as root it gives a journal to the owner of the file. */
    bool safe = journal_is_safe(place);
    if (!safe && (!reads || geteuid() == 0))
        return journal_fail(path, err);
    int code = open_and_look(path, place, reads, &db, header, err);
    if (!code)
        code = read_first(path, place, reads, safe, &db, err);
    if (!code) /* the first read may have rolled back what a crash left half written */
        code = header_read(path, db, header, err);
    if (!code)
        code = header_check(path, db, header, err);
    if (!code && !store_sqlite_is_data(db))
        code =
            tacho_fail(err, TACHO_ECORRUPT, "do not use it: it was changed after it was recorded",
                       "%s: damaged: it has generated columns, which tacho never writes", path);
    if (!code && !reads && sqlite3_db_readonly(db, "main") == 1)
        code = tacho_fail(err, TACHO_EDENIED, "check the permissions of the file",
                          "%s: no permission to write to it", path);
    if (code)
        sqlite3_close(db);
    else
        *out = db;
    return code;
}

int store_db_migrate(sqlite3 *db, const struct store_migration *table, uint32_t from, uint32_t to)
{
    for (; from < to; from++) {
        const struct store_migration *migration = table;
        char version[64];
        while (migration->sql && migration->from != from)
            migration++;
        if (!migration->sql)
            return SQLITE_MISUSE;
        snprintf(version, sizeof version, "PRAGMA user_version=%u", from + 1);
        int status = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
        if (status == SQLITE_OK)
            status = sqlite3_exec(db, migration->sql, NULL, NULL, NULL);
        if (status == SQLITE_OK)
            status = sqlite3_exec(db, version, NULL, NULL, NULL);
        if (status == SQLITE_OK)
            status = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
        if (status != SQLITE_OK) {
            sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
            return status;
        }
    }
    return SQLITE_OK;
}
