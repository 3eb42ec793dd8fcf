/* SPDX-License-Identifier: Apache-2.0
 *
 * Capture quality: what is missing is counted, named in trust, and what is whole is not complained
 * about.
 */
#include "tests/unit/an_gpu.h"

static bool complains(const struct an_result *r, const char *what)
{
    for (size_t i = 0; i < r->trust.problem_count; i++)
        if (strstr(r->trust.problems[i], what))
            return true;
    return false;
}

static bool has_sign(const struct an_result *r, const char *what)
{
    for (size_t i = 0; i < r->quality.sign_count; i++)
        if (strstr(r->quality.signs[i], what))
            return true;
    return false;
}

/* Steps ProfilerStep#0.. of 100 us each, every one with a launch and a kernel longer than its call.
 */
static int64_t steps(struct fixture *f, int n)
{
    int64_t s = gpu_stream(f, f->process, "gpu:0", 7);
    for (int i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "ProfilerStep#%d", i);
        gpu_row(f, f->thread, i * 100, (i + 1) * 100, name, "annotation", FX_NONE);
        gpu_launch(f, s, i * 100 + 10, i * 100 + 12, i * 100 + 20, i * 100 + 60,
                   "volta_sgemm_128x64_nn", i + 1);
    }
    return s;
}

static void test_whole(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    steps(f, 6);
    const struct an_result *r = fx_analyze(f);
    const struct an_quality *q = &r->quality;
    assert_null(q->reason);
    assert_int_equal(q->launches_without_op.value, 0);
    assert_int_equal(q->kernels_lost.value, 0);
    assert_int_equal(q->ops_without_launch.value, 0);
    assert_int_equal(q->zero_times.value, 0);
    assert_int_equal(q->unknown_kernels.value, 0);
    assert_int_equal(q->cut_steps.value, 0);
    assert_near(q->unknown_pct.value, 0, 0);
    assert_near(q->start_gap_ms.value, 0.01, 1e-12);
    assert_false(q->profiler_overhead_ms.valid);
    assert_false(q->step_overhead_pct.valid);
    assert_int_equal(q->sign_count, 0);
    assert_false(complains(r, "CAPTURE"));
    assert_false(complains(r, "CLASSES"));
    assert_string_equal(r->trust.source, "tacho");
    fx_close(f);
}

static void test_missing(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    int64_t s = steps(f, 6);
    gpu_row(f, f->thread, 2, 3, "cudaLaunchKernel", "runtime", 100); /* lost at the start, step 0 */
    gpu_row(f, f->thread, 330, 331, "cudaLaunchKernel", "runtime",
            101); /* lost in step 3, which counts */
    gpu_row(f, f->thread, 340, 341, "cudaMemsetAsync", "runtime",
            102); /* 0 bytes: no kernel is missing */
    gpu_row(f, s, 230, 240, "volta_sgemm_128x64_nn", "kernel", 999);
    gpu_row_ns(f, s, -FX_BASE, 1 - FX_BASE, "volta_sgemm_128x64_nn", "kernel", FX_NONE,
               998);                              /* time 0 */
    gpu_row(f, s, 470, 530, "zzqq", "kernel", 5); /* a second op of a launch, of no class */
    const struct an_result *r = fx_analyze(f);
    const struct an_quality *q = &r->quality;
    assert_int_equal(q->launches_without_op.value, 3);
    assert_int_equal(q->kernels_lost.value, 2);
    assert_int_equal(q->ops_without_launch.value, 1);
    assert_int_equal(q->zero_times.value, 1);
    assert_int_equal(q->unknown_kernels.value, 1);
    assert_int_equal(q->unknown_names.value, 1);
    assert_near(q->unknown_pct.value, 100.0 * 60 / 310, 1e-9);
    assert_int_equal(q->cut_steps.value, 2);
    assert_near(q->start_gap_ms.value, 0.018, 1e-12);
    assert_true(complains(r, "CAPTURE: 2 launches of kernels or graphs have no device op in the "
                             "file, 1 of them before"));
    assert_true(complains(r, "CAPTURE: 1 of 8 device ops have no launch call"));
    assert_true(complains(r, "CAPTURE: 1 device rows have no usable time"));
    assert_true(complains(r, "CAPTURE: 1 counted steps lack part"));
    assert_true(complains(r, "CLASSES: 1 kernel names"));
    fx_close(f);
}

