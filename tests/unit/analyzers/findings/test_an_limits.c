/* SPDX-License-Identifier: Apache-2.0
 *
 * CPU_QUOTA and MEMORY_PRESSURE: named by what the control groups counted, with its gain; never in
 * a run whose limits cost nothing; not checked where they are not visible. Time that a quota takes
 * is not ascribed to other programs.
 */
#include "tests/unit/an_graph.h"

#define MS    1000000
#define STEPS 60

/* What was sampled, as parts of the time. Below 0: not sampled. */
struct limits {
    double used;       /* cores of the process */
    double waited;     /* run-queue wait of its first thread */
    double busy;       /* CPUs of the machine, of two */
    double throttled;  /* of the group, summed over CPUs */
    double some, full; /* memory pressure, of the group */
    const char *quota; /* NULL: not recorded */
};

static const char *environment; /* of the engine, whose threads a report knows; NULL: of another
                                   program */

static bool has_worker; /* makes a batch in 12 ms, of 18 ms where the quota stops it */

static bool reads_in_line; /* 5 ms of a step, 13 of each fourth one, in which the quota stops it */

static void total(struct fixture *f, const char *name, const char *unit, double rate)
{
    if (rate < 0)
        return;
    int64_t track = fx_track(f, f->process, "counter", name, unit);
    for (int64_t i = 0; i <= STEPS + 2; i++)
        fx_counter(f, track, i * 20 * MS, rate * (double)(i * 20 * MS));
}

/* A worker whose batches take 18 ms, and each fifth one 12. */
static void work_of_loader(struct fixture *f)
{
    int64_t worker = fx_track(f, f->process, "thread", "loader-0", NULL);
    for (int64_t i = 0; i < STEPS; i++) {
        int64_t at = (i + 1) * 20 * MS, end = at + (i % 5 ? 18 : 12) * MS;
        fx_slice(f, worker, at, end - MS, "decode", fx_kind(f, "decode"));
        fx_slice(f, worker, end - MS, end, "collate", fx_kind(f, "collate"));
    }
}

/* Steps of 20 ms that compute, on a machine of two CPUs. */
static const struct an_result *limited_run(struct fixture *f, const struct limits *limits)
{
    fx_open(f);
    struct store_track thread = {
        .process = f->process, .tid = 100, .kind = "thread", .name = "steps"};
    char key[64];
    FX(store_track_add(f->s, &thread));
    f->thread = thread.id;
    int64_t work = fx_work(f, "matrix", "fp32", 1, 1, 1);
    if (environment)
        FX(store_run_set(f->s, "environment", environment));
    for (int64_t i = 0; i < STEPS; i++) {
        int64_t at = (i + 1) * 20 * MS;
        fx_step(f, f->process, f->thread, i, at, at + 20 * MS, 4, false);
        int64_t input = !reads_in_line ? 0 : (i % 4 ? 5 : 13) * MS;
        if (input) {
            fx_slice(f, f->thread, at, at + input, "input", fx_kind(f, "input_wait"));
            fx_slice(f, f->thread, at, at + input, "decode", fx_kind(f, "decode"));
        }
        struct store_slice slice = {.track = f->thread,
                                    .start = FX_BASE + at + input,
                                    .dur = 20 * MS - input,
                                    .name = fx_string(f, "matmul"),
                                    .category = fx_string(f, environment ? "libtrain" : "test"),
                                    .detail = work,
                                    .correlation = FX_NONE};
        FX(store_slice_add(f->s, &slice));
    }
    if (has_worker)
        work_of_loader(f);
    FX(store_run_set(f->s, "cpu.online", "2"));
    FX(store_run_set_int(f->s, "cpu.usable", 2));
    FX(store_run_set_int(f->s, "memory.bytes", (int64_t)8 << 30));
    snprintf(key, sizeof key, "process.%lld.cpu_quota", (long long)f->process);
    if (limits->quota)
        FX(store_run_set(f->s, key, limits->quota));
    if (limits->some >= 0) {
        snprintf(key, sizeof key, "process.%lld.memory_limit_bytes", (long long)f->process);
        FX(store_run_set_int(f->s, key, 300000000));
    }
    total(f, "cpu_time", "ns", limits->used);
    total(f, "cpu_wait", "ns", limits->waited);
    total(f, "cpu_throttled", "ns", limits->throttled);
    total(f, "memory_stall_some", "ns", limits->some);
    total(f, "memory_stall_full", "ns", limits->full);
    int64_t machine = fx_track(f, FX_NONE, "counter", "cpu_busy", "%"),
            rss = fx_track(f, f->process, "counter", "rss", "bytes");
    for (int64_t i = 0; i <= STEPS + 2; i++) {
        fx_counter(f, machine, i * 20 * MS, 100 * limits->busy / 2);
        fx_counter(f, rss, i * 20 * MS, 1e8);
    }
    return fx_analyze(f);
}

