/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies by kind and memory: sums, bandwidth, what nothing hid, which calls waited.
 */
#include "tests/unit/an_gpu.h"

static const struct an_copy_row *copy_row(const struct an_result *r, const char *kind,
                                          const char *memory)
{
    for (size_t i = 0; i < r->copy_count; i++)
        if (!strcmp(r->copy[i].kind, kind) && !strcmp(r->copy[i].memory, memory))
            return &r->copy[i];
    fail_msg("no row %s %s", kind, memory);
    return NULL;
}

/* A copy from us `start` to `end`, launched by a call of that name 1 us before; NULL: its call is
 * not in the file. */
static void copy(struct fixture *f, int64_t stream, int64_t start, int64_t end, const char *call,
                 int64_t detail, int64_t correlation)
{
    if (call)
        gpu_row(f, f->thread, start - 1, start, call, "runtime", correlation);
    gpu_row_ns(f, stream, start * 1000, end * 1000, "Memcpy", "memcpy", detail, correlation);
}

static void test_rows(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    int64_t s = gpu_stream(f, f->process, "gpu:0", 7),
            other = gpu_stream(f, f->process, "gpu:0", 8);
    int64_t pinned = gpu_copy(f, "HtoD", "pinned", 1000),
            large = gpu_copy(f, "HtoD", "pinned", 30000);
    copy(f, s, 10, 11, "cudaMemcpyAsync", pinned, 1);
    copy(f, s, 20, 30, "cudaMemcpyAsync", large, 2);
    copy(f, other, 25, 26, "cudaMemcpyAsync", pinned, 3); /* inside the one before: exposed once */
    copy(f, s, 40, 44, "cudaMemcpyAsync", gpu_copy(f, "DtoH", "pageable", 400), 4);
    copy(f, s, 50, 58, "cudaMemcpyAsync", gpu_copy(f, "DtoD", "device", 80000), 5);
    gpu_row(f, other, 8, 22, "kernel", "kernel", FX_NONE); /* hides 10..11 and 20..22 */
    gpu_row(f, other, 41, 43, "ncclDevKernel_AllReduce", "kernel", 99); /* hides 41..43 */
    gpu_row(f, other, 57, 61, "Memset (Device)", "memset",
            FX_NONE); /* hides 57..58, is hidden by nothing itself */
    const struct an_result *r = fx_analyze(f);
    const struct an_copy_row *x = copy_row(r, "HtoD", "pinned");
    assert_int_equal(r->copy_count, 4);
    assert_int_equal(x->count, 3);
    assert_int_equal(x->bytes.value, 32000);
    assert_int_equal(x->total_ns, 12000);
    assert_int_equal(x->exposed_ns, 8000);
    assert_near(x->bytes_per_s.value, 32000.0 / 12000 * 1e9, 1);
    assert_near(x->max_bytes_per_s.value, 3e9, 1);
    assert_int_equal(x->synchronous.value, 0);
    assert_null(x->rule);
    x = copy_row(r, "DtoH", "pageable");
    assert_int_equal(x->exposed_ns, 2000);
    assert_int_equal(x->synchronous.value, 1);
    assert_non_null(strstr(x->rule, "pageable"));
    x = copy_row(r, "DtoD", "device");
    assert_int_equal(x->exposed_ns, 7000);
    assert_int_equal(x->synchronous.value, 0);
    x = copy_row(r, "memset", "");
    assert_int_equal(x->exposed_ns, 4000);
    assert_false(x->bytes.valid);
    assert_false(x->bytes_per_s.valid);
    assert_int_equal(x->synchronous.value, 0);
    /* by time */
    assert_string_equal(r->copy[0].kind, "HtoD");
    fx_close(f);
}

