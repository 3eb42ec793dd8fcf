/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room analyzers/: the gain of a change, measured in pairs of runs, one
 * without it and one with it. The unit is the pair: what slows the machine for minutes slows both
 * runs of a pair.
 */
#ifndef ANALYZERS_PAIRS_H
#define ANALYZERS_PAIRS_H

#include <stddef.h>

#include "analyzers/base/stats.h"
#include "analyzers/result/result.h"

#define AN_PAIRS_MOST 100

/* Times before and after the change, > 0, in any unit, of at most AN_PAIRS_MOST pairs. The gain in
 * % is 100 (exp(mean of ln(before / after)) - 1), its interval the 95 % interval of Student's t of
 * that mean. Ends are NAN for fewer than two pairs. */
struct an_interval an_pairs_gain(const double *before, const double *after, size_t count);

/* Milliseconds of a run for a step and its share of the phases between steps (evaluation,
 * checkpoints), for a step of `step` ms. */
double an_pairs_run_ms(const struct an_result *result, double step);

/* What a measured gain says about a predicted one. It held: the measured gain is inside the
 * predicted interval (of a ceiling: not above it). It did not hold: the two intervals do not touch.
 * Open: the pairs do not decide, or nothing was predicted. */
enum an_pairs_outcome { AN_PAIRS_OPEN, AN_PAIRS_HELD, AN_PAIRS_FAILED };
struct an_pairs_judgement {
    enum an_pairs_outcome outcome;
    const char *reason; /* as a clause; static storage */
};
struct an_pairs_judgement an_pairs_judge(const struct an_gain *predicted,
                                         const struct an_interval *measured);
/* "held", "did not hold", "cannot tell". */
const char *an_pairs_outcome_name(enum an_pairs_outcome outcome);

#endif
