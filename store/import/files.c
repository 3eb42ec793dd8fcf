/* SPDX-License-Identifier: Apache-2.0
 *
 * Collects the files of an import: which of a folder are traces, which of them are the newest of
 * their worker.
 */
#include "store/import/files.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "store/import/input/input.h"

#define TIME_DIGITS  10     /* at least, of the time in the name of a capture */
#define SEARCH_DEPTH 8      /* folders below one that has no trace itself */
#define SEARCH_MOST  100000 /* files of one search */

static bool ends_with(const char *path, const char *suffix)
{
    size_t length = strlen(path), end = strlen(suffix);
    return length >= end && !strcmp(path + length - end, suffix);
}

static int stat_of(const char *path, struct stat *st, struct tacho_error *err)
{
    if (!stat(path, st))
        return 0;
    int code = tacho_error_of_errno(errno);
    const char *hint = code == TACHO_EDENIED ? IMP_HINT_DENIED : NULL;
    if (code == TACHO_ENOTFOUND)
        hint = "check the spelling; give a Kineto .json or .json.gz, or an Nsight .sqlite";
    return tacho_fail(err, code, hint, "%s: %s", path, strerror(errno));
}

/* Fails with the errno of an input that exists. */
int imp_files_failed(const char *path, const char *denied, struct tacho_error *err)
{
    int code = errno == EACCES ? TACHO_EDENIED : TACHO_EIO;
    return tacho_fail(err, code, code == TACHO_EDENIED ? denied : NULL, "%s: %s", path,
                      strerror(errno));
}

/* ---- the files of an import -------------------------------------------------------------------------------------------------- */

void imp_files_clear(struct imp_files *files)
{
    for (size_t i = 0; i < files->count; i++)
        free(files->file[i].path);
    free(files->file);
    memset(files, 0, sizeof *files);
}

/* How much a file says of a run beside others in its folder. */
static int worth_of(enum store_format format)
{
    switch (format) {
    case STORE_FORMAT_LOG:
        return 0;
    case STORE_FORMAT_TFEVENTS:
        return 1;
    case STORE_FORMAT_CHAKRA:
        return 2;
    default:
        return 3;
    }
}

static int files_add(struct imp_files *files, const char *path, enum store_format format,
                     int64_t bytes, bool from_folder, struct tacho_error *err)
{
    if (files->count == files->cap) {
        size_t cap = files->cap ? 2 * files->cap : 16;
        struct imp_file *file = realloc(files->file, cap * sizeof *file);
        if (!file)
            return tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", path);
        files->file = file;
        files->cap = cap;
    }
    char *copy = strdup(path);
    if (!copy)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", path);
    files->file[files->count++] = (struct imp_file){.path = copy,
                                                    .format = format,
                                                    .bytes = bytes,
                                                    .from_folder = from_folder,
                                                    .worth = worth_of(format)};
    files->bytes += bytes;
    return 0;
}

/* Puts first what says most, and rank2 before rank10: runs of digits compare as numbers. */
static int natural_order(const void *left, const void *right)
{
    int difference =
        ((const struct imp_file *)right)->worth - ((const struct imp_file *)left)->worth;
    if (difference)
        return difference;
    return strverscmp(((const struct imp_file *)left)->path,
                      ((const struct imp_file *)right)->path);
}

static bool named_as_trace(const char *path)
{
    static const char *const suffixes[] = {".json",      ".json.gz", ".sqlite",
                                           ".sqlite.gz", ".pickle",  ".xplane.pb",
                                           ".db",        ".pftrace", ".et"};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (ends_with(path, suffixes[i]))
            return true;
    return false;
}

/* Adds a file of a folder if it is a trace. A file that only has the name of one is probably a rank
 * whose data is missing, so it is added too and later counted as a loss. Other files are ignored.
 * `st`: NULL if it cannot be looked at. */
