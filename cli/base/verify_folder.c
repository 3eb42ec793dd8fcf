/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder in which `tacho verify` keeps its runs.
 */
#include "cli/base/verify_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/base/message.h"
#include "store/files.h"

#define LINES_SHOWN 6
#define TAIL        4096 /* bytes */

/* RUN-verify-N, without the folder and the ending of RUN. */
static void default_name(char name[CLI_FOLDER_MOST], const char *run, size_t number)
{
    const char *slash = strrchr(run, '/'), *base = slash ? slash + 1 : run;
    size_t length = strlen(base);
    if (cli_has_suffix(base, COL_SUFFIX))
        length -= strlen(COL_SUFFIX);
    snprintf(name, CLI_FOLDER_MOST, "%.*s-verify-%zu", (int)length, base, number);
}

static bool refuse_one(void *ctx, int folder, const char *name)
{
    (void)ctx;
    (void)folder;
    (void)name;
    return false;
}

/* Opens the folder that was just made. Where another user owns what it is in, its name may lead to
 * another one by now: only one that is the caller's alone, and empty, is taken. -1 and errno. */
static int open_new(const char *path)
{
    struct stat info;
    int fd = store_folder_open(AT_FDCWD, path);
    if (fd < 0 || (!fstat(fd, &info) && info.st_uid == geteuid() && !(info.st_mode & 077) &&
                   store_folder_each(fd, refuse_one, NULL)))
        return fd;
    close(fd);
    errno = EPERM;
    return -1;
}

int cli_folder_make(struct cli_folder *folder, const char *name, const char *run, size_t number)
{
    struct stat info;
    if (name && strlen(name) >= CLI_FOLDER_MOST - 8)
        return cli_error(TACHO_EUSAGE, "name another folder with -o FOLDER",
                         "the name of the folder is too long");
    if (name)
        snprintf(folder->name, sizeof folder->name, "%s", name);
    else
        default_name(folder->name, run, number);
    for (size_t length = strlen(folder->name); length > 1 && folder->name[length - 1] == '/';)
        folder->name[--length] = 0;
    if (!lstat(folder->name, &info))
        return cli_error(TACHO_EEXISTS, "name another folder with -o FOLDER, or remove it",
                         "%.300s: exists already", folder->name);
    snprintf(folder->temporary, sizeof folder->temporary, "%.*s.XXXXXX", CLI_FOLDER_MOST - 8,
             folder->name);
    if (!mkdtemp(folder->temporary) || (folder->fd = open_new(folder->temporary)) < 0)
        return cli_error(tacho_error_of_errno(errno), "name another folder with -o FOLDER",
                         "%.300s: the folder cannot be made: %s", folder->name, strerror(errno));
    return 0;
}

/* Removes a name in a folder, and what is below it. */
static bool remove_one(void *ctx, int folder, const char *name)
{
    if (!unlinkat(folder, name, 0))
        return true;
    int below = store_folder_open(folder, name);
    if (below >= 0) {
        store_folder_each(below, remove_one, ctx);
        close(below);
    }
    unlinkat(folder, name, AT_REMOVEDIR);
    return true;
}

int cli_folder_end(struct cli_folder *folder, int code)
{
    if (!code && rename(folder->temporary, folder->name)) { /* another verify was first */
        cli_say("%.300s: %s; the runs are in %.300s", folder->name, strerror(errno),
                folder->temporary);
        snprintf(folder->name, sizeof folder->name, "%s", folder->temporary);
    }
    if (code)
        store_folder_each(folder->fd, remove_one, NULL);
    if (code && rmdir(folder->temporary))
        cli_say("%.300s: could not be removed: %s", folder->temporary, strerror(errno));
    close(folder->fd);
    return code;
}

void cli_folder_file(const struct cli_folder *folder, const char *side, size_t index,
                     struct cli_kept *kept)
{
    *kept = (struct cli_kept){0};
    snprintf(kept->found.path, sizeof kept->found.path, "%s/%s-%zu.tacho", folder->temporary, side,
             index + 1);
    snprintf(kept->found.run, sizeof kept->found.run, "%s/%s-%zu.tacho", folder->name, side,
             index + 1);
    snprintf(kept->log, sizeof kept->log, "%s/%s-%zu.log", folder->temporary, side, index + 1);
}

void cli_folder_say_log(const struct cli_kept *kept)
{
    char tail[TAIL + 1];
    FILE *file = fopen(kept->log, "r");
    if (!file)
        return;
    if (fseek(file, -TAIL, SEEK_END))
        rewind(file);
    size_t bytes = fread(tail, 1, TAIL, file);
    fclose(file);
    tail[bytes] = 0;
    char *from = tail + strlen(tail);
    for (int lines = 0; from > tail && lines <= LINES_SHOWN; from -= lines <= LINES_SHOWN)
        lines += from[-1] == '\n';
    for (char *end; *from; from = end + 1) {
        end = from + strcspn(from, "\n");
        bool last = !*end;
        *end = 0;
        cli_say("  %s", from);
        if (last)
            return;
    }
}
