/* SPDX-License-Identifier: Apache-2.0
 *
 * The gain of a change from pairs of runs, and how it compares with what was predicted.
 */
#include "analyzers/diff/pairs.h"

#include <math.h>

#define OUTSIDE 0.025 /* of the distribution, at each end */

struct an_interval an_pairs_gain(const double *before, const double *after, size_t count)
{
    double ratios[AN_PAIRS_MOST] = {0}, half = NAN;
    if (!count)
        return (struct an_interval){NAN, NAN, NAN};
    for (size_t i = 0; i < count; i++)
        ratios[i] = log(before[i] / after[i]);
    double mean = an_mean(ratios, count);
    if (count > 1)
        half = an_quantile_of_tail(an_student_tail, OUTSIDE, (double)count - 1) *
               an_sd(ratios, count) / sqrt((double)count);
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

struct an_pairs_judgement an_pairs_judge(const struct an_gain *predicted,
                                         const struct an_interval *measured)
{
    enum an_pairs_outcome open = AN_PAIRS_OPEN, held = AN_PAIRS_HELD, failed = AN_PAIRS_FAILED;
    if (isnan(measured->estimate))
        return (struct an_pairs_judgement){open, "no pair was run"};
    if (!predicted->high.valid)
        return (struct an_pairs_judgement){open, "nothing was predicted for it"};
    if (isnan(measured->low))
        return (struct an_pairs_judgement){open, "two pairs are needed for an interval"};
    if (measured->low > predicted->high.value)
        return (struct an_pairs_judgement){
            failed, predicted->ceiling ? "above the ceiling" : "above the predicted interval"};
    if (predicted->ceiling)
        return (struct an_pairs_judgement){held, "within the ceiling"};
    if (measured->high < predicted->low.value)
        return (struct an_pairs_judgement){failed, "below the predicted interval"};
    if (measured->low <= 0 && predicted->low.value > 0)
        return (struct an_pairs_judgement){
            open,
            "no gain and a predicted one are both inside the measured interval; more --pairs"};
    if (measured->estimate >= predicted->low.value && measured->estimate <= predicted->high.value)
        return (struct an_pairs_judgement){held, "inside the predicted interval"};
    return (struct an_pairs_judgement){
        open, "outside the predicted interval, but the two intervals overlap; more --pairs"};
}

const char *an_pairs_outcome_name(enum an_pairs_outcome outcome)
{
    static const char *const names[] = {"cannot tell", "held", "did not hold"};
    return names[outcome];
}
