/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/: what the parser thread of the Kineto importer hands to the thread that
 * owns the store.
 *
 * Strings, details, processes and tracks have numbers of the parser's own, 0, 1, 2 ... in order of
 * first use. A batch first defines what is new in it, then its rows use the numbers. The inserter
 * keeps one array a kind: number -> id in the store.
 */
#ifndef STORE_IMPORT_KINETO_ROWS_H
#define STORE_IMPORT_KINETO_ROWS_H

#include "store/import/kineto/kineto_text.h"
#include "store/store.h"

#define KINETO_NONE UINT32_MAX
#ifndef KINETO_BATCH_ROWS /* the fuzz targets have smaller ones, to meet their ends */
#define KINETO_BATCH_ROWS 8192
#endif

struct kineto_slice {
    int64_t start, dur, correlation;
    uint32_t track, name, category, detail; /* detail KINETO_NONE: none */
};

struct kineto_counter {
    int64_t time;
    double value;
    uint32_t track;
};

enum kineto_def_kind { KINETO_DEF_STRING, KINETO_DEF_DETAIL, KINETO_DEF_PROCESS, KINETO_DEF_TRACK };

/* Texts are offsets into the text of the batch, so that it may move while it grows. 0 = NULL. */
struct kineto_def {
    enum kineto_def_kind kind;
    size_t text, bytes;         /* string */
    struct store_detail detail; /* its texts come from detail_text */
    size_t detail_text[9];      /* dtype pass kind schema collective copy_kind grid block payload */
    uint32_t process;           /* of a track; KINETO_NONE: the machine's */
    int64_t id;                 /* pid, tid; STORE_ABSENT */
    const char *track_kind, *unit;
    char device[32];
};

struct kineto_batch {
    struct kineto_batch *next;
    struct kineto_slice slice[KINETO_BATCH_ROWS];
    struct kineto_counter counter[KINETO_BATCH_ROWS];
    size_t slices, counters, defs, def_cap;
    struct kineto_def *def;
    struct kineto_text text; /* byte 0 is never used */
};

/* Appends a text with a terminating NUL to the batch; its offset, 0 for NULL or after a failed
 * allocation. */
size_t kineto_batch_text(struct kineto_batch *batch, const char *text, size_t bytes);
/* A new definition, zeroed; NULL: out of memory. Valid until the next one. */
struct kineto_def *kineto_batch_def(struct kineto_batch *batch, enum kineto_def_kind kind);
static inline const char *kineto_batch_at(const struct kineto_batch *batch, size_t offset)
{
    return offset ? batch->text.data + offset : NULL;
}

#endif
