/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of the table `run`, and finding the agent library. docs/schema.md explains the keys.
 */
#ifndef COL_DESCRIBE_H
#define COL_DESCRIBE_H

#include "profiler/collector/collector.h"
#include "store/store.h"
#include "tacho_error.h"

/* Version, command line, environment, host, CPU, kernel, clocks, options of the run. 0 or a store
 * error. */
int col_describe(store *db, const struct col_options *options);

/* Absolute path of libtacho.so: `given`, $TACHO_LIBRARY, beside this program, ../lib of it.
 * TACHO_ENOTFOUND with a hint. */
int col_find_library(const char *given, char path[COL_PATH_MAX], struct tacho_error *err);

#endif
