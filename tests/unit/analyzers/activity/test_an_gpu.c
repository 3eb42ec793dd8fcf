/* SPDX-License-Identifier: Apache-2.0
 *
 * What devices did: by hand where a case has a name, against one cell a nanosecond for random ops.
 */
#include "tests/unit/an_gpu.h"

/* Expected values of one device in ns. */
struct expected {
    int64_t span, busy, compute, comm, copy, exposed_comm, exposed_copy, opaque, idle;
};

static void check(const struct an_gpu_device *g, struct expected x)
{
    assert_int_equal(g->span_ns.value, x.span);
    assert_int_equal(g->busy_ns.value, x.busy);
    assert_int_equal(g->compute_ns.value, x.compute);
    assert_int_equal(g->comm_ns.value, x.comm);
    assert_int_equal(g->copy_ns.value, x.copy);
    assert_int_equal(g->exposed_comm_ns.value, x.exposed_comm);
    assert_int_equal(g->exposed_copy_ns.value, x.exposed_copy);
    assert_int_equal(g->opaque_ns.value, x.opaque);
    assert_int_equal(g->idle_ns.value, x.idle);
    assert_int_equal(g->compute_ns.value + g->exposed_comm_ns.value + g->exposed_copy_ns.value +
                         g->opaque_ns.value + g->idle_ns.value,
                     g->span_ns.value);
}

static bool has_problem(const struct an_result *r, const char *text)
{
    for (size_t i = 0; i < r->trust.problem_count; i++)
        if (strstr(r->trust.problems[i], text))
            return true;
    return false;
}

