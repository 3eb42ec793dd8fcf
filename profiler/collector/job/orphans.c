/* SPDX-License-Identifier: Apache-2.0
 *
 * Pools in memory whose live folder was removed by hand, and folders of pools whose recorder was
 * killed before it had written the proof into them, or after it had removed it: nothing would ever
 * read or remove them.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "profiler/collector/job/live_private.h"
#include "profiler/collector/os/proc.h"
#include "profiler/collector/pool/pool.h"

/* A recorder needs a moment from making the folder to the proof in it, and from removing the proof
 * to removing the folder. One that stands still for longer there finds no folder, and says so. */
#define MOMENT_S 60

struct search {
    bool remove;
    int (*on)(void *ctx, const struct col_orphan *orphan);
    void *ctx;
};

/* Reads the proof beside the pools and locks it; *fd is -1 where it is not tacho's, or in use. */
static void lock_proof(int pools, struct col_live_proof *proof, int *fd)
{
    *fd = col_live_open_proof(pools, proof);
    if (*fd >= 0 && (proof->folder[sizeof proof->folder - 1] || !proof->folder[0] ||
                     flock(*fd, LOCK_EX | LOCK_NB) != 0)) {
        close(*fd);
        *fd = -1;
    }
}

/* Is the live folder where it was made? A folder that cannot be looked at may be. */
static bool has_folder(const struct col_live_proof *proof)
{
    struct stat home;
    if (stat(proof->folder, &home) != 0)
        return errno != ENOENT && errno != ENOTDIR;
    return home.st_dev == proof->device && home.st_ino == proof->inode;
}

static bool is_alive(int32_t pid)
{
    struct col_proc_stat stat;
    int rc = col_proc_read_stat(pid, &stat);
    return rc == 0 ? stat.state != 'Z' && stat.state != 'X' : rc != -ENOENT && rc != -ESRCH;
}

struct use {
    int64_t bytes; /* of the files */
    bool is_alive; /* a process that has, or had, a file in the folder */
};

static bool add_use(void *ctx, int pools, const char *name)
{
    struct use *use = ctx;
    struct stat file;
    const char *digits = col_pool_is_name(name) ? strpbrk(name, "0123456789") : NULL;
    int32_t pid = digits ? (int32_t)strtol(digits, NULL, 10) : 0;
    use->is_alive |= pid > 0 && is_alive(pid);
    if (fstatat(pools, name, &file, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(file.st_mode))
        use->bytes += (int64_t)file.st_blocks * 512;
    return true;
}

/* Is a folder of pools in use? */
static bool is_used(int pools, int64_t *bytes)
{
    struct use use = {.bytes = 0};
    bool is_read = store_folder_each(pools, add_use, &use);
    *bytes = use.bytes;
    return use.is_alive || !is_read;
}

static bool is_begun_proof(void *ctx, int pools, const char *name)
{
    struct stat file;
    (void)ctx;
    return strcmp(name, RUN_ID) == 0 && fstatat(pools, name, &file, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISREG(file.st_mode) && file.st_size < (off_t)sizeof(struct col_live_proof);
}

/* Is nothing in the folder but the beginning of a proof, and has nobody changed that for longer
 * than a recorder needs? */
static bool is_abandoned(int pools)
{
    struct stat folder;
    return fstat(pools, &folder) == 0 && folder.st_mtim.tv_sec < time(NULL) - MOMENT_S &&
           store_folder_each(pools, is_begun_proof, NULL);
}

static int consider(const struct search *search, const char *path)
{
    struct col_live_proof proof;
    struct col_orphan orphan = {.pools = path};
    int pools, fd, rc = 0;
    if (col_live_open_own(AT_FDCWD, path, path, &pools, NULL) != 0)
        return 0;
    lock_proof(pools, &proof, &fd);
    if (fd >= 0)
        orphan.folder = proof.folder;
    if (fd >= 0 ? !has_folder(&proof) && !is_used(pools, &orphan.bytes) : is_abandoned(pools)) {
        if (search->remove) {
            col_live_remove_pools(pools);
            rmdir(path);
        }
        rc = search->on(search->ctx, &orphan);
    }
    if (fd >= 0)
        close(fd);
    close(pools);
    return rc;
}

int col_orphans_each(bool remove, int (*on)(void *ctx, const struct col_orphan *orphan), void *ctx)
{
    struct search search = {.remove = remove, .on = on, .ctx = ctx};
    char path[COL_PATH_MAX];
    int rc = 0;
    DIR *dir = opendir(IN_MEMORY);
    for (struct dirent *entry; dir && rc == 0 && (entry = readdir(dir)) != NULL;)
        if (col_live_path(path, IN_MEMORY "/%s", entry->d_name) && col_live_is_made_name(path))
            rc = consider(&search, path);
    if (dir)
        closedir(dir);
    return rc;
}
