/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: where the program train of the reference engine is.
 */
#ifndef CLI_BASE_TRAIN_PROGRAM_H
#define CLI_BASE_TRAIN_PROGRAM_H

#include <limits.h>

/* Writes its path. 0, or -1 if it is neither beside tacho (build folder) nor in ../libexec
 * (installed). */
int cli_train_find(char path[PATH_MAX]);
/* The same. 0, or an exit code after a message. */
int cli_train_need(char path[PATH_MAX]);

#endif
