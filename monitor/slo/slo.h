/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of monitor/slo/: service level objectives of a training run, and what follows from
 * one by arithmetic alone: its error budget and the windows in which a burn rate is looked at.
 * monitor/config/ reads a file of objectives, monitor/sli/ counts good and bad events.
 *
 * An objective says: of the events of one indicator (SLI), the share `target` is good over
 * `period_s`. The error budget is the share 1 - target that may be bad. The burn rate of a window
 * is its share of bad events divided by 1 - target: at 1, the budget is used up when the period
 * ends.
 */
#ifndef MONITOR_SLO_H
#define MONITOR_SLO_H

#include <stdbool.h>
#include <stddef.h>

#include "tacho_error.h"

/* Indicators: X(ID, name, unit of an event, unit of the threshold, default target, default
 * threshold, threshold is relative to the run's own median, help). An event is a step (good or
 * bad) or a second of wall time (good or bad in part). Time without progress is bad in each of
 * them. */
#define MON_SLI_MAP(X) \
    X(STEP_TIME, "step_time", "steps", "seconds", 0.95, 1.25, true, \
      "share of steps that took at most the threshold") \
    X(GOODPUT, "goodput", "seconds", "", 0.90, 0, false, \
      "share of wall time in steps that are not repeated") \
    X(HEALTH, "health", "steps", "", 0.99, 0, false, \
      "share of steps with a finite loss and gradient norm that are not repeated") \
    X(CHECKPOINT_AGE, "checkpoint_age", "seconds", "seconds", 0.95, 3600, false, \
      "share of wall time in which the newest checkpoint is at most as old as the threshold") \
    X(DATA_WAIT, "data_wait", "steps", "ratio", 0.95, 0.10, false, \
      "share of steps that waited for data for at most this part of their time") \
    X(MFU, "mfu", "steps", "ratio", 0.95, 0.80, true, \
      "share of steps whose model FLOPs utilisation is at least the threshold") \
    X(LOSS_HEALTH, "loss_health", "steps", "deviations", 0.99, 8, false, \
      "share of steps where the median of the last five losses is at most this many robust " \
      "deviations above its trend") \
    X(STRAGGLERS, "stragglers", "steps", "ratio", 0.95, 1.10, false, \
      "share of steps in which the slowest rank took at most this many times the median of ranks")

enum mon_sli {
#define MON_SLI_ID(id, name, event, unit, target, threshold, relative, help) MON_SLI_##id,
    MON_SLI_MAP(MON_SLI_ID)
#undef MON_SLI_ID
        MON_SLI_COUNT
};

/* A row of the table above. */
struct mon_sli_kind {
    const char *name, *event_unit, *threshold_unit; /* threshold_unit "": it has no threshold */
    double target, threshold;
    bool relative;
    const char *help;
};
const struct mon_sli_kind *mon_sli_kind(enum mon_sli sli);
/* Are its events seconds, rather than steps or values? */
bool mon_sli_counts_seconds(enum mon_sli sli);

#define MON_NAME 64 /* bytes of a name, with its end */

/* One objective. Copies are independent of each other: it owns nothing. */
struct mon_objective {
    char name[MON_NAME]; /* [a-z0-9_]+, unique in a file; by default the name of the SLI */
    enum mon_sli sli;
    double target;    /* share of good events, 0 < target < 1 */
    double threshold; /* in the unit of the SLI, or a factor of the run's median if `relative` */
    bool relative;
    double period_s; /* of the budget; 0: the length of the run, as far as it is known */
};

#define MON_OBJECTIVES_MOST 32

/* The objectives that apply to a run, in the order of the file. */
struct mon_slo {
    struct mon_objective objective[MON_OBJECTIVES_MOST];
    size_t count;
};

/* An objective as the table says, with the name of its SLI; period: the run. */
void mon_objective_init(struct mon_objective *objective, enum mon_sli sli);
/* One objective for each SLI. */
void mon_slo_defaults(struct mon_slo *slo);

#define MON_PERIOD_DAYS_30 (30.0 * 86400) /* where neither the file nor the run names a period */

/* A pair of windows. Both have to burn faster than `factor`: the long one says that it matters,
 * the short one, a twelfth of it, that it still goes on. */
struct mon_burn {
    double long_s, short_s;
    double budget;   /* share of the period's budget that `factor` uses up in the long window */
    double factor;   /* budget * period / long window */
    bool page;       /* else a ticket */
    bool lengthened; /* the period's own windows would hold less than MON_BURN_STEPS steps */
};
#define MON_BURNS      4
#define MON_BURN_STEPS 20

/* The pairs of an objective: long windows of period/720, /120, /30 and /10, short ones of a
 * twelfth, budgets of 2, 5, 10 and 10 %, hence factors of 14.4, 6, 3 and 1 (Google's SRE workbook,
 * chapter 5, has them for 30 days). Where steps of `step_s` seconds are known (0: not), a window of
 * less than MON_BURN_STEPS of them is lengthened to that, and the factor is computed anew from the
 * long one. Left out, with a sentence each in `why` (of `size` bytes, "" if all pairs are there): a
 * pair whose factor no share of bad events reaches (1 / (1 - target) or more), one whose windows
 * are as long as the period, so that its factor is below 1, and one that has the windows of another
 * pair with a lower factor. *count is how many are there. TACHO_EUSAGE with a message in `err` if
 * none is. `objective->period_s` is not 0. */
int mon_burns(const struct mon_objective *objective, double step_s, struct mon_burn burn[MON_BURNS],
              size_t *count, char *why, size_t size, struct tacho_error *err);

#endif
