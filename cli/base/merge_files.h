/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: RUN arguments to one merged file: runs that were not finished are finished
 * first, a folder stands for the .tacho files in it.
 */
#ifndef CLI_BASE_MERGE_FILES_H
#define CLI_BASE_MERGE_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "store/merge/merge.h"

/* A folder that is no unfinished run itself: how many runs lie in it? 0: none, or no folder. */
size_t cli_merge_runs(const char *path);
/* The path of the only one. 0 or -1. */
int cli_merge_only(const char *path, char *run, size_t size);
/* 32 hexadecimal digits + '\0' that are others when one of the folder's runs is another one, or was
 * changed. */
int cli_merge_key(const char *path, char key[33]);
/* Merges into `out`. 0 or an exit code, after a message. */
int cli_merge_files(const char *const *in, size_t in_count, const char *out, bool force,
                    struct store_merge_result *merge_result);

#endif
