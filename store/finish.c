/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a recording: one clean file, published under its final name.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
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

/* Puts a complete, synced copy in the place of the live file. The WAL goes first, and for good: it
 * must never be read back into the copy. */
static int copy_takes_place(const char *copy, const char *path)
{
    char beside[PATH_MAX];
    for (int i = 0; i < 2; i++)
        if (snprintf(beside, sizeof beside, "%s%s", path, i ? "-shm" : "-wal") < (int)sizeof beside)
            unlink(beside);
    int status = store_folder_sync(path);
    if (status == 0 && rename(copy, path))
        status = -errno;
    return status ? status : store_folder_sync(path);
}

/* Another process reads the live file and keeps it open, so its WAL cannot be folded in. A copy of
 * what is committed takes its place; the reader keeps the old file, which no longer has a name. */
static int fold_copy(store *writer)
{
    char *copy = sqlite3_mprintf("%s" STORE_FINISH_SUFFIX, writer->path);
    char *sql = sqlite3_mprintf("VACUUM INTO %Q", copy);
    int code = copy && sql ? 0 : TACHO_ENOMEM, status = 0;
    if (!code) {
        unlink(copy);
        code = store_exec(writer, sql, "cannot be finished");
    }
    if (!code && (status = store_file_sync(copy)) == 0 && (status = store_folder_sync(copy)) == 0)
        status = copy_takes_place(copy, writer->path);
    if (status)
        code = tacho_fail(&writer->error, tacho_error_of_errno(-status), NULL,
                          "%s: cannot be finished: %s", writer->path, strerror(-status));
    if (code && copy && access(writer->wal_path, F_OK) == 0)
        unlink(copy); /* without a WAL the copy is all there is */
    sqlite3_free(sql);
    sqlite3_free(copy);
    return code;
}

int store_finish_again(const char *path)
{
    char copy[PATH_MAX], wal[PATH_MAX];
    if (snprintf(copy, sizeof copy, "%s" STORE_FINISH_SUFFIX, path) >= (int)sizeof copy ||
        snprintf(wal, sizeof wal, "%s-wal", path) >= (int)sizeof wal || access(copy, F_OK) ||
        !access(wal, F_OK))
        return 0;
    int status = copy_takes_place(copy, path);
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
    char *path = writer->path;
    writer->path = NULL;
    store_close(writer); /* before the file is opened again: closing any descriptor of it drops
                            SQLite's locks */
    if (!code && store_file_sync(path))
        code = tacho_fail(&failure, TACHO_EIO, NULL, "%s: cannot be synced: %s", path,
                          strerror(errno));
    if (code && err)
        *err = failure;
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
 * same. */
static int rename_new(const char *from, const char *to)
{
    if (!renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE))
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return errno;
    if (!link(from, to)) {
        unlink(from);
        return 0;
    }
    if (errno == EEXIST)
        return errno;
    if (!access(to, F_OK)) /* neither call is there (FAT over an old kernel): a check, with the race
                              that it has */
        return EEXIST;
    return rename(from, to) ? errno : 0;
}

/* The two names lie on different filesystems, or this one has no links: a hidden copy beside the
 * final name, synced, renamed.
 */
static int publish_copy(const char *from, const char *to, struct tacho_error *err)
{
    char folder[PATH_MAX], name[PATH_MAX], tmp[PATH_MAX];
    struct stat st;
    int in = -1, out = -1, os = 0;
    snprintf(folder, sizeof folder, "%s", to);
    snprintf(name, sizeof name, "%s", to);
    if ((size_t)snprintf(tmp, sizeof tmp, "%s/.%s.%ld.tmp", dirname(folder), basename(name),
                         (long)getpid()) >= sizeof tmp)
        return publish_fail(err, to, ENAMETOOLONG);
    in = open(from, O_RDONLY | O_CLOEXEC);
    if (in < 0 || fstat(in, &st))
        os = errno;
    if (!os) {
        out = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, st.st_mode & 0777);
        os = out < 0 ? errno : copy_bytes(in, out);
    }
    if (out >= 0 && close(out) && !os)
        os = errno; /* NFS and quotas report here */
    if (!os)
        os = rename_new(tmp, to);
    if (os && out >= 0)
        unlink(tmp);
    if (in >= 0)
        close(in);
    return os ? publish_fail(err, to, os) : 0;
}

int store_publish(const char *from, const char *to, struct tacho_error *err)
{
    int code = 0;
    if (link(from, to)) {
        if (errno == EEXIST)
            return publish_fail(err, to, EEXIST);
        if (errno == ENOENT && access(from, F_OK))
            return publish_fail(err, from, ENOENT);
        if (errno != EXDEV && errno != EPERM && errno != EMLINK && errno != EOPNOTSUPP &&
            errno != ENOSYS)
            return publish_fail(err, to, errno);
        code = publish_copy(from, to, err);
    }
    if (code)
        return code;
    store_folder_sync(to); /* best effort: the file is complete and has its name */
    unlink(from);
    return 0;
}

/* ---- where is it --------------------------------------------------------------------------------------------------------- */

int store_is_local(const char *path)
{
    /* f_type of filesystems whose locks or mmap reach beyond this machine, or go through a process
     * of unknown habits */
    static const uint32_t remote[] = {
        0x6969,     /* nfs */
        0xff534d42, /* cifs */
        0xfe534d42, /* smb2 */
        0x517b,     /* smb */
        0x0bd00bd0, /* lustre */
        0x47504653, /* gpfs */
        0x19830326, /* beegfs */
        0x65735546, /* fuse (sshfs, s3fs, gcsfuse ...) */
        0x01021997, /* 9p */
        0x00c36400, /* ceph */
        0x5346414f, /* afs */
        0x6b414653, /* kafs */
        0x73757245, /* coda */
        0x7461636f, /* ocfs2 */
        0x01161970, /* gfs2 */
        0xaad7aaea, /* panfs */
        0x786f4256, /* vboxsf */
        0xbacbacbc, /* vmhgfs */
        0x6a656a63, /* virtiofs and hostfs helpers */
        0x013111a8, /* ibrix */
        0x20030528, /* orangefs, pvfs2 */
    };
    struct statfs fs;
    char copy[PATH_MAX];
    int status = statfs(path, &fs);
    if (status && errno == ENOENT) { /* not there yet: its folder decides */
        if ((size_t)snprintf(copy, sizeof copy, "%s", path) >= sizeof copy)
            return TACHO_EIO;
        status = statfs(dirname(copy), &fs);
    }
    if (status)
        return tacho_error_of_errno(errno);
    for (size_t i = 0; i < sizeof remote / sizeof *remote; i++)
        if ((uint32_t)fs.f_type == remote[i])
            return 0;
    return 1;
}
