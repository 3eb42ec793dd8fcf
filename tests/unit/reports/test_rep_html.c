/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTML report: well-formed, one file, nothing fetched, of a bounded size, whatever a program
 * names.
 */
#include <ctype.h>

#include "reports/words/escape.h"
#include "tests/unit/rep_fixture.h"
#include "tests/unit/rep_gpu.h"

#define SIZE_MOST 2000000
#define SIZE_ROOM 50000 /* of it, that the largest page of today leaves for what comes */

/* ---- a reader of HTML that is strict ------------------------------------------------------------------------------------- */

struct reader {
    const char *text;
    char open[64][16];
    size_t depth, tables, captions, rows, figures, ids;
    int heading;
    char *id[20000];
};

static bool is_void(const char *tag)
{
    static const char *const list[] = {"meta", "link", "br", "hr"};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (!strcmp(list[i], tag))
            return true;
    return false;
}

/* One attribute: no handler, no style, no address but inside the page. */
static void check_attribute(struct reader *r, const char *tag, const char *name, const char *value)
{
    if (!strncmp(name, "on", 2) || !strcmp(name, "style") || !strcmp(name, "src"))
        fail_msg("<%s %s=\"%s\">", tag, name, value);
    if (!strcmp(name, "href") && *value != '#' && strcmp(value, "data:,") != 0)
        fail_msg("<%s href=\"%s\">", tag, value);
    if (!strcmp(name, "id")) {
        assert_true(r->ids < sizeof r->id / sizeof *r->id);
        r->id[r->ids++] = strdup(value);
    }
}

static const char *read_attributes(struct reader *r, const char *at, const char *tag, bool *closed)
{
    *closed = false;
    for (;;) {
        char name[64] = "";
        static char value[200000];
        while (*at == ' ' || *at == '\n')
            at++;
        if (*at == '/') {
            *closed = true;
            at++;
        }
        if (*at == '>')
            return at + 1;
        size_t n = strcspn(at, "= />");
        assert_true(n && n < sizeof name && at[n] == '=' && at[n + 1] == '"');
        memcpy(name, at, n);
        at += n + 2;
        n = strcspn(at, "\"");
        assert_true(n < sizeof value && !memchr(at, '<', n));
        memcpy(value, at, n);
        value[n] = 0;
        check_attribute(r, tag, name, value);
        at += n + 1;
    }
}

static void count_tag(struct reader *r, const char *tag)
{
    r->tables += !strcmp(tag, "table");
    r->captions += !strcmp(tag, "caption") || !strcmp(tag, "figcaption");
    r->figures += !strcmp(tag, "figure");
    if (tag[0] == 'h' && isdigit((unsigned char)tag[1]) && !tag[2]) {
        int level = tag[1] - '0';
        if (level > r->heading + 1)
            fail_msg("h%d after h%d", level, r->heading);
        r->heading = level;
    }
}

static const char *read_tag(struct reader *r, const char *at)
{
    char tag[16] = "";
    bool end = *at == '/', closed;
    at += end;
    size_t n = strcspn(at, " />\n");
    assert_true(n && n < sizeof tag);
    memcpy(tag, at, n);
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)tag[i]))
            fail_msg("a tag: <%.60s", at);
    at += n;
    if (end) {
        if (!r->depth || strcmp(r->open[r->depth - 1], tag) != 0)
            fail_msg("</%s> ends <%s>", tag, r->depth ? r->open[r->depth - 1] : "nothing");
        r->depth--;
        assert_true(*at == '>');
        return at + 1;
    }
    at = read_attributes(r, at, tag, &closed);
    count_tag(r, tag);
    if (closed || is_void(tag))
        return at;
    assert_true(r->depth < 64);
    memcpy(r->open[r->depth++], tag, sizeof tag);
    if (!strcmp(tag, "script") || !strcmp(tag, "style")) { /* raw text */
        char stop[20];
        snprintf(stop, sizeof stop, "</%s>", tag);
        at = strstr(at, stop);
        assert_non_null(at);
    }
    return at;
}

