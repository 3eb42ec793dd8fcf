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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_findings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
