/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: what Python did on one of the threads that run steps.
 */
#ifndef ANALYZERS_PYTHON_H
#define ANALYZERS_PYTHON_H

#include "analyzers/steps/context.h"

/* The line of the program itself that the thread of a lane executed most often in host and
 * unattributed time, while it did not wait for a core: *line, with texts in the result's arena, and
 * *pct, its share of the looks at that thread in steps. Without a device only. 1: there is one, 0:
 * too few looks; or TACHO_ENOMEM. */
int an_python_line_of_lane(struct an_context *context, size_t lane, struct an_python_line *line,
                           double *pct);

/* Of the plain looks at lines `from` to `to` of the function that `first` is in, those at which it
 * ran and a backward pass was the next thing that the thread did: it may compute a loss. 0 without
 * memory. */
int64_t an_python_before_backward(struct an_context *context, const struct an_python_line *first,
                                  int64_t from, int64_t to);

#endif