static void test_distortion(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    int64_t s = steps(f, 6);
    gpu_row(f, f->thread, 170, 180, "Buffer Flush", "overhead", FX_NONE);
    gpu_row(f, f->thread, 175, 190, "Buffer Flush", "overhead", FX_NONE);
    gpu_row(f, f->thread, 560, 565, "Buffer Flush", "overhead",
            FX_NONE); /* in the last step, which does not count */
    gpu_row(f, f->thread, 0, 600, "train.py(1): <module>", "python", FX_NONE);
    for (int i = 0; i < 7; i++)
        gpu_launch(f, s, 270 + 2 * i, 271 + 2 * i + 1, 270 + 2 * i + (i ? 0 : -3),
                   271 + 2 * i + (i ? 0 : -3), "volta_sgemm_128x64_nn", 50 + i);
    FX(store_run_set(f->s, "source", "kineto"));
    FX(store_run_set(f->s, "source.decimals", "0"));
    const struct an_result *r = fx_analyze(f);
    const struct an_quality *q = &r->quality;
    assert_near(q->profiler_overhead_ms.value, 0.030, 1e-12);
    assert_near(q->step_overhead_pct.value, 100.0 * 20 / 400,
                1e-9); /* 170..190 once; steps 1 to 4 count */
    assert_true(has_sign(r, "took 5.0 % of the counted steps"));
    assert_true(has_sign(r, "1 Python frames"));
    assert_true(has_sign(r, "54 % of the kernels are shorter"));
    assert_true(has_sign(r, "1 device ops start before their launch call, by up to 3.0 us"));
    assert_true(has_sign(r, "whole microseconds"));
    assert_false(has_sign(r, "after the first launch"));
    assert_string_equal(r->trust.source, "kineto");
    assert_false(r->trust.overhead_pct.valid);
    assert_non_null(strstr(r->trust.overhead_pct.reason, "another tool"));
    fx_close(f);
}

/* Short kernels behind a long queue do not make the host slow; a device that starts late was not
 * idle. */
static void test_queue(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    int64_t s = gpu_stream(f, f->process, "gpu:0", 7);
    for (int64_t i = 0; i < 20; i++)
        gpu_launch(f, s, 10 * i, 10 * i + 8, 1500 + 2 * i, 1501 + 2 * i, "volta_sgemm_128x64_nn",
                   i + 1);
    const struct an_result *r = fx_analyze(f);
    assert_near(r->launches.short_pct.value, 100, 0);
    assert_false(has_sign(r, "are shorter"));
    assert_true(has_sign(r, "starts 1.5 ms after the first launch"));
    fx_close(f);
}

static void test_graph(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    gpu_row(f, gpu_stream(f, f->process, "gpu:0", 7), 0, 5, "graph 1", "graph", 1);
    const struct an_result *r = fx_analyze(f);
    assert_true(has_sign(r, "1 graphs were recorded as a whole"));
    assert_false(r->quality.cut_steps.valid);
    assert_false(r->quality.start_gap_ms.valid);
    assert_true(complains(r, "ProfilerActivity.CPU"));
    fx_close(f);
}

/* What is captured into a graph runs with the graph: its launches lost nothing. */
static void test_capture(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    int64_t s = steps(f, 6);
    gpu_row(f, f->thread, 70, 71, "cudaStreamBeginCapture", "runtime", 200);
    gpu_row(f, f->thread, 72, 73, "cudaLaunchKernel", "runtime", 201);
    gpu_row(f, f->thread, 74, 75, "cudaMemsetAsync", "runtime", 202);
    gpu_row(f, f->thread, 76, 77, "cudaStreamEndCapture", "runtime", 203);
    gpu_row(f, f->thread, 78, 79, "cudaLaunchKernel", "runtime", 204); /* this one is lost */
    gpu_row(f, f->thread, 80, 82, "cudaGraphLaunch", "runtime", 205);
    gpu_row(f, s, 84, 86, "volta_sgemm_128x64_nn", "kernel", 205);
    gpu_row(f, s, 87, 88, "Memset (Device)", "memset", 205);
    const struct an_result *r = fx_analyze(f);
    assert_int_equal(r->quality.launches_without_op.value, 1);
    assert_int_equal(r->quality.kernels_lost.value, 1);
    const struct an_finding *found = NULL;
    for (size_t i = 0; i < r->finding_count; i++)
        if (!strcmp(r->findings[i].id, "INCOMPLETE_CAPTURE"))
            found = &r->findings[i];
    assert_non_null(found); /* of tacho's own recording, not of torch.profiler's */
    assert_null(strstr(found->action, "torch.profiler"));
    assert_non_null(strstr(found->action, "TACHO_GPU_MIB"));
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),      cmocka_unit_test(test_missing),
        cmocka_unit_test(test_distortion), cmocka_unit_test(test_queue),
        cmocka_unit_test(test_graph),      cmocka_unit_test(test_capture)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
