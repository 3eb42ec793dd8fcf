/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: the verbs of `tacho history`. Each takes the open history, what the options say
 * and the words after the verb, and returns an exit code, after a message where it is not 0.
 */
#ifndef CLI_HISTORY_VERBS_H
#define CLI_HISTORY_VERBS_H

#include "cli/view/view.h"
#include "history/history.h"

struct cli_history_options {
    const char *recipe, *host, *metric, *since, *output;
    const char *good, *bad, *build, *fail_above;
    double limit_pct; /* of fail_above; NAN: none */
    int64_t limit, runs;
    bool json, csv, mllog;
    struct cli_view view;
};

int cli_history_list(struct history *history, const struct cli_history_options *options, int count,
                     char **words);
int cli_history_show(struct history *history, const struct cli_history_options *options, int count,
                     char **words);
int cli_history_trend(struct history *history, const struct cli_history_options *options, int count,
                      char **words);
int cli_history_compare(struct history *history, const struct cli_history_options *options,
                        int count, char **words);
int cli_history_write(struct history *history, const struct cli_history_options *options, int count,
                      char **words);
int cli_history_read(struct history *history, const struct cli_history_options *options, int count,
                     char **words);

int cli_history_check(struct history *history, const struct cli_history_options *options, int count,
                      char **words);
int cli_history_bisect(struct history *history, const struct cli_history_options *options,
                       int count, char **words);

/* ---- what verbs share ---- */

/* The filter that the options ask for; `metric` ("KIND.NAME") is split into `kind`. 0, or an exit
 * code after a message. */
int cli_history_filter_of(const struct cli_history_options *options, char kind[32],
                          struct history_filter *filter);
/* The entry that a word names, whole. 0, or an exit code after a message. */
int cli_history_entry_named(struct history *history, const char *word,
                            struct history_entry **entry);
/* "2026-11-26 09:51", local time. */
void cli_history_time(int64_t ns, char out[32]);
/* A number with unit as people read it: "47.3 ms", "1.2 GiB", "31 %". */
void cli_history_number(double value, const char *unit, char out[40]);

#endif
