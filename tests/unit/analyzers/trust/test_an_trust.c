/* SPDX-License-Identifier: Apache-2.0
 *
 * What a report says of events that are missing: the share of the run and of each rank, the
 * thresholds, what the verdict says first and what it does not conclude.
 */
#include "tests/unit/an_fixture.h"

static void lose(struct fixture *f, int64_t process, int64_t count)
{
    char name[48];
    struct store_loss loss = {.source = "agent",
                              .reason = "event dropped: pool at its cap",
                              .count = count,
                              .t0 = FX_NONE,
                              .t1 = FX_NONE};
    FX(store_loss_add(f->s, &loss));
    snprintf(name, sizeof name, STORE_METRIC_LOST "%lld", (long long)process);
    struct store_metric metric = {.name = name, .unit = "events", .value = (double)count};
    FX(store_metric_set(f->s, &metric));
}

/* 50 steps of 100 ns: a wait for input in the first `wait` ns, then a matrix product. */
static void steps(struct fixture *f, int64_t wait)
{
    int64_t input = fx_kind(f, "input_wait"), work = fx_work(f, "matrix", "fp32", 10, 10, 10);
    for (int64_t i = 0; i < 50; i++) {
        int64_t start = i * 1000000;
        fx_step(f, f->process, f->thread, i, start, start + 1000000, 10, false);
        fx_slice(f, f->thread, start, start + wait * 10000, "input", input);
        fx_slice(f, f->thread, start + wait * 10000, start + 1000000, "matmul", work);
    }
}

static void test_small_loss(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    fx_open(f);
    steps(f, 30);
    lose(f, f->process, 10);
    struct an_result *r = fx_analyze(f);
    assert_int_equal(r->trust.events, 150);
    assert_near(r->trust.lost_pct.value, 100 * 10.0 / 160, 1e-9);
    assert_null(r->trust.missing);
    assert_string_equal(r->verdict_class, "INPUT-BOUND");
    assert_null(strstr(r->verdict, "EVENTS LOST"));
    fx_close(f);
}

/* A third of the events is missing. Input 60 %, compute 40 %: the lead of 20 points of the 67 %
 * that are known is less than what is missing. */
static void test_heavy_loss_leads(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    fx_open(f);
    steps(f, 60);
    lose(f, f->process, 75);
    struct an_result *r = fx_analyze(f);
    assert_near(r->trust.lost_pct.value, 100.0 / 3, 1e-9);
    assert_non_null(strstr(r->trust.missing, "33.3 % of the events are missing (75 of 225)"));
    assert_int_equal(strncmp(r->verdict, "EVENTS LOST: 33.3 %", 19), 0);
    assert_non_null(strstr(r->verdict, "pool at its cap"));
    assert_string_equal(r->verdict_class, "EVENTS LOST");
    assert_null(strstr(r->verdict, "INPUT-BOUND"));
    assert_false(r->healthy);
    for (size_t i = 0; i < r->finding_count; i++) {
        assert_false(r->findings[i].gain.high.valid);
        assert_int_equal(r->findings[i].confidence, AN_LOW);
    }
    fx_close(f);
}

/* 12 % missing cannot turn over a class that leads by 80 points: it is named behind the loss. */
static void test_heavy_loss_keeps_a_clear_class(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    fx_open(f);
    steps(f, 90);
    lose(f, f->process, 20);
    struct an_result *r = fx_analyze(f);
    assert_int_equal(strncmp(r->verdict, "EVENTS LOST: 11.8 %", 19), 0);
    assert_non_null(strstr(r->verdict, "INPUT-BOUND"));
    assert_string_equal(r->verdict_class, "INPUT-BOUND");
    fx_close(f);
}

/* 4 % of the run, but half of rank 1: the ranks cannot be compared. */
static void test_loss_of_one_rank(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    fx_open(f);
    steps(f, 90);
    int64_t process = fx_process(f, 1, "train"), thread = fx_track(f, process, "thread", "t", NULL);
    for (int64_t i = 0; i < 6; i++)
        fx_slice(f, thread, i * 100, i * 100 + 50, "a", FX_NONE);
    lose(f, process, 6);
    struct an_result *r = fx_analyze(f);
    assert_int_equal(r->trust.by_process_count, 1);
    assert_true(r->trust.by_process[0].is_rank);
    assert_int_equal(r->trust.by_process[0].number, 1);
    assert_near(r->trust.by_process[0].pct, 50, 1e-9);
    assert_non_null(strstr(r->verdict, "50.0 % of the events of rank 1 are missing (6 of 12)"));
    fx_close(f);
}

/* Nothing is in the file, because everything was lost. */
static void test_all_lost(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    fx_open(f);
    lose(f, f->process, 5000);
    struct an_result *r = fx_analyze(f);
    assert_string_equal(r->verdict_class, "EVENTS LOST");
    assert_non_null(strstr(r->verdict, "100.0 % of the events are missing (5000 of 5000)"));
    assert_non_null(strstr(r->verdict, "pool at its cap"));
    assert_null(strstr(r->verdict, "recorded no NVTX"));
    fx_close(f);
}

