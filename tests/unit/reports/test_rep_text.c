/* SPDX-License-Identifier: Apache-2.0
 *
 * The text report: golden pages (BLESS=1 writes them anew), widths, hostile names, the tables of
 * definitions.
 */
#include <ctype.h>
#include <math.h>

#include "analyzers/base/arena.h"
#include "analyzers/base/words.h"
#include "rep_golden.h"
#include "reports/sections/sections.h"
#include "reports/sections/tables.h"
#include "reports/words/escape.h"
#include "reports/words/kernel_name.h"
#include "reports/words/number.h"
#include "tests/unit/rep_fixture.h"
#include "tests/unit/rep_gpu.h"

static void test_golden(void **state)
{
    static const struct {
        const char *name;
        void (*make)(struct fixture *f);
        struct rep_options o;
    } pages[] = {
        {"report_training_100.txt", fx_training, {.width = 100, .utf8 = true}},
        {"report_training_40_ascii.txt", fx_training, {.width = 40}},
        {"report_training_200.txt", fx_training, {.width = 200, .utf8 = true, .ops = 3}},
        {"report_training_first_80.txt", fx_training, {.width = 80, .utf8 = true, .brief = true}},
        {"report_ranges_80.txt", fx_ranges, {.width = 80, .utf8 = true}},
        {"report_hostile_100.txt", fx_hostile, {.width = 100, .utf8 = true}}};
    (void)state;
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        struct fixture fx, *f = &fx;
        pages[i].make(f);
        char *text = rep_text(fx_analyze(f), "text", &pages[i].o);
        check_golden(pages[i].name, text);
        free(text);
        fx_close(f);
    }
}

/* No line is wider than asked for, nothing but printable characters and line ends comes out, no
 * line ends in a blank. */
static void check_page(const char *text, int width, bool utf8)
{
    size_t bytes, n = strlen(text);
    int column = 0;
    for (size_t at = 0; at < n; at += bytes) {
        long code = rep_decode(text + at, n - at, &bytes);
        if (code == '\n') {
            assert_true(!at || text[at - 1] != ' ');
            column = 0;
            continue;
        }
        if (code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x2028 && code <= 0x202e) ||
            (!utf8 && code > 0x7f))
            fail_msg("character %lx at %zu, width %d", code, at, width);
        column += rep_char_width(code);
        if (column > width)
            fail_msg("a line of %d columns at width %d: %.80s", column, width,
                     text + (at > 60 ? at - 60 : 0));
    }
}

static void test_widths_and_hostile_names(void **state)
{
    static void (*const runs[])(struct fixture *) = {fx_training, fx_hostile, fx_ranges, fx_open};
    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        struct fixture fx, *f = &fx;
        runs[i](f);
        struct an_options a = {.file = i == 1 ? "evil\x1b[1m\nfile.tacho" : "run.tacho",
                               .live = i == 2};
        const struct an_result *r = fx_analyze_with(f, &a);
        for (int width = 40; width <= 200; width += 1 + width / 20)
            for (int utf8 = 0; utf8 <= 1; utf8++) {
                struct rep_options o = {
                    .width = width, .utf8 = utf8, .definitions = width % 2, .ops = 100};
                char *text = rep_text(r, "text", &o);
                check_page(text, width, utf8);
                free(text);
            }
        fx_close(f);
    }
}

/* An accelerator run: pages at the usual widths, and no line too wide at any. */
static void test_accelerators(void **state)
{
    static const struct {
        const char *name;
        struct rep_options o;
    } pages[] = {{"report_gpu_100.txt", {.width = 100, .utf8 = true}},
                 {"report_gpu_first_80.txt", {.width = 80, .utf8 = true, .brief = true}},
                 {"report_gpu_80_ascii.txt", {.width = 80, .by = "line", .ops = 3}}};
    (void)state;
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        char *text = rep_text(gpu_result(), "text", &pages[i].o);
        check_golden(pages[i].name, text);
        free(text);
    }
    struct an_compat_row row[] = {{STORE_ABSENT, 0, GPU_HOSTILE, GPU_HOSTILE, "ms", 3.25},
                                  {1, 0, "s", "k", "us", NAN}};
    struct an_result with = *gpu_result();
    with.compat =
        (struct an_compat_table){.tool = "TraceLens gpu_timeline", .rows = row, .row_count = 2};
    for (int width = 40; width <= 200; width += 1 + width / 20)
        for (int utf8 = 0; utf8 <= 1; utf8++) {
            struct rep_options o = {.width = width, .utf8 = utf8, .ops = 100};
            char *text = rep_text(&with, "text", &o);
            check_page(text, width, utf8);
            free(text);
        }
}

