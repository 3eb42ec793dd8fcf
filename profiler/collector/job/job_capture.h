/* SPDX-License-Identifier: Apache-2.0
 *
 * A capture window on all machines of a job. The recorders of a job share no memory; what they
 * share is the folder that their runs are written to. There the job has a hidden folder:
 *
 *   .tacho-job-HASH/request    what `tacho capture` asks for
 *   .tacho-job-HASH/HOST-PID   the answer of the recorder of that process
 *
 * First the request asks each recorder for the step its processes are at and for their pace. From
 * the answers `tacho capture` chooses steps that all of them can still make, and asks for these; a
 * recorder that is past them by then answers so. Each file is one line that ends with the number of
 * its request, so a line that is half written is recognised.
 *
 * A folder or file of another user is not used: then each recorder is asked on its own machine.
 * The folder exists while windows can be opened (not where all device work is recorded anyway), and
 * is removed by the last recorder.
 */
#ifndef COL_JOB_CAPTURE_H
#define COL_JOB_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "profiler/collector/collector.h"

struct col_job_capture {
    int folder;    /* -1: not in a job of several recorders */
    char own[140]; /* name of the answer */
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

/* Joins the folder of the job that the environment names, beside `live` (NAME.tacho.live). Does
 * nothing where this recorder is the only one of the job. */
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
