/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to tui/: the lines of the overview, what matters most for this run first.
 */
#ifndef TUI_OVERVIEW_H
#define TUI_OVERVIEW_H

#include "tui/screen/draw.h"

/* How many lines this run has. */
int tui_overview_lines(const struct tui_model *model);
/* As many of them as the rectangle has rows. */
void tui_overview_draw_lines(struct tui_cells *cells, struct tui_rect area,
                             const struct tui_model *model);

/* ---- curves (overview_curves.c) ---------------------------------------------------------------- */

/* The steps that there are to draw: tailed, else analysed ones; *count of them. */
const struct an_step_point *tui_overview_points(const struct tui_model *model, size_t *count);
/* How many of the steps are of the first rank. */
size_t tui_overview_first_rank(const struct an_step_point *step, size_t all);
/* Panels: the steps, the loss, a line about the newest change of the step time. */
void tui_overview_draw_steps(struct tui_cells *cells, struct tui_rect area,
                             const struct tui_model *model, struct tui_view_state *state);
void tui_overview_draw_loss(struct tui_cells *cells, struct tui_rect area,
                            const struct tui_model *model, struct tui_view_state *state);
void tui_overview_draw_change(struct tui_cells *cells, struct tui_rect area,
                              const struct tui_model *model, struct tui_view_state *state);

/* ---- panels beside others (overview_side.c) ---------------------------------------------------- */

/* Where the mean step goes, a row for each part; rows that it can use. */
int tui_overview_where_rows(const struct tui_model *model);
void tui_overview_draw_where(struct tui_cells *cells, struct tui_rect area,
                             const struct tui_model *model);
/* Curves of the machine and the loader; rows that they can use, 0: there are none. */
int tui_overview_curve_rows(const struct tui_model *model);
void tui_overview_draw_curves(struct tui_cells *cells, struct tui_rect area,
                              const struct tui_model *model);
/* The line about ranks: the slow one by its number, and all of them as columns. */
bool tui_overview_has_ranks(const struct tui_model *model);
void tui_overview_rank_items(struct tui_line *line, const struct tui_model *model);

#endif
