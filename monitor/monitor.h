/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room monitor/: one run that is watched. Observations go in, in the order of
 * time: steps of ranks, phases, values of counters, what is open now. Notices of alerts come out
 * through a function. Nothing here reads a clock, a file or the network, so a recording that is
 * replayed gives the notices that the run gave.
 *
 * Times: ns on the clock of the file (monotonic, of the recording host). One thread. Memory grows
 * with the number of ranks and of counters, never with time.
 */
#ifndef MONITOR_MONITOR_H
#define MONITOR_MONITOR_H

#include "monitor/alert/alert.h"
#include "monitor/cause/cause.h"
#include "monitor/config/config.h"

struct mon_monitor;

/* `config` lives as long as the monitor; begun_ns: when the run began. NULL: no memory. */
struct mon_monitor *mon_new(const struct mon_config *config, int64_t begun_ns, mon_notify *notify,
                            void *ctx);
void mon_free(struct mon_monitor *monitor); /* NULL is fine */

/* What is known of the machine; absent values are 0. */
struct mon_machine {
    double memory_bytes;        /* of the host, or of the limit of the job */
    double device_memory_bytes; /* of one device */
    double peak_flops;          /* of a device, for MFU */
    int64_t planned_steps;
};
void mon_set_machine(struct mon_monitor *monitor, const struct mon_machine *machine);

/* A step of a rank that is over. Ranks come in any order; of one rank in the order of time. A step
 * whose index is not above the highest one before is one that is repeated, after a restart. */
struct mon_step {
    int64_t rank, index, start, end;
    double phase_ms[MON_PHASE_COUNT];
    bool has_phases; /* else the recording does not say what the time went to */
    double tokens;   /* NAN: not known */
    double flops;    /* model FLOPs of this rank; NAN */
    bool special;    /* a checkpoint or an evaluation lies in it: masked from detectors */
};
int mon_step(struct mon_monitor *monitor, const struct mon_step *step);

/* A phase of a rank between steps or in one (checkpoint, evaluation): `end` absent (INT64_MIN): it
 * is open. 0 or TACHO_ENOMEM. */
int mon_phase_range(struct mon_monitor *monitor, const char *kind, int64_t rank, int64_t start,
                    int64_t end);

/* A process of a rank began, which is the first one, or the job was started again: then the info
 * RESTARTED is raised, and the time until its first step is its start. */
void mon_process_began(struct mon_monitor *monitor, int64_t rank, int64_t time);

/* A counter; the same place every time. NULL: of no interest, or no memory. Names are those of
 * docs/schema.md; device may be NULL; rank -1: of the machine. */
struct mon_counter;
struct mon_counter *mon_counter(struct mon_monitor *monitor, const char *name, const char *device,
                                int64_t rank);
/* A counter of the machine turned out to be of the device of this rank. */
void mon_counter_belongs(struct mon_counter *counter, int64_t rank);
int mon_value(struct mon_monitor *monitor, struct mon_counter *counter, int64_t time, double value);

/* A collective that a rank started. Numbers grow within a communicator. The text of STALLED says
 * for each communicator and rank which one was started last and which one is over. 0 or
 * TACHO_ENOMEM. */
struct mon_collective {
    int64_t rank, communicator, number;
    int64_t start, end; /* ns; end INT64_MIN: not over */
    const char *name;   /* "all_reduce" */
};
int mon_collective(struct mon_monitor *monitor, const struct mon_collective *collective);

/* No phase and no collective is open on any rank: what is open is said again after it. */
void mon_open_none(struct mon_monitor *monitor);

/* It is `now`: what is judged by time is judged. */
void mon_tick(struct mon_monitor *monitor, int64_t now);
/* Between these times nobody watched, or the machine slept: no lack of progress. */
void mon_gap(struct mon_monitor *monitor, int64_t from, int64_t to);
/* What its threads do, appended to the text of STALLED; asked for when it is raised. May be NULL.
 */
void mon_set_probe(struct mon_monitor *monitor, void (*probe)(void *ctx, char *text, size_t size),
                   void *ctx);
/* The recorder ended without the run's end; or the run ended, as `how` says ("exit 1"). */
void mon_recorder_gone(struct mon_monitor *monitor, int64_t now);
void mon_ended(struct mon_monitor *monitor, int64_t now, const char *how);

/* ---- what there is to show and to export ------------------------------------------------------ */

/* An objective as it is now. */
struct mon_objective_state {
    struct mon_objective objective;
    double good, left;      /* share of good events; share of the budget left. NAN: no events */
    double events;          /* so far */
    double rate[MON_BURNS]; /* burn rates of the long windows; NAN */
    struct mon_burn burn[MON_BURNS];
    size_t burn_count;
    const char *absent; /* why nothing is counted; NULL: it is */
    const char *why;    /* windows that are left out, "" none */
};
struct mon_state {
    int64_t steps, last_step;       /* complete in all ranks; -1 */
    double step_s, idle_s, bound_s; /* median; since the last progress, and how much is allowed */
    double tokens_per_s, loss, grad_norm, mfu; /* NAN: not known */
    double checkpoint_age_s;                   /* NAN: no checkpoint yet */
    double straggler_share;                    /* slowest rank over the median rank, less 1; NAN */
    bool stalled;
    size_t ranks;
    struct mon_objective_state objective[MON_OBJECTIVES_MOST];
    size_t objective_count;
};
void mon_state(const struct mon_monitor *monitor, int64_t now, struct mon_state *state);
struct mon_alerts *mon_alerts(struct mon_monitor *monitor);

#endif
