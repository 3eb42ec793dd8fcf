/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to tui/: the list of runs over the view, and its keys.
 */
#ifndef TUI_PICKER_H
#define TUI_PICKER_H

#include "tui/data/model.h"
#include "tui/keys.h"
#include "tui/screen/cells.h"

/* Draws the runs of the model, the one under the cursor selected; limits the cursor to them. */
void tui_picker_draw(struct tui_cells *cells, struct tui_rect area, const struct tui_model *model,
                     struct tui_ui *ui);
/* The run under the cursor; NULL: there is none. */
const char *tui_picker_run(const struct tui_model *model, const struct tui_ui *ui);

#endif
