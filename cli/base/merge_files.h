/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: finds recordings, and merges several into one file. A folder as an argument
 * means the .tacho files in it.
 */
#ifndef CLI_BASE_MERGE_FILES_H
#define CLI_BASE_MERGE_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "profiler/collector/collector.h"
#include "store/merge/merge.h"

/* Finds the recording that a RUN argument names; one whose recorder was killed is finished, which
 * is said on stderr. 0 or an exit code, after a message. */
int cli_recording_find(const char *arg, struct col_found *found);
/* Has the path the name of a run that was not finished? */
bool cli_is_live_folder(const char *path);
/* The number of runs in a folder that is no unfinished run itself. 0: none, or no folder. */
size_t cli_merge_runs(const char *path);
/* The path of the only one. 0 or -1. */
int cli_merge_only(const char *path, char *run, size_t size);
/* 32 hexadecimal digits + '\0' that change when one of the folder's runs is replaced or changed. */
int cli_merge_key(const char *path, char key[33]);
/* Merges into `out`. 0 or an exit code, after a message. */
int cli_merge_files(const char *const *in, size_t in_count, const char *out, bool force,
                    struct store_merge_result *merge_result);

#endif
