/* SPDX-License-Identifier: Apache-2.0
 *
 * Synchronise calls: host time, longest, and the part in which no device of the process worked.
 */
#include "tests/unit/an_gpu.h"

static const struct an_sync_row *sync_row(const struct an_result *r, const char *name)
{
    for (size_t i = 0; i < r->sync_count; i++)
        if (!strcmp(r->sync[i].name, name))
            return &r->sync[i];
    fail_msg("no row %s", name);
    return NULL;
}

static void test_idle(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    int64_t a = gpu_stream(f, f->process, "gpu:0", 7), b = gpu_stream(f, f->process, "gpu:1", 7);
    int64_t peer = fx_process(f, 1, "peer"), far = gpu_stream(f, peer, "gpu:0", 7);
    gpu_row(f, a, 10, 20, "k", "kernel", FX_NONE);
    gpu_row(f, b, 15, 25, "k", "kernel", FX_NONE);
    gpu_row(f, far, 0, 100, "k", "kernel", FX_NONE); /* another process: does not count */
    gpu_row(f, a, 25, 50, "Stream Sync", "sync", 1); /* never busy */
    gpu_row(f, f->thread, 5, 30, "cudaStreamSynchronize", "runtime", 1);
    gpu_row(f, f->thread, 40, 43, "cudaStreamSynchronize", "runtime", 2);
    gpu_row(f, f->thread, 60, 70, "cudaDeviceSynchronize", "runtime", 3);
    gpu_row(f, f->thread, 61, 69, "cuCtxSynchronize", "driver", 4); /* part of the call around it */
    gpu_row(f, f->thread, 80, 81, "cudaEventQuery", "runtime", 5);  /* does not wait */
    gpu_row(f, f->thread, 82, 90, "mySynchronize", "op", 6);        /* no API call */
    const struct an_result *r = fx_analyze(f);
    assert_int_equal(r->sync_count, 2);
    const struct an_sync_row *x = sync_row(r, "cudaStreamSynchronize");
    assert_int_equal(x->count, 2);
    assert_int_equal(x->host_ns, 28000);
    assert_int_equal(x->max_ns, 25000);
    assert_int_equal(x->idle_ns.value, 13000); /* 5..10, 25..30, 40..43 */
    assert_string_equal(r->sync[0].name, "cudaStreamSynchronize");
    assert_int_equal(sync_row(r, "cudaDeviceSynchronize")->idle_ns.value, 10000);
    fx_close(f);
}

/* A process that waits without device ops in the file: its idle time is not known, and an open call
 * has no time. */
static void test_unknown(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    int64_t peer = fx_process(f, 1, "peer");
    gpu_row(f, gpu_stream(f, peer, "gpu:0", 7), 0, 10, "k", "kernel", FX_NONE);
    gpu_row(f, f->thread, 0, 10, "hipEventSynchronize", "runtime", 1);
    gpu_row_ns(f, f->thread, 20000, FX_NONE, "hipEventSynchronize", "runtime", FX_NONE, 2);
    const struct an_sync_row *x = sync_row(fx_analyze(f), "hipEventSynchronize");
    assert_int_equal(x->count, 2);
    assert_int_equal(x->host_ns, 10000);
    assert_false(x->idle_ns.valid);
    assert_non_null(x->idle_ns.reason);
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_idle), cmocka_unit_test(test_unknown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
