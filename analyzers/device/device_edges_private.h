/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to device/: the edges between device ops and calls of the host under construction.
 * device_edges.c is the entry, device_waits.c and device_syncs.c find the edges, and
 * device_edges_build.c holds what both of them ask and add.
 */
#ifndef ANALYZERS_DEVICE_EDGES_PRIVATE_H
#define ANALYZERS_DEVICE_EDGES_PRIVATE_H

#include "analyzers/device/device_edges.h"

/* A call of the host that records, waits or synchronises; also those inside of another call. */
struct an_edge_call {
    uint32_t slice, track;
    enum an_api_kind kind;
};

struct an_edge_builder {
    const struct an_trace *trace;
    const struct an_devices *devices;
    struct an_arena *scratch;
    struct an_device_edges *edges;
    struct an_edge_call *call; /* by slice */
    size_t call_count, call_room;
    uint32_t *by_correlation; /* indexes of `call` with a correlation, by process and correlation */
    size_t correlated;
    uint32_t *row, *row_track; /* rows of category sync on streams */
    size_t row_count, row_room, row_track_room;
    /* Ops of each stream in order of launch: op[first[track]] .. first[track + 1]; ops without a
     * launch are left out */
    uint32_t *op;
    size_t *first;
    /* Tracks with such ops, by process: streams of process p from stream_of[p] on. */
    uint32_t *stream;
    size_t *stream_of; /* process_count + 2 */
    /* edges, as they are found */
    struct an_edge_pair {
        uint32_t from, to;
        bool inferred;
    } * pair;
    size_t pair_count, pair_room, sync_room;
};

/* Sorts the indexes of `call` by process and correlation, for an_edge_call_of. 0 or
 * TACHO_ENOMEM. */
int an_edge_index_calls(struct an_edge_builder *builder);
int64_t an_edge_number(const struct an_trace *trace, size_t slice,
                       const char *key); /* of the payload; STORE_ABSENT: none */
/* Slice of the call with that correlation in a process; AN_NONE: not in the file. */
uint32_t an_edge_call_of(const struct an_edge_builder *builder, uint32_t process,
                         int64_t correlation);
/* Stream `tid` on the device of track `like`; AN_NONE: it has no launched op. */
uint32_t an_edge_stream(const struct an_edge_builder *builder, uint32_t like, int64_t tid);
/* Place in builder->op of the first op of a stream launched at or after `time`; first[track + 1]:
 * none. */
size_t an_edge_launched(const struct an_edge_builder *builder, uint32_t track, int64_t time);
int an_edge_add(struct an_edge_builder *builder, uint32_t from, uint32_t to, bool inferred);
int an_edge_add_sync(struct an_edge_builder *builder, uint32_t op, uint32_t call, bool inferred);

int an_edges_waits(struct an_edge_builder *builder); /* device_waits.c: between streams */
int an_edges_syncs(struct an_edge_builder *builder); /* device_syncs.c: to the host */

#endif
