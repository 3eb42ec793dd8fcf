/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: the end of a search. The best of it are run again in turn with what is set now,
 * and those that are slower in every run than the best go. Then the winner and what is set now are
 * run in pairs: only these runs, which chose nothing, decide whether it is better.
 */
#ifndef CLI_TUNE_FINALS_H
#define CLI_TUNE_FINALS_H

#include "analyzers/diff/gate.h"
#include "cli/tune/trials.h"

/* Runs of one configuration. */
struct cli_runs {
    double value[CLI_TUNE_ROUNDS];
    size_t count;
    double median; /* NAN: none */
};

struct cli_finalist {
    size_t configuration;
    struct cli_runs turns, pairs;
    bool failed;  /* in one of them */
    bool dropped; /* slower in both of the first turns than the fastest in any */
};

/* What came of it. */
struct cli_tuned {
    struct cli_finalist finalist[CLI_TUNE_FINALISTS]; /* the first is the one that is set now */
    size_t count;
    size_t winner; /* the finalist with the smallest median that never failed; 0: that is set now */
    struct an_gate gate; /* of the pairs; AN_GATE_FAILED: what is set now is slower; p NAN: none */
};

/* 0, or an exit code after a message. */
int cli_tune_confirm(struct cli_tune *tune, struct cli_tuned *tuned);
/* Is the winner shown to be better, or does what is set now fail? */
bool cli_tune_is_better(const struct cli_tuned *tuned);
/* How much more a finalist does in the same time, in per cent; NAN: not known. */
double cli_tune_gain(const struct cli_tuned *tuned, size_t finalist);
#endif
