/* SPDX-License-Identifier: Apache-2.0
 *
 * Why devices do not compute: gaps with known answers, what waited for what, what the host did,
 * communication that blocks; and injected causes that must carry the injected time.
 */
#include "tests/unit/an_gpu.h"

#define GEMM "ampere_sgemm_128x64_nn"
#define NCCL "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"

struct run {
    struct fixture f[1];
    int64_t compute, comm, copy; /* streams 7, 20, 30 */
    int64_t correlation;
};

static void begin(struct run *r)
{
    memset(r, 0, sizeof *r);
    struct fixture *f = r->f;
    fx_open(f);
    FX(store_run_set(f->s, "source", "kineto"));
    r->compute = gpu_stream(f, f->process, "gpu:0", 7);
    r->comm = gpu_stream(f, f->process, "gpu:0", 20);
    r->copy = gpu_stream(f, f->process, "gpu:0", 30);
}

/* An op [start, end) on a stream that the main thread launches in [call, call_end), us. */
static void launch(struct run *r, int64_t stream, int64_t call, int64_t call_end, int64_t start,
                   int64_t end, const char *name)
{
    gpu_row(r->f, r->f->thread, call, call_end, "cudaLaunchKernel", "runtime", ++r->correlation);
    gpu_row(r->f, stream, start, end, name, "kernel", r->correlation);
}

/* The main thread records an event on `of` at `at` us and lets `on` wait for it 2 us later; the
 * trace has the row of the wait where `rows` says so. */
static void wait_for(struct run *r, int64_t of, int64_t on, int64_t of_tid, int64_t at, bool rows)
{
    char payload[120];
    (void)of;
    int64_t record = ++r->correlation, wait = ++r->correlation;
    gpu_row(r->f, r->f->thread, at, at + 1, "cudaEventRecord", "runtime", record);
    gpu_row(r->f, r->f->thread, at + 2, at + 3, "cudaStreamWaitEvent", "runtime", wait);
    if (!rows)
        return;
    struct store_detail d = fx_empty();
    snprintf(
        payload, sizeof payload,
        "{\"kind\":\"Stream Wait Event\",\"stream\":%lld,\"event\":1,\"record_correlation\":%lld}",
        (long long)of_tid, (long long)record);
    d.schema = "gpu.sync";
    d.payload = payload;
    gpu_row_ns(r->f, on, (at + 2) * 1000, (at + 3) * 1000, "Stream Wait Event", "sync",
               fx_intern(r->f, &d), wait);
}

/* Parts and occupants of the whole capture in us, and that they sum. */
static void check_parts(const struct an_result *x, int64_t starved, int64_t blocked,
                        int64_t dispatch, int64_t dependency)
{
    const struct an_gpu_device *d = &x->gpus[0];
    const struct an_absent *a = &x->absent[0];
    assert_int_equal(x->absent_count, 1);
    assert_int_equal(d->absent_launch_starved_ns.value, starved * 1000);
    assert_int_equal(d->absent_blocked_ns.value, blocked * 1000);
    assert_int_equal(d->absent_dispatch_ns.value, dispatch * 1000);
    assert_int_equal(d->absent_dependency_ns.value, dependency * 1000);
    assert_int_equal(d->span_ns.value - d->compute_ns.value,
                     (starved + blocked + dispatch + dependency) * 1000);
    int64_t sum = 0, causes = 0;
    for (int k = 0; k < AN_ABSENT_PARTS; k++) {
        int64_t occupied = 0;
        for (int i = 0; i < AN_OCCUPANTS; i++)
            occupied += a->occupied_ns[k][i].value;
        assert_int_equal(occupied, a->part_ns[k].value);
        sum += a->part_ns[k].value;
    }
    assert_int_equal(sum, a->absent_ns);
    for (size_t i = 0; i < a->cause_count; i++)
        causes += a->causes[i].ns;
    assert_int_equal(causes, a->part_ns[AN_ABSENT_LAUNCH_STARVED].value);
}

static int64_t cause_ns(const struct an_absent *a, const char *cause, const char *name)
{
    int64_t ns = 0;
    for (size_t i = 0; i < a->cause_count; i++)
        if (!strcmp(a->causes[i].cause, cause) && (!name || !strcmp(a->causes[i].name, name)))
            ns += a->causes[i].ns;
    return ns;
}

static void check_blocking(const struct an_result *x, int64_t proven, int64_t inferred,
                           int64_t unknown)
{
    const struct an_gpu_device *d = &x->gpus[0];
    assert_true(d->blocking_proven_ns.valid);
    assert_int_equal(d->blocking_proven_ns.value, proven * 1000);
    assert_int_equal(d->blocking_inferred_ns.value, inferred * 1000);
    assert_int_equal(d->blocking_unknown_ns.value, unknown * 1000);
}

