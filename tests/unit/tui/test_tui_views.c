/* SPDX-License-Identifier: Apache-2.0
 *
 * The views of `tacho top`, drawn without a terminal: golden screens (BLESS=1 writes them anew),
 * every size, hostile names, runs of which nothing is known, keys.
 */
#include <limits.h>

#include "tests/unit/reports/rep_golden.h"
#include "tui/views/memory_timeline.h"
#include "tui/views/view_list.h"
#include "tui_screens.h"

/* One letter a style: what colour and attributes will say. */
static void dump_styles(FILE *out)
{
    static const char letters[TUI_STYLES + 1] = ".d*TKS+!#P01234567abcdefghABCD";
    for (int y = 0; y < sc.rows; y++) {
        int last = -1;
        for (int x = 0; x < sc.columns; x++)
            last = sc.cell[y * sc.columns + x].glyph != ' ' || sc.cell[y * sc.columns + x].style
                       ? x
                       : last;
        for (int x = 0; x <= last; x++) {
            const struct tui_cell *at = &sc.cell[y * sc.columns + x];
            fputc(at->glyph == ' ' && !at->style ? '_' : letters[at->style], out);
        }
        fputc('\n', out);
    }
}

static void golden(const char *file, const struct tui_view *v, const struct tui_model *m,
                   struct tui_view_state state)
{
    static const struct {
        int rows, columns;
        enum tui_glyphs glyphs;
        const char *name;
    } screens[] = {{24, 80, TUI_BRAILLE, "braille"},  {24, 80, TUI_BLOCK, "block"},
                   {24, 80, TUI_ASCII, "ASCII"},      {10, 40, TUI_BRAILLE, "braille"},
                   {10, 40, TUI_BLOCK, "block"},      {10, 40, TUI_ASCII, "ASCII"},
                   {40, 120, TUI_BRAILLE, "braille"}, {50, 200, TUI_BRAILLE, "braille"}};
    char *text = NULL, name[100];
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    for (size_t i = 0; i < TM_COUNT(screens); i++) {
        struct tui_view_state s = state;
        draw(v, m, &s, screens[i].rows, screens[i].columns, screens[i].glyphs);
        tui_check_surface(&sc, NULL);
        char *screen = tui_dump(&sc);
        fprintf(out, "==== %s, %d x %d, %s\n%s", v->name, screens[i].columns, screens[i].rows,
                screens[i].name, screen);
        free(screen);
        if (!i) {
            fprintf(out, "---- styles\n");
            dump_styles(out);
        }
    }
    fclose(out);
    snprintf(name, sizeof name, "top_%s.txt", file);
    check_golden(name, text);
    free(text);
}

static void test_golden_screens(void **state)
{
    struct fixture fx;
    struct an_result r;
    struct tui_model m;
    (void)state;
    tm_training(&fx, &r, &m);
    for (size_t i = 0; tui_views[i]; i++)
        golden(tui_views[i]->name, tui_views[i], &m, fresh);
    golden("ops_tree", view_of("ops"), &m, (struct tui_view_state){.zoom = 2, .mode = 1});
    golden("ops_open", view_of("ops"), &m,
           (struct tui_view_state){.zoom = 1, .open = true, .cursor = 1, .sort = 2, .filter = "a"});
    golden("timeline_open", view_of("timeline"), &m,
           (struct tui_view_state){
               .zoom = 4, .pan = 0.5, .mode = 1, .span = 1, .open = true, .cursor = 1});
    tm_findings(&r);
    golden("findings_two", view_of("findings"), &m, fresh);
    golden("overview_two", view_of("overview"), &m, fresh);
    r.caution = "SHARED MACHINE: other programs used 1.4 of 2 CPUs while these steps ran: what "
                "that cost stands below as compute.";
    golden("overview_caution", view_of("overview"), &m, fresh);
    fx_close(&fx);
}

