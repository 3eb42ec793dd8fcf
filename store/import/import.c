/* SPDX-License-Identifier: Apache-2.0
 *
 * An import from start to end: finds out what each input is, collects the files of folders, and
 * lets the importer of each format read them into one new run. The table of importers is here.
 */
#include "store/import/import.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/import/input/input.h"
#include "store/import/kineto/kineto_import.h"
#include "store/import/nsight/nsight_import.h"
#include "store/import/workers/workers_import.h"

/* Counts up when an import would give other rows, so that imports kept in tacho's cache are made
 * again. */
#define IMPORT_VERSION "3"
#define HEAD_BYTES     4096u
#define TIME_DIGITS    10 /* at least, of the time in the name of a capture */

static const struct {
    enum store_format format;
    const struct importer *importer;
} importers[] = {{STORE_FORMAT_WORKERS, &imp_workers}, /* before Kineto, whose frame it has */
                 {STORE_FORMAT_KINETO, &imp_kineto},
                 {STORE_FORMAT_NSIGHT, &imp_nsight}};

static const struct importer *importer_of(enum store_format format)
{
    for (size_t i = 0; i < sizeof importers / sizeof *importers; i++)
        if (importers[i].format == format)
            return importers[i].importer;
    return NULL;
}

const char *store_format_text(enum store_format format)
{
    static const char *const texts[] = {
#define STORE_FORMAT_TEXT(name, text) text,
        STORE_FORMAT_MAP(STORE_FORMAT_TEXT)
#undef STORE_FORMAT_TEXT
    };
    return texts[format];
}

/* ---- what is it ---------------------------------------------------------------------------------------------------------- */

static bool ends_with(const char *path, const char *suffix)
{
    size_t length = strlen(path), end = strlen(suffix);
    return length >= end && !strcmp(path + length - end, suffix);
}

static int not_supported(const char *path, enum store_format format, struct tacho_error *err)
{
    if (format == STORE_FORMAT_NSYS_REP)
        return tacho_fail(err, TACHO_ENOTSUP,
                          "export it: nsys export --type sqlite FILE, then give the .sqlite file",
                          "%s: this is an Nsight Systems report", path);
    return tacho_fail(
        err, TACHO_ENOTSUP,
        "give the .trace.json.gz next to it, or record the program with 'tacho run -- CMD'",
        "%s: this is an XLA xplane file", path);
}

/* Says why nothing is known about the file. `cut`: the compressed data ends early. */
static int unknown(const char *path, bool empty, bool cut, struct tacho_error *err)
{
    if (empty && cut)
        return tacho_fail(err, TACHO_EFORMAT, "copy it again: nothing before the cut could be read",
                          "%s: cut off or damaged before the first byte of the trace", path);
    if (empty)
        return tacho_fail(
            err, TACHO_EFORMAT,
            "nothing was recorded into it, or the copy failed: record or copy it again",
            "%s: the file is empty", path);
    return tacho_fail(err, TACHO_EFORMAT,
                      "give a .tacho file, a Kineto .json or .json.gz, or an Nsight .sqlite",
                      "%s: not a trace that tacho can read", path);
}

static bool is_run(const unsigned char *head, size_t bytes)
{
    return bytes >= 100 && !memcmp(head, "SQLite format 3", 16) &&
           ((uint32_t)head[68] << 24 | (uint32_t)head[69] << 16 | (uint32_t)head[70] << 8 |
            head[71]) == STORE_APPLICATION_ID;
}

/* Finds the format of a regular file by its first bytes, and by its name where tacho only knows how
 * to convert the format. Fails for formats that it cannot read. */
