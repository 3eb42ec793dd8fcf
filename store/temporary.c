/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a whole file under a temporary name and publishes it under its own when it is complete.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/store.h"

/* Removes a hidden file that a process left which was killed on this host: "START PID.TAG" with
 * what SQLite appends. */
static void remove_left(int folder, const char *file, const char *start, const char *tag)
{
    struct stat left;
    char *end;
    size_t length = strlen(start);
    if (strncmp(file, start, length) != 0)
        return;
    long pid = strtol(file + length, &end, 10);
    if (pid <= 0 || *end != '.' || strncmp(end + 1, tag, strlen(tag)) != 0 ||
        kill((pid_t)pid, 0) == 0 || errno != ESRCH)
        return;
    if (fstatat(folder, file, &left, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(left.st_mode) &&
        left.st_uid == geteuid())
        unlinkat(folder, file, 0);
}

static void remove_all_left(const char *in, const char *start, const char *tag)
{
    DIR *dir = opendir(in);
    for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;)
        remove_left(dirfd(dir), entry->d_name, start, tag);
    if (dir)
        closedir(dir);
}

/* A hidden name beside the file to be made: ".NAME.HOST.PID.TAG". Those that earlier, killed
 * processes left are removed. */
static int temporary_name(const struct store_making *making, char tmp[PATH_MAX],
                          struct tacho_error *err)
{
    char folder[PATH_MAX], name[PATH_MAX], host[64] = "", start[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", making->path);
    snprintf(name, sizeof name, "%s", making->path);
    const char *in = dirname(folder);
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = 0;
    if (snprintf(start, sizeof start, ".%s.%.20s.", basename(name), host) >= (int)sizeof start ||
        snprintf(tmp, PATH_MAX, "%s/%s%ld.%s", in, start, (long)getpid(), making->tag) >= PATH_MAX)
        return tacho_fail(err, TACHO_EIO, NULL, "%s: %s", making->path, strerror(ENAMETOOLONG));
    if (!access(in, W_OK)) {
        remove_all_left(in, start, making->tag);
        return 0;
    }
    int code = tacho_error_of_errno(errno);
    return tacho_fail(err, code,
                      tacho_error_hint(errno, "give another name or folder with -o FILE"), "%s: %s",
                      making->path, strerror(errno));
}

/* Removes a file and what SQLite may have left with it. */
static void remove_all(const char *path)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
    char name[PATH_MAX];
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (snprintf(name, sizeof name, "%s%s", path, suffixes[i]) < (int)sizeof name)
            unlink(name);
}

int store_make(const struct store_making *making, struct tacho_error *err)
{
    char tmp[PATH_MAX];
    store *writer;
    struct tacho_error why = {0};
    int status = temporary_name(making, tmp, &why);
    if (status == 0)
        status = store_create_private(tmp, &writer, &why);
    if (status == 0) {
        status = making->fill(making->ctx, writer, &why);
        if (status && status == store_error(writer)->code)
            why = *store_error(writer);
        if (status ==
            TACHO_ENOSPACE) /* in words of the file that was asked for, not of the hidden one */
            tacho_fail(&why, status, making->no_space, "%s: no space left on device", making->path);
        if (status)
            store_close(writer);
        else
            status = store_finish(writer, &why);
        if (status == 0 && !making->discard)
            status = store_publish(tmp, making->path, &why);
        remove_all(tmp);
    }
    if (status && !why.code)
        tacho_fail(&why, status, NULL, "%s: %s", making->path, tacho_error_text(status));
    if (status && err)
        *err = why;
    return status;
}
