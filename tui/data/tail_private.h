/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to tui/data/: what is kept of a run that is followed. tail.c fills it, tail_model.c
 * copies it into models.
 */
#ifndef TUI_TAIL_PRIVATE_H
#define TUI_TAIL_PRIVATE_H

#include "tui/data/tail.h"

struct process {
    int64_t id, rank, pid;
    char *host;
    struct an_step_point *step;
    size_t count, room;
    int64_t seen, stride; /* updates that ended; how many of them a row holds */
    double ms[TUI_RECENT], tokens[TUI_RECENT];
};

struct track {
    int64_t id, process;
    bool counter, peaks; /* peaks: of merged values the highest counts, not their mean */
    char *name, *unit, *device;
    double *time, *value; /* time: seconds from `start` */
    double newest;        /* value that is not NAN; NAN: none yet */
    size_t count, room;
    int64_t stride, held; /* values a point holds; those that the last one holds */
};

struct key {
    char *key, *value;
};

struct tui_tail {
    struct process *process;
    size_t process_count, process_room;
    struct track *track;
    size_t track_count, track_room;
    struct key *key;
    size_t key_count, key_room;
    int64_t next_step, next_counter, next_track;
    int64_t start, newest, last_index, slices; /* newest: end of the newest step */
    int64_t seen;                              /* latest time of steps and counters */
    size_t step_rows;                          /* of all processes together */
    size_t step_rows_kept;                     /* when they were last halved */
    int64_t left;                              /* rows that this poll may still read */
    int rc;
};

/* The process with this id, NULL: not read yet. */
struct process *tui_tail_process(const struct tui_tail *tail, int64_t id);

#endif