/* The note below the budget counts the devices that have one. */
static void test_devices_of_mean(void **state)
{
    struct an_result one = *gpu_result();
    struct an_device_budget devices[2] = {one.devices[0], one.devices[1]};
    struct rep_options options = {.width = 100};
    (void)state;
    one.devices = devices;
    char *text = rep_text(&one, "text", &options);
    assert_non_null(strstr(text, "mean of 2 devices"));
    free(text);
    devices[0].budget.reason = "no counted step has all its ranges in the file";
    text = rep_text(&one, "text", &options);
    assert_null(strstr(text, "mean of"));
    free(text);
}

static size_t lines_of(const char *text)
{
    size_t lines = 0;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

/* The first screen fits on a screen, at any width that has room for it. */
static void test_first_screen(void **state)
{
    static void (*const runs[])(struct fixture *) = {fx_training, fx_ranges, fx_open, fx_hostile};
    (void)state;
    for (size_t i = 0; i <= sizeof runs / sizeof *runs; i++) {
        struct fixture fx, *f = &fx;
        bool gpu = i == sizeof runs / sizeof *runs;
        if (!gpu)
            runs[i](f);
        const struct an_result *r = gpu ? gpu_result() : fx_analyze(f);
        for (int width = 40; width <= 200; width += 20)
            for (int lines = 0; lines <= 23; lines += 23) {
                struct rep_options o = {
                    .width = width, .utf8 = width % 40, .brief = true, .lines = lines};
                char *text = rep_text(r, "text", &o);
                check_page(text, width, o.utf8);
                size_t most = lines ? (size_t)lines : 28;
                if (width >= 80 && i != 3 && lines_of(text) > most)
                    fail_msg("run %zu: %zu lines of %d columns instead of %zu:\n%s", i,
                             lines_of(text), width, most, text);
                free(text);
            }
        if (!gpu)
            fx_close(f);
    }
}

/* The row of a wait has the share that the verdict has of its class, the rest of its ranges is the
 * host's, and the rows still sum to the step. */
static void test_one_story(void **state)
{
    (void)state;
    struct fixture fx, *f = &fx;
    fx_training(f);
    struct an_result with = *fx_analyze(f);
    struct rep_share_row row[REP_STEP_ROWS];
    double step_ms, sum_ms = 0, input = 0;
    with.budget.pct[AN_CLASS_INPUT].value -= 1;
    with.budget.pct[AN_CLASS_HOST].value += 1;
    size_t count = rep_step_rows(&with, row, &step_ms);
    for (size_t i = 0; i < count; i++) {
        sum_ms += row[i].ms;
        if (!strcmp(row[i].label, "data wait"))
            input = row[i].pct;
    }
    assert_true(input > 2 && fabs(input - with.budget.pct[AN_CLASS_INPUT].value) < 1e-9);
    assert_true(fabs(sum_ms - step_ms) < 1e-9 * step_ms);
    fx_close(f);
}

/* Where not all checks that were not made have room, whole names are there, and how many more. */
static void test_checks_that_fit(void **state)
{
    static const struct an_not_checked checks[] = {
        {.check = "enough steps",
         .reason = "r",
         .to_check = "record 20 steps of them all, or more"},
        {.check = "memory-bound operators", .reason = "r", .to_check = "tacho calibrate, again"},
        {.check = "efficiency of kernels",
         .reason = "r",
         .to_check = "shapes, or --flops-per-step"},
        {.check = "data loading", .reason = "r", .to_check = "mark its parts with NVTX ranges"},
        {.check = "clocks of the GPUs",
         .reason = "r",
         .to_check = "record the program with tacho"}};
    (void)state;
    struct fixture fx, *f = &fx;
    fx_training(f);
    struct an_result with = *fx_analyze(f);
    with.not_checked = checks;
    with.not_checked_count = sizeof checks / sizeof *checks;
    struct rep_options o = {.width = 80, .utf8 = true, .brief = true, .lines = 23};
    char *text = rep_text(&with, "text", &o);
    assert_non_null(strstr(text, "   enough steps and 4 more \xe2\x86\x92 tacho report"));
    free(text);
    o.width = 92; /* more of them */
    text = rep_text(&with, "text", &o);
    assert_non_null(strstr(text, "enough steps, memory-bound oper"));
    assert_null(strstr(strstr(text, "Not checked"), "\xe2\x80\xa6"));
    free(text);
    fx_close(f);
}

/* A small share is not printed as if there were none. */
static void test_small_shares(void **state)
{
    (void)state;
    assert_string_equal(SHARE_TEXT(32.68), "32.7");
    assert_string_equal(SHARE_TEXT(0.06), "0.1");
    assert_string_equal(SHARE_TEXT(0.04), "< 0.1");
    assert_string_equal(SHARE_TEXT(0), "0.0");
    struct fixture fx, *f = &fx;
    fx_training(f);
    struct an_result with = *fx_analyze(f);
    with.utilization.mfu = an_num(0.0002);
    char *text = rep_text(&with, "text", &(struct rep_options){.width = 80, .brief = true});
    assert_non_null(strstr(text, "MFU < 0.1 % of"));
    free(text);
    fx_close(f);
}

/* What recording costs at most is never below zero, and nothing where it was not measured. */
static void test_overhead(void **state)
{
    char text[60];
    struct an_trust trust = {.overhead_high_pct = an_num(-0.3)};
    (void)state;
    assert_string_equal(rep_overhead_text(&trust, text, sizeof text),
                        "overhead \xe2\x89\xa4 0.1 %");
    trust.overhead_high_pct = an_num(2.34);
    assert_string_equal(rep_overhead_text(&trust, text, sizeof text),
                        "overhead \xe2\x89\xa4 2.3 %");
    trust.overhead_high_pct = an_num_none("no paused steps");
    assert_null(rep_overhead_text(&trust, text, sizeof text));
}

/* A card alone, and nothing of the other findings. */
static void test_explain(void **state)
{
    (void)state;
    struct fixture fx, *f = &fx;
    fx_training(f);
    const struct an_result *r = fx_analyze(f);
    assert_true(r->finding_count >= 1);
    char *text = rep_text(r, "text", &(struct rep_options){.width = 100, .explain = 1});
    assert_non_null(strstr(text, r->findings[0].id));
    assert_non_null(strstr(text, "Evidence"));
    assert_null(strstr(text, "Where a step goes"));
    free(text);
    fx_close(f);
}

/* Names of C++ kernels: what tells them apart stays. */
static void test_kernel_names(void **state)
{
    static const char *const cases[][2] = {
        {GPU_ELEMENTWISE, "vectorized_elementwise_kernel<4, CUDAFunctor_add, Array>"},
        {"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
         "at::native::MeanOps<float, float>, unsigned int, "
         "float, 4> >(at::native::ReduceOp<float, at::native::MeanOps<float, float>, unsigned int, "
         "float, 4>)",
         "reduce_kernel<512, 1, ReduceOp<MeanOps>>"},
        {"void "
         "at::native::unrolled_elementwise_kernel<at::native::copy_device_to_device(at::"
         "TensorIterator&, "
         "bool)::{lambda()#2}::operator()() const::{lambda()#8}::operator()() "
         "const::{lambda(float)#1}, "
         "at::detail::Array<char*, "
         "2> >(int)",
         "unrolled_elementwise_kernel<copy_device_to_device, Array>"},
        {"void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2, 128, "
         "1>(float*)",
         "CatArrayBatchedCopy<float, unsigned int, 2, 128, 1>"},
        {"ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
         "ncclKernel_AllReduce_RING_LL_Sum_float"},
        {"Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pageable -> Device)"},
        {"volta_sgemm_128x64_nn", "volta_sgemm_128x64_nn"},
        {"<string>(1): <module>", "<string>(1): <module>"}, /* a frame of Python */
        {"torch/nn/modules/linear.py(114): forward", "torch/nn/modules/linear.py(114): forward"},
        {"void f<std::enable_if<(a > b), int>::type>(x) [clone .kd]", "f<type>"},
        {"<<<<", "<<<<"},
        {"a<b", "a<b>"},
        {"(((", "((("},
        {"::", "::"},
        {"", ""}};
    char out[200], tiny[4];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rep_kernel_name(out, sizeof out, cases[i][0]);
        assert_string_equal(out, cases[i][1]);
        rep_kernel_name(tiny, sizeof tiny, cases[i][0]);
        assert_true(strlen(tiny) < sizeof tiny);
    }
}