static const struct an_finding *found(const struct an_result *r, const char *id)
{
    for (size_t i = 0; i < r->finding_count; i++)
        if (!strcmp(r->findings[i].id, id))
            return &r->findings[i];
    return NULL;
}

static const struct an_not_checked *open_check(const struct an_result *r, const char *what)
{
    for (size_t i = 0; i < r->not_checked_count; i++)
        if (!strcmp(r->not_checked[i].check, what))
            return &r->not_checked[i];
    return NULL;
}

/* The thread runs for 0.6 of the time and is stopped for the rest: a step takes 12 ms without the
 * quota. Nothing else ran, then something that used half a CPU, which explains nothing that the
 * quota does not. */
static void test_quota(void **state)
{
    static const double busy[] = {0.6, 1.0};
    (void)state;
    for (size_t i = 0; i < sizeof busy / sizeof *busy; i++) {
        struct fixture fx, *f = &fx;
        const struct limits limits = {0.6, 0.4, busy[i], 0.4, -1, -1, "0.6"};
        const struct an_result *r = limited_run(f, &limits);
        const struct an_finding *quota = found(r, "CPU_QUOTA");
        assert_non_null(quota);
        assert_near(r->system.cpu_quota.value, 0.6, 1e-9);
        assert_near(r->system.throttled_cores.value, 0.4, 1e-3);
        assert_false(r->system.cpu_unlimited);
        assert_true(quota->gain.low.value > 0 && quota->gain.high.value <= 68);
        assert_true(quota->gain.low.value <= quota->gain.expected.value &&
                    quota->gain.expected.value <= quota->gain.high.value);
        assert_string_equal(quota->what_if, "cores=2");
        assert_non_null(strstr(quota->action, "raise the CPU quota to 2 cores"));
        assert_false(r->healthy);
        if (i == 0) {
            assert_near(r->system.throttled_pct.value, 40, 0.1);
            assert_near(quota->gain.expected.value, 67, 6);
            assert_true(quota->gain.high.value >= 66);
            assert_string_equal(r->verdict_class, "CPU QUOTA");
            assert_non_null(strstr(r->caution, "CPU QUOTA"));
            assert_null(found(r, "OTHER_PROGRAMS"));
        }
        fx_close(f);
    }
}

/* A team of two threads that gets 0.4 cores: its first thread waits for a core for 0.3 of the time,
 * and sleeps for the rest at the barrier, where the other one is waited for. The CPU time of a step
 * is 8 ms, so it takes 4 ms at most without the quota. */
