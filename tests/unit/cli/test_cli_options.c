/* SPDX-License-Identifier: Apache-2.0
 *
 * Option tables, suggestions, quoting, output files. What the user sees of them is in
 * tests/e2e/cli/60_cli_messages.sh.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/base/message.h"
#include "cli/base/options.h"

struct values {
    bool flag, off;
    const char *text, *choice, *maybe;
    int64_t integer, size;
    double number;
    struct cli_range range;
};

#define AT(field) offsetof(struct values, field)
static const struct cli_option options[] = {
    {"flag", 'f', CLI_FLAG, AT(flag), NULL, "a flag", 0, 0},
    {"no-flag", 0, CLI_FLAG_OFF, AT(off), NULL, "the opposite", 0, 0},
    {"text", 't', CLI_TEXT, AT(text), "TEXT", "words", 0, 0},
    {"maybe", 0, CLI_MAYBE, AT(maybe), "last|all", "a flag, or one of", 0, 0},
    {"choice", 0, CLI_CHOICE, AT(choice), "auto|always|never", "one of", 0, 0},
    {"integer", 0, CLI_INT, AT(integer), "N", "a number", -5, 100},
    {"size", 0, CLI_SIZE, AT(size), "SIZE", "bytes", 0, 9e18},
    {"number", 0, CLI_NUMBER, AT(number), "X", "a number", 0, 1e20},
    {"steps", 0, CLI_RANGE, AT(range), "A:B", "a range", 0, 0},
    {0},
};
static const struct cli_spec spec = {
    .help = "x", .usage = "X", .options = options, .least = 0, .most = 2, .words_missing = "x"};
static const struct cli_spec stopping = {.help = "x",
                                         .usage = "X",
                                         .options = options,
                                         .stop_at_first = true,
                                         .least = 1,
                                         .most = -1,
                                         .words_missing = "x"};

/* Parses words separated by blanks; stdout and stderr go nowhere meanwhile. */
static int parse(const struct cli_spec *s, const char *words, struct values *v, int *first)
{
    static char copy[256];
    static char *argv[32];
    int argc = 0, null = open("/dev/null", O_WRONLY), out = dup(1), err = dup(2);
    *v = (struct values){.off = true};
    snprintf(copy, sizeof copy, "test %s", words);
    for (char *w = strtok(copy, " "); w; w = strtok(NULL, " "))
        argv[argc++] = w;
    argv[argc] = NULL;
    fflush(stdout);
    dup2(null, 1);
    dup2(null, 2);
    int rc = cli_parse(s, argc, argv, v, first);
    fflush(stdout);
    dup2(out, 1);
    dup2(err, 2);
    close(null);
    close(out);
    close(err);
    return rc;
}

static void test_values(void **state)
{
    struct values v;
    int first;
    (void)state;
    assert_int_equal(parse(&spec, "--maybe=last", &v, &first), -1);
    assert_string_equal(v.maybe, "last");
    assert_int_equal(parse(&spec, "--maybe last", &v, &first),
                     -1); /* a word of its own is the command's */
    assert_string_equal(v.maybe, "");
    assert_int_equal(first, 2);
    assert_int_equal(parse(&spec, "--maybe=none", &v, &first), 2);
    assert_int_equal(parse(&spec, "", &v, &first), -1);
    assert_null(v.maybe);
    assert_false(v.flag);
    assert_int_equal(parse(&spec,
                           "a -f --text=b --choice never --integer=-5 --size 2G --number 1.5T b",
                           &v, &first),
                     -1);
    assert_int_equal(first, 10); /* words are moved behind the options */
    assert_true(v.flag);
    assert_string_equal(v.text, "b");
    assert_string_equal(v.choice, "never");
    assert_int_equal(v.integer, -5);
    assert_int_equal(v.size, (int64_t)2 << 30);
    assert_true(v.number == 1.5e12);
    assert_int_equal(parse(&spec, "--no-flag --size=10MiB", &v, &first), -1);
    assert_false(v.off);
    assert_int_equal(v.size, 10 << 20);
    assert_int_equal(parse(&spec, "--steps 3:7", &v, &first), -1);
    assert_true(v.range.set && v.range.from == 3 && v.range.to == 7);
    assert_int_equal(parse(&spec, "--steps 3:", &v, &first), -1);
    assert_true(v.range.from == 3 && v.range.to == INT64_MAX);
    assert_int_equal(parse(&spec, "--steps :7", &v, &first), -1);
    assert_true(v.range.from == 0 && v.range.to == 7);
    assert_int_equal(parse(&spec, "--steps 5", &v, &first), -1);
    assert_true(v.range.from == 5 && v.range.to == 5);
    assert_int_equal(parse(&spec, "--help", &v, &first), 0);
    assert_int_equal(parse(&spec, "-h", &v, &first), 0);
}

