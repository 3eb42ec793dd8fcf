/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/: what importers write rows with, where one thread both reads and writes:
 * the processes and tracks of one file, each added when its first event is read, and slices whose
 * times were checked. Texts are borrowed.
 */
#ifndef STORE_IMPORT_INPUT_ROWS_H
#define STORE_IMPORT_INPUT_ROWS_H

#include "store/import/input/importer.h"
#include "store/import/input/map.h"

#define IMP_TIME_MAX (INT64_MAX / 4) /* ns: 73 years past 1970; no real time is beyond */

struct imp_rows {
    struct imp_run *run;
    struct imp_map tracks;
    int64_t process;     /* of the file */
    int64_t rows;        /* since the last commit */
    int64_t bad_time;    /* rows whose time is missing, negative or too large */
    int64_t bad_end;     /* rows that end before they start */
    int64_t first, last; /* first start and last end so far; first > last: none */
};

/* What an importer says of one event. Fields that do not apply are absent or NULL. */
struct imp_slice {
    int64_t track, start, dur; /* ns; dur STORE_ABSENT: it never ended */
    int64_t name;              /* a string of the store */
    const char *category;
    const struct store_detail *detail;
    int64_t known_detail; /* its id, where the caller interned it; 0: it did not */
    int64_t correlation;
};

/* Adds the process of the file. `rank`: as the file names it, STORE_ABSENT: it does not. */
int imp_rows_begin(struct imp_rows *rows, struct imp_run *run, int64_t rank, int64_t pid,
                   const char *host, const char *program);
/* Writes the losses that were counted and frees the maps. `rc` is passed on. */
int imp_rows_end(struct imp_rows *rows, int rc);

/* The track of a thread, of a stream on a device (`device` "gpu:0"; `key` tells devices apart) or
 * of a counter; made at the first call. */
int imp_rows_thread(struct imp_rows *rows, int64_t tid, const char *name, int64_t *track);
int imp_rows_stream(struct imp_rows *rows, int64_t key, const char *device, int64_t stream,
                    const char *name, int64_t *track);
/* A track of ranges that may overlap; `key` tells such tracks apart. */
int imp_rows_range(struct imp_rows *rows, int64_t key, const char *device, const char *name,
                   int64_t *track);
/* A track of the operations of a communicator. */
int imp_rows_comm(struct imp_rows *rows, int64_t key, const char *name, int64_t *track);
int imp_rows_counter_track(struct imp_rows *rows, int64_t key, const char *device, const char *name,
                           const char *unit, int64_t *track);

/* A text as a string of the store. */
int imp_rows_string(struct imp_rows *rows, const char *text, size_t bytes, int64_t *id);
/* Writes a slice, or counts it as lost where its time is no time. Commits now and then. */
int imp_rows_slice(struct imp_rows *rows, const struct imp_slice *slice);
int imp_rows_counter(struct imp_rows *rows, int64_t track, int64_t time, double value);

#endif
