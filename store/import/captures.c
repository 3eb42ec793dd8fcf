/* SPDX-License-Identifier: Apache-2.0
 *
 * Several files of one capture or of one worker: which of a folder's traces are the newest of their
 * worker, and which say most of their capture. A folder of a large job has a file for each of
 * thousands of ranks, so files are looked up by what they share and not compared with each other.
 */
#include <stdlib.h>
#include <string.h>

#include "store/import/files.h"
#include "store/import/input/map.h"
#include "store/keyed_hash.h"

#define TIME_DIGITS 10 /* at least, of the time in the name of a capture */

/* What of a path its captures share, and what is known of the files with such a path. */
enum sharing {
    SHARED_STEM,    /* 1: of a file in a format that says all */
    SHARED_ASCEND,  /* the most that a file says of the capture */
    SHARED_SESSION, /* the last file, twice; plus 1: those behind have several times */
    SHARED_FOLDER,  /* 1: there is a file in it, or in a PROF_* below it, that says more than a
                     * copy for viewers */
};

/* The value for the first `bytes` of a path; NULL: there is none. */
static int64_t *shared_find(const struct imp_map *shared, enum sharing kind, const char *path,
                            size_t bytes)
{
    return imp_map_find(shared, (int64_t)store_hash_bytes(path, bytes), kind);
}

static int shared_put(struct imp_map *shared, enum sharing kind, const char *path, size_t bytes,
                      int64_t value)
{
    return imp_map_put(shared, (int64_t)store_hash_bytes(path, bytes), kind, value);
}

/* Name of a file. */
static const char *name_of(const char *path)
{
    const char *name = strrchr(path, '/');
    return name ? name + 1 : path;
}

/* ---- several times of a worker -------------------------------------------------------------------------------------------------- */

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

bool imp_files_is_of_session(const char *path)
{
    return session_length(path);
}

/* Is the file behind this one, which is sorted by time, a capture of the same worker? */
static bool is_earlier_capture(const struct imp_file *file, const struct imp_file *later)
{
    size_t length = worker_length(file->path);
    return length && length == worker_length(later->path) && !later->unread &&
           !strncmp(file->path, later->path, length);
}

/* Are both files, of one folder of sessions, of one session? */
static bool same_session(const char *path, const char *other, size_t session)
{
    size_t time = strcspn(path + session, "/");
    return time == strcspn(other + session, "/") && !memcmp(path + session, other + session, time);
}

/* Is there, behind this file, one of another session? Those behind it were asked before. A name
 * that tells the worker says more than its folder. */
static int find_later_session(struct imp_map *shared, const struct imp_files *files, size_t index,
                              bool *found)
{
    const char *path = files->file[index].path;
    size_t session = session_length(path);
    const int64_t *last = session ? shared_find(shared, SHARED_SESSION, path, session) : NULL;
    bool other = last && (*last % 2 || !same_session(path, files->file[*last / 2].path, session));
    *found = other && !worker_length(path);
    if (!session || (last && (*last % 2 || !other)))
        return 0;
    return shared_put(shared, SHARED_SESSION, path, session, last ? *last + 1 : 2 * (int64_t)index);
}

/* ---- several files of a capture ----------------------------------------------------------------------------------------------- */

/* Length of a path without what its name says of the format. */
static size_t stem_length(const char *path)
{
    const char *name = name_of(path);
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
    static const char *const names[] = {"hccl",           "task_time", "op_summary",
                                        "kernel_details", "msprof",    "trace_view"};
    const int count = sizeof names / sizeof *names;
    const char *name = name_of(file->path);
    for (int i = 0; is_ascend(file) && i < count; i++)
        if (!strncmp(name, names[i], strlen(names[i])))
            return i + 1;
    return file->format == STORE_FORMAT_ASCEND ? count : 0;
}

/* Does a format say all that others say of its captures? A profile of JAX comes as XPlane and as
 * JSON made of it, a capture of rocprofv3 as JSON and as a database. */
static bool says_all(enum store_format format)
{
    return format == STORE_FORMAT_XPLANE || format == STORE_FORMAT_ROCPD;
}

