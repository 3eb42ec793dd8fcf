/* SPDX-License-Identifier: Apache-2.0
 *
 * Launches: delays, queues and short kernels by hand; queues also against a table with one cell a
 * nanosecond.
 */
#include "analyzers/base/stats.h"
#include "tests/unit/an_gpu.h"

static const struct an_launch_row *call_row(const struct an_result *r, const char *name)
{
    for (size_t i = 0; i < r->launches.row_count; i++)
        if (!strcmp(r->launches.rows[i].name, name))
            return &r->launches.rows[i];
    return NULL;
}

/* Delays 0 (kernel started before the call had ended), 5, 20, 75 us. */
static void test_delays(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    int64_t s = gpu_stream(f, f->process, "gpu:0", 7);
    gpu_launch(f, s, 0, 10, 8, 30, "a", 1);
    gpu_launch(f, s, 20, 25, 30, 31, "b", 2);
    gpu_launch(f, s, 30, 40, 60, 80, "a", 3);
    gpu_launch(f, s, 45, 50, 125, 129, "a", 4);
    const struct an_launches *l = &fx_analyze(f)->launches;
    assert_null(l->reason);
    assert_int_equal(l->calls, 4);
    assert_int_equal(l->matched, 4);
    assert_int_equal(l->graphs, 0);
    assert_near(l->host_mean_us.value, 7.5, 1e-12);
    assert_near(l->delay_mean_us.value, 25, 1e-12);
    assert_near(l->delay_median_us.value, 12.5, 1e-12);
    assert_near(l->delay_p95_us.value, 20 + 0.85 * 55, 1e-9);
    assert_near(l->delay_max_us.value, 75, 1e-12);
    /* shorter than their call: b (1 < 5), the last a (4 < 5) */
    assert_int_equal(l->short_kernels.value, 2);
    assert_near(l->short_pct.value, 50, 1e-12);
    /* [0,8) [20,30) [30,60) [45,125): at most 2; 8 + 10 + 30 + 80 of 125 us */
    assert_near(l->queue_max.value, 2, 0);
    assert_near(l->queue_mean.value, 128.0 / 125, 1e-12);
    assert_near(l->full_queue_pct.value, 0, 0);
    fx_close(f);
}

/* A graph of three kernels is one launch; its delay is that of its first kernel; its kernels are
 * not compared with the call. */
static void test_graph(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    int64_t s = gpu_stream(f, f->process, "gpu:0", 7),
            other = gpu_stream(f, f->process, "gpu:0", 8);
    gpu_row(f, f->thread, 0, 100, "cudaGraphLaunch", "runtime", 9);
    gpu_row(f, other, 120, 130, "k2", "kernel", 9);
    gpu_row(f, s, 110, 115, "k1", "kernel", 9);
    gpu_row(f, s, 140, 150, "k3", "kernel", 9);
    const struct an_launches *l = &fx_analyze(f)->launches;
    assert_int_equal(l->calls, 1);
    assert_int_equal(l->matched, 1);
    assert_int_equal(l->graphs, 1);
    assert_near(l->delay_mean_us.value, 10, 1e-12);
    assert_near(l->queue_max.value, 1, 0);
    assert_near(l->queue_mean.value, 1, 1e-12);
    assert_false(l->short_kernels.valid);
    assert_false(l->short_pct.valid);
    fx_close(f);
}

/* Launches without an op and ops without a launch never enter the queue: it is never below nothing,
 * and never stays up. */
static void test_one_sided(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    int64_t s = gpu_stream(f, f->process, "gpu:0", 7);
    gpu_row(f, s, 0, 5, "early", "kernel", 1); /* its launch was before the capture */
    gpu_row(f, s, 5, 6, "none", "kernel", FX_NONE);
    gpu_launch(f, s, 10, 12, 14, 20, "a", 2);
    gpu_row(f, f->thread, 20, 22, "cudaLaunchKernel", "runtime", 3); /* lost */
    gpu_row(f, f->thread, 23, 24, "cudaMemsetAsync", "runtime", 4);  /* 0 bytes */
    gpu_launch(f, s, 30, 32, 29, 40, "clock", 5); /* device clock behind: never waits */
    gpu_row(f, f->thread, 50, 60, "cudaMalloc", "runtime", 6);
    const struct an_result *r = fx_analyze(f);
    const struct an_launches *l = &r->launches;
    assert_int_equal(l->calls, 4);
    assert_int_equal(l->matched, 2);
    assert_near(l->queue_max.value, 1, 0);
    assert_near(l->queue_mean.value, 4.0 / 20, 1e-12); /* [10,14) in 10..30 */
    assert_near(l->delay_mean_us.value, 1, 1e-12);     /* 2 and 0 */
    assert_int_equal(l->short_kernels.value, 0);
    assert_int_equal(call_row(r, "cudaLaunchKernel")->count, 3);
    assert_int_equal(call_row(r, "cudaLaunchKernel")->host_ns, 6000);
    assert_int_equal(call_row(r, "cudaMemsetAsync")->count, 1);
    assert_null(call_row(r, "cudaMalloc"));
    assert_int_equal(r->quality.launches_without_op.value, 2);
    assert_int_equal(r->quality.kernels_lost.value, 1);
    assert_int_equal(r->quality.ops_without_launch.value, 2);
    fx_close(f);
}

