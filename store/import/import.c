/* SPDX-License-Identifier: Apache-2.0 */
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

#include "store/import/importer.h"
#include "store/import/input.h"

/* Counts up when an import would give other rows: imports that were kept (tacho's cache) are then
 * made again. */
#define IMPORT_VERSION "3"
#define HEAD_BYTES     4096u

static const struct importer *const importers[] = {&imp_kineto, &imp_nsight};

const char *store_format_text(enum store_format f)
{
    static const char *const texts[] = {
#define STORE_FORMAT_TEXT(name, text) text,
        STORE_FORMAT_MAP(STORE_FORMAT_TEXT)
#undef STORE_FORMAT_TEXT
    };
    return texts[f];
}

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---- what is it ---------------------------------------------------------------------------------------------------------- */

static bool ends_with(const char *path, const char *suffix)
{
    size_t n = strlen(path), m = strlen(suffix);
    return n >= m && !strcmp(path + n - m, suffix);
}

static int not_supported(const char *path, enum store_format f, struct tacho_error *err)
{
    if (f == STORE_FORMAT_NSYS_REP)
        return tacho_fail(err, TACHO_ENOTSUP,
                          "export it: nsys export --type sqlite FILE, then give the .sqlite file",
                          "%s: this is an Nsight Systems report", path);
    return tacho_fail(
        err, TACHO_ENOTSUP,
        "give the .trace.json.gz beside it, or record the program with 'tacho run -- CMD'",
        "%s: this is an XLA xplane file", path);
}

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

/* Of a regular file: its first bytes decide, of formats that are not read its name too. */
static int file_format(const char *path, enum store_format *out, struct tacho_error *err)
{
    unsigned char head[HEAD_BYTES];
    struct imp_input *in;
    size_t n = 0;
    *out = STORE_FORMAT_UNKNOWN;
    int rc = imp_input_open(path, &in, err);
    if (rc)
        return rc;
    rc = imp_input_read(in, head, sizeof head, &n, err);
    bool cut = imp_input_truncated(in);
    imp_input_close(in);
    if (rc)
        return rc;
    if (ends_with(path, ".nsys-rep") || ends_with(path, ".qdrep") ||
        (n >= 4 && !memcmp(head, "NSYS", 4)))
        *out = STORE_FORMAT_NSYS_REP;
    else if (ends_with(path, ".xplane.pb"))
        *out = STORE_FORMAT_XPLANE;
    else if (n >= 100 && !memcmp(head, "SQLite format 3", 16) &&
             ((uint32_t)head[68] << 24 | (uint32_t)head[69] << 16 | (uint32_t)head[70] << 8 |
              head[71]) == STORE_APPLICATION_ID)
        *out = STORE_FORMAT_TACHO;
    for (size_t i = 0; *out == STORE_FORMAT_UNKNOWN && i < sizeof importers / sizeof *importers;
         i++)
        if (importers[i]->recognises(head, n))
            *out = importers[i]->format;
    if (*out == STORE_FORMAT_NSYS_REP || *out == STORE_FORMAT_XPLANE)
        return not_supported(path, *out, err);
    return *out == STORE_FORMAT_UNKNOWN ? unknown(path, !n, cut, err) : 0;
}

static int stat_of(const char *path, struct stat *st, struct tacho_error *err)
{
    if (!stat(path, st))
        return 0;
    int code = errno == ENOENT || errno == ENOTDIR ? TACHO_ENOTFOUND
               : errno == EACCES                   ? TACHO_EDENIED
                                                   : TACHO_EIO;
    return tacho_fail(
        err, code,
        code == TACHO_EDENIED ? IMP_HINT_DENIED
        : code == TACHO_ENOTFOUND
            ? "is it spelled right? give a Kineto .json or .json.gz, or an Nsight .sqlite"
            : NULL,
        "%s: %s", path, strerror(errno));
}

/* ---- the files of an import -------------------------------------------------------------------------------------------------- */

