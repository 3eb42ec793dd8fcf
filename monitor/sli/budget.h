/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room monitor/: the good and bad events of one objective, how much of its
 * error budget they leave, and whether they burn it too fast. Constant memory: a window is a ring
 * of MON_RING_PARTS parts, so its edge is as coarse as a part.
 */
#ifndef MONITOR_BUDGET_H
#define MONITOR_BUDGET_H

#include "monitor/slo/slo.h"

#define MON_RING_PARTS   60
#define MON_EVENTS_LEAST 20 /* in the long window, before its burn rate says anything */

/* Events of the newest `part_s * MON_RING_PARTS` seconds. */
struct mon_ring {
    double part_s, head_s; /* end of the newest part */
    double bad[MON_RING_PARTS], all[MON_RING_PARTS];
    size_t newest;
};

struct mon_budget {
    struct mon_objective objective; /* its period_s is filled in */
    struct mon_burn burn[MON_BURNS];
    size_t burn_count;
    char why[512]; /* pairs of windows that cannot be looked at, "" none */
    struct mon_ring ring[MON_BURNS], period;
    bool burning[MON_BURNS];  /* hysteresis: until the short window burns slower again */
    double bad, all, first_s; /* of the whole run; when the first event was */
};

/* Starts to count. `step_s`: the median step (0: not known). 0 or TACHO_EUSAGE, as mon_burns. */
int mon_budget_init(struct mon_budget *budget, const struct mon_objective *objective, double step_s,
                    struct tacho_error *err);
/* Adds `all` events of which `bad` are bad, at a time that does not go back by more than a part. */
void mon_budget_add(struct mon_budget *budget, double time_s, double bad, double all);
/* Looks at the burn rates at a time. A window that is longer than what was counted so far counts
 * the rest of it as good: its rate says which share of the budget was used. A window that was
 * lengthened to hold enough steps also has more bad ones than chance gives a run that just meets
 * its objective. The index of the pair that has just begun to exceed its factor in both windows, or
 * -1; *over (may be NULL): one that has just ended, or -1. */
int mon_budget_check(struct mon_budget *budget, double time_s, int *over);

/* Share of good events in the run so far; NAN: there are none. */
double mon_budget_good(const struct mon_budget *budget);
/* Share of the period's budget that is left: 1 untouched, below 0 overspent. It is measured
 * against as many events as the period has at the present rate. NAN: no events. */
double mon_budget_left(const struct mon_budget *budget, double time_s);
/* Burn rate in the newest `window_s` of a ring; NAN: no events. */
double mon_burn_rate(const struct mon_budget *budget, const struct mon_ring *ring, double time_s,
                     double window_s);

#endif
