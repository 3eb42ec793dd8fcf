/* SPDX-License-Identifier: Apache-2.0
 *
 * What keys do to the dashboard, apart from any terminal; what is kept of it in the file of
 * options.
 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tui/config.h"
#include "tui/keys.h"
#include "tui/views.h"

static struct tui_view_state *state_of(struct tui_ui *ui)
{
    return &ui->state[ui->view];
}

static void type(struct tui_ui *ui, const char *text)
{
    for (; *text; text++)
        tui_ui_key(ui, *text);
}

static int view_named(const char *name)
{
    int i = tui_view_of(name);
    assert_true(i >= 0);
    return i;
}

static void test_views(void **state)
{
    struct tui_ui ui;
    int n = 0;
    (void)state;
    tui_ui_init(&ui);
    for (int i = 0; tui_views[i]; i++, n++) {
        assert_int_equal(tui_ui_key(&ui, tui_views[i]->key), TUI_OPTIONS);
        assert_int_equal(ui.view, i);
        for (int k = 0; k < i; k++)
            assert_int_not_equal(tui_views[k]->key, tui_views[i]->key);
        assert_null(
            strchr("q?jkgGnNs<>I+-=0m/\\[]{}ewtuMr ", tui_views[i]->key)); /* the frame's own */
    }
    assert_true(n >= 10);
    tui_ui_key(&ui, TUI_KEY_TAB);
    assert_int_equal(ui.view, 0);
    tui_ui_key(&ui, TUI_KEY_BACK_TAB);
    assert_int_equal(ui.view, n - 1);
}

static void test_frame(void **state)
{
    struct tui_ui ui;
    (void)state;
    tui_ui_init(&ui);
    assert_int_equal(tui_ui_key(&ui, 'q'), TUI_QUIT);
    assert_int_equal(tui_ui_key(&ui, ' '), TUI_PAUSE);
    assert_true(ui.paused);
    tui_ui_key(&ui, ' ');
    assert_false(ui.paused);
    assert_int_equal(tui_ui_key(&ui, 'e'), TUI_EXPORT);
    assert_int_equal(tui_ui_key(&ui, 'r'), TUI_REFRESH);
    assert_int_equal(tui_ui_key(&ui, '{'), TUI_EARLIER);
    assert_int_equal(tui_ui_key(&ui, '}'), TUI_LATER);
    for (int i = 0; i < TUI_THEMES; i++)
        assert_int_equal(tui_ui_key(&ui, 't'), TUI_OPTIONS);
    assert_int_equal(ui.theme, TUI_THEME_DARK);
    tui_ui_key(&ui, 'u');
    assert_int_equal(ui.glyphs, TUI_BLOCK);
    tui_ui_key(&ui, 'u');
    tui_ui_key(&ui, 'u');
    assert_int_equal(ui.glyphs, TUI_BRAILLE);
    ui.glyphs = ui.glyphs_most = TUI_ASCII; /* a locale without UTF-8 */
    tui_ui_key(&ui, 'u');
    assert_int_equal(ui.glyphs, TUI_ASCII);
    tui_ui_key(&ui, '?');
    assert_true(ui.help);
    tui_ui_key(&ui, TUI_KEY_DOWN);
    assert_int_equal(ui.help_top, 1);
    assert_true(ui.help);
    tui_ui_key(&ui, TUI_KEY_ESCAPE);
    assert_false(ui.help);
}

