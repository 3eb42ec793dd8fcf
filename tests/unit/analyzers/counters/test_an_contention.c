/* SPDX-License-Identifier: Apache-2.0
 *
 * Cores that other programs took while steps ran: by hand, over the counted steps alone; a program
 * of more threads than cores; what is absent and why; the warning in every report.
 */
#include "reports/report.h"
#include "tests/unit/rep_fixture.h"

#define MS 1000000ll

/* Twelve steps of 100 ms on the process's first thread; the first and the last are not counted: 100
 * .. 1100 ms. Before and after them the samples are others'. cores: of this program and of the
 * machine, which has `cpus`; wait: part of the time without a core. */
static void run_on(struct fixture *f, int cpus, double own, double all, double wait)
{
    char online[16];
    fx_open(f);
    struct store_track t = {.process = f->process, .tid = 100, .kind = "thread", .name = "steps"};
    FX(store_track_add(f->s, &t));
    snprintf(online, sizeof online, "%d", cpus);
    FX(store_run_set(f->s, "cpu.online", online));
    int64_t time = fx_track(f, f->process, "counter", "cpu_time", "ns");
    int64_t queue = wait >= 0 ? fx_track(f, f->process, "counter", "cpu_wait", "ns") : FX_NONE;
    int64_t busy = all >= 0 ? fx_track(f, FX_NONE, "counter", "cpu_busy", "%") : FX_NONE;
    for (int i = 0; i < 12; i++)
        fx_step(f, f->process, t.id, i, i * 100 * MS, (i + 1) * 100 * MS, 400, false);
    double ran = 0, waited = 0;
    for (int i = 0; i <= 20; i++) { /* each 100 ms */
        bool counted = i > 1 && i <= 11;
        ran += i ? (counted ? own : 0.5) * 1e8 : 0;
        waited += i ? (counted ? wait : 0.9) * 1e8 : 0;
        fx_counter(f, time, i * 100 * MS, ran);
        if (queue != FX_NONE)
            fx_counter(f, queue, i * 100 * MS, waited);
        if (busy != FX_NONE)
            fx_counter(f, busy, i * 100 * MS, counted ? 100 * all / cpus : 100);
    }
}

static void run(struct fixture *f, double own, double all, double wait)
{
    run_on(f, 4, own, all, wait);
}

static char *printed(const char *format, const struct an_result *r)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    assert_int_equal(rep_write(format, r, &(struct rep_options){.width = 100}, out), 0);
    fclose(out);
    return text;
}

static void test_shared(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    run(f, 1.0, 2.5, 0.25);
    const struct an_result *r = fx_analyze(f);
    assert_near(r->system.other_cores.value, 1.5, 1e-9);
    assert_near(r->system.cpu_wait_pct.value, 25, 1e-9);
    assert_non_null(strstr(r->caution, "SHARED MACHINE: other programs used 1.5 of 4 CPUs"));
    assert_non_null(strstr(r->caution, "25 % of the steps' time"));
    static const char *const formats[] = {"text", "markdown", "html", "json"};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        char *text = printed(formats[i], r), *at = strstr(text, "SHARED MACHINE");
        if (!at || !strstr(text, "other programs used 1.5 of 4"))
            fail_msg("no warning in %s", formats[i]);
        if (i < 2 && at > strstr(text, "Where a step goes"))
            fail_msg("the warning of %s is not in its head", formats[i]);
        free(text);
    }
    fx_close(f);
}

static void test_own_threads(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    run(f, 3.9, 4.0, 0.4);
    const struct an_result *r = fx_analyze(f);
    assert_near(r->system.other_cores.value, 0.1, 1e-9);
    assert_true(r->caution && !strncmp(r->caution, "TOO FEW CORES: 40 % of the steps' time", 38));
    fx_close(f);
}

static void test_quiet(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    run(f, 2.0, 2.2, 0.01);
    const struct an_result *r = fx_analyze(f);
    assert_near(r->system.other_cores.value, 0.2, 1e-9);
    assert_near(r->system.cpu_wait_pct.value, 1, 1e-9);
    assert_null(r->caution);
    char *text = printed("json", r);
    assert_non_null(strstr(text, "\"caution\": null"));
    free(text);
    fx_close(f);
}

/* A run that keeps 0.94 of 2 cores busy has no more threads than cores, however few of the cores a
 * neighbour takes in the mean: its wait is the neighbour's fault. Where cores are free and nothing
 * else runs, neither is accused. */
static void test_bursts(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    run_on(f, 2, 0.94, 1.25, 0.06);
    const struct an_result *r = fx_analyze(f);
    assert_true(r->caution && !strncmp(r->caution, "SHARED MACHINE", 14));
    assert_near(r->system.others_lost_pct.value, 6, 1e-6);
    assert_near(r->system.own_wait_pct.value, 0, 1e-6);
    assert_near(r->system.others_present_pct.value, 100, 1e-6);
    fx_close(f);
    run_on(f, 2, 0.94, 0.95, 0.3);
    r = fx_analyze(f);
    assert_near(r->system.others_lost_pct.value, 1, 1e-6);
    assert_true(r->caution && strstr(r->caution, "had cores free"));
    assert_null(strstr(r->caution, "more threads than cores"));
    fx_close(f);
}

/* Four threads on two cores wait for each other: others lose them what they used, at most. */
static void test_own_team(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    run_on(f, 2, 1.96, 2.0, 0.51);
    const struct an_result *r = fx_analyze(f);
    assert_near(r->system.own_wait_pct.value, 50, 0.1);
    assert_true(r->system.others_lost_pct.value <= 4);
    assert_true(r->caution && !strncmp(r->caution, "TOO FEW CORES", 13));
    fx_close(f);
}

/* Absent is not zero. */
static void test_not_sampled(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    run(f, 1.0, -1, -1);
    const struct an_result *r = fx_analyze(f);
    assert_false(r->system.other_cores.valid || r->system.cpu_wait_pct.valid);
    assert_false(r->system.others_lost_pct.valid || r->system.own_wait_pct.valid);
    assert_non_null(strstr(r->system.other_cores.reason, "machine was not sampled"));
    assert_non_null(strstr(r->system.cpu_wait_pct.reason, "was not sampled"));
    assert_null(r->caution);
    fx_close(f);
    run(f, 1.0, -1, 0.3); /* the wait alone: nobody is accused */
    r = fx_analyze(f);
    assert_true(r->caution && !strncmp(r->caution, "SHORT OF CORES: 30 % of the steps' time", 39));
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared), cmocka_unit_test(test_own_threads),
        cmocka_unit_test(test_bursts), cmocka_unit_test(test_own_team),
        cmocka_unit_test(test_quiet),  cmocka_unit_test(test_not_sampled)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
