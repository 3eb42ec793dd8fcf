/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder of a live run in use: opening one that was left, proving that its pools belong to the
 * run, locking, publishing and removing it. What is removed or published is reached by descriptors
 * only, so that a name that another user replaces later redirects nothing.
 */
#include "profiler/collector/job/live_private.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "profiler/collector/os/text.h"
#include "profiler/collector/pool/pool.h"
#include "store/store.h"

/* The error code for an errno. */
static int code_of(int error)
{
    switch (error) {
    case EACCES:
    case EPERM:
    case EROFS:
        return TACHO_EDENIED;
    case ENOSPC:
    case EDQUOT:
        return TACHO_ENOSPACE;
    case ENOENT:
    case ENOTDIR:
        return TACHO_ENOTFOUND;
    case EEXIST:
        return TACHO_EEXISTS;
    default:
        return TACHO_EIO;
    }
}

int col_live_fail_errno(struct tacho_error *err, const char *path, const char *hint)
{
    return tacho_fail(err, code_of(errno), tacho_error_hint(errno, hint), "%s: %s", path,
                      strerror(errno));
}

bool col_live_path(char path[COL_PATH_MAX], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(path, COL_PATH_MAX, format, arguments);
    va_end(arguments);
    return length > 0 && length < COL_PATH_MAX;
}

int col_live_fail_long(struct tacho_error *err)
{
    return tacho_fail(err, TACHO_EUSAGE, "choose a shorter one with -o", "output: path too long");
}

bool col_live_split(char *path, const char **base, char parent[COL_PATH_MAX])
{
    char *slash = strrchr(path, '/');
    const char *folder = ".";
    *base = path;
    if (slash) {
        *slash = 0;
        *base = slash + 1;
        folder = slash == path ? "/" : path;
    }
    if (!realpath(folder, parent))
        return false;
    if (strcmp(parent, "/") == 0)
        parent[0] = 0;
    return true;
}

const char *col_live_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

int64_t col_live_room_of(const char *path)
{
    struct statvfs filesystem;
    if (statvfs(path, &filesystem) != 0)
        return -1;
    return (int64_t)filesystem.f_bavail * (int64_t)filesystem.f_frsize;
}

/* ---- whose folder it is ---------------------------------------------------------------------- */

