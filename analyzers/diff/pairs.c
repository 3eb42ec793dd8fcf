/* SPDX-License-Identifier: Apache-2.0
 *
 * The gain of a change from pairs of runs, and how it compares with what was predicted.
 */
#include "analyzers/diff/pairs.h"

#include <math.h>

#define OUTSIDE 0.025 /* of the distribution, at each end */

struct an_interval an_pairs_gain(const double *before, const double *after, size_t count)
{
    double sum = 0, squares = 0, half = NAN;
    for (size_t i = 0; i < count; i++)
        sum += log(before[i] / after[i]);
    double mean = sum / (double)count;
    for (size_t i = 0; i < count; i++)
        squares += pow(log(before[i] / after[i]) - mean, 2);
    if (count > 1) {
        double freedom = (double)count - 1;
        half = an_quantile_of_tail(an_student_tail, OUTSIDE, freedom) *
               sqrt(squares / freedom / (double)count);
    }
    return (struct an_interval){.estimate = 100 * expm1(mean),
                                .low = 100 * expm1(mean - half),
                                .high = 100 * expm1(mean + half)};
}

double an_pairs_run_ms(const struct an_result *result, double step)
{
    const struct an_steps *steps = &result->steps;
    double phases = 0;
    for (size_t i = 0; i < result->phase_count; i++)
        phases += result->phases[i].exposed_ms;
    if (!steps->mean_ms.valid || steps->mean_ms.value <= 0 || steps->count <= 0)
        return step;
    double ranks = result->run.ranks > 1 ? (double)result->run.ranks : 1;
    return step * (1 + phases * ranks / (steps->mean_ms.value * (double)steps->count));
}

const char *an_pairs_verdict(const struct an_gain *predicted, const struct an_interval *measured)
{
    if (!predicted->high.valid || isnan(measured->low))
        return "nothing was predicted for it";
    if (predicted->ceiling)
        return measured->low > predicted->high.value ? "above the ceiling: the bound does not hold"
                                                     : "within the ceiling";
    if (measured->low <= 0 && predicted->low.value > 0 &&
        measured->high >= predicted->expected.value)
        return "undecided: no gain and the predicted one are both inside; more --pairs";
    if (measured->estimate >= predicted->low.value && measured->estimate <= predicted->high.value)
        return "inside the predicted interval";
    if (measured->high >= predicted->low.value && measured->low <= predicted->high.value)
        return "outside the predicted interval, but the two intervals overlap";
    return "outside the predicted interval: the prediction does not hold";
}
