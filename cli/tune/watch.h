/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: the steps of a trial while it runs, so that one can be ended which is slower
 * than the best, or whose mean is known well enough.
 */
#ifndef CLI_TUNE_WATCH_H
#define CLI_TUNE_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store.h"

#define CLI_WATCH_STEPS 4096 /* that are looked at, at most */

struct cli_watch {
    const char *file; /* where the recording will be */
    char unit;        /* a step is divided by: 's' its samples, 't' its tokens, 0 nothing */
    double leader;    /* ms, of the best trial; NAN: it is not to be ended for being slower */
    double precision; /* share of its mean to which that is to be known; 0: it runs to its end */
    double error;     /* how likely a trial may be ended that is not worse */
    store_reader *reader;
    int64_t next_id, process;
    struct store_step last;            /* its time ends where the next one begins */
    double ms[CLI_WATCH_STEPS], units; /* of the steps; their sum of samples, tokens or steps */
    size_t count;
    bool known; /* it was ended because its mean was known, not because it was worse */
    bool apart; /* several processes have steps: their sum is not known from one of them */
};

/* For cli_rerun_watch: reads the steps that are new, and says whether they are enough. `ctx` is a
 * struct cli_watch. */
bool cli_watch_is_enough(void *ctx);
/* The mean of the steps that were seen after the warm-up, in ms; NAN: none. */
double cli_watch_mean(const struct cli_watch *watch);
void cli_watch_clear(struct cli_watch *watch);

#endif
