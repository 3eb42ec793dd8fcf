/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: which part of a run to load, so that looking at a run costs what is shown
 * of it and not what was recorded: the dashboard follows runs that grow, and opens files of any
 * size.
 *
 * A part is an interval of time and the first ids of the tables that can lie in it. While a run is
 * recorded rows are written nearly in the order of their ends, so the ids are found by bisection;
 * in merged and imported runs any order is possible, and the tables are scanned. What an analysis
 * of a part says holds for the part: it is as if nothing else had been recorded.
 */
#ifndef ANALYZERS_TRACE_PART_H
#define ANALYZERS_TRACE_PART_H

#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

/* Complete steps of each process, if the file has them: first and last do not count. */
#define AN_PART_STEPS_LEAST 5
#define AN_PART_STRETCH     16 /* a part may become this many times as large to hold them */
/* Counter values from the beginning of a run, where programs write constants once. */
#define AN_PART_COUNTER_HEAD 4096

struct an_trace_part {
    bool whole;     /* the run is not larger than the part: the other fields are not set */
    bool ordered;   /* ids grow with time */
    int64_t t0, t1; /* ns; what does not lie in them at least in part is excluded */
    int64_t slice, counter, step, aggregate; /* ids that come before these lie before t0 */
    int64_t slices;                          /* about how many slices lie in it */
    int64_t steps;                           /* rows of the table `step` in it */
    int64_t first_index, last_index;         /* of these; first > last: none */
    int64_t last_step_row, last_counter_row; /* of the file, when the part was chosen */
};

/* Chooses the newest part with about that many slices that ends at `until` (ns; INT64_MAX: at the
 * end of the run). 0 or a code; store_reader_error() has the text. */
int an_trace_part_find(store_reader *reader, int64_t slices, int64_t until,
                       struct an_trace_part *part);

#endif