static void test_golden_gpu(void **state)
{
    static const char *const views[] = {"overview", "ranks", "ops", "system", "devices", "trust"};
    struct an_result r;
    struct tui_model m;
    (void)state;
    tm_gpu(&r, &m);
    for (size_t i = 0; i < TM_COUNT(views); i++) {
        char name[64];
        snprintf(name, sizeof name, "gpu_%s", views[i]);
        golden(name, view_of(views[i]), &m, fresh);
    }
    golden("gpu_ops_by_op", view_of("ops"), &m, (struct tui_view_state){.zoom = 1, .mode = 2});
}

/* Where a part is absent the view says why. */
static void test_nothing_known(void **state)
{
    struct fixture fx;
    struct an_result r;
    struct tui_model m, opening = {.run = "run",
                                   .message = "",
                                   .result_reason = "reading the run",
                                   .window = "",
                                   .last_index = -1};
    (void)state;
    tm_nothing(&fx, &r, &m);
    for (size_t i = 0; tui_views[i]; i++) {
        struct tui_view_state s = fresh;
        char name[64];
        snprintf(name, sizeof name, "nothing_%s", tui_views[i]->name);
        golden(name, tui_views[i], &m, fresh);
        draw(tui_views[i], &opening, &s, 24, 80, TUI_BRAILLE);
        char *text = tui_dump(&sc);
        if (strcmp(tui_views[i]->name, "system") && !strstr(text, "reading the run"))
            fail_msg("%s does not say that the run is being read:\n%s", tui_views[i]->name, text);
        free(text);
    }
    fx_close(&fx);
}

/* Every size: nothing is written outside of the rectangle, and only what a terminal may get. Half
 * of the sizes, as on the squares of one colour of a chess board, in turn with the other half: each
 * is drawn for every other model and state. */
static void every_size(const struct tui_model *m, struct tui_view_state state, int most_rows,
                       int most_columns)
{
    static int turn;
    turn++;
    for (size_t i = 0; tui_views[i]; i++)
        for (int rows = 1; rows <= most_rows; rows += rows < 12 ? 1 : 7)
            for (int columns = 1; columns <= most_columns; columns += columns < 24    ? 1
                                                                      : columns < 130 ? 9
                                                                                      : 41) {
                if ((rows + columns + turn) % 2)
                    continue;
                struct tui_view_state s = state;
                struct tui_rect inside = {2, 3, rows, columns};
                sc.glyphs = (enum tui_glyphs)((rows + columns) % 3);
                assert_int_equal(tui_cells_resize(&sc, rows + 4, columns + 6), 0);
                tui_views[i]->draw(&sc, inside, m, &s);
                tui_check_surface(&sc, &inside);
            }
}

static void test_every_size(void **state)
{
    struct fixture fx;
    struct an_result r;
    struct tui_model m, opening = {.run = "run",
                                   .message = "",
                                   .result_reason = "reading the run",
                                   .window = "",
                                   .last_index = -1};
    (void)state;
    tm_training(&fx, &r, &m);
    every_size(&m, fresh, 60, 300);
    tm_findings(&r);
    every_size(&m,
               (struct tui_view_state){.zoom = 64,
                                       .pan = 0.9,
                                       .open = true,
                                       .cursor = INT_MAX,
                                       .sort = -3,
                                       .mode = -1,
                                       .span = -7,
                                       .seek = 1,
                                       .search = "a",
                                       .reversed = true},
               40, 130);
    fx_close(&fx);
    tm_gpu(&r, &m);
    every_size(&m, fresh, 60, 300);
    every_size(&m,
               (struct tui_view_state){
                   .zoom = 1, .mode = 3, .cursor = 2, .open = true, .filter = "no such row"},
               30, 130);
    tm_nothing(&fx, &r, &m);
    every_size(&m, fresh, 30, 130);
    fx_close(&fx);
    every_size(&opening, fresh, 10, 60);
}

