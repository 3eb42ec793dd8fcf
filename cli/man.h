/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: what the tables of commands and options become beside --help: manual pages and
 * completions of shells. Both hold nothing that the tables do not say.
 */
#ifndef CLI_MAN_H
#define CLI_MAN_H

#include "cli/command.h"

/* The manual page of a command in the language of scdoc(5); NULL: of tacho itself. */
void cli_man_print(FILE *out, const struct cli_command *command);

/* "bash", "zsh", "fish": a script to be put where the shell looks for completions. False: no such
 * shell. */
bool cli_completion_print(FILE *out, const char *shell);

#endif
