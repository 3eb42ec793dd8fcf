/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room analyzers/: where a series of values (one of each run, in the order of
 * time) changes its level. A dashboard, a monitor and a history of runs ask the same question.
 *
 * The method is E-divisive (Matteson & James 2014): a segment is split where the energy distance of
 * the values before and after, times n m / (n + m), is largest, and the split is a change if a
 * permutation test of that maximum says so; then both parts are split in the same way. The test is
 * exact for any distribution as long as unchanged values may be exchanged: of unchanged series, the
 * share AN_CHANGE_ALPHA shows a change, whatever their tails. Values that drift or hang together
 * show more of them.
 */
#ifndef ANALYZERS_CHANGE_POINTS_H
#define ANALYZERS_CHANGE_POINTS_H

#include <stddef.h>

#define AN_CHANGE_ALPHA 0.01 /* of unchanged series, as many show a change */
#define AN_CHANGE_LEAST 3    /* values on each side of a change */
#define AN_CHANGE_MOST  400  /* values; time grows with their square */

struct an_change_point {
    size_t at;        /* the first value after the change */
    size_t low, high; /* `at` lies in low..high with a probability of 90 %, if levels are steady */
    double before, after; /* medians of the segments on both sides */
    double p;             /* of the permutation test */
};

/* The changes of a series without NaN, in its order; to be freed by the caller. The same values
 * give the same changes. Of more than AN_CHANGE_MOST values the last ones are looked at. Returns 0
 * or TACHO_ENOMEM. */
int an_change_points(const double *values, size_t count, struct an_change_point **points,
                     size_t *point_count);

#endif
