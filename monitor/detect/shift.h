/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room monitor/: finds where the level of a series moves while it grows, one
 * value at a time, in constant memory.
 *
 * Each value is compared with a robust centre and spread (mean of the middle half, median absolute
 * deviation) of a trailing window that ends some values ago; the centre may be one that follows
 * the values instead, which estimates a wander with less noise. The spread is smoothed, and
 * outlives a change of the level. While the window has few values the limit is higher, and so it is
 * for a move in the good direction, after which the window begins anew for nothing.
 *
 * The deviations beyond an allowance are summed over the newest values, however many of them give
 * the greatest sum, up to a longest run (a CUSUM, Page 1954, limited to a window, Lai 1998): its
 * first value is the first one of the new level; that of a far move is told by the sum that suits
 * its size, which leaves out values before it that were a little high. A sum of many small
 * deviations, as a slow wander gives, never gets far enough within that run. What a value adds is
 * clipped alike on both sides of the allowance, as the likelihood ratio of noise with long tails
 * is. A value that lies far off says nothing while it stands alone: single steps that take much
 * longer are no new level. A sum above the limit counts only if the median of its values shows a
 * least effect. After an alarm the window learns the new level, unless the values since then say
 * that the old one is still there.
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
#define MON_SHIFT_ALONE  3   /* values before and after one that stands alone */

struct mon_shift_rule {
    double allowance; /* in deviations: half of the smallest shift that is to be found */
    double limit;     /* of the sum, in deviations */
    double clip; /* a deviation adds at most so much to a sum beyond the allowance, or takes it */
    size_t longest; /* newest values that a sum is made of, at most */
    double far;     /* deviations; a value that is further off and stands alone adds nothing */
    double effect;  /* the median since the change is at least so far off the centre */
    double spread;  /* the least spread, in the unit of the values */
    size_t gap;     /* newest values that the window does not have yet */
    size_t warm_up; /* values before the first comparison */
    double memory;  /* looks at the window that the spread is smoothed over; 1: it is not */
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

struct mon_shift_value {
    double value; /* its logarithm where the rule compares these */
    double off;   /* deviation when it came, not clipped */
    int64_t at;
};

/* The level before an alarm, and what it was left for. */
struct mon_shift_left {
    double centre, spread, middle; /* centre NAN: there is none; middle: between both levels */
    size_t held, values;           /* values: of the new level at the alarm */
};

struct mon_shift {
    const struct mon_shift_rule *rule;
    double window[MON_SHIFT_WINDOW]; /* a ring, as `recent` */
    struct mon_shift_value recent[MON_SHIFT_RECENT];
    size_t held, next, recent_held, recent_next;
    double centre, spread;      /* NAN until the warm-up is over */
    double deviation;           /* of the newest value, not clipped; NAN: not compared */
    size_t compared;            /* newest values that were compared with this level */
    struct mon_shift_left left; /* until the window has enough values of the new level */
    bool bad_up;                /* the bad direction */
    size_t added, blocked;      /* values added; of them, how long the window has learned nothing */
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
/* How far the median of the newest values is off the centre, in deviations; NAN: not compared. */
double mon_shift_lasting(const struct mon_shift *shift, size_t count);
/* The centre in the unit of the series; NAN before the end of the warm-up. */
double mon_shift_centre(const struct mon_shift *shift);

#endif