/* One gap that is late for 100 us, blocked for 60 and on its way for 5: a collective on another
 * stream, waited for by event. */
static void exposed(struct run *r, bool rows, bool waits)
{
    begin(r);
    launch(r, r->compute, 0, 5, 10, 110, GEMM);
    launch(r, r->comm, 20, 25, 40, 270, NCCL);
    if (waits)
        wait_for(r, r->comm, r->compute, 20, 190, rows);
    gpu_row(r->f, r->f->thread, 120, 180, "aten::linear", "op", FX_NONE);
    launch(r, r->compute, 200, 210, 275, 300, GEMM);
}

static void test_gap(void **state)
{
    (void)state;
    for (int rows = 1; rows >= 0; rows--) {
        struct run r[1];
        exposed(r, rows, true);
        const struct an_result *x = fx_analyze(r->f);
        check_parts(x, 100, 60, 5, 0);
        check_blocking(x, rows ? 160 : 0, rows ? 0 : 160, 0);
        const struct an_absent *a = &x->absent[0];
        assert_int_equal(a->occupied_ns[AN_ABSENT_LAUNCH_STARVED][AN_OCCUPIED_COMM].value, 100000);
        assert_int_equal(a->occupied_ns[AN_ABSENT_BLOCKED][AN_OCCUPIED_COMM].value, 60000);
        assert_int_equal(a->occupied_ns[AN_ABSENT_DISPATCH][AN_OCCUPIED_NOTHING].value, 5000);
        assert_int_equal(cause_ns(a, "framework", "aten::linear"), 60000);
        assert_int_equal(cause_ns(a, "launch", "cudaLaunchKernel"), 10000);
        assert_int_equal(a->unlinked_ns.value, 0);
        assert_int_equal(a->after_wait_ns.value, 0);
        assert_string_equal(a->window, "whole capture");
        fx_close(r->f);
    }
}

/* The same without any wait in the file: the end of the collective, 5 us before the kernel, tells
 * it. */
static void test_by_time(void **state)
{
    (void)state;
    struct run r[1];
    exposed(r, false, false);
    const struct an_result *x = fx_analyze(r->f);
    check_parts(x, 100, 60, 5, 0);
    check_blocking(x, 0, 160, 0);
    fx_close(r->f);
}

/* A collective that nothing waits for blocks nothing: the next kernel was only launched late. */
static void test_not_blocking(void **state)
{
    (void)state;
    struct run r[1];
    begin(r);
    launch(r, r->compute, 0, 5, 10, 110, GEMM);
    launch(r, r->comm, 20, 25, 40, 190, NCCL);
    launch(r, r->compute, 300, 310, 313, 400, GEMM);
    const struct an_result *x = fx_analyze(r->f);
    check_parts(x, 200, 0, 3, 0);
    assert_false(
        x->gpus[0].blocking_proven_ns.valid); /* no wait in the file: what blocks is not known */
    fx_close(r->f);

    begin(r);
    launch(r, r->compute, 0, 5, 10, 110, GEMM);
    launch(r, r->comm, 20, 25, 40, 190, NCCL);
    launch(r, r->compute, 300, 310, 313, 400, GEMM);
    gpu_row(r->f, r->f->thread, 401, 410, "cudaDeviceSynchronize", "runtime", ++r->correlation);
    x = fx_analyze(r->f);
    check_blocking(x, 0, 0, 0);
    assert_int_equal(x->gpus[0].exposed_comm_ns.value, 80000);
    fx_close(r->f);
}

/* The host waits for the collective before it launches: that proves that it blocks. */
static void test_host_wait(void **state)
{
    (void)state;
    struct run r[1];
    begin(r);
    launch(r, r->compute, 0, 5, 10, 110, GEMM);
    launch(r, r->comm, 20, 25, 40, 250, NCCL);
    gpu_row(r->f, r->f->thread, 30, 255, "cudaDeviceSynchronize", "runtime", ++r->correlation);
    launch(r, r->compute, 260, 270, 274, 300, GEMM);
    const struct an_result *x = fx_analyze(r->f);
    check_parts(x, 160, 0, 4, 0);
    check_blocking(x, 140, 0, 0);
    const struct an_absent *a = &x->absent[0];
    assert_int_equal(cause_ns(a, "sync", "cudaDeviceSynchronize"), 145000);
    assert_int_equal(cause_ns(a, "think", NULL), 5000);
    assert_int_equal(a->after_wait_ns.value, 160000);
    fx_close(r->f);
}

/* Issued long ago, nothing to wait for, and yet it starts late: the file does not tell why. A wait
 * whose event is not known and that no op explains: the same. */
