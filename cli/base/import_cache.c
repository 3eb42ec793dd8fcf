/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps imports of foreign traces, so that the next command can open them.
 *
 * Two commands may want the same import at once: the second waits at KEY.lock for the first and
 * finds its file. Where locks do not work (some network filesystems) both import, each into a file
 * of its own name, and the last rename wins: the contents are the same. A file of the cache is
 * complete or not there.
 */
#include "cli/base/import_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/apart/import_apart.h"
#include "cli/base/merge_files.h"
#include "cli/base/message.h"
#include "cli/base/options.h"
#include "cli/base/progress.h"
#include "store/store.h"
#include "tacho_folder.h"

#define STALE_SECONDS 86400 /* files of imports that were killed */

/* ---- importing ----------------------------------------------------------------------------------------------------------- */

/* Does the code say that the output, not the input, is the problem? */
static bool is_about_output(int code, const char *out)
{
    struct stat st;
    if (code == TACHO_ENOSPACE)
        return true;
    return (code == TACHO_EDENIED || code == TACHO_EIO || code == TACHO_EEXISTS ||
            code == TACHO_ENOTFOUND) &&
           stat(out, &st) != 0;
}

int cli_import_check(const char *in)
{
    struct stat st;
    if (stat(in, &st) || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
        return 0;
    return cli_error(TACHO_EFORMAT, "write it to a file first: tacho reads a trace more than once",
                     "%s: neither a file nor a folder", in);
}

/* Says, once, that a trace was parsed with all rights of the user. */
static void note_unfiltered(const char *in)
{
    static bool said;
    if (!said)
        cli_say("%s: parsed without a filter of system calls: this system refuses it (seccomp), so "
                "a defect of the parser would have your rights; give it traces that you trust",
                in);
    said = true;
}

int cli_import_files(const char *const *in, size_t in_count, const char *out, const char *marker,
                     bool quiet, struct store_import_result *import_result, int *code)
{
    struct tacho_error err = {0};
    struct store_import_result none = {0};
    struct cli_progress progress;
    *import_result = none;
    cli_progress_begin(&progress, in[0]);
    struct store_import_options import_options = {.in = in,
                                                  .in_count = in_count,
                                                  .out = out,
                                                  .step_marker = marker,
                                                  .progress = cli_progress_step,
                                                  .ctx = &progress};
    bool filtered;
    int rc = cli_import_apart(&import_options, import_result, &filtered, &err);
    int stopped = cli_progress_end(&progress);
    if (code)
        *code = rc;
    if (!filtered)
        note_unfiltered(in[0]);
    if (!rc)
        return 0;
    if (rc == TACHO_EINTERRUPTED && stopped && stopped != SIGINT)
        raise(stopped);
    if (quiet && is_about_output(rc, out))
        return tacho_error_exit(rc);
    return cli_fail(&err);
}

/* ---- the folder ---------------------------------------------------------------------------------------------------------- */

/* 0 or an errno. */
static int folder_make(char *folder, size_t size)
{
    int error = tacho_cache_folder("tacho/imports", folder, size);
    if (!error && access(folder, R_OK | W_OK | X_OK))
        error = errno;
    return error;
}

/* Bytes that all kept imports may take together, from TACHO_IMPORT_CACHE if that is set. */
static int64_t limit(void)
{
    const char *text = getenv("TACHO_IMPORT_CACHE");
    double value;
    if (!text || !*text)
        return CLI_IMPORT_CACHE_BYTES;
    if (cli_parse_scaled(text, 1024, &value) && value >= 0 && value < 9e18)
        return (int64_t)value;
    cli_say("TACHO_IMPORT_CACHE: '%s' is not a size; using the default", text);
    return CLI_IMPORT_CACHE_BYTES;
}

static int64_t ns_of(struct timespec time)
{
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

struct kept {
    char name[64];
    int64_t bytes, used; /* used: atime, ns */
};

static int by_use(const void *left_row, const void *right_row)
{
    const struct kept *left = left_row, *right = right_row;
    return left->used < right->used ? -1 : left->used > right->used;
}

/* Is it the name of a kept import: 32 hexadecimal digits and .tacho? */
static bool is_key_name(const char *name)
{
    return strspn(name, "0123456789abcdef") == 32 && !strcmp(name + 32, ".tacho");
}

/* Removes what an import that was killed left: a lock, an unfinished file or its hidden folder. */
static void remove_stale(int folder, const char *name, const struct stat *st)
{
    if (S_ISREG(st->st_mode))
        unlinkat(folder, name, 0);
    else if (S_ISDIR(st->st_mode) && name[0] == '.' && strcmp(name, "..") != 0 && name[1])
        cli_import_remove_left(folder, name);
}

/* Removes the least recently used imports until all fit, but never the one just made. Also removes
 * what killed imports left. */
static void evict(const char *folder, const char *keep, int64_t most)
{
    struct kept *kept = NULL;
    size_t count = 0, cap = 0;
    int64_t total = 0;
    DIR *dir = opendir(folder);
    if (!dir)
        return;
    for (struct dirent *entry; (entry = readdir(dir));) {
        struct stat st;
        if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW))
            continue;
        if (!S_ISREG(st.st_mode) || !is_key_name(entry->d_name)) {
            if (st.st_mtime < time(NULL) - STALE_SECONDS)
                remove_stale(dirfd(dir), entry->d_name, &st);
            continue;
        }
        total += st.st_size;
        if (count == cap) {
            struct kept *bigger = realloc(kept, (cap = cap ? 2 * cap : 64) * sizeof *kept);
            if (!bigger)
                break;
            kept = bigger;
        }
        kept[count].bytes = st.st_size;
        kept[count].used = ns_of(st.st_atim);
        snprintf(kept[count++].name, sizeof kept->name, "%.63s", entry->d_name);
    }
    if (count)
        qsort(kept, count, sizeof *kept, by_use);
    for (size_t i = 0; i < count && total > most; i++)
        if (strcmp(kept[i].name, keep) && !unlinkat(dirfd(dir), kept[i].name, 0))
            total -= kept[i].bytes;
    closedir(dir);
    free(kept);
}

