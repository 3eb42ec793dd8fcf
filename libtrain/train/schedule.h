/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: the learning rate of a step.
 */
#ifndef LT_SCHEDULE_H
#define LT_SCHEDULE_H

#include <stdint.h>

/* All but one-cycle and range begin with a linear warm-up over `warmup` steps (step 0 has 1/warmup
 * of the peak). After it, with x from 0 at its end to 1 at the last step:
 *
 *   cosine        half a cosine from peak to floor (Loshchilov and Hutter 2017)
 *   linear        a line from peak to floor
 *   constant      the peak
 *   inverse-sqrt  peak sqrt(warmup / (step + 1)), at least floor (Vaswani et al. 2017)
 *   wsd           the peak, then over the last fifth of the steps a line to floor (Hu et al. 2024)
 *   range         from floor to peak by one factor a step, without warm-up (range_test.h)
 *   one-cycle     peak / 25 up to peak in the first 30 % of the steps, then down to peak / 250000,
 *                 each half a cosine (Smith 2018, with PyTorch's figures); no floor */
#define LT_SCHEDULE_MAP(X) \
    X(COSINE, cosine, "cosine") \
    X(LINEAR, linear, "linear") \
    X(CONSTANT, constant, "constant") \
    X(INVERSE_SQRT, inverse_sqrt, "inverse-sqrt") \
    X(WSD, wsd, "wsd") \
    X(ONE_CYCLE, one_cycle, "one-cycle") \
    X(RANGE, range, "range")
#define LT_ENUM_SCHEDULE(id, function, name) LT_SCHEDULE_##id,
enum lt_schedule_kind { LT_SCHEDULE_MAP(LT_ENUM_SCHEDULE) LT_SCHEDULE_COUNT };
#undef LT_ENUM_SCHEDULE

struct lt_schedule {
    enum lt_schedule_kind kind;
    double peak, floor;
    int64_t warmup, steps;
};

/* The rate of step `step`, from 0; from the last step on, that of the last one. */
double lt_schedule_rate(const struct lt_schedule *schedule, int64_t step);

/* Kind called `name`, or -1. */
int lt_schedule_find(const char *name);

#endif
