/* SPDX-License-Identifier: Apache-2.0 */
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
#include "profiler/collector/collector.h"

/* Counts up when a merge would give other rows: what was kept is then made again. */
#define MERGE_VERSION "merge 2"

struct list {
    char **path;
    size_t count;
};

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n > m && !strcmp(text + n - m, end);
}

static bool is_run(const char *name)
{
    return name[0] != '.' && (ends_with(name, COL_SUFFIX) || ends_with(name, COL_LIVE_SUFFIX));
}

static bool is_folder(const char *path)
{
    struct stat st;
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    bool live = n >= strlen(COL_LIVE_SUFFIX) && !strncmp(path + n - strlen(COL_LIVE_SUFFIX),
                                                         COL_LIVE_SUFFIX, strlen(COL_LIVE_SUFFIX));
    return !live && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

size_t cli_merge_runs(const char *path)
{
    size_t n = 0;
    DIR *folder = is_folder(path) ? opendir(path) : NULL;
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        n += is_run(entry->d_name);
    if (folder)
        closedir(folder);
    return n;
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

static void key_add(uint64_t key[2], const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++) {
        key[0] = (key[0] ^ p[i]) * 0x100000001b3u;
        key[1] = (key[1] + p[i]) * 0x9e3779b97f4a7c15u;
        key[1] ^= key[1] >> 29;
    }
}

int cli_merge_key(const char *path, char key[33])
{
    uint64_t k[2] = {14695981039346656037u, 1};
    struct dirent **e = NULL;
    int n = scandir(path, &e, NULL, versionsort);
    key_add(k, MERGE_VERSION, sizeof MERGE_VERSION);
    for (int i = 0; i < n; i++) {
        char name[PATH_MAX];
        struct stat st;
        if (is_run(e[i]->d_name) &&
            snprintf(name, sizeof name, "%s/%s", path, e[i]->d_name) < (int)sizeof name &&
            !stat(name, &st)) {
            key_add(k, e[i]->d_name, strlen(e[i]->d_name) + 1);
            key_add(k, &st.st_dev, sizeof st.st_dev);
            key_add(k, &st.st_ino, sizeof st.st_ino);
            key_add(k, &st.st_size, sizeof st.st_size);
            key_add(k, &st.st_mtim, sizeof st.st_mtim);
        }
        free(e[i]);
    }
    free(e);
    snprintf(key, 33, "%016llx%016llx", (unsigned long long)k[0], (unsigned long long)k[1]);
    return n < 0 ? -1 : 0;
}

static int out_of_memory(void)
{
    struct tacho_error err;
    tacho_fail(&err, TACHO_ENOMEM, NULL, "merge: out of memory");
    return cli_fail(&err);
}

/* A run that is still recorded has no end yet. */
static int add(struct list *list, const char *arg)
{
    struct col_found found;
    struct tacho_error err = {0};
    if (strlen(arg) >= COL_PATH_MAX) {
        tacho_fail(&err, TACHO_ENOTFOUND, NULL, "a RUN of %zu characters: no such run",
                   strlen(arg));
        return cli_fail(&err);
    }
    if (col_find_run(arg, true, &found, &err))
        return cli_fail(&err);
    if (found.recovered && found.note[0])
        cli_say("%s", found.note);
    if (found.refused.code)
        return cli_fail(&found.refused);
    if (found.live) {
        tacho_fail(&err, TACHO_EBUSY, "wait until it has ended", "%s: is being recorded",
                   found.run);
        return cli_fail(&err);
    }
    char **p = realloc(list->path, (list->count + 1) * sizeof *p);
    if (p)
        list->path = p;
    if (!p || !(list->path[list->count] = strdup(found.path)))
        return out_of_memory();
    list->count++;
    return 0;
}

static int empty_folder(const char *path)
{
    struct tacho_error err = {0};
    tacho_fail(&err, TACHO_ENOTFOUND,
               "give the folder that holds the files of the nodes, or the files themselves",
               "%s: no .tacho file in this folder", path);
    return cli_fail(&err);
}

static int add_folder(struct list *list, const char *path)
{
    struct dirent **e = NULL;
    int code = 0, n = scandir(path, &e, NULL, versionsort);
    for (int i = 0; i < n; i++) {
        char name[PATH_MAX];
        bool fits = snprintf(name, sizeof name, "%s/%s", path, e[i]->d_name) < (int)sizeof name;
        if (!code && fits && is_run(e[i]->d_name))
            code = add(list, name);
        free(e[i]);
    }
    free(e);
    return code;
}

int cli_merge_files(const char *const *in, size_t in_count, const char *out, bool force,
                    struct store_merge_result *merge_result)
{
    struct list list = {0};
    struct cli_progress progress;
    struct tacho_error err = {0};
    int code = 0;
    for (size_t i = 0; i < in_count && !code; i++)
        code = cli_merge_runs(in[i]) ? add_folder(&list, in[i])
               : is_folder(in[i])    ? empty_folder(in[i])
                                     : add(&list, in[i]);
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
