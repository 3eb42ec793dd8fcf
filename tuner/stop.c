/* SPDX-License-Identifier: Apache-2.0
 *
 * When a trial is ended early.
 */
#include "tuner/stop.h"

#include <math.h>

#include "analyzers/base/stats.h"

#define LEAST   12 /* steps after the warm-up */
#define SETTLED 30 /* of which a mean is believed: few steps may look alike by chance */
#define SHARP   40 /* steps at which the interval is narrowest beside one for that count alone */

size_t tuner_stop_warm_up(const double *cost, size_t count)
{
    double sum = 0, squares = 0, best = INFINITY;
    size_t cut = 0;
    for (size_t i = count; i > 0; i--) { /* from the end: the tail that begins at i - 1 */
        double left = (double)(count - i + 1);
        sum += cost[i - 1];
        squares += cost[i - 1] * cost[i - 1];
        double error = (squares - sum * sum / left) / (left * left);
        if (i - 1 <= count / 2 && error < best) {
            best = error;
            cut = i - 1;
        }
    }
    return cut;
}

void tuner_stop_bound(const double *cost, size_t count, double error, double *mean, double *low)
{
    size_t cut = tuner_stop_warm_up(cost, count);
    double left = (double)(count - cut), odds = -2 * log(error);
    double mixed = (odds + log(1 + odds)) / SHARP * left; /* n rho^2 of the paper */
    *mean = an_mean(cost + cut, count - cut);
    *low = -INFINITY;
    if (left < LEAST)
        return;
    double radius = sqrt(2 * (mixed + 1) / (mixed * left) * log(sqrt(mixed + 1) / error));
    *low = *mean - radius * an_sd(cost + cut, count - cut);
}

bool tuner_stop_is_worse(const double *cost, size_t count, double leader, double error)
{
    double mean, low;
    tuner_stop_bound(cost, count, error, &mean, &low);
    return low > leader * (1 + TUNER_STOP_MARGIN);
}

bool tuner_stop_is_known(const double *cost, size_t count, double precision, double error)
{
    double mean, low;
    tuner_stop_bound(cost, count, error / 2, &mean, &low); /* half of it on each side */
    size_t left = count - tuner_stop_warm_up(cost, count);
    return left >= SETTLED && mean - low <= precision * mean;
}