struct file {
    char *path;
    enum store_format format;
    int64_t bytes;
    bool from_folder; /* then it may turn out to be something else */
    const char
        *unread; /* of a folder: has the name of a trace, but cannot be read: why. NULL: it can */
};

struct files {
    struct file *file;
    size_t count, cap;
    int64_t bytes;
    int64_t refused; /* files of a folder in a format that has to be converted first */
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

/* rank2 before rank10: runs of digits compare as numbers. */
static int natural_order(const void *a, const void *b)
{
    return strverscmp(((const struct file *)a)->path, ((const struct file *)b)->path);
}

static bool named_as_trace(const char *path)
{
    static const char *const suffixes[] = {".json", ".json.gz", ".sqlite", ".sqlite.gz"};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (ends_with(path, suffixes[i]))
            return true;
    return false;
}

/* A file of a folder. What only has the name of a trace is a rank that is missing: it is named.
 * Other files are left alone. */
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
    if (format == STORE_FORMAT_KINETO || format == STORE_FORMAT_NSIGHT)
        return files_add(files, name, format, st.st_size, true, err);
    if (!unread || format != STORE_FORMAT_UNKNOWN || !named_as_trace(name))
        return 0;
    int rc = files_add(files, name, format, 0, true, err);
    if (!rc) {
        files->file[files->count - 1].unread = unread;
        files->unread++;
    }
    return rc;
}

static int folder_add(struct files *files, const char *path, struct tacho_error *err)
{
    char name[PATH_MAX];
    struct dirent *entry;
    size_t first = files->count, unread = files->unread;
    int rc = 0;
    DIR *folder = opendir(path);
    if (!folder)
        return tacho_fail(err, errno == EACCES ? TACHO_EDENIED : TACHO_EIO,
                          errno == EACCES ? IMP_HINT_DENIED : NULL, "%s: %s", path,
                          strerror(errno));
    while (!rc && (entry = readdir(folder))) {
        if (entry->d_name[0] != '.' &&
            snprintf(name, sizeof name, "%s/%s", path, entry->d_name) < (int)sizeof name)
            rc = folder_file(files, name, err);
    }
    closedir(folder);
    if (!rc && files->count - first == files->unread - unread)
        rc = files->refused
                 ? tacho_fail(err, TACHO_ENOTSUP, "export them: nsys export --type sqlite FILE",
                              "%s: only Nsight Systems reports or xplane files in it", path)
                 : tacho_fail(err, TACHO_EFORMAT,
                              "give a folder with one Kineto or Nsight file for each rank",
                              "%s: no trace in this folder", path);
    if (!rc)
        qsort(files->file + first, files->count - first, sizeof *files->file, natural_order);
    return rc;
}

static int files_of(const char *const *in, size_t in_count, struct files *files,
                    struct tacho_error *err)
{
    int rc = 0;
    memset(files, 0, sizeof *files);
    for (size_t i = 0; !rc && i < in_count; i++) {
        struct stat st;
        enum store_format format;
        rc = stat_of(in[i], &st, err);
        if (rc)
            break;
        if (S_ISDIR(st.st_mode)) {
            rc = folder_add(files, in[i], err);
            continue;
        }
        rc = file_format(in[i], &format, err);
        if (!rc && format == STORE_FORMAT_TACHO)
            rc = tacho_fail(err, TACHO_EFORMAT, "nothing to import: read it with 'tacho report'",
                            "%s: a .tacho file already", in[i]);
        if (!rc)
            rc = files_add(files, in[i], format, st.st_size, false, err);
    }
    return rc;
}

int store_format_of(const char *path, enum store_format *out, struct tacho_error *err)
{
    struct stat st;
    *out = STORE_FORMAT_UNKNOWN;
    int rc = stat_of(path, &st, err);
    if (rc)
        return rc;
    if (!S_ISDIR(st.st_mode))
        return file_format(path, out, err);
    struct files files = {0};
    *out = STORE_FORMAT_FOLDER;
    rc = folder_add(&files, path, err);
    files_clear(&files);
    return rc;
}

