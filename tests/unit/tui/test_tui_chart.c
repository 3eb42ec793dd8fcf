/* SPDX-License-Identifier: Apache-2.0
 *
 * Pictures made of cells: dots, bars, stacks, heat, trends with outliers, axes; on every rung of
 * the ladder and at every size.
 */
#include <math.h>

#include "reports/words/number.h"
#include "tui/screen/chart.h"
#include "tui_fixture.h"

static struct tui_cells sc;

static struct tui_rect surface(int rows, int columns, enum tui_glyphs glyphs)
{
    sc.glyphs = glyphs;
    assert_int_equal(tui_cells_resize(&sc, rows, columns), 0);
    return (struct tui_rect){0, 0, rows, columns};
}

static void check_row(int row, const char *want)
{
    char *text = tui_dump_row(&sc, row);
    assert_string_equal(text, want);
    free(text);
}

static void test_dots(void **state)
{
    int w, h;
    (void)state;
    struct tui_rect r = surface(2, 3, TUI_BRAILLE);
    tui_dots(&sc, r, &w, &h);
    assert_true(w == 6 && h == 8);
    tui_dot(&sc, r, 0, 0, TUI_SERIES);
    tui_dot(&sc, r, 1, 3, TUI_SERIES);
    assert_int_equal(sc.cell[0].glyph, 0x2800 + 0x01 + 0x80);
    tui_dot_line(&sc, r, 2, 4, 5, 7, TUI_SERIES); /* a diagonal over two cells */
    assert_int_equal(sc.cell[4].glyph, 0x2800 + 0x01 + 0x10);
    assert_int_equal(sc.cell[5].glyph, 0x2800 + 0x04 + 0x80);
    tui_text(&sc, r, 0, 1, TUI_NORMAL, "A");
    tui_dot(&sc, r, 2, 0, TUI_SERIES); /* text stays */
    assert_int_equal(sc.cell[1].glyph, 'A');
    r = surface(1, 3, TUI_BLOCK);
    tui_dot(&sc, r, 0, 0, TUI_SERIES);
    tui_dot(&sc, r, 1, 1, TUI_SERIES);
    tui_dot(&sc, r, 2, 0, TUI_SERIES);
    tui_dot(&sc, r, 2, 1, TUI_SERIES);
    check_row(0, "\xe2\x96\x80\xe2\x96\x84\xe2\x96\x88");
    r = surface(1, 3, TUI_ASCII);
    tui_dot(&sc, r, 0, 0, TUI_SERIES);
    tui_dot(&sc, r, 1, 1, TUI_SERIES);
    tui_dot(&sc, r, 2, 0, TUI_SERIES);
    tui_dot(&sc, r, 2, 1, TUI_SERIES);
    check_row(0, "'.:");
}

static void test_bars(void **state)
{
    (void)state;
    struct tui_rect r = surface(4, 10, TUI_BLOCK);
    assert_int_equal(tui_bar(&sc, r, 0, 0, 8, 0.5, TUI_GOOD), 4);
    check_row(0, "\xe2\x96\x88\xe2\x96\x88\xe2\x96\x88\xe2\x96\x88");
    assert_int_equal(tui_bar(&sc, r, 1, 0, 8, 1e-6, TUI_GOOD), 1); /* what is there can be seen */
    check_row(1, "\xe2\x96\x8f");
    assert_int_equal(tui_bar(&sc, r, 2, 0, 8, 0, TUI_GOOD), 0);
    tui_bar(&sc, r, 3, 0, 1, 3 / 8.0, TUI_GOOD);
    check_row(3, "\xe2\x96\x8d");
    r = surface(1, 10, TUI_ASCII);
    tui_bar(&sc, r, 0, 0, 8, 7, TUI_GOOD);
    check_row(0, "########");
    r = surface(1, 10, TUI_BRAILLE);
    for (int i = 0; i <= 8; i++)
        tui_level(&sc, r, 0, i, i / 8.0, TUI_GOOD);
    check_row(0, " \xe2\x96\x81\xe2\x96\x82\xe2\x96\x83\xe2\x96\x84\xe2\x96\x85\xe2\x96\x86\xe2\x96"
                 "\x87\xe2\x96\x88");
    r = surface(1, 9, TUI_ASCII);
    for (int i = 0; i <= 8; i++)
        tui_heat(&sc, r, 0, i, i ? i / 8.0 : NAN);
    check_row(0, "?:-=+*#%@");
}