static void test_team_stops_together(void **state)
{
    struct fixture fx, *f = &fx;
    const struct limits limits = {0.4, 0.3, 0.4, 0.7, -1, -1, "0.4"};
    (void)state;
    environment = "{\"OMP_NUM_THREADS\":\"2\"}";
    const struct an_finding *quota = found(limited_run(f, &limits), "CPU_QUOTA");
    assert_non_null(quota);
    assert_near(quota->gain.low.value, 400, 10);
    assert_near(quota->gain.expected.value, 100 * (20 / (4 * 0.83) - 1), 20);
    assert_true(quota->gain.high.value > quota->gain.expected.value);
    fx_close(f);
    environment = NULL; /* how many threads compute is not known: only the wait is */
    quota = found(limited_run(f, &limits), "CPU_QUOTA");
    assert_non_null(quota);
    assert_true(quota->gain.expected.value < 240);
    fx_close(f);
}

/* The same beside a worker: then its batches bind the step, and those that nothing stopped say what
 * they take without the quota. */
static void test_worker_stops_too(void **state)
{
    struct fixture fx, *f = &fx;
    const struct limits limits = {0.4, 0.3, 0.4, 0.7, -1, -1, "0.4"};
    (void)state;
    environment = "{\"OMP_NUM_THREADS\":\"2\"}";
    has_worker = true;
    const struct an_result *r = limited_run(f, &limits);
    const struct an_finding *quota = found(r, "CPU_QUOTA");
    assert_non_null(quota);
    assert_near(r->loader.quick_batch_ms.value, 12, 1e-6);
    assert_near(r->loader.batch_ms.value, 16.8, 0.2);
    assert_near(quota->gain.low.value, 100 * (20 / 16.8 - 1), 2);
    assert_near(quota->gain.expected.value, 100 * (20 / 14.4 - 1), 2);
    assert_near(quota->gain.high.value, 100 * (20 / 12.0 - 1), 2);
    fx_close(f);
    environment = NULL;
    has_worker = false;
}

/* A loader in line is stopped, too: the median step says what it takes without the quota. */
static void test_loader_stops_too(void **state)
{
    struct fixture fx, *f = &fx;
    const struct limits limits = {0.4, 0.3, 0.4, 0.7, -1, -1, "0.4"};
    (void)state;
    environment = "{\"OMP_NUM_THREADS\":\"2\"}";
    reads_in_line = true;
    const struct an_finding *quota = found(limited_run(f, &limits), "CPU_QUOTA");
    assert_non_null(quota);
    assert_near(quota->gain.low.value, 100 * (20 / (7.0 + 4) - 1), 3);
    assert_near(quota->gain.expected.value, 100 * (20 / (5 + 4 * 0.83) - 1), 5);
    assert_true(quota->gain.high.value > quota->gain.expected.value);
    fx_close(f);
    environment = NULL;
    reads_in_line = false;
}

/* What a quota explains alone is not lost to others, and what others explain alone is not the
 * quota's. */
static void test_whose_time(void **state)
{
    struct fixture fx, *f = &fx;
    const struct limits both = {0.4, 0.6, 2, 0.3, -1, -1, "0.5"};
    (void)state;
    const struct an_result *r = limited_run(f, &both);
    const struct an_system *system = &r->system;
    assert_true(system->throttled_pct.value + system->others_lost_pct.value <= 60 + 1e-6);
    assert_near(system->throttled_pct.value, 30, 0.1);
    assert_near(system->others_lost_pct.value, 30, 0.1);
    assert_true(system->others_lost_low_pct.value >= 29);
    fx_close(f);
    const struct limits mostly_quota = {0.5, 0.5, 0.6, 0.5, -1, -1, "0.5"};
    r = limited_run(f, &mostly_quota);
    assert_near(r->system.throttled_pct.value, 50, 0.1);
    assert_true(r->system.others_lost_pct.value <= 1e-6);
    assert_true(r->system.throttled_low_pct.value >= 24);
    assert_null(found(r, "OTHER_PROGRAMS"));
    fx_close(f);
}

