/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the loader of traces (trace.c): what a row of each table of the file becomes in
 * memory.
 *
 * The functions an_trace_row_* are what the reader (store.h) calls for a row; ctx is a struct
 * an_trace_loader. They append to its trace, copy texts into the trace's arena and leave rows out
 * that a part of a run does not hold. 0, or TACHO_ENOMEM, which is then also in `rc`: the
 * reader's own errors do not.
 */
#ifndef ANALYZERS_TRACE_ROWS_H
#define ANALYZERS_TRACE_ROWS_H

#include "analyzers/trace/trace.h"

#define AN_SHORT_TEXTS 64 /* dtypes, passes, kinds, schemas: a handful each */

/* Ids of a table in file order. Writers count from 1 without gaps, so the search is almost always
 * one subtraction. */
struct an_id_map {
    int64_t *id; /* owned by whoever has the map: free() */
    size_t count, capacity;
};

/* Index of an id, AN_NONE: not there. */
uint32_t an_id_find(const struct an_id_map *id_map, int64_t id);
int an_id_add(struct an_id_map *id_map, int64_t id);

struct an_trace_loader {
    struct an_trace *trace;
    int rc;
    size_t room;     /* capacity of the columns being filled */
    uint32_t *track; /* ids of the tracks of slices or counter values being read */
    struct an_id_map strings, details, processes, tracks;
    struct an_id_map python_tracks; /* those of kind `python`, read before the samples */
    int64_t last_track;             /* of the tracks at that time */
    size_t string_room, detail_room, process_room, track_room, step_room, loss_room, ceiling_room,
        key_room;
    const char *text[AN_SHORT_TEXTS];
    size_t texts;
    const struct an_trace_part *part; /* NULL: all of the run */
    /* Of a part: ids of the table being read that something refers to, sorted. */
    struct an_id_map wanted;
};

/* Make room for so many rows of the large tables. Ids of strings, details, tracks and processes
 * wait as 32 bits in their columns until the tables they point to are read. */
int an_trace_row_slice_room(struct an_trace_loader *loader, size_t need);
int an_trace_row_counter_room(struct an_trace_loader *loader, size_t need);
int an_trace_row_aggregate_room(struct an_trace_loader *loader, size_t need);

/* The trace has something between these times. */
void an_trace_row_times(struct an_trace *trace, int64_t from, int64_t to);
int an_trace_row_slice(void *ctx, const struct store_slice *slice);
int an_trace_row_counter(void *ctx, const struct store_counter *counter);
int an_trace_row_aggregate(void *ctx, const struct store_step_aggregate *step_aggregate);
int an_trace_row_stack(void *ctx, const struct store_stack *stack);
int an_trace_row_python_track(void *ctx, const struct store_track *track);
/* Of the CPU time: counted at its stack, which is there already. Of Python: a row of its own. */
int an_trace_row_sample(void *ctx, const struct store_sample *sample);

int an_trace_row_step(void *ctx, const struct store_step *step);
int an_trace_row_string(void *ctx, int64_t id, const char *text);
int an_trace_row_detail(void *ctx, const struct store_detail *row);
int an_trace_row_process(void *ctx, const struct store_process *row);
int an_trace_row_track(void *ctx, const struct store_track *track);
int an_trace_row_loss(void *ctx, const struct store_loss *loss);
int an_trace_row_ceiling(void *ctx, const struct store_ceiling *ceiling);
int an_trace_row_key(void *ctx, const char *key, const char *value);
int an_trace_row_metric(void *ctx, const struct store_metric *metric);

/* Puts the calls of threads that the profiler shows apart onto the threads that make them
 * (trace_threads.c): changes the tracks of slices, which are indexes, before the slices get their
 * order. 0 or TACHO_ENOMEM. */
int an_trace_join_threads(const struct an_trace *trace, uint32_t *slice_track);

#endif
