/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: the search begins with what the report of the first run advises.
 */
#ifndef CLI_TUNE_ADVICE_H
#define CLI_TUNE_ADVICE_H

#include "analyzers/result/result.h"
#include "cli/tune/journal.h"
#include "cli/tune/template.h"

/* Finds the configurations that the findings of a run of these words come to, each finding alone
 * and all of them together, into trial->advised[]; what no configuration is, is left out. */
void cli_tune_advice(const struct cli_template *command, char *const *words,
                     const struct an_result *result, struct cli_trial *trial);

#endif
