/* SPDX-License-Identifier: Apache-2.0
 *
 * FLOPs exactly, their share of named peaks, and the refusals.
 */
#include "an_fixture.h"

#define BIG 1000000000000000003ll /* more digits than a double has */

/* n steps of 1 ms with one matrix work of 0.5 ms and an element-wise one. */
static void steps(struct fixture *f, int64_t process, int64_t track, int n, int64_t matrix, int64_t other)
{
    for (int i = 0; i < n; i++) {
        int64_t b = i * 1000000ll;
        fx_step(f, process, track, i, b, b + 1000000, 64, false);
        fx_slice(f, track, b + 100, b + 500100, "matmul", matrix);
        fx_slice(f, track, b + 600000, b + 700000, "gelu", other);
    }
}

static void test_three_conventions(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    fx_peak(f, "bf16", 1e9, "measured: not this one");
    fx_peak(f, "fp32", 4e9, "measured: instruction peak, 2 cores");
    steps(f, f->process, f->thread, 6, fx_work(f, "attention", "fp32", 3000000, 1000000, 2000000),
          fx_work(f, "other", "fp32", 777, 0, 0));
    const struct an_utilization *u = &fx_analyze(f)->utilization;
    assert_int_equal(u->model_flops_per_step.value, 1000000);
    assert_int_equal(u->palm_flops_per_step.value, 2000000);
    assert_int_equal(u->hardware_flops_per_step.value, 3000000); /* element-wise work is not in it */
    assert_int_equal(u->model_flops.value, 4000000);
    assert_false(u->flops_vary);
    assert_near(u->mfu.value, 1000000 / (4e9 * 1e-3), 1e-12);
    assert_near(u->mfu_palm.value, 0.5, 1e-12);
    assert_near(u->hfu.value, 0.75, 1e-12);
    assert_near(u->achieved_flops.value, 3e9, 1);
    assert_near(u->flop_coverage_pct.value, 100, 0);
    assert_string_equal(u->dtype, "fp32");
    assert_near(u->peak_flops.value, 4e9, 0);
    assert_string_equal(u->peak_source, "measured: instruction peak, 2 cores");
    assert_false(u->mfu_measured.valid);
    fx_close(f);
}

static void test_integers_are_exact(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    steps(f, f->process, f->thread, 5, fx_work(f, "matrix", "fp32", BIG, BIG - 2, BIG + 2),
          fx_work(f, "other", "fp32", 1, 0, 0));
    const struct an_utilization *u = &fx_analyze(f)->utilization;
    assert_int_equal(u->hardware_flops_per_step.value, BIG);
    assert_int_equal(u->model_flops_per_step.value, BIG - 2);
    assert_int_equal(u->palm_flops_per_step.value, BIG + 2);
    assert_int_equal(u->model_flops.value, 3 * (BIG - 2));
    assert_false(u->mfu.valid);
    assert_non_null(strstr(u->mfu.reason, "--peak"));
    fx_close(f);
}

/* A work inside a work is part of it; one outside of steps belongs to none. */
static void test_nothing_counts_twice(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t outer = fx_work(f, "matrix", "fp32", 100, 100, 100), inner = fx_work(f, "matrix", "fp32", 60, 60, 60);
    int64_t helper = fx_track(f, f->process, "thread", "backward", NULL);
    for (int i = 0; i < 5; i++) {
        int64_t b = i * 1000;
        fx_step(f, f->process, f->thread, i, b, b + 900, 64, false);
        fx_slice(f, f->thread, b + 100, b + 300, "layer", outer);
        fx_slice(f, f->thread, b + 120, b + 200, "matmul", inner);
        fx_slice(f, helper, b + 400, b + 500, "matmul", inner); /* another thread of the process works for the step too */
        fx_slice(f, f->thread, b + 950, b + 990, "matmul", inner);
    }
    const struct an_utilization *u = &fx_analyze(f)->utilization;
    assert_int_equal(u->model_flops_per_step.value, 160);
    fx_close(f);
}

