/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that appear whole or not at all. The data goes into NAME.tmp under a lock, is made durable
 * with fsync, and takes its name by a rename. A handler of a signal may remove the file that is
 * being written, so its name is also kept in a static buffer.
 */
#include "libtrain/base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static char begun[PATH_MAX]; /* the temporary file, while is_begun */
static volatile sig_atomic_t is_begun;

static int failed_open(const char *name, const char *option, struct tacho_error *err)
{
    char hint[96];
    int code = errno;
    snprintf(hint, sizeof hint, "give %s a file in a folder you may write to", option);
    return tacho_fail(err, TACHO_EIO, hint, "%s: %s", name, strerror(code));
}

int lt_output_check(const char *path, const char *option, struct tacho_error *err)
{
    char copy[PATH_MAX];
    struct stat status;
    if (!*path)
        return tacho_fail(err, TACHO_EUSAGE, "name a file", "%s: an empty name", option);
    if ((size_t)snprintf(copy, sizeof copy, "%s.tmp", path) >= sizeof copy)
        return tacho_fail(err, TACHO_EIO, "choose a shorter one", "%s: name too long", path);
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
        errno = EISDIR;
        return failed_open(path, option, err);
    }
    snprintf(copy, sizeof copy, "%s", path);
    const char *folder = dirname(copy);
    if (stat(folder, &status) == 0 && !S_ISDIR(status.st_mode)) {
        errno = ENOTDIR;
        return failed_open(path, option, err);
    }
    return access(folder, W_OK | X_OK) ? failed_open(path, option, err) : 0;
}

static int same_file(int fd, const char *path)
{
    struct stat opened, named;
    return fstat(fd, &opened) == 0 && stat(path, &named) == 0 && opened.st_ino == named.st_ino &&
           opened.st_dev == named.st_dev;
}

int lt_output_begin(struct lt_output *out, const char *path, const char *option,
                    struct tacho_error *err)
{
    int rc = lt_output_check(path, option, err);
    if (rc)
        return rc;
    out->option = option;
    snprintf(out->path, sizeof out->path, "%s", path);
    if ((size_t)snprintf(out->temporary, sizeof out->temporary, "%s.tmp", path) >=
        sizeof out->temporary)
        return tacho_fail(err, TACHO_EIO, "choose a shorter one", "%s: name too long", path);
    out->fd = open(out->temporary, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (out->fd < 0)
        return failed_open(out->temporary, option, err);
    /* the lock counts only while the name still leads to what was opened: its last holder may have
     * renamed it away */
    if (flock(out->fd, LOCK_EX | LOCK_NB) || !same_file(out->fd, out->temporary)) {
        char hint[96];
        snprintf(hint, sizeof hint, "give each run %s a file of its own", option);
        close(out->fd);
        return tacho_fail(err, TACHO_EBUSY, hint, "%s: another run is writing it", out->temporary);
    }
    memcpy(begun, out->temporary, sizeof begun);
    is_begun = 1;
    return ftruncate(out->fd, 0) ? lt_output_end(out, errno, err) : 0;
}

/* Makes the rename itself durable. Some filesystems cannot; the data is safe either way. */
static void sync_folder(const char *path)
{
    char copy[PATH_MAX];
    snprintf(copy, sizeof copy, "%s", path);
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

/* The file is removed before its lock is released: afterwards another run may have made its own. */
void lt_output_drop(struct lt_output *out)
{
    unlink(out->temporary);
    is_begun = 0;
    close(out->fd);
}

int lt_output_end(struct lt_output *out, int failed, struct tacho_error *err)
{
    char hint[96];
    if (!failed && (fsync(out->fd) || rename(out->temporary, out->path)))
        failed = errno;
    if (!failed) {
        is_begun = 0;
        close(out->fd);
        sync_folder(out->path);
        return 0;
    }
    lt_output_drop(out);
    snprintf(hint, sizeof hint, "make room, or give another %s", out->option);
    return tacho_fail(err, failed == ENOSPC || failed == EDQUOT ? TACHO_ENOSPACE : TACHO_EIO, hint,
                      "%s: not written: %s", out->path, strerror(failed));
}

void lt_output_abandon(void)
{
    if (is_begun)
        unlink(begun);
}
