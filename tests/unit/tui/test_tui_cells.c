/* SPDX-License-Identifier: Apache-2.0
 *
 * The surface of the dashboard: clipping, wide and combining characters, hostile bytes, the ladder
 * of glyphs.
 */
#include "tui_fixture.h"

static struct tui_cells sc; /* all tests draw on it */

static void surface(int rows, int columns, enum tui_glyphs glyphs)
{
    sc.glyphs = glyphs;
    assert_int_equal(tui_cells_resize(&sc, rows, columns), 0);
}

static void check_line(const struct tui_cells *c, int row, const char *want)
{
    char *text = tui_dump_row(c, row);
    assert_string_equal(text, want);
    free(text);
}

static void test_text_is_cut_with_an_ellipsis(void **state)
{
    const struct tui_rect r = {1, 2, 2, 6};
    (void)state;
    surface(4, 10, TUI_BRAILLE);
    assert_int_equal(tui_text(&sc, r, 0, 0, TUI_BOLD, "abcdef"), 6);
    check_line(&sc, 1, "  abcdef");
    assert_int_equal(tui_text(&sc, r, 0, 0, TUI_BOLD, "abcdefg"), 6);
    check_line(&sc, 1, "  abcde\xe2\x80\xa6");
    assert_int_equal(tui_text(&sc, r, 1, 4, TUI_BOLD, "xyz"), 2);
    check_line(&sc, 2, "      x\xe2\x80\xa6");
    assert_int_equal(sc.cell[1 * 10 + 2].style, TUI_BOLD);
    surface(4, 10, TUI_ASCII);
    tui_text(&sc, r, 0, 0, TUI_BOLD, "abcdefg");
    check_line(&sc, 1, "  abcde~");
    /* what is above, below, left and right of the rectangle is not drawn */
    assert_int_equal(tui_text(&sc, r, -1, 0, TUI_BOLD, "no"), 0);
    assert_int_equal(tui_text(&sc, r, 2, 0, TUI_BOLD, "no"), 0);
    assert_int_equal(tui_text(&sc, r, 0, -1, TUI_BOLD, "no"), 0);
    assert_int_equal(tui_text(&sc, r, 0, 6, TUI_BOLD, "no"), 0);
    check_line(&sc, 0, "");
    check_line(&sc, 3, "");
}

static void test_wide_and_combining(void **state)
{
    const struct tui_rect r = {0, 0, 1, 5};
    (void)state;
    surface(1, 5, TUI_BRAILLE);
    assert_int_equal(tui_text(&sc, r, 0, 0, TUI_NORMAL, "e\xcc\x81\xe6\xb0\xb4"),
                     3); /* the mark has no cell */
    assert_int_equal(sc.cell[0].glyph, 'e');
    assert_int_equal(sc.cell[1].glyph, 0x6c34);
    assert_int_equal(sc.cell[2].glyph, 0);
    /* half a wide character never stays behind */
    tui_glyph(&sc, r, 0, 2, TUI_NORMAL, 'x');
    assert_int_equal(sc.cell[1].glyph, ' ');
    tui_text(&sc, r, 0, 1, TUI_NORMAL, "\xe6\xb0\xb4");
    assert_int_equal(sc.cell[1].glyph, 0x6c34);
    tui_glyph(&sc, r, 0, 1, TUI_NORMAL, 'y');
    assert_int_equal(sc.cell[2].glyph, ' ');
    tui_text(&sc, r, 0, 0, TUI_NORMAL, "\xe6\xb0\xb4\xe6\xb0\xb4");
    tui_text(&sc, r, 0, 1, TUI_NORMAL, "\xe6\xb0\xb4");
    check_line(&sc, 0, " \xe6\xb0\xb4");
    /* one that does not fit is cut, not split */
    surface(1, 4, TUI_BRAILLE);
    assert_int_equal(
        tui_text(&sc, (struct tui_rect){0, 0, 1, 4}, 0, 0, TUI_NORMAL, "abc\xe6\xb0\xb4"), 4);
    check_line(&sc, 0, "abc\xe2\x80\xa6");
    surface(1, 4, TUI_ASCII);
    tui_text(&sc, (struct tui_rect){0, 0, 1, 4}, 0, 0, TUI_NORMAL,
             "\xe6\xb0\xb4\xc2\xb7\xe2\x96\x88");
    check_line(&sc, 0, "?|?");
}

