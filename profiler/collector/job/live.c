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

__attribute__((format(printf, 2, 3))) static bool path_set(char to[COL_PATH_MAX],
                                                           const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(to, COL_PATH_MAX, format, ap);
    va_end(ap);
    return n > 0 && n < COL_PATH_MAX;
}

static int fail_long(struct tacho_error *err)
{
    return tacho_fail(err, TACHO_EUSAGE, "choose a shorter one with -o", "output: path too long");
}

static int64_t room_of(const char *path)
{
    struct statvfs v;
    if (statvfs(path, &v) != 0)
        return -1;
    return (int64_t)v.f_bavail * (int64_t)v.f_frsize;
}

/* ---- whose folder it is ---------------------------------------------------------------------- */

static void let_go(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static int check_owner(const struct stat *st, const char *path, struct tacho_error *err)
{
    static const char foreign[] = "only its owner can finish it: 'tacho recover' as that user";
    static const char shared[] = "if all in it is yours, 'chmod go-w' it";
    static const char so[] = "so it is not finished";
    unsigned owner = st->st_uid;
    if (owner != geteuid())
        return tacho_fail(err, TACHO_EDENIED, foreign, "%s: belongs to user %u, %s", path, owner,
                          so);
    if (!S_ISLNK(st->st_mode) && (st->st_mode & (S_IWGRP | S_IWOTH)))
        return tacho_fail(err, TACHO_EDENIED, shared, "%s: others may write to it, %s", path, so);
    return 0;
}

/* A link in the last part of the name is not followed. *fd is -1 on failure. */
static int open_own(int at, const char *name, const char *shown, int *fd, struct tacho_error *err)
{
    struct stat st;
    *fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (*fd < 0)
        return fail_errno(err, shown, NULL);
    int rc = fstat(*fd, &st) == 0 ? check_owner(&st, shown, err) : fail_errno(err, shown, NULL);
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
static int open_home(struct col_live *l, struct tacho_error *err)
{
    struct stat st;
    char real[COL_PATH_MAX];
    if (lstat(l->folder, &st) != 0)
        return fail_errno(err, l->folder, NULL);
    l->linked = S_ISLNK(st.st_mode);
    if (!l->linked)
        return open_own(AT_FDCWD, l->folder, l->folder, &l->home, err);
    /* A server may give what root makes to somebody else; the folder itself is on this machine. */
    int rc = is_on_network(l->folder) ? 0 : check_owner(&st, l->folder, err);
    if (rc)
        return rc;
    if (!realpath(l->folder, real))
        return fail_errno(err, l->folder, NULL);
    if (!is_made_name(real))
        return tacho_fail(err, TACHO_EFORMAT, "name the folder itself, not a link to it",
                          "%s: leads to a folder that tacho did not make", l->folder);
    return open_own(AT_FDCWD, real, l->folder, &l->home, err);
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

static int write_run_id(struct col_live *l, struct tacho_error *err)
{
    unsigned long long random[2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return fail_errno(err, l->segments, NULL);
    snprintf(l->run_id, sizeof l->run_id, "%016llx%016llx", random[0], random[1]);
    int fd = openat(l->pools, RUN_ID, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    ssize_t written = fd >= 0 ? write(fd, l->run_id, sizeof l->run_id) : -1;
    int rc = written == (ssize_t)sizeof l->run_id ? 0 : fail_errno(err, l->segments, NULL);
    if (fd >= 0)
        close(fd);
    return rc;
}

/* Segments live in memory where there is room for them: the target's writes then never wait for a
 * disk. */
static int make_segments(struct col_live *l, struct tacho_error *err)
{
    char inside[COL_PATH_MAX];
    int rc;
    if (!path_set(inside, "%s/" SEGMENTS, l->folder))
        return fail_long(err);
    if (room_of(IN_MEMORY) >= COL_TMPFS_ROOM &&
        path_set(l->segments, IN_MEMORY "/tacho-%u-XXXXXX", (unsigned)getuid()) &&
        mkdtemp(l->segments)) {
        rc = open_own(AT_FDCWD, l->segments, l->segments, &l->pools, err);
        if (rc == 0 && symlinkat(l->segments, l->home, SEGMENTS) != 0)
            rc = fail_errno(err, inside, NULL);
        if (rc == 0)
            return write_run_id(l, err);
        rmdir(l->segments);
        l->segments[0] = 0;
        return rc;
    }
    l->segments[0] = 0;
    if (mkdirat(l->home, SEGMENTS, 0700) != 0)
        return fail_errno(err, inside, NULL);
    if (!realpath(inside, l->segments))
        return fail_errno(err, inside, NULL);
    rc = open_own(l->home, SEGMENTS, inside, &l->pools, err);
    return rc ? rc : write_run_id(l, err);
}

/* Written, not only allocated: some filesystems give allocated room to others. */
static void make_reserve(const struct col_live *l)
{
    int64_t room = room_of(l->folder);
    int64_t bytes = room / 8 < COL_RESERVE_BYTES ? room / 8 : COL_RESERVE_BYTES;
    if (bytes < 4096)
        return;
    int fd = openat(l->home, RESERVE, O_WRONLY | O_CREAT | O_CLOEXEC | O_EXCL, 0600);
    if (fd < 0)
        return;
    if (posix_fallocate(fd, 0, bytes) != 0)
        unlinkat(l->home, RESERVE, 0);
    close(fd);
}

bool col_live_use_reserve(struct col_live *l)
{
    return l->home >= 0 && unlinkat(l->home, RESERVE, 0) == 0;
}

int64_t col_live_room(const struct col_live *l)
{
    return room_of(l->folder);
}

static int take_lock(struct col_live *l, struct tacho_error *err)
{
    char path[COL_PATH_MAX];
    if (!path_set(path, "%s/" LOCK, l->folder))
        return fail_long(err);
    l->lock = openat(l->home, LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (l->lock < 0)
        return fail_errno(err, path, NULL);
    if (flock(l->lock, LOCK_EX | LOCK_NB) == 0)
        return 0;
    int error = errno;
    close(l->lock);
    l->lock = -1;
    errno = error;
    if (error == EWOULDBLOCK)
        return tacho_fail(err, TACHO_EBUSY, "wait until the run has ended", "%s: is being recorded",
                          l->folder);
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
static int make_folder(struct col_live *l, const char *parent, struct tacho_error *err)
{
    if (store_is_local(parent) != 0) {
        if (mkdir(l->folder, 0700) == 0)
            return open_own(AT_FDCWD, l->folder, l->folder, &l->home, err);
        return fail_folder(err, l->folder);
    }
    const char *tmp = getenv("TMPDIR");
    char real[COL_PATH_MAX];
    if (!path_set(real, "%s/tacho-%u-XXXXXX", tmp && *tmp == '/' ? tmp : "/tmp",
                  (unsigned)getuid()))
        return fail_long(err);
    if (!mkdtemp(real))
        return fail_errno(err, real, "set TMPDIR to a local folder");
    if (symlink(real, l->folder) != 0) {
        int error = errno;
        rmdir(real);
        errno = error;
        return fail_folder(err, l->folder);
    }
    l->linked = true;
    return open_own(AT_FDCWD, real, real, &l->home, err);
}

static bool exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* "-HOST", the first part of its name; "" if it has none. */
static void host_part(char *to, size_t size)
{
    char host[100] = "";
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = 0;
    host[strcspn(host, "./")] = 0;
    snprintf(to, size, "%s%s", host[0] ? "-" : "", host);
}

static int named_folder(const char *output, const char *host, struct col_live *l,
                        struct tacho_error *err)
{
    char path[COL_PATH_MAX], parent[COL_PATH_MAX];
    int stem = (int)(strlen(output) - (ends_with(output, COL_SUFFIX) ? strlen(COL_SUFFIX) : 0));
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
    if (!path_set(l->final, "%s/%s", strcmp(parent, "/") == 0 ? "" : parent, base) ||
        !path_set(l->folder, "%s.live", l->final))
        return fail_long(err);
    if (exists(l->final))
        return tacho_fail(err, TACHO_EEXISTS, "choose another name with -o, or remove it",
                          "%s: exists already", l->final);
    if (exists(l->folder)) {
        if (col_live_locked(l->folder))
            return tacho_fail(err, TACHO_EBUSY, "choose another name with -o",
                              "%s: is being recorded", l->folder);
        return tacho_fail(err, TACHO_EEXISTS,
                          "finish that run with 'tacho recover', or choose another name with -o",
                          "%s: a run of that name was not finished", l->folder);
    }
    return make_folder(l, parent, err);
}

static int default_folder(const char *program, const char *host, struct col_live *l,
                          struct tacho_error *err)
{
    char here[COL_PATH_MAX], stamp[32], name[160];
    const char *base = strrchr(program, '/');
    base = base && base[1] ? base + 1 : program;
    snprintf(name, sizeof name, "%.100s", base);
    for (char *p = name; *p; p++)
        if (*p == '/' || (unsigned char)*p < 0x20)
            *p = '_';
    if (name[0] == '-' || name[0] == '.')
        name[0] = '_';
    if (!realpath(".", here))
        return fail_errno(err, ".", NULL);
    time_t now = time(NULL);
    struct tm tm;
    localtime_r(&now, &tm);
    strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &tm);
    l->default_name = true;
    for (int i = 1; i < 1000; i++) {
        char number[16] = "";
        if (i > 1)
            snprintf(number, sizeof number, "-%d", i);
        if (!path_set(l->final, "%s/%s-%s%s%s" COL_SUFFIX, strcmp(here, "/") == 0 ? "" : here, name,
                      stamp, host, number) ||
            !path_set(l->folder, "%s.live", l->final))
            return fail_long(err);
        if (exists(l->final))
            continue;
        int rc = make_folder(l, here, err);
        if (rc != TACHO_EEXISTS)
            return rc;
    }
    return tacho_fail(err, TACHO_EEXISTS, "choose a name with -o", "%s: exists already", l->final);
}

int col_live_create(const char *output, const char *program, bool with_host, struct col_live *l,
                    struct tacho_error *err)
{
    char host[104] = "";
    if (with_host)
        host_part(host, sizeof host);
    col_live_init(l);
    int rc = output ? named_folder(output, host, l, err) : default_folder(program, host, l, err);
    if (rc)
        return rc;
    rc = path_set(l->db, "%s/" DB, l->folder) ? take_lock(l, err) : fail_long(err);
    if (rc == 0)
        rc = make_segments(l, err);
    if (rc == 0)
        make_reserve(l);
    else
        col_live_remove(l);
    return rc;
}

int col_live_open(const char *folder, struct col_live *l, struct tacho_error *err)
{
    char parent[COL_PATH_MAX], path[COL_PATH_MAX];
    struct stat st;
    col_live_init(l);
    if (!path_set(path, "%s", folder))
        return fail_long(err);
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
        path[n - 1] = 0;
    if (stat(path, &st) != 0)
        return fail_errno(err, path, "name the .tacho.live folder of a run");
    if (!S_ISDIR(st.st_mode) || !ends_with(path, COL_LIVE_SUFFIX))
        return tacho_fail(err, TACHO_EFORMAT, "name the .tacho.live folder of a run",
                          "%s: not a live run", path);
    char *slash = strrchr(path, '/');
    char base[NAME_MAX + 1];
    snprintf(base, sizeof base, "%.255s", slash ? slash + 1 : path);
    if (slash)
        *slash = 0;
    if (!realpath(slash ? (slash == path ? "/" : path) : ".", parent))
        return fail_errno(err, folder, NULL);
    if (!path_set(l->folder, "%s/%s", strcmp(parent, "/") == 0 ? "" : parent, base) ||
        !path_set(l->db, "%s/" DB, l->folder) || !path_set(l->final, "%s", l->folder))
        return fail_long(err);
    l->final[strlen(l->final) - strlen(".live")] = 0;
    int rc = open_home(l, err);
    if (rc == 0 && (fstatat(l->home, DB, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode)))
        rc = tacho_fail(err, TACHO_EFORMAT, "remove the folder: nothing was recorded in it",
                        "%s: holds no run", l->folder);
    if (rc == 0)
        rc = take_lock(l, err);
    if (rc)
        col_live_leave(l);
    return rc;
}

static int fail_pools(const char *path, struct tacho_error *err)
{
    static const char hint[] = "move it away, and the run is finished from what is stored already";
    return tacho_fail(err, TACHO_EFORMAT, hint, "%s: tacho did not make it for this run", path);
}

static bool has_run_id(const struct col_live *l)
{
    char found[COL_RUN_ID];
    if (!col_pool_is_own(l->pools, RUN_ID))
        return false;
    int fd = openat(l->pools, RUN_ID, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, found, sizeof found) : -1;
    if (fd >= 0)
        close(fd);
    if (got != (ssize_t)sizeof found)
        return false;
    return !l->run_id[0] || memcmp(found, l->run_id, sizeof found) == 0;
}

/* "segments" is a link into memory, where nothing is the run's after another boot. */
static int open_link(struct col_live *l, bool other_boot, const char *path, struct tacho_error *err)
{
    size_t folder = strlen(IN_MEMORY);
    ssize_t length = readlinkat(l->home, SEGMENTS, l->segments, sizeof l->segments - 1);
    l->segments[length > 0 ? length : 0] = 0;
    bool in_memory = strncmp(l->segments, IN_MEMORY, folder) == 0;
    bool directly = strrchr(l->segments, '/') == l->segments + folder;
    if (!other_boot && (!in_memory || !directly || !is_made_name(l->segments)))
        return fail_pools(path, err);
    if (!other_boot && (access(l->segments, F_OK) == 0 || errno != ENOENT))
        return open_own(AT_FDCWD, l->segments, path, &l->pools, err);
    l->segments[0] = 0; /* gone */
    return 0;
}

int col_live_open_segments(struct col_live *l, bool other_boot, struct tacho_error *err)
{
    char path[COL_PATH_MAX];
    struct stat st;
    int rc;
    if (l->pools >= 0)
        return 0;
    l->segments[0] = 0;
    if (!path_set(path, "%s/" SEGMENTS, l->folder))
        return fail_long(err);
    if (fstatat(l->home, SEGMENTS, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? 0 : fail_errno(err, path, NULL);
    if (S_ISLNK(st.st_mode)) {
        rc = open_link(l, other_boot, path, err);
    } else {
        memcpy(l->segments, path, sizeof path);
        rc = open_own(l->home, SEGMENTS, path, &l->pools, err);
    }
    if (rc == 0 && l->pools >= 0 && !has_run_id(l))
        rc = fail_pools(path, err);
    if (rc) {
        let_go(&l->pools);
        l->segments[0] = 0;
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
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;)
        if (is_made(e->d_name) && col_pool_is_own(folder, e->d_name))
            unlinkat(folder, e->d_name, 0);
    if (dir)
        closedir(dir);
}

static void remove_segments(struct col_live *l)
{
    struct stat st;
    if (l->pools >= 0)
        remove_made(l->pools, is_segment_name);
    if (fstatat(l->home, SEGMENTS, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return;
    if (S_ISDIR(st.st_mode))
        unlinkat(l->home, SEGMENTS, AT_REMOVEDIR);
    else if (S_ISLNK(st.st_mode) && (!l->segments[0] || rmdir(l->segments) == 0 || errno == ENOENT))
        unlinkat(l->home, SEGMENTS, 0);
}

/* The folder under its name, if that still leads to it. */
static bool remove_home(const struct col_live *l)
{
    char real[COL_PATH_MAX];
    struct stat here, there;
    if (!realpath(l->folder, real) || fstat(l->home, &here) != 0 || lstat(real, &there) != 0)
        return false;
    if (here.st_dev != there.st_dev || here.st_ino != there.st_ino || rmdir(real) != 0)
        return false;
    return !l->linked || unlink(l->folder) == 0;
}

void col_live_remove(struct col_live *l)
{
    if (l->home >= 0) {
        remove_segments(l);
        remove_made(l->home, is_live_name);
        l->left = !remove_home(l);
    }
    col_live_leave(l);
}

void col_live_init(struct col_live *l)
{
    memset(l, 0, sizeof *l);
    l->home = l->pools = l->lock = -1;
}

void col_live_leave(struct col_live *l)
{
    let_go(&l->lock);
    let_go(&l->pools);
    let_go(&l->home);
}

int col_live_publish(struct col_live *l, char path[COL_PATH_MAX], struct tacho_error *err)
{
    size_t stem = strlen(l->final) - strlen(COL_SUFFIX);
    char db[64]; /* by the descriptor: the name of the folder may lead elsewhere by now */
    int rc = 0;
    snprintf(db, sizeof db, "/proc/self/fd/%d/" DB, l->home);
    for (int i = 1; i < 1000; i++) {
        bool fits = i == 1 ? path_set(path, "%s", l->final)
                           : path_set(path, "%.*s-%d" COL_SUFFIX, (int)stem, l->final, i);
        if (!fits)
            return fail_long(err);
        /* somebody else may have taken the name meanwhile: what was recorded is worth more than the
         * name */
        rc = store_publish(db, path, err);
        if (rc != TACHO_EEXISTS)
            break;
    }
    if (rc == 0)
        col_live_remove(l);
    return rc;
}
