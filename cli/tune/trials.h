/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: runs the configurations of a command and keeps what they gave.
 */
#ifndef CLI_TUNE_TRIALS_H
#define CLI_TUNE_TRIALS_H

#include <limits.h>

#include "analyzers/diff/gate.h"
#include "cli/tune/journal.h"
#include "cli/tune/template.h"
#include "tuner/search.h"

#define CLI_TUNE_FINALISTS 6  /* with the one that is set now */
#define CLI_TUNE_ROUNDS    32 /* at most */

struct cli_tune {
    const char *objective; /* "samples", "tokens", "step"; NULL: the first that a run has */
    int64_t trials, rounds;
    double minutes; /* 0: no limit */
    char folder[PATH_MAX];
    struct cli_template command;
    struct cli_journal journal;
    struct tuner_search *search;
    int stopped; /* the signal that came */
};

/* A configuration that was measured again, in turn with the others. */
struct cli_finalist {
    size_t configuration;
    double value[CLI_TUNE_ROUNDS]; /* of each round */
    size_t rounds;
    bool failed; /* in one of them */
    double median;
};

/* What came of it. */
struct cli_tuned {
    struct cli_finalist finalist[CLI_TUNE_FINALISTS]; /* the first is the one that is set now */
    size_t count;
    size_t winner; /* the finalist with the smallest median that never failed; 0: that is set now */
    struct an_gate gate; /* AN_GATE_FAILED: what is set now is slower than the winner */
};

/* Searches until a limit is reached, or the user stops it. 0, or an exit code after a message. */
int cli_tune_search(struct cli_tune *tune);
/* Measures the best again beside what is set now. 0, or an exit code after a message. */
int cli_tune_confirm(struct cli_tune *tune, struct cli_tuned *tuned);
/* "workers=4 threads=2", in `text`. */
void cli_tune_settings(const struct tuner_space *space, size_t configuration, char text[400]);
/* "ms a sample", "ms a token", "ms a step". */
const char *cli_tune_unit(const struct cli_tune *tune);

#endif
