/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the folder of a live run: under the name that was asked for or a default one, on a local
 * filesystem, with its lock, the folder of the pools (in memory where there is room) and a reserve
 * of disk space for finishing a run on a full disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "profiler/collector/job/live_private.h"
#include "profiler/collector/os/text.h"
#include "store/store.h"

/* Gives the run a random name and writes it beside the pools, with the inode of the live folder, as
 * the proof that they are its own. */
static int write_proof(struct col_live *live, struct tacho_error *err)
{
    struct col_live_proof proof = {.device = 0};
    unsigned long long random[2];
    struct stat home;
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random ||
        fstat(live->home, &home) != 0)
        return col_live_fail_errno(err, live->segments, NULL);
    snprintf(live->run_id, sizeof live->run_id, "%016llx%016llx", random[0], random[1]);
    memcpy(proof.run_id, live->run_id, sizeof proof.run_id);
    proof.device = home.st_dev;
    proof.inode = home.st_ino;
    memcpy(proof.folder, live->folder, sizeof proof.folder);
    live->proof = store_file_open(live->pools, RUN_ID, O_WRONLY | O_CREAT | O_EXCL);
    if (live->proof < 0 || write(live->proof, &proof, sizeof proof) != (ssize_t)sizeof proof)
        return col_live_fail_errno(err, live->segments, NULL);
    return col_live_flock(live, live->proof, err);
}

/* Makes the folder of the pools. It lies in memory where there is room, so that the target's writes
 * never wait for a disk; then the live folder has a link to it. */
static int make_segments(struct col_live *live, struct tacho_error *err)
{
    char inside[COL_PATH_MAX];
    int rc;
    if (!col_live_path(inside, "%s/" SEGMENTS, live->folder))
        return col_live_fail_long(err);
    if (col_live_room_of(IN_MEMORY) >= COL_TMPFS_ROOM &&
        col_live_path(live->segments, IN_MEMORY "/tacho-%u-XXXXXX", (unsigned)getuid()) &&
        mkdtemp(live->segments)) {
        rc = col_live_open_own(AT_FDCWD, live->segments, live->segments, &live->pools, err);
        if (rc == 0 && symlinkat(live->segments, live->home, SEGMENTS) != 0)
            rc = col_live_fail_errno(err, inside, NULL);
        if (rc == 0)
            return write_proof(live, err);
        rmdir(live->segments);
        live->segments[0] = 0;
        return rc;
    }
    live->segments[0] = 0;
    if (mkdirat(live->home, SEGMENTS, 0700) != 0)
        return col_live_fail_errno(err, inside, NULL);
    if (!realpath(inside, live->segments))
        return col_live_fail_errno(err, inside, NULL);
    rc = col_live_open_own(live->home, SEGMENTS, inside, &live->pools, err);
    return rc ? rc : write_proof(live, err);
}

/* Reserves disk space for finishing the run. The space is allocated and kept as a file, which is
 * removed before the last commits. */
static void make_reserve(const struct col_live *live)
{
    int64_t room = col_live_room_of(live->folder);
    int64_t bytes = room / 8 < COL_RESERVE_BYTES ? room / 8 : COL_RESERVE_BYTES;
    if (bytes < 4096)
        return;
    int fd = store_file_open(live->home, RESERVE, O_WRONLY | O_CREAT | O_EXCL);
    if (fd < 0)
        return;
    if (posix_fallocate(fd, 0, bytes) != 0)
        unlinkat(live->home, RESERVE, 0);
    close(fd);
}

/* The error of a folder that could not be made. */
static int fail_folder(struct tacho_error *err, const char *folder)
{
    if (errno == EEXIST) /* another process was faster */
        return tacho_fail(err, TACHO_EEXISTS, "choose another name with -o",
                          "%s: is being recorded", folder);
    return col_live_fail_errno(err, folder,
                               errno == ENAMETOOLONG ? "choose a shorter name with -o"
                                                     : "choose a writable folder with -o");
}

