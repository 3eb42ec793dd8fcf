/* SPDX-License-Identifier: Apache-2.0
 *
 * What the report predicts for chains that one kernel could do, from recorded ranges whose times
 * are given: a chain of element-wise operators, one with a reduction that is slower for its bytes,
 * as it reads and writes by turns, and one whose first operator is slower for its bytes. Also which
 * names of operators, and which copies of a device, are in a chain at all.
 */
#include "tests/unit/an_gpu.h"

#define MS     1000000
#define GB     1e9
#define STEPS  5
#define STEP   (200LL * MS)
#define ARRAY  100000000LL /* bytes: 10 ms to read, 30 ms to write at the rates below */
#define WITHIN 1e-6

static void ceiling(struct fixture *f, const char *resource, double value)
{
    struct store_ceiling row = {
        .device = "cpu", .resource = resource, .dtype = "", .source = "measured", .value = value};
    FX(store_ceiling_add(f->s, &row));
}

struct work {
    const char *name;
    int64_t arrays; /* that it reads; it writes one */
    int64_t ms;
};

/* A few steps of two operators, one after the other. */
static const struct an_dataflow *analyze(struct fixture *f, const struct work *work)
{
    fx_open(f);
    ceiling(f, "bandwidth", 8 * GB);
    ceiling(f, "bandwidth_read", 10 * GB);
    ceiling(f, "bandwidth_write", 5 * GB);
    for (int64_t step = 0; step < STEPS; step++) {
        int64_t at = step * STEP;
        fx_step(f, f->process, f->thread, step, at, at + STEP, 4, false);
        for (int i = 0; i < 2; i++) {
            struct store_detail detail = fx_empty();
            detail.schema = "tacho.work";
            detail.kind = "other";
            detail.dtype = "fp32";
            detail.flops = ARRAY / 4;
            detail.bytes_read = work[i].arrays * ARRAY;
            detail.bytes_written = ARRAY;
            fx_slice(f, f->thread, at, at + work[i].ms * MS, work[i].name, fx_intern(f, &detail));
            at += work[i].ms * MS;
        }
    }
    return &fx_analyze(f)->dataflow;
}

/* Write and read of what is passed on at the measured rates: 30 ms + 10 ms. */
static void test_elements(void **state)
{
    static const struct work works[] = {{"residual", 2, 50}, {"relu", 1, 40}};
    struct fixture f;
    const struct an_dataflow *flow = analyze(&f, works);
    (void)state;
    assert_int_equal(flow->fusion_count, 1);
    assert_near(flow->fusion[0].gain_ms.value, 40, WITHIN);
    assert_near(flow->fusion[0].gain_high_ms.value, 40, WITHIN);
    fx_close(&f);
}

/* The norm takes 1.5 times its bytes, so that reading costs it 15 ms an array. The fused kernel
 * reads two arrays in its way and writes as it does: 50 + 60 ms become 15 more than 60. */
static void test_reduction(void **state)
{
    static const struct work works[] = {{"residual", 2, 50}, {"rmsnorm", 1, 60}};
    struct fixture f;
    const struct an_dataflow *flow = analyze(&f, works);
    (void)state;
    assert_int_equal(flow->fusion_count, 1);
    assert_near(flow->fusion[0].gain_ms.value, 50 - 15, WITHIN);
    assert_near(flow->fusion[0].gain_high_ms.value, 30 + 15, WITHIN);
    fx_close(&f);
}

/* The bias takes 1.4 times its bytes: by its share of the time the write would be 42 ms. But the
 * fused kernel reads and writes as much as the bias alone, so that at most the 40 ms of the other
 * one go. */
static void test_slowest_member(void **state)
{
    static const struct work works[] = {{"bias", 1, 56}, {"relu", 1, 40}};
    struct fixture f;
    const struct an_dataflow *flow = analyze(&f, works);
    (void)state;
    assert_int_equal(flow->fusion_count, 1);
    assert_near(flow->fusion[0].gain_ms.value, 40, WITHIN);
    assert_near(flow->fusion[0].gain_high_ms.value, 42 + 10, WITHIN);
    fx_close(&f);
}

/* The second operator moves twice the bytes of the fused kernel, so it is no limit: all of its read
 * goes (20 of its 80 ms), and the write of the first one (20 ms). */
