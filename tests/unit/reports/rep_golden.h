/* SPDX-License-Identifier: Apache-2.0
 *
 * For test_rep_*.c: output that must stay as it is, in tests/golden. BLESS=1 writes it anew.
 */
#ifndef REP_GOLDEN_H
#define REP_GOLDEN_H

#include "tests/unit/rep_fixture.h"

static inline char *read_file(const char *path)
{
    FILE *in = fopen(path, "r");
    char *text = NULL;
    size_t size = 0;
    if (!in)
        return NULL;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    for (int c; (c = fgetc(in)) != EOF;)
        fputc(c, out);
    fclose(in);
    fclose(out);
    return text;
}

static inline void check_golden(const char *name, const char *text)
{
    char path[300];
    const char *root = getenv("SRC");
    snprintf(path, sizeof path, "%s/tests/golden/%s", root && *root ? root : ".", name);
    if (getenv("BLESS")) {
        FILE *out = fopen(path, "w");
        assert_non_null(out);
        fputs(text, out);
        assert_int_equal(fclose(out), 0);
        return;
    }
    char *want = read_file(path);
    if (!want)
        fail_msg("%s is missing: run with BLESS=1", path);
    if (strcmp(want, text)) {
        size_t at = 0;
        while (want[at] && want[at] == text[at])
            at++;
        while (at && text[at - 1] != '\n')
            at--;
        print_error("%s differs (BLESS=1 writes it anew), from here on it is now:\n%s\n", path,
                    text + at);
    }
    assert_true(!strcmp(want, text));
    free(want);
}

#endif