static void test_color_is_only_bold(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_hostile(f);
    struct rep_options o = {.width = 100, .color = true};
    char *text = rep_text(fx_analyze(f), "text", &o);
    int on = 0;
    for (const char *at = strchr(text, 0x1b); at; at = strchr(at + 1, 0x1b)) {
        bool bold = !strncmp(at, "\x1b[1m", 4), plain = !strncmp(at, "\x1b[0m", 4);
        assert_true(bold || plain);
        on += bold ? 1 : -1;
        assert_true(on == 0 || on == 1);
    }
    assert_int_equal(on, 0);
    free(text);
    fx_close(f);
}

static void test_clean(void **state)
{
    static const struct {
        const char *text, *want;
        int columns;
        bool utf8;
    } cases[] = {{"plain", "plain", 10, true},
                 {"0123456789", "0123456789", 10, true},
                 {"0123456789a", "012345678\xe2\x80\xa6", 10, true},
                 {"0123456789a", "0123456...", 10, false},
                 {"a\nb", "a\\nb", 10, true},
                 {"\x1b[1m", "\\x1b[1m", 10, true},
                 {"\xff", "\\xff", 10, true},
                 {"\xc2\x9b", "\\x9b", 10, true},
                 {"\xe2\x80\xae", "\\u202e", 10, true},
                 {"\xc2\xb5s \xe2\x89\xa4", "us <=", 10, false},
                 {"\xe6\xb0\xb4\xe6\xb0\xb4", "\xe6\xb0\xb4\xe6\xb0\xb4", 4, true},
                 {"\xe6\xb0\xb4\xe6\xb0\xb4", "\xe6\xb0\xb4\xe2\x80\xa6", 3, true},
                 {"\xe6\xb0\xb4", "?", 4, false},
                 {"ab", "", 0, true},
                 {"ab\n", "ab", 2, false}};
    char out[64];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int columns = rep_clean(out, sizeof out, cases[i].text, cases[i].columns, cases[i].utf8);
        assert_string_equal(out, cases[i].want);
        assert_int_equal(columns, rep_width(out));
    }
    char tiny[4]; /* a buffer too small for the ellipsis */
    rep_clean(tiny, sizeof tiny, "abcdefgh", 8, true);
    assert_true(strlen(tiny) < sizeof tiny);
}

