/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: an import in a process of its own, which has no rights but to read the traces
 * and to write one file.
 */
#ifndef CLI_BASE_IMPORT_APART_H
#define CLI_BASE_IMPORT_APART_H

#include "store/import/import.h"
#include "tacho_error.h"

/* store_import() by a confined child (confine.h): what a hostile trace might make of a defect of a
 * parser stays in that process. The child writes below a hidden folder beside `options->out`, from
 * which the finished file is moved. `options->progress` is called here, ten times a second.
 * Errors: those of store_import(); TACHO_EINTERNAL where the child was ended by a signal. Nothing
 * half-written is left; what earlier imports left that were killed is removed. */
int cli_import_apart(const struct store_import_options *options, struct store_import_result *result,
                     struct tacho_error *err);

/* Removes a folder of the caller and the files in it, as an import that was killed leaves it. */
void cli_import_remove_left(int at, const char *name);

#endif
