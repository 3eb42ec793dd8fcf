/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/detect/tail.h"

#include <math.h>

#include "analyzers/base/stats.h"

#define SMALLEST (MON_TAIL_VALUES - 1)

void mon_tail_add(struct mon_tail *tail, double value)
{
    tail->values++;
    if (tail->held == MON_TAIL_VALUES && value <= tail->largest[SMALLEST])
        return;
    size_t at = tail->held < MON_TAIL_VALUES ? tail->held++ : SMALLEST;
    for (; at > 0 && tail->largest[at - 1] < value; at--)
        tail->largest[at] = tail->largest[at - 1];
    tail->largest[at] = value;
}

double mon_tail_limit(const struct mon_tail *tail, double rate)
{
    if (tail->held < MON_TAIL_VALUES)
        return NAN;
    double smallest = tail->largest[SMALLEST];
    double excess = an_mean(tail->largest, SMALLEST) - smallest;
    return smallest + excess * log(MON_TAIL_VALUES / (rate * (double)tail->values));
}