/* ---- what importers call --------------------------------------------------------------------------------------------------- */

int imp_loss(struct imp_run *run, const char *reason, int64_t count)
{
    struct store_loss loss = {.source = base_of(run->path),
                              .reason = reason,
                              .count = count,
                              .t0 = STORE_ABSENT,
                              .t1 = STORE_ABSENT};
    run->import_result->lost += strstr(reason, "(kept") ? 0 : count;
    return run->import_options->salvage_only ? 0 : store_loss_add(run->db, &loss);
}

int imp_progress(struct imp_run *run, int64_t more_bytes)
{
    run->done += more_bytes;
    if (run->import_options->progress &&
        run->import_options->progress(run->import_options->ctx, run->done, run->total))
        return TACHO_EINTERRUPTED;
    return 0;
}

/* The number behind the last "rank" of a file name. */
static int64_t rank_in_name(const char *path)
{
    int64_t rank = STORE_ABSENT;
    for (const char *p = base_of(path); (p = strcasestr(p, "rank")); p += 4) {
        const char *digits = p + 4 + (p[4] == '_' || p[4] == '-' || p[4] == '.' || p[4] == '=');
        if (*digits >= '0' && *digits <= '9')
            rank = strtol(digits, NULL, 10);
    }
    return rank;
}

static bool rank_taken(const struct imp_run *run, int64_t rank)
{
    for (size_t i = 0; i < run->rank_count; i++)
        if (run->rank[i] == rank)
            return true;
    return false;
}

int64_t imp_rank(struct imp_run *run, int64_t named)
{
    int64_t rank = named != STORE_ABSENT ? named : rank_in_name(run->path);
    if (rank == STORE_ABSENT && run->many)
        for (rank = 0; rank_taken(run, rank);)
            rank++;
    if (rank == STORE_ABSENT)
        return rank;
    run->ranks_seen += named != STORE_ABSENT;
    if (rank_taken(run, rank))
        imp_loss(run, "its rank is also that of another file (kept, as a process of its own)", 1);
    int64_t *p = realloc(run->rank, (run->rank_count + 1) * sizeof *p);
    if (p) { /* without memory the next file of this rank goes unnoticed */
        run->rank = p;
        run->rank[run->rank_count++] = rank;
    }
    return rank;
}

/* ---- the import ------------------------------------------------------------------------------------------------------------ */

static const struct importer *importer_of(enum store_format f)
{
    for (size_t i = 0; i < sizeof importers / sizeof *importers; i++)
        if (importers[i]->format == f)
            return importers[i];
    return NULL;
}

static int import_file(struct imp_run *run, const struct file *file, struct tacho_error *err)
{
    const struct importer *importer = importer_of(file->format);
    char key[48];
    run->path = file->path;
    if (file->unread)
        return imp_loss(run, file->unread, 1);
    int64_t before = run->done;
    struct tacho_error why = {0};
    int rc = importer->read(run, file->path, &why);
    if (rc == TACHO_EFORMAT && file->from_folder) /* other JSON that lies there */
        return imp_loss(run, "not a trace: nothing was read from it", 1);
    if (rc) {
        if (!why.code)
            tacho_fail(&why, rc, NULL, "%s: %s", file->path, tacho_error_text(rc));
        if (err)
            *err = why;
        return rc;
    }
    run->done = before + file->bytes;
    run->import_result->files++;
    if (run->import_options->salvage_only)
        return 0;
    snprintf(key, sizeof key, "source.file.%lld", (long long)run->file_index);
    rc = store_run_set(run->db, key, base_of(file->path));
    if (!rc && !run->file_index)
        rc = store_run_set(run->db, "source", importer->source);
    run->file_index++;
    return rc;
}

struct import {
    struct imp_run run;
    struct files files;
};