/* The cells of a stack are dealt out exactly: they fill the bar, none is off by one, small parts
 * are seen. */
static void test_stack(void **state)
{
    const struct tui_part part[] = {{61.9, TUI_CLASS, 'C'},    {31, TUI_CLASS + 4, 'I'},
                                    {5.8, TUI_CLASS + 6, 'H'}, {NAN, TUI_CLASS, 'x'},
                                    {1.3, TUI_CLASS + 7, '.'}, {-4, TUI_CLASS, 'y'}};
    (void)state;
    for (int columns = 1; columns <= 200; columns++) {
        struct tui_rect r = surface(1, columns, TUI_ASCII);
        tui_stack(&sc, r, 0, 0, columns, part, 6);
        int cells[128] = {0};
        for (int x = 0; x < columns; x++)
            cells[sc.cell[x].glyph & 127]++;
        assert_int_equal(cells[' '] + cells['x'] + cells['y'], 0);
        for (size_t i = 0; i < 5; i++)
            if (i != 3)
                assert_true(fabs(cells[part[i].letter] - part[i].share / 100 * columns) < 1 + 1e-9);
        if (columns >= 40)
            assert_true(cells['.'] >= 1 && cells['C'] > cells['I'] && cells['I'] > cells['H']);
    }
    struct tui_rect r = surface(1, 5, TUI_ASCII);
    tui_stack(&sc, r, 0, 0, 5, part + 3, 1); /* nothing to show */
    check_row(0, "");
}

static void test_range_and_outliers(void **state)
{
    double v[100];
    struct tui_range g;
    (void)state;
    for (int i = 0; i < 100; i++)
        v[i] = 100 + i % 5;
    assert_true(tui_range_of(v, 100, &g));
    assert_true(g.low < 100 && g.high > 104 && g.limit > 104);
    double high = g.high;
    v[50] = 1000;
    v[51] = NAN;
    assert_true(tui_range_of(v, 100, &g));
    assert_true(g.high < 200 && g.limit < 1000 &&
                g.high > high); /* the outlier does not set the scale; there is head room */
    v[0] = INFINITY;
    assert_true(tui_range_of(v, 100, &g) && isfinite(g.high));
    double one = 0, none = NAN;
    assert_true(tui_range_of(&one, 1, &g) && g.high > g.low);
    assert_false(tui_range_of(&none, 1, &g));
    assert_false(tui_range_of(NULL, 0, &g));
    /* the outlier is a spike to the top, in the style of a warning */
    for (int glyphs = TUI_ASCII; glyphs <= TUI_BRAILLE; glyphs++) {
        struct tui_rect r = surface(3, 100, (enum tui_glyphs)glyphs);
        v[0] = 100;
        v[51] = 100;
        tui_range_of(v, 100, &g);
        struct tui_samples all = tui_samples_of(v, 100, 0);
        tui_trend(&sc, r, &all, g, TUI_SERIES);
        int warned = 0;
        for (int x = 0; x < 100; x++)
            warned += sc.cell[x].style == TUI_WARN && sc.cell[x].glyph != ' ';
        assert_int_equal(warned, 1);
        assert_int_equal(sc.cell[50].style, TUI_WARN);
    }
}

/* Merging many values into few columns loses no outlier. */
static void test_merging_keeps_outliers(void **state)
{
    enum { N = 4096 };
    static double v[N];
    struct tui_range g;
    (void)state;
    for (int i = 0; i < N; i++)
        v[i] = 10 + (i % 7) * 0.01;
    v[1234] = 30;
    for (int columns = 3; columns < 200; columns += 13) {
        struct tui_rect r = surface(1, columns, TUI_BRAILLE);
        tui_range_of(v, N, &g);
        struct tui_samples all = tui_samples_of(v, N, 0);
        tui_trend(&sc, r, &all, g, TUI_SERIES);
        int warned = 0;
        for (int x = 0; x < columns; x++)
            warned += sc.cell[x].style == TUI_WARN;
        assert_int_equal(warned, 1);
    }
}

