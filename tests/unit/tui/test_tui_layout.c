/* SPDX-License-Identifier: Apache-2.0
 *
 * The layout on every screen from 1x1 to 60x300: rectangles lie inside, share no cell, cover all
 * rows; the header is there on the smallest, and what comes with more rows comes in its order.
 * Panels the same. And a whole frame of every view can be drawn on any of them.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tui/frame.h"
#include "tui/screen/layout.h"
#include "tui/views.h"

#define ROWS    60
#define COLUMNS 300

/* Marks the rectangle's cells; 1 when one was marked already or lies outside. */
static int mark(char seen[ROWS + 1], struct tui_rect r, int rows, int columns)
{
    if (r.rows < 0 || r.columns < 0 || r.row < 0 || r.column < 0 || r.row + r.rows > rows ||
        r.column + r.columns > columns)
        return 1;
    for (int i = r.row; i < r.row + r.rows; i++)
        if (seen[i]++)
            return 1;
    return 0;
}

static void test_every_size(void **state)
{
    (void)state;
    for (int rows = 1; rows <= ROWS; rows++)
        for (int columns = 1; columns <= COLUMNS; columns++)
            for (int extra = 0; extra < 16; extra++) {
                struct tui_layout l = tui_layout(rows, columns, extra & 1, extra >> 1);
                struct tui_rect all[] = {l.header, l.verdict, l.rule, l.body,
                                         l.rule2,  l.message, l.keys};
                char seen[ROWS + 1] = {0};
                int used = 0, row = 0;
                for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
                    if (mark(seen, all[i], rows, columns))
                        fail_msg("%dx%d (%d): rectangle %zu shares cells or leaves the screen",
                                 rows, columns, extra, i);
                    assert_int_equal(all[i].columns, columns);
                    assert_int_equal(all[i].row, row); /* in their order from the top */
                    row += all[i].rows;
                    used += all[i].rows;
                }
                assert_int_equal(used, rows);
                assert_int_equal(l.header.rows, 1);
                assert_true(l.verdict.rows >= (rows >= 2));
                assert_int_equal(l.keys.rows, rows >= 3);
                assert_true(l.body.rows >= (rows >= 4));
                assert_true(rows < 10 || l.body.rows >= rows / 2);
                assert_true(l.verdict.rows <= ((extra >> 1) > 1 ? extra >> 1 : 1));
            }
    struct tui_layout none = tui_layout(0, 0, true, 3), odd = tui_layout(-5, -5, true, 3);
    assert_int_equal(none.header.rows + none.body.rows, 0);
    assert_int_equal(odd.header.rows + odd.body.rows, 0);
}

static void test_panels(void **state)
{
    (void)state;
    for (int rows = 0; rows <= ROWS; rows++)
        for (int seed = 0; seed < 200; seed++) {
            struct tui_panel p[6];
            struct tui_rect r = {3, 2, rows, 40};
            char seen[ROWS + 4] = {0};
            int total = 0, wanted = 0, most = 0;
            srand((unsigned)seed);
            for (int i = 0; i < 6; i++) {
                int least = rand() % 7;
                p[i] = (struct tui_panel){
                    .least = least, .most = least + rand() % 9, .importance = rand() % 5};
                wanted += least;
                most += least ? p[i].most : 0;
            }
            tui_layout_panels(r, p, 6);
            int left_out = -1, kept = 1000;
            for (int i = 0; i < 6; i++) {
                total += p[i].rect.rows;
                assert_true(p[i].rect.row >= 3 && p[i].rect.row + p[i].rect.rows <= 3 + rows);
                assert_true(p[i].rect.rows == 0 ||
                            (p[i].rect.rows >= p[i].least && p[i].rect.rows <= p[i].most));
                for (int k = 0; k < p[i].rect.rows; k++)
                    assert_int_equal(seen[p[i].rect.row - 3 + k]++, 0);
                if (p[i].least && !p[i].rect.rows)
                    left_out = p[i].importance > left_out ? p[i].importance : left_out;
                else if (p[i].least)
                    kept = p[i].importance < kept ? p[i].importance : kept;
            }
            assert_true(total <= rows);
            assert_true(left_out <= kept); /* the least important go first */
            if (wanted <= rows)
                assert_int_equal(total, most < rows ? most : rows); /* nothing is wasted */
        }
}

static void test_frames_of_every_size(void **state)
{
    struct tui_ui ui;
    struct tui_cells c = {.rows = 0};
    struct tui_model m = {.state = TUI_LIVE,
                          .run = "train.tacho.live",
                          .message = "FILE: deleted or moved",
                          .last_index = 12,
                          .recent_ms = 12.5,
                          .recent_tokens_per_s = NAN,
                          .result_reason = "reading the run",
                          .window = "the whole run"};
    (void)state;
    tui_ui_init(&ui);
    for (int rows = 1; rows <= ROWS; rows += rows < 12 ? 1 : 7)
        for (int columns = 1; columns <= COLUMNS; columns += columns < 50 ? 3 : 37)
            for (ui.view = 0; tui_views[ui.view]; ui.view++) {
                ui.help = columns % 2;
                ui.help_top = rows;
                ui.glyphs = (enum tui_glyphs)(rows % 3);
                c.glyphs = ui.glyphs;
                assert_int_equal(tui_cells_resize(&c, rows, columns), 0);
                tui_frame_draw(&c, ui.view % 2 ? &m : NULL, &ui);
                int ink = 0;
                for (int i = 0; i < columns; i++)
                    ink += c.cell[i].glyph != ' ';
                assert_true(ink > 0 || columns < 3); /* the header says something */
            }
    tui_cells_free(&c);
}

/* The first row of a frame, as text; the caller frees. */
static char *header_of(const struct tui_model *m)
{
    struct tui_ui ui;
    struct tui_cells c = {.rows = 0};
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    tui_ui_init(&ui);
    c.glyphs = TUI_ASCII;
    assert_int_equal(tui_cells_resize(&c, 1, 80), 0);
    tui_frame_draw(&c, m, &ui);
    assert_int_equal(tui_cells_print(&c, true, out), 0);
    fclose(out);
    tui_cells_free(&c);
    return text;
}

/* A program that hangs while its counters go on; slow steps are no news. */
static void test_no_step_for_long(void **state)
{
    static const struct {
        double now_s, recent_ms, age_s;
        const char *want;
    } table[] = {{10.5, 100, 0, "* live"},         {14, 100, 0, "* live"},
                 {18, 100, 0, "no step for 8 s"},  {18, 100, 3, "no step for 11 s"},
                 {18, 100, 6, "silent for 6 s"},   {18, 1000, 0, "* live"},
                 {30, 1000, 0, "no step for 20 s"}};
    const struct an_step_point step = {.steps = 1, .start_s = 9.9, .ms = 100};
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct tui_model m = {.state = TUI_LIVE,
                              .run = "r",
                              .message = "",
                              .now_s = table[i].now_s,
                              .age_s = table[i].age_s,
                              .recent_ms = table[i].recent_ms,
                              .recent_tokens_per_s = NAN,
                              .step = &step,
                              .step_count = 1,
                              .result_reason = "",
                              .window = ""};
        char *text = header_of(&m);
        if (!strstr(text, table[i].want))
            fail_msg("%zu: not '%s' in: %s", i, table[i].want, text);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_size), cmocka_unit_test(test_panels),
        cmocka_unit_test(test_frames_of_every_size), cmocka_unit_test(test_no_step_for_long)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