/* Without the run-queue wait the refused core time is a ceiling, and says so. */
static void test_ceiling(void **state)
{
    struct fixture fx, *f = &fx;
    const struct limits limits = {0.6, -1, 0.6, 0.4, -1, -1, "0.6"};
    (void)state;
    const struct an_finding *quota = found(limited_run(f, &limits), "CPU_QUOTA");
    assert_non_null(quota);
    assert_true(quota->gain.ceiling && !quota->gain.low.valid);
    assert_near(quota->gain.high.value, 66.7, 1);
    fx_close(f);
}

/* A quota that is never spent, one that costs 1 % of the time, none at all. */
static void test_no_quota(void **state)
{
    static const struct limits quiet[] = {{0.99, 0.002, 1, 0, 0, 0, "1"},
                                          {0.98, 0.01, 1, 0.01, 0.02, 0.004, "1"},
                                          {0.6, 0.4, 2, -1, 0.04, 0.01, "none"},
                                          {1, 0, 1, -1, 0, 0, "none"}};
    (void)state;
    for (size_t i = 0; i < sizeof quiet / sizeof *quiet; i++) {
        struct fixture fx, *f = &fx;
        const struct an_result *r = limited_run(f, &quiet[i]);
        if (found(r, "CPU_QUOTA") || found(r, "MEMORY_PRESSURE"))
            fail_msg("case %zu: throttled %.2f %%", i, r->system.throttled_pct.value);
        assert_null(open_check(r, "the CPU quota"));
        assert_null(open_check(r, "memory pressure"));
        assert_true(r->system.cpu_unlimited == !strcmp(quiet[i].quota, "none"));
        fx_close(f);
    }
}

/* Where nothing is visible, absent is not zero: the checks were not made, unless no wait is there
 * that a quota could explain. */
static void test_not_visible(void **state)
{
    struct fixture fx, *f = &fx;
    const struct limits hidden = {0.6, 0.4, 0.6, -1, -1, -1, NULL},
                        short_wait = {1, 0.001, 1, -1, -1, -1, NULL};
    (void)state;
    const struct an_result *r = limited_run(f, &hidden);
    const struct an_not_checked *open = open_check(r, "the CPU quota");
    assert_non_null(open);
    assert_non_null(strstr(open->to_check, "/sys/fs/cgroup"));
    assert_non_null(open_check(r, "memory pressure"));
    assert_false(r->system.throttled_pct.valid || r->system.throttled_cores.valid);
    assert_false(r->healthy);
    fx_close(f);
    r = limited_run(f, &short_wait);
    assert_null(open_check(r, "the CPU quota"));
    assert_non_null(open_check(r, "memory pressure"));
    fx_close(f);
}

static void test_pressure(void **state)
{
    struct fixture fx, *f = &fx;
    const struct limits limits = {0.5, 0, 0.5, -1, 0.5, 0.4, "none"};
    (void)state;
    const struct an_result *r = limited_run(f, &limits);
    const struct an_finding *pressure = found(r, "MEMORY_PRESSURE");
    assert_non_null(pressure);
    assert_near(r->pressure.some_pct.value, 50, 0.1);
    assert_near(r->pressure.full_pct.value, 40, 0.1);
    assert_near(pressure->gain.low.value, 66.7, 0.5);
    assert_near(pressure->gain.expected.value, 100, 0.5);
    assert_true(pressure->gain.high.value >= pressure->gain.expected.value);
    assert_string_equal(r->verdict_class, "MEMORY PRESSURE");
    assert_non_null(strstr(pressure->action, "300 MB"));
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_quota),
                                       cmocka_unit_test(test_team_stops_together),
                                       cmocka_unit_test(test_worker_stops_too),
                                       cmocka_unit_test(test_loader_stops_too),
                                       cmocka_unit_test(test_whose_time),
                                       cmocka_unit_test(test_ceiling),
                                       cmocka_unit_test(test_no_quota),
                                       cmocka_unit_test(test_not_visible),
                                       cmocka_unit_test(test_pressure)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
