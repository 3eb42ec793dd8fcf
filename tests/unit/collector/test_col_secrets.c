/* SPDX-License-Identifier: Apache-2.0
 *
 * Every kind of secret of tests/e2e/hostile/secrets.tsv is redacted, and everything harmless stays
 * readable.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "profiler/collector/run/redact.h"

#define FIELDS 16

/* Replaces \n and \\ by what they stand for, in place. */
static void unescape(char *text)
{
    char *to = text;
    for (; *text; text++) {
        if (*text == '\\' && (text[1] == 'n' || text[1] == '\\'))
            *to++ = *++text == 'n' ? '\n' : '\\';
        else
            *to++ = *text;
    }
    *to = 0;
}

/* Splits a line at its tabs. Returns the number of fields; field[number] is NULL. */
static size_t split(char *line, char *field[FIELDS + 1])
{
    size_t count = 0;
    line[strcspn(line, "\n")] = 0;
    for (char *at = line; at && count < FIELDS; at = strchr(at, '\t')) {
        if (count)
            *at++ = 0;
        field[count++] = at;
    }
    field[count] = NULL;
    for (size_t i = 0; i < count; i++)
        unescape(field[i]);
    return count;
}

/* The JSON text of arguments in which nothing needs to be escaped. */
static void plain_json(char *const *argv, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "[");
    for (size_t i = 0; argv[i]; i++)
        used += (size_t)snprintf(text + used, size - used, "%s\"%s\"", i ? "," : "", argv[i]);
    snprintf(text + used, size - used, "]");
}

/* Checks one line. Returns the number of faults, which it prints. */
static int check(char **field)
{
    char wanted[4096];
    int bad = 0;
    if (!strcmp(field[0], "harmless")) {
        char *text = col_redact_command(field + 1);
        plain_json(field + 1, wanted, sizeof wanted);
        bad = strcmp(text, wanted) != 0;
        if (bad)
            print_error("not readable: %s became %s\n", wanted, text);
        free(text);
        return bad;
    }
    char *text = !strcmp(field[0], "argument") ? col_redact_command(field + 2)
                                               : col_redact_environment(field + 2);
    bad = strstr(text, field[1]) != NULL;
    if (bad)
        print_error("stored: %s in %s\n", field[1], text);
    free(text);
    return bad;
}

static void test_kinds(void **state)
{
    (void)state;
    FILE *file = fopen("tests/e2e/hostile/secrets.tsv", "r");
    char line[4096], *field[FIELDS + 1];
    int bad = 0, kinds = 0, harmless = 0;
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        if (*line == '#' || split(line, field) < 2)
            continue;
        bad += check(field);
        harmless += !strcmp(field[0], "harmless");
        kinds += strcmp(field[0], "harmless") != 0;
    }
    fclose(file);
    assert_int_equal(bad, 0);
    assert_true(kinds >= 130);
    assert_true(harmless >= 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kinds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
