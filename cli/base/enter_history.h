/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: runs enter the user's history.
 */
#ifndef CLI_BASE_ENTER_HISTORY_H
#define CLI_BASE_ENTER_HISTORY_H

#include <stdbool.h>

#include "analyzers/result/result.h"
#include "history/history.h"

#define CLI_HISTORY_WORDS 160

/* Does the user keep a history (TACHO_HISTORY)? */
bool cli_history_is_kept(void);
/* Enters an analyzed run; a failure is only said, because the run's file is complete without. */
void cli_history_enter(const struct an_result *result, const char *commit);
/* The mean time between failures of runs like that of `result`, if at least three of them failed:
 * hours, and words for it. 0: not known. */
double cli_history_mtbf(const struct an_result *result, char words[CLI_HISTORY_WORDS]);
/* Opens the user's history. 0, or an exit code after a message. */
int cli_history_open(bool write, struct history **out);

#endif
