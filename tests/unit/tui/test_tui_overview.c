/* SPDX-License-Identifier: Apache-2.0
 *
 * The first screen of `tacho top`, drawn without a terminal: what it says at which size, in which
 * order, and that it says when the pace changes.
 */
#include <ctype.h>

#include "tui/frame.h"
#include "tui/views/step_change.h"
#include "tui_screens.h"

/* The first screen says what holds the run back: the class of the bar, the line of the part, what
 * to do about it. */
static void test_first_screen(void **state)
{
    struct fixture fx;
    struct an_result r;
    struct tui_model m;
    const struct tui_view *v = view_of("overview");
    struct tui_view_state s = fresh;
    (void)state;
    tm_training(&fx, &r, &m);
    r.finding_count = 0;
    r.healthy = true;
    draw(v, &m, &s, 19, 80, TUI_ASCII);
    char *text = tui_dump(&sc);
    assert_non_null(strstr(text, "Healthy"));
    assert_non_null(strstr(text, "forward         8.7 ms"));
    free(text);
    tm_findings(&r);
    r.budget.pct[AN_CLASS_INPUT] = an_num(31);
    r.budget.pct[AN_CLASS_COMPUTE] = an_num(62);
    for (int rows = 8; rows <= 24; rows++) {
        draw(v, &m, &s, rows, 80, TUI_ASCII);
        text = tui_dump(&sc);
        bool rows_of_step = rows >= 15; /* else a bar of letters with a legend */
        const char *const want[] = {rows_of_step ? "data wait" : "I input 31 %", "INPUT_STALL",
                                    "+41 %", "--workers 2",
                                    rows_of_step ? " 31.0 % " : "IIIIIIIIIIIIIII"};
        for (size_t i = 0; i < TM_COUNT(want); i++)
            if (!strstr(text, want[i]))
                fail_msg("no %s in %d rows:\n%s", want[i], rows, text);
        free(text);
    }
    fx_close(&fx);
    tm_gpu(&r, &m);
    draw(v, &m, &s, 19, 80, TUI_BRAILLE);
    text = tui_dump(&sc);
    assert_non_null(strstr(text, "exposed comm"));
    assert_true(strstr(text, " comm ") && strstr(text, "EXPOSED_COMM"));
    free(text);
}

/* How many labels a y axis in ASCII has: "25 ms+". */
static int labels_of(const char *text)
{
    int labels = 0;
    for (size_t i = 1; text[i]; i++)
        labels += text[i] == '+' && isalnum((unsigned char)text[i - 1]);
    return labels;
}

/* At 80x24 the curve of the steps has both axes, however few rows the other panels leave it and
 * wherever its values lie. */
static void test_overview_axes(void **state)
{
    static const double ms[] = {21.2, 24.8, 52.1, 59.7, 155, 160, 1004};
    struct fixture fx;
    struct an_result r;
    struct tui_model m;
    (void)state;
    tm_training(&fx, &r, &m);
    tm_findings(&r);
    r.caution = "SHARED MACHINE: other programs used 1.4 of 2 CPUs while these steps ran: what "
                "that cost stands below as compute.";
    assert_non_null(tui_model_series(&m, "loss"));
    for (size_t i = 0; i + 1 < TM_COUNT(ms); i++) {
        struct an_step_point point[40];
        for (size_t k = 0; k < 40; k++)
            point[k] = (struct an_step_point){
                .index = (int64_t)k, .steps = 1, .ms = ms[i + k % 2], .worst_ms = ms[i + k % 2]};
        m.step = point;
        m.step_count = 40;
        for (int rows = 15; rows <= 24; rows++) {
            char *text = seen("overview", &m, rows, 80);
            if (!labels_of(text) || !strstr(text, "step |"))
                fail_msg("%g to %g ms, %d rows:\n%s", ms[i], ms[i + 1], rows, text);
            free(text);
        }
    }
    fx_close(&fx);
}

/* The overview lists no finding that repeats another one, begins all actions in one column, and
 * gives no warning that its verdict is about. */
