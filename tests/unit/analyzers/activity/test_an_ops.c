/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of ops: kernels of an accelerator run, ranges of a CPU run; the exact spread.
 */
#include "analyzers/base/stats.h"
#include "tests/unit/an_gpu.h"

static const struct an_op *op_row(const struct an_result *r, const char *name)
{
    for (size_t i = 0; i < r->op_count; i++)
        if (!strcmp(r->ops[i].name, name))
            return &r->ops[i];
    fail_msg("no row %s", name);
    return NULL;
}

/* Device ops of the whole capture, whatever the steps: nothing is left out, waits and annotations
 * are no ops. */
static void test_kernels(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    int64_t s = gpu_stream(f, f->process, "gpu:0", 7),
            other = gpu_stream(f, f->process, "gpu:1", 7);
    for (int i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "ProfilerStep#%d", i);
        gpu_row(f, f->thread, i * 100, (i + 1) * 100, name, "annotation", FX_NONE);
        gpu_row_ns(f, s, i * 100000, i * 100000 + 1000 * i + 1, "volta_sgemm_128x64_nn", "kernel",
                   FX_NONE, i);
    }
    gpu_row_ns(f, other, 5, 45, "volta_sgemm_128x64_nn", "kernel", FX_NONE, 9);
    gpu_row_ns(f, other, 7, 10007, "ncclDevKernel_AllReduce_Sum", "kernel", FX_NONE, 10);
    gpu_row_ns(f, other, 10, 110, "Memcpy HtoD", "memcpy", gpu_copy(f, "HtoD", "pinned", 3000), 11);
    gpu_row_ns(f, other, 200, 900, "Stream Sync", "sync", FX_NONE, 12);
    gpu_row_ns(f, other, 0, 90000, "forward", "annotation", FX_NONE, FX_NONE);
    const struct an_result *r = fx_analyze(f);
    assert_string_equal(r->ops_window, "the whole capture");
    assert_int_equal(r->op_count, 3);
    const struct an_op *o = op_row(r, "volta_sgemm_128x64_nn"); /* 1, 1001, 2001, 3001, 40 */
    assert_string_equal(o->category, "kernel");
    assert_string_equal(o->kind, "matrix");
    assert_int_equal(o->count, 5);
    assert_int_equal(o->total_ns, 6044);
    assert_int_equal(o->self_ns, 6044);
    assert_int_equal(o->min_ns.value, 1);
    assert_int_equal(o->max_ns.value, 3001);
    assert_near(o->mean_us.value, 1.2088, 1e-12);
    double squares = 0;
    static const double x[] = {1, 1001, 2001, 3001, 40};
    for (int i = 0; i < 5; i++)
        squares += (x[i] - 1208.8) * (x[i] - 1208.8);
    assert_near(o->sd_us.value, sqrt(squares / 4) / 1e3, 1e-12);
    assert_near(o->share_pct.value, 100.0 * 6044 / (6044 + 10000 + 100), 1e-9);
    assert_false(o->flops.valid);
    o = op_row(r, "ncclDevKernel_AllReduce_Sum");
    assert_string_equal(o->kind, "comm");
    assert_false(o->sd_us.valid); /* one call has no spread */
    assert_non_null(o->sd_us.reason);
    assert_string_equal(r->ops[0].name, "ncclDevKernel_AllReduce_Sum"); /* by time */
    o = op_row(r, "Memcpy HtoD");
    assert_string_equal(o->category, "memcpy");
    assert_int_equal(o->bytes.value, 3000);
    assert_near(o->bytes_per_s.value, 3e10, 1);
    fx_close(f);
}

static void test_cpu(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    fx_slice(f, f->thread, 0, 100, "outer", FX_NONE);
    fx_slice(f, f->thread, 10, 40, "inner", FX_NONE);
    fx_slice(f, f->thread, 50, 52, "inner", FX_NONE);
    const struct an_result *r = fx_analyze(f);
    assert_string_equal(r->ops_window, "the whole run");
    assert_int_equal(op_row(r, "outer")->self_ns, 68);
    assert_int_equal(op_row(r, "inner")->total_ns, 32);
    assert_near(op_row(r, "inner")->sd_us.value, sqrt(2 * 14.0 * 14.0) / 1e3, 1e-12);
    fx_close(f);
}

/* Times far from zero and near each other: what a mean of squares loses. */
static void test_tally(void **state)
{
    (void)state;
    struct an_tally t = {.count = 0};
    for (int64_t i = 0; i < 1001; i++)
        an_tally_add(&t, 4000000000000 + i % 3);
    double mean = (333 * 0 + 334.0 * 0 + 334 * 1 + 333 * 2) / 1001.0, squares = 0;
    for (int i = 0; i < 1001; i++)
        squares += (i % 3 - mean) * (i % 3 - mean);
    assert_near(an_tally_sd(&t), sqrt(squares / 1000), 1e-12);
    assert_int_equal(t.min, 4000000000000);
    assert_int_equal(t.max, 4000000000002);
    struct an_tally same = {.count = 0};
    for (int i = 0; i < 7; i++)
        an_tally_add(&same, 123456789);
    assert_near(an_tally_sd(&same), 0, 0);
    struct an_tally one = {.count = 0};
    an_tally_add(&one, 5);
    assert_true(isnan(an_tally_sd(&one)));
    an_tally_add(&one, INT64_MAX);
    an_tally_add(&one, INT64_MAX);
    assert_true(isnan(an_tally_sd(&one)));
    /* 3, 5, 10: mean 6, variance 13 */
    struct an_tally small = {.count = 0};
    an_tally_add(&small, 3);
    an_tally_add(&small, 5);
    an_tally_add(&small, 10);
    assert_near(an_tally_sd(&small), sqrt(13), 1e-15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kernels), cmocka_unit_test(test_cpu),
                                       cmocka_unit_test(test_tally)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
