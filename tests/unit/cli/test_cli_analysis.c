/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole run analysed by a child process: the result is the one that the caller's own analysis
 * has, to the last text; errors of the child arrive; a child that is killed, or given up, leaves
 * nothing.
 */
#include <errno.h>
#include <signal.h>

#include "cli/apart/analysis_apart.h"
#include "reports/report.h"
#include "tests/unit/an_fixture.h"

#define MS 1000000ll

static const struct an_options options = {.file = "run.tacho", .peak_flops = 1e9};

/* Steps of 10 ms that wait for their batch, compute, and lose a slow one; a loss that falls. */
static void record(struct fixture *f, int64_t steps)
{
    int64_t wait = fx_kind(f, "input_wait"), work = fx_work(f, "matrix", "fp32", 2000, 1000, 1000),
            loss = fx_track(f, f->process, "counter", "loss", "");
    FX(store_run_set(f->s, "command", "./train --workers 0"));
    for (int64_t i = 0; i < steps; i++) {
        int64_t start = i * 20 * MS, end = start + (i % 50 == 7 ? 19 : 10) * MS;
        char name[32];
        snprintf(name, sizeof name, "op %d", (int)(i % 5));
        fx_slice(f, f->thread, start, start + 3 * MS, "wait", wait);
        fx_slice(f, f->thread, start + 3 * MS, end - MS, name, work);
        fx_step(f, f->process, f->thread, i, start, end, 64, false);
        fx_counter(f, loss, end, 4 - 2 * (double)i / (double)steps);
    }
    FX(store_commit(f->s));
    store_close(f->s);
    f->s = NULL;
}

/* The JSON report; the caller frees it. */
static char *json_of(const struct an_result *result)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    assert_non_null(file);
    assert_int_equal(rep_write("json", result, NULL, file), 0);
    fclose(file);
    assert_true(bytes > 5000);
    return text;
}

/* Waits until the child has ended. */
static int wait_taken(struct cli_analysis *analysis, struct an_result **out,
                      struct tacho_error *err)
{
    int rc = 0;
    for (int i = 0; i < 3000 && analysis->child && !rc && !*out; i++) {
        usleep(10000);
        rc = cli_analysis_take(analysis, out, err);
    }
    assert_int_equal(analysis->child, 0);
    assert_null(analysis->room);
    return rc;
}

static void test_same(void **state)
{
    struct fixture fixture, *f = &fixture;
    struct cli_analysis analysis = {.room = NULL};
    struct an_result *here = NULL, *there = NULL;
    struct tacho_error err = {0};
    (void)state;
    fx_open(f);
    record(f, 200);
    assert_int_equal(store_open(f->path, &f->reader, &err), 0);
    assert_int_equal(an_analyze(f->reader, &options, &here, &err), 0);
    store_reader_close(f->reader);
    f->reader = NULL;
    if (cli_analysis_begin(&analysis, f->path, 600, &options, &err))
        fail_msg("%s", err.what);
    if (wait_taken(&analysis, &there, &err))
        fail_msg("%s", err.what);
    assert_non_null(there);
    assert_true(there->finding_count > 0 && there->step_point_count == 200);
    char *expected = json_of(here), *found = json_of(there);
    assert_string_equal(found, expected);
    free(expected);
    free(found);
    an_result_free(there);
    an_result_free(here);
    fx_close(f);
}

static void test_errors(void **state)
{
    struct cli_analysis analysis = {.room = NULL};
    struct an_result *result = NULL;
    struct tacho_error err = {0};
    (void)state;
    assert_int_equal(cli_analysis_begin(&analysis, "/nowhere/run.tacho", 1, &options, &err), 0);
    assert_int_equal(wait_taken(&analysis, &result, &err), TACHO_ENOTFOUND);
    assert_null(result);
    assert_non_null(strstr(err.what, "/nowhere/run.tacho"));
    err = (struct tacho_error){0};
    assert_int_equal(cli_analysis_begin(&analysis, "run", INT64_MAX / 1000000, &options, &err),
                     TACHO_ENOMEM);
    assert_non_null(strstr(err.what, "too much of the memory"));
    assert_int_equal(analysis.child, 0);
    cli_analysis_end(&analysis); /* nothing is under way */
}

static void test_ended(void **state)
{
    static const struct {
        int number, code;
    } signals[] = {{SIGKILL, TACHO_ENOMEM}, {SIGTERM, TACHO_EINTERNAL}};
    struct fixture fixture, *f = &fixture;
    struct cli_analysis analysis = {.room = NULL};
    struct an_result *result = NULL;
    (void)state;
    fx_open(f);
    record(f, 20000); /* long enough to be in the middle of it */
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct tacho_error err = {0};
        assert_int_equal(cli_analysis_begin(&analysis, f->path, 60000, &options, &err), 0);
        kill(analysis.child, signals[i].number);
        assert_int_equal(wait_taken(&analysis, &result, &err), signals[i].code);
        assert_non_null(strstr(err.what, "the analysis of the whole run"));
    }
    struct tacho_error err = {0};
    assert_int_equal(cli_analysis_begin(&analysis, f->path, 60000, &options, &err), 0);
    pid_t first = analysis.child;
    assert_int_equal(cli_analysis_begin(&analysis, f->path, 60000, &options, &err), 0);
    assert_true(kill(first, 0) && errno == ESRCH); /* the second takes the place of the first */
    pid_t second = analysis.child;
    cli_analysis_end(&analysis);
    assert_true(kill(second, 0) && errno == ESRCH);
    assert_int_equal(analysis.child, 0);
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same), cmocka_unit_test(test_errors),
                                       cmocka_unit_test(test_ended)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