/* Only flops, bytes, type and pass: the smallest tacho.work. What it does not say is not taken for 0. */
static void test_work_without_kind(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    fx_peak(f, "fp32", 1e9, "measured");
    struct store_detail d = fx_empty();
    d.schema = "tacho.work";
    d.dtype = "fp32";
    d.pass = "forward";
    d.flops = d.model_flops = d.palm_flops = 100;
    int64_t forward = fx_intern(f, &d);
    d.pass = "recompute";
    d.model_flops = d.palm_flops = 0;
    int64_t again = fx_intern(f, &d);
    d.pass = "optimizer";
    int64_t optimizer = fx_intern(f, &d);
    for (int i = 0; i < 5; i++) {
        int64_t b = i * 1000;
        fx_step(f, f->process, f->thread, i, b, b + 900, 64, false);
        fx_slice(f, f->thread, b + 100, b + 300, "forward", forward);
        fx_slice(f, f->thread, b + 300, b + 400, "again", again);
        fx_slice(f, f->thread, b + 400, b + 500, "update", optimizer);
    }
    const struct an_utilization *u = &fx_analyze(f)->utilization;
    assert_int_equal(u->model_flops_per_step.value, 100);
    assert_int_equal(u->hardware_flops_per_step.value, 200);
    assert_true(u->mfu.valid && u->hfu.valid);
    assert_near(u->mfu.value, 100 / 900.0, 1e-9);
    assert_near(u->hfu.value, 200 / 900.0, 1e-9);
    fx_close(f);
}

static void test_mixed_types(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    fx_peak(f, "bf16", 8e9, "datasheet");
    fx_peak(f, "bf16", 9e9, "measured: roof");
    fx_peak(f, "fp32", 1e9, "datasheet");
    steps(f, f->process, f->thread, 6, fx_work(f, "matrix", "bf16", 800000, 800000, 800000),
          fx_work(f, "matrix", "fp32", 300000, 300000, 300000));
    const struct an_utilization *u = &fx_analyze(f)->utilization;
    /* 0.8 M at 8 G take 0.1 ms, 0.3 M at 1 G take 0.3 ms: 0.4 of the step */
    assert_near(u->mfu.value, 0.4, 1e-12);
    assert_near(u->peak_flops.value, 1.1e6 / 0.4e-3, 1);
    assert_string_equal(u->dtype, "bf16+fp32");
    assert_string_equal(u->peak_source, "datasheet");
    fx_close(f);
}

static void test_peak_of_a_missing_type(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    fx_peak(f, "fp32", 1e9, "datasheet");
    steps(f, f->process, f->thread, 6, fx_work(f, "matrix", "bf16", 800, 800, 800), fx_work(f, "matrix", "fp32", 3, 3, 3));
    const struct an_result *r = fx_analyze(f);
    assert_false(r->utilization.mfu.valid);
    assert_non_null(strstr(r->utilization.mfu.reason, "bf16"));
    assert_true(r->utilization.model_flops_per_step.valid); /* the count stays */
    struct an_options o = {.peak_flops = 1e9};
    r = fx_analyze_with(f, &o);
    assert_near(r->utilization.mfu.value, 803 / 1e6, 1e-12);
    assert_string_equal(r->utilization.peak_source, "--peak");
    fx_close(f);
}

static void test_above_the_peak_is_an_error(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    fx_peak(f, "fp32", 1e9, "datasheet");
    steps(f, f->process, f->thread, 6, fx_work(f, "matrix", "fp32", 900000, 900000, 1100000),
          fx_work(f, "other", "fp32", 3, 0, 0));
    const struct an_result *r = fx_analyze(f);
    assert_near(r->utilization.mfu.value, 0.9, 1e-12);
    assert_false(r->utilization.mfu_palm.valid);
    assert_non_null(strstr(r->utilization.mfu_palm.reason, "110.0 %"));
    assert_int_equal(r->trust.problem_count, 1);
    assert_non_null(strstr(r->trust.problems[0], "counting error"));
    fx_close(f);
}

