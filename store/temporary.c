/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a whole file under a temporary name and publishes it under its own when it is complete.
 */
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

#include "store/files.h"
#include "store/store.h"

struct left {
    const char *start, *tag;
};

/* Removes a hidden file that a process left which was killed on this host: "START PID.TAG" with
 * what SQLite appends. */
static bool remove_left(void *ctx, int folder, const char *file)
{
    const struct left *left = ctx;
    char *end;
    size_t length = strlen(left->start);
    if (strncmp(file, left->start, length) != 0)
        return true;
    long pid = strtol(file + length, &end, 10);
    if (pid > 0 && *end == '.' && strncmp(end + 1, left->tag, strlen(left->tag)) == 0 &&
        kill((pid_t)pid, 0) != 0 && errno == ESRCH)
        store_file_remove(folder, file);
    return true;
}

/* A hidden name beside the file to be made: ".NAME.HOST.PID.TAG". Those that earlier, killed
 * processes left are removed. */
static int temporary_name(const struct store_making *making, struct store_place *place,
                          char tmp[PATH_MAX], struct tacho_error *err)
{
    char folder[PATH_MAX], host[64] = "", start[sizeof place->name + 32];
    snprintf(folder, sizeof folder, "%s", making->path);
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = 0;
    bool found = store_place_find(making->path, false, place) == 0;
    snprintf(start, sizeof start, ".%s.%.20s.", place->name, host);
    if (found && snprintf(tmp, PATH_MAX, "%s/%s%ld.%s", dirname(folder), start, (long)getpid(),
                          making->tag) >= PATH_MAX) {
        found = false;
        errno = ENAMETOOLONG;
    }
    if (found && !faccessat(place->folder, ".", W_OK, AT_EACCESS)) {
        store_folder_each(place->folder, remove_left, &(struct left){start, making->tag});
        return 0;
    }
    int code = tacho_error_of_errno(errno);
    return tacho_fail(err, code,
                      tacho_error_hint(errno, "give another name or folder with -o FILE"), "%s: %s",
                      making->path, strerror(errno));
}

/* Removes a file and what SQLite may have left with it. */
static void remove_all(const struct store_place *place, const char *path)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
    const char *base = strrchr(path, '/') + 1;
    char name[PATH_MAX];
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (snprintf(name, sizeof name, "%s%s", base, suffixes[i]) < (int)sizeof name)
            store_file_remove(place->folder, name);
}

int store_make(const struct store_making *making, struct tacho_error *err)
{
    char tmp[PATH_MAX];
    struct store_place place;
    store *writer;
    struct tacho_error why = {0};
    int status = temporary_name(making, &place, tmp, &why);
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
        remove_all(&place, tmp);
    }
    store_place_close(&place);
    if (status && !why.code)
        tacho_fail(&why, status, NULL, "%s: %s", making->path, tacho_error_text(status));
    if (status && err)
        *err = why;
    return status;
}
