/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to tui/: pictures made of cells, on every rung of the ladder of glyphs (cells.h). All
 * clip to their rectangle and draw something sensible, or nothing, in one of any size. Values that
 * are not finite are gaps.
 *
 *               dots of a cell   levels of a column      heat
 *     braille   2 x 4            8 (eighth blocks)       shades
 *     block     1 x 2            8                       shades
 *     ASCII     1 x 2 ( . ' : )  6 ( _ . - = * # )       . : - = + * # % @
 */
#ifndef TUI_CHART_H
#define TUI_CHART_H

#include "tui/screen/cells.h"

/* ---- dots ------------------------------------------------------------------------------------ */

/* How many dots a rectangle has: *width x *height. */
void tui_dots(const struct tui_cells *cells, struct tui_rect area, int *width, int *height);
/* Sets the dot (x, y) from the top left corner. A cell has one style: the last one wins. Text that
 * is there stays. */
void tui_dot(struct tui_cells *cells, struct tui_rect area, int x, int y, enum tui_style style);
/* Dots of a straight line, ends included. */
void tui_dot_line(struct tui_cells *cells, struct tui_rect area, int x0, int y0, int x1, int y1,
                  enum tui_style style);

/* ---- bars ------------------------------------------------------------------------------------ */

/* A bar from (row, column) on that has `columns` cells at fraction 1; any fraction above 0 is
 * visible. Returns the cells written. */
int tui_bar(struct tui_cells *cells, struct tui_rect area, int row, int column, int columns,
            double fraction, enum tui_style style);
/* The column of a cell filled from below: fraction 0 (blank) to 1. */
void tui_level(struct tui_cells *cells, struct tui_rect area, int row, int column, double fraction,
               enum tui_style style);
/* A cell of a heat map: fraction 0 (blank or a dot) to 1, as shade and in one of the styles
 * TUI_HEAT. NAN: "?". */
void tui_heat(struct tui_cells *cells, struct tui_rect area, int row, int column, double fraction);

/* A part of a bar that is one whole. */
struct tui_part {
    double share; /* of the sum of all parts; not finite or below 0: none */
    enum tui_style style;
    uint32_t letter;
};
#define TUI_PARTS_MOST 16
/* One row of `columns` cells, each with the letter of its part; cells are dealt out so that a part
 * of 1/2 cell is seen where there is room, and none is off by a whole cell otherwise. */
void tui_stack(struct tui_cells *surface, struct tui_rect area, int row, int column, int columns,
               const struct tui_part *part, size_t count);

/* ---- one quantity over time ------------------------------------------------------------------ */

/* Where a picture of values ends. `limit`: above it a value is an outlier (modified z-score
 * above 3.5, and 10 % above the median); INFINITY: none. low < high always; outliers do not count.
 * false: no value is finite. */
struct tui_range {
    double low, high, limit;
};
bool tui_range_of(const double *value, size_t count, struct tui_range *out);

/* Rounds the ends of a picture that grows, so that it does not move while its values change a
 * little. */
void tui_range_settle(struct tui_range *range);

/* What a picture is made of: values from left to right. */
struct tui_samples {
    const double *value;
    const double *start; /* where each begins, ascending; NULL: 0, 1, 2 ... */
    size_t count;
    double low, high; /* ends of the picture */
    double end;       /* where the last value ends: nothing is drawn after it */
};
/* Values side by side in a picture that has room for `slots` of them. */
struct tui_samples tui_samples_of(const double *value, size_t count, double slots);
/* Room for `count` values that become more (`grows`): it doubles when it is full, so that all
 * between stay where they are. */
double tui_slots(double count, bool grows);

/* The samples over the width, oldest at the left: a line of dots (braille), filled columns else; in
 * one row of ASCII a ramp. Those that share a column are merged: the mean, and where one is above
 * the limit a spike to the top. */
void tui_trend(struct tui_cells *cells, struct tui_rect area, const struct tui_samples *samples,
               struct tui_range range, enum tui_style style);
/* The same in one row of filled columns, from `low` on. */
void tui_spark(struct tui_cells *cells, struct tui_rect area, int row, int column, int columns,
               const struct tui_samples *samples, double low, double high, enum tui_style style);

/* ---- two quantities against each other ------------------------------------------------------- */

struct tui_axis {
    double low, high; /* log: above 0 */
    bool log;
    const char *(*text)(char *buf, double v); /* number.h, or the like; 32 bytes */
    const char *name;                         /* with unit: "FLOP/s" */
};
struct tui_plot {
    struct tui_cells *cells;
    struct tui_rect area; /* where the dots are */
    struct tui_axis x, y;
};
/* Ticks at round numbers (1, 2, 5 times a power of ten; log: powers of ten), at most `most` <= 16;
 * returns how many. */
size_t tui_ticks(const struct tui_axis *axis, size_t most, double tick[16]);
/* Draws axes with their ticks and names as far as there is room, and returns the plot between them.
 */
struct tui_plot tui_plot_open(struct tui_cells *cells, struct tui_rect area, struct tui_axis x,
                              struct tui_axis y);
/* A line that is straight on these axes, cut at the edges. */
void tui_plot_line(const struct tui_plot *plot, double x0, double y0, double x1, double y1,
                   enum tui_style style);
/* A glyph at a point; false: it lies outside. */
bool tui_plot_mark(const struct tui_plot *plot, double x, double y, enum tui_style style,
                   uint32_t glyph);
/* Samples whose ends are those of the x axis, as tui_trend does. */
void tui_plot_trend(const struct tui_plot *plot, const struct tui_samples *samples, double limit,
                    enum tui_style style);

#endif