static void test_coverage(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    fx_peak(f, "fp32", 1e9, "datasheet");
    steps(f, f->process, f->thread, 6, fx_work(f, "matrix", "fp32", FX_NONE, FX_NONE, FX_NONE),
          fx_work(f, "matrix", "fp32", 500, 500, 500));
    const struct an_utilization *u = &fx_analyze(f)->utilization;
    assert_near(u->flop_coverage_pct.value, 100.0 / 6, 1e-9);
    assert_false(u->mfu.valid || u->hfu.valid || u->mfu_palm.valid);
    assert_non_null(strstr(u->hfu.reason, "16.7 %"));
    fx_close(f);
}

static void test_flops_per_step_option(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    for (int i = 0; i < 6; i++)
        fx_slice(f, f->thread, i * 1000000, i * 1000000 + 1000000, "train_step", FX_NONE);
    struct an_options o = {.flops_per_step = 5e8, .peak_flops = 1e12};
    const struct an_utilization *u = &fx_analyze_with(f, &o)->utilization;
    assert_near(u->mfu.value, 0.5, 1e-12);
    assert_int_equal(u->model_flops_per_step.value, 500000000);
    assert_false(u->hfu.valid);
    o.peak_flops = 0;
    u = &fx_analyze_with(f, &o)->utilization;
    assert_false(u->mfu.valid);
    fx_close(f);
}

/* Ranks on one machine's CPU share its peak; ranks on two machines have one each. */
static void ranks(bool apart, double want)
{
    struct fixture fx, *f = &fx;
    fx_open(f);
    fx_peak(f, "fp32", 4e9, "datasheet");
    int64_t matrix = fx_work(f, "matrix", "fp32", 1000000, 1000000, 1000000), other = fx_work(f, "other", "fp32", 1, 0, 0);
    for (int rank = 0; rank < 2; rank++) {
        struct store_process p = {.rank = rank,
                                  .pid = 7 + rank,
                                  .parent_pid = 1,
                                  .start = FX_BASE,
                                  .end = FX_NONE,
                                  .exit_status = FX_NONE,
                                  .host = apart && rank ? "b" : "a",
                                  .device = "cpu",
                                  .program = "train"};
        FX(store_process_add(f->s, &p));
        steps(f, p.id, fx_track(f, p.id, "thread", "main", NULL), 6, matrix, other);
    }
    const struct an_utilization *u = &fx_analyze(f)->utilization;
    assert_int_equal(u->model_flops_per_step.value, 2000000);
    assert_near(u->mfu.value, want, 1e-12);
    assert_near(u->peak_flops.value, apart ? 8e9 : 4e9, 1);
    fx_close(f);
}

static void test_ranks_and_devices(void **state)
{
    (void)state;
    ranks(false, 0.5);
    ranks(true, 0.25);
}

static void test_varying_steps(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t small = fx_work(f, "matrix", "fp32", 100, 100, 100), large = fx_work(f, "matrix", "fp32", 301, 301, 301);
    for (int i = 0; i < 6; i++) {
        fx_step(f, f->process, f->thread, i, i * 1000, i * 1000 + 900, 64, false);
        fx_slice(f, f->thread, i * 1000, i * 1000 + 500, "matmul", i % 2 ? small : large);
    }
    const struct an_utilization *u = &fx_analyze(f)->utilization;
    assert_true(u->flops_vary);
    assert_int_equal(u->model_flops.value, 802);
    assert_int_equal(u->model_flops_per_step.value, 201); /* 200.5, rounded */
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_three_conventions),
        cmocka_unit_test(test_integers_are_exact),
        cmocka_unit_test(test_nothing_counts_twice),
        cmocka_unit_test(test_work_without_kind),
        cmocka_unit_test(test_mixed_types),
        cmocka_unit_test(test_peak_of_a_missing_type),
        cmocka_unit_test(test_above_the_peak_is_an_error),
        cmocka_unit_test(test_coverage),
        cmocka_unit_test(test_flops_per_step_option),
        cmocka_unit_test(test_ranks_and_devices),
        cmocka_unit_test(test_varying_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
