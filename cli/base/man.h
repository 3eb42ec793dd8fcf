/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: manual pages and completions of shells, made from the tables of commands and
 * options. They contain nothing that the tables do not.
 */
#ifndef CLI_BASE_MAN_H
#define CLI_BASE_MAN_H

#include "cli/base/options.h"

/* Prints the manual page of a command in the language of scdoc(5); NULL: of tacho itself.
 * `commands` is the table of all. */
void cli_man_print(FILE *out, const struct cli_command *commands,
                   const struct cli_command *command);

/* Prints a script to be put where the shell ("bash", "zsh" or "fish") looks for completions. */
void cli_completion_print(FILE *out, const char *shell, const struct cli_command *commands);

#endif
