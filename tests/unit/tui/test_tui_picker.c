/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of runs: its cursor stays with a run while others come and go, keys move it from there,
 * and Enter takes the run that was drawn under it.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tui/data/runs.h"
#include "tui/picker.h"

/* The list as it is now, from names divided by blanks; draws it where `cells` is given. */
static const char *picked(struct tui_ui *ui, struct tui_cells *cells, const char *names)
{
    static char chosen[32];
    struct tui_runs runs = {0};
    char words[200], *rest = NULL;
    snprintf(words, sizeof words, "%s", names);
    for (char *name = strtok_r(words, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
        char state[] = "ended";
        struct tui_run run = {.run = name, .state = state, .step_ms = NAN};
        assert_int_equal(tui_runs_add(&runs, &run), 0);
    }
    struct tui_model model = {.runs = &runs};
    if (cells)
        tui_picker_draw(cells, (struct tui_rect){0, 0, 8, 80}, &model, ui);
    const char *run = tui_picker_run(&model, ui);
    snprintf(chosen, sizeof chosen, "%s", run ? run : "none");
    tui_runs_clear(&runs);
    return chosen;
}

static void test_stays_with_its_run(void **state)
{
    (void)state;
    struct tui_ui ui = {0};
    struct tui_cells cells = {0};
    assert_int_equal(tui_cells_resize(&cells, 8, 80), 0);
    assert_string_equal(picked(&ui, &cells, "a b c d"), "a");
    ui.picked.cursor = 2;
    assert_string_equal(picked(&ui, &cells, "a b c d"), "c");
    assert_string_equal(picked(&ui, NULL, "new a b c d"), "c"); /* Enter before the next picture */
    assert_string_equal(picked(&ui, &cells, "new a b c d"), "c");
    assert_int_equal(ui.picked.cursor, 3);
    ui.picked.cursor++; /* down, while two runs end */
    assert_string_equal(picked(&ui, NULL, "b c d"), "d");
    assert_string_equal(picked(&ui, &cells, "b c d"), "d");
    assert_string_equal(picked(&ui, &cells, "b c"), "c"); /* its run is gone: the last one */
    assert_string_equal(picked(&ui, &cells, ""), "none");
    assert_string_equal(picked(&ui, &cells, "x c"), "c");
    ui.picked.cursor = 0; /* the first one is the first one */
    assert_string_equal(picked(&ui, &cells, "new x c"), "new");
    tui_cells_free(&cells);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stays_with_its_run)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