/* ---- is it up to date? ----------------------------------------------------------------------------------------------------
 *
 * A key looks at three blocks of each file. That an input was changed elsewhere is seen by its
 * time: the file of the cache has the time at which its import began as its mtime, and the time of
 * its last use as its atime. */

#define CLOCK_STEP_NS 10000000 /* file systems take the time of the last timer tick */

/* When the file, or anything in the folder, was changed last. */
static int64_t changed_at(const char *in)
{
    struct stat st;
    if (stat(in, &st))
        return INT64_MAX;
    int64_t newest = ns_of(st.st_ctim);
    DIR *folder = S_ISDIR(st.st_mode) ? opendir(in) : NULL;
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (strcmp(entry->d_name, "..") != 0 && !fstatat(dirfd(folder), entry->d_name, &st, 0) &&
            ns_of(st.st_ctim) > newest)
            newest = ns_of(st.st_ctim);
    if (folder)
        closedir(folder);
    return newest;
}

static int64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return ns_of(time);
}

/* Sets the modification time of a kept file to the time at which its import began. */
static void mark_begun(const char *path, int64_t begun)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_NOW},
                                {.tv_sec = begun / 1000000000, .tv_nsec = begun % 1000000000}};
    utimensat(AT_FDCWD, path, times, 0);
}

/* Is there a file that can be read, younger than what it was made of? Marks it as used now. */
static bool is_kept(const char *in, const char *path)
{
    store_reader *reader = NULL;
    struct stat st;
    if (stat(path, &st) || changed_at(in) >= ns_of(st.st_mtim) - CLOCK_STEP_NS)
        return false;
    bool ok = !store_open(path, &reader, NULL);
    store_reader_close(reader);
    struct timespec used[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}};
    if (ok)
        utimensat(AT_FDCWD, path, used, 0);
    return ok;
}

/* Makes one file of what `in` is: an import, or the runs of a folder merged. *code: a TACHO_E*
 * code, 0 after a merge. */
static int convert(const char *in, const char *out, bool quiet, int *code)
{
    struct store_import_result import;
    struct store_merge_result merge;
    *code = 0;
    if (cli_merge_runs(in))
        return cli_merge_files(&in, 1, out, false, &merge);
    return cli_import_files(&in, 1, out, NULL, quiet, &import, code);
}

/* ---- finding ------------------------------------------------------------------------------------------------------------- */

