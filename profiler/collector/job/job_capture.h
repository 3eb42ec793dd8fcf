/* SPDX-License-Identifier: Apache-2.0
 *
 * Private: a capture window on all machines of a job. The recorders of a job share no memory; what
 * they have in common is the folder that their runs are written to. There they meet in a hidden
 * folder of the job's:
 *
 *   .tacho-job-HASH/request        what `tacho capture` wants: written in place, so that no machine
 * has an old listing of it .tacho-job-HASH/HOST-PID       what the recorder of that process answers
 *
 * First the request asks: each answers at which step its processes are and how fast they go on.
 * From that `tacho capture` chooses steps that all of them can still make, and asks for these; a
 * recorder that is behind them by then says so. Each file is one line that ends with the number of
 * its request, so a line that is half written is not believed.
 *
 * The folder is there while windows can be opened (not with all work on GPUs recorded anyway), and
 * goes with the last recorder.
 */
#ifndef COL_JOB_CAPTURE_H
#define COL_JOB_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "profiler/collector/collector.h"

struct col_job_capture {
    char folder[COL_PATH_MAX]; /* "": not in a job of several recorders */
    char own[COL_PATH_MAX];    /* the answer */
    char segments[COL_PATH_MAX];
    int64_t ranks, job_ranks; /* that this recorder has; of the job, 0: not known */
    int64_t next;             /* time of the next look */
    uint64_t id;              /* of the request that was seen last */
    int phase;
    char result[16];
    int64_t to;                     /* last step asked for */
    int64_t first_step, first_time; /* as the request was seen: for the pace */
    double pace;                    /* steps a second */
};

/* A recorder comes: into the folder of the job that the environment tells of, where `live`
 * (NAME.tacho.live) stands. Nothing happens where this recorder is the only one of the job. */
void col_job_capture_open(struct col_job_capture *capture, const char *live, const char *segments,
                          bool separate);
/* Looks at the request when it is time. */
void col_job_capture_turn(struct col_job_capture *capture, int64_t now);
void col_job_capture_close(struct col_job_capture *capture);

/* The folder of the job that a live run belongs to; of the only job whose runs are written to the
 * folder `runs`. False: none.
 */
bool col_job_capture_folder_of(const char *live, char folder[COL_PATH_MAX]);
bool col_job_capture_find(const char *runs, char folder[COL_PATH_MAX]);

/* Opens a window on all recorders of a job. Errors as col_capture's, and TACHO_EBUSY when one does
 * not answer or the steps cannot be agreed upon. */
int col_job_capture_ask(const char *folder, struct col_capture *capture, struct tacho_error *err);

#endif
