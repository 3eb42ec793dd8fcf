/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/merge/: merge.c checks the inputs and writes the output; merge_source.c opens
 * inputs; merge_clock.c aligns clocks; merge_rows.c copies rows; merge_keys.c combines run keys,
 * ceilings, metrics and losses.
 */
#ifndef STORE_MERGE_PRIVATE_H
#define STORE_MERGE_PRIVATE_H

#include "store/merge/merge.h"
#include "store/reader.h"
#include "store/store.h"

#define MERGE_GPUS_MOST 65536 /* a larger number of NVML means that the file is damaged */

struct merge_ids {
    int64_t *id; /* new id by old; 0: none */
    size_t cap;
    int64_t most; /* a larger old id means that the file is damaged */
};

struct merge_source {
    const char *path;
    store_reader *reader;
    int64_t index;  /* N of the keys node.N */
    size_t machine; /* sources of one boot of one machine have the same */
    char host[128], boot[64], job[256], source[32], clock_text[64];
    bool merged; /* made by store_merge */
    int64_t device, inode;
    int64_t begun, ended,
        begun_wall; /* run keys start.monotonic_ns, end.monotonic_ns, start.realtime_ns; absent */
    int64_t anchor_wall; /* CLOCK_REALTIME - CLOCK_MONOTONIC, median of the anchors; absent: no
                            anchor */
    int64_t *rank;       /* of processes that have steps, sorted */
    size_t rank_count;
    int64_t lowest; /* rank of any process; INT64_MAX */
    int64_t slices;
    int64_t nvml; /* GPUs of the machines before it: what is added to NVML's numbers */
    struct store_merge_clock clock;
    struct merge_ids strings, details, processes, tracks, stacks;
};

struct merge {
    const struct store_merge_options *merge_options;
    struct store_merge_result *merge_result;
    struct merge_source *source; /* in order of rank; the first one is the reference */
    size_t count, machines;
    store *out;
    int64_t done, total;    /* slices */
    struct tacho_error why; /* of a failure that is not the output's */
};

/* Opens a source and reads what merge.c has to check. */
int merge_source_open(struct merge *merge, struct merge_source *source, const char *path);
void merge_source_close(struct merge_source *source);
/* Which machine each source is of; fills source[].clock. 0 or a code. */
int merge_align(struct merge *merge);
/* Copies the rows of one source. */
int merge_rows(struct merge *merge, struct merge_source *source);
/* Run keys, ceilings, losses, totals of counters, anchors. After the rows: process ids are needed.
 */
int merge_keys(struct merge *merge);

/* The new id of an old one; STORE_ABSENT for absent, TACHO_ECORRUPT in *rc for one that has no row.
 */
int64_t merge_id(const struct merge_ids *ids, int64_t old, int *status);
int64_t merge_time(const struct merge_source *source, int64_t time); /* absent stays absent */
/* Reads all values of one column of an SQL query on a source. */
int merge_query(struct merge *merge, struct merge_source *source, const char *sql,
                int (*row)(void *ctx, int columns, const struct store_cell *cells), void *ctx);

#endif