bool imp_files_is_view(const char *path)
{
    static const char *const names[] = {"perfetto_trace.json", "ascend_timeline_display_",
                                        "gpu_timeline_display_"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strncmp(name_of(path), names[i], strlen(names[i])))
            return true;
    return false;
}

/* Length of the path of the folder in which a view of the file's capture would lie; 0: no profiler
 * that makes views wrote this file. */
static size_t view_length(const struct imp_file *file)
{
    const char *prof = strstr(file->path, "/PROF_");
    bool xla = file->format == STORE_FORMAT_XPLANE || file->format == STORE_FORMAT_XLA_JSON;
    if (is_ascend(file) && prof)
        return (size_t)(prof - file->path) + 1;
    return xla ? (size_t)(name_of(file->path) - file->path) : 0;
}

/* Notes what a file says of its capture. */
static int note_capture(struct imp_map *shared, const struct imp_file *file)
{
    size_t stem = stem_length(file->path), ascend = ascend_length(file->path);
    int64_t worth = ascend_worth(file);
    int rc = 0;
    if (file->unread)
        return 0;
    size_t view = imp_files_is_view(file->path) ? 0 : view_length(file);
    if (view)
        rc = shared_put(shared, SHARED_FOLDER, file->path, view, 1);
    if (!rc && says_all(file->format))
        rc = shared_put(shared, SHARED_STEM, file->path, stem, 1);
    if (!rc && is_ascend(file)) {
        const int64_t *known = shared_find(shared, SHARED_ASCEND, file->path, ascend);
        if (!known || *known < worth)
            rc = shared_put(shared, SHARED_ASCEND, file->path, ascend, worth);
    }
    return rc;
}

/* Is there a file that says more of the same capture? Events that msprof writes beside its timeline
 * (msprof_tx_*.json) look like a trace of their own. */
static bool has_twin(const struct imp_map *shared, const struct imp_file *file)
{
    bool beside = file->format == STORE_FORMAT_KINETO && strstr(file->path, "PROF_");
    size_t folder = (size_t)(name_of(file->path) - file->path);
    if (imp_files_is_view(file->path) && shared_find(shared, SHARED_FOLDER, file->path, folder))
        return true;
    const int64_t *known = shared_find(shared, SHARED_STEM, file->path, stem_length(file->path));
    if (known && !says_all(file->format)) /* two that both say all are two captures */
        return true;
    if (!is_ascend(file) && !beside)
        return false;
    known = shared_find(shared, SHARED_ASCEND, file->path, ascend_length(file->path));
    return known && ascend_worth(file) < *known;
}

/* Which of the files from `first` on are left out, and how many of them are earlier captures. They
 * are sorted by name, and with it by time. */
static int find_superseded(struct imp_files *files, size_t first, bool *drop)
{
    struct imp_map shared = {0};
    int rc = 0;
    for (size_t i = first; i < files->count && !rc; i++)
        rc = note_capture(&shared, &files->file[i]);
    for (size_t i = files->count; i-- > first && !rc;) {
        const struct imp_file *file = &files->file[i];
        bool earlier;
        rc = find_later_session(&shared, files, i, &earlier);
        earlier = earlier || (i + 1 < files->count && is_earlier_capture(file, file + 1));
        files->earlier += earlier;
        drop[i] = earlier || has_twin(&shared, file);
    }
    imp_map_free(&shared);
    return rc;
}

/* Several captures of one worker are one rank at several times, not several ranks: the newest one
 * is kept. Of one capture in two formats the one that says more is kept. */
int imp_files_drop_superseded(struct imp_files *files, size_t first)
{
    size_t kept = first, count = files->count;
    bool *drop = calloc(count + 1, sizeof *drop);
    int rc = drop ? find_superseded(files, first, drop) : TACHO_ENOMEM;
    for (size_t i = first; i < count && !rc; i++) {
        if (!drop[i]) {
            files->file[kept++] = files->file[i];
            continue;
        }
        files->bytes -= files->file[i].bytes;
        free(files->file[i].path);
    }
    if (!rc)
        files->count = kept;
    free(drop);
    return rc;
}

