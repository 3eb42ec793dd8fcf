/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: the learning rate of a step. Linear warm-up over `warmup` steps (step 0 has
 * 1/warmup of the peak), then half a cosine from `peak` to `floor` at the last step (Loshchilov and
 * Hutter 2017).
 */
#ifndef LT_SCHEDULE_H
#define LT_SCHEDULE_H

#include <math.h>
#include <stdint.h>

struct lt_schedule {
    double peak, floor;
    int64_t warmup, steps;
};

static inline double lt_schedule_rate(const struct lt_schedule *schedule, int64_t step)
{
    if (step < schedule->warmup)
        return schedule->peak * (double)(step + 1) / (double)schedule->warmup;
    int64_t last = schedule->steps - 1;
    if (step >= last || last <= schedule->warmup)
        return step > schedule->warmup ? schedule->floor : schedule->peak;
    double progress = (double)(step - schedule->warmup) / (double)(last - schedule->warmup);
    return schedule->floor + (schedule->peak - schedule->floor) * 0.5 *
                                 (1.0 + cos(3.14159265358979323846 * progress));
}

#endif