/* A picture that grows: what was drawn stays where it was until its room doubles, so that hardly
 * anything has to be sent. */
static void test_growth_stands_still(void **state)
{
    enum { COLUMNS = 60, N = 64 };
    static struct tui_cell before[3 * COLUMNS];
    double v[N];
    (void)state;
    for (int i = 0; i < N; i++)
        v[i] = 50 + (i * 7 % 5);
    assert_true(tui_slots(33, true) == N && tui_slots(N, true) == N &&
                tui_slots(N + 1, true) == 2 * N && tui_slots(33, false) == 33);
    for (int glyphs = TUI_ASCII; glyphs <= TUI_BRAILLE; glyphs++)
        for (size_t n = N / 2 + 1; n <= N; n++) {
            struct tui_rect r = surface(3, COLUMNS, (enum tui_glyphs)glyphs);
            struct tui_samples s = tui_samples_of(v, n, tui_slots((double)n, true));
            struct tui_range g;
            assert_true(tui_range_of(v, n, &g));
            tui_range_settle(&g);
            tui_trend(&sc, r, &s, g, TUI_SERIES);
            int end = (int)((double)(n - 1) * COLUMNS / N),
                first = (int)((double)n * COLUMNS / N) + 1;
            for (int row = 0; row < 3; row++)
                for (int x = 0; x < COLUMNS; x++) {
                    if (n > N / 2 + 1 && x < end - 1)
                        assert_int_equal(sc.cell[row * COLUMNS + x].glyph,
                                         before[row * COLUMNS + x].glyph);
                    if (x > first)
                        assert_int_equal(sc.cell[row * COLUMNS + x].glyph, ' ');
                }
            memcpy(before, sc.cell, sizeof before);
        }
}

/* Values that say where they are stand there: nothing before the first one, the last one before a
 * gap is held. */
static void test_samples_have_places(void **state)
{
    const double x[] = {2, 3, 8}, v[] = {1, 5, 1};
    const struct tui_samples s = {v, x, 3, 0, 10, 9};
    struct tui_rect r = surface(1, 10, TUI_BLOCK);
    (void)state;
    tui_spark(&sc, r, 0, 0, 10, &s, 0, 5, TUI_SERIES);
    static const uint32_t want[] = {' ',    ' ',    0x2582, 0x2588, 0x2588,
                                    0x2588, 0x2588, 0x2588, 0x2582, ' '};
    for (int i = 0; i < 10; i++)
        assert_int_equal(sc.cell[i].glyph, want[i]);
}