static int folder_file(struct imp_files *files, const char *name, const struct stat *st,
                       struct tacho_error *err)
{
    struct tacho_error why = {0};
    enum store_format format = STORE_FORMAT_UNKNOWN;
    const char *unread = NULL;
    if (!st)
        unread = "cannot be read";
    else if (!st->st_size)
        unread = "the file is empty";
    else if (imp_file_format(name, &format, &why))
        unread =
            why.code == TACHO_EFORMAT ? "not a trace: nothing was read from it" : "cannot be read";
    files->refused += format == STORE_FORMAT_CONVERT;
    if (why.code == TACHO_ENOTSUP && !files->why.code)
        files->why = why;
    if (imp_importer_of(format))
        return files_add(files, name, format, st->st_size, true, err);
    if (!unread || format != STORE_FORMAT_UNKNOWN || !named_as_trace(name))
        return 0;
    int status = files_add(files, name, format, 0, true, err);
    if (!status) {
        files->file[files->count - 1].unread = unread;
        files->unread++;
    }
    return status;
}

/* Length of the worker's part of a name that torch.profiler's handler gives,
 * WORKER.TIME.pt.trace.json with .gz or without; 0: another name. */
static size_t worker_length(const char *path)
{
    const char *tail = strstr(path, ".pt.trace.json"), *time = tail;
    while (time && time > path && time[-1] >= '0' && time[-1] <= '9')
        time--;
    bool timed = time && tail - time >= TIME_DIGITS && time - path >= 2 && time[-1] == '.';
    return timed ? (size_t)(time - path) : 0;
}

/* Of a path .../plugins/profile/TIME/FILE, as JAX and TensorFlow write it, the length up to TIME;
 * 0: another path. */
static size_t session_length(const char *path)
{
    static const char folder[] = "/plugins/profile/";
    const char *found = strstr(path, folder);
    return found ? (size_t)(found - path) + sizeof folder - 1 : 0;
}

/* Are both captures of one worker at different times, and is `later` sorted behind? */
static bool is_earlier_capture(const struct imp_file *file, const struct imp_file *later)
{
    size_t length = worker_length(file->path), session = session_length(file->path);
    if (length)
        return length == worker_length(later->path) && !later->unread &&
               !strncmp(file->path, later->path, length);
    if (!session || session != session_length(later->path) ||
        strncmp(file->path, later->path, session))
        return false;
    size_t time = strcspn(file->path + session, "/");
    return time != strcspn(later->path + session, "/") ||
           memcmp(file->path + session, later->path + session, time) != 0;
}

/* Length of a path without what its name says of the format. */
static size_t stem_length(const char *path)
{
    const char *name = strrchr(path, '/');
    name = name ? name + 1 : path;
    const char *end = strstr(name, ".xplane.pb");
    end = end ? end : strstr(name, ".trace.json");
    end = end ? end : strchr(name, '.');
    return end ? (size_t)(end - path) : strlen(path);
}

/* Length of the path of the folder that one capture of an Ascend NPU fills: that of a framework
 * (*_ascend_pt, with the folder PROF_* in it), else that of msprof, else the folder of the file. */
static size_t ascend_length(const char *path)
{
    static const char *const marks[] = {"_ascend_pt/", "_ascend_ms/", "/ASCEND_PROFILER_OUTPUT/"};
    const char *name = strrchr(path, '/'), *found = NULL;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if ((found = strstr(path, marks[i])))
            return (size_t)(found - path) + (i < 2 ? strlen(marks[i]) : 1);
    found = strncmp(path, "PROF_", 5) ? strstr(path, "/PROF_") : path;
    found = found ? strchr(found + 1, '/') : NULL;
    found = found ? found : name;
    return found ? (size_t)(found - path) + 1 : 0;
}

static bool is_ascend(const struct imp_file *file)
{
    return file->format == STORE_FORMAT_ASCEND || file->format == STORE_FORMAT_ASCEND_CSV;
}

/* How much a file says of a capture of an Ascend NPU: the timeline of the framework, that of
 * msprof, the tables of kernels. */
