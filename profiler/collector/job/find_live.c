/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the runs that this user's processes record on this machine now: the recorder of each holds
 * a descriptor of the lock in the run's folder.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profiler/collector/job/live.h"
#include "profiler/collector/os/clock.h"
#include "profiler/collector/os/proc.h"

#define LOCK_SUFFIX COL_LIVE_SUFFIX "/lock"

struct search {
    col_visit *visit;
    void *ctx;
    int rc;
};

/* `path` is what a descriptor leads to: visits the live run whose lock it is. */
static void consider(struct search *search, char *path)
{
    struct col_found found = {.live = true};
    struct stat lock;
    size_t length = strlen(path), suffix = strlen(LOCK_SUFFIX);
    if (length <= suffix || strcmp(path + length - suffix, LOCK_SUFFIX) != 0 ||
        stat(path, &lock) != 0)
        return;
    path[length - strlen("/lock")] = 0;
    if (!col_live_locked(path))
        return;
    snprintf(found.run, sizeof found.run, "%s", path);
    snprintf(found.path, sizeof found.path, "%.4000s/run.db", path);
    search->rc = search->visit(search->ctx, &found, col_time_ns(lock.st_mtim));
}

/* Looks at the descriptors of a process; only those of this user's processes can be read. */
static void look_at(struct search *search, const char *pid)
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
    for (struct dirent *entry; !search->rc && (entry = readdir(dir)) != NULL;) {
        ssize_t length = readlinkat(dirfd(dir), entry->d_name, path, sizeof path - 1);
        if (length <= 0)
            continue;
        path[length] = 0;
        consider(search, path);
    }
    closedir(dir);
}

int col_each_live(col_visit *visit, void *ctx)
{
    struct search search = {visit, ctx, 0};
    DIR *proc = opendir("/proc");
    if (!proc)
        return TACHO_ENOTFOUND;
    for (struct dirent *entry; !search.rc && (entry = readdir(proc)) != NULL;) {
        struct col_proc_stat stat;
        char *end;
        long pid = strtol(entry->d_name, &end, 10);
        if (pid > 0 && !*end && col_proc_read_stat((int32_t)pid, &stat) == 0 &&
            !strcmp(stat.comm, "tacho"))
            look_at(&search, entry->d_name);
    }
    closedir(proc);
    return search.rc;
}

struct newest {
    struct col_found *found;
    int64_t begun_ns;
};

static int keep_newest(void *ctx, const struct col_found *found, int64_t begun_ns)
{
    struct newest *newest = ctx;
    if (!newest->found->live || begun_ns > newest->begun_ns)
        *newest = (struct newest){memcpy(newest->found, found, sizeof *found), begun_ns};
    return 0;
}

int col_find_live(struct col_found *found, struct tacho_error *err)
{
    struct newest newest = {.found = found};
    memset(found, 0, sizeof *found);
    if (col_each_live(keep_newest, &newest))
        return tacho_fail(err, TACHO_ENOTFOUND,
                          "name the run: NAME.tacho.live; or mount -t proc proc /proc",
                          "/proc: cannot be read, and it says which runs are being recorded");
    if (!found->live)
        return tacho_fail(err, TACHO_ENOTFOUND, "record one with 'tacho run -- COMMAND'",
                          "no run is being recorded on this machine");
    return 0;
}
