/* SPDX-License-Identifier: Apache-2.0
 *
 * The gate of --fail-above: exact permutation test of a few runs, Student's t of many, and the
 * smallest change that so many runs can show. The formulas are in gate.h.
 */
#include "analyzers/diff/gate.h"

#include <math.h>
#include <stdint.h>

#include "analyzers/base/stats.h"
#include "analyzers/diff/diff_private.h"

#define POWER_Z   1.2816 /* quantile of the normal distribution at a power of 90 % */
#define UPPER     0.05   /* beyond the upper end of the interval */
#define SAME_MEAN 1e-12  /* sums of equal values in another order */

/* Values of all runs as logarithms, those of the candidate last. */
struct runs {
    double log[64];
    size_t good, bad;
};

static double mean_of(const double *values, size_t count)
{
    return count ? an_mean(values, count) : NAN;
}

static double squares_of(const double *values, size_t count)
{
    double sum = 0, mean = mean_of(values, count);
    for (size_t i = 0; i < count; i++)
        sum += (values[i] - mean) * (values[i] - mean);
    return sum;
}

static double choose(size_t count, size_t some)
{
    double ways = 1;
    for (size_t i = 0; i < some; i++)
        ways = ways * (double)(count - i) / (double)(i + 1);
    return ways;
}

/* The next number with as many bits (Gosper). */
static uint32_t next_subset(uint32_t subset)
{
    uint32_t lowest = subset & -subset, ripple = subset + lowest;
    return (((ripple ^ subset) >> 2) / lowest) | ripple;
}

/* Share of all ways to choose the candidate's runs that make it look at least as slow. */
static double exact_p(const struct runs *runs)
{
    size_t count = runs->good + runs->bad;
    uint32_t first = (1u << runs->bad) - 1, observed = first << runs->good;
    double seen = (double)runs->bad * mean_of(runs->log + runs->good, runs->bad), as_slow = 0;
    for (uint32_t subset = first; subset <= observed; subset = next_subset(subset)) {
        double sum = 0;
        for (size_t i = 0; i < count; i++)
            sum += subset >> i & 1 ? runs->log[i] : 0;
        as_slow += sum >= seen - SAME_MEAN;
    }
    return as_slow / choose(count, runs->bad);
}

/* One-sided: P(T >= t) of Student's t, INFINITY: of the normal distribution. */
static double tail_of(double t, double freedom)
{
    if (isinf(freedom))
        return erfc(t / sqrt(2)) / 2;
    double both = an_diff_t_p(t, freedom);
    return t < 0 ? 1 - both / 2 : both / 2;
}

static double percent_of(double log_ratio)
{
    return 100 * expm1(log_ratio);
}

/* Fills what needs the standard error of the change, as a logarithm. */
static void measure(struct an_gate *gate, double change, double error, double freedom)
{
    double critical = an_quantile_of_tail(tail_of, AN_GATE_ALPHA, freedom);
    double spread = isinf(freedom) ? 1 : sqrt(1 + critical * critical / (2 * freedom));
    double shifted = isinf(freedom) ? critical : critical * (1 - 1 / (4 * freedom));
    double significant = error * (shifted + POWER_Z * spread),
           above = log1p(gate->limit_pct / 100) + POWER_Z * error;
    gate->high_pct = percent_of(change + an_quantile_of_tail(tail_of, UPPER, freedom) * error);
    gate->p = error > 0 ? tail_of(change / error, freedom) : (double)(change <= 0);
    gate->detectable_pct = percent_of(fmax(significant, above));
}

/* With an assumed standard deviation between runs one run a side is enough, if its steps say how
 * far its own median can be trusted. */
static void by_assumption(struct an_gate *gate, const struct an_gate_input *input, double change)
{
    double least =
        (double)(input->good_count < input->bad_count ? input->good_count : input->bad_count);
    double between = input->run_sd_pct / 100 *
                     sqrt(1 / (double)input->good_count + 1 / (double)input->bad_count);
    gate->least_p = 0;
    if (isnan(input->within_pct))
        gate->reason = "too few counted steps to say how far the medians of the runs can be "
                       "trusted (5 a run)";
    else
        measure(gate, change, hypot(between, input->within_pct / 100 / sqrt(least)), INFINITY);
}

/* What the runs themselves show. */
static void by_runs(struct an_gate *gate, const struct runs *runs, double change)
{
    double freedom = (double)(runs->good + runs->bad) - 2;
    bool exact = runs->good + runs->bad <= AN_GATE_EXACT;
    if (freedom <= 0) {
        gate->reason = "one run a side does not say how much runs differ: give several a side "
                       "(tacho diff A1 A2 ... -- B1 B2 ...), or --assume-run-sd";
        return;
    }
    double squares =
        squares_of(runs->log, runs->good) + squares_of(runs->log + runs->good, runs->bad);
    measure(gate, change,
            sqrt(squares / freedom * (1 / (double)runs->good + 1 / (double)runs->bad)), freedom);
    gate->least_p = exact ? 1 / choose(runs->good + runs->bad, runs->bad) : 0;
    if (exact)
        gate->p = exact_p(runs);
    if (gate->least_p > AN_GATE_ALPHA) {
        gate->detectable_pct = NAN;
        gate->reason = "so few runs cannot show any change: 4 against 4 are the fewest";
    }
}

struct an_gate an_gate_decide(const struct an_gate_input *input)
{
    struct an_gate gate = {.limit_pct = input->limit_pct,
                           .good_runs = input->good_count,
                           .bad_runs = input->bad_count,
                           .change_pct = NAN,
                           .high_pct = NAN,
                           .p = NAN,
                           .least_p = NAN,
                           .detectable_pct = NAN};
    struct runs runs = {.good = input->good_count, .bad = input->bad_count};
    if (isnan(input->limit_pct))
        return gate;
    gate.state = AN_GATE_UNDECIDED;
    gate.reason = "a run has no counted steps";
    for (size_t i = 0; i < runs.good + runs.bad && i < 64; i++) {
        double value = i < runs.good ? input->good[i] : input->bad[i - runs.good];
        if (!(value > 0))
            return gate;
        runs.log[i] = log(value);
    }
    gate.reason = NULL;
    double change = mean_of(runs.log + runs.good, runs.bad) - mean_of(runs.log, runs.good);
    gate.change_pct = percent_of(change);
    if (isnan(input->run_sd_pct))
        by_runs(&gate, &runs, change);
    else
        by_assumption(&gate, input, change);
    if (gate.change_pct > gate.limit_pct && gate.p <= AN_GATE_ALPHA)
        gate.state = AN_GATE_FAILED;
    else if (gate.high_pct <= gate.limit_pct && !gate.reason)
        gate.state = AN_GATE_PASSED;
    else if (!gate.reason)
        gate.reason = "the runs differ too much for this limit: record more of them";
    return gate;
}
