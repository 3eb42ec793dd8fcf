/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: foreign traces as runs. Reading commands open what an import of them gave, which
 * is kept in $XDG_CACHE_HOME/tacho/imports/KEY.tacho, KEY = store_import_key. docs/import.md has
 * what a user should know of it.
 */
#ifndef CLI_BASE_IMPORT_CACHE_H
#define CLI_BASE_IMPORT_CACHE_H

#include <stdbool.h>
#include <stddef.h>

#include "store/import/import.h"

/* Bytes that all kept imports may take together; TACHO_IMPORT_CACHE (500M, 2G; 0: keep nothing)
 * sets another. */
#define CLI_IMPORT_CACHE_BYTES (4ll << 30)

/* Pipes and devices cannot be read more than once, which finding out what a trace is needs. 0 or an
 * exit code after a message.
 */
int cli_import_check(const char *in);
/* Imports the files and folders `in` into the new file `out`; shows progress, stops at Ctrl-C
 * without leaving anything. `marker` names the steps (store_import_options), NULL: nothing does. 0
 * or an exit code after a message; *code (may be NULL) is the TACHO_E* code. With `quiet`, codes
 * that say that `out` cannot be written (ENOSPACE, EDENIED, EIO) bring no message. */
int cli_import_files(const char *const *in, size_t in_count, const char *out, const char *marker,
                     bool quiet, struct store_import_result *import_result, int *code);

/* The run that an import of `in` gives: kept from an earlier command, or imported now. Where
 * nothing can be kept it is a temporary file that is removed when the program ends; one line on
 * stderr says so. Writes what to open into path[size]. 0 or an exit code after a message. */
int cli_import_cached(const char *in, char *path, size_t size);

#endif
