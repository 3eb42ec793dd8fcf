/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room monitor/: does a run go on? In wall time, so that it is answered also
 * where no step comes. A run is stalled once max(10 * median step, 60 s) have passed since its last
 * step was complete, or since its last phase ended. While a phase of a known kind is open on a rank
 * (checkpoint, evaluation, compilation), its own bound holds: ten times the longest one so far, and
 * an hour where there was none. Of several ranks the one that may take longest counts. A phase
 * beside which two steps ended does not hold the steps up (a checkpoint that is written by a thread
 * of its own): it gives no bound. Before the first step the program loads data and compiles: half
 * an hour; where it was started again, ten times as long as that took the first time, if that is
 * less.
 *
 * Times are seconds of a clock that does not stand still while the machine is suspended, and does
 * not jump: the caller says when it did (mon_progress_resume).
 */
#ifndef MONITOR_PROGRESS_H
#define MONITOR_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MON_PROGRESS_STEPS 64
#define MON_PHASE_KINDS    8
#define MON_PHASE_KIND     24 /* bytes of a kind */

struct mon_phase_seen {
    char kind[MON_PHASE_KIND];
    double longest_s;
};

/* A phase that is open on a rank. */
struct mon_phase_open {
    int64_t rank;
    char kind[MON_PHASE_KIND];
    double since_s;
};

struct mon_progress {
    double step_s[MON_PROGRESS_STEPS]; /* ring: from the end of a step to the end of the next */
    size_t count, next;
    double begun_s, last_s; /* last_s: the last sign of progress; NAN: no step yet */
    double end_s, before_s; /* when the last step ended, and the one before; NAN */
    double startup_s;       /* from the begin to the end of the first step; NAN */
    double restarted_s;     /* when it was started again; NAN: a step has ended since */
    int64_t last_step;      /* of the slowest rank; -1: none */
    struct mon_phase_seen phase[MON_PHASE_KINDS];
    size_t phase_count;
    struct mon_phase_open *open; /* owned; one for a rank */
    size_t open_count, open_room;
    bool stalled;
};

void mon_progress_init(struct mon_progress *progress, double begun_s);
void mon_progress_free(struct mon_progress *progress);
/* All ranks have completed a step. */
void mon_progress_step(struct mon_progress *progress, int64_t step, double end_s);
/* A phase is open on a rank since a time. 0 or TACHO_ENOMEM. */
int mon_progress_open(struct mon_progress *progress, int64_t rank, const char *kind,
                      double since_s);
/* No phase is open on a rank; on any. */
void mon_progress_close(struct mon_progress *progress, int64_t rank);
void mon_progress_close_all(struct mon_progress *progress);
/* A phase was complete. */
void mon_progress_phase(struct mon_progress *progress, const char *kind, double start_s,
                        double end_s);
/* A rank that has ended steps was started again. */
void mon_progress_restart(struct mon_progress *progress, int64_t rank, double now_s);
/* The machine slept, or whoever watches did: what passed meanwhile is no lack of progress. */
void mon_progress_resume(struct mon_progress *progress, double now_s);
/* The open phase that may take longest; NULL: none holds the steps up. */
const struct mon_phase_open *mon_progress_current(const struct mon_progress *progress);
/* Seconds without progress that are still allowed in the present phase. */
double mon_progress_bound(const struct mon_progress *progress);
/* Seconds since the last sign of progress, or since the present phase began. */
double mon_progress_idle(const struct mon_progress *progress, double now_s);
/* Is it stalled at this time? */
bool mon_progress_check(struct mon_progress *progress, double now_s);
/* Median time between two steps; NAN: not known yet. */
double mon_progress_median(const struct mon_progress *progress);

#endif
