/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: what device ops and calls of the host waited for, as far as a run shows
 * it. Built once; the dependency graph, the split of the compute-absent time and blocking
 * communication read it, so that all of them see the same edges.
 *
 * Order within a stream and launches are not stored here: an_device_edges.before and
 * an_device_ops.launch have them.
 *
 * A wait of a stream for an event is recorded where the file names the stream that waits and the
 * one that recorded the event: the op that was launched last on this one before the record holds
 * back the first op that is launched behind the wait. Where the file has the wait but not the
 * event, or not the streams, the producer is inferred: of the other streams' last ops launched
 * before the wait, the one that ended last before the waiting op began. Where a process has no
 * waits in the file at all, an op that was released at the very moment another stream's op ended is
 * inferred to have waited for it.
 *
 * A call that waits (synchronise calls; copies that make the host wait) waits for the last op on
 * the stream, event or device it names; where the file does not name it, for the last op that was
 * launched before the call and ended inside of it: inferred.
 */
#ifndef ANALYZERS_DEVICE_EDGES_H
#define ANALYZERS_DEVICE_EDGES_H

#include "analyzers/device/device.h"

/* Times of traces are rounded to us: an end that is later by so little is not later. */
#define AN_EDGE_SLACK_NS 2000

struct an_sync_edge {
    uint32_t op;   /* that the call waited for */
    uint32_t call; /* slice of the host's call, the outermost one */
    bool inferred;
};

struct an_device_edges {
    /* op -> op of another stream that waits for it, by the op that waits: first[op] .. first[op +
     * 1] */
    size_t count;
    uint32_t *first; /* op count + 1 */
    uint32_t *from;
    uint8_t *inferred;
    struct an_sync_edge *sync; /* by call, then op */
    size_t sync_count;
    /* Tracks of those calls, by process: sync_of[p] .. sync_of[p + 1] of process p. */
    uint32_t *sync_track;
    size_t *sync_of;  /* process_count + 2: the last one is of tracks without a process */
    uint32_t *before; /* of each op: the op before it on its stream, by start; AN_NONE: none */
    /* Of each op: its stream waited for an event before it, of an unknown op. */
    uint8_t *unresolved;
    size_t recorded, inferred_count; /* of the edges between streams */
    size_t unresolved_count;
    bool waits; /* the file has waits of streams, or calls that wait */
};

/* The edges of the run, found at the first call and kept in `devices`.
 * 0 or TACHO_ENOMEM. */
int an_device_edges_of(struct an_devices *devices, const struct an_device_edges **out);

/* The outermost call of the accelerator's API around slice i, or i itself. */
uint32_t an_call_outermost(const struct an_trace *trace, uint32_t slice);
/* Index of a track's process in stream_of and sync_of. */
static inline size_t an_edge_process(const struct an_trace *trace, uint32_t track)
{
    uint32_t process = trace->track[track].process;
    return process < trace->process_count ? process : trace->process_count;
}
/* First sync edge whose call is not before `slice`: an index, sync_count if there is none. */
size_t an_sync_seek(const struct an_device_edges *edges, size_t slice);
/* Did the call that put copy `op` on its stream wait for it? */
bool an_copy_waits(const struct an_devices *devices, size_t op);

#endif
