/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of store/export/: a run in formats other tools open. One row a format in the table
 * of export.c.
 */
#ifndef STORE_EXPORT_EXPORT_H
#define STORE_EXPORT_EXPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "store/store.h"

/* One segment of a critical path (analyzers/result/result.h, struct an_path_row), in order of
 * window and time. */
struct store_export_path {
    int64_t start, end, track;      /* track: id in the file; STORE_ABSENT: a gap */
    int64_t range_start, range_end; /* of the innermost range or device op; STORE_ABSENT: none */
    const char *name, *cause, *how, *link;
    size_t window;
};

/* Category of its events in a timeline: `tacho import` leaves them out. */
#define STORE_EXPORT_PATH_CATEGORY "critical_path"

struct store_export_options {
    int64_t t0, t1; /* only what overlaps [t0, t1); STORE_ABSENT: from the start, to the end */
    bool with_path; /* perfetto: the path on top of the run; csv: the path instead of the slices */
    const struct store_export_path *path;
    size_t path_count;
    bool raw; /* csv: no ' before texts that a spreadsheet takes for formulas */
};

struct store_export_format {
    const char *name;   /* "perfetto", "folded", "csv" */
    const char *help;   /* one line */
    const char *suffix; /* ".json" */
    /* Streams the run to `out`. Overlapping slices of a track go to lanes of their own; times are
     * us since the first event with three decimals (perfetto), ns (folded, csv). 0 or a TACHO_E*
     * code; a failed stream is TACHO_EIO. */
    int (*write)(store_reader *reader, const struct store_export_options *o, FILE *out,
                 struct tacho_error *err);
};

/* Ends with name NULL. Static storage. */
extern const struct store_export_format store_export_formats[];

#endif
