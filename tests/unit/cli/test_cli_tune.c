/* SPDX-License-Identifier: Apache-2.0
 *
 * What `tacho tune` makes of a report: findings become configurations of the command.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cli/tune/advice.h"
#include "cli/tune/trials.h"

/* The configurations that findings with these settings come to, as text: "w=4 p=2, ". */
static void advise(const char *const *settings, size_t count, char text[2000])
{
    char *command[] = {(char *)"train",      (char *)"--workers",   (char *)"{w:1..8=2}",
                       (char *)"--prefetch", (char *)"{p:1,2,4=2}", NULL};
    struct cli_template template;
    struct an_finding findings[4] = {0};
    assert_int_equal(cli_template_read(command, &template), 0);
    struct cli_trial trial = {.configuration = template.start};
    char **words = cli_template_words(&template, template.start);
    for (size_t i = 0; i < count; i++)
        findings[i].setting = settings[i];
    struct an_result result = {.findings = findings, .finding_count = count};
    cli_tune_advice(&template, words, &result, &trial);
    *text = 0;
    for (size_t i = 0; i < trial.advised_count; i++) {
        char one[400];
        cli_tune_settings(&template.space, trial.advised[i], one);
        strcat(strcat(text, one), ", ");
    }
    cli_template_free(words);
    cli_template_clear(&template);
}

static void test_findings(void **state)
{
    (void)state;
    char text[2000];
    advise((const char *const[]){"--workers 4", NULL, "--prefetch 4"}, 3, text);
    assert_string_equal(text, "w=4 p=2, w=2 p=4, w=4 p=4, "); /* each alone, then all */
    advise((const char *const[]){"--workers 4"}, 1, text);
    assert_string_equal(text, "w=4 p=2, ");
    advise((const char *const[]){"--workers 16", "--workers 2", "--pin"}, 3, text);
    assert_string_equal(text, ""); /* not in the space, as it is set, another option */
    advise((const char *const[]){"OMP_NUM_THREADS=1", "--workers 8"}, 2, text);
    assert_string_equal(text, "w=8 p=2, ");
    advise(NULL, 0, text);
    assert_string_equal(text, "");
}

/* A micro-batch is tuned at a fixed global batch: what is trained stays the same. */
static void test_held_product(void **state)
{
    (void)state;
    char *command[] = {(char *)"train", (char *)"{batch:1..8:log2=2}", (char *)"x{16/batch}y",
                       (char *)"{\"a\":8/b}", NULL};
    struct cli_template template;
    assert_int_equal(cli_template_read(command, &template), 0);
    assert_int_equal(template.space.count, 4);
    assert_null(cli_template_changes(&template));
    char **words = cli_template_words(&template, template.start);
    assert_string_equal(words[1], "2");
    assert_string_equal(words[2], "x8y");
    assert_string_equal(words[3], "{\"a\":8/b}");
    cli_template_free(words);
    cli_template_clear(&template);
    static const char *const refused[][2] = {{"{16/batch}", "{batch:1,2}"}, /* not known yet */
                                             {"{batch:1,3}", "{16/batch}"},
                                             {"{batch:1,a}", "{16/batch}"},
                                             {"{batch:1,2}", "{16/bath}"}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char *wrong[] = {(char *)refused[i][0], (char *)refused[i][1], NULL};
        assert_int_equal(cli_template_read(wrong, &template), 2);
        cli_template_clear(&template);
    }
    command[2] = NULL;
    assert_int_equal(cli_template_read(command, &template), 0);
    assert_string_equal(cli_template_changes(&template), "batch");
    cli_template_clear(&template);
}

/* Numbers whose double or whose next one is none of 64 bits. */
static void test_large_numbers(void **state)
{
    (void)state;
    static const char *const refused[] = {"{n:9223372036854775807..9223372036854775807}",
                                          "{n:4611686018427387904..9223372036854775807:log2}",
                                          "{n:-9223372036854775808..-9223372036854775807}"};
    struct cli_template template;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char *wrong[] = {(char *)refused[i], NULL};
        assert_int_equal(cli_template_read(wrong, &template), 2);
        cli_template_clear(&template);
    }
    char *most[] = {(char *)"{n:1000000000000000..1000000000000000}", NULL};
    assert_int_equal(cli_template_read(most, &template), 0);
    assert_int_equal(template.space.count, 1);
    cli_template_clear(&template);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_findings),
                                       cmocka_unit_test(test_held_product),
                                       cmocka_unit_test(test_large_numbers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
