/* SPDX-License-Identifier: Apache-2.0
 *
 * For test_tui_*.c: surfaces as text, hostile names, golden screens.
 */
#ifndef TUI_FIXTURE_H
#define TUI_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "reports/words/escape.h"
#include "tui/screen/cells.h"

#define TUI_HOSTILE_COUNT 14

/* Names that try to break out of a screen. */
static inline const char *tui_hostile(int i)
{
    static char long_name[10001];
    static const char *const names[TUI_HOSTILE_COUNT] = {
        "\x1b[31mred\x1b[0m",
        "line\nbreak\r\n\ttab",
        "bad \xff\xfe\x80 utf8 \xc3",
        "bell\a\b\x7f",
        "c1 \xc2\x9b"
        "31m",
        "\xe2\x80\xae"
        "evil \xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d",
        "\xed\xa0\x80 surrogate",
        "</script><b>&\"'",
        "\xe6\xb0\xb4\xe6\xb0\xb4 wide \xf0\x9f\x94\xa5",
        "e\xcc\x81\xcc\x81\xcc\x81 combining",
        "%s%n%d",
        "",
        "\x1b]0;title\a|a|b|",
        long_name};
    memset(long_name, 'x', sizeof long_name - 1);
    return names[i];
}

/* UTF-8 of a code point into b[5]. */
static inline size_t tui_utf8(char *b, uint32_t code)
{
    if (code < 0x80) {
        b[0] = (char)code;
        return 1;
    }
    size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i; i--, code >>= 6)
        b[i] = (char)(0x80 | (code & 0x3f));
    b[0] = (char)((0xf00u >> n & 0xff) | code);
    return n;
}

/* A row of the surface without blanks at its end; the caller frees it. */
static inline char *tui_dump_row(const struct tui_cells *c, int row)
{
    char *text = malloc((size_t)c->columns * 4 + 1);
    size_t at = 0;
    assert_non_null(text);
    for (int x = 0; x < c->columns; x++) {
        uint32_t glyph = c->cell[row * c->columns + x].glyph;
        if (glyph)
            at += tui_utf8(text + at, glyph);
    }
    while (at && text[at - 1] == ' ')
        at--;
    text[at] = 0;
    return text;
}

static inline char *tui_dump(const struct tui_cells *c)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    for (int y = 0; y < c->rows; y++) {
        char *row = tui_dump_row(c, y);
        fprintf(out, "%s\n", row);
        free(row);
    }
    fclose(out);
    return text;
}

/* Every cell holds what a terminal may be given: printable, of known styles, ASCII where nothing
 * else is allowed, halves of wide characters in pairs. Cells outside of `inside` (NULL: none) are
 * blank. */
static inline void tui_check_surface(const struct tui_cells *c, const struct tui_rect *inside)
{
    for (int y = 0; y < c->rows; y++)
        for (int x = 0; x < c->columns; x++) {
            const struct tui_cell *at = &c->cell[y * c->columns + x];
            uint32_t glyph = at->glyph;
            bool hostile = (glyph && glyph < 0x20) || (glyph >= 0x7f && glyph < 0xa0) ||
                           (glyph >= 0x200b && glyph <= 0x200f) ||
                           (glyph >= 0x2028 && glyph <= 0x202e) || glyph > 0x10ffff ||
                           (glyph >= 0xd800 && glyph < 0xe000);
            if (hostile || at->style >= TUI_STYLES || (c->glyphs == TUI_ASCII && glyph > 0x7e) ||
                (glyph && rep_char_width((long)glyph) == 0))
                fail_msg("cell %d,%d: glyph %x, style %d", y, x, (unsigned)glyph, at->style);
            bool left_is_wide = x && rep_char_width((long)at[-1].glyph) == 2,
                 wide = rep_char_width((long)glyph) == 2;
            if ((!glyph) != left_is_wide || (wide && (x + 1 == c->columns || at[1].glyph)))
                fail_msg("cell %d,%d: half a wide character", y, x);
            bool out = inside && (y < inside->row || y >= inside->row + inside->rows ||
                                  x < inside->column || x >= inside->column + inside->columns);
            if (out && glyph != ' ')
                fail_msg("cell %d,%d is outside of the rectangle and not blank: %x", y, x,
                         (unsigned)glyph);
        }
}

#endif