static void test_unknown_format_and_broken_stream(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_training(f);
    const struct an_result *r = fx_analyze(f);
    assert_int_equal(rep_write("pdf", r, NULL, stdout), TACHO_EUSAGE);
    for (const struct rep_format *format = rep_formats; format->name; format++) {
        FILE *full = fopen("/dev/full", "w");
        if (!full)
            skip();
        assert_int_equal(rep_write(format->name, r, NULL, full), TACHO_EIO);
        fclose(full);
    }
    fx_close(f);
}

/* docs/metrics.md is this table (BLESS=1 writes it anew). */
static void test_metrics_page(void **state)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    (void)state;
    assert_non_null(out);
    fputs("# Every number of a report\n\nKeys are those of `tacho report --json` (schema "
          "`tacho-report/1`); the text report "
          "shows the same numbers and\n"
          "`--definitions` appends this table to it. A number that is not known is null, and "
          "`absent` has the reason under its "
          "JSON\npointer. "
          "Intervals: the measure of a union; touching ranges merge. Written from "
          "`analyzers/result/metrics.c` by\n`BLESS=1 "
          "build/tests/unit/test_rep_text`.\n\n"
          "| key | unit | formula | needs | reading |\n|---|---|---|---|---|\n",
          out);
    for (const struct an_metric *m = an_metrics; m->key; m++)
        fprintf(out, "| `%s` | %s | %s | %s | %s |\n", m->key, m->unit, m->formula, m->inputs,
                m->reading);
    fclose(out);
    check_golden("../../docs/metrics.md", text);
    free(text);
}