/* 1100 launches at 1 us each, the device starts them from 2000 us on, 1 us each: full from the
 * 1024th to the start of the 77th.
 */
static void test_full(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    int64_t s = gpu_stream(f, f->process, "gpu:0", 7);
    for (int64_t i = 0; i < 1100; i++)
        gpu_launch(f, s, i, i + 1, 2000 + i, 2000 + i + 1, "k", i + 1);
    const struct an_launches *l = &fx_analyze(f)->launches;
    assert_near(l->queue_max.value, 1100, 0);
    assert_near(l->full_queue_pct.value, 100.0 * (2076 - 1023) / 3099, 1e-9);
    assert_near(l->queue_mean.value, 1100.0 * 2000 / 3099, 1e-9);
    fx_close(f);
}

/* Random calls on three streams of two devices against a count for every ns. */
static void test_queue_against_cells(void **state)
{
    enum { CALLS = 120, STREAMS = 3, CELLS = 3000 };
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        static int cell[STREAMS][CELLS];
        struct fixture fixture, *f = &fixture;
        uint64_t random = seed;
        int64_t s[STREAMS], first[STREAMS], last[STREAMS];
        fx_open(f);
        memset(cell, 0, sizeof cell);
        for (int k = 0; k < STREAMS; k++) {
            s[k] = gpu_stream(f, f->process, k < 2 ? "gpu:0" : "gpu:1", k);
            first[k] = CELLS;
            last[k] = 0;
        }
        for (int64_t i = 0; i < CALLS; i++) {
            int k = (int)(an_random(&random) % STREAMS);
            int64_t call = (int64_t)(an_random(&random) % 2000),
                    start = call + (int64_t)(an_random(&random) % 900) - 50;
            start = start < 0 ? 0 : start;
            gpu_row_ns(f, f->thread, call, call + 3, "cudaLaunchKernel", "runtime", FX_NONE, i);
            gpu_row_ns(f, s[k], start, start + 7, "k", "kernel", FX_NONE, i);
            for (int64_t at = call; at < start; at++)
                cell[k][at]++;
            first[k] = call < first[k] ? call : first[k];
            last[k] =
                (start > call ? start : call) > last[k] ? (start > call ? start : call) : last[k];
        }
        int most = 0;
        double area = 0, time = 0;
        for (int k = 0; k < STREAMS; k++) {
            time += last[k] > first[k] ? (double)(last[k] - first[k]) : 0;
            for (int at = 0; at < CELLS; at++) {
                most = cell[k][at] > most ? cell[k][at] : most;
                area += cell[k][at];
            }
        }
        const struct an_launches *l = &fx_analyze(f)->launches;
        assert_int_equal(l->matched, CALLS);
        assert_near(l->queue_max.value, most, 0);
        assert_near(l->queue_mean.value, area / time, 1e-9);
        fx_close(f);
    }
}

/* Device rows alone: absent with the way to get them. A CPU run: absent. */
static void test_absent(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    gpu_row(f, gpu_stream(f, f->process, "gpu:0", 7), 0, 5, "k", "kernel", 1);
    const struct an_result *r = fx_analyze(f);
    assert_non_null(strstr(r->launches.reason, "ProfilerActivity.CPU"));
    assert_false(r->launches.queue_mean.valid);
    assert_false(r->launches.short_kernels.valid);
    fx_close(f);
    fx_open(f);
    fx_slice(f, f->thread, 0, 10, "work", FX_NONE);
    r = fx_analyze(f);
    assert_string_equal(r->launches.reason, "no accelerator in this run");
    assert_string_equal(r->quality.reason, "no accelerator in this run");
    fx_close(f);
}

static void test_quantile(void **state)
{
    (void)state;
    uint64_t random = 7;
    for (size_t n = 1; n < 60; n++)
        for (int k = 0; k < 6; k++) {
            static const double q[] = {0, 0.05, 0.5, 0.77, 0.95, 1};
            double x[60], y[60];
            for (size_t i = 0; i < n; i++)
                x[i] = y[i] = (double)(an_random(&random) % (k < 3 ? 10 : 1000));
            an_sort(x, n);
            assert_near(an_quantile_of(y, n, q[k]), an_quantile(x, n, q[k]), 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_delays),
        cmocka_unit_test(test_graph),
        cmocka_unit_test(test_one_sided),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_queue_against_cells),
        cmocka_unit_test(test_absent),
        cmocka_unit_test(test_quantile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
