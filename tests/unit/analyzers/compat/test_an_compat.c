/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of other tools on traces small enough to work it out by hand.
 * tests/e2e/traces/83_compat.sh holds it against what the tools themselves printed for real traces.
 */
#include "tests/unit/an_fixture.h"

/* A trace as an importer leaves it: one process, a host thread, streams 7 and 8 of gpu:0. Times are
 * ns after `base`. */
struct trace {
    struct fixture f;
    int64_t stream[2], base, correlation;
};

static void trace_open(struct trace *x, int64_t base)
{
    struct fixture *f = &x->f;
    char text[32];
    memset(x, 0, sizeof *x);
    fx_open(f);
    x->base = base;
    for (int i = 0; i < 2; i++) {
        struct store_track t = {.process = f->process,
                                .tid = 7 + i,
                                .kind = "stream",
                                .name = i ? "stream 8" : "stream 7",
                                .device = "gpu:0"};
        FX(store_track_add(f->s, &t));
        x->stream[i] = t.id;
    }
    snprintf(text, sizeof text, "%lld", (long long)base);
    FX(store_run_set(f->s, "source", "kineto"));
    FX(store_run_set(f->s, "source.base_ns", text));
}

static void add(struct trace *x, int64_t track, int64_t start, int64_t end, const char *category,
                const char *name, int64_t correlation)
{
    struct fixture *f = &x->f;
    struct store_slice s = {.track = track,
                            .start = x->base + start,
                            .dur = end - start,
                            .name = fx_string(f, name),
                            .category = fx_string(f, category),
                            .detail = FX_NONE,
                            .correlation = correlation};
    FX(store_slice_add(f->s, &s));
}

/* A launch on the host and the op it puts on stream 7 + `stream`. */
static void launch(struct trace *x, int64_t call, int64_t call_end, int stream, int64_t start,
                   int64_t end, const char *category, const char *name)
{
    int64_t id = ++x->correlation;
    add(x, x->f.thread, call, call_end, "runtime", "cudaLaunchKernel", id);
    add(x, x->stream[stream], start, end, category, name, id);
}

static double value_of(const struct an_result *r, const char *section, const char *key)
{
    assert_null(r->compat.reason);
    for (size_t i = 0; i < r->compat.row_count; i++)
        if (!strcmp(r->compat.rows[i].section, section) && !strcmp(r->compat.rows[i].key, key))
            return r->compat.rows[i].value;
    fail_msg("no row %s %s", section, key);
    return NAN;
}

static const struct an_result *ask(struct trace *x, enum an_compat tool)
{
    return fx_analyze_with(&x->f, &(struct an_options){.compat = tool});
}

/* compute 10-50 and 60-80; nccl 40-70: 10 us exposed; a copy 75-90: 10 exposed; an old ROCm copy
 * kernel 95-100; a memset that is computation 130-131; nothing 90-95, 100-130. */
static void test_tracelens(void **state)
{
    static const int64_t us = 1000;
    struct trace t, *x = &t;
    (void)state;
    trace_open(x, 1700000000000000000);
    add(x, x->stream[0], 10 * us, 50 * us, "kernel", "gemm", 1);
    add(x, x->stream[0], 60 * us, 80 * us, "kernel", "relu", 2);
    add(x, x->stream[1], 40 * us, 70 * us, "kernel", "void rcclGenericKernel<1>(x)", 3);
    add(x, x->stream[1], 75 * us, 90 * us, "memcpy", "Memcpy DtoH (Device -> Pinned)", 4);
    add(x, x->stream[0], 95 * us, 100 * us, "kernel", "__amd_rocclr_copyBuffer.kd", 5);
    add(x, x->stream[0], 130 * us, 131 * us, "memset", "Memset (Device)", 6);
    add(x, x->stream[0], 0, 500 * us, "sync", "Stream Sync", 7); /* neither these */
    add(x, x->stream[0], 0, 500 * us, "annotation", "step", FX_NONE);
    add(x, x->f.thread, 0, 600 * us, "op", "aten::mm", FX_NONE);
    const struct an_result *r = ask(x, AN_COMPAT_TRACELENS);
    assert_near(value_of(r, "gpu_timeline", "computation_time"), 61, 1e-6);
    assert_near(value_of(r, "gpu_timeline", "exposed_comm_time"), 10, 1e-6);
    assert_near(value_of(r, "gpu_timeline", "exposed_memcpy_time"), 15, 1e-6);
    assert_near(value_of(r, "gpu_timeline", "total_comm_time"), 30, 1e-6);
    assert_near(value_of(r, "gpu_timeline", "total_memcpy_time"), 20, 1e-6);
    assert_near(value_of(r, "gpu_timeline", "busy_time"), 86, 1e-6);
    assert_near(value_of(r, "gpu_timeline", "total_time"), 121, 1e-6);
    assert_near(value_of(r, "gpu_timeline", "idle_time"), 35, 1e-6);
    assert_near(value_of(r, "gpu_timeline", "micro_idle_time(<10us)"), 5, 1e-6);
    assert_near(value_of(r, "gpu_timeline", "macro_idle_time"), 30, 1e-6);
    assert_int_equal(r->compat.rows[0].rank, FX_NONE);
    fx_close(&x->f);
}