static void test_overview_short(void **state)
{
    struct fixture fx;
    struct an_result r;
    struct tui_model m;
    (void)state;
    tm_training(&fx, &r, &m);
    tm_findings(&r);
    struct an_finding three[3] = {r.findings[0], r.findings[1], r.findings[1]};
    three[1].repeats = three[0].id;
    three[2].id = "LOW_EFFICIENCY_GEMM";
    r.findings = three;
    r.finding_count = 3;
    char *text = seen("overview", &m, 24, 120);
    const char *first = strstr(text, " 1 INPUT_STALL"), *last = strstr(text, " 3 LOW_EFFI");
    assert_true(first && last && !strstr(text, "LOW_PRECISION"));
    assert_int_equal(strstr(first, "tacho train") - first, strstr(last, "tacho train") - last);
    free(text);
    r.caution = "SHARED MACHINE: other programs used 1.4 of 2 CPUs.";
    text = seen("overview", &m, 24, 80);
    assert_non_null(strstr(text, "SHARED MACHINE"));
    free(text);
    r.verdict = "OTHER PROGRAMS hold this run back: they used 1.4 of 2 CPUs.";
    text = seen("overview", &m, 24, 80);
    assert_null(strstr(text, "SHARED MACHINE"));
    free(text);
    m.window = "steps 12034 to 12870";
    m.pending = true;
    text = seen("overview", &m, 24, 120); /* a part, and what comes after it */
    assert_non_null(strstr(text, "analysed: steps 12034 to 12870  the whole run follows"));
    free(text);
    m.pending = false;
    r.loader = (struct an_loader){.wait_ms_per_step = an_num_none("the trace marks no loader")};
    m.series_count = 0;
    text = seen("loader", &m, 24, 80); /* never empty */
    assert_non_null(strstr(text, "No loader data: the trace marks no loader"));
    free(text);
    fx_close(&fx);
}

/* On a low and narrow screen the first thing to do comes right below the verdict, whole, and stays
 * longer than a doubt about the figures, which comes after it. */
static void test_overview_low(void **state)
{
    struct fixture fx;
    struct an_result r;
    struct tui_model m;
    struct tui_ui ui;
    (void)state;
    tm_training(&fx, &r, &m);
    tm_findings(&r);
    struct an_finding three[3] = {r.findings[0], r.findings[1], r.findings[1]};
    three[0].action = "load batches in workers: --workers 2 (2 keep up with the step)";
    three[2].id = "LOW_EFFICIENCY_GEMM";
    r.findings = three;
    r.finding_count = 3;
    r.verdict = "INPUT-BOUND: 38.2 % of every step is data wait, while 61.5 % computes, at 19.9 % "
                "of the fp32 peak (steps 1-98, medium confidence, short of cores).";
    r.caution = "SHARED MACHINE: other programs used 0.7 of 2 CPUs while these steps ran.";
    tui_ui_init(&ui);
    sc.glyphs = TUI_ASCII;
    for (int rows = 7; rows <= 16; rows++) {
        m.message = rows % 2 ? "the run ended" : ""; /* takes a row of the view */
        assert_int_equal(tui_cells_resize(&sc, rows, 40), 0);
        tui_frame_draw(&sc, &m, &ui);
        char *text = tui_dump(&sc);
        const char *verdict = strstr(text, "INPUT-BOUND: 38.2 %"),
                   *fix = strstr(text, "1 INPUT_STALL"), *what = strstr(text, "load batches"),
                   *gain = strstr(text, "+41 %"), *doubt = strstr(text, "SHARED MACHINE");
        if (!verdict || !fix || !gain || !what || verdict > fix || fix > gain || gain > what)
            fail_msg("%d rows: not the verdict and what to do:\n%s", rows, text);
        if (rows >= 10 && (!strstr(what, "--workers 2") || !doubt))
            fail_msg("%d rows: a part is missing:\n%s", rows, text);
        if (doubt && doubt < what)
            fail_msg("%d rows: the doubt comes first:\n%s", rows, text);
        free(text);
    }
    fx_close(&fx);
}

/* At 80x24 a long caution takes two rows at most, and the parts of the step come before curves of
 * the machine. Of a run that has ended nobody says that no step has ended yet. */
