/* SPDX-License-Identifier: Apache-2.0
 *
 * Series of training runs drawn by seed, for tests of detectors and for the table of
 * docs/monitor.md (tests/bench/detectors.c).
 *
 * Step times: noise with the tails of Student's t with 6 degrees of freedom, scaled to a standard
 * deviation; a slow wander, an autoregression with a time constant of 500 steps; and hiccups, 2 %
 * of the steps, that take 10 to 100 % longer. That is the hard case that the log files of large
 * runs show: residuals of 2.4 %, hiccups, drifts.
 */
#ifndef TESTS_MON_SERIES_H
#define TESTS_MON_SERIES_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "analyzers/base/stats.h"

struct series {
    uint64_t state;
    double sd, wander_sd, hiccups; /* shares */
    double wander;
};

static inline double series_uniform(uint64_t *state)
{
    return ((double)(an_random(state) >> 11) + 0.5) / 9007199254740992.0;
}

static inline double series_normal(uint64_t *state)
{
    double radius = sqrt(-2 * log(series_uniform(state)));
    return radius * cos(2 * M_PI * series_uniform(state));
}

/* Student's t with 6 degrees of freedom, of standard deviation 1. */
static inline double series_heavy(uint64_t *state)
{
    double squares = 0, normal = series_normal(state);
    for (int i = 0; i < 6; i++) {
        double other = series_normal(state);
        squares += other * other;
    }
    return normal / sqrt(squares / 6) / sqrt(6.0 / 4.0);
}

static inline struct series series_begin(uint64_t seed, double sd)
{
    struct series series = {.state = seed * 7919 + 17, .sd = sd, .hiccups = 0.02};
    series.wander_sd = 0.3 * sd; /* both together have the standard deviation sd */
    series.sd = sqrt(1 - 0.3 * 0.3) * sd;
    series.wander = series.wander_sd * series_normal(&series.state);
    return series;
}

/* The next step's time where 1 is usual; `level` is what it is multiplied by. */
static inline double series_step(struct series *series, double level)
{
    double keep = exp(-1.0 / 500);
    series->wander = keep * series->wander +
                     sqrt(1 - keep * keep) * series->wander_sd * series_normal(&series->state);
    double value = level * (1 + series->wander + series->sd * series_heavy(&series->state));
    if (series_uniform(&series->state) < series->hiccups)
        value *= 1.1 + 0.9 * series_uniform(&series->state);
    return fmax(value, 0.2 * level);
}

/* A loss that falls by a power law to a floor, as a share of the first one, with noise in
 * proportion. */
static inline double series_loss(struct series *series, int64_t step)
{
    double mean = 1.7 + 9.0 * pow((double)step + 20, -0.4);
    return mean * (1 + series->sd * series_heavy(&series->state));
}

/* The same of small batches: one of a thousand is of other text, with a loss 30 to 80 % higher. */
static inline double series_batch_loss(struct series *series, int64_t step)
{
    double loss = series_loss(series, step);
    bool other = series_uniform(&series->state) < 0.001;
    return other ? loss * (1.3 + 0.5 * series_uniform(&series->state)) : loss;
}

/* The mean of a Poisson distribution that is above `events` at a confidence of 95 %. */
static inline double series_poisson_upper(int64_t events)
{
    double low = 0, high = 2 * (double)events + 20;
    for (int round = 0; round < 60; round++) {
        double mean = (low + high) / 2, sum = 0;
        for (int64_t i = 0; i <= events; i++)
            sum += exp((double)i * log(mean) - mean - lgamma((double)i + 1));
        if (sum > 0.05)
            low = mean;
        else
            high = mean;
    }
    return high;
}

#endif
