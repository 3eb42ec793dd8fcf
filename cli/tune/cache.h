/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: the trials of a search as a space that was measured, in the T4 format of Kernel
 * Tuner (tuner/replay.h), so that any search can be replayed on it.
 */
#ifndef CLI_TUNE_CACHE_H
#define CLI_TUNE_CACHE_H

#include "cli/tune/trials.h"

/* May such a file be written? Asked before the first trial. 0, or an exit code after a message. */
int cli_tune_check_cache(const char *path);

/* Writes a file: a configuration that ran to its end once or more has the median of these runs, one
 * that always failed is invalid; one that was ended early is left out. 0, or an exit code after a
 * message. */
int cli_tune_write_cache(const struct cli_tune *tune, const char *path);

#endif