/* Names of ranges, tracks, counters, ranks that try to break out, and extreme numbers. */
static void test_hostile_names(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_hostile(f);
    struct an_result r = *fx_analyze(f);
    struct tui_model m = {.run = tui_hostile(0),
                          .message = tui_hostile(1),
                          .result = &r,
                          .result_reason = "",
                          .window = tui_hostile(2)};
    static struct tui_series series[TUI_HOSTILE_COUNT];
    static const double time_s[] = {0, 0, 1e300}, value[] = {-1e308, NAN, 1e308};
    tm_steps(&m, 3);
    tm_timeline(&r);
    tm_heat(&r);
    for (int i = 0; i < TUI_HOSTILE_COUNT; i++)
        series[i] = (struct tui_series){.name = i ? tui_hostile(i) : "loss",
                                        .unit = tui_hostile((i + 1) % TUI_HOSTILE_COUNT),
                                        .device = tui_hostile((i + 2) % TUI_HOSTILE_COUNT),
                                        .host = "",
                                        .time_s = time_s,
                                        .value = value,
                                        .count = 3,
                                        .last = 1e308};
    m.series = series;
    m.series_count = TUI_HOSTILE_COUNT;
    static struct an_flame_row flame[TUI_HOSTILE_COUNT + 1] = {{"all", 0, 0, 0}};
    for (uint32_t i = 1; i <= TUI_HOSTILE_COUNT; i++)
        flame[i] = (struct an_flame_row){tui_hostile((int)i - 1), i - 1, INT64_MAX, INT64_MIN};
    r.flame = (struct an_flame){
        .source = tui_hostile(3), .row = flame, .row_count = TUI_HOSTILE_COUNT + 1};
    every_size(&m, fresh, 60, 300);
    every_size(
        &m,
        (struct tui_view_state){
            .zoom = 4096, .pan = 1, .mode = 1, .open = true, .cursor = 3, .filter = "\xff\x1b"},
        30, 130);
    every_size(&m, (struct tui_view_state){.zoom = 4096, .mode = 1, .open = true, .cursor = 3}, 30,
               130);
    fx_close(f);
}

/* Where a search goes in a view without a table. */
static void check_search(const char *view, const char *words, const struct tui_model *m, int cursor,
                         const char *seen)
{
    struct tui_view_state s = {.zoom = 1, .seek = 1};
    snprintf(s.search, sizeof s.search, "%s", words);
    draw(view_of(view), m, &s, 14, 100, TUI_BRAILLE);
    assert_int_equal(s.seek, 0);
    assert_int_equal(s.cursor, cursor);
    char *text = tui_dump(&sc);
    assert_non_null(strstr(text, seen));
    free(text);
}

/* Every view but the overview can be searched: findings by their words, counters by both of their
 * names, tracks by the ranges on them. What is not there leaves the cursor where it is. */
static void test_search(void **state)
{
    struct fixture fx;
    struct an_result r;
    struct tui_model m;
    (void)state;
    for (int i = 0; tui_views[i]; i++)
        assert_true(tui_views[i]->searches || tui_views[i]->texts ||
                    !strcmp(tui_views[i]->name, "overview"));
    tm_training(&fx, &r, &m);
    tm_findings(&r);
    check_search("findings", "lm head", &m, 1, "the LM head runs in fp32");
    check_search("findings", "no such words", &m, 0, "the step waits 331 ms");
    check_search("timeline", "matmul", &m, 1, "main: 40 in the window");
    check_search("timeline", "collate", &m, 2, "loader-0: 8 in the window");
    check_search("timeline", "no such range", &m, 0, "main: 3 in the window");
    struct tui_view_state s = {.zoom = 1, .seek = 1, .search = "resident"};
    draw(view_of("system"), &m, &s, 9, 100, TUI_BRAILLE);
    assert_int_equal(s.found, 3); /* cpu_busy, cpu_time, rss */
    s.seek = 1;
    snprintf(s.search, sizeof s.search, "LEARNING_rate");
    draw(view_of("system"), &m, &s, 9, 100, TUI_BRAILLE);
    char *text = tui_dump(&sc);
    assert_non_null(strstr(text, "learning rate"));
    free(text);
    int found = s.found;
    s.seek = 1;
    snprintf(s.search, sizeof s.search, "no such counter");
    draw(view_of("system"), &m, &s, 9, 100, TUI_BRAILLE);
    assert_int_equal(s.found, found);
    fx_close(&fx);
}