/* A damaged count is the largest number there is: sums with it stay that. */
static void test_count_at_its_end(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    fx_open(f);
    steps(f, 30);
    lose(f, f->process, INT64_MAX);
    struct an_result *r = fx_analyze(f);
    assert_non_null(strstr(r->trust.missing, "(9223372036854775807 of 9223372036854775807)"));
    fx_close(f);
}

static void test_unknown_number_lost(void **state)
{
    struct fixture fixture, *f = &fixture;
    struct store_loss loss = {.source = "agent",
                              .reason = "event dropped: no file for the pool of a process",
                              .count = FX_NONE,
                              .t0 = FX_NONE,
                              .t1 = FX_NONE};
    (void)state;
    fx_open(f);
    steps(f, 90);
    FX(store_loss_add(f->s, &loss));
    struct an_result *r = fx_analyze(f);
    assert_non_null(strstr(r->verdict, "EVENTS LOST: an unknown number of events is missing"));
    assert_false(r->trust.lost_pct.valid);
    fx_close(f);
}

/* What importers and the recorder write into the table `loss`. */
static struct an_result *one_loss(struct fixture *f, const char *source, const char *reason)
{
    struct store_loss loss = {
        .source = source, .reason = reason, .count = 3, .t0 = FX_NONE, .t1 = FX_NONE};
    fx_open(f);
    steps(f, 90);
    FX(store_loss_add(f->s, &loss));
    return fx_analyze(f);
}

/* A count of cuts, pages or files is no count of events. */
static void test_counts_of_places(void **state)
{
    static const char *const reasons[] = {
        "file ends in the middle of plane /device:GPU:0",
        "file ends between its planes, or is damaged there",
        "gzip data ends early or is damaged",
        "text after the end of the trace: not read",
        "database page missing: the file was cut off",
        "table is damaged: the rest of it was not read",
        "plane or line is damaged",
        "compressed packets that are damaged or too large",
        "entry with more than 65,536 values: the others were not read",
        "tags beyond the 4096th",
        "capture in a format that has to be converted to be read"};
    struct fixture fixture, *f = &fixture;
    (void)state;
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        struct an_result *r = one_loss(f, "trace.db", reasons[i]);
        assert_false(r->trust.lost_events.valid);
        assert_string_equal(r->trust.lost_events.reason, reasons[i]);
        assert_true(r->trust.losses[0].lost);
        fx_close(f);
    }
}

/* Events that are there all the same, other captures, and what was not measured. */
static void test_nothing_is_missing(void **state)
{
    static const char *const pairs[][2] = {
        {"trace.json", "duration below 0 (kept as 0)"},
        {"trace.json", "argument is not valid JSON"},
        {"trace.json", "event has no usable duration (kept, its end is open)"},
        {"trace.json", "begin event (ph B) without its end (kept, its end is open)"},
        {"trace.sqlite", "NVTX payload that does not match its schema (kept: the range has none)"},
        {"trace.sqlite", "name in a damaged part of the file (kept: its event has none)"},
        {"trace.et", "dependency on a node that is not in the file (kept: the node begins "
                     "without it)"},
        {"folder", "earlier capture of the same worker: report its file alone"},
        {"peak", "instruction peak not measured: no loop for this CPU architecture yet"}};
    struct fixture fixture, *f = &fixture;
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct an_result *r = one_loss(f, pairs[i][0], pairs[i][1]);
        assert_true(r->trust.lost_events.valid);
        assert_int_equal(r->trust.lost_events.value, 0);
        assert_int_equal(r->trust.loss_count, 1);
        fx_close(f);
    }
}

static void test_counters_only(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    fx_open(f);
    int64_t loss = fx_track(f, f->process, "counter", "loss", NULL);
    for (int64_t i = 0; i < 10; i++)
        fx_counter(f, loss, i * 1000, (double)i);
    struct an_result *r = fx_analyze(f);
    assert_string_equal(r->verdict_class, "COUNTERS ONLY");
    assert_non_null(strstr(r->verdict, "emitted 1 counter and no ranges"));
    fx_close(f);
}

static void test_suspended(void **state)
{
    struct fixture fixture, *f = &fixture;
    bool said = false;
    (void)state;
    fx_open(f);
    steps(f, 30);
    FX(store_run_set(f->s, "start.suspended_ns", "1000000000"));
    FX(store_run_set(f->s, "end.suspended_ns", "13500000000"));
    struct an_result *r = fx_analyze(f);
    for (size_t i = 0; i < r->trust.problem_count; i++)
        said |=
            strstr(r->trust.problems[i], "SUSPENDED: the machine was suspended for 12.5 s") != NULL;
    assert_true(said);
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_loss),
        cmocka_unit_test(test_heavy_loss_leads),
        cmocka_unit_test(test_heavy_loss_keeps_a_clear_class),
        cmocka_unit_test(test_loss_of_one_rank),
        cmocka_unit_test(test_all_lost),
        cmocka_unit_test(test_unknown_number_lost),
        cmocka_unit_test(test_count_at_its_end),
        cmocka_unit_test(test_counts_of_places),
        cmocka_unit_test(test_nothing_is_missing),
        cmocka_unit_test(test_counters_only),
        cmocka_unit_test(test_suspended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
