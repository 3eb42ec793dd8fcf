/* SPDX-License-Identifier: Apache-2.0 */
#include "live.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "store/store.h"

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

__attribute__((format(printf, 2, 3))) static bool path_set(char to[COL_PATH_MAX], const char *format, ...)
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

/* Segments live in memory where there is room for them: the target's writes then never wait for a disk. */
static int make_segments(struct col_live *l, struct tacho_error *err)
{
    char inside[COL_PATH_MAX];
    if (!path_set(inside, "%s/segments", l->folder))
        return fail_long(err);
    if (room_of("/dev/shm") >= COL_TMPFS_ROOM && path_set(l->segments, "/dev/shm/tacho-%u-XXXXXX", (unsigned)getuid()) &&
        mkdtemp(l->segments)) {
        if (symlink(l->segments, inside) == 0)
            return 0;
        int error = errno;
        rmdir(l->segments);
        l->segments[0] = 0;
        errno = error;
        return fail_errno(err, inside, NULL);
    }
    l->segments[0] = 0;
    if (mkdir(inside, 0700) != 0)
        return fail_errno(err, inside, NULL);
    if (!realpath(inside, l->segments))
        return fail_errno(err, inside, NULL);
    return 0;
}

/* Written, not only allocated: some filesystems give allocated room to others. */
static void make_reserve(const struct col_live *l)
{
    char path[COL_PATH_MAX];
    int64_t room = room_of(l->folder);
    int64_t bytes = room / 8 < COL_RESERVE_BYTES ? room / 8 : COL_RESERVE_BYTES;
    if (bytes < 4096 || !path_set(path, "%s/reserve", l->folder))
        return;
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_EXCL, 0600);
    if (fd < 0)
        return;
    if (posix_fallocate(fd, 0, bytes) != 0)
        unlink(path);
    close(fd);
}

bool col_live_use_reserve(struct col_live *l)
{
    char path[COL_PATH_MAX];
    return path_set(path, "%s/reserve", l->folder) && unlink(path) == 0;
}

int64_t col_live_room(const struct col_live *l)
{
    return room_of(l->folder);
}

static int take_lock(struct col_live *l, struct tacho_error *err)
{
    char path[COL_PATH_MAX];
    if (!path_set(path, "%s/lock", l->folder))
        return fail_long(err);
    l->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (l->lock < 0)
        return fail_errno(err, path, NULL);
    if (flock(l->lock, LOCK_EX | LOCK_NB) == 0)
        return 0;
    int error = errno;
    close(l->lock);
    l->lock = -1;
    errno = error;
    if (error == EWOULDBLOCK)
        return tacho_fail(err, TACHO_EBUSY, "wait until the run has ended", "%s: is being recorded", l->folder);
    return fail_errno(err, path, NULL);
}

static int fail_folder(struct tacho_error *err, const char *folder)
{
    if (errno == EEXIST) /* somebody was faster by a moment */
        return tacho_fail(err, TACHO_EEXISTS, "choose another name with -o", "%s: is being recorded", folder);
    return fail_errno(err, folder,
                      errno == ENAMETOOLONG ? "choose a shorter name with -o" : "choose a folder you can write to with -o");
}

/* The folder itself; where the output is on a network filesystem a link to a folder on a local one. */
static int make_folder(struct col_live *l, const char *parent, struct tacho_error *err)
{
    if (store_is_local(parent) != 0) {
        if (mkdir(l->folder, 0700) == 0)
            return 0;
        return fail_folder(err, l->folder);
    }
    const char *tmp = getenv("TMPDIR");
    char real[COL_PATH_MAX];
    if (!path_set(real, "%s/tacho-%u-XXXXXX", tmp && *tmp == '/' ? tmp : "/tmp", (unsigned)getuid()))
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
    return 0;
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

static int named_folder(const char *output, const char *host, struct col_live *l, struct tacho_error *err)
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
    bool is_name = strcmp(base, COL_SUFFIX) != 0 && strcmp(typed, ".") != 0 && strcmp(typed, "..") != 0;
    if (!is_name || (stat(output, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))) /* -o . ; -o /dev/null */
        return tacho_fail(err, TACHO_EUSAGE, "give a file name, for example -o run.tacho", "%s: not a file name", output);
    if (slash)
        *slash = 0;
    if (!realpath(slash ? (slash == path ? "/" : path) : ".", parent))
        return fail_errno(err, slash ? path : ".", "make the folder first, or choose another one with -o");
    if (!path_set(l->final, "%s/%s", strcmp(parent, "/") == 0 ? "" : parent, base) || !path_set(l->folder, "%s.live", l->final))
        return fail_long(err);
    if (exists(l->final))
        return tacho_fail(err, TACHO_EEXISTS, "choose another name with -o, or remove it", "%s: exists already", l->final);
    if (exists(l->folder)) {
        if (col_live_locked(l->folder))
            return tacho_fail(err, TACHO_EBUSY, "choose another name with -o", "%s: is being recorded", l->folder);
        return tacho_fail(err, TACHO_EEXISTS, "finish that run with 'tacho recover', or choose another name with -o",
                          "%s: a run of that name was not finished", l->folder);
    }
    return make_folder(l, parent, err);
}

