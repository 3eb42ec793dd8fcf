/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room monitor/: finds where the level of a series moves while it grows, one
 * value at a time, in constant memory.
 *
 * Each value is compared with a robust centre and spread (mean of the middle half, median absolute
 * deviation) of a trailing window that ends some values ago; the centre may be one that follows
 * the values instead, which estimates a wander with less noise. The spread is smoothed, and
 * outlives a change of the level. While the window has few values the limit is higher, and so it is
 * for a move in the good direction, after which the window begins anew for nothing. Its deviation,
 * clipped so that one outlier says no more than any other, is summed beyond an allowance (CUSUM,
 * Page 1954). The sum's last zero says since when the level is another one. A sum above the limit
 * counts only if the mean of the clipped deviations and the median since then show a least effect:
 * the sums of a slow wander come from many small deviations, those of changes that matter do not.
 * While a sum is high, the window learns nothing. After an alarm it learns the new level.
 *
 * A value that is known to be special (a step with a checkpoint or an evaluation in it) is not
 * added: the mask of seasons is the caller's.
 */
#ifndef MONITOR_SHIFT_H
#define MONITOR_SHIFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MON_SHIFT_WINDOW 128 /* values that the centre is made of, at most */
#define MON_SHIFT_RECENT 64  /* newest values that are kept apart */

struct mon_shift_rule {
    double allowance;         /* in deviations: half of the smallest shift that is to be found */
    double limit;             /* of the sum, in deviations */
    double clip;              /* a deviation counts at most so many */
    double effect;            /* the median since the change is at least so far off the centre, */
    double effect_deviations; /* and the mean of the clipped deviations at least this */
    double spread;            /* the least spread, in the unit of the values */
    size_t gap;               /* newest values that the window does not have yet */
    size_t warm_up;           /* values before the first comparison */
    double memory; /* looks at the window that the spread is smoothed over; 1: it is not */
    double follow; /* share of its deviation by which a value moves the centre, once there are many;
                      0: the centre is that of the window */
    double young;  /* the limit is higher by this share over the number of values in the window */
    double good;   /* and by this factor for moves in the good direction */
    bool logarithm; /* values are compared by their logarithms, so that `effect` and `spread` are
                       shares; values that are not above 0 are skipped */
};

/* Rules that docs/monitor.md has the false alarms and delays of. */
extern const struct mon_shift_rule mon_shift_time; /* durations, rates: noise in proportion */
extern const struct mon_shift_rule mon_shift_loss; /* loss, gradient norm: more noise, a trend */
extern const struct mon_shift_rule mon_shift_slow; /* clocks, temperature: hardly any noise */

struct mon_shift_sum {
    double sum;
    int64_t since; /* when it left 0 */
    size_t values; /* since then */
    double total;  /* of their deviations, clipped */
};

struct mon_shift {
    const struct mon_shift_rule *rule;
    double window[MON_SHIFT_WINDOW], recent[MON_SHIFT_RECENT]; /* rings */
    size_t held, next, recent_held, recent_next;
    double centre, spread; /* NAN until the warm-up is over */
    double deviation;      /* of the newest value, not clipped; NAN: not compared */
    struct mon_shift_sum up, down;
    bool bad_up;           /* the bad direction */
    size_t added, blocked; /* values added; of them, how long the window has learned nothing */
};

/* A level that moved. In the unit of the series. */
struct mon_shift_found {
    bool up;
    int64_t since; /* `at` of the first value of the new level */
    size_t values; /* of it, so far */
    double before, after, spread;
};

/* bad_up: upwards is the bad direction. */
void mon_shift_init(struct mon_shift *shift, const struct mon_shift_rule *rule, bool bad_up);
/* Adds a value with its place in the series (a step's index, or a time), which grows. True: the
 * level moved, as *found says; the detector then learns the new level. Values that are not finite
 * are skipped. */
bool mon_shift_add(struct mon_shift *shift, double value, int64_t at,
                   struct mon_shift_found *found);
/* Median of the newest values, at most `count` of them; NAN: there are none. */
double mon_shift_recent(const struct mon_shift *shift, size_t count);
/* The centre in the unit of the series; NAN before the end of the warm-up. */
double mon_shift_centre(const struct mon_shift *shift);

#endif