/* Numbers of sentences, from end to end of what a double can hold: so many digits, a unit that
 * fits, never an exponent. */
static void test_words(void **state)
{
    static const struct {
        double ms;
        int digits;
        const char *text;
    } times[] = {{12000, 3, "12 s"},      {12345, 4, "12.35 s"},   {999.4, 3, "999 ms"},
                 {999.6, 3, "1 s"},       {999.96, 4, "1 s"},      {999.94, 4, "999.9 ms"},
                 {0.00961, 3, "9.61 µs"}, {0.0003, 3, "300 ns"},   {0, 3, "0 ns"},
                 {-33.7, 3, "-33.7 ms"},  {3.6e9, 3, "3600000 s"}, {1e-12, 3, "0 ns"},
                 {NAN, 3, "unknown"},     {100, 3, "100 ms"},      {0.9996, 3, "1 ms"}};
    static const struct {
        double v;
        int digits;
        const char *text;
    } numbers[] = {{12345.6, 4, "12346"},    {0.00001234, 3, "0.0000123"},
                   {100, 2, "100"},          {0.5, 2, "0.5"},
                   {9.9996, 4, "10"},        {-1e-12, 3, "0"},
                   {1e300, 4, "(too large)"}};
    char b[AN_WORDS];
    (void)state;
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        assert_string_equal(an_time_print(b, times[i].ms, times[i].digits), times[i].text);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        assert_string_equal(an_number_print(b, numbers[i].v, numbers[i].digits), numbers[i].text);
    for (int e = -320; e < 309; e++) {
        assert_null(strstr(an_time_print(b, pow(10, e) * 9.99, 3), "e+"));
        assert_true(strlen(an_number_print(b, -pow(10, e) * 9.99, 9)) < AN_WORDS - 1);
        assert_null(strstr(b, "e-"));
    }
    struct an_arena *a = an_arena_new();
    assert_string_equal(an_time_spread(a, 12300, 41), "12.3 ± 0.041 s");
    assert_string_equal(an_time_spread(a, 0.0051, 0.00042), "5.1 ± 0.42 µs");
    an_arena_free(a);
}

/* A digit (and a point), "e", a sign, a digit: an exponent that a person is to read. What is in a
 * tag or a script is for machines. */
static const char *exponent_in(const char *text, bool html)
{
    bool tag = false, script = false;
    for (const char *c = text; *c; c++) {
        if (html && *c == '<') {
            tag = true;
            script = !strncmp(c, "<script", 7) || (script && strncmp(c, "</script", 8) != 0);
        } else if (html && *c == '>') {
            tag = false;
        } else if (!tag && !script && c > text && c[0] == 'e' && (c[1] == '+' || c[1] == '-') &&
                   isdigit((unsigned char)c[-1]) && isdigit((unsigned char)c[2])) {
            return c > text + 40 ? c - 40 : text;
        }
    }
    return NULL;
}

/* Steps that are far longer, and far shorter, than what is usual: loader, work, evaluation,
 * counters. */
