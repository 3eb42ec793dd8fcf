/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: runs of another machine, over the user's own ssh.
 */
#ifndef CLI_BASE_REMOTE_H
#define CLI_BASE_REMOTE_H

#include <stdbool.h>

/* Is it the name of a run of another machine: ssh://[USER@]HOST[:PORT]/PATH? */
bool cli_is_remote(const char *run);
/* Runs `tacho COMMAND OPTION... PATH` on that machine in place of this program, with the terminal
 * if there is one. `argv` is that of the command; the word `run` of it becomes PATH. TACHO_REMOTE
 * names the program there (tacho). Returns only with an exit code, after a message. */
int cli_remote_run(const char *run, int argc, char **argv);

#endif
