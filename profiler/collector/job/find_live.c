/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the newest run that this user's processes record on this machine now: its recorder holds a
 * descriptor of the lock in the run's folder.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profiler/collector/job/live.h"
#include "profiler/collector/os/proc.h"

#define LOCK_SUFFIX COL_LIVE_SUFFIX "/lock"

struct newest {
    struct col_found *found;
    struct timespec begun;
};

/* `path` is what a descriptor leads to: is it the lock of a live run that began later than the one
 * known? */
static void consider(struct newest *newest, char *path)
{
    struct stat file;
    size_t length = strlen(path), suffix = strlen(LOCK_SUFFIX);
    if (length <= suffix || strcmp(path + length - suffix, LOCK_SUFFIX) != 0 ||
        stat(path, &file) != 0)
        return;
    if (newest->found->live && (file.st_mtim.tv_sec < newest->begun.tv_sec ||
                                (file.st_mtim.tv_sec == newest->begun.tv_sec &&
                                 file.st_mtim.tv_nsec <= newest->begun.tv_nsec)))
        return;
    path[length - strlen("/lock")] = 0;
    if (!col_live_locked(path))
        return;
    newest->begun = file.st_mtim;
    newest->found->live = true;
    snprintf(newest->found->run, sizeof newest->found->run, "%s", path);
    snprintf(newest->found->path, sizeof newest->found->path, "%.4000s/run.db", path);
}

/* Looks at the descriptors of a process; only those of this user's processes can be read. */
static void look_at(struct newest *newest, const char *pid)
{
    char name[64], path[COL_PATH_MAX];
    snprintf(name, sizeof name, "/proc/%.20s/fd", pid);
    DIR *dir = opendir(name);
    struct stat owner; /* root can look at those of other users too */
    bool is_own = dir && fstat(dirfd(dir), &owner) == 0 && owner.st_uid == geteuid();
    if (dir && !is_own)
        closedir(dir);
    if (!is_own)
        return;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        ssize_t length = readlinkat(dirfd(dir), entry->d_name, path, sizeof path - 1);
        if (length <= 0)
            continue;
        path[length] = 0;
        consider(newest, path);
    }
    closedir(dir);
}

int col_find_live(struct col_found *found, struct tacho_error *err)
{
    struct newest newest = {.found = found};
    memset(found, 0, sizeof *found);
    DIR *proc = opendir("/proc");
    if (!proc)
        return tacho_fail(err, TACHO_ENOTFOUND, NULL,
                          "this machine does not show whether a run is being recorded");
    for (struct dirent *entry; (entry = readdir(proc)) != NULL;) {
        struct col_proc_stat stat;
        char *end;
        long pid = strtol(entry->d_name, &end, 10);
        if (pid > 0 && !*end && col_proc_read_stat((int32_t)pid, &stat) == 0 &&
            !strcmp(stat.comm, "tacho"))
            look_at(&newest, entry->d_name);
    }
    closedir(proc);
    if (!found->live)
        return tacho_fail(err, TACHO_ENOTFOUND, "record one with 'tacho run -- COMMAND'",
                          "no run is being recorded on this machine");
    return 0;
}
