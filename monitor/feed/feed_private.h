/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to monitor/feed/: what is known of the rows that others refer to (names.c), and the queue
 * of what was read but not played yet (feed.c).
 */
#ifndef MONITOR_FEED_PRIVATE_H
#define MONITOR_FEED_PRIVATE_H

#include "monitor/feed/feed.h"

enum { FEED_NOTHING = -1, FEED_STEP_MARK = -2 }; /* beside the phases of a detail */

#define FEED_PLACES 1024 /* processes without a rank that get one by their place */

struct feed_process {
    int64_t id, rank, pid, steps;
    int64_t start, end; /* STORE_ABSENT: it has not ended, as far as was read */
    bool queued;        /* that it began */
    int64_t last_index; /* of the newest row of step that was read */
    int64_t step_track; /* the thread that runs its steps; STORE_ABSENT: not known yet */
    char *host;
};
/* The newest collective of a track in a communicator that is in the queue: those that follow it
 * within FEED_COALESCE_NS take its place, so that the queue does not grow with their number. */
#define FEED_COMMUNICATORS 4
#define FEED_COALESCE_NS   500000000
struct feed_newest {
    int64_t communicator, since;
    size_t at; /* in the queue */
};
struct feed_track {
    int64_t id, process;
    bool is_counter, planned; /* planned: the counter steps_planned */
    char *name, *device;
    struct mon_counter *counter; /* once it was played */
    bool played;
    int64_t rank; /* that the device of a counter of the machine belongs to; -1: not known yet */
    struct feed_newest newest[FEED_COMMUNICATORS]; /* of this poll */
    size_t newest_count;
};
struct feed_detail {
    signed char phase;      /* enum mon_phase, or FEED_* */
    bool range;             /* a checkpoint or an evaluation: its slices are phases of the run */
    int64_t communicator;   /* of a collective; STORE_ABSENT: it is none */
    const char *collective; /* its name; owned by the feed */
    double flops;
};
struct feed_key {
    char *key, *value;
};

/* One thing that was seen. A step is queued when it ends, an open phase when it begins. */
enum feed_kind { FEED_STEP, FEED_OPEN, FEED_END, FEED_VALUE, FEED_COLLECTIVE, FEED_BEGAN };
struct feed_seen {
    int64_t time, order; /* order: as it was read, where times are equal */
    enum feed_kind kind;
    size_t track; /* value: index of the track */
    double value;
    const char *phase;        /* "checkpoint", static; or the name of a collective */
    int64_t start, end, rank; /* of a phase, a collective; end INT64_MIN: it has none */
    int64_t communicator, number;
    struct mon_step *step; /* owned */
    int64_t process;       /* of a step */
};

struct mon_feed {
    struct feed_process *process;
    size_t process_count, process_room;
    struct feed_track *track;
    size_t track_count, track_room;
    struct feed_detail *detail; /* by id */
    size_t detail_count, detail_room;
    bool *collects; /* by id of a string: it names a collection of garbage */
    size_t string_count, string_room;
    int64_t detail_rows, string_rows; /* that were read */
    struct feed_key *key;
    size_t key_count, key_room;
    size_t keys_resolved; /* keys that there were when devices were given their ranks */
    char **collective;    /* names, each once */
    size_t collective_count, collective_room;
    struct feed_seen *queue;
    size_t count, room, played;             /* of the queue; the first ones were handed over */
    struct store_step_aggregate *aggregate; /* of one poll */
    size_t aggregate_count, aggregate_room;
    int64_t next_step, next_aggregate, next_counter, next_slice, next_track;
    int64_t table_newest; /* time of the last row of the table that is read */
    int64_t horizon;
    int64_t begun, newest, order, left, steps, planned;
    double peak_flops;
    int rc;
};

/* Room for one more element: 0 or TACHO_ENOMEM, which feed->rc gets too. */
int feed_room(struct mon_feed *feed, void *array, size_t *room, size_t count, size_t size);
/* Reads processes, tracks, details, names and keys. */
int feed_read_names(struct mon_feed *feed, store_reader *reader);
struct feed_process *feed_process_of(const struct mon_feed *feed, int64_t id);
struct feed_track *feed_track_of(const struct mon_feed *feed, int64_t id);
/* What a row of this name and detail is: a phase, FEED_STEP_MARK or FEED_NOTHING. */
int feed_phase_of(const struct mon_feed *feed, int64_t name, int64_t detail);
/* Finds the ranks of devices by the keys of the run. */
void feed_resolve_devices(struct mon_feed *feed);
bool feed_has_ended(const struct feed_process *process, int64_t time);
/* A process without a rank is rank 0 where it is the only one with steps, else its place among
 * those that run beside it: one that begins after another one has ended takes its place. */
int64_t feed_rank_of(const struct mon_feed *feed, const struct feed_process *process);
void feed_free_names(struct mon_feed *feed);

#endif