static void test_split(void **state)
{
    (void)state;
    struct fixture f[1];
    fx_open(f);
    int64_t a = gpu_stream(f, f->process, "gpu:0", 7), b = gpu_stream(f, f->process, "gpu:0", 20);
    gpu_kernel_ns(f, a, 100, 200, "ampere_sgemm_128x64_nn", 1);
    gpu_kernel_ns(f, b, 150, 400,
                  "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 2);
    gpu_copy_ns(f, a, 300, 450, "Memcpy HtoD (Pageable -> Device)", "HtoD", 3);
    gpu_row_ns(f, a, 500, 510, "Memset (Device)", "memset", FX_NONE, 4);
    gpu_row_ns(f, a, 600, 700, "graph", "graph", FX_NONE, 5);
    gpu_row_ns(f, a, 0, 900, "Stream Synchronize", "sync", FX_NONE, 6);         /* never busy */
    gpu_row_ns(f, a, 0, 900, "ProfilerStep#1", "annotation", FX_NONE, FX_NONE); /* never busy */
    const struct an_result *r = fx_analyze(f);
    assert_null(r->gpu.reason);
    assert_int_equal(r->gpu_count, 1);
    check(&r->gpus[0], (struct expected){600, 460, 110, 250, 150, 200, 50, 100, 140});
    assert_int_equal(r->gpus[0].ops, 5);
    assert_int_equal(r->gpus[0].streams, 2);
    assert_near(r->gpus[0].overlap_pct.value, 20, 1e-12);
    assert_int_equal(r->gpus[0].comm_sum_ns.value, 250);
    assert_false(r->gpus[0].absent_launch_starved_ns.valid);
    assert_non_null(strstr(r->gpus[0].absent_launch_starved_ns.reason,
                           "no launch of this device's ops is in the file"));
    assert_true(has_problem(r, "graphs were recorded as a whole"));
    fx_close(f);
}

/* DeepEP's kernels are communication under both of its names; so are copies of a communicator,
 * others are not. */
static void test_communication(void **state)
{
    (void)state;
    struct fixture f[1];
    fx_open(f);
    int64_t a = gpu_stream(f, f->process, "gpu:0", 7), b = gpu_stream(f, f->process, "gpu:0", 27);
    int64_t c = gpu_stream(f, f->process, "gpu:0", 30);
    gpu_kernel_ns(f, b, 0, 100, "void dpsk::ep::internode::combine<true, 8>(int4*)", 1);
    gpu_kernel_ns(f, b, 100, 300, "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*)",
                  2);
    gpu_copy_ns(f, b, 300, 350, "Memcpy PtoP (Device -> Device)", "PtoP",
                3); /* a stream that only communicates */
    gpu_kernel_ns(f, a, 400, 500, "void at::native::vectorized_elementwise_kernel<4>()", 4);
    gpu_copy_ns(f, a, 500, 540, "Memcpy DtoD (Device -> Device)", "DtoD",
                5); /* launched inside record_param_comms */
    gpu_copy_ns(f, a, 540, 570, "Memcpy DtoD (Device -> Device)", "DtoD", 6); /* launched outside */
    gpu_copy_ns(f, c, 570, 575, "Memcpy DtoD (Device -> Device)", "DtoD",
                7); /* in a range of NVTX domain NCCL */
    gpu_host_ns(f, f->thread, 380, 450, "record_param_comms", "op", FX_NONE);
    gpu_host_ns(f, f->thread, 390, 400, "cudaMemcpyAsync", "runtime", 5);
    gpu_host_ns(f, f->thread, 460, 470, "cudaMemcpyAsync", "runtime", 6);
    gpu_host_ns(f, f->thread, 480, 520, "ncclAllGather", "NCCL", FX_NONE);
    gpu_host_ns(f, f->thread, 490, 500, "cudaMemcpyAsync", "runtime", 7);
    const struct an_result *r = fx_analyze(f);
    check(&r->gpus[0], (struct expected){575, 525, 100, 395, 30, 395, 30, 0, 50});
    fx_close(f);
}

/* A fused kernel is compute; a kernel of a name nobody knows is compute unless the trace says that
 * it is a collective. */
static void test_unknown(void **state)
{
    (void)state;
    struct fixture f[1];
    fx_open(f);
    int64_t a = gpu_stream(f, f->process, "gpu:0", 7);
    struct store_detail d = fx_empty();
    d.schema = "torch.comm";
    d.collective = "allreduce";
    gpu_kernel_ns(
        f, a, 0, 10,
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<>()", 1);
    gpu_kernel_ns(f, a, 10, 30, "zyx", 2);
    gpu_row_ns(f, a, 30, 70, "abc", "kernel", fx_intern(f, &d), 3);
    const struct an_result *r = fx_analyze(f);
    check(&r->gpus[0], (struct expected){70, 70, 30, 40, 0, 40, 0, 0, 0});
    assert_int_equal(r->quality.unknown_kernels.value, 1);
    assert_true(has_problem(r, "compute and communicate at once run for 0.000 of 0.000 ms"));
    struct an_options mine = {.classes = "# mine\ncomm\t^zyx$\nmatrix\tabc\tbf16\tyes\n"};
    r = fx_analyze_with(f, &mine);
    check(&r->gpus[0], (struct expected){70, 70, 50, 20, 0, 20, 0, 0, 0});
    fx_close(f);
}

/* The user's table is wrong: said with its line, nothing analysed. */
static void test_bad_table(void **state)
{
    (void)state;
    struct fixture f[1];
    fx_open(f);
    gpu_kernel_ns(f, gpu_stream(f, f->process, "gpu:0", 7), 0, 10, "k", 1);
    fx_analyze(f);
    struct tacho_error err = {0};
    struct an_result *r = NULL;
    struct an_options mine = {.classes = "matrix\tk\n\ncommunication\tk\n"};
    assert_int_equal(an_analyze(f->reader, &mine, &r, &err), TACHO_EFORMAT);
    assert_null(r);
    assert_non_null(strstr(err.what, "line 3"));
    assert_non_null(strstr(err.what, "communication"));
    fx_close(f);
}

/* A launch of a graph that left no record hides what follows, up to the next wait; what the trace
 * shows stays idle. */
static void test_unseen_graph(void **state)
{
    (void)state;
    struct fixture f[1];
    fx_open(f);
    int64_t a = gpu_stream(f, f->process, "gpu:0", 7);
    gpu_host_ns(f, f->thread, 0, 5, "cudaLaunchKernel", "runtime", 1);
    gpu_kernel_ns(f, a, 10, 100, "ampere_sgemm_128x64_nn", 1);
    gpu_host_ns(f, f->thread, 50, 55, "cudaGraphLaunch", "runtime", 2); /* its gap: 100 to 400 */
    gpu_host_ns(f, f->thread, 350, 355, "cudaLaunchKernel", "runtime", 3);
    gpu_kernel_ns(f, a, 400, 500, "ampere_sgemm_128x64_nn", 3);
    gpu_host_ns(f, f->thread, 520, 525, "hipGraphLaunch", "runtime",
                4); /* from the launch to the end of the wait */
    gpu_host_ns(f, f->thread, 530, 700, "cudaStreamSynchronize", "runtime", 5);
    gpu_host_ns(f, f->thread, 800, 805, "cudaLaunchKernel", "runtime", 6);
    gpu_kernel_ns(f, a, 900, 1000, "ampere_sgemm_128x64_nn", 6);
    gpu_kernel_ns(f, a, 1010, 1020, "ampere_sgemm_128x64_nn", 7);
    gpu_host_ns(f, f->thread, 1005, 1007, "cudaLaunchKernel", "runtime", 7);
    const struct an_result *r = fx_analyze(f);
    check(&r->gpus[0], (struct expected){1010, 780, 300, 0, 0, 0, 0, 480, 230});
    assert_true(has_problem(r, "2 launches of graphs left no record"));
    fx_close(f);
}

/* The same launches with the kernels of the graphs recorded: nothing is opaque. */
static void test_seen_graph(void **state)
{
    (void)state;
    struct fixture f[1];
    fx_open(f);
    int64_t a = gpu_stream(f, f->process, "gpu:0", 7);
    gpu_host_ns(f, f->thread, 50, 55, "cudaGraphLaunch", "runtime", 2);
    gpu_kernel_ns(f, a, 60, 100, "k1", 2);
    gpu_kernel_ns(f, a, 150, 200, "k2", 2);
    gpu_host_ns(f, f->thread, 300, 305, "cudaGraphLaunch", "runtime",
                3); /* its kernels carry other correlations */
    gpu_kernel_ns(f, a, 400, 500, "k1", 77);
    const struct an_result *r = fx_analyze(f);
    check(&r->gpus[0], (struct expected){440, 190, 190, 0, 0, 0, 0, 0, 250});
    assert_int_equal(r->quality.launches_without_op.value, 1);
    fx_close(f);
}

/* Devices are told apart by process and number; ranks by the process. */
static void test_devices(void **state)
{
    (void)state;
    struct fixture f[1];
    fx_open(f);
    int64_t other = fx_process(f, 5, "train");
    gpu_kernel_ns(f, gpu_stream(f, other, "gpu:1", 7), 0, 10, "k", 1);
    gpu_kernel_ns(f, gpu_stream(f, other, "gpu:0", 7), 5, 50, "k", 1);
    gpu_kernel_ns(f, gpu_stream(f, f->process, "gpu:1", 7), 0, 100, "k", 1);
    gpu_row_ns(f, gpu_stream(f, f->process, "gpu:2", 7), 0, 100, "wait", "sync", FX_NONE,
               1); /* no op: no device */
    const struct an_result *r = fx_analyze(f);
    assert_int_equal(r->gpu_count, 3);
    assert_int_equal(r->gpus[0].device, 1);
    assert_int_equal(r->gpus[0].rank, 0);
    assert_int_equal(r->gpus[0].busy_ns.value, 100);
    assert_int_equal(r->gpus[1].device, 0);
    assert_int_equal(r->gpus[1].rank, 5);
    assert_int_equal(r->gpus[1].busy_ns.value, 45);
    assert_int_equal(r->gpus[2].device, 1);
    assert_int_equal(r->gpus[2].busy_ns.value, 10);
    fx_close(f);
}

/* Rows without an end or with a zero time are no ops; with nothing else the times are absent, not
 * 0. */
static void test_untimed(void **state)
{
    (void)state;
    struct fixture f[1];
    fx_open(f);
    gpu_kernel_ns(f, gpu_stream(f, f->process, "gpu:0", 7), 5, FX_NONE, "k", 1);
    gpu_kernel_ns(f, gpu_stream(f, f->process, "gpu:0", 8), -FX_BASE, -FX_BASE + 7, "k", 2);
    const struct an_result *r = fx_analyze(f);
    assert_int_equal(r->gpu_count, 1);
    assert_false(r->gpus[0].span_ns.valid);
    assert_false(r->gpus[0].idle_ns.valid);
    assert_int_equal(r->gpus[0].ops, 0);
    fx_close(f);
}

/* A trace whose times begin at 0 is one whose times begin at 0. */
static void test_begins_at_zero(void **state)
{
    (void)state;
    struct fixture f[1];
    fx_open(f);
    int64_t stream = gpu_stream(f, f->process, "gpu:0", 7);
    gpu_kernel_ns(f, stream, -FX_BASE, -FX_BASE + 7, "k", 1);
    gpu_kernel_ns(f, stream, -FX_BASE + 10, -FX_BASE + 20, "k", 2);
    const struct an_result *r = fx_analyze(f);
    assert_int_equal(r->gpus[0].ops, 2);
    assert_int_equal(r->gpus[0].busy_ns.value, 17);
    fx_close(f);
}

static void test_no_device(void **state)
{
    (void)state;
    struct fixture f[1];
    fx_open(f);
    fx_slice(f, f->thread, 0, 10, "x", FX_NONE);
    const struct an_result *r = fx_analyze(f);
    assert_int_equal(r->gpu_count, 0);
    assert_string_equal(r->gpu.reason, "no accelerator in this run");
    fx_close(f);
}

/* ---- random ops, one cell a nanosecond ------------------------------------------------------------------------------------ */

#define CELLS 600

static uint32_t next(uint32_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    return *seed ^= *seed << 5;
}

static struct expected count_cells(const uint8_t *cell, int64_t first, int64_t last)
{
    struct expected x = {.span = last - first};
    for (int64_t i = first; i < last; i++) {
        bool compute = cell[i] & 1, comm = cell[i] & 2, copy = cell[i] & 4, opaque = cell[i] & 8;
        x.busy += cell[i] != 0;
        x.idle += cell[i] == 0;
        x.compute += compute;
        x.comm += comm;
        x.copy += copy;
        x.exposed_comm += comm && !compute;
        x.exposed_copy += copy && !compute && !comm;
        x.opaque += opaque && !compute && !comm && !copy;
    }
    return x;
}

static void test_random(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 60; seed++) {
        struct fixture f[1];
        uint8_t cell[CELLS] = {0};
        uint32_t s = seed * 2654435761u;
        int64_t stream[4], first = CELLS, last = 0;
        fx_open(f);
        for (int k = 0; k < 4; k++)
            stream[k] = gpu_stream(f, f->process, "gpu:0", 7 + k);
        gpu_kernel_ns(f, stream[3], 0, 0, "k",
                      1000); /* keeps stream 3 from being a communicator's, of no length */
        first = 0;
        for (int n = 1 + (int)(next(&s) % 60); n--;) {
            int64_t start = next(&s) % (CELLS - 50), end = start + next(&s) % 50;
            int64_t on = stream[next(&s) % 3], what = next(&s) % 5;
            uint8_t bit = what == 0 || what == 1 ? 1 : what == 2 ? 2 : what == 3 ? 4 : 8;
            if (what == 0)
                gpu_kernel_ns(f, on, start, end, "k", n + 1);
            else if (what == 1)
                gpu_row_ns(f, on, start, end, "Memset", "memset", FX_NONE, n + 1);
            else if (what == 2)
                gpu_kernel_ns(f, on, start, end, "ncclKernel_x", n + 1);
            else if (what == 3)
                gpu_copy_ns(f, stream[3], start, end, "Memcpy", "HtoD", n + 1);
            else
                gpu_row_ns(f, on, start, end, "graph", "graph", FX_NONE, n + 1);
            for (int64_t i = start; i < end; i++)
                cell[i] |= bit;
            last = end > last ? end : last;
        }
        const struct an_result *r = fx_analyze(f);
        check(&r->gpus[0], count_cells(cell, first, last));
        fx_close(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split),        cmocka_unit_test(test_communication),
        cmocka_unit_test(test_unknown),      cmocka_unit_test(test_bad_table),
        cmocka_unit_test(test_unseen_graph), cmocka_unit_test(test_seen_graph),
        cmocka_unit_test(test_devices),      cmocka_unit_test(test_untimed),
        cmocka_unit_test(test_no_device),    cmocka_unit_test(test_begins_at_zero),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