/* Of several ranks the number comes first, so that a label that is cut still has it. */
static void test_rank_labels(void **state)
{
    struct fixture fx;
    struct an_result r;
    struct tui_model m;
    struct tui_view_state s = fresh;
    (void)state;
    tm_training(&fx, &r, &m);
    struct an_timeline_track track[4];
    struct an_timeline_step step = r.timeline.step[0];
    memcpy(track, step.track, sizeof track);
    track[0].rank = track[1].rank = 41;
    step.track = track;
    r.timeline = (struct an_timeline){NULL, &step, 1};
    draw(view_of("timeline"), &m, &s, 10, 40, TUI_BRAILLE);
    char *text = tui_dump(&sc);
    assert_non_null(strstr(text, "a r41 ma"));
    free(text);
    fx_close(&fx);
}

/* mpirun is a process without a rank: the overview shows the counters of the first rank and says
 * so, and the system's view shows those of mpirun last. */
static void test_launcher(void **state)
{
    struct fixture fx;
    struct an_result r;
    struct tui_model m;
    struct tui_view_state s = fresh;
    static const double seconds[] = {0, 1, 2}, idle[] = {0, 1e7, 2e7}, busy[] = {0, 7e8, 14e8};
    static const struct tui_series series[] = {
        {"cpu_time", "ns", "", "", -1, 7292, seconds, idle, 3, 2e7},
        {"cpu_time", "ns", "", "", 0, 7300, seconds, busy, 3, 14e8},
        {"cpu_time", "ns", "", "", 1, 7301, seconds, busy, 3, 14e8},
        {"cpu_wait", "ns", "", "", 0, 7300, seconds, busy, 3, 14e8},
    };
    (void)state;
    tm_training(&fx, &r, &m);
    m.series = series;
    m.series_count = TM_COUNT(series);
    m.now_s = 2;
    draw(view_of("system"), &m, &s, 20, 100, TUI_BRAILLE);
    char *text = tui_dump(&sc), *launcher = strstr(text, "run's CPU pid 7292"),
         *wait = strstr(text, "core wait");
    assert_non_null(strstr(text, "run's CPU r1"));
    assert_true(launcher && wait && wait < launcher);
    assert_true(strstr(wait, "70 %") && strstr(wait, "70 %") < launcher);
    free(text);
    draw(view_of("overview"), &m, &s, 50, 200, TUI_BRAILLE);
    text = tui_dump(&sc);
    assert_non_null(strstr(text, "run's CPU r0"));
    assert_null(strstr(text, "7292"));
    free(text);
    fx_close(&fx);
}

/* What keys do to a table: sort, turn round, filter, search, and the cursor keeps to the rows there
 * are. */