static int ascend_worth(const struct imp_file *file)
{
    static const char *const names[] = {"task_time", "op_summary", "kernel_details", "msprof",
                                        "trace_view"};
    const char *name = strrchr(file->path, '/');
    name = name ? name + 1 : file->path;
    for (int i = 0; is_ascend(file) && i < (int)(sizeof names / sizeof *names); i++)
        if (!strncmp(name, names[i], strlen(names[i])))
            return i + 1;
    return file->format == STORE_FORMAT_ASCEND ? 5 : 0;
}

/* Does `other` say more of the same capture of an Ascend NPU? Events that msprof writes beside its
 * timeline (msprof_tx_*.json) look like a trace of their own. */
static bool is_less_of_ascend(const struct imp_file *file, const struct imp_file *other)
{
    bool beside = file->format == STORE_FORMAT_KINETO && strstr(file->path, "PROF_");
    if (!is_ascend(other) || (!is_ascend(file) && !beside) ||
        ascend_worth(file) >= ascend_worth(other))
        return false;
    size_t length = ascend_length(file->path);
    return length == ascend_length(other->path) && !memcmp(file->path, other->path, length);
}

/* Does `other` hold the same capture in a format that says more? A profile of JAX comes as XPlane
 * and as JSON made of it, a capture of rocprofv3 as JSON and as a database, one of Ascend as
 * timelines and as tables. */
static bool is_twin_of(const struct imp_file *file, const struct imp_file *other)
{
    if (other->unread)
        return false;
    if (is_less_of_ascend(file, other))
        return true;
    size_t length = stem_length(file->path);
    return file->format != other->format &&
           (other->format == STORE_FORMAT_XPLANE || other->format == STORE_FORMAT_ROCPD) &&
           length == stem_length(other->path) && !memcmp(file->path, other->path, length);
}

/* Should the file be left out of those from `first` on? They are sorted by name, and with it by
 * time. */
static bool is_superseded(const struct imp_files *files, size_t first, size_t index, bool *earlier)
{
    const struct imp_file *file = &files->file[index];
    *earlier = index + 1 < files->count && is_earlier_capture(file, &files->file[index + 1]);
    for (size_t i = session_length(file->path) ? index + 1 : files->count;
         i < files->count && !*earlier; i++)
        *earlier = is_earlier_capture(file, &files->file[i]);
    if (*earlier)
        return true;
    for (size_t i = first; i < files->count; i++)
        if (i != index && is_twin_of(file, &files->file[i]))
            return true;
    return false;
}

/* Several captures of one worker are one rank at several times, not several ranks: the newest one
 * is kept. Of one capture in two formats the one that says more is kept. */
static int drop_superseded(struct imp_files *files, size_t first)
{
    size_t kept = first, count = files->count;
    bool *drop = calloc(count + 1, sizeof *drop), earlier;
    if (!drop)
        return TACHO_ENOMEM;
    for (size_t i = first; i < count; i++) {
        drop[i] = is_superseded(files, first, i, &earlier);
        files->earlier += drop[i] && earlier;
    }
    for (size_t i = first; i < count; i++) {
        if (!drop[i]) {
            files->file[kept++] = files->file[i];
            continue;
        }
        files->unread -= files->file[i].unread != NULL;
        files->bytes -= files->file[i].bytes;
        free(files->file[i].path);
    }
    files->count = kept;
    free(drop);
    return 0;
}

