/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: windows, the runs of consecutive steps that the critical path and the
 * replay analyse as one interval of time.
 */
#ifndef ANALYZERS_WINDOWS_H
#define ANALYZERS_WINDOWS_H

#include "analyzers/steps/context.h"

/* A window that is looked at: consecutive counted, detailed steps of one lane, phases inside
 * included. The path and the replay of a window may lead over tracks and ranks, always inside
 * [start, end). */
struct an_window {
    uint32_t lane;
    size_t first, count; /* steps in an_context.step */
    int64_t start, end;  /* of the first, of the last */
};
/* The windows of a lane: the longest runs of consecutive counted and detailed steps that touch or
 * are no further apart than the phases between them. *out lies in the work arena. */
int an_windows_of(struct an_context *context, uint32_t number, struct an_window **out,
                  size_t *count);

#endif
