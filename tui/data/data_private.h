/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to tui/data/: the thread that follows a run (data.c), what it has analysed
 * (data_analysis.c), and the wishes that the frame has of it (data_wishes.c).
 */
#ifndef TUI_DATA_PRIVATE_H
#define TUI_DATA_PRIVATE_H

#include <pthread.h>
#include <sys/stat.h>

#include "tui/data/data.h"
#include "tui/data/steady.h"
#include "tui/data/tail.h"

#define MESSAGE 1024

/* All members that are not marked otherwise belong to the thread. */
struct tui_data {
    const struct tui_source *source;
    int interval_ms, event;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct tui_model *ready; /* under lock */
    bool stop, again;        /* under lock */
    int move;                /* under lock: parts to go on (or, below 0, back) */
    bool list;               /* under lock: the runs are to be listed */
    char *choice;            /* under lock: the run to turn to; owned. NULL: none */

    /* the thread's */
    struct tui_found found;
    struct stat file;     /* what was opened */
    bool opened, refused; /* refused: as it is, it cannot be read */
    bool failed;          /* the last analysis ended with an error */
    struct tui_tail *tail;
    enum tui_run_state state;
    char message[MESSAGE], reason[MESSAGE], window[256];
    struct tui_shared *shared;
    struct tui_steady steady;
    struct tui_runs runs;
    bool listed;
    uint64_t version;
    double changed, analysed, next_analysis; /* s, monotonic */
    double taken_up;                         /* s, monotonic: when this run came onto the screen */
    int64_t steps, analysed_steps;           /* that ended; those of the last analysis */
    int64_t slices, analysed_until; /* of the next analysis; newest time that the last one saw */
    int unrecorded;                 /* polls in which the lock of the live run was free */
    bool wants_whole; /* the newest part of a large run is shown: all of it is to be analysed */
    bool whole;       /* ... which is under way */
    bool final;       /* a run that is over was analysed, or a part that is not the newest */
    int64_t until;    /* where the part ends that the user went to; 0: the newest one */
};

/* Sets what the screen says about the run. */
void tui_data_say(struct tui_data *data, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Is it time for an analysis? A run that is over needs one more; a live one has news and its
 * pause is over. */
bool tui_data_due(const struct tui_data *data);

/* Has the run analysed: the whole of one that is over and small enough, else the newest part, or
 * the part that the user asked for; the whole of a larger one follows (wants_whole). A run without
 * steps that has only begun is not shown as one. */
void tui_data_analyse(struct tui_data *data, store_reader *reader);

/* Begins to analyse the whole of a large run. The file must not be open here (SQLite and fork). */
void tui_data_begin_whole(struct tui_data *data);

/* Takes the analysis of the whole run, if it has ended. It is not for a user who looks at an
 * earlier part. */
void tui_data_take_whole(struct tui_data *data);

/* Gives up the analysis of the whole run, if one is under way. */
void tui_data_end_whole(struct tui_data *data);

#endif