static void fx_scaled(struct fixture *f, double scale)
{
    fx_open(f);
    fx_peak(f, "fp32", 428e9, "measured: instruction peak, 2 cores, AVX-512");
    int64_t matmul = fx_work(f, "matrix", "fp32", 15000, 10000, 10000);
    int64_t worker = fx_track(f, f->process, "thread", "loader-0", NULL);
    for (int i = 0; i < 40; i++) {
        int64_t b = (int64_t)(i * 1.2e4 * scale), ms = (int64_t)(1e3 * scale),
                end = b + 10 * ms + i * 7 % 13 * ms / 100;
        fx_step(f, f->process, f->thread, i, b, end, 4096, false);
        fx_slice(f, f->thread, b, b + 4 * ms + i * 5 % 11 * ms / 100, "input_wait",
                 fx_kind(f, "input_wait"));
        fx_slice(f, f->thread, b + 5 * ms, b + 9 * ms, "matmul.forward", matmul);
        fx_slice(f, worker, b, b + 7 * ms, "read", fx_kind(f, "read"));
        fx_slice(f, worker, b + 7 * ms, b + 9 * ms, "collate", fx_kind(f, "collate"));
    }
    fx_series(f, f->process, "cpu_time", "ns", 0, 4e5 * scale, 8, (int64_t)(6e4 * scale));
}

static void test_no_exponents(void **state)
{
    static const double scales[] = {1.2e6, 0.5, 1}; /* steps of 12 s, 5 us, 10 us */
    static const char *const step[] = {"12 s", "5 µs", "10 µs"};
    static const char *const formats[] = {"text", "markdown", "html"};
    (void)state;
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        struct fixture fx, *f = &fx;
        fx_scaled(f, scales[i]);
        const struct an_result *r = fx_analyze_with(f, &(struct an_options){.file = "run.tacho"});
        assert_true(r->finding_count > 0 && r->steps.counted > 20);
        for (size_t k = 0; k < 3; k++) {
            struct rep_options o = {.width = 160, .utf8 = true, .definitions = true};
            char *text = rep_text(r, formats[k], &o);
            const char *at = exponent_in(text, k == 2);
            if (at)
                fail_msg("%s: %.90s", formats[k], at);
            assert_non_null(strstr(text, step[i]));
            free(text);
        }
        fx_close(f);
    }
    assert_non_null(exponent_in("<p>1.2e+04 ms", true));
    assert_null(exponent_in("<path d=\"M1e-05\"/><script>1e-05</script>", true));
}

/* A list keeps what ran, the verdict and its sections, and nothing else, in all three formats. */
static void test_chosen_sections(void **state)
{
    static const char *const formats[] = {"text", "markdown", "html"};
    struct fixture fx, *f = &fx;
    size_t length = 0;
    (void)state;
    fx_scaled(f, 1);
    const struct an_result *r = fx_analyze_with(f, &(struct an_options){.file = "run.tacho"});
    for (size_t k = 0; k < 3; k++) {
        struct rep_options o = {.width = 100, .utf8 = true};
        char *whole = rep_text(r, formats[k], &o);
        o.sections = "trust,budget";
        char *some = rep_text(r, formats[k], &o);
        assert_non_null(strstr(whole, "Utilisation"));
        assert_null(strstr(some, "Utilisation"));
        assert_non_null(strstr(some, "Where a step goes"));
        assert_non_null(strstr(some, "Trust"));
        assert_non_null(strstr(some, "run.tacho"));
        assert_true(strlen(some) < strlen(whole));
        free(whole);
        free(some);
    }
    fx_close(f);
    assert_null(rep_sections_unknown("trust,budget", &length));
    assert_memory_equal(rep_sections_unknown("trust,budge,x", &length), "budge", 5);
    assert_int_equal(length, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clean),
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_devices_of_mean),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_no_exponents),
        cmocka_unit_test(test_chosen_sections),
        cmocka_unit_test(test_widths_and_hostile_names),
        cmocka_unit_test(test_accelerators),
        cmocka_unit_test(test_first_screen),
        cmocka_unit_test(test_one_story),
        cmocka_unit_test(test_checks_that_fit),
        cmocka_unit_test(test_overhead),
        cmocka_unit_test(test_small_shares),
        cmocka_unit_test(test_explain),
        cmocka_unit_test(test_kernel_names),
        cmocka_unit_test(test_color_is_only_bold),
        cmocka_unit_test(test_unknown_format_and_broken_stream),
        cmocka_unit_test(test_metrics_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
