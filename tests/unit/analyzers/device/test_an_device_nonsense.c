/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of accelerators with random names, times, correlations and details: every analyzer and every
 * format gets through, and what is counted twice agrees. FUZZ_ROUNDS=N in the environment: that
 * many rounds.
 */
#include "analyzers/base/stats.h"
#include "reports/report.h"
#include "tests/unit/an_gpu.h"

static const char *pick(uint64_t *seed, const char *const *of, size_t n)
{
    return of[an_random(seed) % n];
}
#define PICK(seed, of) pick(seed, of, sizeof(of) / sizeof *(of))

static const char *const categories[] = {"kernel", "kernel",     "memcpy", "memset",  "graph",
                                         "sync",   "annotation", "op",     "runtime", "runtime",
                                         "driver", "overhead",   "python", "instant", "NCCL",
                                         "trace",  "cudaMemcpy", ""};
static const char *const names[] = {"cudaLaunchKernel",
                                    "cudaGraphLaunch",
                                    "cudaMemcpyAsync",
                                    "hipMemcpyWithStream",
                                    "cudaMemsetAsync",
                                    "cudaStreamSynchronize",
                                    "cuCtxSynchronize",
                                    "volta_sgemm_128x64_nn",
                                    "ncclDevKernel_AllReduce_Sum",
                                    "flash_fwd_kernel",
                                    "zzqq",
                                    "",
                                    "\xff\x1b[31m",
                                    "aten::mm",
                                    "aten::convolution",
                                    "Memcpy HtoD (Pageable -> Device)",
                                    "ProfilerStep#1",
                                    "ProfilerStep#2",
                                    "Optimizer.step#SGD.step",
                                    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                                    "torch/utils/data/_utils/fetch.py(1): fetch",
                                    "a.py(3): __getitem__",
                                    "nn.Module: Linear_0",
                                    "record_param_comms"};
static const char *const schemas[] = {NULL,       "gpu.kernel", "gpu.memcpy", "gpu.sync",
                                      "torch.op", "torch.comm", "tacho.work", "tacho.step"};
static const char *const kinds[] = {NULL,      "HtoD",     "DtoH",   "DtoD",
                                    "unknown", "pageable", "pinned", "device"};
static const char *const payloads[] = {
    NULL,
    "{}",
    "{\"shapes\":[[2,3],[3,4]],\"types\":[\"float\",\"float\"]}",
    "{\"shapes\":[[-1,9223372036854775807],[[]]],\"types\":[]}",
    "{\"graph\":1,\"stream\":7,\"event\":-1,\"record_correlation\":3}",
    "{\"shapes\":\"x\"",
    "[[[[[[["};

/* Mostly ordinary times in a small window, so that rows meet; now and then anything. */
static int64_t odd_time(uint64_t *seed)
{
    static const int64_t odd[] = {INT64_MIN + 1, INT64_MAX, INT64_MAX - 1, -1, 0, 1};
    return an_random(seed) % 40 ? FX_BASE + (int64_t)(an_random(seed) % 3000)
                                : odd[an_random(seed) % 6];
}

static int64_t odd_size(uint64_t *seed)
{
    return an_random(seed) % 6   ? (int64_t)(an_random(seed) % 100000)
           : an_random(seed) % 2 ? FX_NONE
                                 : (int64_t)an_random(seed);
}

static void odd_rows(struct fixture *f, uint64_t *seed)
{
    int64_t track[8], detail[6];
    int64_t peer = fx_process(f, an_random(seed) % 2 ? FX_NONE : 1, "peer");
    for (int i = 0; i < 8; i++) {
        int64_t process = i % 4 < 2 ? f->process : peer;
        track[i] = i < 4 ? fx_track(f, process, "thread", i ? "pt_data_worker" : "main", NULL)
                         : gpu_stream(f, process, an_random(seed) % 5 ? "gpu:0" : "gpu:1", i);
    }
    for (int i = 0; i < 6; i++) {
        struct store_detail d = fx_empty();
        d.schema = PICK(seed, schemas);
        d.copy_kind = PICK(seed, kinds);
        d.kind = PICK(seed, kinds);
        d.bytes = odd_size(seed);
        d.flops = odd_size(seed);
        d.payload = PICK(seed, payloads);
        d.collective = an_random(seed) % 4 ? NULL : "allreduce";
        d.grid = an_random(seed) % 2 ? "1,2,3" : NULL;
        detail[i] = fx_intern(f, &d);
    }
    for (uint64_t i = 0, n = an_random(seed) % 300; i < n; i++) {
        struct store_slice x = {
            .track = track[an_random(seed) % 8],
            .start = odd_time(seed),
            .dur = an_random(seed) % 20 ? (int64_t)(an_random(seed) % 300) : odd_size(seed),
            .name = fx_string(f, PICK(seed, names)),
            .category = fx_string(f, PICK(seed, categories)),
            .detail = an_random(seed) % 2 ? FX_NONE : detail[an_random(seed) % 6],
            .correlation = an_random(seed) % 4 ? (int64_t)(an_random(seed) % 40) : odd_size(seed)};
        store_slice_add(f->s, &x);
    }
    if (an_random(seed) % 2)
        FX(store_run_set(f->s, "source", "kineto"));
    if (an_random(seed) % 2)
        FX(store_run_set(f->s, "source.decimals", an_random(seed) % 2 ? "0" : "3"));
}