static int default_folder(const char *program, const char *host, struct col_live *l, struct tacho_error *err)
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
        if (!path_set(l->final, "%s/%s-%s%s%s" COL_SUFFIX, strcmp(here, "/") == 0 ? "" : here, name, stamp, host, number) ||
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

int col_live_create(const char *output, const char *program, bool with_host, struct col_live *l, struct tacho_error *err)
{
    char host[104] = "";
    if (with_host)
        host_part(host, sizeof host);
    memset(l, 0, sizeof *l);
    l->lock = -1;
    int rc = output ? named_folder(output, host, l, err) : default_folder(program, host, l, err);
    if (rc)
        return rc;
    if (!path_set(l->db, "%s/run.db", l->folder))
        rc = fail_long(err);
    if (rc == 0)
        rc = take_lock(l, err);
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
    memset(l, 0, sizeof *l);
    l->lock = -1;
    if (!path_set(path, "%s", folder))
        return fail_long(err);
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
        path[n - 1] = 0;
    if (stat(path, &st) != 0)
        return fail_errno(err, path, "name the .tacho.live folder of a run");
    if (!S_ISDIR(st.st_mode) || !ends_with(path, COL_LIVE_SUFFIX))
        return tacho_fail(err, TACHO_EFORMAT, "name the .tacho.live folder of a run", "%s: not a live run", path);
    char *slash = strrchr(path, '/');
    char base[NAME_MAX + 1];
    snprintf(base, sizeof base, "%.255s", slash ? slash + 1 : path);
    if (slash)
        *slash = 0;
    if (!realpath(slash ? (slash == path ? "/" : path) : ".", parent))
        return fail_errno(err, folder, NULL);
    if (!path_set(l->folder, "%s/%s", strcmp(parent, "/") == 0 ? "" : parent, base) ||
        !path_set(l->db, "%s/run.db", l->folder) || !path_set(l->final, "%s", l->folder) ||
        !path_set(path, "%s/segments", l->folder))
        return fail_long(err);
    l->final[strlen(l->final) - strlen(".live")] = 0;
    l->linked = lstat(l->folder, &st) == 0 && S_ISLNK(st.st_mode);
    if (!exists(l->db))
        return tacho_fail(err, TACHO_EFORMAT, "remove the folder: nothing was recorded in it", "%s: holds no run", l->folder);
    if (!realpath(path, l->segments))
        l->segments[0] = 0;
    return take_lock(l, err);
}

bool col_live_locked(const char *folder)
{
    char path[COL_PATH_MAX];
    if (!path_set(path, "%s/lock", folder))
        return false;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool locked = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    close(fd);
    return locked;
}

/* Removes the plain files of a folder, and the folder. */
static void remove_flat(const char *folder)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir)) != NULL;)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            unlinkat(dirfd(dir), e->d_name, 0);
    closedir(dir);
    rmdir(folder);
}

void col_live_remove(struct col_live *l)
{
    if (l->segments[0])
        remove_flat(l->segments);
    if (l->folder[0]) {
        char real[COL_PATH_MAX];
        bool found = realpath(l->folder, real) != NULL;
        if (found)
            remove_flat(real);
        if (l->linked)
            unlink(l->folder);
    }
    col_live_leave(l);
}

void col_live_leave(struct col_live *l)
{
    if (l->lock >= 0)
        close(l->lock);
    l->lock = -1;
}

int col_live_publish(struct col_live *l, char path[COL_PATH_MAX], struct tacho_error *err)
{
    size_t stem = strlen(l->final) - strlen(COL_SUFFIX);
    int rc = 0;
    for (int i = 1; i < 1000; i++) {
        bool fits = i == 1 ? path_set(path, "%s", l->final) : path_set(path, "%.*s-%d" COL_SUFFIX, (int)stem, l->final, i);
        if (!fits)
            return fail_long(err);
        /* somebody else may have taken the name meanwhile: what was recorded is worth more than the name */
        rc = store_publish(l->db, path, err);
        if (rc != TACHO_EEXISTS)
            break;
    }
    if (rc == 0)
        col_live_remove(l);
    return rc;
}
