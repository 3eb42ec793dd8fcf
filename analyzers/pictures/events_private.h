/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to this folder: between events.c, which chooses ranks, tracks and a window of the run,
 * events_collect.c, which lists the events in it, and events_marks.c, which finds where a finding
 * is seen.
 */
#ifndef ANALYZERS_EVENTS_PRIVATE_H
#define ANALYZERS_EVENTS_PRIVATE_H

#include "analyzers/steps/context.h"

struct an_events_track {
    uint32_t track; /* of the trace */
    size_t rank;    /* row of an_events_work.rank */
    int order;      /* an_timeline_order */
    bool drives;    /* the steps of its process are a device's */
};

/* A kind of event before its texts are kept: a row of the hash table has the number of the kind. */
struct an_events_key {
    uint32_t name, detail; /* string and detail of the trace */
};

struct an_events_work {
    struct an_context *context;
    const struct an_step *typical; /* NULL: the run has no step that can be drawn */
    struct an_event_rank *rank;    /* that are shown */
    size_t rank_count;
    struct an_events_track *track; /* that are shown */
    size_t track_count;
    int64_t t0, t1; /* the window, as in the file */
    /* Of all tracks so far; malloc'ed (an_events_free). */
    struct an_event *event;
    size_t count, room;
    struct an_events_key *key;
    uint32_t *slot; /* hash table of `key`: number + 1, 0: free */
    size_t key_count, key_room, slots;
};

/* Lists the events of track i of `work`: fills out->count, and work->event behind those of the
 * tracks before. 0 or TACHO_ENOMEM. */
int an_events_collect(struct an_events_work *work, size_t i, struct an_event_track *out);
/* Leaves out the shortest events where there are too many, and moves the rest and their kinds to
 * the result. 0 or TACHO_ENOMEM. */
int an_events_finish(struct an_events_work *work);
void an_events_free(struct an_events_work *work);
/* Fills the marks of the result, from its events and findings. 0 or TACHO_ENOMEM. */
int an_events_marks(struct an_events_work *work);

#endif
