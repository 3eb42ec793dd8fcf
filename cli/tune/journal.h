/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: the trials of `tacho tune` in a folder, a line of JSON each, written and synced
 * before the next trial begins: a search that was killed goes on where it was.
 */
#ifndef CLI_TUNE_JOURNAL_H
#define CLI_TUNE_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CLI_TRIALS_MOST  4096
#define CLI_ADVISED_MOST 6

/* One run of one configuration. */
struct cli_trial {
    size_t configuration;
    double value;   /* NAN: it failed */
    double seconds; /* that it took */
    double memory;  /* bytes at its peak; NAN: not known */
    bool ended;    /* early, for it was slower than the best; the value is of the steps till then */
    bool known;    /* ended because its mean was known well enough */
    bool confirms; /* one of the rounds at the end */
    bool pairs;    /* one of the last of them: of the winner and of what is set now */
    char objective[16];               /* whose value it is */
    char reason[160];                 /* why it failed */
    size_t advised[CLI_ADVISED_MOST]; /* of the first trial: what its report advises to try */
    size_t advised_count;
};

struct cli_journal {
    FILE *file;
    struct cli_trial *trial;
    size_t count;
};

/* Opens the folder, which is made if it is missing, and reads the trials of an earlier call;
 * `search` is what both must have in common (command, objective, seed). 0, or an exit code after a
 * message: it holds another search, or another program searches in it. */
int cli_journal_open(struct cli_journal *journal, const char *folder, const char *search);
/* Appends a trial. 0, or an exit code after a message. */
int cli_journal_add(struct cli_journal *journal, const struct cli_trial *trial);
void cli_journal_close(struct cli_journal *journal);

#endif