/* Which call waits. */
static void test_synchronous(void **state)
{
    (void)state;
    static const struct {
        const char *kind, *memory, *call;
        int64_t waits; /* -1: not known */
    } cases[] = {{"HtoD", "pinned", "cudaMemcpy", 1},
                 {"HtoD", "pinned", "cudaMemcpyAsync", 0},
                 {"HtoD", "pageable", "cudaMemcpyAsync", 1},
                 {"HtoD", "pageable", NULL, 1},
                 {"HtoD", "pinned", NULL, -1},
                 {"DtoH", NULL, "hipMemcpyWithStream", 1},
                 {"DtoH", NULL, "hipMemcpyAsync", -1},
                 {"DtoD", "device", "cudaMemcpy", 0},
                 {"DtoD", NULL, NULL, 0},
                 {"PtoP", NULL, "cudaMemcpyPeerAsync", 0},
                 {"DtoH", "pinned", "cuMemcpyDtoHAsync_v2", 0},
                 {"DtoH", "pinned", "cuMemcpyDtoH_v2", 1},
                 {"HtoD", "pageable", "cudaGraphLaunch", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture fixture, *f = &fixture;
        fx_open(f);
        int64_t s = gpu_stream(f, f->process, "gpu:0", 7);
        copy(f, s, 10, 20, cases[i].call, gpu_copy(f, cases[i].kind, cases[i].memory, 10), 1);
        const struct an_copy_row *x =
            copy_row(fx_analyze(f), cases[i].kind, cases[i].memory ? cases[i].memory : "");
        if (x->synchronous.valid != (cases[i].waits >= 0) ||
            (x->synchronous.valid && x->synchronous.value != cases[i].waits))
            fail_msg("case %zu: %d %lld", i, x->synchronous.valid, (long long)x->synchronous.value);
        assert_int_equal(x->rule != NULL, cases[i].waits == 1);
        assert_int_equal(x->synchronous.reason != NULL, cases[i].waits < 0);
        fx_close(f);
    }
}

/* Two devices: a copy is hidden by its own device only. A copy that took no time has no bandwidth.
 */
static void test_devices(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    int64_t a = gpu_stream(f, f->process, "gpu:0", 7), b = gpu_stream(f, f->process, "gpu:1", 7);
    int64_t d = gpu_copy(f, "DtoH", "pinned", 500);
    copy(f, a, 10, 20, "cudaMemcpyAsync", d, 1);
    copy(f, b, 10, 20, "cudaMemcpyAsync", d, 2);
    gpu_row(f, b, 12, 15, "kernel", "kernel", FX_NONE);
    copy(f, b, 30, 30, "cudaMemcpyAsync", gpu_copy(f, "HtoD", "pinned", 1), 3);
    const struct an_result *r = fx_analyze(f);
    assert_int_equal(copy_row(r, "DtoH", "pinned")->exposed_ns, 17000);
    assert_int_equal(copy_row(r, "HtoD", "pinned")->total_ns, 0);
    assert_false(copy_row(r, "HtoD", "pinned")->bytes_per_s.valid);
    assert_false(copy_row(r, "HtoD", "pinned")->max_bytes_per_s.valid);
    fx_close(f);
}

/* A size that only the call knows, as on AMD devices; that of a graph launch would be something
 * else. */
static void test_size_of_call(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    int64_t s = gpu_stream(f, f->process, "gpu:0", 7), d = gpu_copy(f, "HtoD", NULL, FX_NONE);
    gpu_row_ns(f, f->thread, 0, 1000, "hipMemcpyAsync", "runtime", gpu_copy(f, "HtoD", NULL, 4096),
               1);
    gpu_row_ns(f, s, 2000, 4000, "Memcpy HtoD (Host -> Device)", "memcpy", d, 1);
    gpu_row_ns(f, f->thread, 5000, 6000, "hipGraphLaunch", "runtime", gpu_copy(f, "HtoD", NULL, 77),
               2);
    gpu_row_ns(f, s, 7000, 8000, "Memcpy HtoD (Host -> Device)", "memcpy", d, 2);
    const struct an_copy_row *x = copy_row(fx_analyze(f), "HtoD", "");
    assert_int_equal(x->bytes.value, 4096);
    assert_near(x->bytes_per_s.value, 4096 / 2e-6, 1);
    fx_close(f);
}

static void test_none(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    gpu_row(f, gpu_stream(f, f->process, "gpu:0", 7), 0, 5, "k", "kernel", 1);
    const struct an_result *r = fx_analyze(f);
    assert_null(r->copies.reason);
    assert_int_equal(r->copy_count, 0);
    fx_close(f);
    fx_open(f);
    fx_slice(f, f->thread, 0, 10, "work", FX_NONE);
    assert_string_equal(fx_analyze(f)->copies.reason, "no accelerator in this run");
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows), cmocka_unit_test(test_synchronous),
        cmocka_unit_test(test_devices), cmocka_unit_test(test_size_of_call),
        cmocka_unit_test(test_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
