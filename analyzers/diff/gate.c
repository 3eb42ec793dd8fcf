/* SPDX-License-Identifier: Apache-2.0
 *
 * The gate of --fail-above: exact permutation test of a few runs, Student's t of many, and the
 * smallest change that so many runs can show. The formulas are in gate.h.
 */
#include "analyzers/diff/gate.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>

#include "analyzers/base/stats.h"
#include "analyzers/diff/diff_private.h"

#define POWER_Z   1.2816 /* quantile of the normal distribution at a power of 90 % */
#define SAME_MEAN 1e-12  /* sums of equal values in another order */

/* What is known of how much runs differ: the standard deviation of their logarithms, by so many
 * degrees of freedom (INFINITY: it is assumed). */
struct spread {
    double sd, freedom;
};

static double mean_log(const double *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += log(values[i]);
    return sum / (double)count;
}

/* Sum of the squared distances of the logarithms from their mean. */
static double squares_of(const double *values, size_t count)
{
    double sum = 0, mean = mean_log(values, count);
    for (size_t i = 0; i < count; i++)
        sum += (log(values[i]) - mean) * (log(values[i]) - mean);
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

/* Exact permutation test of the means, one-sided: the share of all ways to choose the candidate's
 * runs that make `sign` times the change, less that of `shift`, at least as large as it is. The
 * runs are at most AN_GATE_EXACT. */
static double exact_p(const struct an_gate_input *input, double shift, double sign)
{
    double value[AN_GATE_EXACT], seen = 0, as_large = 0;
    size_t good = input->good_count, bad = input->bad_count;
    uint32_t first = (1u << bad) - 1, observed = first << good;
    for (size_t i = 0; i < good; i++)
        value[i] = sign * log(input->good[i]);
    for (size_t i = 0; i < bad; i++) {
        value[good + i] = sign * (log(input->bad[i]) - shift);
        seen += value[good + i];
    }
    for (uint32_t subset = first; subset <= observed; subset = next_subset(subset)) {
        double sum = 0;
        for (size_t i = 0; i < good + bad; i++)
            if (subset >> i & 1)
                sum += value[i];
        as_large += sum >= seen - SAME_MEAN;
    }
    return as_large / choose(good + bad, bad);
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

/* Standard error of the change between so many runs. */
static double error_of(const struct spread *spread, double good_count, double bad_count)
{
    return spread->sd * sqrt(1 / good_count + 1 / bad_count);
}

/* The change that is significant at that level with a probability of 90 %, as a logarithm. */
static double shown_above(double error, double freedom, double level)
{
    double critical = an_quantile_of_tail(tail_of, level, freedom), wide = 1;
    if (!isinf(freedom)) {
        wide = sqrt(1 + critical * critical / (2 * freedom));
        critical *= 1 - 1 / (4 * freedom);
    }
    return error * (critical + POWER_Z * wide);
}

/* The smallest change that breaks a limit (a logarithm) with that probability. */
static double breaks_above(double error, double freedom, double limit)
{
    return fmax(shown_above(error, freedom, AN_GATE_ALPHA), limit + POWER_Z * error);
}

/* Would so many runs a side decide, if the change is what it seems? Few runs cannot, by the
 * permutation test, whatever they are. */
static bool would_decide(const struct spread *spread, double change, double limit, size_t runs)
{
    double error = error_of(spread, (double)runs, (double)runs), freedom = INFINITY;
    double rarest = 0, level = change > limit ? AN_GATE_ALPHA : AN_GATE_UPPER;
    if (!isinf(spread->freedom)) {
        freedom = 2 * (double)runs - 2;
        rarest = 1 / choose(2 * runs, runs);
    }
    if (freedom <= 0 || rarest > level)
        return false;
    if (change > limit)
        return change >= breaks_above(error, freedom, limit);
    return limit - change >= shown_above(error, freedom, AN_GATE_UPPER);
}

/* Fills what the standard error of the change (as a logarithm) says. */
static void measure(struct an_gate *gate, double change, const struct spread *spread)
{
    double error = error_of(spread, (double)gate->good_runs, (double)gate->bad_runs),
           freedom = spread->freedom, limit = log1p(gate->limit_pct / 100);
    gate->high_pct =
        percent_of(change + an_quantile_of_tail(tail_of, AN_GATE_UPPER, freedom) * error);
    gate->p = error > 0 ? tail_of(change / error, freedom) : (double)(change <= 0);
    gate->detectable_pct = percent_of(breaks_above(error, freedom, limit));
    for (size_t runs = 1; runs <= AN_GATE_RUNS_MOST && !gate->runs_needed; runs++)
        if (would_decide(spread, change, limit, runs))
            gate->runs_needed = runs;
}

/* With an assumed standard deviation between runs one run a side is enough, if its steps say how
 * far its own median can be trusted. Returns whether the limit is kept. */
static bool by_assumption(struct an_gate *gate, const struct an_gate_input *input, double change)
{
    gate->least_p = 0;
    if (isnan(input->within_pct)) {
        gate->reason = "too few counted steps to say how far the medians of the runs can be "
                       "trusted (5 a run)";
        return false;
    }
    /* within_pct is the error of a difference, so that of two runs. */
    struct spread spread = {hypot(input->run_sd_pct, input->within_pct / sqrt(2)) / 100, INFINITY};
    measure(gate, change, &spread);
    return gate->high_pct <= gate->limit_pct;
}

/* Why the runs are too few for the permutation test; NULL: they are not. */
static const char *too_few(const struct an_gate *gate)
{
    if (gate->least_p > AN_GATE_UPPER)
        return "so few runs show nothing: 3 against 3 are the fewest that can show that it is not "
               "slower, 4 against 4 that it is";
    if (gate->least_p > AN_GATE_ALPHA && gate->change_pct > gate->limit_pct)
        return "so few runs cannot show that it is slower: 4 against 4 are the fewest";
    return NULL;
}

/* What the runs themselves show. Returns whether the limit is kept. */
static bool by_runs(struct an_gate *gate, const struct an_gate_input *input, double change)
{
    size_t count = input->good_count + input->bad_count;
    struct spread spread = {.freedom = (double)count - 2};
    if (spread.freedom <= 0) {
        gate->reason = "one run a side does not say how much runs differ: give several a side "
                       "(tacho diff A1 A2 ... -- B1 B2 ...), or --assume-run-sd";
        return false;
    }
    spread.sd = sqrt(
        (squares_of(input->good, input->good_count) + squares_of(input->bad, input->bad_count)) /
        spread.freedom);
    measure(gate, change, &spread);
    gate->least_p = 0;
    if (count > AN_GATE_EXACT)
        return gate->high_pct <= gate->limit_pct;
    gate->least_p = 1 / choose(count, input->bad_count);
    gate->p = exact_p(input, 0, 1);
    if (gate->least_p > AN_GATE_ALPHA)
        gate->detectable_pct = NAN;
    gate->reason = too_few(gate);
    return gate->high_pct <= gate->limit_pct &&
           exact_p(input, log1p(gate->limit_pct / 100), -1) <= AN_GATE_UPPER;
}

static bool are_positive(const double *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!(values[i] > 0))
            return false;
    return count > 0;
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
    if (isnan(input->limit_pct))
        return gate;
    gate.state = AN_GATE_UNDECIDED;
    if (!are_positive(input->good, input->good_count) ||
        !are_positive(input->bad, input->bad_count)) {
        gate.reason = "a run has no counted steps";
        return gate;
    }
    double change =
        mean_log(input->bad, input->bad_count) - mean_log(input->good, input->good_count);
    gate.change_pct = percent_of(change);
    bool is_kept = isnan(input->run_sd_pct) ? by_runs(&gate, input, change)
                                            : by_assumption(&gate, input, change);
    if (gate.change_pct > gate.limit_pct && gate.p <= AN_GATE_ALPHA)
        gate.state = AN_GATE_FAILED;
    else if (is_kept)
        gate.state = AN_GATE_PASSED;
    if (gate.state != AN_GATE_UNDECIDED)
        gate.reason = NULL;
    else if (!gate.reason)
        gate.reason = "the runs differ too much for this limit: record more of them";
    return gate;
}

const char *an_gate_outlook(const struct an_gate *gate, char text[AN_GATE_WORDS])
{
    text[0] = 0;
    if (gate->state != AN_GATE_UNDECIDED || isnan(gate->change_pct))
        return text;
    int used;
    if (gate->change_pct <= 0)
        used = snprintf(text, AN_GATE_WORDS, "it looks faster, by %.2g %% of the time",
                        -gate->change_pct);
    else if (gate->change_pct <= gate->limit_pct)
        used = snprintf(text, AN_GATE_WORDS, "it looks slower by %.2g %%, which the limit allows",
                        gate->change_pct);
    else
        used = snprintf(text, AN_GATE_WORDS, "it looks slower than the limit allows");
    if (gate->runs_needed)
        snprintf(text + used, AN_GATE_WORDS - (size_t)used, ": about %zu runs a side would show it",
                 gate->runs_needed);
    else if (!isnan(gate->high_pct))
        snprintf(text + used, AN_GATE_WORDS - (size_t)used,
                 ", but not even %d runs a side would show it", AN_GATE_RUNS_MOST);
    return text;
}
