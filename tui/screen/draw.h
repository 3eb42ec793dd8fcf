/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to tui/: what several views draw: lines of items, paragraphs, reasons, classes, series,
 * sections of the report.
 */
#ifndef TUI_DRAW_H
#define TUI_DRAW_H

#include "reports/sections/sections.h"
#include "tui/screen/chart.h"
#include "tui/screen/view.h"

#define TUI_LABEL 10 /* columns of the label at the left of a line */

/* ---- words ----------------------------------------------------------------------------------- */

/* A text broken at blanks from (row, column) on; returns the rows it took. */
int tui_paragraph(struct tui_cells *cells, struct tui_rect area, int row, int column,
                  enum tui_style style, const char *text);
/* Bytes of the text up to the blank at which a line of `columns` breaks, or its end. *next: where
 * the following line begins; 0: not even one character fits. */
size_t tui_line_of(const struct tui_cells *cells, const char *text, int columns, size_t *next);
/* Rows that a paragraph takes in `columns` columns. */
int tui_paragraph_rows(const struct tui_cells *cells, int columns, const char *text);

/* One row of items after a label; an item that does not fit any more is omitted whole. */
struct tui_line {
    struct tui_cells *cells;
    struct tui_rect area;
    int row, column, first; /* column: where the next item goes */
};
struct tui_line tui_line_begin(struct tui_cells *cells, struct tui_rect area, int row,
                               const char *label);
__attribute__((format(printf, 3, 4))) bool tui_item(struct tui_line *line, enum tui_style style,
                                                    const char *format, ...);
/* The same with a value, where it is known. */
bool tui_item_value(struct tui_line *line, enum tui_style style, struct an_value value,
                    const char *format);
/* Room for a picture of that many columns in the line: its first column, -1 where it does not fit.
 */
int tui_item_room(struct tui_line *line, int columns);

/* "WHAT: REASON" as a paragraph, for what is absent; returns the rows it took. A NULL reason says
 * only that it is not known. */
int tui_absent(struct tui_cells *cells, struct tui_rect area, int row, const char *what,
               const char *reason);
/* Returns the analysis. Without one, draws the reason and returns NULL. */
const struct an_result *tui_result(struct tui_cells *cells, struct tui_rect area,
                                   const struct tui_model *model);

/* The upper `rows` of a rectangle and the rest. */
struct tui_rect tui_upper(struct tui_rect area, int rows);
struct tui_rect tui_lower(struct tui_rect area, int rows);
struct tui_rect tui_left(struct tui_rect area, int columns);
struct tui_rect tui_right(struct tui_rect area, int columns);

/* ---- classes of the budget ------------------------------------------------------------------- */

uint32_t tui_class_letter(const struct tui_cells *cells, int class);
const char *tui_class_word(int class); /* "compute", "input" ... */
/* "C compute 62 %  I input 31 %": the shares of a budget, the largest first, in at most `rows`
 * rows; returns how many. */
int tui_class_legend(struct tui_cells *cells, struct tui_rect area, int row, int rows,
                     const double pct[AN_CLASS_COUNT]);
/* The shares of a budget, 0 for what is absent. */
void tui_class_shares(const struct an_budget *budget, double pct[AN_CLASS_COUNT]);
void tui_class_bar(struct tui_cells *cells, struct tui_rect area, int row, int column, int columns,
                   const double pct[AN_CLASS_COUNT]);

/* ---- series ---------------------------------------------------------------------------------- */

/* Marks a row in which a search found its words. */
void tui_mark_row(struct tui_cells *cells, struct tui_rect area, int row);

/* A series as people read it: what only grows (CPU time, bytes read) as its rate. `value` has
 * `count` values, the caller frees it; false: nothing to show. */
struct tui_curve {
    char label[80]; /* "CPU", "disk read" with the device or rank */
    const char *unit;
    double *value;
    const double *time_s; /* of each; belongs to `value` */
    size_t count;
    double last, low, high; /* of the finite ones */
    double now_s, room_s;   /* end of the time axis so far, and of the picture: the same for all
                               curves of a view */
};
bool tui_curve_of(const struct tui_model *model, const struct tui_series *series,
                  struct tui_curve *out);
/* With its unit: "98 %", "3.1 GiB", "412 ms"; "n/a" for NAN. Returns buf (48 bytes). */
const char *tui_quantity(char *buf, const char *unit, double value);
/* The series of that name in the order of their means, lowest first: the n-th, modulo how many
 * there are (*count). NULL: none.
 */
const struct tui_series *tui_lowest_series(const struct tui_model *model, const char *name,
                                           int place, size_t *count);
/* Seconds of the run as the text of an axis: "1.5 s". */
const char *tui_seconds(char *buf, double seconds);
/* Appends the owner of the counter to the label, where several have it. */
void tui_curve_owner(const struct tui_model *model, const struct tui_series *series,
                     struct tui_curve *curve);
/* One row: label, sparkline, newest value. */
void tui_curve_row(struct tui_cells *cells, struct tui_rect area, int row,
                   const struct tui_curve *curve);

/* ---- the report's words ---------------------------------------------------------------------- */

/* Sections of the text report (reports/text/text.h) in the rectangle, scrolled by the state's
 * cursor. The list ends with NULL.
 */
typedef rep_section *tui_section;
void tui_sections(struct tui_cells *cells, struct tui_rect area, const struct an_result *result,
                  const tui_section *sections, struct tui_view_state *state);
/* Rows that they take at a width. */
int tui_sections_rows(const struct tui_cells *cells, int columns, const struct an_result *result,
                      const tui_section *sections);

#endif
