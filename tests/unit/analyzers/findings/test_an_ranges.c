/* SPDX-License-Identifier: Apache-2.0
 *
 * HOST_BOUND of steps that compute on the processor: a range on the path that neither computes,
 * loads nor communicates, with the replay of its absence.
 */
#include "tests/unit/an_graph.h"

#define MS 1000000

static int every = 1; /* steps, in one of which the range takes its time */

/* 40 steps of 20 ms, of which `name` takes the last `most` ms, or a twentieth more or less, in
 * turns. */
static const struct an_result *run(struct fixture *f, const char *name, double most)
{
    fx_open(f);
    int64_t work = fx_work(f, "matrix", "fp32", 1, 1, 1);
    FX(store_run_set(f->s, "command", "[\"train\",\"gpt2-tiny\",\"--log-every\",\"1\"]"));
    for (int64_t i = 0; i < 40; i++) {
        double ms = i % every ? 0.1 : most;
        int64_t at = (i + 1) * 20 * MS,
                from = at + (int64_t)((20 - ms + 0.05 * (double)(i % 3 - 1) * ms) * MS);
        fx_step(f, f->process, f->thread, i, at, at + 20 * MS, 4, false);
        fx_slice(f, f->thread, at, from, "matmul", work);
        struct store_slice range = {.track = f->thread,
                                    .start = FX_BASE + from,
                                    .dur = at + 20 * MS - from,
                                    .name = fx_string(f, name),
                                    .category = fx_string(f, "libtrain"),
                                    .detail = FX_NONE,
                                    .correlation = FX_NONE};
        FX(store_slice_add(f->s, &range));
    }
    return fx_analyze(f);
}

static const struct an_finding *bound(const struct an_result *r)
{
    for (size_t i = 0; i < r->finding_count; i++)
        if (!strcmp(r->findings[i].id, "HOST_BOUND"))
            return &r->findings[i];
    return NULL;
}

/* 8 of 20 ms: without it a step takes 12 ms, 66.7 % more a second; a hundredth of it stays. */
static void test_log(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    const struct an_finding *log = bound(run(f, "log", 8));
    assert_non_null(log);
    assert_non_null(strstr(log->claim, " % of every step is log, on the thread"));
    assert_non_null(strstr(log->action, "--log-every 100"));
    assert_non_null(strstr(log->verify, "--log-every 100"));
    assert_string_equal(log->setting, "--log-every 100"); /* so that tacho verify can make it */
    assert_false(log->gain.ceiling);
    assert_near(log->gain.expected.value, 65.6, 1);
    assert_true(log->gain.low.value > 0 && log->gain.low.value <= log->gain.expected.value);
    assert_string_equal(log->what_if, "framework=1%");
    fx_close(f);
}

/* 8 of 20 ms in each third step, 0.1 in the others: the typical step gains nothing, and the run
 * 60 ms in 51.8. */
static void test_log_now_and_then(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    every = 3;
    const struct an_finding *log = bound(run(f, "log", 8));
    every = 1;
    assert_non_null(log);
    assert_near(log->gain.expected.value, 100 * (60 / 51.88 - 1), 1);
    assert_true(log->gain.low.value > 5);
    fx_close(f);
}

/* Another range gets another action; "catalog" is no log. */
static void test_other(void **state)
{
    static const char *const names[] = {"metrics", "catalog"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct fixture fx, *f = &fx;
        const struct an_finding *other = bound(run(f, names[i], 8));
        assert_non_null(other);
        assert_non_null(strstr(other->action, "less often, or on another thread"));
        fx_close(f);
    }
}

/* What a range that holds others leaves over is no work that could be done less often. */
static void test_around(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t work = fx_work(f, "matrix", "fp32", 1, 1, 1);
    for (int64_t i = 0; i < 40; i++) {
        int64_t at = (i + 1) * 20 * MS;
        fx_step(f, f->process, f->thread, i, at, at + 20 * MS, 4, false);
        fx_slice(f, f->thread, at, at + 20 * MS - 1000, "micro_step", FX_NONE);
        fx_slice(f, f->thread, at, at + 12 * MS, "matmul", work);
    }
    assert_null(bound(fx_analyze(f)));
    fx_close(f);
}

/* 0.2 of 20 ms is below the noise floor. */
static void test_short(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    assert_null(bound(run(f, "log", 0.2)));
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_log), cmocka_unit_test(test_other),
                                       cmocka_unit_test(test_around), cmocka_unit_test(test_short),
                                       cmocka_unit_test(test_log_now_and_then)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
