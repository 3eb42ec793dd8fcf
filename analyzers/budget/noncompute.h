/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: why a device does not compute, as sets of time that are exact in ns
 * (docs/definitions.md, compute-absent time and blocking communication). The sets of one device are
 * disjoint parts of [first start, last end of its ops) \ compute, and their measures sum to it.
 *
 * In the gap [a, b) the next kernel is the compute op that starts at b (of several, the one issued
 * first). It was issued at the end of its launch call, b at the latest. Before that the gap is
 * launch-starved. From then on until the last op it depends on directly (order of its stream, a
 * wait of its stream) ended, if that was behind a, it is blocked. The remainder is dispatch if it
 * is no longer than a dispatch can take; else, and where the kernel's stream waited for an event
 * and the file does not tell which op that was, it is dependency-stalled. A gap without a next
 * kernel, or whose next kernel has no launch in the file, is dependency-stalled and unlinked.
 */
#ifndef ANALYZERS_NONCOMPUTE_H
#define ANALYZERS_NONCOMPUTE_H

#include "analyzers/base/sets.h"
#include "analyzers/device/device_edges.h"
#include "analyzers/graph/graph.h"

/* Launch-starved time and the thread that launched the kernel it ended with. */
struct an_starved {
    struct an_span span;
    uint32_t thread; /* track */
};

struct an_noncompute_sets {
    const char *reason; /* why the parts are not known; NULL: they are */
    struct an_set part[AN_ABSENT_PARTS];
    struct an_set unlinked; /* of part dependency */
    struct an_set drained;  /* of part launch_starved: gaps in which the launching thread came back
                               from a call that waits */
    struct an_starved *starved; /* part launch_starved, in order of time */
    size_t starved_count;
    const char *blocking_reason;
    /* Parts of exposed communication; what is in none blocks nothing. */
    struct an_set blocking[AN_BLOCKING_COUNT];
};

/* The sets of device d; they lie in the work arena. 0 or TACHO_ENOMEM. */
int an_noncompute_sets_of(struct an_context *context, size_t device,
                          struct an_noncompute_sets *out);

/* A gap of device d whose exposed communication is looked at: [a, b), q the next kernel or
 * AN_NONE. */
struct an_compute_gap {
    int64_t start, end;
    uint32_t next;
};
/* Adds the spans of communication in the gap that the next kernel waits for (blocking.c). */
int an_blocking_gap(struct an_context *context, const struct an_device_edges *edges,
                    struct an_compute_gap gap, struct an_span_list *proven,
                    struct an_span_list *inferred);

/* ---- what a thread did (noncompute_host.c) --------------------------------------------------------------------------------------- */

/* Time by cause and name. */
struct an_host_tally {
    struct an_host_row {
        uint32_t name; /* index of a string; AN_NONE: no range */
        enum an_cause cause;
        int64_t ns;
    } * row;
    size_t count, room;
    uint32_t *slot; /* hash of rows: index + 1 */
    size_t slots;
};
void an_host_tally_free(struct an_host_tally *tally);

/* Gives every instant of `when` (a normalised set) to what the innermost telling range of a thread
 * says the thread did. What no range covers goes to `rest` (in order), or, where rest is NULL, to
 * the cause UNTRACED. */
int an_host_sweep(struct an_context *context, const struct an_track *thread, struct an_set when,
                  struct an_host_tally *tally, struct an_span_list *rest);

#endif