static void test_dependency(void **state)
{
    (void)state;
    struct run r[1];
    begin(r);
    launch(r, r->compute, 0, 5, 10, 110, GEMM);
    launch(r, r->compute, 6, 9, 5110, 5200, GEMM);
    const struct an_result *x = fx_analyze(r->f);
    check_parts(x, 0, 0, 0, 5000);
    assert_int_equal(x->absent[0].unlinked_ns.value, 0);
    fx_close(r->f);

    begin(r);
    launch(r, r->compute, 0, 5, 10, 110, GEMM);
    launch(r, r->comm, 6, 7, 20, 400, NCCL);
    wait_for(r, r->comm, r->compute, 20, 9, false);
    launch(r, r->compute, 15, 20, 150, 200,
           GEMM); /* before the only stream it can have waited for is done */
    x = fx_analyze(r->f);
    check_parts(x, 0, 0, 0, 40 + 200);
    assert_int_equal(x->absent[0].unlinked_ns.value, 200000); /* behind the last kernel */
    check_blocking(x, 0, 0, 240);
    fx_close(r->f);
}

/* Ops without launches in the file: unlinked; without any launch the split is not known. */
static void test_unlinked(void **state)
{
    (void)state;
    struct run r[1];
    begin(r);
    launch(r, r->compute, 0, 5, 10, 110, GEMM);
    gpu_row(r->f, r->compute, 150, 200, GEMM, "kernel", 999);
    const struct an_result *x = fx_analyze(r->f);
    check_parts(x, 0, 0, 0, 40);
    assert_int_equal(x->absent[0].unlinked_ns.value, 40000);
    fx_close(r->f);

    begin(r);
    gpu_row(r->f, r->compute, 10, 110, GEMM, "kernel", 998);
    gpu_row(r->f, r->compute, 150, 200, GEMM, "kernel", 999);
    x = fx_analyze(r->f);
    assert_false(x->gpus[0].absent_launch_starved_ns.valid);
    assert_non_null(strstr(x->gpus[0].absent_launch_starved_ns.reason, "no launch"));
    assert_false(x->absent[0].part_ns[AN_ABSENT_BLOCKED].valid);
    assert_int_equal(x->absent[0].absent_ns, 40000);
    fx_close(r->f);
}

/* A copy on its own stream that the next kernel waits for, and one that makes the host wait. */
static void test_copies(void **state)
{
    (void)state;
    struct run r[1];
    begin(r);
    launch(r, r->compute, 0, 5, 10, 110, GEMM);
    gpu_row(r->f, r->f->thread, 20, 25, "cudaMemcpyAsync", "runtime", ++r->correlation);
    gpu_row_ns(r->f, r->copy, 100000, 180000, "Memcpy HtoD", "memcpy",
               gpu_copy(r->f, "HtoD", "pinned", 1 << 20), r->correlation);
    wait_for(r, r->copy, r->compute, 30, 27, true);
    launch(r, r->compute, 40, 45, 184, 300, GEMM);
    gpu_row(r->f, r->f->thread, 290, 352, "cudaMemcpyAsync", "runtime", ++r->correlation);
    gpu_row_ns(r->f, r->compute, 300000, 350000, "Memcpy DtoH", "memcpy",
               gpu_copy(r->f, "DtoH", "pageable", 4), r->correlation);
    launch(r, r->compute, 360, 365, 370, 400, GEMM);
    const struct an_result *x = fx_analyze(r->f);
    check_parts(x, 65, 70, 4 + 5, 0);
    const struct an_absent *a = &x->absent[0];
    assert_int_equal(a->occupied_ns[AN_ABSENT_BLOCKED][AN_OCCUPIED_COPY].value, 70000);
    assert_int_equal(a->occupied_ns[AN_ABSENT_LAUNCH_STARVED][AN_OCCUPIED_COPY].value, 50000);
    assert_int_equal(cause_ns(a, "copy", "cudaMemcpyAsync"), 52000);
    assert_int_equal(a->after_wait_ns.value, 65000);
    fx_close(r->f);
}

/* ---- injected causes ------------------------------------------------------------------------------------------------------------ */

#define STEPS 12

/* Steps of 20 kernels of 100 us, launched 10 us apart; `inject` us of a cause before each step. */
static void steps(struct run *r, int64_t inject, const char *range, const char *category,
                  bool drain)
{
    int64_t host = 0, device = 0;
    begin(r);
    for (int i = 0; i < STEPS; i++) {
        char name[40];
        int64_t first = host;
        if (drain) { /* the host waits for what it launched */
            int64_t done = device > host ? device : host;
            gpu_row(r->f, r->f->thread, host, done + 2, "cudaStreamSynchronize", "runtime",
                    ++r->correlation);
            host = done + 2;
        } else {
            host = device > host ? device : host; /* it is no further ahead than a step */
        }
        if (inject) {
            gpu_row(r->f, r->f->thread, host, host + inject, range, category, FX_NONE);
            host += inject;
        }
        for (int k = 0; k < 20; k++) {
            int64_t start = device > host + 8 ? device : host + 8;
            launch(r, r->compute, host, host + 5, start, start + 100, GEMM);
            device = start + 100;
            host += 10;
        }
        snprintf(name, sizeof name, "ProfilerStep#%d", i);
        gpu_row(r->f, r->f->thread, first, host, name, "annotation", FX_NONE);
    }
}

