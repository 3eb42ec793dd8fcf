/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a whole file under a temporary name and publishes it under its own when it is complete.
 */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "store/store.h"

/* A hidden name beside the file to be made. */
static int temporary_name(const struct store_making *making, char tmp[PATH_MAX],
                          struct tacho_error *err)
{
    char folder[PATH_MAX], name[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", making->path);
    snprintf(name, sizeof name, "%s", making->path);
    const char *in = dirname(folder);
    if (snprintf(tmp, PATH_MAX, "%s/.%s.%ld.%s", in, basename(name), (long)getpid(), making->tag) >=
        PATH_MAX)
        return tacho_fail(err, TACHO_EIO, NULL, "%s: %s", making->path, strerror(ENAMETOOLONG));
    if (!access(in, W_OK))
        return 0;
    int code = tacho_error_of_errno(errno);
    return tacho_fail(err, code, "give another name or folder with -o FILE", "%s: %s", making->path,
                      strerror(errno));
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
