/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to timeline.c, timeline_thread.c: ranges on their way into the picture of a step.
 */
#ifndef ANALYZERS_TIMELINE_PRIVATE_H
#define ANALYZERS_TIMELINE_PRIVATE_H

#include "analyzers/budget/budget.h"
#include "analyzers/graph/critical_path.h"
#include "analyzers/steps/context.h"

/* One row of the picture while it is filled: spans come by start. */
struct an_timeline_row {
    int64_t t0, t1,
        grain; /* the window; what is shorter than the grain is merged with its neighbours */
    const struct an_path_spans *path; /* what is on the critical path; NULL: nothing is known */
    uint32_t track;
    bool waits;  /* a thread that runs no steps: while it waits for room in its queue it is idle */
    bool drives; /* a thread of a process whose steps are a device's: what computes is there, not
                    here */
    struct an_timeline_span
        *span;      /* malloc'ed; names are indexes of an_trace.string until they are kept */
    uint32_t *name; /* the same count: string of each span */
    size_t count, span_room, name_room;
    int64_t busy_ns, end; /* of all spans so far; end of the last one */
    /* The stretch that may still grow */
    bool open;
    int64_t from, until, filled, longest, class_ns[AN_CLASS_COUNT];
    uint32_t longest_name, merged;
};

/* Adds a range: clipped to the window and to what came before. class_ns: what the innermost ranges
 * in it say; NULL: all of it is `class`. 0 or TACHO_ENOMEM. */
int an_timeline_add(struct an_timeline_row *row, int64_t start, int64_t end, uint32_t name,
                    const int64_t *class_ns, int class);
/* Closes the last stretch. */
int an_timeline_close(struct an_timeline_row *row);

/* Ranges of a thread: row[0] the outermost, row[1] those nested in them. The ranges that mark steps
 * (mark: the name of one that only its name tells, AN_NONE: none), and the frames of a recorded
 * Python stack, are looked through. 0 or TACHO_ENOMEM. */
int an_timeline_thread(const struct an_context *context, const struct an_track *track,
                       uint32_t mark, struct an_timeline_row row[2]);

#endif
