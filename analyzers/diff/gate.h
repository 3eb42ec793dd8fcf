/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room analyzers/: does a step that got slower break a limit? The unit is the
 * run: steps of one run share its machine, its neighbours and its luck, so that no number of them
 * says how much runs differ. Values are the medians of runs (an_diff_run_step), compared as
 * logarithms; a change is the ratio of the geometric means - 1.
 *
 * The limit is broken when the change is above it and the one-sided p of "not slower" is at most
 * AN_GATE_ALPHA. p is that of the exact permutation test of the means up to AN_GATE_EXACT runs, of
 * Student's t above; with an assumed standard deviation between runs that of the normal
 * distribution. The limit is kept when the upper end of the 95 % interval (one-sided) is not above
 * it and, up to AN_GATE_EXACT runs, the same permutation test rejects at AN_GATE_UPPER that the
 * candidate is slower by the limit or more: its runs, divided by 1 + limit, are compared with the
 * baseline's (a test of non-inferiority by a shifted hypothesis; Lehmann, Nonparametrics, 1975,
 * sections 1 and 2). That test assumes no distribution, and 3 runs a side can just pass it (p
 * 1/20): they do where each run of the candidate is below each of the baseline. Else the gate is
 * undecided. The smallest detectable change is the one that breaks the limit with a probability of
 * 90 %, from the noncentral t (Johnson & Kotz's approximation).
 */
#ifndef ANALYZERS_GATE_H
#define ANALYZERS_GATE_H

#include <stddef.h>

#include "analyzers/diff/diff.h"

#define AN_GATE_ALPHA     0.02 /* of equal runs fewer break the limit */
#define AN_GATE_UPPER     0.05 /* of runs that are slower by the limit fewer keep it */
#define AN_GATE_EXACT     22   /* runs of both sides */
#define AN_GATE_RUNS_MOST 64   /* runs a side that are thought of as possible */
#define AN_GATE_WORDS     120

enum an_gate_state { AN_GATE_NONE, AN_GATE_PASSED, AN_GATE_FAILED, AN_GATE_UNDECIDED };

struct an_gate_input {
    const double *good, *bad; /* ms of a step of each run, > 0 */
    size_t good_count, bad_count;
    double limit_pct;  /* NAN: no limit, the state is AN_GATE_NONE */
    double run_sd_pct; /* assumed between runs; NAN: only what the runs show */
    double within_pct; /* standard error of the change inside a pair of runs; NAN: not known */
};

struct an_gate {
    enum an_gate_state state;
    double limit_pct;
    size_t good_runs, bad_runs;
    double change_pct, high_pct; /* high: upper end of the one-sided 95 % interval; NAN: unknown */
    double p, least_p;           /* least: the smallest that so many runs can reach */
    double detectable_pct;       /* NAN: no change can be detected */
    /* Runs a side that decide with a probability of 90 % if the change and the spread are what they
     * seem; 0: more than AN_GATE_RUNS_MOST, or the spread is not known. */
    size_t runs_needed;
    const char *reason; /* why it is undecided, static storage; NULL */
};

struct an_gate an_gate_decide(const struct an_gate_input *input);

/* Of an undecided gate: what the change looks like, and how many runs would show whether it is so;
 * "" of any other. Returns `text`. */
const char *an_gate_outlook(const struct an_gate *gate, char text[AN_GATE_WORDS]);

/* Step of a run in ms, for as many tokens (otherwise samples) as a step of `base` has: the mean of
 * all, or the median; with several loader workers the median of the means over as many neighbouring
 * steps as batches arrive together, because these differ by design. NAN: the run has no counted
 * steps. Both need samples (an_options.samples). */
double an_diff_run_step(const struct an_result *base, const struct an_result *run, bool mean);

/* The standard error of diff->step.delta in per cent of the baseline's step; NAN: not tested. */
double an_diff_within_pct(const struct an_diff *diff);

#endif
