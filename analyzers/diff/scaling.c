/* SPDX-License-Identifier: Apache-2.0
 *
 * Scaling between two runs with different numbers of ranks (docs/diff.md). The resource that a
 * job pays for is the rank-second: x = ranks x step time / samples of the step is the cost of a
 * sample, and
 * efficiency = x(base) / x(cand), which equals (rate(cand) / rate(base)) / (ranks(cand) /
 * ranks(base)). x is a sum over the classes of the budget, so 1 - efficiency is the sum of the
 * additional costs of all classes.
 */
#include <math.h>

#include "analyzers/base/arena.h"
#include "analyzers/diff/diff_private.h"
#include "store/store.h"
#include "tacho_error.h"

/* Relative difference up to which global batches count as equal. */
#define SAME_BATCH 0.01

#define SEED_GOOD 0x7363616c65676f6fu
#define SEED_BAD  0x7363616c65626164u

/* The costs of a run as logarithms, so that differences of their medians are ratios. */
struct series {
    const struct an_result *result;
    double *cost; /* ln of ms of a rank for a sample, of each counted step */
    size_t steps;
    double batch;   /* median of the samples of a step over all ranks; NAN: not known */
    const char *of; /* "samples", "tokens" */
    int64_t ranks;
};

static int64_t ranks_of(const struct an_result *result)
{
    int64_t ranks = result->run.ranks;
    return ranks > 0 ? ranks : 1;
}

/* Samples of a step, else its tokens; NULL: some step says neither. */
static const int64_t *sizes(const struct an_samples *samples, const char **unit)
{
    const int64_t *both[] = {samples->samples, samples->tokens};
    static const char *const names[] = {"samples", "tokens"};
    for (int k = 0; k < 2; k++) {
        size_t i = 0;
        while (i < samples->steps && both[k][i] != STORE_ABSENT && both[k][i] > 0)
            i++;
        if (i == samples->steps && samples->steps) {
            *unit = names[k];
            return both[k];
        }
    }
    return NULL;
}

/* Reads the cost of a sample in each step of a run. */
static int take(struct an_diff *diff, const struct an_result *result, struct series *out)
{
    const struct an_samples *samples = result->samples;
    double *work = an_arena_zero(diff->arena, 3 * samples->steps + 1, sizeof *work);
    const int64_t *size = sizes(samples, &out->of);
    if (!work)
        return TACHO_ENOMEM;
    out->result = result;
    out->cost = work;
    out->ranks = ranks_of(result);
    out->batch = NAN;
    for (size_t i = 0; size && i < samples->steps; i++)
        if (samples->step_ms[i] > 0) {
            work[out->steps] = log((double)out->ranks * samples->step_ms[i] / (double)size[i]);
            work[samples->steps + out->steps++] = (double)size[i];
        }
    if (out->steps)
        out->batch = an_diff_median(work + samples->steps, out->steps, work + 2 * samples->steps);
    return 0;
}

/* A file that lacks ranks of the communicator cannot tell what the whole job did. */
static const char *missing(const struct an_result *result)
{
    return result->communication.reason ? NULL : result->communication.missing;
}

/* Why the two runs cannot be compared for scaling, NULL: they can. */
static const char *why_none(struct an_diff *diff, const struct series *good,
                            const struct series *bad)
{
    struct an_arena *arena = diff->arena;
    const char *gone = missing(good->result) ? missing(good->result) : missing(bad->result);
    if (gone)
        return an_arena_format(arena, "the %s lacks ranks: %s",
                               missing(good->result) ? "baseline" : "candidate", gone);
    if (good->ranks == bad->ranks)
        return an_arena_format(
            arena,
            "both runs have %lld rank%s: scaling compares runs of different numbers of ranks",
            (long long)good->ranks, good->ranks == 1 ? "" : "s");
    if (!good->result->samples->steps || !bad->result->samples->steps)
        return "one of the runs has no counted steps";
    if (!good->steps || !bad->steps || good->of != bad->of)
        return "the steps of one of the runs do not declare their samples or tokens";
    return NULL;
}

static void absent(struct an_scaling *scaling, const char *reason)
{
    scaling->reason = reason;
    scaling->speed_up = scaling->efficiency = scaling->low = scaling->high = an_num_none(reason);
    scaling->good_rate = scaling->bad_rate = scaling->good_batch = scaling->bad_batch =
        an_num_none(reason);
}

