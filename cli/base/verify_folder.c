/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder in which `tacho verify` keeps its runs.
 */
#include "cli/base/verify_folder.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/base/message.h"

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
    if (!mkdtemp(folder->temporary))
        return cli_error(tacho_error_of_errno(errno), "name another folder with -o FOLDER",
                         "%.300s: the folder cannot be made: %s", folder->name, strerror(errno));
    return 0;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    (void)info;
    (void)kind;
    (void)place;
    return remove(path);
}

int cli_folder_end(struct cli_folder *folder, int code)
{
    if (!code && rename(folder->temporary, folder->name)) { /* another verify was first */
        cli_say("%.300s: %s; the runs are in %.300s", folder->name, strerror(errno),
                folder->temporary);
        snprintf(folder->name, sizeof folder->name, "%s", folder->temporary);
    }
    if (code && nftw(folder->temporary, remove_one, 8, FTW_DEPTH | FTW_PHYS))
        cli_say("%.300s: could not be removed: %s", folder->temporary, strerror(errno));
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