static void test_table_state(void **state)
{
    struct fixture fx;
    struct an_result r;
    struct tui_model m;
    const struct tui_view *v = view_of("ops");
    struct tui_view_state s = fresh;
    (void)state;
    tm_training(&fx, &r, &m);
    draw(v, &m, &s, 24, 100, TUI_BRAILLE);
    char *by_time = tui_dump_row(&sc, 1), *last;
    s.reversed = true;
    draw(v, &m, &s, 24, 100, TUI_BRAILLE);
    last = tui_dump_row(&sc, (int)r.op_count);
    assert_string_equal(by_time, last);
    free(by_time);
    free(last);
    s = (struct tui_view_state){.zoom = 1, .filter = "GELU", .cursor = 9};
    draw(v, &m, &s, 24, 100, TUI_BRAILLE);
    assert_int_equal(s.cursor, 0);
    char *text = tui_dump(&sc);
    assert_non_null(strstr(text, "gelu"));
    assert_null(strstr(text, "matmul"));
    free(text);
    s = (struct tui_view_state){.zoom = 1, .search = "gelu", .seek = 1};
    draw(v, &m, &s, 24, 100, TUI_BRAILLE);
    assert_int_equal(s.seek, 0);
    char *row = tui_dump_row(&sc, 1 + s.cursor);
    assert_non_null(strstr(row, "gelu"));
    free(row);
    s.sort = 6; /* by name */
    s.cursor = 0;
    draw(v, &m, &s, 24, 100, TUI_BRAILLE);
    row = tui_dump_row(&sc, 1);
    assert_non_null(strstr(row, "attention"));
    free(row);
    fx_close(&fx);
}

/* Of 64 ranks the slow one is named, and has a row of its own in the map. */
static void test_slow_rank(void **state)
{
    static struct an_rank_row row[64];
    static int64_t rank[64], index[8];
    static double waiting[64 * 8];
    struct an_result r;
    struct tui_model m;
    struct tui_view_state s = fresh;
    (void)state;
    tm_gpu(&r, &m);
    for (int i = 0; i < 64; i++) {
        rank[i] = i;
        row[i] = (struct an_rank_row){
            .rank = i, .host = "", .own_ms = an_num(i == 41 ? 25 : 21), .verdict = "none"};
        for (int k = 0; k < 8; k++)
            waiting[i * 8 + k] = i == 41 ? 0 : 4;
    }
    r.run.ranks = 64;
    r.ranks = (struct an_ranks){.steps = 8, .own_is = "step", .row = row, .row_count = 64};
    r.ranks.straggler = (struct an_straggler){.count = 1, .rank = 41, .says = "rank 41"};
    r.ranks.frontier.reason = "not asked";
    r.heat = (struct an_heat){.ranks = 64,
                              .steps = 8,
                              .rank = rank,
                              .index = index,
                              .ranks_a_row = 1,
                              .steps_a_column = 1,
                              .waiting_ms = waiting,
                              .transfer_ms = waiting,
                              .step_ms = waiting};
    draw(view_of("overview"), &m, &s, 19, 80, TUI_ASCII);
    char *text = tui_dump(&sc);
    assert_non_null(strstr(text, "slow: rank 41 25 ms"));
    free(text);
    draw(view_of("ranks"), &m, &s, 19, 80, TUI_ASCII);
    text = tui_dump(&sc);
    assert_non_null(strstr(text, "41 slow"));
    free(text);
}

/* Pages of the report: its words, scrolled by the cursor; what does not fit is announced. */
static void test_pages(void **state)
{
    struct fixture fx;
    struct an_result r;
    struct tui_model m;
    struct tui_view_state s = fresh;
    (void)state;
    tm_training(&fx, &r, &m);
    draw(&tui_view_trust, &m, &s, 24, 80, TUI_BRAILLE);
    char *text = tui_dump(&sc);
    assert_true(strstr(text, "cache_misses (multiplexed 60 %)") &&
                strstr(text, "recorded by tacho"));
    free(text);
    s.mode = 1; /* what every number means: longer than any screen */
    draw(&tui_view_trust, &m, &s, 24, 80, TUI_BRAILLE);
    text = tui_dump(&sc);
    assert_true(strstr(text, "Definitions") && strstr(text, "more lines: j, k"));
    free(text);
    s.cursor = INT_MAX;
    draw(&tui_view_trust, &m, &s, 24, 80, TUI_BRAILLE);
    assert_true(s.cursor > 100 && s.cursor < INT_MAX && s.top == s.cursor && s.page == 24);
    text = tui_dump(&sc);
    assert_null(strstr(text, "more line"));
    free(text);
    fx_close(&fx);
    tm_gpu(&r, &m);
    s = fresh;
    draw(&tui_view_devices, &m, &s, 60, 100, TUI_BRAILLE);
    text = tui_dump(&sc);
    assert_true(strstr(text, "Launches") && strstr(text, "pageable"));
    free(text);
}

