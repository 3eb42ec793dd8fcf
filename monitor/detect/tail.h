/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room monitor/: what single values of a series reach by themselves. Losses of
 * small batches have tails much longer than those of a normal distribution, and of each run its
 * own: a value is out of the ordinary only beside the largest ones that this series has had. They
 * are taken as the tail of an exponential distribution above the smallest of them (the simplest
 * case of peaks over a threshold, Pickands 1975), which costs no more memory as the series grows.
 */
#ifndef MONITOR_TAIL_H
#define MONITOR_TAIL_H

#include <stddef.h>

#define MON_TAIL_VALUES 16 /* that are kept; fewer say nothing of a tail */

struct mon_tail {
    double largest[MON_TAIL_VALUES]; /* the largest first */
    size_t held, values;             /* values: all that were added */
};

/* Starts with zeroes. */
void mon_tail_add(struct mon_tail *tail, double value);
/* The value that the share `rate` of the values is expected to exceed; NAN: there are too few. */
double mon_tail_limit(const struct mon_tail *tail, double rate);

#endif
