/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: edits of a dependency graph as a user types them (analyzers/replay/what_if.h).
 */
#ifndef CLI_BASE_EDITS_H
#define CLI_BASE_EDITS_H

#include "analyzers/result/result.h"

/* The user's edits, read before the run is; NULL: none. 0 or an exit code, after a message. */
int cli_edits_check(const char *text);
/* An edit that names nothing of the analyzed run is the user's mistake. 0 or an exit code, after a
 * message. */
int cli_edits_check_names(const struct an_result *result);

#endif