static void test_hostile_bytes(void **state)
{
    (void)state;
    for (int glyphs = TUI_ASCII; glyphs <= TUI_BRAILLE; glyphs++) {
        surface((int)TUI_HOSTILE_COUNT, 300, (enum tui_glyphs)glyphs);
        struct tui_rect r = {0, 0, sc.rows, sc.columns};
        for (int i = 0; i < (int)TUI_HOSTILE_COUNT; i++)
            tui_text(&sc, r, i, 0, TUI_NORMAL, tui_hostile(i));
        tui_check_surface(&sc, NULL);
        check_line(&sc, 0, "\\x1b[31mred\\x1b[0m");
        check_line(&sc, 1, "line\\nbreak\\x0d\\n\\ttab");
    }
    surface(1, 12, TUI_BRAILLE);
    tui_printf(&sc, (struct tui_rect){0, 0, 1, 12}, 0, 0, TUI_NORMAL, "%s",
               "\xff"
               "a"
               "\xe2\x80\xae"
               "b");
    check_line(&sc, 0, "\\xffa\\u202eb");
    tui_glyph(&sc, (struct tui_rect){0, 0, 1, 12}, 0, 0, TUI_NORMAL, 0x1b);
    assert_int_equal(sc.cell[0].glyph, '?');
}

static void test_right_and_rule(void **state)
{
    (void)state;
    surface(3, 10, TUI_BLOCK);
    struct tui_rect r = {0, 1, 3, 8};
    assert_int_equal(tui_text_right(&sc, r, 0, TUI_NORMAL, "abc"), 3);
    check_line(&sc, 0, "      abc");
    tui_text_right(&sc, r, 1, TUI_NORMAL, "0123456789");
    check_line(&sc, 1, " 0123456\xe2\x80\xa6");
    tui_rule(&sc, (struct tui_rect){2, 3, 1, 3}, 0);
    check_line(&sc, 2, "   \xe2\x94\x80\xe2\x94\x80\xe2\x94\x80");
    assert_int_equal(tui_width(&sc, "a\n\xe6\xb0\xb4"), 5);
}

/* Rectangles beyond the surface, negative and empty ones: nothing is written outside, and nothing
 * outside of the surface. */
static void test_clipping(void **state)
{
    (void)state;
    surface(6, 9, TUI_BRAILLE);
    for (int row = -3; row < 9; row++)
        for (int column = -4; column < 12; column++)
            for (int rows = -1; rows < 8; rows += 3)
                for (int columns = -1; columns < 12; columns += 3) {
                    struct tui_rect r = {row, column, rows, columns}, in = tui_inside(&sc, r);
                    tui_cells_clear(&sc, (struct tui_rect){0, 0, 6, 9});
                    for (int i = -1; i < 9; i++) {
                        tui_text(&sc, r, i, 0, TUI_BAD, "xx\xe6\xb0\xb4xxxxxxxxxxxx");
                        tui_text_right(&sc, r, i, TUI_BAD, "yyy");
                        tui_rule(&sc, r, i);
                        tui_glyph(&sc, r, i, i, TUI_BAD, 0x28ff);
                    }
                    for (int y = 0; y < 6; y++)
                        for (int x = 0; x < 9; x++) {
                            bool within = y >= in.row && y < in.row + in.rows && x >= in.column &&
                                          x < in.column + in.columns;
                            if (!within)
                                assert_int_equal(sc.cell[y * 9 + x].glyph, ' ');
                        }
                    tui_cells_clear(&sc, r);
                }
    surface(0, 0, TUI_ASCII);
    tui_text(&sc, (struct tui_rect){0, 0, 5, 5}, 0, 0, TUI_NORMAL, "nothing");
    surface(-3, 4, TUI_ASCII);
    assert_int_equal(sc.rows, 0);
    tui_cells_free(&sc);
    tui_cells_free(&sc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_is_cut_with_an_ellipsis),
        cmocka_unit_test(test_wide_and_combining), cmocka_unit_test(test_hostile_bytes),
        cmocka_unit_test(test_right_and_rule), cmocka_unit_test(test_clipping)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
