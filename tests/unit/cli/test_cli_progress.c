/* SPDX-License-Identifier: Apache-2.0
 *
 * The progress bar on terminals of several widths: a line that wraps would stay on the screen.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/base/progress.h"
#include "reports/words/escape.h"

/* What a step half way draws on a terminal of so many columns, without the control characters at
 * its beginning. */
static void drawn(const char *what, int columns, char *text, size_t size)
{
    struct winsize winsize = {.ws_row = 24, .ws_col = (unsigned short)columns};
    int controller = posix_openpt(O_RDWR | O_NOCTTY), kept = dup(STDERR_FILENO);
    assert_true(controller >= 0 && !grantpt(controller) && !unlockpt(controller));
    int terminal = open(ptsname(controller), O_RDWR | O_NOCTTY);
    assert_true(terminal >= 0 && !ioctl(terminal, TIOCSWINSZ, &winsize));
    fflush(stderr);
    dup2(terminal, STDERR_FILENO);
    struct cli_progress progress;
    cli_progress_begin(&progress, what);
    progress.begun -= 10000; /* work of ten seconds */
    int stop = cli_progress_step(&progress, 50, 100);
    ssize_t got = read(controller, text, size - 1);
    cli_progress_end(&progress);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(terminal);
    close(controller);
    assert_false(stop);
    assert_true(got > 4);
    text[got] = 0;
    assert_memory_equal(text, "\r\033[K", 4);
    memmove(text, text + 4, (size_t)got - 3);
}

static void test_widths(void **state)
{
    static const char *const names[] = {
        "a.json", "/work/traces/of/a/long/name/kineto_of_the_whole_job_rank_0.json.gz",
        "/data/\xc3\xa9t\xc3\xa9/\xe6\xb0\xb4\xe6\xb0\xb4\xe6\xb0\xb4\xe6\xb0\xb4\xe6\xb0\xb4"
        "\xe6\xb0\xb4\xe6\xb0\xb4\xe6\xb0\xb4\xe6\xb0\xb4\xe6\xb0\xb4\xe6\xb0\xb4\xe6\xb0\xb4."
        "json"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int columns = 40; columns <= 200; columns += 8) {
            char text[500];
            drawn(names[i], columns, text, sizeof text);
            if (rep_width(text) >= columns)
                fail_msg("%d columns on a terminal of %d: %s", rep_width(text), columns, text);
            assert_non_null(strstr(text, "#."));
            assert_non_null(strstr(text, " 50 %"));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_widths)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