/* Without a base the raw time stamps are us of 1.7e15: doubles a quarter of a us apart. TraceLens
 * adds dur to ts in doubles, so its total is a multiple of 0.25 although the trace has ns. */
static void test_raw_times_are_doubles(void **state)
{
    struct trace t, *x = &t;
    (void)state;
    trace_open(x, 0);
    x->base = 1712195495502094000; /* of the numbers in the file: nothing was added */
    add(x, x->stream[0], 500, 1600, "kernel", "gemm", 1);
    add(x, x->stream[0], 3000, 4100, "kernel", "gemm", 2);
    const struct an_result *r = ask(x, AN_COMPAT_TRACELENS);
    double t0 = 1712195495502094.500, t1 = 1712195495502097.000 + 1.1;
    assert_true(value_of(r, "gpu_timeline", "total_time") == t1 - t0);
    assert_near(value_of(r, "gpu_timeline", "total_time"), 3.5, 0);
    fx_close(&x->f);
}

/* Steps 0 and 1. Launched in step 0: compute 20-50, a communication kernel 40-60, a copy 70-80; in
 * step 1: compute 120-150. A kernel 300-400 has no launch in the trace: dropped as soon as there
 * are two steps. */
static void hta_trace(struct trace *x, bool second_step)
{
    static const int64_t us = 1000;
    trace_open(x, 0);
    add(x, x->f.thread, 0, 100 * us, "annotation", "ProfilerStep#0", FX_NONE);
    if (second_step)
        add(x, x->f.thread, 100 * us, 200 * us, "annotation", "ProfilerStep#1", FX_NONE);
    launch(x, 5 * us, 6 * us, 0, 20 * us, 50 * us, "kernel", "gemm");
    launch(x, 7 * us, 8 * us, 1, 40 * us, 60 * us, "kernel", "ncclDevKernel_AllReduce");
    launch(x, 8 * us, 9 * us, 1, 70 * us, 80 * us, "memcpy", "Memcpy HtoD (Pinned -> Device)");
    launch(x, 110 * us, 111 * us, 0, 120 * us, 150 * us, "kernel", "gemm");
    add(x, x->stream[0], 300 * us, 400 * us, "kernel", "gemm", 99);
}

static void check_hta(const struct an_result *r, double idle, double compute, double other,
                      double kernel, double overlap)
{
    assert_true(value_of(r, "temporal_breakdown", "idle_time(us)") == idle);
    assert_true(value_of(r, "temporal_breakdown", "compute_time(us)") == compute);
    assert_true(value_of(r, "temporal_breakdown", "non_compute_time(us)") == other);
    assert_true(value_of(r, "temporal_breakdown", "kernel_time(us)") == kernel);
    assert_true(value_of(r, "comm_comp_overlap", "comp_comm_overlap_pctg") == overlap);
}

static void test_hta_drops_steps_and_orphans(void **state)
{
    struct trace t, *x = &t;
    (void)state;
    hta_trace(x, true);
    check_hta(ask(x, AN_COMPAT_HTA), 10, 30, 20, 60, 50);
    check_hta(ask(x, AN_COMPAT_HTA_LAST), 50, 60, 20, 130, 50);
    fx_close(&x->f);
}

static void test_hta_keeps_all_of_one_step(void **state)
{
    struct trace t, *x = &t;
    (void)state;
    hta_trace(x, false);
    check_hta(ask(x, AN_COMPAT_HTA), 200, 160, 20, 380, 50);
    assert_near(value_of(x->f.r, "temporal_breakdown", "idle_time_pctg"), 52.63, 1e-12);
    fx_close(&x->f);
}

