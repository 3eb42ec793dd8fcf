/* SPDX-License-Identifier: Apache-2.0
 *
 * The report for a ticket: golden pages (BLESS=1 writes them anew); whatever a program names, the
 * page stays the page it is.
 */
#include <ctype.h>

#include "rep_golden.h"
#include "reports/words/escape.h"
#include "tests/unit/rep_gpu.h"

static void test_golden(void **state)
{
    static const struct {
        const char *name;
        void (*make)(struct fixture *f);
    } pages[] = {{"report_training.md", fx_training},
                 {"report_hostile.md", fx_hostile},
                 {"report_ranges.md", fx_ranges}};
    (void)state;
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        struct fixture fx, *f = &fx;
        pages[i].make(f);
        char *text = rep_text(fx_analyze(f), "markdown", NULL);
        check_golden(pages[i].name, text);
        free(text);
        fx_close(f);
    }
    char *text = rep_text(gpu_result(), "markdown", NULL);
    check_golden("report_gpu.md", text);
    free(text);
}

/* Skips what is code or escaped; *at is behind it then. */
static bool skip_inert(const char **at)
{
    const char *s = *at;
    if (*s == '`') {
        const char *end = strchr(s + 1, '`');
        assert_non_null(end);
        assert_null(memchr(s, '\n', (size_t)(end - s)));
        *at = end + 1;
        return true;
    }
    if (*s == '\\' && ispunct((unsigned char)s[1])) {
        *at = s + 2;
        return true;
    }
    return false;
}

/* The page as GitHub reads it: rows of a table have the columns of its head; of HTML there is only
 * what the format writes itself, and it is balanced; nothing is a link, a mention, a reference or a
 * control character. */
static void check_page(const char *text)
{
    static const char *const tags[] = {"<details>", "</details>", "<summary>", "</summary>",
                                       "<b>",       "</b>",       "<code>",    "</code>"};
    int count[8] = {0}, pipes = 0, columns = 0;
    size_t bytes, n = strlen(text);
    bool row = false;
    for (const char *at = text; *at; at += bytes) { /* characters */
        long code = rep_decode(at, n - (size_t)(at - text), &bytes);
        if (code != '\n' &&
            (code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x2028 && code <= 0x202e)))
            fail_msg("character %lx: %.60s", code, at);
    }
    for (const char *at = text; *at;) {
        bool first = at == text || at[-1] == '\n';
        if (first) {
            row = *at == '|';
            columns = row ? columns : 0;
            pipes = 0;
        }
        if (skip_inert(&at))
            continue;
        if (*at == '<') {
            size_t k = 0;
            while (k < 8 && strncmp(at, tags[k], strlen(tags[k])))
                k++;
            if (k == 8)
                fail_msg("a tag: %.60s", at);
            count[k]++;
        }
        if (*at == '&' && at[1] != '#')
            fail_msg("an entity: %.60s", at);
        if (!strncmp(at, "://", 3) || *at == '@' || (*at == '!' && at[1] == '['))
            fail_msg("a link: %.60s", at);
        pipes += *at == '|';
        if (*at == '\n' && row) {
            columns = columns ? columns : pipes;
            if (pipes != columns)
                fail_msg("a row of %d columns in a table of %d, before: %.200s", pipes, columns,
                         at);
        }
        at++;
    }
    for (int k = 0; k < 8; k += 2)
        assert_int_equal(count[k], count[k + 1]);
}

static void test_structure(void **state)
{
    static void (*const runs[])(struct fixture *) = {fx_training, fx_hostile, fx_ranges, fx_open};
    struct rep_options o = {.ops = 200, .definitions = true};
    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        struct fixture fx, *f = &fx;
        runs[i](f);
        struct an_options a = {
            .file = i == 1 ? "1. evil@team\x1b[1m\n#12 |file|.tacho" : "run.tacho", .live = i == 2};
        char *text = rep_text(fx_analyze_with(f, &a), "markdown", &o);
        check_page(text);
        free(text);
        fx_close(f);
    }
    char *text = rep_text(gpu_result(), "markdown", &o);
    check_page(text);
    free(text);
}

/* Names of random bytes, most of them signs that mean something to somebody. */
static void test_random_names(void **state)
{
    static const char signs[] =
        "|`\\*_<>[](){}!#@&$~:/.-+=\"' \n\r\t\x1b\x9b\xff\xe2\x80\xae\xc2x1";
    uint64_t seed = 88172645463325252u;
    (void)state;
    for (int round = 0; round < 200; round++) {
        char names[8][64];
        struct an_result r = *gpu_result();
        struct an_op ops[8];
        for (int i = 0; i < 8; i++) {
            size_t n = 1 + (size_t)(round + i) % 62;
            for (size_t k = 0; k < n; k++) {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                names[i][k] = signs[seed % (sizeof signs - 1)];
            }
            names[i][n] = 0;
            ops[i] = r.ops[0];
            ops[i].name = names[i];
        }
        r.ops = ops;
        r.op_count = 8;
        r.run.program = names[0];
        r.run.file = names[1];
        r.verdict = names[2];
        char *text = rep_text(&r, "markdown", NULL);
        check_page(text);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden),
                                       cmocka_unit_test(test_structure),
                                       cmocka_unit_test(test_random_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