/* ---- pieces of one file -------------------------------------------------------------------------------------------------------- */

#define PIECE_NUMBERS 6

/* What the name of a file of msprof says: KIND_DEVICE_MODEL_ITERATION, each number of which may
 * lack, then _slice_N, then the time at which it was exported. */
struct piece_name {
    size_t kind; /* length of the path up to the first number */
    int64_t number[PIECE_NUMBERS], slice;
    size_t numbers;
};

static bool read_piece_name(const char *path, struct piece_name *piece)
{
    static const char slice[] = "_slice_";
    const char *name = name_of(path), *at;
    at = name + strcspn(name, "0123456789.");
    *piece = (struct piece_name){.slice = 0};
    if (strncmp(name, "msprof", 6) && strncmp(name, "op_summary", 10) &&
        strncmp(name, "task_time", 9) && strncmp(name, "hccl", 4))
        return false;
    if (at - name >= (ptrdiff_t)sizeof slice - 1 &&
        !memcmp(at - (sizeof slice - 1), slice, sizeof slice - 1))
        at -= sizeof slice - 1;
    else if (at > name && at[-1] == '_')
        at--;
    piece->kind = (size_t)(at - path);
    while (*at == '_') {
        bool is_slice = !strncmp(at, slice, sizeof slice - 1);
        char *end;
        at += is_slice ? sizeof slice - 1 : 1;
        int64_t number = strtoll(at, &end, 10);
        if (end == at || number < 0)
            return false;
        if (is_slice)
            piece->slice = number;
        else if (end - at >= TIME_DIGITS)
            ; /* when it was exported */
        else if (piece->numbers == PIECE_NUMBERS)
            return false;
        else
            piece->number[piece->numbers++] = number;
        at = end;
    }
    return *at == '.';
}

/* Length of the path of a table of rocprofv3 (PREFIX_kernel_trace.csv) up to what it is of. Those
 * of one process have the same prefix. */
static size_t table_prefix(const char *path)
{
    static const char *const tables[] = {"kernel_trace",  "memory_copy_trace", "hip_api_trace",
                                         "hsa_api_trace", "marker_api_trace",  "rccl_api_trace"};
    const char *name = strrchr(path, '/'), *found = NULL;
    for (size_t i = 0; i < sizeof tables / sizeof *tables && !found; i++)
        found = strstr(name ? name : path, tables[i]);
    return found ? (size_t)(found - path) : 0;
}

/* Do two files lie directly in one folder? */
static bool same_folder(const char *left, const char *right)
{
    size_t bytes = (size_t)(name_of(left) - left);
    return (size_t)(name_of(right) - right) == bytes && !memcmp(left, right, bytes);
}

/* Does a file go on with the one before it? A program that resumes begins another event file of
 * TensorBoard. rocprofv3 has a table for each kind of record. msprof
 * cuts large timelines and tables into slices, and exports a graph iteration by iteration. Two of
 * the same number are two exports. */
static bool continues(const struct imp_file *before, const struct imp_file *file)
{
    struct piece_name left, right;
    size_t prefix = file->format == STORE_FORMAT_ROCPROF_CSV ? table_prefix(file->path) : 0;
    if (file->format == STORE_FORMAT_TFEVENTS && before->format == file->format)
        return same_folder(before->path, file->path);
    if (prefix && before->format == file->format)
        return table_prefix(before->path) == prefix && !memcmp(before->path, file->path, prefix);
    if (!is_ascend(file) || file->format != before->format || file->unread || before->unread ||
        !read_piece_name(before->path, &left) || !read_piece_name(file->path, &right) ||
        left.kind != right.kind || memcmp(before->path, file->path, left.kind) ||
        left.numbers != right.numbers || (left.numbers && left.number[0] != right.number[0]))
        return false;
    for (size_t i = 1; i < left.numbers; i++)
        if (left.number[i] != right.number[i])
            return true;
    return left.slice < right.slice;
}

void imp_files_find_pieces(struct imp_files *files, size_t first)
{
    for (size_t i = first + 1; i < files->count; i++)
        files->file[i].continues = continues(&files->file[i - 1], &files->file[i]);
}
