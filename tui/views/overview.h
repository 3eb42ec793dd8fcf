/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to tui/: the lines of the overview, what matters most for this run first.
 */
#ifndef TUI_OVERVIEW_H
#define TUI_OVERVIEW_H

#include "tui/screen/view.h"

/* How many lines this run has. */
int tui_overview_lines(const struct tui_model *model);
/* As many of them as the rectangle has rows. */
void tui_overview_draw_lines(struct tui_cells *cells, struct tui_rect area,
                             const struct tui_model *model);

#endif