/* Keys and names of views are unique. */
static void test_views_table(void **state)
{
    (void)state;
    for (size_t i = 0; tui_views[i]; i++) {
        assert_true(strlen(tui_views[i]->brief) <= 5 && *tui_views[i]->help);
        for (size_t k = 0; k < i; k++)
            assert_true(tui_views[k]->key != tui_views[i]->key &&
                        strcmp(tui_views[k]->name, tui_views[i]->name));
    }
    tui_cells_free(&sc);
}

/* Enter in the tree hides what is below a row and shows it again, also what the levels hide; a
 * search finds rows of it. */
static void test_tree_folds(void **state)
{
    struct fixture fx;
    struct an_result r;
    struct tui_model m;
    const struct tui_view *v = view_of("ops");
    struct tui_view_state s = {.zoom = 2, .mode = 1, .cursor = 2};
    (void)state;
    tm_training(&fx, &r, &m);
    draw(v, &m, &s, 24, 80, TUI_ASCII);
    char *all = tui_dump(&sc);
    assert_non_null(strstr(all, "    - micro_step"));
    assert_non_null(strstr(all, "    matmul.forward"));
    s.open = true;
    draw(v, &m, &s, 24, 80, TUI_ASCII);
    char *folded = tui_dump(&sc);
    assert_false(s.open);
    assert_non_null(strstr(folded, "    + micro_step"));
    assert_null(strstr(folded, "matmul.forward"));
    assert_non_null(strstr(folded, "input_wait"));
    s.open = true;
    draw(v, &m, &s, 24, 80, TUI_ASCII);
    char *again = tui_dump(&sc);
    assert_string_equal(again, all);
    assert_int_equal(s.folds, 0);
    snprintf(s.search, sizeof s.search, "GELU");
    s.seek = 1;
    draw(v, &m, &s, 24, 80, TUI_ASCII);
    assert_int_equal(s.cursor, 5);
    free(all);
    free(folded);
    free(again);
    fx_close(&fx);
}

/* Letters of a category in each column of the screen. */
static void count_letters(char letter, int *of_column)
{
    for (int x = 0; x < sc.columns; x++)
        of_column[x] = 0;
    for (int y = 1; y < sc.rows - 1; y++)
        for (int x = 0; x < sc.columns; x++)
            of_column[x] += sc.cell[y * sc.columns + x].glyph == (uint32_t)letter;
}

/* Categories over time, one above the other: 200 of parameters, and activations that grow from 0
 * to 800; another process, totals and the peak are not among them. */
