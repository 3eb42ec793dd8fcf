/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/collector/job/live.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "profiler/collector/os/text.h"
#include "profiler/collector/pool/pool.h"
#include "store/store.h"

#define DB        "run.db"
#define LOCK      "lock"
#define RESERVE   "reserve"
#define SEGMENTS  "segments"
#define RUN_ID    "run" /* in the folder of the pools */
#define IN_MEMORY "/dev/shm"

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

static int fail_errno(struct tacho_error *err, const char *path, const char *hint)
{
    return tacho_fail(err, code_of(errno), hint, "%s: %s", path, strerror(errno));
}

__attribute__((format(printf, 2, 3))) static bool path_set(char path[COL_PATH_MAX],
                                                           const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(path, COL_PATH_MAX, format, arguments);
    va_end(arguments);
    return length > 0 && length < COL_PATH_MAX;
}

static int fail_long(struct tacho_error *err)
{
    return tacho_fail(err, TACHO_EUSAGE, "choose a shorter one with -o", "output: path too long");
}

static int64_t room_of(const char *path)
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

static int check_owner(const struct stat *stat, const char *path, struct tacho_error *err)
{
    static const char foreign[] = "only its owner can finish it: 'tacho recover' as that user";
    static const char shared[] = "if all in it is yours, 'chmod go-w' it";
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
static int open_own(int at, const char *name, const char *shown, int *fd, struct tacho_error *err)
{
    struct stat stat;
    *fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (*fd < 0)
        return fail_errno(err, shown, NULL);
    int rc = fstat(*fd, &stat) == 0 ? check_owner(&stat, shown, err) : fail_errno(err, shown, NULL);
    if (rc)
        let_go(fd);
    return rc;
}

/* Is the last part of `path` a name that tacho gives to a folder of this user elsewhere? */
static bool is_made_name(const char *path)
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
    return path_set(parent, "%s", path) && store_is_local(dirname(parent)) == 0;
}

/* l->home, wherever `folder` leads. */
static int open_home(struct col_live *live, struct tacho_error *err)
{
    struct stat stat;
    char real[COL_PATH_MAX];
    if (lstat(live->folder, &stat) != 0)
        return fail_errno(err, live->folder, NULL);
    live->linked = S_ISLNK(stat.st_mode);
    if (!live->linked)
        return open_own(AT_FDCWD, live->folder, live->folder, &live->home, err);
    /* A server may give what root makes to somebody else; the folder itself is on this machine. */
    int rc = is_on_network(live->folder) ? 0 : check_owner(&stat, live->folder, err);
    if (rc)
        return rc;
    if (!realpath(live->folder, real))
        return fail_errno(err, live->folder, NULL);
    if (!is_made_name(real))
        return tacho_fail(err, TACHO_EFORMAT, "name the folder itself, not a link to it",
                          "%s: leads to a folder that tacho did not make", live->folder);
    return open_own(AT_FDCWD, real, live->folder, &live->home, err);
}

int col_live_check_owner(const char *folder, struct tacho_error *err)
{
    struct col_live live;
    col_live_init(&live);
    int rc = path_set(live.folder, "%s", folder) ? open_home(&live, err) : 0;
    col_live_leave(&live);
    return rc == TACHO_EDENIED ? rc : 0; /* anything else is told by whoever opens it */
}

/* ---- making ---------------------------------------------------------------------------------- */

