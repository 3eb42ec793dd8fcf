/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to tui/: the surface that views draw on. A view never sees the terminal: it writes cells
 * with a meaning (style), and terminal.c turns meanings into colours of the theme and glyphs of the
 * ladder. So every view is a pure function that tests can call without a terminal, at any size.
 *
 * Coordinates: rectangles lie on the surface; row and column of what is drawn count from 0 at the
 * rectangle's top left corner. Whatever lies outside of the surface, or of the rectangle given, is
 * clipped; rectangles of no rows or columns, and those that reach beyond the surface, are legal
 * everywhere.
 */
#ifndef TUI_CELLS_H
#define TUI_CELLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a cell means. The theme (theme.c) gives each a colour of the Okabe-Ito set and attributes;
 * without colour, attributes and letters alone carry it. */
enum tui_style {
    TUI_NORMAL,
    TUI_DIM,
    TUI_BOLD,
    TUI_TITLE,    /* names of panels */
    TUI_KEY,      /* keys of the key bar */
    TUI_SELECTED, /* the row the cursor is on */
    TUI_GOOD,
    TUI_WARN,
    TUI_BAD,
    TUI_CRITICAL_PATH,
    TUI_CLASS,                 /* + enum an_class: 8 styles */
    TUI_HEAT = TUI_CLASS + 8,  /* + 0..7: from little to much */
    TUI_SERIES = TUI_HEAT + 8, /* + 0..3: lines of a chart */
    TUI_STYLES = TUI_SERIES + 4
};

/* How rich the glyphs may be: the ladder. */
enum tui_glyphs { TUI_ASCII, TUI_BLOCK, TUI_BRAILLE };

struct tui_cell {
    uint32_t glyph; /* a code point; 0: the right half of the wide one to the left */
    uint8_t style;  /* enum tui_style */
};

struct tui_cells {
    int rows, columns;
    enum tui_glyphs glyphs;
    struct tui_cell *cell; /* rows * columns, owned */
};

struct tui_rect {
    int row, column, rows, columns;
};

/* A surface of blanks. 0 or TACHO_ENOMEM; `c` may have been used before, its memory is kept. */
int tui_cells_resize(struct tui_cells *cells, int rows, int columns);
void tui_cells_free(struct tui_cells *cells);
void tui_cells_clear(struct tui_cells *cells, struct tui_rect area);

/* The part of a rectangle that lies on the surface. */
struct tui_rect tui_inside(const struct tui_cells *cells, struct tui_rect area);

/* Text of any bytes from a program that was profiled: control characters, escapes, broken UTF-8
 * and, below TUI_BLOCK, what is not ASCII become harmless glyphs; combining marks are omitted (a
 * cell holds one code point). Cut at the rectangle's right edge with an ellipsis ("~" in ASCII).
 * Returns the columns written. */
int tui_text(struct tui_cells *cells, struct tui_rect area, int row, int column,
             enum tui_style style, const char *text);
__attribute__((format(printf, 6, 7))) int tui_printf(struct tui_cells *cells, struct tui_rect area,
                                                     int row, int column, enum tui_style style,
                                                     const char *format, ...);
/* Columns that a text takes where nothing cuts it. */
int tui_width(const struct tui_cells *cells, const char *text);
/* The same, ending at the rectangle's right edge. */
int tui_text_right(struct tui_cells *cells, struct tui_rect area, int row, enum tui_style style,
                   const char *text);
void tui_glyph(struct tui_cells *cells, struct tui_rect area, int row, int column,
               enum tui_style style, uint32_t glyph);
/* Blanks in a whole row. */
void tui_fill(struct tui_cells *cells, struct tui_rect area, int row, enum tui_style style);
void tui_rule(struct tui_cells *cells, struct tui_rect area, int row); /* a horizontal line */

#endif