static void test_movement(void **state)
{
    struct tui_ui ui;
    (void)state;
    tui_ui_init(&ui);
    ui.view = view_named("ops");
    struct tui_view_state *s = state_of(&ui);
    tui_ui_key(&ui, TUI_KEY_UP);
    assert_int_equal(s->cursor, 0);
    type(&ui, "jjjk");
    assert_int_equal(s->cursor, 2);
    s->page = 10;
    tui_ui_key(&ui, TUI_KEY_PAGE_DOWN);
    assert_int_equal(s->cursor, 11);
    tui_ui_key(&ui, 'G');
    assert_int_equal(s->cursor, INT_MAX);
    tui_ui_key(&ui, 'j');
    assert_int_equal(s->cursor, INT_MAX); /* no overflow */
    tui_state_clamp(s, 30, 10);
    assert_int_equal(s->cursor, 29);
    assert_int_equal(s->top, 20);
    tui_state_clamp(s, 0, 10);
    assert_int_equal(s->cursor, 0);
    assert_int_equal(s->top, 0);
    tui_ui_key(&ui, 's');
    tui_ui_key(&ui, '>');
    tui_ui_key(&ui, '<');
    assert_int_equal(s->sort, 1);
    tui_ui_key(&ui, 'I');
    assert_true(s->reversed);
}

static void test_zoom(void **state)
{
    struct tui_view_state *s;
    struct tui_ui ui;
    (void)state;
    tui_ui_init(&ui);
    ui.view = view_named("timeline");
    s = state_of(&ui);
    tui_ui_key(&ui, '-');
    assert_true(s->zoom >= 1);
    for (int i = 0; i < 20; i++)
        tui_ui_key(&ui, '+');
    assert_true(s->zoom <= 4096);
    for (int i = 0; i < 100000 && s->pan < 1; i++)
        tui_ui_key(&ui, TUI_KEY_RIGHT);
    assert_true(s->pan >= 0.999 &&
                s->pan <=
                    1); /* an eighth of what is visible at a time, to the end and no further */
    tui_ui_key(&ui, '0');
    assert_true(s->zoom >= 1 && s->zoom < 1.001 && s->pan < 0.001);
}

static void test_words(void **state)
{
    struct tui_ui ui;
    (void)state;
    tui_ui_init(&ui);
    ui.view = view_named("ops");
    struct tui_view_state *s = state_of(&ui);
    tui_ui_key(&ui, '/');
    assert_int_equal(ui.prompt, TUI_ASK_SEARCH);
    type(&ui, "maq"); /* q is a letter here */
    tui_ui_key(&ui, TUI_KEY_BACKSPACE);
    tui_ui_key(&ui, 't');
    tui_ui_key(&ui, 0xb5); /* a character of two bytes goes in, and out, whole */
    assert_string_equal(ui.input, "mat\xc2\xb5");
    tui_ui_key(&ui, TUI_KEY_BACKSPACE);
    tui_ui_key(&ui, TUI_KEY_ENTER);
    assert_string_equal(s->search, "mat");
    assert_int_equal(s->seek, 1);
    tui_ui_key(&ui, 'N');
    assert_int_equal(s->seek, -1);
    tui_ui_key(&ui, '\\');
    type(&ui, "gelu");
    tui_ui_key(&ui, TUI_KEY_ESCAPE);
    assert_string_equal(s->filter, "");
    tui_ui_key(&ui, '\\');
    for (int i = 0; i < 200; i++)
        tui_ui_key(&ui, 'x'); /* no more than fits */
    tui_ui_key(&ui, TUI_KEY_ENTER);
    assert_int_equal(strlen(s->filter), TUI_WORDS - 1);
    tui_ui_key(&ui, TUI_KEY_ESCAPE);
    assert_string_equal(s->search, "");
    assert_int_equal(strlen(s->filter), TUI_WORDS - 1);
    tui_ui_key(&ui, TUI_KEY_ESCAPE);
    assert_string_equal(s->filter, "");
    assert_true(tui_holds("Ampere_SGEMM", "sgemm"));
    assert_true(tui_holds("x", ""));
    assert_false(tui_holds("", "x"));
    ui.view = view_named("overview"); /* has no rows to search in */
    tui_ui_key(&ui, '/');
    assert_int_equal(ui.prompt, tui_views[ui.view]->searches ? TUI_ASK_SEARCH : TUI_NO_PROMPT);
}