static int id_order(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Reads the page; `figures`, `tables`: at least so many. */
static void check_page(const char *text, size_t figures, size_t tables)
{
    struct reader *r = calloc(1, sizeof *r);
    size_t bytes, n = strlen(text);
    assert_non_null(r);
    assert_true(n < SIZE_MOST);
    assert_true(!strncmp(text, "<!DOCTYPE html>\n<html lang=\"en\">", 32));
    for (const char *at = text; *at; at += bytes) {
        long code = rep_decode(at, n - (size_t)(at - text), &bytes);
        if (code < 0 || (code != '\n' && code < 0x20) || (code >= 0x7f && code < 0xa0) ||
            (code >= 0x2028 && code <= 0x202e))
            fail_msg("character %lx: %.60s", (unsigned long)code, at);
    }
    for (const char *at = strchr(text, '\n') + 1; *at;) {
        size_t plain = strcspn(at, "<&");
        at += plain;
        if (*at == '<')
            at = read_tag(r, at + 1);
        else if (*at) { /* an entity of ours */
            size_t length = strcspn(at, ";");
            if (length > 6)
                fail_msg("no entity: %.40s", at);
            at += length + 1;
        }
    }
    assert_int_equal(r->depth, 0);
    assert_int_equal(r->captions, r->tables + r->figures);
    assert_true(r->figures >= figures && r->tables >= tables);
    qsort(r->id, r->ids, sizeof *r->id, id_order);
    for (size_t i = 0; i < r->ids; i++) {
        if (i && !strcmp(r->id[i], r->id[i - 1]))
            fail_msg("two elements have the id %s", r->id[i]);
    }
    for (size_t i = 0; i < r->ids; i++)
        free(r->id[i]);
    free(r);
}

/* What stands between the tags of scripts is the program's own; the rest of the page names no
 * address. */
static void check_offline(const char *text)
{
    assert_non_null(strstr(text, "content=\"default-src 'none'; base-uri 'none'; form-action "
                                 "'none'; img-src data:; style-src "
                                 "'sha256-"));
    assert_null(strstr(text, "unsafe-inline"));
    for (const char *at = text; (at = strstr(at, "://")); at++) {
        const char *script = at;
        while (script > text && strncmp(script, "<script>", 8) && strncmp(script, "</script>", 9))
            script--;
        if (strncmp(script, "<script>", 8) != 0)
            fail_msg("an address: %.80s", at > text + 30 ? at - 30 : at);
    }
}

/* ---- pages -------------------------------------------------------------------------------------------------------------- */

static void test_runs(void **state)
{
    static const struct {
        void (*make)(struct fixture *);
        size_t figures, tables;
    } runs[] = {{fx_training, 5, 8}, {fx_hostile, 4, 6}, {fx_ranges, 0, 1}, {fx_open, 0, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        struct fixture fx, *f = &fx;
        runs[i].make(f);
        struct an_options a = {.file = i == 1 ? "evil\x1b[1m\n\"><img src=x onerror=alert(1)>.tacho"
                                              : "run.tacho",
                               .live = i == 2};
        char *text = rep_text(fx_analyze_with(f, &a), "html", NULL);
        check_page(text, runs[i].figures, runs[i].tables);
        check_offline(text);
        free(text);
        fx_close(f);
    }
    char *text = rep_text(gpu_result(), "html", NULL);
    check_page(text, 2, 10);
    check_offline(text);
    free(text);
}

/* The names a hostile program would choose come out as text: the page has them, and no element of
 * theirs. */
static void test_hostile_names(void **state)
{
    static const char *const names[] = {"</script><img src=x onerror=alert(1)>",
                                        "</title></svg><script>alert(1)</script>",
                                        "\" onmouseover=\"alert(1)",
                                        "' onfocus='alert(1)",
                                        "--><!-- ]]>",
                                        "&lt;b&gt;&amp;",
                                        "</style><style>*{}",
                                        "\x1b[31m\x9b\xe2\x80\xa8\xe2\x80\xae",
                                        "{{7*7}}${7*7}`"};
    (void)state;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        struct an_result r = *gpu_result();
        struct an_op op = r.ops[0];
        struct an_roofline_point point[2] = {r.points[0], r.points[1]};
        struct an_flame_row rows[] = {{names[k], 0, 1000, 1}, {names[k], 0, 900, 3}};
        struct an_timeline_span span = {.dur_ns = 900, .name = names[k], .merged = 1, .busy = 1};
        struct an_timeline_track track = {
            .name = names[k], .kind = names[k], .device = names[k], .span = &span, .span_count = 1};
        struct an_timeline_step step = {
            .which = "typical", .ms = 0.001, .track = &track, .track_count = 1};
        struct an_step_point steps[] = {
            {.steps = 1, .ms = 1, .worst_ms = 1, .tokens_per_s = NAN, .excluded = names[k]},
            {.index = 1, .steps = 1, .ms = 1, .worst_ms = 1, .tokens_per_s = NAN}};
        op.name = point[0].name = point[1].name = r.run.program = r.run.file = r.verdict =
            r.verdict_class = names[k];
        r.ops = &op;
        r.op_count = 1;
        r.points = point;
        r.flame = (struct an_flame){.source = names[k], .row = rows, .row_count = 2};
        r.timeline = (struct an_timeline){.step = &step, .step_count = 1};
        const struct an_path_lane lanes[] = {{names[k], names[k], 0, 800},
                                             {names[k], names[k], 1, 200}};
        const struct an_path_reason why = {names[k], names[k], AN_CLASS_INPUT, 1000};
        const struct an_path_stretch stretch[] = {{0, 800, 0, 0, names[k], names[k], false, 1},
                                                  {800, 100, 1, 0, names[k], names[k], true, 3},
                                                  {900, 100, -1, 0, "", "", true, 1}};
        r.critical_path =
            (struct an_critical_path){.device = names[k],
                                      .causes = NULL,
                                      .step = {0, 3, 0.001, lanes, 2, &why, 1, stretch, 3}};
        r.step_points = steps;
        r.step_point_count = 2;
        char *text = rep_text(&r, "html", NULL);
        check_page(text, 5, 12);
        check_offline(text);
        assert_non_null(
            strstr(text, "class=\"edge\"")); /* recorded; the way into the gap is none */
        assert_null(strstr(text, "class=\"edge inferred\""));
        assert_non_null(strstr(text, "c4 gap"));
        assert_null(strstr(text, "<img"));
        assert_null(strstr(text, "<script>alert"));
        free(text);
    }
}

/* ---- what a page says ----------------------------------------------------------------------------------------------------- */

/* Of 64 ranks the picture has a bar for the mean and for the 16 that differ most from it, by their
 * number, and says so. */
static void test_bars_of_many_ranks(void **state)
{
    static struct an_device_budget devices[64];
    struct an_result r = *gpu_result();
    size_t shown = 0;
    (void)state;
    for (int i = 0; i < 64; i++) {
        devices[i] = (struct an_device_budget){
            .rank = i, .process = i, .device = "", .host = "", .budget = r.budget};
        if (i % 4 == 3) { /* 3, 7, ... 63: 16 of them, the later the farther */
            devices[i].budget.pct[AN_CLASS_COMPUTE] =
                an_num(r.budget.pct[AN_CLASS_COMPUTE].value - 5 - 0.1 * i);
            devices[i].budget.pct[AN_CLASS_HOST] = an_num(5 + 0.1 * i);
        }
    }
    for (size_t count = 64; count; count = count == 64 ? 16 : 0) {
        char *text = NULL, *end;
        r.devices = devices;
        r.device_count = count;
        r.gpu.reason = count == 64 ? "no GPU" : NULL;
        text = rep_text(&r, "html", NULL);
        const char *figure = strstr(text, "data-kind=\"budget\"");
        assert_non_null(figure);
        assert_non_null(end = strstr(figure, "</figure>"));
        *end = 0;
        shown = 0;
        for (int i = 0; i < 64; i++) {
            char label[40];
            snprintf(label, sizeof label, ">rank %d <", i); /* the device's name follows: none */
            bool here = strstr(figure, label) != NULL;
            assert_int_equal(here, count == 64 ? i % 4 == 3 : i < 16);
            shown += here;
        }
        assert_int_equal(shown, 16);
        const char *note =
            strstr(end + 1, "16 of 64 ranks have a bar: those that differ most from the mean.");
        assert_int_equal(note != NULL, count == 64);
        free(text);
    }
}

/* What the legend of the budget calls a class is what the table below it calls it, for the engine
 * and for a device. */
static void test_legend_names(void **state)
{
    (void)state;
    for (int device = 0; device < 2; device++) {
        struct fixture fx, *f = &fx;
        fx_training(f);
        char *text = rep_text(device ? gpu_result() : fx_analyze(f), "html", NULL);
        const char *at = strstr(text, "data-kind=\"budget\"");
        assert_non_null(at);
        const char *list = strstr(at, "<ul class=\"legend\">"), *end = strstr(list, "</ul>"),
                   *table = strstr(list, "<table>");
        const char *table_end = strstr(table, "</table>");
        size_t names = 0;
        assert_true(list && end && table && table_end && end < table);
        for (const char *item = list; (item = strstr(item, "</svg> ")) && item < end; names++) {
            char row[200];
            item += strlen("</svg> ") + 2; /* the letter and a blank */
            snprintf(row, sizeof row, "<th scope=\"row\">%.*s</th>", (int)strcspn(item, "<"), item);
            const char *found = strstr(table, row);
            if (!found || found > table_end)
                fail_msg("the table has no %s", row);
        }
        assert_true(names >= 3);
        free(text);
        fx_close(f);
    }
}

/* Steps of several ranks, or devices or threads of one process, are counted for one of them where
 * each ran as many, else over all of them. */
static void test_steps_a_rank(void **state)
{
    static const struct {
        int64_t ranks, devices, lanes, counted, each;
        const char *says;
    } of[] = {{4, 1, 4, 80, 20, "20 steps a rank, median"},
              {4, 1, 4, 80, 0, "80 steps of all ranks, median"},
              {1, 1, 1, 20, 20, "20 steps, median"},
              {1, 1, 1, 1, 1, "1 step, median"},
              {3, 1, 3, 3, 1, "1 step a rank, median"},
              {1, 8, 8, 24, 3, "3 steps a device, median"},
              {1, 8, 8, 25, 0, "25 steps of all devices, median"},
              {1, 0, 2, 40, 20, "20 steps a thread, median"}};
    static const char *const formats[] = {"text", "markdown", "html"};
    struct an_result r = *gpu_result();
    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        for (size_t k = 0; k < 3; k++) {
            r.run.ranks = of[i].ranks;
            r.gpu.reason = of[i].devices ? NULL : "no device";
            r.steps.lanes = of[i].lanes;
            r.steps.of_a_lane = of[i].each;
            r.steps.counted = of[i].counted;
            char *text =
                rep_text(&r, formats[k], &(struct rep_options){.width = 300, .utf8 = true});
            if (!strstr(text, of[i].says))
                fail_msg("%s: not \"%s\"", formats[k], of[i].says);
            free(text);
        }
}

/* ---- size --------------------------------------------------------------------------------------------------------------- */

enum {
    TRACKS = 64,
    SPANS = 3000,
    POINTS = 4096,
    RANKS = 64,
    STEPS = 200,
    ROWS = 1500,
    KINDS = 20000
};

static void big_timeline(struct an_timeline *t, const char *name)
{
    static struct an_timeline_span span[SPANS];
    static struct an_timeline_track track[TRACKS];
    static struct an_timeline_step step[2];
    for (int i = 0; i < SPANS; i++)
        span[i] = (struct an_timeline_span){.start_ns = i * 1000,
                                            .dur_ns = 300 + i * 7 % 600,
                                            .name = name,
                                            .what = i % AN_CLASS_COUNT,
                                            .merged = 1 + (uint32_t)i % 3,
                                            .busy = 0.7f,
                                            .critical = i % 2};
    for (int k = 0; k < TRACKS; k++)
        track[k] = (struct an_timeline_track){.name = name,
                                              .kind = "thread",
                                              .device = "cpu",
                                              .rank = k / 2,
                                              .depth = k % 2,
                                              .span = span,
                                              .span_count = SPANS};
    for (int s = 0; s < 2; s++)
        step[s] = (struct an_timeline_step){.which = s ? "worst" : "typical",
                                            .ms = SPANS / 1e3,
                                            .track = track,
                                            .track_count = TRACKS};
    *t = (struct an_timeline){.step = step, .step_count = 2};
}

static void big_path(struct an_critical_path *c, const char *name)
{
    static struct an_path_lane lane[AN_PATH_LANES_MOST];
    static struct an_path_reason reason[17];
    static struct an_path_stretch stretch[AN_PATH_STRETCHES_MOST];
    for (int i = 0; i < AN_PATH_LANES_MOST; i++)
        lane[i] = (struct an_path_lane){name, "thread", i, 1000};
    for (int i = 0; i < 17; i++)
        reason[i] = (struct an_path_reason){"cause", name, i % AN_CLASS_COUNT, 1000};
    int64_t at = 0;
    for (int i = 0; i < AN_PATH_STRETCHES_MOST;
         i++) { /* as many as there can be that are wide enough for a name */
        stretch[i] = (struct an_path_stretch){
            at,    i % 8 < 4 ? 1000 : 200, i * 7 % AN_PATH_LANES_MOST, i % 17, name, "collective",
            i % 2, 1 + (uint32_t)i % 3};
        at += stretch[i].dur_ns;
    }
    *c = (struct an_critical_path){.device = "cpu",
                                   .step = {0, 3, (double)at / 1e6, lane, AN_PATH_LANES_MOST,
                                            reason, 17, stretch, AN_PATH_STRETCHES_MOST}};
}

/* As many events as there can be, of kinds with long names. */
static void big_events(struct an_events *events, const char *name)
{
    static struct an_event event[AN_EVENTS_MOST];
    static struct an_event_kind kind[KINDS];
    static struct an_event_track track[TRACKS];
    static struct an_event_rank ranks[4];
    static struct an_event_step step[POINTS];
    for (int i = 0; i < AN_EVENTS_MOST; i++)
        event[i] = (struct an_event){(i % (AN_EVENTS_MOST / TRACKS)) * 50000003ll,
                                     49999999 - i * 7919 % 1000000, (uint32_t)i % KINDS,
                                     (uint32_t)i % AN_CLASS_COUNT};
    for (int i = 0; i < KINDS; i++)
        kind[i] = (struct an_event_kind){name, "bf16", "recompute", INT64_MAX, INT64_MAX};
    for (int i = 0; i < 4; i++)
        ranks[i] = (struct an_event_rank){i * 1000000, "typical step"};
    for (int k = 0; k < TRACKS; k++)
        track[k] = (struct an_event_track){.name = name,
                                           .kind = "thread",
                                           .device = "cpu",
                                           .rank = ranks[k * 4 / TRACKS].rank,
                                           .event = event + k * (AN_EVENTS_MOST / TRACKS),
                                           .count = AN_EVENTS_MOST / TRACKS};
    for (int i = 0; i < POINTS; i++)
        step[i] = (struct an_event_step){0, i, i * 20000000ll, 19999999, i == 7};
    *events = (struct an_events){.window_ns = POINTS * 20000000ll,
                                 .kind = kind,
                                 .kind_count = KINDS,
                                 .track = track,
                                 .track_count = TRACKS,
                                 .rank = ranks,
                                 .rank_count = 4,
                                 .step = step,
                                 .step_count = POINTS};
}

/* All that pictures can be made of, as much as there may be, with long names: the page stays below
 * two megabytes. */
static void test_size(void **state)
{
    static struct an_step_point points[POINTS];
    static double cells[RANKS * STEPS];
    static int64_t rank[RANKS], index[STEPS];
    static struct an_flame_row rows[ROWS];
    static char name[401];
    struct an_result r = *gpu_result();
    struct rep_options o = {.ops = 0};
    (void)state;
    memset(name, 'n', sizeof name - 1);
    big_timeline(&r.timeline, name);
    big_path(&r.critical_path, name);
    big_events(&r.events, name);
    for (int i = 0; i < POINTS; i++)
        points[i] = (struct an_step_point){.rank = i / 512,
                                           .index = i % 512,
                                           .steps = 1,
                                           .start_s = i,
                                           .ms = 100 + i % 17,
                                           .worst_ms = 100 + i % 17,
                                           .tokens_per_s = NAN};
    for (int i = 0; i < RANKS * STEPS; i++)
        cells[i] = i * 7919 % 1000 / 10.0;
    for (int i = 0; i < RANKS; i++)
        rank[i] = i;
    for (int i = 0; i < STEPS; i++)
        index[i] = i;
    for (int i = 0; i < ROWS; i++)
        rows[i] = (struct an_flame_row){name, i ? (uint32_t)(i - 1) / 4 : 0,
                                        i ? 100000000 / (4 + i) : 100000000, 3};
    r.stacks.samples = an_int(1000);
    r.step_points = points;
    r.step_point_count = POINTS;
    r.heat = (struct an_heat){.ranks = RANKS,
                              .steps = STEPS,
                              .rank = rank,
                              .index = index,
                              .ranks_a_row = 1,
                              .steps_a_column = 1,
                              .step_ms = cells,
                              .waiting_ms = cells,
                              .transfer_ms = cells};
    r.flame = r.stacks.flame = (struct an_flame){.source = "test", .row = rows, .row_count = ROWS};
    r.steps.median_ms = r.steps.p95_ms = an_num(110);
    char *text = rep_text(&r, "html", &o);
    print_message("the largest page has %zu bytes\n", strlen(text));
    assert_true(strlen(text) <= SIZE_MOST - SIZE_ROOM);
    check_page(text, 10, 17);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs),         cmocka_unit_test(test_hostile_names),
        cmocka_unit_test(test_size),         cmocka_unit_test(test_bars_of_many_ranks),
        cmocka_unit_test(test_legend_names), cmocka_unit_test(test_steps_a_rank)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
