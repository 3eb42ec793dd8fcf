/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/: the files that one import reads.
 */
#ifndef STORE_IMPORT_FILES_H
#define STORE_IMPORT_FILES_H

#include "store/import/importers.h"

struct imp_file {
    char *path;
    enum store_format format;
    int64_t bytes;
    bool from_folder; /* then it may turn out to be something else */
    /* In a folder only files of the highest worth that can be read are: logs and execution traces
     * accompany the traces of the same program. */
    int worth;
    /* Why a file of a folder that has the name of a trace cannot be read; NULL: it can. */
    const char *unread;
    bool doubtful;   /* JSON of a folder that may be no trace (settings), or not the best one */
    bool continues;  /* it goes on with the timeline or table of the file before it */
    bool of_session; /* a profiler put it into one folder with those of the other hosts */
    size_t input;    /* which of the inputs it is of */
};

struct imp_files {
    struct imp_file *file;
    size_t count, cap;
    int64_t bytes;
    int64_t refused;        /* files of a folder in a format that has to be converted first */
    int64_t earlier;        /* captures of a worker that has a newer one */
    int64_t others;         /* files that were looked at in folders */
    struct tacho_error why; /* of the file of a folder that says best why it cannot be read */
};

/* Collects the files of all inputs: files themselves, and those of folders. The caller clears
 * `files` whatever is returned. */
int imp_files_of(const char *const *in, size_t in_count, struct imp_files *files,
                 struct tacho_error *err);
void imp_files_clear(struct imp_files *files);
/* Does a profiler give this name to what it makes of a capture for a viewer, beside the capture?
 * JAX (create_perfetto_trace=True) and MindSpore do. */
bool imp_files_is_view(const char *path);
/* Leaves out those files from `first` on, sorted by name, of which others say more or are newer
 * (captures.c). 0 or TACHO_ENOMEM. */
int imp_files_drop_superseded(struct imp_files *files, size_t first);
/* Finds which of the files from `first` on, sorted by name, go on with the one before
 * (captures.c). */
void imp_files_find_pieces(struct imp_files *files, size_t first);
/* Is the file in a folder that a profiler makes for one capture of all hosts (captures.c)? */
bool imp_files_is_of_session(const char *path);

/* The times of the files that were read (apart.c). */
struct imp_windows {
    struct imp_window {
        const struct imp_file *file;
        int64_t start, end, world; /* world: size of its job, STORE_ABSENT: not known */
        bool counted;              /* nothing says its rank, or another file has the same */
        bool twice;                /* another file says the same rank */
        bool traced;               /* it says its rank itself */
        bool works;                /* it has steps, or rows of a device */
    } * window;
    size_t count, room;
    int64_t slice, step; /* newest rows before the present file */
};
/* Before and after a file is read. */
int imp_windows_begin(struct imp_windows *windows, struct imp_run *run);
int imp_windows_end(struct imp_windows *windows, const struct imp_run *run,
                    const struct imp_file *file);
/* Fails if files of a folder whose ranks had to be counted are captures of different times, or of
 * jobs of one process. `folder`: for messages. */
int imp_windows_judge(struct imp_windows *windows, const char *folder, struct tacho_error *err);
void imp_windows_clear(struct imp_windows *windows);

/* Fails because nothing of a folder can be read, and says what is wrong with one of its files.
 * `why`: of that file; its code is 0 where there is none. */
int imp_files_no_trace(const char *path, const struct tacho_error *why, struct tacho_error *err);
/* Fails with the errno of an input that exists. */
int imp_files_failed(const char *path, const char *denied, struct tacho_error *err);

#endif
