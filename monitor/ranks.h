/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room monitor/: a run that is watched rank by rank, for whoever exports it.
 */
#ifndef MONITOR_RANKS_H
#define MONITOR_RANKS_H

#include "monitor/monitor.h"

/* A rank as it is now. `kept` holds its newest steps; it lives until the next observation. */
struct mon_rank_state {
    int64_t rank, last_step;
    double age_s; /* since its newest step was complete */
    const struct mon_kept_rank *kept;
};
/* The i-th rank by number. False: there are no more. */
bool mon_rank_at(const struct mon_monitor *monitor, size_t i, int64_t now,
                 struct mon_rank_state *state);

/* Medians of the newest MON_RANK_STEPS steps of a rank, s; work: without communication. NAN: not
 * known. */
#define MON_RANK_STEPS 32
void mon_rank_medians(const struct mon_rank_state *state, double *step_s, double *work_s);

/* The newest steps of a rank: at 0 the newest one. NULL: there are no more. */
const struct mon_kept_step *mon_kept_back(const struct mon_kept_rank *kept, size_t back);

/* A counter and its newest value. */
struct mon_counter_state {
    int64_t rank;       /* -1: of the machine */
    const char *device; /* "": none */
    double value;
};
/* The i-th counter of a name (docs/schema.md) that is kept as evidence, or whose growth is watched:
 * of the latter the value is a mean of some samples. False: there is none. */
bool mon_counter_at(const struct mon_monitor *monitor, const char *name, size_t i,
                    struct mon_counter_state *state);

#endif
