/* SPDX-License-Identifier: Apache-2.0
 *
 * The surface that views draw on. All writing goes through put(), which clips, and keeps wide
 * characters whole.
 */
#include "tui/screen/cells.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reports/words/escape.h"
#include "tacho_error.h"

#define PRINT_BYTES 2048

static int not_negative(long number)
{
    return number > 0 ? (int)number : 0;
}

int tui_cells_resize(struct tui_cells *cells, int rows, int columns)
{
    rows = not_negative(rows);
    columns = not_negative(columns);
    size_t count = (size_t)rows * (size_t)columns;
    struct tui_cell *cell = realloc(cells->cell, (count ? count : 1) * sizeof *cell);
    if (!cell)
        return TACHO_ENOMEM;
    cells->cell = cell;
    cells->rows = rows;
    cells->columns = columns;
    tui_cells_clear(cells, (struct tui_rect){0, 0, rows, columns});
    return 0;
}

void tui_cells_free(struct tui_cells *cells)
{
    free(cells->cell);
    cells->cell = NULL;
    cells->rows = cells->columns = 0;
}

struct tui_rect tui_inside(const struct tui_cells *cells, struct tui_rect area)
{
    long bottom = (long)area.row + area.rows, right = (long)area.column + area.columns;
    int row = not_negative(area.row), column = not_negative(area.column);
    bottom = bottom < cells->rows ? bottom : cells->rows;
    right = right < cells->columns ? right : cells->columns;
    return (struct tui_rect){row, column, not_negative(bottom - row), not_negative(right - column)};
}

/* The cell of the surface at (row, column) of the rectangle; NULL where it is outside of either. */
static struct tui_cell *cell_at(struct tui_cells *cells, struct tui_rect area, int row, int column)
{
    if (row < 0 || column < 0 || row >= area.rows || column >= area.columns)
        return NULL;
    long y = (long)area.row + row, x = (long)area.column + column;
    return y < 0 || x < 0 || y >= cells->rows || x >= cells->columns
               ? NULL
               : &cells->cell[y * cells->columns + x];
}

/* Blanks the other half of a wide character before one of its cells changes. */
static void break_wide(struct tui_cells *cells, struct tui_cell *cell)
{
    size_t i = (size_t)(cell - cells->cell), columns = (size_t)cells->columns;
    if (!cell->glyph && i % columns)
        cell[-1].glyph = ' ';
    if (i % columns + 1 < columns && !cell[1].glyph)
        cell[1].glyph = ' ';
}

void tui_cells_clear(struct tui_cells *cells, struct tui_rect area)
{
    area = tui_inside(cells, area);
    for (int row = 0; row < area.rows; row++)
        for (int column = 0; column < area.columns; column++) {
            struct tui_cell *cell = cell_at(cells, area, row, column);
            *cell = (struct tui_cell){' ', TUI_NORMAL};
        }
}

/* Writes one character of `width` columns where all of it fits. */
static bool put(struct tui_cells *cells, struct tui_rect area, int row, int column,
                enum tui_style style, uint32_t glyph, int width)
{
    struct tui_cell *cell = cell_at(cells, area, row, column),
                    *right = width > 1 ? cell_at(cells, area, row, column + 1) : NULL;
    if (!cell || (width > 1 && !right))
        return false;
    break_wide(cells, cell);
    *cell = (struct tui_cell){glyph, (uint8_t)style};
    if (right) {
        break_wide(cells, right);
        *right = (struct tui_cell){0, (uint8_t)style};
        cell->glyph = glyph; /* breaking the right half has taken the left one for its own */
    }
    return true;
}

void tui_glyph(struct tui_cells *cells, struct tui_rect area, int row, int column,
               enum tui_style style, uint32_t glyph)
{
    bool plain = glyph >= 0x20 && glyph < 0x7f;
    if (!plain && (cells->glyphs == TUI_ASCII || glyph < 0xa0))
        glyph = '?';
    put(cells, area, row, column, style, glyph, rep_char_width((long)glyph) == 2 ? 2 : 1);
}

static uint32_t ellipsis(const struct tui_cells *cells)
{
    return cells->glyphs == TUI_ASCII ? '~' : 0x2026;
}

/* Characters are decoded one by one, since each may take no cell, one or two; an escape takes
 * several. */
int tui_text(struct tui_cells *cells, struct tui_rect area, int row, int column,
             enum tui_style style, const char *text)
{
    struct tui_rect visible = tui_inside(cells, area);
    long end = (long)visible.column + visible.columns -
               area.column; /* first column of the rectangle that cannot be seen */
    int next = column;
    char cell[16];
    if (row < 0 || row >= area.rows || column < 0 || column >= end)
        return 0;
    for (size_t left = strlen(text), taken; left; text += taken, left -= taken) {
        int columns;
        taken = rep_show(cell, text, left, cells->glyphs != TUI_ASCII, &columns);
        if (!columns)
            continue; /* a combining mark has no cell */
        if (next + columns > end) {
            put(cells, area, row, (int)end - 1, style, ellipsis(cells), 1);
            return (int)end - column;
        }
        for (size_t i = 0, length = strlen(cell), bytes; i < length;
             i += bytes) { /* an escape is several characters */
            long code = rep_decode(cell + i, length - i, &bytes);
            int width = rep_char_width(code);
            put(cells, area, row, next, style, (uint32_t)code, width);
            next += width;
        }
    }
    return next - column;
}

int tui_printf(struct tui_cells *cells, struct tui_rect area, int row, int column,
               enum tui_style style, const char *format, ...)
{
    char text[PRINT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return tui_text(cells, area, row, column, style, text);
}

int tui_width(const struct tui_cells *cells, const char *text)
{
    char cell[16];
    int columns = 0, width;
    for (size_t left = strlen(text), taken; left && columns < 100000;
         text += taken, left -= taken) {
        taken = rep_show(cell, text, left, cells->glyphs != TUI_ASCII, &width);
        columns += width;
    }
    return columns;
}

int tui_text_right(struct tui_cells *cells, struct tui_rect area, int row, enum tui_style style,
                   const char *text)
{
    int columns = tui_width(cells, text), begin = area.columns - columns;
    return tui_text(cells, area, row, begin > 0 ? begin : 0, style, text);
}

void tui_fill(struct tui_cells *cells, struct tui_rect area, int row, enum tui_style style)
{
    for (int column = 0; column < area.columns; column++)
        tui_glyph(cells, area, row, column, style, ' ');
}

void tui_rule(struct tui_cells *cells, struct tui_rect area, int row)
{
    struct tui_rect visible = tui_inside(cells, area);
    for (int column = visible.column - area.column;
         column < visible.column - area.column + visible.columns; column++)
        tui_glyph(cells, area, row, column, TUI_DIM, cells->glyphs == TUI_ASCII ? '-' : 0x2500);
}