static void let_go(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Is the folder the caller's, and can no other user write to it? Only such a folder is trusted. */
static int check_owner(const struct stat *stat, const char *path, struct tacho_error *err)
{
    static const char foreign[] = "only its owner can finish it: 'tacho recover' as that user";
    static const char shared[] = "if everything in it is yours, 'chmod go-w' it";
    static const char consequence[] = "so it is not finished";
    unsigned owner = stat->st_uid;
    if (owner != geteuid())
        return tacho_fail(err, TACHO_EDENIED, foreign, "%s: belongs to user %u, %s", path, owner,
                          consequence);
    if (!S_ISLNK(stat->st_mode) && (stat->st_mode & (S_IWGRP | S_IWOTH)))
        return tacho_fail(err, TACHO_EDENIED, shared, "%s: others may write to it, %s", path,
                          consequence);
    return 0;
}

/* A link in the last part of the name is not followed. *fd is -1 on failure. */
int col_live_open_own(int at, const char *name, const char *shown, int *fd, struct tacho_error *err)
{
    struct stat stat;
    *fd = store_folder_open(at, name);
    if (*fd < 0)
        return col_live_fail_errno(err, shown, NULL);
    int rc = fstat(*fd, &stat) == 0 ? check_owner(&stat, shown, err)
                                    : col_live_fail_errno(err, shown, NULL);
    if (rc)
        let_go(fd);
    return rc;
}

bool col_live_is_made_name(const char *path)
{
    char start[32];
    const char *slash = strrchr(path, '/');
    size_t length = (size_t)snprintf(start, sizeof start, "/tacho-%u-", (unsigned)getuid());
    bool is_made = slash && strncmp(slash, start, length) == 0;
    return is_made && strlen(slash + length) == strlen("XXXXXX");
}

static bool is_on_network(const char *path)
{
    char parent[COL_PATH_MAX];
    return col_live_path(parent, "%s", path) && store_is_local(dirname(parent)) == 0;
}

int col_live_open_outside(struct col_live *live, const char *parent, struct tacho_error *err)
{
    live->outside = open(*parent ? parent : "/", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return live->outside < 0 ? col_live_fail_errno(err, parent, NULL) : 0;
}

/* Opens what the link `fd` leads to: only a folder that tacho itself has made. What the link says
 * is read from its descriptor, because the name may be another link by now. */
static int open_linked(struct col_live *live, int fd, const struct stat *link,
                       struct tacho_error *err)
{
    char real[COL_PATH_MAX];
    live->linked = true;
    /* A server may give root's files to another user; the folder itself is on this machine. */
    int rc = is_on_network(live->folder) ? 0 : check_owner(link, live->folder, err);
    if (rc)
        return rc;
    ssize_t length = readlinkat(fd, "", real, sizeof real - 1);
    real[length > 0 ? length : 0] = 0;
    if (real[0] != '/' || !col_live_is_made_name(real))
        return tacho_fail(err, TACHO_EFORMAT, "name the folder itself, not a link to it",
                          "%s: leads to a folder that tacho did not create", live->folder);
    return col_live_open_own(AT_FDCWD, real, live->folder, &live->home, err);
}

/* Opens live->home, and live->outside if that is not open. */
static int open_home(struct col_live *live, struct tacho_error *err)
{
    struct stat stat;
    struct store_place place;
    if (store_place_find(live->folder, false, &place) != 0)
        return col_live_fail_errno(err, live->folder, NULL);
    live->outside = place.folder;
    int fd = openat(live->outside, place.name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &stat) != 0)
        return col_live_fail_errno(err, live->folder, NULL);
    int rc = S_ISLNK(stat.st_mode)
                 ? open_linked(live, fd, &stat, err)
                 : col_live_open_own(live->outside, place.name, live->folder, &live->home, err);
    close(fd);
    return rc;
}

/* ---- using it ------------------------------------------------------------------------------ */

bool col_live_use_reserve(struct col_live *live)
{
    return live->home >= 0 && store_file_remove(live->home, RESERVE) == 0;
}

void col_live_note_full(const struct col_live *live)
{
    /* an empty file takes no block */
    int fd = live->home < 0 ? -1 : store_file_open(live->home, FULL, O_WRONLY | O_CREAT);
    if (fd >= 0)
        close(fd);
}

bool col_live_was_full(const struct col_live *live)
{
    return live->home >= 0 && faccessat(live->home, FULL, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int64_t col_live_room(const struct col_live *live)
{
    return col_live_room_of(live->folder);
}

int col_live_flock(const struct col_live *live, int fd, struct tacho_error *err)
{
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (errno == EWOULDBLOCK)
        return tacho_fail(err, TACHO_EBUSY, "wait until the run has ended", "%s: is being recorded",
                          live->folder);
    return col_live_fail_errno(err, live->folder, NULL);
}

int col_live_take_lock(struct col_live *live, struct tacho_error *err)
{
    live->lock = store_file_open(live->home, LOCK, O_RDWR | O_CREAT);
    if (live->lock < 0)
        return col_live_fail_errno(err, live->folder, NULL);
    int rc = col_live_flock(live, live->lock, err);
    if (rc)
        let_go(&live->lock);
    return rc;
}

/* Opens the live folder itself, without its lock. *has_file: is there a run.db? */
static int open_folder(const char *folder, struct col_live *live, bool *has_file,
                       struct tacho_error *err)
{
    char parent[COL_PATH_MAX], path[COL_PATH_MAX];
    const char *base;
    struct stat found;
    *has_file = false;
    col_live_init(live);
    if (!col_live_path(path, "%s", folder))
        return col_live_fail_long(err);
    for (size_t length = strlen(path); length > 1 && path[length - 1] == '/'; length--)
        path[length - 1] = 0;
    if (stat(path, &found) != 0)
        return col_live_fail_errno(err, path, "name the .tacho.live folder of a run");
    if (!S_ISDIR(found.st_mode) || !col_ends_with(path, COL_LIVE_SUFFIX))
        return tacho_fail(err, TACHO_EFORMAT, "name the .tacho.live folder of a run",
                          "%s: not a live run", path);
    if (!col_live_split(path, &base, parent))
        return col_live_fail_errno(err, folder, NULL);
    if (!col_live_path(live->folder, "%s/%s", parent, base) ||
        !col_live_path(live->db, "%s/" DB, live->folder) ||
        !col_live_path(live->final, "%s", live->folder))
        return col_live_fail_long(err);
    live->final[strlen(live->final) - strlen(".live")] = 0;
    int rc = open_home(live, err);
    bool looked = rc == 0 && fstatat(live->home, DB, &found, AT_SYMLINK_NOFOLLOW) == 0;
    if (rc == 0 && !looked && errno != ENOENT)
        rc = col_live_fail_errno(err, live->folder,
                                 "its owner can allow it: 'chmod u+rwx' on the folder");
    *has_file = looked && S_ISREG(found.st_mode);
    return rc;
}

int col_live_open(const char *folder, struct col_live *live, struct tacho_error *err)
{
    bool has_file;
    int rc = open_folder(folder, live, &has_file, err);
    if (rc == 0 && !has_file)
        rc = tacho_fail(err, TACHO_EFORMAT, "remove the folder: nothing was recorded in it",
                        "%s: holds no run", live->folder);
    if (rc == 0)
        rc = col_live_take_lock(live, err);
    if (rc)
        col_live_leave(live);
    return rc;
}

static int fail_pools(const char *path, struct tacho_error *err)
{
    static const char hint[] = "move it away, and the run is finished from what is stored already";
    return tacho_fail(err, TACHO_EFORMAT, hint, "%s: tacho did not create it for this run", path);
}

static int fail_copy(const char *folder, struct tacho_error *err)
{
    static const char hint[] =
        "name the original; or remove 'segments' from the copy, and it is finished without them";
    return tacho_fail(err, TACHO_EDENIED, hint,
                      "%s: is a copy: its pools belong to another folder, so it is not finished",
                      folder);
}

int col_live_open_proof(int pools, struct col_live_proof *proof)
{
    int fd = store_file_open(pools, RUN_ID, O_RDONLY);
    if (fd >= 0 && read(fd, proof, sizeof *proof) != (ssize_t)sizeof *proof) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Does the folder of the pools hold the random name of this run, and the inode of its live folder?
 * Pools inside of the live folder are copied with it, so a copy has its own. */
static int check_proof(struct col_live *live, bool is_inside, const char *path,
                       struct tacho_error *err)
{
    struct col_live_proof proof;
    struct stat home;
    live->proof = col_live_open_proof(live->pools, &proof);
    if (live->proof < 0 ||
        (live->run_id[0] && memcmp(proof.run_id, live->run_id, sizeof proof.run_id) != 0))
        return fail_pools(path, err);
    if (fstat(live->home, &home) != 0)
        return col_live_fail_errno(err, path, NULL);
    if (!is_inside && (proof.device != home.st_dev || proof.inode != home.st_ino))
        return fail_copy(live->folder, err);
    return col_live_flock(live, live->proof, err);
}

/* Opens the folder of the pools where "segments" is a link into memory. After another boot nothing
 * there belongs to the run. */
static int open_link(struct col_live *live, bool other_boot, const char *path,
                     struct tacho_error *err)
{
    size_t folder = strlen(IN_MEMORY);
    ssize_t length = readlinkat(live->home, SEGMENTS, live->segments, sizeof live->segments - 1);
    live->segments[length > 0 ? length : 0] = 0;
    bool in_memory = strncmp(live->segments, IN_MEMORY, folder) == 0;
    bool directly = strrchr(live->segments, '/') == live->segments + folder;
    if (!other_boot && (!in_memory || !directly || !col_live_is_made_name(live->segments)))
        return fail_pools(path, err);
    if (!other_boot && (access(live->segments, F_OK) == 0 || errno != ENOENT))
        return col_live_open_own(AT_FDCWD, live->segments, path, &live->pools, err);
    live->segments[0] = 0; /* gone */
    return 0;
}

/* The pools are used only if their folder holds the random name of this run. */
int col_live_open_segments(struct col_live *live, bool other_boot, struct tacho_error *err)
{
    char path[COL_PATH_MAX];
    struct stat stat;
    int rc;
    if (live->pools >= 0)
        return 0;
    live->segments[0] = 0;
    if (!col_live_path(path, "%s/" SEGMENTS, live->folder))
        return col_live_fail_long(err);
    if (fstatat(live->home, SEGMENTS, &stat, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? 0 : col_live_fail_errno(err, path, NULL);
    if (S_ISLNK(stat.st_mode)) {
        rc = open_link(live, other_boot, path, err);
    } else {
        memcpy(live->segments, path, sizeof path);
        rc = col_live_open_own(live->home, SEGMENTS, path, &live->pools, err);
    }
    if (rc == 0 && live->pools >= 0)
        rc = check_proof(live, !S_ISLNK(stat.st_mode), path, err);
    if (rc) {
        let_go(&live->proof);
        let_go(&live->pools);
        live->segments[0] = 0;
    }
    return rc;
}

int col_live_check_owner(const char *folder, struct tacho_error *err)
{
    struct col_live live;
    col_live_init(&live);
    int rc = col_live_path(live.folder, "%s", folder) ? open_home(&live, err) : 0;
    if (rc == 0 && live.home >= 0)
        rc = col_live_open_segments(&live, false, err);
    col_live_leave(&live);
    return rc == TACHO_EDENIED ? rc : 0; /* other errors are reported when it is opened */
}

/* The lock is tried and dropped again. */
bool col_live_locked(const char *folder)
{
    char path[COL_PATH_MAX];
    struct store_place place;
    if (!col_live_path(path, "%s/" LOCK, folder) || store_place_find(path, false, &place) != 0)
        return false;
    int fd = store_file_peek(place.folder, LOCK);
    store_place_close(&place);
    bool locked = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0)
        close(fd);
    return locked;
}

/* ---- removing -------------------------------------------------------------------------------- */

static void remove_live_files(int folder)
{
    static const char *const made[] = {
        DB, DB "-wal", DB "-shm", DB "-journal", DB ".finish", LOCK, RESERVE, FULL,
    };
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        store_file_remove(folder, made[i]);
}

static bool remove_pool(void *ctx, int folder, const char *name)
{
    (void)ctx;
    if (col_pool_is_name(name))
        store_file_remove(folder, name);
    return true;
}

/* The proof goes last: pools that a recorder leaves that is killed here are still known by it. */
void col_live_remove_pools(int folder)
{
    store_folder_each(folder, remove_pool, NULL);
    store_file_remove(folder, RUN_ID);
}

/* Removes tacho's files from the folder of the pools, then that folder and the link to it. */
static void remove_segments(struct col_live *live)
{
    struct stat stat;
    if (live->pools >= 0)
        col_live_remove_pools(live->pools);
    if (fstatat(live->home, SEGMENTS, &stat, AT_SYMLINK_NOFOLLOW) != 0)
        return;
    if (S_ISDIR(stat.st_mode))
        unlinkat(live->home, SEGMENTS, AT_REMOVEDIR);
    else if (S_ISLNK(stat.st_mode) &&
             (!live->segments[0] || rmdir(live->segments) == 0 || errno == ENOENT))
        unlinkat(live->home, SEGMENTS, 0);
}

/* Removes the live folder, if its name still leads to the folder that was opened. */
static bool remove_home(const struct col_live *live)
{
    const char *base = col_live_base(live->folder);
    char real[COL_PATH_MAX] = "";
    struct stat here, there;
    int at = live->linked ? AT_FDCWD : live->outside;
    const char *name = live->linked ? real : base;
    ssize_t length = live->linked ? readlinkat(live->outside, base, real, sizeof real - 1) : 0;
    real[length > 0 ? length : 0] = 0;
    if (fstat(live->home, &here) != 0 || fstatat(at, name, &there, AT_SYMLINK_NOFOLLOW) != 0 ||
        here.st_dev != there.st_dev || here.st_ino != there.st_ino ||
        unlinkat(at, name, AT_REMOVEDIR) != 0)
        return false;
    return !live->linked || unlinkat(live->outside, base, 0) == 0;
}

void col_live_remove(struct col_live *live)
{
    if (live->home >= 0) {
        remove_segments(live);
        remove_live_files(live->home);
        live->left = !remove_home(live);
    }
    col_live_leave(live);
}

int col_live_remove_finished(const char *folder, char path[COL_PATH_MAX], struct tacho_error *err)
{
    struct col_live live;
    struct stat stat;
    bool has_file;
    int rc = open_folder(folder, &live, &has_file, err);
    bool is_left = rc == 0 && !has_file &&
                   fstatat(live.outside, col_live_base(live.final), &stat, 0) == 0 &&
                   S_ISREG(stat.st_mode);
    if (rc == 0 && !is_left)
        rc = tacho_fail(err, TACHO_ENOTFOUND, NULL, "%s: not of a finished run", folder);
    if (rc == 0)
        rc = col_live_take_lock(&live, err);
    if (rc) {
        col_live_leave(&live);
        return rc;
    }
    snprintf(path, COL_PATH_MAX, "%s", live.final);
    (void)col_live_open_segments(&live, false, NULL); /* pools that are not this run's stay */
    col_live_remove(&live);
    return 0;
}

void col_live_init(struct col_live *live)
{
    memset(live, 0, sizeof *live);
    live->home = live->outside = live->pools = live->lock = live->proof = -1;
}

void col_live_leave(struct col_live *live)
{
    let_go(&live->lock);
    let_go(&live->proof);
    let_go(&live->pools);
    let_go(&live->home);
    let_go(&live->outside);
}

/* Moves run.db to its final name, or to a numbered one if another file has taken that name: the
 * recording is worth more than its name. */
int col_live_publish(struct col_live *live, char path[COL_PATH_MAX], struct tacho_error *err)
{
    size_t stem = strlen(live->final) - strlen(COL_SUFFIX);
    int rc = 0;
    for (int i = 1; i < 1000; i++) {
        bool fits = i == 1 ? col_live_path(path, "%s", live->final)
                           : col_live_path(path, "%.*s-%d" COL_SUFFIX, (int)stem, live->final, i);
        if (!fits)
            return col_live_fail_long(err);
        rc = store_publish_at(live->home, live->db, live->outside, path, err);
        if (rc != TACHO_EEXISTS)
            break;
    }
    if (rc == 0)
        col_live_remove(live);
    return rc;
}