/* From the first screen to the card of the first finding; a search where there is nothing to search
 * says so. */
static void test_ways_in(void **state)
{
    struct tui_ui ui;
    (void)state;
    tui_ui_init(&ui);
    tui_ui_key(&ui, TUI_KEY_ENTER);
    assert_int_equal(ui.view, view_named("findings"));
    assert_true(ui.state[ui.view].open);
    tui_ui_key(&ui, 'j');
    assert_int_equal(ui.state[ui.view].span, 1); /* through the card, not to the next one */
    assert_int_equal(ui.state[ui.view].cursor, 0);
    tui_ui_key(&ui, ']');
    assert_int_equal(ui.state[ui.view].cursor, 1);
    assert_int_equal(ui.state[ui.view].span, 0);
    tui_ui_key(&ui, TUI_KEY_ESCAPE);
    assert_false(ui.state[ui.view].open);
    tui_ui_key(&ui, 'j');
    assert_int_equal(ui.state[ui.view].cursor, 2);
    tui_ui_key(&ui, '1');
    tui_ui_key(&ui, '/');
    assert_int_equal(ui.prompt, TUI_NO_PROMPT);
    assert_non_null(strstr(ui.note, "overview has no rows to search"));
    tui_ui_key(&ui, '6');
    tui_ui_key(&ui, '/');
    assert_int_equal(ui.prompt, TUI_ASK_SEARCH);
}

static void test_options_are_kept(void **state)
{
    char folder[512], path[600];
    struct tui_ui ui, began, again;
    const char *temporary = getenv("TMPDIR");
    (void)state;
    snprintf(folder, sizeof folder, "%s/tacho-top-XXXXXX",
             temporary && *temporary ? temporary : "/tmp");
    assert_non_null(mkdtemp(folder));
    setenv("XDG_CONFIG_HOME", folder, 1);
    tui_ui_init(&again);
    tui_config_read(&again); /* there is none */
    assert_int_equal(again.theme, TUI_THEME_DARK);
    tui_ui_init(&ui);
    tui_ui_init(&began);
    ui.theme = TUI_THEME_LIGHT;
    ui.glyphs = TUI_BLOCK;
    ui.mouse = true;
    ui.view = view_named("memory");
    assert_int_equal(tui_config_write(&ui, &began, path, sizeof path), 0);
    tui_config_read(&again);
    assert_int_equal(again.theme, TUI_THEME_LIGHT);
    assert_int_equal(again.glyphs, TUI_BLOCK);
    assert_true(again.mouse);
    assert_int_equal(again.view, 0); /* the next start shows the first screen */
    began = ui; /* a locale without UTF-8 and --view gave these: no key did, they are not kept */
    began.glyphs = TUI_ASCII;
    began.view = view_named("loader");
    ui = began;
    ui.theme = TUI_THEME_MONO;
    assert_int_equal(tui_config_write(&ui, &began, path, sizeof path), 0);
    tui_config_read(&again);
    assert_int_equal(again.theme, TUI_THEME_MONO);
    assert_int_equal(again.glyphs, TUI_BLOCK);
    FILE *f = fopen(path, "w"); /* of somebody else: what is not understood changes nothing */
    assert_non_null(f);
    fputs("theme = purple\nglyphs\n= = =\nview = memory\n\xff\xfe\n", f);
    fclose(f);
    tui_ui_init(&again);
    tui_config_read(&again);
    assert_int_equal(again.theme, TUI_THEME_DARK);
    assert_int_equal(again.view, view_named("memory"));
    unlink(path);
    *strrchr(path, '/') = 0;
    rmdir(path);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_views),    cmocka_unit_test(test_frame),
        cmocka_unit_test(test_movement), cmocka_unit_test(test_zoom),
        cmocka_unit_test(test_words),    cmocka_unit_test(test_options_are_kept),
        cmocka_unit_test(test_ways_in)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
