/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to tui/: since when a run is slower or faster than it was.
 */
#ifndef TUI_STEP_CHANGE_H
#define TUI_STEP_CHANGE_H

#include "tui/data/model.h"

/* The newest change of the step time of the first rank. */
struct tui_change {
    int64_t index;              /* the first step after it */
    double start_s;             /* when that began */
    double before_ms, after_ms; /* median of the steps on each side */
    int class;       /* enum an_class that changed most with it; -1: not known, or none did */
    double class_ms; /* by so much a step */
    double busy_before_pct, busy_after_pct; /* of the machine; NAN: not sampled */
};

/* Looks for a change of at least a quarter, of at least eight steps on each side, that Pettitt's
 * test (Applied Statistics 28, 1979) takes for more than chance: p < 1e-4. False: there is none. */
bool tui_change_find(const struct tui_model *model, const struct an_step_point *step, size_t count,
                     struct tui_change *change);
/* "step time doubled at step 330: 40.1 ms -> 81.2 ms; data wait +39 ms". Returns text. */
const char *tui_change_text(const struct tui_change *change, const char *arrow, char text[200]);

#endif
