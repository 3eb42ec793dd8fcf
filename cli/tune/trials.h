/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: runs the configurations of a command and keeps what they gave.
 */
#ifndef CLI_TUNE_TRIALS_H
#define CLI_TUNE_TRIALS_H

#include <limits.h>

#include "cli/tune/journal.h"
#include "cli/tune/template.h"
#include "tuner/search.h"

/* The end of a search (cli/tune/finals.h), which every budget keeps in mind. */
#define CLI_TUNE_FINALISTS 11 /* with the one that is set now */
#define CLI_TUNE_TURNS     3  /* runs of each, to choose the winner */
#define CLI_TUNE_ROUNDS    32 /* pairs of the winner and what is set now, at most */

struct cli_tune {
    const char *objective; /* a row of the table in trials.c; NULL: the first that a run has */
    int64_t trials, rounds;
    double minutes;       /* 0: no limit */
    double money, price;  /* 0: no limit; what an hour of the machine costs */
    int64_t memory_limit; /* bytes; 0: the limit of the control group, if a run names one */
    double margin_pct;    /* of that limit, which stays free */
    bool whole;           /* no trial is ended because it is slower than the best */
    double coarse_pct;    /* a trial is ended once its mean is known so well; 0: it is not */
    char folder[PATH_MAX];
    struct cli_template command;
    struct cli_journal journal;
    struct tuner_search *search;
    int stopped; /* the signal that came */
};

/* Searches until a limit is reached, or the user stops it. 0, or an exit code after a message. */
int cli_tune_search(struct cli_tune *tune);
/* Runs a configuration, says what it gave after `place`, and keeps it unless the user stopped it;
 * of `trial`, the configuration, `confirms` and `pairs` are given. 0, or an exit code after a
 * message. */
int cli_tune_trial(struct cli_tune *tune, const char *place, struct cli_trial *trial);
/* Would so many more runs cost more than the budget? */
bool cli_tune_is_spent(const struct cli_tune *tune, size_t runs);
/* "workers=4 threads=2", in `text`. */
void cli_tune_settings(const struct tuner_space *space, size_t configuration, char text[400]);
/* "ms a sample", "ms a token", "ms a step" ... */
const char *cli_tune_unit(const struct cli_tune *tune);

#endif
