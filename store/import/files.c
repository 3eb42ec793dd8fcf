/* SPDX-License-Identifier: Apache-2.0
 *
 * Collects the files of an import: which of a folder are traces.
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
    case STORE_FORMAT_ROCPROF_CSV: /* of a capture whose database or JSON may be there */
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

/* Event files below the folder of a run are curves of it: they come behind its own. */
static int folders_last(const char *left, const char *right)
{
    size_t same = 0; /* bytes of the folders that both are in */
    for (size_t i = 0; left[i] && left[i] == right[i]; i++)
        same = left[i] == '/' ? i + 1 : same;
    bool deep = strchr(left + same, '/'), deeper = strchr(right + same, '/');
    return deep != deeper ? deep - deeper : strverscmp(left, right);
}

/* Puts first what says most, and rank2 before rank10: runs of digits compare as numbers. */
static int natural_order(const void *left, const void *right)
{
    int difference =
        ((const struct imp_file *)right)->worth - ((const struct imp_file *)left)->worth;
    if (difference)
        return difference;
    const struct imp_file *first = left, *second = right;
    bool events = first->format == STORE_FORMAT_TFEVENTS,
         others = second->format == STORE_FORMAT_TFEVENTS;
    if (events != others) /* one order for those, another one for the rest */
        return events - others;
    return events ? folders_last(first->path, second->path) : strverscmp(first->path, second->path);
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

/* Keeps why a file of a folder cannot be read: of a known kind before others, then by name. */
static void keep_reason(struct imp_files *files, const struct tacho_error *why)
{
    bool known = why->code == TACHO_ENOTSUP, before = files->why.code == TACHO_ENOTSUP;
    if (!files->why.code || known > before ||
        (known == before && strcmp(why->what, files->why.what) < 0))
        files->why = *why;
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
    bool doubtful = false;
    if (!st)
        unread = "cannot be read";
    else if (!st->st_size)
        unread = "the file is empty";
    else if (imp_file_format(name, &format, &doubtful, &why))
        unread =
            why.code == TACHO_EFORMAT ? "not a trace: nothing was read from it" : "cannot be read";
    files->refused += format == STORE_FORMAT_CONVERT;
    if (why.code == TACHO_ENOTSUP)
        keep_reason(files, &why);
    bool trace = !unread && imp_importer_of(format);
    if (!trace && (!unread || format != STORE_FORMAT_UNKNOWN || !named_as_trace(name)))
        return 0;
    if (!trace) {
        tacho_fail(&why, TACHO_EFORMAT, NULL, "%s: %s", name, unread);
        keep_reason(files, &why);
    }
    int status = files_add(files, name, format, trace ? st->st_size : 0, true, err);
    if (!status) {
        files->file[files->count - 1].unread = unread;
        files->file[files->count - 1].of_session = imp_files_is_of_session(name);
        files->file[files->count - 1].doubtful = doubtful || imp_files_is_view(name);
    }
    return status;
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

int imp_files_no_trace(const char *path, const struct tacho_error *why, struct tacho_error *err)
{
    static const char hint[] =
        "give a folder with one trace per rank (Kineto, Nsight .sqlite, .xplane.pb)";
    if (!why->code)
        return tacho_fail(err, TACHO_EFORMAT, hint, "%s: no trace in this folder or below it",
                          path);
    size_t folder = strlen(path);
    const char *what = why->what;
    if (!strncmp(what, path, folder) && what[folder] == '/')
        what += folder + 1;
    return tacho_fail(err, why->code, why->hint[0] ? why->hint : hint,
                      "%s: no trace that tacho can read: %s", path, what);
}

/* Looks again, in all folders below too; what had only the name of a trace is found again. */
static int search_below(struct imp_files *files, const char *path, size_t first,
                        struct tacho_error *err)
{
    for (size_t i = first; i < files->count; i++)
        free(files->file[i].path);
    files->count = first;
    files->refused = 0;
    return folder_scan(files, path, SEARCH_DEPTH, err);
}

/* Is one of the files from `first` on a trace? `doubtful`: one that may be none counts too. */
static bool has_trace(const struct imp_files *files, size_t first, bool doubtful)
{
    for (size_t i = first; i < files->count; i++)
        if (!files->file[i].unread && (doubtful || !files->file[i].doubtful))
            return true;
    return false;
}

/* Adds the traces of a folder, sorted by name. One that has none itself is searched with all that
 * lies below it. Fails if there is none. */
static int folder_add(struct imp_files *files, const char *path, struct tacho_error *err)
{
    size_t first = files->count;
    int status = folder_scan(files, path, 0, err);
    if (!status && !has_trace(files, first, false))
        status = search_below(files, path, first, err);
    if (!status && !has_trace(files, first, true))
        status = imp_files_no_trace(path, &files->why, err);
    if (!status)
        qsort(files->file + first, files->count - first, sizeof *files->file, natural_order);
    if (!status)
        status = imp_files_drop_superseded(files, first);
    if (!status)
        imp_files_find_pieces(files, first);
    return status;
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
        size_t first = files->count;
        status = stat_of(in[i], &st, err);
        if (!status && S_ISDIR(st.st_mode)) {
            status = folder_add(files, in[i], err);
            for (; first < files->count; first++)
                files->file[first].input = i;
            continue;
        }
        if (!status)
            status = imp_file_format(in[i], &format, NULL, err);
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
        return imp_file_format(path, out, NULL, err);
    struct imp_files files = {0};
    *out = STORE_FORMAT_FOLDER;
    status = folder_add(&files, path, err);
    imp_files_clear(&files);
    return status;
}