static void test_refused(void **state)
{
    static const char *const wrong[] = {"--nothing",      "-x",           "--text",
                                        "--text=",        "-t",           "--choice=al",
                                        "--choice x",     "--integer=1x", "--integer=-6",
                                        "--integer=101",  "--integer=",   "--size=-1",
                                        "--size=1X",      "--size=nan",   "--size=1e30",
                                        "--number=1e300", "--number=inf", "--steps=7:3",
                                        "--steps=a:b",    "--steps=:",    "--steps=-1:3",
                                        "--steps=1:2:3",  "--flag=yes",   "a b c",
                                        "--integer=1e3",  "--steps=",     "--integer= 5"};
    struct values v;
    int first;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (parse(&spec, wrong[i], &v, &first) != 2)
            fail_msg("'%s' was not refused", wrong[i]);
    assert_int_equal(parse(&stopping, "", &v, &first), 2);
}

static void test_stop_at_first(void **state)
{
    struct values v;
    int first;
    (void)state;
    assert_int_equal(parse(&stopping, "-f cmd --nothing -t", &v, &first), -1);
    assert_int_equal(first, 2);
    assert_int_equal(parse(&stopping, "-f -- --cmd", &v, &first), -1);
    assert_int_equal(first, 3);
}

static void test_closest(void **state)
{
    static const char *const words[] = {"run", "report", "recover", "sql", "doctor", NULL};
    (void)state;
    assert_string_equal(cli_closest("reprot", words), "report");
    assert_string_equal(cli_closest("docter", words), "doctor");
    assert_string_equal(cli_closest("rnu", words), "run");
    assert_string_equal(cli_closest("rec", words), "recover");
    assert_null(cli_closest("banana", words));
    assert_null(cli_closest("", words));
    assert_null(cli_closest("a-word-that-is-much-longer-than-any-command-of-ours", words));
}

static void check_word(const char *text, const char *expected)
{
    char *word = cli_shell_word(text), command[200], got[100] = "";
    assert_string_equal(word, expected);
    snprintf(command, sizeof command, "printf %%s %s", word); /* the shell agrees */
    FILE *p = popen(command, "r");
    assert_non_null(p);
    size_t n = fread(got, 1, sizeof got - 1, p);
    got[n] = 0;
    pclose(p);
    assert_string_equal(got + (text[0] == '-' ? 2 : 0), text);
    free(word);
}

static void test_words(void **state)
{
    (void)state;
    check_word("run-1.tacho", "run-1.tacho");
    check_word("a b", "'a b'");
    check_word("it's", "'it'\\''s'");
    check_word("-x", "./-x");
    check_word("-a b", "./'-a b'");
    check_word("$HOME;ls", "'$HOME;ls'");
    check_word("", "''");
    char *safe = cli_printable("a\033[31m\nb\xff\xc3\xa4");
    assert_null(strchr(safe, '\033'));
    assert_null(strchr(safe, '\n'));
    assert_non_null(strstr(safe, "\xc3\xa4"));
    free(safe);
}

static void test_output(void **state)
{
    char folder[] = "/tmp/tacho-test-XXXXXX", path[64], text[16] = "";
    struct cli_output o;
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/-out", folder);
    assert_int_equal(cli_output_open(&o, path, NULL), 0);
    fputs("one", o.file);
    assert_int_not_equal(access(path, F_OK), 0); /* not before it is complete */
    assert_int_equal(cli_output_close(&o, 0), 0);
    assert_int_equal(cli_output_open(&o, path, NULL), 0);
    fputs("two", o.file);
    assert_int_equal(cli_output_close(&o, 3), 3); /* given up: the old one stays */
    FILE *f = fopen(path, "r");
    assert_int_equal(fread(text, 1, sizeof text, f), 3);
    fclose(f);
    assert_string_equal(text, "one");
    char link[64];
    snprintf(link, sizeof link, "%s/link", folder);
    assert_int_equal(symlink("-out", link), 0);
    assert_int_equal(cli_output_open(&o, link, NULL), 0);
    fputs("three", o.file);
    assert_int_equal(cli_output_close(&o, 0), 0);
    f = fopen(path, "r"); /* the file behind the link was replaced, not the link */
    assert_int_equal(fread(text, 1, sizeof text, f), 5);
    fclose(f);
    char *inputs[] = {"no such file", path, NULL};
    assert_int_equal(cli_output_open(&o, link, inputs),
                     3); /* what is read stays, whatever it is called */
    f = fopen(path, "w");
    fwrite("SQLite format 3", 1, 16, f);
    fputs("and pages", f);
    fclose(f);
    assert_int_equal(cli_output_open(&o, path, NULL), 3); /* and any run */
    assert_int_equal(unlink(link), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0); /* and nothing else */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_stop_at_first), cmocka_unit_test(test_closest),
        cmocka_unit_test(test_words),         cmocka_unit_test(test_output),
    };
    return cmocka_run_group_tests_name("cli options", tests, NULL, NULL);
}