static void test_overview_middle(void **state)
{
    static const char *const parts[] = {"SHARED MACHINE", "forward", "data wait", "host, other"};
    struct fixture fx;
    struct an_result r;
    struct tui_model m, ended = {.state = TUI_ENDED,
                                 .run = "run",
                                 .message = "",
                                 .result_reason = "reading the run",
                                 .window = "",
                                 .last_index = -1};
    (void)state;
    tm_training(&fx, &r, &m);
    tm_findings(&r);
    r.caution =
        "SHARED MACHINE: other programs used 1.7 of 2 CPUs while these steps ran, and 51 % of "
        "the steps' time their thread waited for a core (run-queue wait): the lost time "
        "counts as compute or whatever else ran. Use free cores or a reserved node.";
    for (int rows = 15; rows <= 24; rows++) {
        char *text = seen("overview", &m, rows, 80);
        const char *row = text;
        for (int i = 0; i < 3; i++)
            row += strcspn(row, "\n") + 1;
        const char *first = strstr(text, "where a step goes");
        if (!first || first > row)
            fail_msg("%d rows: the caution takes more than two:\n%s", rows, text);
        for (size_t i = 0; i < TM_COUNT(parts); i++)
            if (!strstr(text, parts[i]))
                fail_msg("%d rows: no %s:\n%s", rows, parts[i], text);
        free(text);
    }
    char *text = seen("overview", &ended, 18, 80);
    assert_true(strstr(text, "reading the run") && !strstr(text, "no step has ended"));
    free(text);
    fx_close(&fx);
}

/* Operations that take next to nothing are not named, but counted with the rest. */
static void test_overview_operations(void **state)
{
    struct fixture fx;
    struct an_result r;
    struct tui_model m;
    struct an_op ops[64];
    (void)state;
    tm_training(&fx, &r, &m);
    assert_true(r.op_count && r.op_count < 64);
    memcpy(ops, r.ops, r.op_count * sizeof *ops);
    ops[r.op_count] = ops[0]; /* after the work of the model, the largest first */
    ops[r.op_count].name = "tiny";
    ops[r.op_count++].self_ns = 1;
    r.ops = ops;
    char *text = seen("overview", &m, 24, 120);
    const char *line = strstr(text, " ops ");
    assert_non_null(line);
    assert_non_null(strstr(line, "matmul.forward 70 %"));
    assert_null(strstr(line, "tiny"));
    free(text);
    fx_close(&fx);
}

/* A change of pace is found where it is, with what changed; noise, a slow start and slow steps are
 * none. */
static void test_step_change(void **state)
{
    static struct an_step_point step[300];
    struct tui_model model = {.last_index = -1};
    struct tui_change change;
    char text[200];
    (void)state;
    for (int i = 0; i < 300; i++) {
        double ms = 40 + (double)(i * 7919 % 13) * 0.3 + (i % 37 == 36 ? 30 : 0);
        step[i] = (struct an_step_point){
            .index = i, .steps = 1, .start_s = i * 0.05, .ms = i < 3 ? 200 : ms, .detailed = true};
        step[i].class_ms[AN_CLASS_COMPUTE] = ms;
    }
    assert_false(tui_change_find(&model, step, 300, &change));
    assert_false(tui_change_find(&model, step, 0, &change));
    assert_false(tui_change_find(&model, step, 10, &change));
    for (int i = 230; i < 300; i++) {
        step[i].ms += 42;
        step[i].class_ms[AN_CLASS_INPUT] = 42;
    }
    assert_true(tui_change_find(&model, step, 300, &change));
    assert_int_equal(change.index, 230);
    assert_int_equal(change.class, AN_CLASS_INPUT);
    tui_change_text(&change, "->", text);
    assert_non_null(strstr(text, "doubled at step 230"));
    assert_non_null(strstr(text, "data wait +42 ms"));
    for (int i = 270; i < 300; i++) /* and back: the newest change counts */
        step[i].ms -= 42;
    assert_true(tui_change_find(&model, step, 300, &change));
    assert_int_equal(change.index, 270);
    assert_non_null(strstr(tui_change_text(&change, "->", text), "halved"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_screen),    cmocka_unit_test(test_overview_axes),
        cmocka_unit_test(test_overview_short),  cmocka_unit_test(test_overview_low),
        cmocka_unit_test(test_overview_middle), cmocka_unit_test(test_overview_operations),
        cmocka_unit_test(test_step_change)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tui_cells_free(&sc);
    return failed;
}
