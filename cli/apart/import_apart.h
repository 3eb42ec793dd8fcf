/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: an import in a process of its own, which has no rights but to read the traces
 * and to write one file.
 */
#ifndef CLI_BASE_IMPORT_APART_H
#define CLI_BASE_IMPORT_APART_H

#include <stdbool.h>

#include "store/import/import.h"
#include "tacho_error.h"

/* store_import() by a confined child (confine.h): what a hostile trace might make of a defect of a
 * parser stays in that process. The child writes below a hidden folder beside `options->out`, from
 * which the finished file is moved. `options->progress` is called here, ten times a second.
 * *filtered: the child had the system calls of reading and writing alone; false where this system
 * refuses the filter (a sandbox without seccomp, another processor).
 * Errors: those of store_import(); TACHO_EINTERNAL where the child was ended by a signal. Nothing
 * half-written is left; what earlier imports left that were killed is removed. */
int cli_import_apart(const struct store_import_options *options, struct store_import_result *result,
                     bool *filtered, struct tacho_error *err);

/* Of the error that a child leaves, which a hostile trace may have taken over: the code is one that
 * exists and not 0, and the texts end. */
void cli_import_check_error(int *code, struct tacho_error *error);

/* Removes a folder that an import that was killed has left, and the files that an import makes in
 * it. What is not the caller's alone, or has other names, stays. */
void cli_import_remove_left(int at, const char *name);

#endif