static void test_larger_member(void **state)
{
    static const struct work works[] = {{"residual", 0, 20}, {"relu", 1, 80}};
    struct fixture f;
    const struct an_dataflow *flow = analyze(&f, works);
    (void)state;
    assert_int_equal(flow->fusion_count, 1);
    assert_near(flow->fusion[0].gain_ms.value, 40, WITHIN);
    fx_close(&f);
}

/* Scans, transforms, linear algebra and communication are in no chain; the larger of two tensors is
 * element-wise, so that it may follow a reduction; the largest of a row is one. */
static void test_names(void **state)
{
    static const struct {
        const char *first, *second;
        size_t chains;
    } pairs[] = {{"aten::mul", "aten::add", 1},
                 {"aten::mul", "nccl:all_reduce", 0},
                 {"aten::mul", "record_param_comms", 0},
                 {"aten::mul", "c10d::allreduce_", 0},
                 {"aten::mul", "aten::_fft_c2c", 0},
                 {"aten::mul", "aten::cumprod", 0},
                 {"aten::mul", "aten::linalg_inv_ex", 0},
                 {"aten::mul", "aten::linalg_cholesky_ex", 0},
                 {"aten::mul", "aten::linalg_vector_norm", 1},
                 {"aten::mul", "aten::flip", 0},
                 {"aten::layer_norm", "aten::clamp_min", 1},
                 {"aten::layer_norm", "aten::maximum", 1},
                 {"aten::layer_norm", "aten::max", 0},
                 {"aten::layer_norm", "aten::amin", 0}};
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const struct work works[] = {{pairs[i].first, 1, 40}, {pairs[i].second, 1, 40}};
        struct fixture f;
        size_t found = analyze(&f, works)->fusion_count;
        if (found != pairs[i].chains)
            fail_msg("%s, %s: %zu chains, not %zu", pairs[i].first, pairs[i].second, found,
                     pairs[i].chains);
        fx_close(&f);
    }
}

/* A device multiplies, copies and adds in each step. Its steps are 10 ms, times in us. */
static const struct an_dataflow *analyze_copy(struct fixture *f, const char *direction)
{
    static const char *const ops[] = {"aten::mul", "aten::copy_", "aten::add"};
    struct store_detail work = fx_empty();
    char name[40];
    fx_open(f);
    FX(store_run_set(f->s, "source", "kineto"));
    int64_t stream = gpu_stream(f, f->process, "gpu:0", 7);
    work.schema = "tacho.work";
    work.kind = "elementwise";
    work.dtype = "fp32";
    work.pass = "forward";
    work.flops = ARRAY / 4;
    work.bytes_read = work.bytes_written = ARRAY;
    for (int64_t step = 0; step < STEPS; step++) {
        int64_t at = step * 10000;
        snprintf(name, sizeof name, "ProfilerStep#%lld", (long long)step);
        gpu_row(f, f->thread, at, at + 9990, name, "annotation", FX_NONE);
        for (int64_t i = 0; i < 3; i++) {
            int64_t call = at + 50 + 30 * i, start = at + 400 + 900 * i, id = 3 * step + i + 1;
            gpu_row_ns(f, f->thread, call * 1000, call * 1000 + 25000, ops[i], "op",
                       fx_intern(f, &work), FX_NONE);
            gpu_row(f, f->thread, call + 5, call + 15,
                    i == 1 ? "cudaMemcpyAsync" : "cudaLaunchKernel", "runtime", id);
            if (i == 1)
                gpu_copy_ns(f, stream, start * 1000, (start + 800) * 1000, "Memcpy", direction, id);
            else
                gpu_row(f, stream, start, start + 150, "some_kernel", "kernel", id);
        }
    }
    return &fx_analyze(f)->dataflow;
}

/* A kernel could copy within the memory of its device, but not to the host. */
static void test_device_copies(void **state)
{
    struct fixture f;
    (void)state;
    const struct an_dataflow *flow = analyze_copy(&f, "DtoD");
    assert_int_equal(flow->fusion_count, 1);
    assert_int_equal(flow->fusion[0].length, 3);
    fx_close(&f);
    flow = analyze_copy(&f, "DtoH");
    assert_null(flow->reason);
    assert_int_equal(flow->operators, 3);
    assert_int_equal(flow->fusion_count, 0);
    fx_close(&f);
    assert_int_equal(analyze_copy(&f, "HtoD")->fusion_count, 0);
    fx_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elements),       cmocka_unit_test(test_reduction),
        cmocka_unit_test(test_slowest_member), cmocka_unit_test(test_larger_member),
        cmocka_unit_test(test_names),          cmocka_unit_test(test_device_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
