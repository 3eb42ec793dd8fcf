/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to tui/: a whole screen as cells: header, verdict, the view, message, keys, and what lies
 * over them (help). Pure.
 */
#ifndef TUI_FRAME_H
#define TUI_FRAME_H

#include <stdio.h>

#include "tui/data/model.h"
#include "tui/keys.h"
#include "tui/screen/cells.h"
#include "tui/screen/layout.h"

/* Fills all of `cells`, which may have any size. Limits the state of the view to what exists
 * (view.h). */
void tui_frame_draw(struct tui_cells *cells, const struct tui_model *model, struct tui_ui *ui);

/* The places of its parts, for clicks. */
struct tui_layout tui_frame_layout(const struct tui_cells *cells, const struct tui_model *model,
                                   const struct tui_ui *ui);

/* The rows of a surface as UTF-8, without the blanks at their ends; with `trim` without the blank
 * rows at the end. 0 or TACHO_EIO. */
int tui_cells_print(const struct tui_cells *cells, bool trim, FILE *out);

/* The present view, alone and as long as it needs to be, as text. 0 or a code. */
int tui_frame_export(const struct tui_model *model, struct tui_ui *ui, int columns, FILE *out);

#endif