static int write_run_id(struct col_live *live, struct tacho_error *err)
{
    unsigned long long random[2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return fail_errno(err, live->segments, NULL);
    snprintf(live->run_id, sizeof live->run_id, "%016llx%016llx", random[0], random[1]);
    int fd =
        openat(live->pools, RUN_ID, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    ssize_t written = fd >= 0 ? write(fd, live->run_id, sizeof live->run_id) : -1;
    int rc = written == (ssize_t)sizeof live->run_id ? 0 : fail_errno(err, live->segments, NULL);
    if (fd >= 0)
        close(fd);
    return rc;
}

/* Segments live in memory where there is room for them: the target's writes then never wait for a
 * disk. */
static int make_segments(struct col_live *live, struct tacho_error *err)
{
    char inside[COL_PATH_MAX];
    int rc;
    if (!path_set(inside, "%s/" SEGMENTS, live->folder))
        return fail_long(err);
    if (room_of(IN_MEMORY) >= COL_TMPFS_ROOM &&
        path_set(live->segments, IN_MEMORY "/tacho-%u-XXXXXX", (unsigned)getuid()) &&
        mkdtemp(live->segments)) {
        rc = open_own(AT_FDCWD, live->segments, live->segments, &live->pools, err);
        if (rc == 0 && symlinkat(live->segments, live->home, SEGMENTS) != 0)
            rc = fail_errno(err, inside, NULL);
        if (rc == 0)
            return write_run_id(live, err);
        rmdir(live->segments);
        live->segments[0] = 0;
        return rc;
    }
    live->segments[0] = 0;
    if (mkdirat(live->home, SEGMENTS, 0700) != 0)
        return fail_errno(err, inside, NULL);
    if (!realpath(inside, live->segments))
        return fail_errno(err, inside, NULL);
    rc = open_own(live->home, SEGMENTS, inside, &live->pools, err);
    return rc ? rc : write_run_id(live, err);
}

/* Written, not only allocated: some filesystems give allocated room to others. */
static void make_reserve(const struct col_live *live)
{
    int64_t room = room_of(live->folder);
    int64_t bytes = room / 8 < COL_RESERVE_BYTES ? room / 8 : COL_RESERVE_BYTES;
    if (bytes < 4096)
        return;
    int fd = openat(live->home, RESERVE, O_WRONLY | O_CREAT | O_CLOEXEC | O_EXCL, 0600);
    if (fd < 0)
        return;
    if (posix_fallocate(fd, 0, bytes) != 0)
        unlinkat(live->home, RESERVE, 0);
    close(fd);
}

bool col_live_use_reserve(struct col_live *live)
{
    return live->home >= 0 && unlinkat(live->home, RESERVE, 0) == 0;
}

int64_t col_live_room(const struct col_live *live)
{
    return room_of(live->folder);
}

static int take_lock(struct col_live *live, struct tacho_error *err)
{
    char path[COL_PATH_MAX];
    if (!path_set(path, "%s/" LOCK, live->folder))
        return fail_long(err);
    live->lock = openat(live->home, LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (live->lock < 0)
        return fail_errno(err, path, NULL);
    if (flock(live->lock, LOCK_EX | LOCK_NB) == 0)
        return 0;
    int error = errno;
    close(live->lock);
    live->lock = -1;
    errno = error;
    if (error == EWOULDBLOCK)
        return tacho_fail(err, TACHO_EBUSY, "wait until the run has ended", "%s: is being recorded",
                          live->folder);
    return fail_errno(err, path, NULL);
}

static int fail_folder(struct tacho_error *err, const char *folder)
{
    if (errno == EEXIST) /* somebody was faster by a moment */
        return tacho_fail(err, TACHO_EEXISTS, "choose another name with -o",
                          "%s: is being recorded", folder);
    return fail_errno(err, folder,
                      errno == ENAMETOOLONG ? "choose a shorter name with -o"
                                            : "choose a folder you can write to with -o");
}

/* The folder itself; where the output is on a network filesystem a link to a folder on a local one.
 */
static int make_folder(struct col_live *live, const char *parent, struct tacho_error *err)
{
    if (store_is_local(parent) != 0) {
        if (mkdir(live->folder, 0700) == 0)
            return open_own(AT_FDCWD, live->folder, live->folder, &live->home, err);
        return fail_folder(err, live->folder);
    }
    const char *tmp = getenv("TMPDIR");
    char real[COL_PATH_MAX];
    if (!path_set(real, "%s/tacho-%u-XXXXXX", tmp && *tmp == '/' ? tmp : "/tmp",
                  (unsigned)getuid()))
        return fail_long(err);
    if (!mkdtemp(real))
        return fail_errno(err, real, "set TMPDIR to a local folder");
    if (symlink(real, live->folder) != 0) {
        int error = errno;
        rmdir(real);
        errno = error;
        return fail_folder(err, live->folder);
    }
    live->linked = true;
    return open_own(AT_FDCWD, real, real, &live->home, err);
}

static bool exists(const char *path)
{
    struct stat stat;
    return lstat(path, &stat) == 0;
}

/* "-HOST", the first part of its name; "" if it has none. */
static void host_part(char *text, size_t size)
{
    char host[100] = "";
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = 0;
    host[strcspn(host, "./")] = 0;
    snprintf(text, size, "%s%s", host[0] ? "-" : "", host);
}

static int named_folder(const char *output, const char *host, struct col_live *live,
                        struct tacho_error *err)
{
    char path[COL_PATH_MAX], parent[COL_PATH_MAX];
    int stem = (int)(strlen(output) - (col_ends_with(output, COL_SUFFIX) ? strlen(COL_SUFFIX) : 0));
    bool named = stem > 0 && output[stem - 1] != '/';
    if (!path_set(path, "%.*s%s" COL_SUFFIX, stem, output, named ? host : ""))
        return fail_long(err);
    char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    struct stat st;
    const char *typed = strrchr(output, '/') ? strrchr(output, '/') + 1 : output;
    bool is_name =
        strcmp(base, COL_SUFFIX) != 0 && strcmp(typed, ".") != 0 && strcmp(typed, "..") != 0;
    if (!is_name || (stat(output, &st) == 0 && !S_ISREG(st.st_mode) &&
                     !S_ISDIR(st.st_mode))) /* -o . ; -o /dev/null */
        return tacho_fail(err, TACHO_EUSAGE, "give a file name, for example -o run.tacho",
                          "%s: not a file name", output);
    if (slash)
        *slash = 0;
    if (!realpath(slash ? (slash == path ? "/" : path) : ".", parent))
        return fail_errno(err, slash ? path : ".",
                          "make the folder first, or choose another one with -o");
    if (!path_set(live->final, "%s/%s", strcmp(parent, "/") == 0 ? "" : parent, base) ||
        !path_set(live->folder, "%s.live", live->final))
        return fail_long(err);
    if (exists(live->final))
        return tacho_fail(err, TACHO_EEXISTS, "choose another name with -o, or remove it",
                          "%s: exists already", live->final);
    if (exists(live->folder)) {
        if (col_live_locked(live->folder))
            return tacho_fail(err, TACHO_EBUSY, "choose another name with -o",
                              "%s: is being recorded", live->folder);
        return tacho_fail(err, TACHO_EEXISTS,
                          "finish that run with 'tacho recover', or choose another name with -o",
                          "%s: a run of that name was not finished", live->folder);
    }
    return make_folder(live, parent, err);
}

static int default_folder(const char *program, const char *host, struct col_live *live,
                          struct tacho_error *err)
{
    char here[COL_PATH_MAX], stamp[32], name[160];
    const char *base = strrchr(program, '/');
    base = base && base[1] ? base + 1 : program;
    snprintf(name, sizeof name, "%.100s", base);
    for (char *letter = name; *letter; letter++)
        if (*letter == '/' || (unsigned char)*letter < 0x20)
            *letter = '_';
    if (name[0] == '-' || name[0] == '.')
        name[0] = '_';
    if (!realpath(".", here))
        return fail_errno(err, ".", NULL);
    time_t now = time(NULL);
    struct tm tm;
    localtime_r(&now, &tm);
    strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &tm);
    live->default_name = true;
    for (int i = 1; i < 1000; i++) {
        char number[16] = "";
        if (i > 1)
            snprintf(number, sizeof number, "-%d", i);
        if (!path_set(live->final, "%s/%s-%s%s%s" COL_SUFFIX, strcmp(here, "/") == 0 ? "" : here,
                      name, stamp, host, number) ||
            !path_set(live->folder, "%s.live", live->final))
            return fail_long(err);
        if (exists(live->final))
            continue;
        int rc = make_folder(live, here, err);
        if (rc != TACHO_EEXISTS)
            return rc;
    }
    return tacho_fail(err, TACHO_EEXISTS, "choose a name with -o", "%s: exists already",
                      live->final);
}

int col_live_create(const char *output, const char *program, bool with_host, struct col_live *live,
                    struct tacho_error *err)
{
    char host[104] = "";
    if (with_host)
        host_part(host, sizeof host);
    col_live_init(live);
    int rc =
        output ? named_folder(output, host, live, err) : default_folder(program, host, live, err);
    if (rc)
        return rc;
    rc = path_set(live->db, "%s/" DB, live->folder) ? take_lock(live, err) : fail_long(err);
    if (rc == 0)
        rc = make_segments(live, err);
    if (rc == 0)
        make_reserve(live);
    else
        col_live_remove(live);
    return rc;
}

int col_live_open(const char *folder, struct col_live *live, struct tacho_error *err)
{
    char parent[COL_PATH_MAX], path[COL_PATH_MAX];
    struct stat found;
    col_live_init(live);
    if (!path_set(path, "%s", folder))
        return fail_long(err);
    for (size_t length = strlen(path); length > 1 && path[length - 1] == '/'; length--)
        path[length - 1] = 0;
    if (stat(path, &found) != 0)
        return fail_errno(err, path, "name the .tacho.live folder of a run");
    if (!S_ISDIR(found.st_mode) || !col_ends_with(path, COL_LIVE_SUFFIX))
        return tacho_fail(err, TACHO_EFORMAT, "name the .tacho.live folder of a run",
                          "%s: not a live run", path);
    char *slash = strrchr(path, '/');
    char base[NAME_MAX + 1];
    snprintf(base, sizeof base, "%.255s", slash ? slash + 1 : path);
    if (slash)
        *slash = 0;
    if (!realpath(slash ? (slash == path ? "/" : path) : ".", parent))
        return fail_errno(err, folder, NULL);
    if (!path_set(live->folder, "%s/%s", strcmp(parent, "/") == 0 ? "" : parent, base) ||
        !path_set(live->db, "%s/" DB, live->folder) || !path_set(live->final, "%s", live->folder))
        return fail_long(err);
    live->final[strlen(live->final) - strlen(".live")] = 0;
    int rc = open_home(live, err);
    if (rc == 0 &&
        (fstatat(live->home, DB, &found, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(found.st_mode)))
        rc = tacho_fail(err, TACHO_EFORMAT, "remove the folder: nothing was recorded in it",
                        "%s: holds no run", live->folder);
    if (rc == 0)
        rc = take_lock(live, err);
    if (rc)
        col_live_leave(live);
    return rc;
}

static int fail_pools(const char *path, struct tacho_error *err)
{
    static const char hint[] = "move it away, and the run is finished from what is stored already";
    return tacho_fail(err, TACHO_EFORMAT, hint, "%s: tacho did not make it for this run", path);
}

static bool has_run_id(const struct col_live *live)
{
    char found[COL_RUN_ID];
    if (!col_pool_is_own(live->pools, RUN_ID))
        return false;
    int fd = openat(live->pools, RUN_ID, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, found, sizeof found) : -1;
    if (fd >= 0)
        close(fd);
    if (got != (ssize_t)sizeof found)
        return false;
    return !live->run_id[0] || memcmp(found, live->run_id, sizeof found) == 0;
}

/* "segments" is a link into memory, where nothing is the run's after another boot. */
static int open_link(struct col_live *live, bool other_boot, const char *path,
                     struct tacho_error *err)
{
    size_t folder = strlen(IN_MEMORY);
    ssize_t length = readlinkat(live->home, SEGMENTS, live->segments, sizeof live->segments - 1);
    live->segments[length > 0 ? length : 0] = 0;
    bool in_memory = strncmp(live->segments, IN_MEMORY, folder) == 0;
    bool directly = strrchr(live->segments, '/') == live->segments + folder;
    if (!other_boot && (!in_memory || !directly || !is_made_name(live->segments)))
        return fail_pools(path, err);
    if (!other_boot && (access(live->segments, F_OK) == 0 || errno != ENOENT))
        return open_own(AT_FDCWD, live->segments, path, &live->pools, err);
    live->segments[0] = 0; /* gone */
    return 0;
}

int col_live_open_segments(struct col_live *live, bool other_boot, struct tacho_error *err)
{
    char path[COL_PATH_MAX];
    struct stat stat;
    int rc;
    if (live->pools >= 0)
        return 0;
    live->segments[0] = 0;
    if (!path_set(path, "%s/" SEGMENTS, live->folder))
        return fail_long(err);
    if (fstatat(live->home, SEGMENTS, &stat, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? 0 : fail_errno(err, path, NULL);
    if (S_ISLNK(stat.st_mode)) {
        rc = open_link(live, other_boot, path, err);
    } else {
        memcpy(live->segments, path, sizeof path);
        rc = open_own(live->home, SEGMENTS, path, &live->pools, err);
    }
    if (rc == 0 && live->pools >= 0 && !has_run_id(live))
        rc = fail_pools(path, err);
    if (rc) {
        let_go(&live->pools);
        live->segments[0] = 0;
    }
    return rc;
}

bool col_live_locked(const char *folder)
{
    char path[COL_PATH_MAX];
    if (!path_set(path, "%s/" LOCK, folder))
        return false;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return false;
    bool locked = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    close(fd);
    return locked;
}

/* ---- removing -------------------------------------------------------------------------------- */

static bool is_live_name(const char *name)
{
    static const char *const made[] = {
        DB, DB "-wal", DB "-shm", DB "-journal", DB ".finish", LOCK, RESERVE,
    };
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        if (strcmp(name, made[i]) == 0)
            return true;
    return false;
}

static bool is_segment_name(const char *name)
{
    return strcmp(name, RUN_ID) == 0 || col_pool_is_name(name);
}

/* Removes the files of a folder that tacho made; whatever else is there stays. */
static void remove_made(int folder, bool (*is_made)(const char *name))
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir && fd >= 0)
        close(fd);
    for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;)
        if (is_made(entry->d_name) && col_pool_is_own(folder, entry->d_name))
            unlinkat(folder, entry->d_name, 0);
    if (dir)
        closedir(dir);
}

static void remove_segments(struct col_live *live)
{
    struct stat stat;
    if (live->pools >= 0)
        remove_made(live->pools, is_segment_name);
    if (fstatat(live->home, SEGMENTS, &stat, AT_SYMLINK_NOFOLLOW) != 0)
        return;
    if (S_ISDIR(stat.st_mode))
        unlinkat(live->home, SEGMENTS, AT_REMOVEDIR);
    else if (S_ISLNK(stat.st_mode) &&
             (!live->segments[0] || rmdir(live->segments) == 0 || errno == ENOENT))
        unlinkat(live->home, SEGMENTS, 0);
}

/* The folder under its name, if that still leads to it. */
static bool remove_home(const struct col_live *live)
{
    char real[COL_PATH_MAX];
    struct stat here, there;
    if (!realpath(live->folder, real) || fstat(live->home, &here) != 0 || lstat(real, &there) != 0)
        return false;
    if (here.st_dev != there.st_dev || here.st_ino != there.st_ino || rmdir(real) != 0)
        return false;
    return !live->linked || unlink(live->folder) == 0;
}

void col_live_remove(struct col_live *live)
{
    if (live->home >= 0) {
        remove_segments(live);
        remove_made(live->home, is_live_name);
        live->left = !remove_home(live);
    }
    col_live_leave(live);
}

void col_live_init(struct col_live *live)
{
    memset(live, 0, sizeof *live);
    live->home = live->pools = live->lock = -1;
}

void col_live_leave(struct col_live *live)
{
    let_go(&live->lock);
    let_go(&live->pools);
    let_go(&live->home);
}

int col_live_publish(struct col_live *live, char path[COL_PATH_MAX], struct tacho_error *err)
{
    size_t stem = strlen(live->final) - strlen(COL_SUFFIX);
    char db[64]; /* by the descriptor: the name of the folder may lead elsewhere by now */
    int rc = 0;
    snprintf(db, sizeof db, "/proc/self/fd/%d/" DB, live->home);
    for (int i = 1; i < 1000; i++) {
        bool fits = i == 1 ? path_set(path, "%s", live->final)
                           : path_set(path, "%.*s-%d" COL_SUFFIX, (int)stem, live->final, i);
        if (!fits)
            return fail_long(err);
        /* somebody else may have taken the name meanwhile: what was recorded is worth more than the
         * name */
        rc = store_publish(db, path, err);
        if (rc != TACHO_EEXISTS)
            break;
    }
    if (rc == 0)
        col_live_remove(live);
    return rc;
}
