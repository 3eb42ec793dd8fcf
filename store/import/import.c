/* SPDX-License-Identifier: Apache-2.0
 *
 * An import from start to end: lets the importer of each file read it into one new run.
 */
#include "store/import/import.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/import/files.h"

/* Counts up when an import would give other rows, so that imports kept in tacho's cache are made
 * again. */
#define IMPORT_VERSION "10"

const char *store_format_text(enum store_format format)
{
    static const char *const texts[] = {
#define STORE_FORMAT_TEXT(name, text) text,
        STORE_FORMAT_MAP(STORE_FORMAT_TEXT)
#undef STORE_FORMAT_TEXT
    };
    return texts[format];
}

/* Bytes of the path of the folder that all files lie in, with its last slash. */
static size_t shared_path(const struct imp_files *files)
{
    const char *first = files->count ? files->file[0].path : "";
    size_t shared = strlen(first);
    for (size_t i = 1; i < files->count; i++) {
        size_t same = 0;
        while (same < shared && files->file[i].path[same] == first[same])
            same++;
        shared = same;
    }
    while (shared && first[shared - 1] != '/')
        shared--;
    return shared;
}

/* ---- the import ------------------------------------------------------------------------------------------------------------ */

/* Files after the first of `count` that continue it. */
static size_t pieces_of(const struct imp_file *file, size_t count)
{
    size_t pieces = 0;
    while (pieces + 1 < count && file[pieces + 1].continues)
        pieces++;
    return pieces;
}

/* Lets the importer read a file and the pieces that continue it. */
static int read_pieces(struct imp_run *run, const struct imp_file *file, size_t pieces,
                       struct tacho_error *err)
{
    const char **path = pieces ? malloc(pieces * sizeof *path) : NULL;
    if (pieces && !path)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < pieces; i++)
        path[i] = file[1 + i].path;
    run->piece = path;
    run->pieces = pieces;
    int status = imp_importer_of(file->format)->read(run, file->path, err);
    run->piece = NULL;
    run->pieces = 0;
    free(path);
    return status;
}

struct import {
    struct imp_run run;
    struct imp_files files;
    struct imp_windows windows;
    const char *first; /* input, for messages */
    const char *step_marker;
    struct tacho_error why; /* of the first file of a folder that turned out to be no trace */
    bool doubtful;          /* that file: a later one that is not says more */
};

/* Reads one file, and the pieces that continue it. A file of a folder that turns out to be no
 * trace, or one that has nothing to read, is counted as a loss; every other failure ends the
 * import. */
static int import_file(struct import *import, const struct imp_file *file, size_t pieces,
                       struct tacho_error *err)
{
    struct imp_run *run = &import->run;
    const struct importer *importer = imp_importer_of(file->format);
    char key[48];
    run->path = file->path;
    if (file->unread)
        return imp_loss(run, file->unread, 1);
    int64_t before = run->done;
    struct tacho_error why = {0};
    int status = run->salvage_only ? 0 : imp_windows_begin(&import->windows, run);
    if (!status)
        status = read_pieces(run, file, pieces, &why);
    if ((status == TACHO_EFORMAT || status == TACHO_ENOTSUP) && file->from_folder) {
        if (!import->why.code || (import->doubtful && !file->doubtful)) {
            import->why = why;
            import->doubtful = file->doubtful;
        }
        return imp_loss(run, "not a trace: nothing was read from it", 1);
    }
    if (status) {
        if (!why.code)
            tacho_fail(&why, status, NULL, "%s: %s", file->path, tacho_error_text(status));
        if (err)
            *err = why;
        return status;
    }
    run->done = before;
    for (size_t i = 0; i <= pieces; i++)
        run->done += file[i].bytes;
    run->files += 1 + (int64_t)pieces;
    if (run->salvage_only)
        return 0;
    snprintf(key, sizeof key, "source.file.%lld", (long long)run->file_index);
    status = store_run_set(run->db, key, basename(file->path));
    if (!status && !run->file_index)
        status = store_run_set(run->db, "source", importer->source);
    run->file_index++;
    return status ? status : imp_windows_end(&import->windows, run, file);
}

/* Says why nothing of a folder was read. */
static int nothing_read(const struct import *import, struct tacho_error *err)
{
    const struct tacho_error *known = &import->files.why, *why = &import->why;
    if (!why->code || (import->doubtful && known->code == TACHO_ENOTSUP))
        why = known;
    return imp_files_no_trace(import->first, why, err);
}

/* Fills the new run `db` from all files; store_make calls it. */
static int import_all(void *ctx, store *db, struct tacho_error *err)
{
    struct import *import = ctx;
    struct imp_run *run = &import->run;
    const struct imp_files *files = &import->files;
    int worth = 0; /* of what was read of folders */
    run->db = db;
    run->total = files->bytes;
    run->many = files->count > 1 + pieces_of(files->file, files->count);
    run->shared = shared_path(files);
    int status = store_run_set(run->db, "tacho.version", TACHO_VERSION);
    if (!status && import->step_marker)
        status = store_run_set(run->db, "steps.marker", import->step_marker);
    for (size_t i = 0, pieces; !status && i < files->count; i += 1 + pieces) {
        const struct imp_file *file = &files->file[i];
        pieces = pieces_of(file, files->count - i);
        if (file->from_folder && file->worth < worth)
            continue; /* it accompanies what was read */
        int64_t before = run->files;
        status = import_file(import, file, pieces, err);
        if (run->files > before && file->from_folder)
            worth = file->worth;
    }
    if (!status && files->refused) {
        run->path = "folder";
        status = imp_loss(run, "capture in a format that has to be converted to be read",
                          files->refused);
    }
    if (!status && files->earlier) {
        run->path = "folder";
        status = imp_loss(run, "earlier capture of the same worker: report its file alone",
                          files->earlier);
    }
    if (!status && !run->files)
        status = nothing_read(import, err);
    return status ? status : imp_windows_judge(&import->windows, import->first, err);
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
    int status = imp_files_of(options->in, options->in_count, &import.files, err);
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
                                           .truncated = run->truncated,
                                           .uncounted = run->uncounted};
    imp_map_free(&import.run.ranks);
    imp_windows_clear(&import.windows);
    imp_files_clear(&import.files);
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

/* Adds the path of a file behind what all share, its size, and its first, middle and last block. */
static int key_file(struct store_key *key, const struct imp_file *file, size_t shared,
                    struct tacho_error *err)
{
    char block[64 << 10];
    key_add_text(key, file->path + shared);
    if (file->unread) {
        key_add_text(key, file->unread);
        return 0;
    }
    int fd = open(file->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return imp_files_failed(file->path, NULL, err);
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
    struct imp_files files;
    struct store_key hash = {0xcbf29ce484222325u, 0x84222325cbf29ce4u};
    int status = imp_files_of(in, in_count, &files, err);
    key_add_text(&hash, IMPORT_VERSION " " TACHO_VERSION);
    for (size_t i = 0; !status && i < files.count; i++)
        status = key_file(&hash, &files.file[i], shared_path(&files), err);
    imp_files_clear(&files);
    if (!status)
        store_key_text(&hash, key);
    return status;
}
