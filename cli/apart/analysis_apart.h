/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: the analysis of a whole run in a process of its own, whose memory the caller
 * does not need and whose end it does not wait for.
 */
#ifndef CLI_APART_ANALYSIS_APART_H
#define CLI_APART_ANALYSIS_APART_H

#include <sys/types.h>

#include "analyzers/analyzers.h"
#include "tacho_error.h"

/* Zeroed: there is none. All functions are called by one thread; the child ends when that thread
 * does. */
struct cli_analysis {
    pid_t child;          /* 0: none */
    struct an_room *room; /* for its result */
};

/* Begins to analyse the file at `path`, of about `slices` slices; one that is under way is ended.
 * The child has the lowest priority, and is the first to be killed where memory is short. No
 * connection to a database may be open in the calling thread. Errors: TACHO_ENOMEM where the
 * analysis would need more than half of the memory that is available, or there is no room for its
 * result; those of fork(). */
int cli_analysis_begin(struct cli_analysis *analysis, const char *path, int64_t slices,
                       const struct an_options *options, struct tacho_error *err);
/* 0: *out is its result (an_result_free), or NULL while it is under way. Else why there is none. */
int cli_analysis_take(struct cli_analysis *analysis, struct an_result **out,
                      struct tacho_error *err);
/* Ends one that is under way. */
void cli_analysis_end(struct cli_analysis *analysis);

#endif