/* Efficiency and its 95 % interval: the difference of the medians of logarithms. */
static int interval(struct an_diff *diff, const struct series *good, const struct series *bad,
                    struct an_scaling *scaling)
{
    struct an_diff_draws *good_drawn = an_diff_draws_new(good->steps, SEED_GOOD),
                         *bad_drawn = an_diff_draws_new(bad->steps, SEED_BAD);
    struct an_diff_test diff_test;
    int rc = good_drawn && bad_drawn ? an_diff_test(good->cost, good->steps, good_drawn, bad->cost,
                                                    bad->steps, bad_drawn, &diff_test)
                                     : TACHO_ENOMEM;
    an_diff_draws_free(good_drawn);
    an_diff_draws_free(bad_drawn);
    if (rc)
        return rc;
    scaling->efficiency = an_num(exp(diff_test.good - diff_test.bad));
    scaling->speed_up =
        an_num(scaling->efficiency.value * (double)bad->ranks / (double)good->ranks);
    scaling->good_rate = an_num((double)good->ranks / exp(diff_test.good) * 1e3);
    scaling->bad_rate = an_num((double)bad->ranks / exp(diff_test.bad) * 1e3);
    scaling->low = an_num(exp(-diff_test.high));
    scaling->high = an_num(exp(-diff_test.low));
    if (good->steps < AN_DIFF_STEPS_LEAST || bad->steps < AN_DIFF_STEPS_LEAST)
        scaling->low = scaling->high = an_num_none(an_arena_format(
            diff->arena, "%zu and %zu counted steps: not enough for an interval (%d each)",
            good->steps, bad->steps, AN_DIFF_STEPS_LEAST));
    return 0;
}

/* Cost of a sample in a class (-1: of all) in ms of a rank: mean over the steps of the budget. NAN:
 * not known. */
static double class_cost(const struct series *series, int class)
{
    const struct an_budget *budget = &series->result->budget;
    if (budget->reason || !budget->steps || isnan(series->batch))
        return NAN;
    double ns = class < 0 ? (double)budget->step_ns : an_count_or_0(budget->ns[class]);
    return ns / (double)budget->steps / 1e6 * (double)series->ranks / series->batch;
}

/* What each class costs more in the candidate, in % of the cost of a sample there. */
static void losses(const struct series *good, const struct series *bad, struct an_scaling *scaling)
{
    double whole = class_cost(bad, -1);
    const char *none = "no counted step of one of the runs has all its ranges in the file";
    for (int k = 0; k < AN_CLASS_COUNT; k++) {
        const struct an_budget *good_budget = &good->result->budget,
                               *bad_budget = &bad->result->budget;
        double lost = (class_cost(bad, k) - class_cost(good, k)) / whole;
        if (!isfinite(lost))
            scaling->lost_pct[k] = an_num_none(none);
        else if (!good_budget->ns[k].valid && !bad_budget->ns[k].valid)
            scaling->lost_pct[k] = an_num_none(bad_budget->ns[k].reason);
        else
            scaling->lost_pct[k] = an_num(100 * lost);
    }
}

/* "strong": the same global batch; "weak": the same of each rank; else "mixed". */
static const char *kind_of(const struct series *good, const struct series *bad)
{
    double per_rank = (bad->batch / (double)bad->ranks) / (good->batch / (double)good->ranks);
    if (fabs(bad->batch / good->batch - 1) <= SAME_BATCH)
        return "strong";
    return fabs(per_rank - 1) <= SAME_BATCH ? "weak" : "mixed";
}

int an_diff_scaling(struct an_diff *diff, const struct an_result *good, const struct an_result *bad)
{
    struct an_scaling *scaling = &diff->scaling;
    struct series good_series = {0}, bad_series = {0};
    int rc = take(diff, good, &good_series);
    rc = rc ? rc : take(diff, bad, &bad_series);
    if (rc)
        return rc;
    scaling->good_ranks = good_series.ranks;
    scaling->bad_ranks = bad_series.ranks;
    const char *none = why_none(diff, &good_series, &bad_series);
    for (int k = 0; none && k < AN_CLASS_COUNT; k++)
        scaling->lost_pct[k] = an_num_none(none);
    if (none) {
        absent(scaling, none);
        return 0;
    }
    scaling->of = good_series.of;
    scaling->good_batch = an_num(good_series.batch);
    scaling->bad_batch = an_num(bad_series.batch);
    scaling->kind = kind_of(&good_series, &bad_series);
    losses(&good_series, &bad_series, scaling);
    return interval(diff, &good_series, &bad_series, scaling);
}
