/* SPDX-License-Identifier: Apache-2.0
 *
 * What SQLite opens. It gets names of the form /proc/self/fd/FOLDER/NAME, which lead into the
 * folder that is held open, whatever its path leads to by now. Each file is checked on the
 * descriptor that SQLite will use: a WAL, its index or a journal is written only if it is the
 * caller's, plain and without a second name, and made only beside the caller's database. Without
 * this root would write, truncate and give away whatever another user put under these names.
 */
#include "store/sqlite_open.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SELF    "/proc/self"
#define FOLDERS SELF "/fd/"

void store_place_spell(const struct store_place *place, const char *suffix,
                       char text[STORE_SPELLED])
{
    snprintf(text, STORE_SPELLED, FOLDERS "%d/%.255s%s", place->folder, place->name, suffix);
}

/* Splits what store_place_spell() has put together; false: another path. */
static bool read_spelled(const char *path, int *folder, const char **name)
{
    char *end;
    if (strncmp(path, FOLDERS, strlen(FOLDERS)) != 0)
        return false;
    *folder = (int)strtol(path + strlen(FOLDERS), &end, 10);
    *name = *end == '/' ? end + 1 : "."; /* SQLite syncs the folder too */
    return *end == '/' || !*end;
}

/* Bytes of the database's own name, 0: it is no file beside a database. */
static size_t beside(const char *name)
{
    static const char *const suffix[] = {"-wal", "-shm", "-journal"};
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof suffix / sizeof *suffix; i++)
        if (length > strlen(suffix[i]) && !strcmp(name + length - strlen(suffix[i]), suffix[i]))
            return length - strlen(suffix[i]);
    return 0;
}

/* Does the database that the file is beside of belong to the user? */
static bool is_beside_file_of(int folder, const char *name, uid_t user)
{
    char database[256];
    struct stat stat;
    snprintf(database, sizeof database, "%.*s", (int)beside(name), name);
    return fstatat(folder, database, &stat, AT_SYMLINK_NOFOLLOW) == 0 && stat.st_uid == user;
}

/* A reader makes a WAL and its index too; only who writes makes a journal. */
static bool may_make(int folder, const char *name)
{
    return !beside(name) || strstr(name, "-journal") || is_beside_file_of(folder, name, geteuid());
}

/* May SQLite use the file as it wants to? */
static bool is_allowed(int fd, int folder, const char *name, bool writes)
{
    struct stat stat;
    if (fstat(fd, &stat) != 0)
        return false;
    if (!strcmp(name, "."))
        return S_ISDIR(stat.st_mode) && !writes;
    if (!S_ISREG(stat.st_mode) || !beside(name))
        return S_ISREG(stat.st_mode);
    return is_beside_file_of(folder, name, stat.st_uid) && (!writes || store_stat_is_own(&stat));
}

/* Takes the place of open(). EACCES is what a user without root's rights would get, and SQLite goes
 * on with it as for that user: it reads what it may. */
static int checked_open(const char *path, int flags, int mode)
{
    int folder;
    const char *name;
    bool writes = (flags & O_ACCMODE) != O_RDONLY;
    if (!read_spelled(path, &folder, &name))
        return open(path, flags | O_CLOEXEC, mode);
    int safe = (flags & ~O_CREAT) | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    int fd = openat(folder, name, safe);
    if (fd < 0 && errno == ENOENT && (flags & O_CREAT) && may_make(folder, name))
        return openat(folder, name, safe | O_CREAT | O_EXCL, mode);
    if (fd < 0 || is_allowed(fd, folder, name, writes))
        return fd;
    close(fd);
    errno = EACCES;
    return -1;
}

/* Takes the place of stat() and lstat(): SQLite replaces links in a path by what they lead to, and
 * /proc/self and the descriptors look like links. */
static int folder_stat(const char *path, struct stat *out)
{
    int folder;
    const char *name;
    if (read_spelled(path, &folder, &name))
        return fstatat(folder, name, out, AT_SYMLINK_NOFOLLOW);
    return strcmp(path, SELF) == 0 ? stat(path, out) : lstat(path, out);
}

static int folder_access(const char *path, int mode)
{
    int folder;
    const char *name;
    return read_spelled(path, &folder, &name) ? faccessat(folder, name, mode, 0)
                                              : access(path, mode);
}

static int folder_unlink(const char *path)
{
    int folder;
    const char *name;
    return read_spelled(path, &folder, &name) ? unlinkat(folder, name, 0) : unlink(path);
}

static void replace_calls(void)
{
    static const struct {
        const char *name;
        sqlite3_syscall_ptr call;
    } ours[] = {
        {"open", (sqlite3_syscall_ptr)checked_open},
        {"stat", (sqlite3_syscall_ptr)folder_stat},
        {"lstat", (sqlite3_syscall_ptr)folder_stat},
        {"access", (sqlite3_syscall_ptr)folder_access},
        {"unlink", (sqlite3_syscall_ptr)folder_unlink},
    };
    sqlite3_vfs *vfs = sqlite3_vfs_find("unix");
    for (size_t i = 0; vfs && vfs->xSetSystemCall && i < sizeof ours / sizeof *ours; i++)
        vfs->xSetSystemCall(vfs, ours[i].name, ours[i].call);
}

/* A file: URI, so that options can be added. Bytes that mean something in a URI are escaped. */
static void uri_of(const struct store_place *place, const char *options,
                   char uri[3 * STORE_SPELLED + 64])
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./";
    char path[STORE_SPELLED];
    store_place_spell(place, "", path);
    uri += sprintf(uri, "file://");
    for (const char *letter = path; *letter; letter++)
        if (strchr(plain, *letter))
            *uri++ = *letter;
        else
            uri += sprintf(uri, "%%%02X", (unsigned char)*letter);
    strcpy(uri, options);
}

int store_sqlite_open(const struct store_place *place, int flags, const char *options,
                      sqlite3 **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char uri[3 * STORE_SPELLED + 64];
    pthread_once(&once, replace_calls);
    uri_of(place, options, uri);
    int status = sqlite3_open_v2(uri, out, flags | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, NULL);
    if (*out)
        sqlite3_extended_result_codes(*out, 1);
    return status;
}

/* Does a query, if this SQLite knows what it names, find a row? */
static bool finds(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *st = NULL;
    sqlite3_prepare_v2(db, sql, -1, &st, NULL);
    bool any = st && sqlite3_step(st) == SQLITE_ROW;
    sqlite3_finalize(st);
    return any;
}

/* Where the schema may be written (database.c of the importers) SQLite does not compare what a row
 * of it says of itself with the table that its text makes: the tables as they are asked for. That
 * is possible from SQLite 3.37 on. */
bool store_sqlite_is_data(sqlite3 *db)
{
    static const char listed[] =
        "SELECT 1 FROM pragma_table_list l, pragma_table_xinfo(l.name) x WHERE l.schema='main' AND "
        "l.type IN ('table','shadow') AND x.hidden IN (2,3) LIMIT 1";
    static const char in_schema[] =
        "SELECT 1 FROM sqlite_master m, pragma_table_xinfo(m.name) x WHERE m.type='table' AND "
        "m.sql NOT LIKE 'CREATE VIRTUAL%' AND x.hidden IN (2,3) LIMIT 1";
    static const char *kept[] = {"json_each", "json_tree", NULL}; /* no table can be made of them */
    sqlite3_drop_modules(db, kept);
    return !finds(db, listed) && !finds(db, in_schema);
}
