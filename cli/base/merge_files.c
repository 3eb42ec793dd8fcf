/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the runs that arguments and folders name, and merges them while the user watches.
 */
#include "cli/base/merge_files.h"

#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/base/message.h"
#include "cli/base/progress.h"
#include "store/import/import.h"

/* Counts up when a merge would give other rows: what was kept is then made again. */
#define MERGE_VERSION "merge 2"

struct list {
    char **path;
    size_t count;
};

/* Has the entry of a folder the name of a run? */
static bool is_run(const char *name)
{
    return name[0] != '.' &&
           (cli_has_suffix(name, COL_SUFFIX) || cli_has_suffix(name, COL_LIVE_SUFFIX));
}

bool cli_is_live_folder(const char *path)
{
    size_t length = strlen(path), end = strlen(COL_LIVE_SUFFIX);
    while (length > 1 && path[length - 1] == '/') /* a folder may be typed with a slash */
        length--;
    return length >= end && !strncmp(path + length - end, COL_LIVE_SUFFIX, end);
}

/* Is it a folder of runs? */
static bool is_folder(const char *path)
{
    struct stat st;
    return !cli_is_live_folder(path) && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

size_t cli_merge_runs(const char *path)
{
    size_t count = 0;
    DIR *folder = is_folder(path) ? opendir(path) : NULL;
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        count += is_run(entry->d_name);
    if (folder)
        closedir(folder);
    return count;
}

int cli_merge_only(const char *path, char *run, size_t size)
{
    int rc = -1;
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && rc && (entry = readdir(folder));)
        if (is_run(entry->d_name) && snprintf(run, size, "%s/%s", path, entry->d_name) < (int)size)
            rc = 0;
    if (folder)
        closedir(folder);
    return rc;
}

int cli_merge_key(const char *path, char key[33])
{
    struct store_key hash = {14695981039346656037u, 1};
    struct dirent **entry = NULL;
    int count = scandir(path, &entry, NULL, versionsort);
    store_key_add(&hash, MERGE_VERSION, sizeof MERGE_VERSION);
    for (int i = 0; i < count; i++) {
        char name[PATH_MAX];
        struct stat st;
        if (is_run(entry[i]->d_name) &&
            snprintf(name, sizeof name, "%s/%s", path, entry[i]->d_name) < (int)sizeof name &&
            !stat(name, &st)) {
            store_key_add(&hash, entry[i]->d_name, strlen(entry[i]->d_name) + 1);
            store_key_add(&hash, &st.st_dev, sizeof st.st_dev);
            store_key_add(&hash, &st.st_ino, sizeof st.st_ino);
            store_key_add(&hash, &st.st_size, sizeof st.st_size);
            store_key_add(&hash, &st.st_mtim, sizeof st.st_mtim);
        }
        free(entry[i]);
    }
    free(entry);
    store_key_text(&hash, key);
    return count < 0 ? -1 : 0;
}

int cli_recording_find(const char *arg, struct col_found *found)
{
    struct tacho_error err = {0};
    if (strlen(arg) >= COL_PATH_MAX) /* no message has room for it */
        return cli_error(TACHO_ENOTFOUND, NULL, "RUN has %zu characters: no such run", strlen(arg));
    if (col_find_run(arg, true, found, &err))
        return cli_fail(&err);
    if (found->recovered && found->note[0])
        cli_say("%s", found->note);
    return 0;
}

/* Adds the file of a run, which is finished first if its recorder was killed. A run that is still
 * being recorded has no end yet, so it cannot be merged. 0 or an exit code. */
static int add(struct list *list, const char *arg)
{
    struct col_found found;
    int code = cli_recording_find(arg, &found);
    if (code)
        return code;
    if (found.refused.code)
        return cli_fail(&found.refused);
    if (found.live)
        return cli_error(TACHO_EBUSY, "wait for the run to end", "%s: still being recorded",
                         found.run);
    char **larger = realloc(list->path, (list->count + 1) * sizeof *larger);
    if (larger)
        list->path = larger;
    if (!larger || !(list->path[list->count] = strdup(found.path)))
        return cli_error(TACHO_ENOMEM, NULL, "merge: out of memory");
    list->count++;
    return 0;
}

/* Adds all runs of a folder, in the order of their names. 0 or an exit code, after a message. */
static int add_folder(struct list *list, const char *path)
{
    struct dirent **entry = NULL;
    if (!cli_merge_runs(path))
        return cli_error(
            TACHO_ENOTFOUND,
            "give the folder that contains the files of the nodes, or the files themselves",
            "%s: no .tacho file in this folder", path);
    int code = 0, count = scandir(path, &entry, NULL, versionsort);
    for (int i = 0; i < count; i++) {
        char name[PATH_MAX];
        bool fits = snprintf(name, sizeof name, "%s/%s", path, entry[i]->d_name) < (int)sizeof name;
        if (!code && fits && is_run(entry[i]->d_name))
            code = add(list, name);
        free(entry[i]);
    }
    free(entry);
    return code;
}

/* Merges the runs that the arguments name into `out`. */
int cli_merge_files(const char *const *in, size_t in_count, const char *out, bool force,
                    struct store_merge_result *merge_result)
{
    struct list list = {0};
    struct cli_progress progress;
    struct tacho_error err = {0};
    int code = 0;
    for (size_t i = 0; i < in_count && !code; i++)
        code = is_folder(in[i]) ? add_folder(&list, in[i]) : add(&list, in[i]);
    if (!code) {
        cli_progress_begin(&progress, out);
        struct store_merge_options merge_options = {.in = (const char *const *)list.path,
                                                    .in_count = list.count,
                                                    .out = out,
                                                    .force = force,
                                                    .progress = cli_progress_step,
                                                    .ctx = &progress};
        int rc = store_merge(&merge_options, merge_result, &err);
        int stopped = cli_progress_end(&progress);
        if (rc == TACHO_EINTERRUPTED && stopped && stopped != SIGINT)
            raise(stopped);
        code = rc ? cli_fail(&err) : 0;
    }
    for (size_t i = 0; i < list.count; i++)
        free(list.path[i]);
    free(list.path);
    return code;
}
