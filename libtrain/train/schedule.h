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

static inline double lt_schedule_rate(const struct lt_schedule *s, int64_t step)
{
    if (step < s->warmup)
        return s->peak * (double)(step + 1) / (double)s->warmup;
    int64_t last = s->steps - 1;
    if (step >= last || last <= s->warmup)
        return step > s->warmup ? s->floor : s->peak;
    double progress = (double)(step - s->warmup) / (double)(last - s->warmup);
    return s->floor + (s->peak - s->floor) * 0.5 * (1.0 + cos(3.14159265358979323846 * progress));
}

#endif