static void test_memory_over_time(void **state)
{
    static double time_s[100], value[5][100];
    static const char *const names[] = {"memory.parameters", "memory.activations", "memory.total",
                                        "memory.peak", "memory.parameters"};
    struct tui_series series[5];
    struct tui_model model = {.last_index = -1, .series = series, .series_count = 5};
    struct tui_view_state s = fresh;
    int parameters[80], activations[80];
    (void)state;
    for (int i = 0; i < 100; i++) {
        time_s[i] = i;
        value[0][i] = 200;
        value[1][i] = 800.0 * i / 99;
        value[2][i] = value[3][i] = 200 + value[1][i];
        value[4][i] = 5000;
    }
    for (int k = 0; k < 5; k++)
        series[k] = (struct tui_series){.name = names[k],
                                        .unit = "bytes",
                                        .device = "cpu",
                                        .host = "host",
                                        .rank = k == 4,
                                        .time_s = time_s,
                                        .value = value[k],
                                        .count = 100};
    assert_true(tui_memory_timeline_known(&model));
    sc.glyphs = TUI_ASCII;
    assert_int_equal(tui_cells_resize(&sc, 12, 80), 0);
    struct tui_rect all = {0, 0, 12, 80};
    tui_memory_timeline(&sc, all, &model, &s);
    count_letters('P', parameters);
    count_letters('A', activations);
    for (int x = 0; x < 80; x++) {
        assert_int_equal(parameters[x], 2);
        assert_true(activations[x] >= (x ? activations[x - 1] : 0));
    }
    assert_int_equal(activations[0], 0);
    assert_int_equal(activations[79], 8);
    char *text = tui_dump(&sc);
    assert_non_null(strstr(text, "at most 1000 B"));
    assert_true(strstr(text, "P parameters") && strstr(text, "A activations"));
    assert_null(strstr(text, "total"));
    free(text);
    for (int rows = 1; rows < 9; rows++)
        for (int columns = 1; columns < 60; columns += 7) {
            struct tui_rect inside = {2, 3, rows, columns};
            assert_int_equal(tui_cells_resize(&sc, rows + 4, columns + 6), 0);
            tui_memory_timeline(&sc, inside, &model, &s);
            tui_check_surface(&sc, &inside);
        }
    value[0][41] = 900; /* a peak that is over before its column is */
    value[2][41] = 1000;
    series[0].name = "memory.allocated"; /* as a memory snapshot has them */
    series[2].name = "memory.reserved";
    series[1].count = series[3].count = 0;
    assert_true(tui_memory_timeline_known(&model));
    assert_int_equal(tui_cells_resize(&sc, 12, 80), 0);
    tui_memory_timeline(&sc, all, &model, &s);
    count_letters('A', parameters);
    count_letters('R', activations);
    assert_true(parameters[79] == 2 && activations[79] == 8);
    assert_true(parameters[33] == 9 && parameters[34] == 2);
    series[0].name = series[2].name = series[4].name = "rss";
    assert_false(tui_memory_timeline_known(&model));
    tui_cells_free(&sc);
}

/* The resident set is the host's: on a device it is no part of what is tracked or free there. */
static void test_memory_of_device(void **state)
{
    struct fixture fx;
    struct an_result r;
    struct tui_model m;
    (void)state;
    tm_training(&fx, &r, &m);
    r.memory.peak_bytes = an_int(10ll << 30);
    r.memory.resident_peak_bytes = an_int(150ll << 30);
    r.memory.uncounted_bytes = an_int_none("the resident set is the host's");
    r.memory.capacity_bytes = an_int(80ll << 30);
    r.memory.room_bytes = an_int(72ll << 30);
    r.memory.room_device = "gpu:1";
    size_t i = 0;
    while (strcmp(tui_views[i]->name, "memory") != 0)
        i++;
    for (int columns = 60; columns <= 120; columns += 60) {
        struct tui_view_state s = fresh;
        draw(tui_views[i], &m, &s, 30, columns, TUI_ASCII);
        char *text = tui_dump(&sc);
        assert_non_null(strstr(text, columns == 60 ? "P 8 GiB   free 72 GiB of 80 GiB on gpu:1"
                                                   : "P tracked at most 8 GiB   free 72 GiB of "
                                                     "80 GiB on gpu:1"));
        assert_null(strstr(text, "o untracked"));
        free(text);
    }
    fx_close(&fx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_screens),  cmocka_unit_test(test_golden_gpu),
        cmocka_unit_test(test_nothing_known),   cmocka_unit_test(test_every_size),
        cmocka_unit_test(test_hostile_names),   cmocka_unit_test(test_table_state),
        cmocka_unit_test(test_search),          cmocka_unit_test(test_rank_labels),
        cmocka_unit_test(test_launcher),        cmocka_unit_test(test_slow_rank),
        cmocka_unit_test(test_pages),           cmocka_unit_test(test_views_table),
        cmocka_unit_test(test_tree_folds),      cmocka_unit_test(test_memory_over_time),
        cmocka_unit_test(test_memory_of_device)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