static void check_ticks(double low, double high, bool log, size_t most, const char *want)
{
    struct tui_axis a = {.low = low, .high = high, .log = log};
    double tick[16];
    char text[300] = "";
    size_t n = tui_ticks(&a, most, tick), used = 0;
    assert_true(n <= most);
    for (size_t i = 0; i < n; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%g", i ? " " : "", tick[i]);
    assert_string_equal(text, want);
}

static void test_ticks(void **state)
{
    (void)state;
    check_ticks(0, 100, false, 6, "0 20 40 60 80 100");
    check_ticks(0, 100, false, 3, "0 50 100");
    check_ticks(-0.3, 0.31, false, 5, "-0.2 0 0.2");
    check_ticks(9.7, 12.1, false, 4, "10 11 12");
    check_ticks(1e-9, 3e-9, false, 4, "1e-09 2e-09 3e-09");
    check_ticks(0.1, 1000, true, 9, "0.1 1 10 100 1000");
    check_ticks(0.1, 1000, true, 3, "0.1 10 1000");
    check_ticks(21, 24.9, false, 3, "22 24"); /* no multiple of 5 lies there */
    check_ticks(21, 24.9, false, 2, "22 24");
    check_ticks(0.155, 0.16, false, 3, "0.156 0.158 0.16");
    check_ticks(2, 9, true, 4, "");
    check_ticks(5, 5, false, 4, "");
    check_ticks(NAN, 5, false, 4, "");
    check_ticks(-1, 5, true, 4, "");
    check_ticks(0, 1, false, 0, "");
}

static const char *plain(char *buf, double v)
{
    return page_number(buf, v);
}

static void test_plot(void **state)
{
    (void)state;
    struct tui_rect r = surface(8, 40, TUI_ASCII);
    struct tui_axis x = {.low = 1, .high = 1000, .log = true, .text = plain, .name = "x"};
    struct tui_axis y = {.low = 1, .high = 1000, .log = true, .text = plain, .name = "y"};
    struct tui_plot p = tui_plot_open(&sc, r, x, y);
    tui_plot_line(&p, 1, 1, 1000, 1000, TUI_SERIES);
    assert_true(tui_plot_mark(&p, 1000, 1, TUI_BOLD, 'A'));
    assert_false(tui_plot_mark(&p, 1001, 1, TUI_BOLD, 'B'));
    assert_false(tui_plot_mark(&p, 0, 1, TUI_BOLD, 'B'));
    assert_false(tui_plot_mark(&p, NAN, 1, TUI_BOLD, 'B'));
    char *text = tui_dump(&sc);
    assert_string_equal(text, "y\n"
                              "1000+                              ...''\n"
                              "    |                        ...'''\n"
                              " 100+                  ...'''\n"
                              "  10+           ...''''\n"
                              "    |     ...'''\n"
                              "   1+..'''                             A\n"
                              "     1         10          100         x\n");
    free(text);
}

/* No size, no value, no axis makes it write outside or crash. */
static void test_every_size(void **state)
{
    static const double values[] = {0, 1, -1, NAN, INFINITY, -INFINITY, 1e308, -1e308, 5e-324, 7};
    const size_t n = sizeof values / sizeof *values;
    const struct tui_samples all = tui_samples_of(values, n, 0),
                             odd = {values, values, n, NAN, INFINITY, NAN};
    (void)state;
    for (int rows = 0; rows <= 12; rows++)
        for (int columns = 0; columns <= 60; columns += columns < 20 ? 1 : 7)
            for (int glyphs = TUI_ASCII; glyphs <= TUI_BRAILLE; glyphs++) {
                struct tui_rect inside = {1, 2, rows, columns};
                surface(rows + 2, columns + 4, (enum tui_glyphs)glyphs);
                struct tui_range g;
                if (tui_range_of(values, n, &g))
                    tui_trend(&sc, inside, &all, g, TUI_SERIES);
                tui_range_settle(&g);
                tui_trend(&sc, inside, &odd, g, TUI_SERIES);
                tui_check_surface(&sc, &inside);
                tui_cells_clear(&sc, inside);
                for (size_t i = 0; i < n; i++)
                    for (size_t k = 0; k < n; k++) {
                        struct tui_axis x = {values[i], values[k], false, plain, "x"},
                                        y = {values[k], values[i], i % 2, plain, "y"};
                        struct tui_plot p = tui_plot_open(&sc, inside, x, y);
                        tui_plot_line(&p, values[i], values[k], values[k], values[(i + k) % n],
                                      TUI_SERIES);
                        tui_plot_mark(&p, values[k], values[i], TUI_SERIES, 'A');
                        tui_plot_trend(&p, &all, values[i], TUI_SERIES);
                        tui_bar(&sc, inside, (int)i, (int)k, columns, values[i], TUI_SERIES);
                        tui_heat(&sc, inside, (int)i, (int)k, values[i]);
                        tui_level(&sc, inside, (int)i, (int)k, values[i], TUI_SERIES);
                        tui_spark(&sc, inside, (int)i, 0, columns, &all, values[i], values[k],
                                  TUI_SERIES);
                    }
                tui_check_surface(&sc, &inside);
            }
    tui_cells_free(&sc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_dots),
                                       cmocka_unit_test(test_bars),
                                       cmocka_unit_test(test_stack),
                                       cmocka_unit_test(test_range_and_outliers),
                                       cmocka_unit_test(test_merging_keeps_outliers),
                                       cmocka_unit_test(test_growth_stands_still),
                                       cmocka_unit_test(test_samples_have_places),
                                       cmocka_unit_test(test_ticks),
                                       cmocka_unit_test(test_plot),
                                       cmocka_unit_test(test_every_size)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