/* Makes the folder itself; where the output is on a network filesystem, a folder on a local one and
 * a link to it. */
static int make_folder(struct col_live *live, const char *parent, struct tacho_error *err)
{
    const char *base = col_live_base(live->folder);
    int rc = live->outside < 0 ? col_live_open_outside(live, parent, err) : 0;
    if (rc)
        return rc;
    if (store_is_local(*parent ? parent : "/") != 0) {
        if (mkdirat(live->outside, base, 0700) == 0)
            return col_live_open_own(live->outside, base, live->folder, &live->home, err);
        return fail_folder(err, live->folder);
    }
    const char *tmp = getenv("TMPDIR");
    char real[COL_PATH_MAX];
    if (!col_live_path(real, "%s/tacho-%u-XXXXXX", tmp && *tmp == '/' ? tmp : "/tmp",
                       (unsigned)getuid()))
        return col_live_fail_long(err);
    if (!mkdtemp(real))
        return col_live_fail_errno(err, real, "set TMPDIR to a local folder");
    if (symlinkat(real, live->outside, base) != 0) {
        int error = errno;
        rmdir(real);
        errno = error;
        return fail_folder(err, live->folder);
    }
    live->linked = true;
    return col_live_open_own(AT_FDCWD, real, real, &live->home, err);
}

/* Also true for a link that leads nowhere. */
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

/* Makes the folder for the name that -o gives: NAME.tacho.live beside where NAME.tacho will be. A
 * file or a run of that name is never replaced. */
static int named_folder(const char *output, const char *host, struct col_live *live,
                        struct tacho_error *err)
{
    char path[COL_PATH_MAX], parent[COL_PATH_MAX];
    int stem = (int)(strlen(output) - (col_ends_with(output, COL_SUFFIX) ? strlen(COL_SUFFIX) : 0));
    bool named = stem > 0 && output[stem - 1] != '/';
    if (!col_live_path(path, "%.*s%s" COL_SUFFIX, stem, output, named ? host : ""))
        return col_live_fail_long(err);
    struct stat found;
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    const char *typed = strrchr(output, '/') ? strrchr(output, '/') + 1 : output;
    bool is_name =
        strcmp(base, COL_SUFFIX) != 0 && strcmp(typed, ".") != 0 && strcmp(typed, "..") != 0;
    /* "-o ." and "-o /dev/null" are not names of files */
    if (is_name && stat(output, &found) == 0)
        is_name = S_ISREG(found.st_mode) || S_ISDIR(found.st_mode);
    if (!is_name)
        return tacho_fail(err, TACHO_EUSAGE, "give a file name, for example -o run.tacho",
                          "%s: not a file name", output);
    if (!col_live_split(path, &base, parent))
        return col_live_fail_errno(err, slash ? path : ".",
                                   "create the folder first, or choose another one with -o");
    if (!col_live_path(live->final, "%s/%s", parent, base) ||
        !col_live_path(live->folder, "%s.live", live->final))
        return col_live_fail_long(err);
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

/* Makes a folder with a default name in the current folder: program, date and time, and a number if
 * that exists. */
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
        return col_live_fail_errno(err, ".", NULL);
    time_t now = time(NULL);
    struct tm tm;
    localtime_r(&now, &tm);
    strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &tm);
    for (int i = 1; i < 1000; i++) {
        char number[16] = "";
        if (i > 1)
            snprintf(number, sizeof number, "-%d", i);
        if (!col_live_path(live->final, "%s/%s-%s%s%s" COL_SUFFIX,
                           strcmp(here, "/") == 0 ? "" : here, name, stamp, host, number) ||
            !col_live_path(live->folder, "%s.live", live->final))
            return col_live_fail_long(err);
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
    rc = col_live_path(live->db, "%s/" DB, live->folder) ? col_live_take_lock(live, err)
                                                         : col_live_fail_long(err);
    if (rc == 0)
        rc = make_segments(live, err);
    if (rc == 0)
        make_reserve(live);
    else
        col_live_remove(live);
    return rc;
}
