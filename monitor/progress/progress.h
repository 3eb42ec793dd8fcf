/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room monitor/: does a run go on? In wall time, so that it is answered also
 * where no step comes. A run is stalled once max(10 * median step, 60 s) have passed since its last
 * step was complete, or since its last phase ended. While a phase of a known kind is open
 * (checkpoint, evaluation, compilation), its own bound holds: ten times the longest one so far, and
 * an hour where there was none. Before the first step the program loads data and compiles: half an
 * hour.
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

struct mon_phase_seen {
    char kind[24];
    double longest_s;
};

struct mon_progress {
    double step_s[MON_PROGRESS_STEPS]; /* ring: from the end of a step to the end of the next */
    size_t count, next;
    double begun_s, last_s; /* last_s: the last sign of progress; NAN: no step yet */
    int64_t last_step;      /* of the slowest rank; -1: none */
    struct mon_phase_seen phase[MON_PHASE_KINDS];
    size_t phase_count;
    char open[24]; /* kind of the phase that is open, "": none */
    double open_s; /* since when */
    bool stalled;
};

void mon_progress_init(struct mon_progress *progress, double begun_s);
/* All ranks have completed a step. */
void mon_progress_step(struct mon_progress *progress, int64_t step, double end_s);
/* A phase is open since a time; NULL: none is. */
void mon_progress_open(struct mon_progress *progress, const char *kind, double since_s);
/* A phase was complete. */
void mon_progress_phase(struct mon_progress *progress, const char *kind, double start_s,
                        double end_s);
/* The machine slept, or whoever watches did: what passed meanwhile is no lack of progress. */
void mon_progress_resume(struct mon_progress *progress, double now_s);
/* Seconds without progress that are still allowed in the present phase. */
double mon_progress_bound(const struct mon_progress *progress);
/* Seconds since the last sign of progress, or since the open phase began. */
double mon_progress_idle(const struct mon_progress *progress, double now_s);
/* Is it stalled at this time? */
bool mon_progress_check(struct mon_progress *progress, double now_s);
/* Median time between two steps; NAN: not known yet. */
double mon_progress_median(const struct mon_progress *progress);

#endif