static void check(const struct an_result *r)
{
    int64_t ops = 0, copies = 0, rows = 0;
    for (size_t i = 0; i < r->gpu_count; i++) {
        const struct an_gpu_device *g = &r->gpus[i];
        ops += g->ops;
        if (!g->span_ns.valid || g->span_ns.value == INT64_MAX) /* times beyond int64 saturate */
            continue;
        assert_int_equal(g->compute_ns.value + g->exposed_comm_ns.value + g->exposed_copy_ns.value +
                             g->opaque_ns.value + g->idle_ns.value,
                         g->span_ns.value);
        assert_int_equal(g->busy_ns.value + g->idle_ns.value, g->span_ns.value);
        assert_true(g->idle_ns.value >= 0);
    }
    for (size_t i = 0; i < r->device_count; i++) {
        const struct an_budget *b = &r->devices[i].budget;
        int64_t sum = 0;
        for (int k = 0; k < AN_CLASS_COUNT; k++)
            sum = b->ns[k].valid ? sum + b->ns[k].value : sum;
        if (!b->reason && b->step_ns < INT64_MAX / 4)
            assert_int_equal(sum, b->step_ns);
    }
    for (size_t i = 0; i < r->op_count && r->gpu_count; i++) {
        rows += r->ops[i].count;
        copies += !strcmp(r->ops[i].category, "memcpy") || !strcmp(r->ops[i].category, "memset")
                      ? r->ops[i].count
                      : 0;
    }
    for (size_t i = 0; i < r->copy_count; i++) {
        assert_true(r->copy[i].exposed_ns >= 0 && r->copy[i].exposed_ns <= r->copy[i].total_ns);
        copies -= r->copy[i].count;
    }
    assert_int_equal(copies, 0);
    if (ops)
        assert_int_equal(rows, ops);
    const struct an_launches *l = &r->launches;
    if (!l->reason) {
        assert_true(l->matched <= l->calls && l->graphs <= l->calls);
        assert_int_equal(l->calls - l->matched, r->quality.launches_without_op.value);
        assert_true(!l->queue_max.valid ||
                    (l->queue_max.value >= 0 && l->queue_max.value <= (double)l->matched));
        assert_true(!l->full_queue_pct.valid ||
                    (l->full_queue_pct.value >= 0 && l->full_queue_pct.value <= 100));
        assert_true(!l->short_pct.valid || (l->short_pct.value >= 0 && l->short_pct.value <= 100));
    }
    for (size_t i = 0; i < r->sync_count; i++)
        assert_true(!r->sync[i].idle_ns.valid || (r->sync[i].idle_ns.value >= 0 &&
                                                  r->sync[i].idle_ns.value <= r->sync[i].host_ns));
    assert_true(r->precision.matrix_unit_ns <= r->precision.matrix_ns);
    if (!r->quality.reason)
        assert_true(r->quality.kernels_lost.value <= r->quality.launches_without_op.value);
}

static void test_nonsense(void **state)
{
    (void)state;
    const char *rounds = getenv("FUZZ_ROUNDS");
    for (int round = 0; round < (rounds ? atoi(rounds) : 200); round++) {
        struct fixture fixture, *f = &fixture;
        uint64_t seed = (uint64_t)round + 1;
        fx_open(f);
        odd_rows(f, &seed);
        struct an_options o = {.file = "run.tacho", .compat = (enum an_compat)(round % 5)};
        const struct an_result *r = fx_analyze_with(f, &o);
        check(r);
        FILE *sink = fopen("/dev/null", "w");
        struct rep_options ro = {
            .width = 40, .utf8 = true, .color = true, .definitions = true, .ops = 100000};
        assert_non_null(sink);
        for (const struct rep_format *format = rep_formats; format->name; format++)
            assert_int_equal(rep_write(format->name, r, &ro, sink), 0);
        fclose(sink);
        fx_close(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nonsense)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
