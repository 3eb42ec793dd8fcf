/* SPDX-License-Identifier: Apache-2.0
 *
 * The text report: golden pages (BLESS=1 writes them anew), widths, hostile names, the tables of definitions.
 */
#include "rep_fixture.h"
#include "rep_golden.h"
#include "rep_gpu.h"
#include "reports/escape.h"
#include "reports/kernel_name.h"

static void test_golden(void **state)
{
    static const struct {
        const char *name;
        void (*make)(struct fixture *f);
        struct rep_options o;
    } pages[] = {{"report_training_100.txt", fx_training, {.width = 100, .utf8 = true}},
                 {"report_training_40_ascii.txt", fx_training, {.width = 40}},
                 {"report_training_200.txt", fx_training, {.width = 200, .utf8 = true, .ops = 3}},
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

/* No line is wider than asked for, nothing but printable characters and line ends comes out, no line ends in a blank. */
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
        if (code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x2028 && code <= 0x202e) || (!utf8 && code > 0x7f))
            fail_msg("character %lx at %zu, width %d", code, at, width);
        column += rep_char_width(code);
        if (column > width)
            fail_msg("a line of %d columns at width %d: %.80s", column, width, text + (at > 60 ? at - 60 : 0));
    }
}

static void test_widths_and_hostile_names(void **state)
{
    static void (*const runs[])(struct fixture *) = {fx_training, fx_hostile, fx_ranges, fx_open};
    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        struct fixture fx, *f = &fx;
        runs[i](f);
        struct an_options a = {.file = i == 1 ? "evil\x1b[1m\nfile.tacho" : "run.tacho", .live = i == 2};
        const struct an_result *r = fx_analyze_with(f, &a);
        for (int width = 40; width <= 200; width += 1 + width / 20)
            for (int utf8 = 0; utf8 <= 1; utf8++) {
                struct rep_options o = {.width = width, .utf8 = utf8, .definitions = width % 2, .ops = 100};
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
                 {"report_gpu_80_ascii.txt", {.width = 80, .by = "line", .ops = 3}}};
    (void)state;
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        char *text = rep_text(gpu_result(), "text", &pages[i].o);
        check_golden(pages[i].name, text);
        free(text);
    }
    struct an_compat_row row[] = {{STORE_ABSENT, 0, GPU_HOSTILE, GPU_HOSTILE, "ms", 3.25}, {1, 0, "s", "k", "us", NAN}};
    struct an_result with = *gpu_result();
    with.compat = (struct an_compat_table){.tool = "TraceLens gpu_timeline", .rows = row, .row_count = 2};
    for (int width = 40; width <= 200; width += 1 + width / 20)
        for (int utf8 = 0; utf8 <= 1; utf8++) {
            struct rep_options o = {.width = width, .utf8 = utf8, .ops = 100};
            char *text = rep_text(&with, "text", &o);
            check_page(text, width, utf8);
            free(text);
        }
}

/* Names of C++ kernels: what tells them apart stays. */
static void test_kernel_names(void **state)
{
    static const char *const cases[][2] = {
        {GPU_ELEMENTWISE, "vectorized_elementwise_kernel<4, CUDAFunctor_add, Array>"},
        {"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float>, unsigned int, "
         "float, 4> >(at::native::ReduceOp<float, at::native::MeanOps<float, float>, unsigned int, float, 4>)",
         "reduce_kernel<512, 1, ReduceOp<MeanOps>>"},
        {"void at::native::unrolled_elementwise_kernel<at::native::copy_device_to_device(at::TensorIterator&, "
         "bool)::{lambda()#2}::operator()() const::{lambda()#8}::operator()() const::{lambda(float)#1}, "
         "at::detail::Array<char*, "
         "2> >(int)",
         "unrolled_elementwise_kernel<copy_device_to_device, Array>"},
        {"void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2, 128, 1>(float*)",
         "CatArrayBatchedCopy<float, unsigned int, 2, 128, 1>"},
        {"ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "ncclKernel_AllReduce_RING_LL_Sum_float"},
        {"Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pageable -> Device)"},
        {"volta_sgemm_128x64_nn", "volta_sgemm_128x64_nn"},
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
    fputs("# Every number of a report\n\nKeys are those of `tacho report --json` (schema `tacho-report/1`); the text report "
          "shows the same numbers and\n"
          "`--definitions` appends this table to it. A number that is not known is null, and `absent` has the reason under its "
          "JSON\npointer. "
          "Intervals: the measure of a union; touching ranges merge. Written from `analyzers/metrics.c` by\n`BLESS=1 "
          "build/tests/unit/test_rep_text`.\n\n"
          "| key | unit | formula | needs | reading |\n|---|---|---|---|---|\n",
          out);
    for (const struct an_metric *m = an_metrics; m->key; m++)
        fprintf(out, "| `%s` | %s | %s | %s | %s |\n", m->key, m->unit, m->formula, m->inputs, m->reading);
    fclose(out);
    check_golden("../../docs/metrics.md", text);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clean),
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_widths_and_hostile_names),
        cmocka_unit_test(test_accelerators),
        cmocka_unit_test(test_kernel_names),
        cmocka_unit_test(test_color_is_only_bold),
        cmocka_unit_test(test_unknown_format_and_broken_stream),
        cmocka_unit_test(test_metrics_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
