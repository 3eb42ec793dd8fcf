/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to this folder: between timeline.c, which draws a step, timeline_row.c, which joins
 * the ranges of a track into the spans of a row, and events.c, which keeps every range.
 */
#ifndef ANALYZERS_TIMELINE_PRIVATE_H
#define ANALYZERS_TIMELINE_PRIVATE_H

#include "analyzers/budget/budget.h"
#include "analyzers/graph/critical_path.h"
#include "analyzers/steps/context.h"

/* One row of the picture while it is filled: ranges come by start. */
struct an_timeline_row {
    int64_t t0, t1;                   /* the window */
    int64_t grain;                    /* what is shorter is merged with its neighbours */
    const struct an_path_spans *path; /* what is on the critical path; NULL: nothing is known */
    uint32_t track;
    /* A thread that runs no steps: while it waits for room in its queue it is idle. */
    bool waits;
    /* A thread of a process whose steps run on a device: compute is there, not here. */
    bool drives;
    /* malloc'ed; names are indexes of an_trace.string until the row is kept. */
    struct an_timeline_span *span;
    uint32_t *name; /* the same count: string of each span */
    size_t count, span_room, name_room;
    int64_t busy_ns, end; /* of all spans so far; end of the last one */
    /* The span that may still grow. */
    bool open;
    int64_t from, until, filled, longest, class_ns[AN_CLASS_COUNT];
    uint32_t longest_name, merged;
};

/* Adds a range, clipped to the window and to what came before. class_ns: time by class of the
 * innermost ranges in it; NULL: all of it is `class`. 0 or TACHO_ENOMEM. */
int an_timeline_add(struct an_timeline_row *row, int64_t start, int64_t end, uint32_t name,
                    const int64_t *class_ns, int class);
/* Closes the last span. 0 or TACHO_ENOMEM. */
int an_timeline_close(struct an_timeline_row *row);

/* A range of a thread while it is open. */
struct an_timeline_frame {
    int64_t start, end;               /* clipped to the window and to the range around it */
    int64_t class_ns[AN_CLASS_COUNT]; /* of the innermost ranges in it */
    size_t slice;
    int class; /* its own */
};

/* Visits every range of a thread in a window. */
struct an_timeline_sweep {
    const struct an_context *context;
    int64_t t0, t1;
    uint32_t mark;      /* name of the ranges that mark steps; AN_NONE: no name does */
    bool waits, drives; /* as in an_timeline_row */
    /* Called when a range ends, nested ones before the range around them; depth 0: the outermost.
     * 0 or an error, which ends the sweep. */
    int (*leave)(void *to, const struct an_timeline_frame *frame, size_t depth);
    void *to;
};
/* Ranges that mark steps and the frames of a recorded Python stack are passed over; what they
 * contain is visited. 0, TACHO_ENOMEM or what `leave` returns. */
int an_timeline_sweep(const struct an_timeline_sweep *sweep, const struct an_track *track);
/* The class that most of a range belongs to. */
int an_timeline_class(const int64_t class_ns[AN_CLASS_COUNT]);

/* Order of a track in pictures: 0 for a thread that runs steps, then by kind: 1 a stream, 2 a
 * thread ...; -1: it is not drawn. */
int an_timeline_order(const struct an_context *context, uint32_t track);
/* enum an_class of a device operation, by its enum an_device_class. */
int an_timeline_op_class(int class);
/* The step of which a picture is drawn, and the longest one; NULL: there is none (timeline.c). */
void an_timeline_choose(const struct an_context *context, const struct an_step **typical,
                        const struct an_step **worst);

/* Ranges of a thread: row[0] the outermost, row[1] those nested in them. Ranges that mark steps
 * (`mark`: the name of one that only its name identifies, AN_NONE: none) and the frames of a
 * recorded Python stack are not drawn; what they contain is. 0 or TACHO_ENOMEM. */
int an_timeline_thread(const struct an_context *context, const struct an_track *track,
                       uint32_t mark, struct an_timeline_row row[2]);

#endif