static int file_format(const char *path, enum store_format *out, struct tacho_error *err)
{
    unsigned char head[HEAD_BYTES];
    struct imp_input *in;
    size_t bytes = 0;
    *out = STORE_FORMAT_UNKNOWN;
    int status = imp_input_open(path, &in, err);
    if (status)
        return status;
    status = imp_input_read(in, head, sizeof head, &bytes, err);
    bool cut = imp_input_truncated(in);
    imp_input_close(in);
    if (status)
        return status;
    if (ends_with(path, ".nsys-rep") || ends_with(path, ".qdrep") ||
        (bytes >= 4 && !memcmp(head, "NSYS", 4)))
        *out = STORE_FORMAT_NSYS_REP;
    else if (ends_with(path, ".xplane.pb"))
        *out = STORE_FORMAT_XPLANE;
    else if (is_run(head, bytes))
        *out = STORE_FORMAT_TACHO;
    for (size_t i = 0; *out == STORE_FORMAT_UNKNOWN && i < sizeof importers / sizeof *importers;
         i++)
        if (importers[i].importer->recognises(head, bytes))
            *out = importers[i].format;
    if (*out == STORE_FORMAT_NSYS_REP || *out == STORE_FORMAT_XPLANE)
        return not_supported(path, *out, err);
    return *out == STORE_FORMAT_UNKNOWN ? unknown(path, !bytes, cut, err) : 0;
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
static int denied_or_io(const char *path, const char *denied, struct tacho_error *err)
{
    int code = errno == EACCES ? TACHO_EDENIED : TACHO_EIO;
    return tacho_fail(err, code, code == TACHO_EDENIED ? denied : NULL, "%s: %s", path,
                      strerror(errno));
}

/* ---- the files of an import -------------------------------------------------------------------------------------------------- */

struct file {
    char *path;
    enum store_format format;
    int64_t bytes;
    bool from_folder; /* then it may turn out to be something else */
    /* Why a file of a folder that has the name of a trace cannot be read; NULL: it can. */
    const char *unread;
};

struct files {
    struct file *file;
    size_t count, cap;
    int64_t bytes;
    int64_t refused; /* files of a folder in a format that has to be converted first */
    int64_t earlier; /* captures of a worker that has a newer one */
    size_t unread;   /* of `count`: have `unread` */
};

static void files_clear(struct files *files)
{
    for (size_t i = 0; i < files->count; i++)
        free(files->file[i].path);
    free(files->file);
    memset(files, 0, sizeof *files);
}

static int files_add(struct files *files, const char *path, enum store_format format, int64_t bytes,
                     bool from_folder, struct tacho_error *err)
{
    if (files->count == files->cap) {
        size_t cap = files->cap ? 2 * files->cap : 16;
        struct file *file = realloc(files->file, cap * sizeof *file);
        if (!file)
            return tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", path);
        files->file = file;
        files->cap = cap;
    }
    char *copy = strdup(path);
    if (!copy)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", path);
    files->file[files->count++] = (struct file){copy, format, bytes, from_folder, NULL};
    files->bytes += bytes;
    return 0;
}

/* Puts rank2 before rank10: runs of digits compare as numbers. */
static int natural_order(const void *left, const void *right)
{
    return strverscmp(((const struct file *)left)->path, ((const struct file *)right)->path);
}

static bool named_as_trace(const char *path)
{
    static const char *const suffixes[] = {".json", ".json.gz", ".sqlite", ".sqlite.gz"};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (ends_with(path, suffixes[i]))
            return true;
    return false;
}

/* Adds a file of a folder if it is a trace. A file that only has the name of one is probably a rank
 * whose data is missing, so it is added too and later counted as a loss. Other files are ignored.
 */
static int folder_file(struct files *files, const char *name, struct tacho_error *err)
{
    struct stat st;
    struct tacho_error why = {0};
    enum store_format format = STORE_FORMAT_UNKNOWN;
    const char *unread = NULL;
    if (stat(name, &st))
        unread = "cannot be read";
    else if (!S_ISREG(st.st_mode))
        return 0;
    else if (!st.st_size)
        unread = "the file is empty";
    else if (file_format(name, &format, &why))
        unread =
            why.code == TACHO_EFORMAT ? "not a trace: nothing was read from it" : "cannot be read";
    files->refused += format == STORE_FORMAT_NSYS_REP || format == STORE_FORMAT_XPLANE;
    if (importer_of(format))
        return files_add(files, name, format, st.st_size, true, err);
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

/* Several captures of one worker are one rank at several times, not several ranks: the newest one
 * is kept. Files from `first` on are sorted by name, and with it by time. */
static void drop_earlier_captures(struct files *files, size_t first)
{
    size_t kept = first;
    for (size_t i = first; i < files->count; i++) {
        size_t length = worker_length(files->file[i].path);
        bool earlier = length && i + 1 < files->count &&
                       length == worker_length(files->file[i + 1].path) &&
                       !files->file[i + 1].unread &&
                       !strncmp(files->file[i].path, files->file[i + 1].path, length);
        if (!earlier) {
            files->file[kept++] = files->file[i];
            continue;
        }
        files->earlier++;
        files->unread -= files->file[i].unread != NULL;
        files->bytes -= files->file[i].bytes;
        free(files->file[i].path);
    }
    files->count = kept;
}

/* Adds the traces of a folder, sorted by name. Fails if there is none. */
static int folder_add(struct files *files, const char *path, struct tacho_error *err)
{
    char name[PATH_MAX];
    struct dirent *entry;
    size_t first = files->count, unread = files->unread;
    int status = 0;
    DIR *folder = opendir(path);
    if (!folder)
        return denied_or_io(path, IMP_HINT_DENIED, err);
    while (!status && (entry = readdir(folder))) {
        if (entry->d_name[0] != '.' &&
            snprintf(name, sizeof name, "%s/%s", path, entry->d_name) < (int)sizeof name)
            status = folder_file(files, name, err);
    }
    closedir(folder);
    if (!status && files->count - first == files->unread - unread)
        status =
            files->refused
                ? tacho_fail(err, TACHO_ENOTSUP, "export them: nsys export --type sqlite FILE",
                             "%s: it contains only Nsight Systems reports or xplane files", path)
                : tacho_fail(err, TACHO_EFORMAT,
                             "give a folder with one Kineto or Nsight file per rank",
                             "%s: no trace in this folder", path);
    if (!status)
        qsort(files->file + first, files->count - first, sizeof *files->file, natural_order);
    if (!status)
        drop_earlier_captures(files, first);
    return status;
}

/* Collects the files of all inputs. */
static int files_of(const char *const *in, size_t in_count, struct files *files,
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
            status = file_format(in[i], &format, err);
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
        return file_format(path, out, err);
    struct files files = {0};
    *out = STORE_FORMAT_FOLDER;
    status = folder_add(&files, path, err);
    files_clear(&files);
    return status;
}

/* ---- the import ------------------------------------------------------------------------------------------------------------ */

/* Reads one file. A file of a folder that turns out to be no trace is counted as a loss; every
 * other failure ends the import. */
static int import_file(struct imp_run *run, const struct file *file, struct tacho_error *err)
{
    const struct importer *importer = importer_of(file->format);
    char key[48];
    run->path = file->path;
    if (file->unread)
        return imp_loss(run, file->unread, 1);
    int64_t before = run->done;
    struct tacho_error why = {0};
    int status = importer->read(run, file->path, &why);
    if (status == TACHO_EFORMAT && file->from_folder) /* JSON of another kind */
        return imp_loss(run, "not a trace: nothing was read from it", 1);
    if (status) {
        if (!why.code)
            tacho_fail(&why, status, NULL, "%s: %s", file->path, tacho_error_text(status));
        if (err)
            *err = why;
        return status;
    }
    run->done = before + file->bytes;
    run->files++;
    if (run->salvage_only)
        return 0;
    snprintf(key, sizeof key, "source.file.%lld", (long long)run->file_index);
    status = store_run_set(run->db, key, basename(file->path));
    if (!status && !run->file_index)
        status = store_run_set(run->db, "source", importer->source);
    run->file_index++;
    return status;
}

struct import {
    struct imp_run run;
    struct files files;
    const char *first; /* input, for messages */
    const char *step_marker;
};

/* Fills the new run `db` from all files; store_make calls it. */
static int import_all(void *ctx, store *db, struct tacho_error *err)
{
    struct import *import = ctx;
    struct imp_run *run = &import->run;
    const struct files *files = &import->files;
    run->db = db;
    run->total = files->bytes;
    run->many = files->count > 1;
    int status = store_run_set(run->db, "tacho.version", TACHO_VERSION);
    if (!status && import->step_marker)
        status = store_run_set(run->db, "steps.marker", import->step_marker);
    for (size_t i = 0; !status && i < files->count; i++)
        status = import_file(run, &files->file[i], err);
    if (!status && files->refused) {
        run->path = "folder";
        status = imp_loss(run, "Nsight Systems report or xplane file: convert it to be read",
                          files->refused);
    }
    if (!status && files->earlier) {
        run->path = "folder";
        status = imp_loss(run, "earlier capture of the same worker: report its file alone",
                          files->earlier);
    }
    if (!status && !run->files)
        status =
            tacho_fail(err, TACHO_EFORMAT, "give a folder with one Kineto or Nsight file per rank",
                       "%s: no trace in this folder", import->first);
    return status;
}

int store_import(const struct store_import_options *options, struct store_import_result *result,
                 struct tacho_error *err)
{
    struct import import = {.run = {.salvage_only = options->salvage_only,
                                    .progress = options->progress,
                                    .ctx = options->ctx},
                            .first = options->in[0],
                            .step_marker = options->step_marker};
    const struct imp_run *run = &import.run;
    struct store_making making = {
        .path = options->out,
        .tag = "import",
        .no_space =
            "free some space, or choose another place (-o FILE; TMPDIR for temporary files)",
        .discard = options->salvage_only,
        .fill = import_all,
        .ctx = &import};
    int status = files_of(options->in, options->in_count, &import.files, err);
    if (!status && !access(options->out, F_OK))
        status =
            tacho_fail(err, TACHO_EEXISTS, "tacho never overwrites: give another name with -o FILE",
                       "%s: already exists", options->out);
    if (!status)
        status = store_make(&making, err);
    *result = (struct store_import_result){.files = run->files,
                                           .events = run->events,
                                           .slices = run->slices,
                                           .lost = run->lost,
                                           .truncated = run->truncated};
    free(import.run.rank);
    files_clear(&import.files);
    return status;
}

/* ---- the key --------------------------------------------------------------------------------------------------------------- */

void store_key_add(struct store_key *key, const void *data, size_t bytes)
{
    const unsigned char *byte = data;
    for (size_t i = 0; i < bytes; i++) {
        key->fnv = (key->fnv ^ byte[i]) * 0x100000001b3u;
        key->mixed = (key->mixed + byte[i]) * 0x9e3779b97f4a7c15u;
        key->mixed ^= key->mixed >> 29;
    }
}

void store_key_text(const struct store_key *key, char text[33])
{
    snprintf(text, 33, "%016llx%016llx", (unsigned long long)key->fnv,
             (unsigned long long)key->mixed);
}

static void key_add_text(struct store_key *key, const char *text)
{
    store_key_add(key, text, strlen(text) + 1);
}

/* Adds the name and size of a file, and its first, middle and last block. */
static int key_file(struct store_key *key, const struct file *file, struct tacho_error *err)
{
    char block[64 << 10];
    key_add_text(key, basename(file->path));
    if (file->unread) {
        key_add_text(key, file->unread);
        return 0;
    }
    int fd = open(file->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return denied_or_io(file->path, NULL, err);
    off_t last = file->bytes - (off_t)sizeof block;
    const off_t starts[] = {0, file->bytes / 2, last > 0 ? last : 0};
    store_key_add(key, &file->bytes, sizeof file->bytes);
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        ssize_t bytes = pread(fd, block, sizeof block, starts[i]);
        if (bytes > 0)
            store_key_add(key, block, (size_t)bytes);
    }
    close(fd);
    return 0;
}

int store_import_key(const char *const *in, size_t in_count, char key[33], struct tacho_error *err)
{
    struct files files;
    struct store_key hash = {0xcbf29ce484222325u, 0x84222325cbf29ce4u};
    int status = files_of(in, in_count, &files, err);
    key_add_text(&hash, IMPORT_VERSION " " TACHO_VERSION);
    for (size_t i = 0; !status && i < files.count; i++)
        status = key_file(&hash, &files.file[i], err);
    files_clear(&files);
    if (!status)
        store_key_text(&hash, key);
    return status;
}
