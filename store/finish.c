/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a recording: one clean file, published under its final name.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/db.h"
#include "store/writer.h"

/* ---- finish ------------------------------------------------------------------------------------------------------------ */

/* Drops the bookkeeping and folds the WAL in. */
static int fold(store *writer)
{
    /* first, because on a full disk it makes the room that the rest needs; journal_mode=DELETE
     * reports if it failed */
    sqlite3_wal_checkpoint_v2(writer->db, "main", SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    int code =
        store_exec(writer, "DROP TABLE IF EXISTS live_position; DROP TABLE IF EXISTS live_state",
                   "cannot be finished");
    if (code)
        return code;
    return store_exec(writer, "PRAGMA synchronous=FULL; PRAGMA journal_mode=DELETE",
                      "cannot be finished");
}

/* A name beside that of the place. */
static const char *beside(const struct store_place *place, const char *suffix, char name[300])
{
    snprintf(name, 300, "%.255s%s", place->name, suffix);
    return name;
}

/* Puts a complete, synced copy in the place of the live file. The WAL goes first, and for good: it
 * must never be read back into the copy. 0 or a negative errno. */
static int copy_takes_place(const struct store_place *place)
{
    char name[300];
    unlinkat(place->folder, beside(place, "-wal", name), 0);
    unlinkat(place->folder, beside(place, "-shm", name), 0);
    int status = store_file_sync(place->folder, ".");
    if (status == 0 && renameat(place->folder, beside(place, STORE_FINISH_SUFFIX, name),
                                place->folder, place->name))
        status = -errno;
    return status ? status : store_file_sync(place->folder, ".");
}

/* Another process reads the live file and keeps it open, so its WAL cannot be folded in. A copy of
 * what is committed takes its place; the reader keeps the old file, which no longer has a name. */
static int fold_copy(store *writer)
{
    const struct store_place *place = &writer->place;
    char copy[STORE_SPELLED], name[300], wal[300];
    int status = 0;
    beside(place, STORE_FINISH_SUFFIX, name);
    store_place_spell(place, STORE_FINISH_SUFFIX, copy);
    unlinkat(place->folder, name, 0);
    char *sql = sqlite3_mprintf("VACUUM INTO %Q", copy);
    int code = sql ? store_exec(writer, sql, "cannot be finished") : TACHO_ENOMEM;
    sqlite3_free(sql);
    if (!code && (status = store_file_sync(place->folder, name)) == 0 &&
        (status = store_file_sync(place->folder, ".")) == 0)
        status = copy_takes_place(place);
    if (status)
        code = tacho_fail(&writer->error, tacho_error_of_errno(-status), NULL,
                          "%s: cannot be finished: %s", writer->path, strerror(-status));
    if (code && faccessat(place->folder, beside(place, "-wal", wal), F_OK, 0) == 0)
        unlinkat(place->folder, name, 0); /* without a WAL the copy is all there is */
    return code;
}

int store_finish_again(const struct store_place *place)
{
    char copy[300], wal[300];
    if (!store_file_is_own(place->folder, beside(place, STORE_FINISH_SUFFIX, copy)) ||
        !faccessat(place->folder, beside(place, "-wal", wal), F_OK, 0))
        return 0;
    int status = copy_takes_place(place);
    return status ? tacho_error_of_errno(-status) : 0;
}

int store_finish(store *writer, struct tacho_error *err)
{
    int code = 0;
    if (writer->in_transaction)
        code = store_commit(writer);
    if (code)
        goto out;
    sqlite3_busy_timeout(writer->db, 500);
    code = fold(writer);
    if (code == TACHO_EBUSY) {
        writer->failed = 0;
        code = fold_copy(writer);
    }
out:;
    struct tacho_error failure = writer->error;
    struct store_place place = writer->place;
    char *path = writer->path;
    writer->path = NULL;
    writer->place.folder = -1;
    store_close(writer); /* before the file is opened again: closing any descriptor of it drops
                            SQLite's locks */
    int status = code ? 0 : store_file_sync(place.folder, place.name);
    if (status)
        code = tacho_fail(&failure, TACHO_EIO, NULL, "%s: cannot be synced: %s", path,
                          strerror(-status));
    if (code && err)
        *err = failure;
    store_place_close(&place);
    free(path);
    return code;
}

/* ---- publish ----------------------------------------------------------------------------------------------------------- */

static int publish_fail(struct tacho_error *err, const char *path, int os)
{
    int code = tacho_error_of_errno(os);
    return tacho_fail(
        err, code,
        code == TACHO_EEXISTS ? "tacho never overwrites: give another name with -o FILE" : NULL,
        "%s: %s", path, strerror(os));
}

static int copy_bytes(int from, int to)
{
    size_t cap = 1 << 20;
    char *buffer = malloc(cap);
    ssize_t got;
    int os = buffer ? 0 : ENOMEM;
    while (!os && (got = read(from, buffer, cap)) != 0) {
        if (got < 0) {
            os = errno == EINTR ? 0 : errno;
            continue;
        }
        for (ssize_t done = 0, written; !os && done < got; done += written) {
            written = write(to, buffer + done, (size_t)(got - done));
            if (written < 0) {
                os = errno == EINTR ? 0 : errno;
                written = 0;
            }
        }
    }
    if (!os && fsync(to))
        os = errno;
    free(buffer);
    return os;
}

/* rename that never overwrites; where the filesystem cannot say so, a link and an unlink do the
 * same. 0 or errno. */
static int rename_new(int folder, const char *from, const char *to)
{
    if (!renameat2(folder, from, folder, to, RENAME_NOREPLACE))
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return errno;
    if (!linkat(folder, from, folder, to, 0)) {
        unlinkat(folder, from, 0);
        return 0;
    }
    if (errno == EEXIST)
        return errno;
    if (!faccessat(folder, to, F_OK, AT_SYMLINK_NOFOLLOW)) /* neither call is there (FAT over an old
                                                   kernel): a check, with the race that it has */
        return EEXIST;
    return renameat(folder, from, folder, to) ? errno : 0;
}

/* The two names lie on different filesystems, or this one has no links: a hidden copy beside the
 * final name, synced, renamed. 0 or errno.
 */
static int publish_copy(const struct store_place *from, const struct store_place *to)
{
    char tmp[sizeof to->name + 32];
    struct stat st;
    int out = -1, os = 0;
    snprintf(tmp, sizeof tmp, ".%s.%ld.tmp", to->name, (long)getpid());
    int in = store_file_peek(from->folder, from->name);
    if (in < 0 || fstat(in, &st))
        os = errno;
    if (!os) {
        out = openat(to->folder, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                     st.st_mode & 0777);
        os = out < 0 ? errno : copy_bytes(in, out);
    }
    if (out >= 0 && close(out) && !os)
        os = errno; /* NFS and quotas report here */
    if (!os)
        os = rename_new(to->folder, tmp, to->name);
    if (os && out >= 0)
        unlinkat(to->folder, tmp, 0);
    if (in >= 0)
        close(in);
    return os;
}

static bool same_bytes(int left, int right)
{
    char bytes[2][16384];
    for (;;) {
        ssize_t got = read(left, bytes[0], sizeof bytes[0]), had = 0, more = 1;
        while (had < got && more > 0) {
            more = read(right, bytes[1] + had, (size_t)(got - had));
            had += more > 0 ? more : 0;
        }
        if (got <= 0 || had < got || memcmp(bytes[0], bytes[1], (size_t)got) != 0)
            return got == 0;
    }
}

/* Is the caller's file at `to` the one at `from` already, by a link or as a copy, because who
 * published it was killed before `from` was removed? */
static bool is_published(const struct store_place *from, const struct store_place *to)
{
    struct stat left, right;
    int in = store_file_peek(from->folder, from->name);
    int out = store_file_peek(to->folder, to->name);
    bool is = in >= 0 && out >= 0 && fstat(in, &left) == 0 && fstat(out, &right) == 0 &&
              right.st_uid == geteuid() && left.st_size == right.st_size;
    is =
        is && ((left.st_dev == right.st_dev && left.st_ino == right.st_ino) || same_bytes(in, out));
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    return is;
}

/* `from` and `to` are the places of the paths of the same names with a 's'. resumed: another
 * attempt may have published the file already. */
static int publish(const struct store_place *from, const struct store_place *to,
                   const char *from_path, const char *to_path, bool resumed,
                   struct tacho_error *err)
{
    if (from->folder < 0)
        return publish_fail(err, from_path, errno);
    if (to->folder < 0)
        return publish_fail(err, to_path, errno);
    int os = linkat(from->folder, from->name, to->folder, to->name, 0) ? errno : 0;
    if (os && !(resumed && is_published(from, to))) {
        if (os == ENOENT && faccessat(from->folder, from->name, F_OK, 0))
            return publish_fail(err, from_path, ENOENT);
        if (os == EXDEV || os == EPERM || os == EMLINK || os == EOPNOTSUPP || os == ENOSYS)
            os = publish_copy(from, to);
        if (os)
            return publish_fail(err, to_path, os);
    }
    store_file_sync(to->folder, "."); /* best effort: the file is complete and has its name */
    unlinkat(from->folder, from->name, 0);
    return 0;
}

int store_publish_at(int from_folder, const char *from, int to_folder, const char *to,
                     struct tacho_error *err)
{
    struct store_place places[2];
    store_place_at(from_folder, from, &places[0]);
    store_place_at(to_folder, to, &places[1]);
    int code = publish(&places[0], &places[1], from, to, true, err);
    store_place_close(&places[0]);
    store_place_close(&places[1]);
    return code;
}

int store_publish(const char *from, const char *to, struct tacho_error *err)
{
    struct store_place places[2];
    int code;
    if (store_place_find(from, true, &places[0]) != 0)
        return publish_fail(err, from, errno);
    int os = store_place_find(to, false, &places[1]) != 0 ? errno : 0;
    code = os ? publish_fail(err, to, os) : publish(&places[0], &places[1], from, to, false, err);
    store_place_close(&places[0]);
    store_place_close(&places[1]);
    return code;
}
