/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a new analysis of a live run replaces the one that the dashboard shows. One with the same
 * headline does. Another headline has to outlast noise: a sum grows by how far the new first
 * finding leads the one that is shown, in standard deviations, weighted by the part of the analysed
 * steps that no earlier analysis saw, and less an allowance (Page 1954, "Continuous inspection
 * schemes"). Two analyses of new steps with a clear lead are enough; leads within the interval
 * need many in a row, and one analysis with the old headline sets the sum back to 0.
 */
#ifndef TUI_STEADY_H
#define TUI_STEADY_H

#include "analyzers/result/result.h"

/* All zero at the start of a run. */
struct tui_steady {
    char challenger[96]; /* the other headline of the last analysis */
    double sum;          /* standard deviations */
    int64_t seen;        /* the last step of the last analysis */
};

/* Is `added` to be shown instead of `shown` (NULL: nothing is shown)? */
bool tui_steady_accepts(struct tui_steady *steady, const struct an_result *shown,
                        const struct an_result *added);

#endif
