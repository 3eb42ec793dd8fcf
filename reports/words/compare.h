/* SPDX-License-Identifier: Apache-2.0
 *
 * Comparisons that the reports and the dashboard share.
 */
#ifndef REPORTS_COMPARE_H
#define REPORTS_COMPARE_H

/* Below 0, 0 or above 0 as `first` is less than, equal to or greater than `second`: for qsort. */
#define REP_COMPARE(first, second) (((first) > (second)) - ((first) < (second)))

/* `value` moved into low..high; low where low is above high. */
static inline int rep_clamp(int value, int low, int high)
{
    value = value > high ? high : value;
    return value < low ? low : value;
}

/* The same; low for NAN. */
static inline double rep_clamp_real(double value, double low, double high)
{
    value = value > high ? high : value;
    return value > low ? value : low;
}

#endif