/* 1.25-1.75 us is [2, 1] in whole us: it takes one us away. 10.5-20.5 is [11, 20]. */
static void test_hta_rounds_inwards(void **state)
{
    struct trace t, *x = &t;
    (void)state;
    trace_open(x, 0);
    add(x, x->stream[0], 1250, 1750, "kernel", "gemm", 1);
    add(x, x->stream[0], 10500, 20500, "kernel", "gemm", 2);
    add(x, x->stream[0], 30000, 31000, "sync", "Stream Sync",
        3); /* HTA counts it as busy, but not as computation */
    const struct an_result *r = ask(x, AN_COMPAT_HTA);
    assert_true(value_of(r, "temporal_breakdown", "kernel_time(us)") == 29);
    assert_true(value_of(r, "temporal_breakdown", "compute_time(us)") == 8);
    assert_true(value_of(r, "temporal_breakdown", "idle_time(us)") == 20);
    assert_true(isnan(
        value_of(r, "comm_comp_overlap", "comp_comm_overlap_pctg"))); /* no communication: nan */
    fx_close(&x->f);
}

/* Two steps on the host, 0-100 and 100-200. Step 0: loader 0-30, an operator 0-90, a launch 40-50,
 * its kernel 60-120 goes past the step: the step ends at 120 and the next one begins there. Step 1:
 * kernel 130-180, copy 175-190. */
static void test_tensorboard(void **state)
{
    static const int64_t us = 1000;
    static const struct {
        const char *key;
        double step0, step1;
    } want[] = {{"Kernel", 60, 50},      {"Memcpy", 0, 10},  {"Memset", 0, 0},
                {"Communication", 0, 0}, {"Runtime", 10, 1}, {"DataLoader", 30, 0},
                {"CpuOp", 20, 0},        {"Other", 0, 19},   {"Total", 120, 80}};
    struct trace t, *x = &t;
    (void)state;
    trace_open(x, 0);
    add(x, x->f.thread, 0, 100 * us, "annotation", "ProfilerStep#4", FX_NONE);
    add(x, x->f.thread, 100 * us, 200 * us, "annotation", "ProfilerStep#5", FX_NONE);
    add(x, x->f.thread, 0, 90 * us, "op", "aten::conv2d", FX_NONE);
    add(x, x->f.thread, 0, 30 * us, "annotation",
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", FX_NONE);
    launch(x, 40 * us, 50 * us, 0, 60 * us, 120 * us, "kernel", "gemm");
    launch(x, 122 * us, 123 * us, 0, 130 * us, 180 * us, "kernel", "gemm");
    launch(x, 140 * us, 141 * us, 1, 175 * us, 190 * us, "memcpy",
           "Memcpy HtoD (Pageable -> Device)");
    const struct an_result *r = ask(x, AN_COMPAT_TB);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        assert_near(value_of(r, "step 4", want[i].key), want[i].step0, 1e-9);
        assert_near(value_of(r, "step 5", want[i].key), want[i].step1, 1e-9);
        assert_near(value_of(r, "average", want[i].key), (want[i].step0 + want[i].step1) / 2, 1e-9);
    }
    assert_near(value_of(r, "gpu_utilization", "GPU utilization"), 110.0 / 200, 1e-12);
    fx_close(&x->f);
}

static void test_not_asked_for(void **state)
{
    struct trace t, *x = &t;
    (void)state;
    hta_trace(x, true);
    const struct an_result *r = fx_analyze(&x->f);
    assert_null(r->compat.tool);
    assert_non_null(r->compat.reason);
    assert_int_equal(r->compat.row_count, 0);
    fx_close(&x->f);
}

/* Ranks are traces of their own: each has its row. */
static void test_ranks_are_apart(void **state)
{
    struct trace t, *x = &t;
    struct fixture *f = &x->f;
    (void)state;
    trace_open(x, 0);
    for (int rank = 0; rank < 2; rank++) {
        struct store_track k = {.process = fx_process(f, rank, "python"),
                                .tid = 7,
                                .kind = "stream",
                                .name = "s",
                                .device = "gpu:0"};
        FX(store_track_add(f->s, &k));
        add(x, k.id, 1000, 3000 + 4000 * rank, "kernel", "gemm", 1);
    }
    const struct an_result *r = ask(x, AN_COMPAT_HTA);
    size_t seen = 0;
    for (size_t i = 0; i < r->compat.row_count; i++)
        if (!strcmp(r->compat.rows[i].key, "kernel_time(us)")) {
            assert_int_equal(r->compat.rows[i].rank, (int64_t)seen);
            assert_true(r->compat.rows[i].value == (seen ? 6.0 : 2.0));
            seen++;
        }
    assert_int_equal(seen, 2);
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tracelens),
        cmocka_unit_test(test_raw_times_are_doubles),
        cmocka_unit_test(test_hta_drops_steps_and_orphans),
        cmocka_unit_test(test_hta_keeps_all_of_one_step),
        cmocka_unit_test(test_hta_rounds_inwards),
        cmocka_unit_test(test_tensorboard),
        cmocka_unit_test(test_not_asked_for),
        cmocka_unit_test(test_ranks_are_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