/* Adds the traces that lie directly in a folder, or `depth` levels below it. */
static int folder_scan(struct imp_files *files, const char *path, int depth,
                       struct tacho_error *err)
{
    char name[PATH_MAX];
    struct dirent *entry;
    int status = 0;
    DIR *folder = opendir(path);
    if (!folder)
        return imp_files_failed(path, IMP_HINT_DENIED, err);
    while (!status && (entry = readdir(folder))) {
        struct stat st, target;
        if (entry->d_name[0] == '.' ||
            snprintf(name, sizeof name, "%s/%s", path, entry->d_name) >= (int)sizeof name)
            continue;
        if (++files->others > SEARCH_MOST)
            status = tacho_fail(err, TACHO_EFORMAT, "give the folder that holds the traces",
                                "%s: more than %d files in this folder and those below it", path,
                                SEARCH_MOST);
        else if (lstat(name, &st))
            continue; /* it went away */
        else if (S_ISDIR(st.st_mode) && depth > 0)
            status = folder_scan(files, name, depth - 1, NULL) == TACHO_ENOMEM ? TACHO_ENOMEM : 0;
        else if (stat(name, &target))
            status = folder_file(files, name, NULL, err); /* a link that leads nowhere */
        else if (S_ISREG(target.st_mode))
            status = folder_file(files, name, &target, err);
    }
    closedir(folder);
    return status;
}

/* Says why nothing of a folder can be read. */
static int no_trace(const struct imp_files *files, const char *path, struct tacho_error *err)
{
    const char *file = files->why.code ? strstr(files->why.what, ": this is ") : NULL;
    if (file)
        return tacho_fail(err, TACHO_ENOTSUP, files->why.hint,
                          "%s: no trace that tacho can read, but %s", path, file + 10);
    return tacho_fail(err, TACHO_EFORMAT,
                      "give a folder with one trace per rank (Kineto, Nsight .sqlite, .xplane.pb)",
                      "%s: no trace in this folder or below it", path);
}

/* Looks again, in all folders below too; what had only the name of a trace is found again. */
static int search_below(struct imp_files *files, const char *path, size_t first,
                        struct tacho_error *err)
{
    for (size_t i = first; i < files->count; i++)
        free(files->file[i].path);
    files->unread -= files->count - first;
    files->count = first;
    files->refused = 0;
    return folder_scan(files, path, SEARCH_DEPTH, err);
}

/* Adds the traces of a folder, sorted by name. One that has none itself is searched with all that
 * lies below it. Fails if there is none. */
static int folder_add(struct imp_files *files, const char *path, struct tacho_error *err)
{
    size_t first = files->count, unread = files->unread;
    int status = folder_scan(files, path, 0, err);
    if (!status && files->count - first == files->unread - unread)
        status = search_below(files, path, first, err);
    if (!status && files->count - first == files->unread - unread)
        status = no_trace(files, path, err);
    if (!status)
        qsort(files->file + first, files->count - first, sizeof *files->file, natural_order);
    return status ? status : drop_superseded(files, first);
}

/* Collects the files of all inputs. */
int imp_files_of(const char *const *in, size_t in_count, struct imp_files *files,
                 struct tacho_error *err)
{
    int status = 0;
    memset(files, 0, sizeof *files);
    for (size_t i = 0; !status && i < in_count; i++) {
        struct stat st;
        enum store_format format;
        status = stat_of(in[i], &st, err);
        if (!status && S_ISDIR(st.st_mode)) {
            status = folder_add(files, in[i], err);
            continue;
        }
        if (!status)
            status = imp_file_format(in[i], &format, err);
        if (!status && format == STORE_FORMAT_TACHO)
            status =
                tacho_fail(err, TACHO_EFORMAT, "nothing to import: read it with 'tacho report'",
                           "%s: already a .tacho file", in[i]);
        if (!status)
            status = files_add(files, in[i], format, st.st_size, false, err);
    }
    return status;
}

int store_format_of(const char *path, enum store_format *out, struct tacho_error *err)
{
    struct stat st;
    *out = STORE_FORMAT_UNKNOWN;
    int status = stat_of(path, &st, err);
    if (status)
        return status;
    if (!S_ISDIR(st.st_mode))
        return imp_file_format(path, out, err);
    struct imp_files files = {0};
    *out = STORE_FORMAT_FOLDER;
    status = folder_add(&files, path, err);
    imp_files_clear(&files);
    return status;
}
