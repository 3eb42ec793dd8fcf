/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: the critical path of a window (docs/definitions.md): the chain of nodes of
 * the dependency graph (graph.h) that ends with what lets the next step begin. critical_path_walk.c
 * walks it back, critical_path_label.c says what its host time was, critical_path.c sums,
 * critical_path_step.c keeps what a picture is drawn from.
 */
#ifndef ANALYZERS_CRITICAL_PATH_H
#define ANALYZERS_CRITICAL_PATH_H

#include "analyzers/graph/graph.h"

/* The dependency from a segment to the one after it: a kind of edge (enum an_edge_kind), or one of
 * these */
enum an_path_link {
    AN_PATH_ORDER = AN_EDGE_KINDS, /* program order of a thread or stream */
    AN_PATH_SAME,                  /* of the same node */
    AN_PATH_NEAREST,               /* inferred: what ended last before, as no edge says more */
    AN_PATH_END,                   /* the last one: the next step begins */
    AN_PATH_NONE,                  /* nothing: one of the two is a gap */
    AN_PATH_LINKS
};
const char *an_path_link_key(unsigned link);

struct an_path_segment {
    int64_t start, end;
    /* The node that was busy or, with cause DISPATCH, about to start; AN_NONE: a gap. */
    uint32_t node;
    /* The innermost range then (critical_path_label.c), or the row of the device op; AN_NONE: none.
     */
    uint32_t slice;
    uint8_t cause; /* enum an_cause */
    uint8_t how;   /* enum an_path_how: is `link` recorded or inferred, or is this a gap? */
    uint8_t link;  /* the dependency to the segment after it */
};

/* Segments in order of time that cover [start, end) of the window without holes; a segment may last
 * no time until it is labelled. `at` is malloc'ed. */
struct an_path_walk {
    struct an_window window;
    struct an_path_segment *segment;
    size_t count, room;
};

/* Walks back from what gates the step after the window. Fills `out`, which starts zeroed. 0
 * or TACHO_ENOMEM. */
int an_path_walk(const struct an_context *context, const struct an_graph *graph,
                 const struct an_window *window, struct an_path_walk *out);
/* Splits the host's segments at the ranges that were innermost, gives every segment its slice and
 * cause, drops those that last no time. 0 or TACHO_ENOMEM. */
int an_path_label(const struct an_context *context, const struct an_graph *graph,
                  struct an_path_walk *walk);

/* The step of the windows of `least` steps or more whose path is drawn, their median weighted by
 * time; NULL: no window is that long. 0 or TACHO_ENOMEM. */
int an_path_typical(const struct an_context *context, const struct an_window *window,
                    size_t window_count, size_t least, const struct an_step **out);
/* Writes the part of a labelled path that lies in `step` to the result (critical_path.step). 0 or
 * TACHO_ENOMEM. */
int an_path_keep_step(struct an_context *context, const struct an_graph *graph,
                      const struct an_path_walk *walk, const struct an_step *step);

/* What is on a critical path of the run, for pictures: spans of every track, sorted and disjoint.
 * track_first has track_count + 1 entries. In an_context.path; NULL: no path was found. */
struct an_path_spans {
    struct an_span *span;
    size_t *track_first;
    const struct an_step *typical; /* the step whose path is drawn; NULL: none */
};
/* Is the middle of [start, end) of a track on the path? */
bool an_path_holds(const struct an_path_spans *path_spans, uint32_t track, int64_t start,
                   int64_t end);

#endif