static int import_all(void *ctx, store *db, struct tacho_error *err)
{
    struct imp_run *run = &((struct import *)ctx)->run;
    const struct files *files = &((struct import *)ctx)->files;
    run->db = db;
    run->total = files->bytes;
    run->many = files->count > 1;
    int rc = store_run_set(run->db, "tacho.version", TACHO_VERSION);
    for (size_t i = 0; !rc && i < files->count; i++)
        rc = import_file(run, &files->file[i], err);
    if (!rc && files->refused) {
        run->path = "folder";
        rc = imp_loss(run, "Nsight Systems report or xplane file: convert it to be read",
                      files->refused);
    }
    if (!rc && !run->import_result->files)
        rc = tacho_fail(err, TACHO_EFORMAT,
                        "give a folder with one Kineto or Nsight file for each rank",
                        "%s: no trace in this folder", run->import_options->in[0]);
    return rc;
}

int store_import(const struct store_import_options *import_options,
                 struct store_import_result *import_result, struct tacho_error *err)
{
    struct import i = {.run = {.import_options = import_options, .import_result = import_result}};
    struct store_making making = {
        .path = import_options->out,
        .tag = "import",
        .no_space =
            "free some space, or choose another place (-o FILE; TMPDIR for what is not kept)",
        .discard = import_options->salvage_only,
        .fill = import_all,
        .ctx = &i};
    memset(import_result, 0, sizeof *import_result);
    int rc = files_of(import_options->in, import_options->in_count, &i.files, err);
    if (!rc && !access(import_options->out, F_OK))
        rc =
            tacho_fail(err, TACHO_EEXISTS, "tacho never overwrites: give another name with -o FILE",
                       "%s: exists already", import_options->out);
    if (!rc)
        rc = store_make(&making, err);
    free(i.run.rank);
    files_clear(&i.files);
    return rc;
}

/* ---- the key --------------------------------------------------------------------------------------------------------------- */

struct key {
    uint64_t a, b;
};

static void key_add(struct key *key, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++) {
        key->a = (key->a ^ p[i]) * 0x100000001b3u;
        key->b = (key->b + p[i]) * 0x9e3779b97f4a7c15u;
        key->b ^= key->b >> 29;
    }
}

static int key_file(struct key *key, const struct file *file, struct tacho_error *err)
{
    char block[64 << 10];
    if (file->unread) {
        key_add(key, base_of(file->path), strlen(base_of(file->path)) + 1);
        key_add(key, file->unread, strlen(file->unread) + 1);
        return 0;
    }
    int fd = open(file->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return tacho_fail(err, errno == EACCES ? TACHO_EDENIED : TACHO_EIO, NULL, "%s: %s",
                          file->path, strerror(errno));
    const off_t at[] = {0, file->bytes / 2,
                        file->bytes > (off_t)sizeof block ? file->bytes - (off_t)sizeof block : 0};
    const char *name = base_of(file->path);
    key_add(key, name, strlen(name) + 1);
    key_add(key, &file->bytes, sizeof file->bytes);
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        ssize_t n = pread(fd, block, sizeof block, at[i]);
        if (n > 0)
            key_add(key, block, (size_t)n);
    }
    close(fd);
    return 0;
}

int store_import_key(const char *const *in, size_t in_count, char key[33], struct tacho_error *err)
{
    struct files files;
    struct key k = {0xcbf29ce484222325u, 0x84222325cbf29ce4u};
    static const char version[] = IMPORT_VERSION " " TACHO_VERSION;
    int rc = files_of(in, in_count, &files, err);
    key_add(&k, version, sizeof version);
    for (size_t i = 0; !rc && i < files.count; i++)
        rc = key_file(&k, &files.file[i], err);
    files_clear(&files);
    if (!rc)
        snprintf(key, 33, "%016llx%016llx", (unsigned long long)k.a, (unsigned long long)k.b);
    return rc;
}
