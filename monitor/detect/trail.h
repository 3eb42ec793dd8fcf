/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room monitor/: the whole of a series in a bounded number of points. A point
 * is the mean of `stride` neighbours; when there are too many, neighbours are merged and the
 * stride doubles. So the last half of the points is always about the last half of the series.
 */
#ifndef MONITOR_TRAIL_H
#define MONITOR_TRAIL_H

#include <stdbool.h>
#include <stddef.h>

#define MON_TRAIL_POINTS 64

struct mon_trail {
    double place[MON_TRAIL_POINTS], value[MON_TRAIL_POINTS];
    size_t count;                /* points that are complete */
    size_t stride, held;         /* values that a point holds; those of the next one so far */
    double place_sum, value_sum; /* of the next one */
};

/* stride: values of a point at first. */
void mon_trail_init(struct mon_trail *trail, size_t stride);
/* Adds a value, which is finite, at its place (time, step). True: a point is complete. */
bool mon_trail_add(struct mon_trail *trail, double place, double value);

#endif