/* Imports into a temporary file that is removed at the end, and says why nothing is kept. */
static int temporary(const char *in, const char *why, char *path, size_t size)
{
    const char *tmp = getenv("TMPDIR");
    char folder[PATH_MAX];
    cli_say("%s: the import is not cached (%s)", in, why);
    if ((size_t)snprintf(folder, sizeof folder, "%s/tacho-import-XXXXXX",
                         tmp && *tmp == '/' ? tmp : "/tmp") >= sizeof folder ||
        !mkdtemp(folder)) {
        return cli_error(TACHO_EIO,
                         "set TMPDIR or XDG_CACHE_HOME to a folder that you may write to", "%s: %s",
                         folder, strerror(errno));
    }
    snprintf(path, size, "%s/run.tacho", folder);
    if (cli_remove_at_exit(folder) || cli_remove_at_exit(path)) {
        rmdir(folder);
        return cli_error(TACHO_EINTERNAL, "give fewer traces at a time, or set XDG_CACHE_HOME",
                         "%s: too many temporary files", in);
    }
    int none;
    return convert(in, path, false, &none);
}

/* Waits for the lock of KEY. A descriptor, or -1: there are no locks here; *stopped: the user wants
 * no more. */
static int lock(const char *in, const char *path, bool *stopped)
{
    char name[PATH_MAX];
    struct cli_progress progress;
    if ((size_t)snprintf(name, sizeof name, "%s.lock", path) >= sizeof name)
        return -1;
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    if (!flock(fd, LOCK_EX | LOCK_NB))
        return fd;
    cli_progress_begin(&progress, in);
    int rc;
    while ((rc = flock(fd, LOCK_EX)) != 0 && errno == EINTR &&
           !cli_progress_step(&progress, 0, 0)) {
    }
    *stopped = rc && errno == EINTR;
    int number = cli_progress_end(&progress);
    if (!rc)
        return fd;
    close(fd);
    if (*stopped && number != SIGINT)
        raise(number);
    return -1;
}

/* Imports into a name of its own, then gives the file the name of its key. *code: a TACHO_E* code.
 */
static int make(const char *in, const char *path, int *code)
{
    char own[PATH_MAX];
    if ((size_t)snprintf(own, sizeof own, "%s.%ld", path, (long)getpid()) >= sizeof own) {
        *code = TACHO_EDENIED;
        return tacho_error_exit(*code);
    }
    unlink(own);
    int64_t begun = now_ns();
    int rc = convert(in, own, true, code);
    if (rc)
        return rc;
    mark_begun(own, begun);
    if (rename(own, path)) {
        unlink(own);
        *code = TACHO_EDENIED;
        return tacho_error_exit(*code);
    }
    return 0;
}

/* Is it the cache that failed, and not the import? */
static bool is_about_cache(int code)
{
    return code == TACHO_ENOSPACE || code == TACHO_EDENIED || code == TACHO_EIO ||
           code == TACHO_ENOTFOUND || code == TACHO_EEXISTS;
}

static void unlock(const char *folder, const char *key, int held)
{
    char name[PATH_MAX];
    if (held < 0)
        return;
    snprintf(name, sizeof name, "%s/%s.tacho.lock", folder, key);
    unlink(name);
    close(held);
}

static int import_key(const char *in, char key[33])
{
    struct tacho_error err = {0};
    int rc = 0;
    if (!cli_merge_runs(in))
        rc = store_import_key(&in, 1, key, &err);
    else if (cli_merge_key(in, key))
        rc = tacho_fail(&err, TACHO_EIO, NULL, "%s: %s", in, strerror(errno));
    return rc ? cli_fail(&err) : 0;
}

int cli_import_cached(const char *in, char *path, size_t size)
{
    char folder[PATH_MAX - 64], key[33];
    bool stopped = false;
    int64_t most = limit();
    int rc = import_key(in, key);
    if (rc)
        return rc;
    int os = most ? folder_make(folder, sizeof folder) : 0;
    if (!most || os)
        return temporary(in, most ? tacho_folder_problem(os) : "TACHO_IMPORT_CACHE is 0", path,
                         size);
    if ((size_t)snprintf(path, size, "%s/%s.tacho", folder, key) >= size)
        return temporary(in, strerror(ENAMETOOLONG), path, size);
    if (is_kept(in, path))
        return 0;
    int held = lock(in, path, &stopped), code = 0;
    if (stopped)
        return cli_error(TACHO_EINTERRUPTED, NULL, "%s: interrupted", in);
    rc = is_kept(in, path) ? 0 : make(in, path, &code);
    if (!rc)
        evict(folder, strrchr(path, '/') + 1, most);
    unlock(folder, key, held);
    bool about_cache = rc && is_about_cache(code);
    return about_cache ? temporary(in, tacho_error_text(code), path, size) : rc;
}