/* The injected us of a step that a cause carries. */
static double carried(const struct an_result *x, const char *cause)
{
    const struct an_absent *a = &x->absent[0];
    assert_int_equal(a->steps, STEPS - 2);
    return (double)cause_ns(a, cause, NULL) / 1e3 / (double)a->steps;
}

static void test_injected(void **state)
{
    (void)state;
    static const struct {
        const char *range, *category, *cause;
    } injected[] = {
        {"enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "annotation", "input"},
        {"cudaMalloc", "runtime", "allocation"},
        {"Torch-Compiled Region (dynamo_timed)", "annotation", "compile"},
        {"my_own_python", "python", "framework"}};
    for (size_t i = 0; i < sizeof injected / sizeof *injected; i++) {
        struct run r[1];
        steps(r, 700, injected[i].range, injected[i].category, false);
        const struct an_result *x = fx_analyze(r->f);
        if (strcmp(injected[i].cause, "compile") != 0) {
            assert_near(carried(x, injected[i].cause), 700, 35);
        } else { /* compilation is a phase: its steps are left out */
            assert_int_equal(x->phase_count, 1);
            assert_string_equal(x->phases[0].name, "compile");
            assert_near(x->phases[0].wall_ms, 0.7 * STEPS, 0.035 * STEPS);
            assert_int_equal(
                x->absent[0].steps,
                0); /* no step is counted: the whole capture, from the first kernel on */
            assert_near((double)cause_ns(&x->absent[0], "compile", NULL) / 1e3, 700 * (STEPS - 1),
                        35 * STEPS);
        }
        fx_close(r->f);
    }
    struct run r[1];
    steps(r, 0, NULL, NULL, true);
    const struct an_result *x = fx_analyze(r->f);
    assert_near((double)x->absent[0].after_wait_ns.value / 1e3 / (STEPS - 2), 2 + 5, 0.35);
    fx_close(r->f);
}

/* Kernels of 2 us that take 10 us to launch: the device waits for launches. */
static void test_tiny_kernels(void **state)
{
    (void)state;
    struct run r[1];
    begin(r);
    for (int i = 0; i < 200; i++)
        launch(r, r->compute, i * 10, i * 10 + 10, i * 10 + 12, i * 10 + 14, GEMM);
    const struct an_result *x = fx_analyze(r->f);
    check_parts(x, 199 * 6, 0, 199 * 2, 0);
    assert_int_equal(cause_ns(&x->absent[0], "launch", "cudaLaunchKernel"), 199 * 6000);
    fx_close(r->f);
}

/* A thread that runs steps on a CPU: what is no work is absent, by what the thread did. */
static void test_thread(void **state)
{
    (void)state;
    struct fixture f[1];
    fx_open(f);
    int64_t work = fx_work(f, "matrix", "fp32", 1000, 1000, 1000), input = fx_kind(f, "input_wait");
    for (int i = 0; i < 6; i++) {
        fx_step(f, f->process, f->thread, i, i * 1000, i * 1000 + 900, 1, false);
        fx_slice(f, f->thread, i * 1000, i * 1000 + 300, "input_wait", input);
        fx_slice(f, f->thread, i * 1000 + 300, i * 1000 + 800, "matmul", work);
    }
    const struct an_result *x = fx_analyze(f);
    assert_int_equal(x->absent_count, 1);
    const struct an_absent *a = &x->absent[0];
    assert_false(a->device.valid);
    assert_false(a->part_ns[AN_ABSENT_LAUNCH_STARVED].valid);
    assert_int_equal(a->absent_ns, a->steps * 400);
    assert_int_equal(cause_ns(a, "input", "input_wait"), a->steps * 300);
    assert_int_equal(cause_ns(a, "think", NULL), a->steps * 100);
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gap),          cmocka_unit_test(test_by_time),
        cmocka_unit_test(test_not_blocking), cmocka_unit_test(test_host_wait),
        cmocka_unit_test(test_dependency),   cmocka_unit_test(test_unlinked),
        cmocka_unit_test(test_copies),       cmocka_unit_test(test_injected),
        cmocka_unit_test(test_tiny_kernels), cmocka_unit_test(test_thread)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
