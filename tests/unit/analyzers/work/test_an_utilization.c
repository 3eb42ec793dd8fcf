/* SPDX-License-Identifier: Apache-2.0
 *
 * FLOPs exactly, their share of named peaks, and the refusals.
 */
#include "tests/unit/an_gpu.h"

#define BIG 1000000000000000003ll /* more digits than a double has */

/* n steps of 1 ms with one matrix work of 0.5 ms and an element-wise one. */
static void steps(struct fixture *f, int64_t process, int64_t track, int n, int64_t matrix,
                  int64_t other)
{
    for (int i = 0; i < n; i++) {
        int64_t b = i * 1000000ll;
        fx_step(f, process, track, i, b, b + 1000000, 64, false);
        fx_slice(f, track, b + 100, b + 500100, "matmul", matrix);
        fx_slice(f, track, b + 600000, b + 700000, "gelu", other);
    }
}

static void test_three_conventions(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    fx_peak(f, "bf16", 1e9, "measured: not this one");
    fx_peak(f, "fp32", 4e9, "measured: instruction peak, 2 cores");
    steps(f, f->process, f->thread, 6, fx_work(f, "attention", "fp32", 3000000, 1000000, 2000000),
          fx_work(f, "other", "fp32", 777, 0, 0));
    const struct an_utilization *u = &fx_analyze(f)->utilization;
    assert_int_equal(u->model_flops_per_step.value, 1000000);
    assert_int_equal(u->palm_flops_per_step.value, 2000000);
    assert_int_equal(u->hardware_flops_per_step.value,
                     3000000); /* element-wise work is not in it */
    assert_int_equal(u->model_flops.value, 4000000);
    assert_false(u->flops_vary);
    assert_near(u->mfu.value, 1000000 / (4e9 * 1e-3), 1e-12);
    assert_near(u->mfu_palm.value, 0.5, 1e-12);
    assert_near(u->hfu.value, 0.75, 1e-12);
    assert_near(u->achieved_flops.value, 3e9, 1);
    assert_near(u->flop_coverage_pct.value, 100, 0);
    assert_string_equal(u->dtype, "fp32");
    assert_near(u->peak_flops.value, 4e9, 0);
    assert_string_equal(u->peak_source, "measured: instruction peak, 2 cores");
    assert_false(u->mfu_measured.valid);
    fx_close(f);
}

static void test_integers_are_exact(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    steps(f, f->process, f->thread, 5, fx_work(f, "matrix", "fp32", BIG, BIG - 2, BIG + 2),
          fx_work(f, "other", "fp32", 1, 0, 0));
    const struct an_utilization *u = &fx_analyze(f)->utilization;
    assert_int_equal(u->hardware_flops_per_step.value, BIG);
    assert_int_equal(u->model_flops_per_step.value, BIG - 2);
    assert_int_equal(u->palm_flops_per_step.value, BIG + 2);
    assert_int_equal(u->model_flops.value, 3 * (BIG - 2));
    assert_false(u->mfu.valid);
    assert_non_null(strstr(u->mfu.reason, "--peak"));
    fx_close(f);
}

/* A work inside a work is part of it; one outside of steps belongs to none. */
static void test_nothing_counts_twice(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t outer = fx_work(f, "matrix", "fp32", 100, 100, 100),
            inner = fx_work(f, "matrix", "fp32", 60, 60, 60);
    int64_t helper = fx_track(f, f->process, "thread", "backward", NULL);
    for (int i = 0; i < 5; i++) {
        int64_t b = i * 1000;
        fx_step(f, f->process, f->thread, i, b, b + 900, 64, false);
        fx_slice(f, f->thread, b + 100, b + 300, "layer", outer);
        fx_slice(f, f->thread, b + 120, b + 200, "matmul", inner);
        fx_slice(f, helper, b + 400, b + 500, "matmul",
                 inner); /* another thread of the process works for the step too */
        fx_slice(f, f->thread, b + 950, b + 990, "matmul", inner);
    }
    const struct an_utilization *u = &fx_analyze(f)->utilization;
    assert_int_equal(u->model_flops_per_step.value, 160);
    fx_close(f);
}

/* Only flops, bytes, type and pass: the smallest tacho.work. What it does not say is not taken for
 * 0. */
static void test_work_without_kind(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    fx_peak(f, "fp32", 1e9, "measured");
    struct store_detail d = fx_empty();
    d.schema = "tacho.work";
    d.dtype = "fp32";
    d.pass = "forward";
    d.flops = d.model_flops = d.palm_flops = 100;
    int64_t forward = fx_intern(f, &d);
    d.pass = "recompute";
    d.model_flops = d.palm_flops = 0;
    int64_t again = fx_intern(f, &d);
    d.pass = "optimizer";
    int64_t optimizer = fx_intern(f, &d);
    for (int i = 0; i < 5; i++) {
        int64_t b = i * 1000;
        fx_step(f, f->process, f->thread, i, b, b + 900, 64, false);
        fx_slice(f, f->thread, b + 100, b + 300, "forward", forward);
        fx_slice(f, f->thread, b + 300, b + 400, "again", again);
        fx_slice(f, f->thread, b + 400, b + 500, "update", optimizer);
    }
    const struct an_utilization *u = &fx_analyze(f)->utilization;
    assert_int_equal(u->model_flops_per_step.value, 100);
    assert_int_equal(u->hardware_flops_per_step.value, 200);
    assert_true(u->mfu.valid && u->hfu.valid);
    assert_near(u->mfu.value, 100 / 900.0, 1e-9);
    assert_near(u->hfu.value, 200 / 900.0, 1e-9);
    fx_close(f);
}

static void test_mixed_types(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    fx_peak(f, "bf16", 8e9, "datasheet");
    fx_peak(f, "bf16", 9e9, "measured: roof");
    fx_peak(f, "fp32", 1e9, "datasheet");
    steps(f, f->process, f->thread, 6, fx_work(f, "matrix", "bf16", 800000, 800000, 800000),
          fx_work(f, "matrix", "fp32", 300000, 300000, 300000));
    const struct an_utilization *u = &fx_analyze(f)->utilization;
    /* 0.8 M at 8 G take 0.1 ms, 0.3 M at 1 G take 0.3 ms: 0.4 of the step */
    assert_near(u->mfu.value, 0.4, 1e-12);
    assert_near(u->peak_flops.value, 1.1e6 / 0.4e-3, 1);
    assert_string_equal(u->dtype, "bf16+fp32");
    assert_string_equal(u->peak_source, "datasheet");
    fx_close(f);
}

static void gemm_roof(struct fixture *f, const char *dtype, double value)
{
    struct store_ceiling c = {"cpu", "gemm", dtype, "measured: fastest product", value};
    FX(store_ceiling_add(f->s, &c));
}

/* Model FLOPs against the measured roof of their type, types mixed by FLOPs; a run that is faster
 * raises it; a rate above the instruction peak raises nothing. Steps of 1 ms: fp32 1 MFLOP in 0.5
 * ms, bf16 1 MFLOP in 0.4 ms. */
static void test_measured_roof(void **state)
{
    static const struct {
        double fp32, bf16, peak; /* GFLOP/s */
        double roof_fp32, roof_bf16;
    } cases[] = {{4, 8, 10, 4, 8}, {1, 8, 10, 2, 8}, {1, 8, 1.5, 1, 8}};
    (void)state;
    for (size_t k = 0; k < 3; k++) {
        struct fixture fx, *f = &fx;
        fx_open(f);
        fx_peak(f, "fp32", cases[k].peak * 1e9, "measured: instruction peak");
        gemm_roof(f, "fp32", cases[k].fp32 * 1e9);
        gemm_roof(f, "bf16", cases[k].bf16 * 1e9);
        int64_t fp32 = fx_work(f, "matrix", "fp32", 1000000, 500000, 1000000);
        int64_t bf16 = fx_work(f, "matrix", "bf16", 1000000, 1000000, 1000000);
        for (int i = 0; i < 8; i++) {
            fx_step(f, f->process, f->thread, i, i * 1000000, i * 1000000 + 1000000, 64, false);
            fx_slice(f, f->thread, i * 1000000 + 100, i * 1000000 + 500100, "matmul", fp32);
            fx_slice(f, f->thread, i * 1000000 + 500200, i * 1000000 + 900200, "matmul", bf16);
        }
        const struct an_utilization *u = &fx_analyze(f)->utilization;
        double a = cases[k].roof_fp32 * 1e9, b = cases[k].roof_bf16 * 1e9;
        assert_near(u->mfu_measured.value, (500000 / a + 1000000 / b) / 1e-3, 1e-9);
        assert_near(u->roof_measured_flops.value, 2000000 / (1000000 / a + 1000000 / b), 1);
        assert_int_equal(!strncmp(u->roof_source, "this run", 8), k == 1);
        fx_close(f);
    }
    struct fixture fx, *f = &fx;
    fx_open(f);
    gemm_roof(f, "bf16", 1e9);
    steps(f, f->process, f->thread, 6, fx_work(f, "matrix", "fp32", 3000, 3000, 3000),
          fx_work(f, "other", "fp32", 7, 0, 0));
    const struct an_utilization *u = &fx_analyze(f)->utilization;
    assert_non_null(strstr(u->mfu_measured.reason, "the roof of cpu for fp32 was not measured"));
    assert_non_null(strstr(u->mfu_measured.reason, "tacho calibrate"));
    fx_close(f);
}

/* Recomputation: HFU / MFU is 1 + the FLOPs that run again / the model's, in integers and to the
 * last digit. */
static void test_recomputed_share(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    fx_peak(f, "fp32", 1e12, "measured: instruction peak");
    struct store_detail d = fx_empty();
    d.schema = "tacho.work";
    d.kind = "matrix";
    d.dtype = "fp32";
    d.pass = "recompute";
    d.flops = 3000001;
    d.model_flops = d.palm_flops = 0;
    steps(f, f->process, f->thread, 6, fx_work(f, "matrix", "fp32", 9000003, 9000003, 9000003),
          fx_intern(f, &d));
    const struct an_utilization *u = &fx_analyze(f)->utilization;
    assert_int_equal(u->recomputed_flops_per_step.value, 3000001);
    assert_int_equal(u->recomputed_flops.value, 4 * 3000001);
    assert_int_equal(u->hardware_flops_per_step.value,
                     u->model_flops_per_step.value + u->recomputed_flops_per_step.value);
    assert_near(u->hfu.value / u->mfu.value, 1 + 3000001.0 / 9000003.0, 1e-15);
    fx_close(f);
}

static void test_peak_of_a_missing_type(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    fx_peak(f, "fp32", 1e9, "datasheet");
    steps(f, f->process, f->thread, 6, fx_work(f, "matrix", "bf16", 800, 800, 800),
          fx_work(f, "matrix", "fp32", 3, 3, 3));
    const struct an_result *r = fx_analyze(f);
    assert_false(r->utilization.mfu.valid);
    assert_non_null(strstr(r->utilization.mfu.reason, "bf16"));
    assert_true(r->utilization.model_flops_per_step.valid); /* the count stays */
    struct an_options o = {.peak_flops = 1e9};
    r = fx_analyze_with(f, &o);
    assert_near(r->utilization.mfu.value, 803 / 1e6, 1e-12);
    assert_string_equal(r->utilization.peak_source, "--peak");
    fx_close(f);
}

static void test_above_the_peak_is_an_error(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    fx_peak(f, "fp32", 1e9, "datasheet");
    steps(f, f->process, f->thread, 6, fx_work(f, "matrix", "fp32", 900000, 900000, 1100000),
          fx_work(f, "other", "fp32", 3, 0, 0));
    const struct an_result *r = fx_analyze(f);
    assert_near(r->utilization.mfu.value, 0.9, 1e-12);
    assert_false(r->utilization.mfu_palm.valid);
    assert_non_null(strstr(r->utilization.mfu_palm.reason, "110.0 %"));
    assert_int_equal(r->trust.problem_count, 1);
    assert_non_null(strstr(r->trust.problems[0], "counting error"));
    fx_close(f);
}

static void test_coverage(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    fx_peak(f, "fp32", 1e9, "datasheet");
    steps(f, f->process, f->thread, 6, fx_work(f, "matrix", "fp32", FX_NONE, FX_NONE, FX_NONE),
          fx_work(f, "matrix", "fp32", 500, 500, 500));
    const struct an_utilization *u = &fx_analyze(f)->utilization;
    assert_near(u->flop_coverage_pct.value, 100.0 / 6, 1e-9);
    assert_false(u->mfu.valid || u->hfu.valid || u->mfu_palm.valid);
    assert_non_null(strstr(u->hfu.reason, "16.7 %"));
    fx_close(f);
}

static void test_flops_per_step_option(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    for (int i = 0; i < 6; i++)
        fx_slice(f, f->thread, i * 1000000, i * 1000000 + 1000000, "train_step", FX_NONE);
    struct an_options o = {.flops_per_step = 5e8, .peak_flops = 1e12};
    const struct an_utilization *u = &fx_analyze_with(f, &o)->utilization;
    assert_near(u->mfu.value, 0.5, 1e-12);
    assert_int_equal(u->model_flops_per_step.value, 500000000);
    assert_false(u->hfu.valid);
    o.peak_flops = 0;
    u = &fx_analyze_with(f, &o)->utilization;
    assert_false(u->mfu.valid);
    fx_close(f);
}

/* Ranks on one machine's CPU share its peak; ranks on two machines have one each. */
static void ranks(bool apart, double want)
{
    struct fixture fx, *f = &fx;
    fx_open(f);
    fx_peak(f, "fp32", 4e9, "datasheet");
    int64_t matrix = fx_work(f, "matrix", "fp32", 1000000, 1000000, 1000000),
            other = fx_work(f, "other", "fp32", 1, 0, 0);
    for (int rank = 0; rank < 2; rank++) {
        struct store_process p = {.rank = rank,
                                  .pid = 7 + rank,
                                  .parent_pid = 1,
                                  .start = FX_BASE,
                                  .end = FX_NONE,
                                  .exit_status = FX_NONE,
                                  .host = apart && rank ? "b" : "a",
                                  .device = "cpu",
                                  .program = "train"};
        FX(store_process_add(f->s, &p));
        steps(f, p.id, fx_track(f, p.id, "thread", "main", NULL), 6, matrix, other);
    }
    const struct an_utilization *u = &fx_analyze(f)->utilization;
    assert_int_equal(u->model_flops_per_step.value, 2000000);
    assert_near(u->mfu.value, want, 1e-12);
    assert_near(u->peak_flops.value, apart ? 8e9 : 4e9, 1);
    fx_close(f);
}

static void test_ranks_and_devices(void **state)
{
    (void)state;
    ranks(false, 0.5);
    ranks(true, 0.25);
}

static void test_varying_steps(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t small = fx_work(f, "matrix", "fp32", 100, 100, 100),
            large = fx_work(f, "matrix", "fp32", 301, 301, 301);
    for (int i = 0; i < 6; i++) {
        fx_step(f, f->process, f->thread, i, i * 1000, i * 1000 + 900, 64, false);
        fx_slice(f, f->thread, i * 1000, i * 1000 + 500, "matmul", i % 2 ? small : large);
    }
    const struct an_utilization *u = &fx_analyze(f)->utilization;
    assert_true(u->flops_vary);
    assert_int_equal(u->model_flops.value, 802);
    assert_int_equal(u->model_flops_per_step.value, 201); /* 200.5, rounded */
    fx_close(f);
}

/* ---- accelerators ------------------------------------------------------------------------------------------------------------ */

#define GEMM     "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n"
#define MM_FLOPS (2ll * 1024 * 1024 * 1024)

static int64_t op_detail(struct fixture *f, const char *pass, const char *payload)
{
    struct store_detail d = fx_empty();
    d.schema = "torch.op";
    d.pass = pass;
    d.payload = payload;
    return fx_intern(f, &d);
}

static int64_t mm_of(struct fixture *f, const char *type)
{
    char payload[128];
    snprintf(payload, sizeof payload,
             "{\"shapes\":[[1024,1024],[1024,1024]],\"types\":[\"%s\",\"%s\"]}", type, type);
    return op_detail(f, NULL, payload);
}

/* An operator of `ns` on the host at `time` of a thread; its kernel begins 500 us later and lasts
 * `ns`. */
static void call(struct fixture *f, int64_t thread, int64_t stream, int64_t time, int64_t ns,
                 const char *name, int64_t detail, int64_t number, const char *kernel)
{
    gpu_row_ns(f, thread, time, time + ns, name, "op", detail, number);
    gpu_host_ns(f, thread, time + 1, time + 2, "cudaLaunchKernel", "runtime", time);
    gpu_kernel_ns(f, stream, time + 500000, time + 500000 + ns, kernel, time);
}

/* n steps of 1 ms on the host and the device, each one with a product of 100 us. */
static int64_t gpu_steps(struct fixture *f, const char *device, int n, int64_t detail,
                         const char *kernel)
{
    char key[64], name[32];
    int64_t stream = gpu_stream(f, f->process, "gpu:0", 7);
    snprintf(key, sizeof key, "device.%lld.gpu:0.name", (long long)f->process);
    FX(store_run_set(f->s, key, device));
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "ProfilerStep#%d", i);
        gpu_host_ns(f, f->thread, i * 1000000ll, i * 1000000ll + 999000, name, "annotation",
                    FX_NONE);
        call(f, f->thread, stream, i * 1000000ll + 1000, 100000, "aten::mm", detail, FX_NONE,
             kernel);
    }
    return stream;
}

static void test_device(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t stream = gpu_steps(f, "NVIDIA H100 80GB HBM3", 8, mm_of(f, "c10::BFloat16"), GEMM);
    for (int i = 0; i < 8; i++) /* element-wise work has FLOPs, but not of a model */
        call(f, f->thread, stream, i * 1000000ll + 200000, 1000, "aten::add",
             op_detail(f, NULL, "{\"shapes\":[[100],[100]],\"types\":[\"float\",\"float\"]}"),
             FX_NONE, "vectorized_elementwise_kernel");
    const struct an_result *r = fx_analyze(f);
    const struct an_utilization *u = &r->utilization;
    assert_int_equal(u->model_flops_per_step.value, MM_FLOPS);
    assert_int_equal(u->hardware_flops_per_step.value, MM_FLOPS);
    assert_int_equal(u->model_flops.value, MM_FLOPS * r->steps.detailed);
    assert_string_equal(u->dtype, "bf16");
    assert_near(u->peak_flops.value, 989.4e12, 1e6);
    assert_int_equal(strncmp(u->peak_source, "datasheet: NVIDIA H100", 22), 0);
    assert_near(u->mfu.value, MM_FLOPS / (989.4e12 * 1e-3), 1e-9);
    assert_near(u->flop_coverage_pct.value, 100, 0);
    assert_near(u->achieved_flops.value, MM_FLOPS / 1e-3, 1e3);
    struct an_options o = {.peak_flops = 100e12};
    u = &fx_analyze_with(f, &o)->utilization;
    assert_near(u->mfu.value, MM_FLOPS / (100e12 * 1e-3), 1e-9);
    assert_string_equal(u->peak_source, "--peak");
    fx_close(f);
}

/* What runs again for backward is hardware work only, where the trace shows that it runs again. */
static void test_run_again(void **state)
{
    (void)state;
    for (int marked = 0; marked < 2; marked++) {
        struct fixture fx, *f = &fx;
        fx_open(f);
        int64_t mm = mm_of(f, "c10::BFloat16"),
                engine = fx_track(f, f->process, "thread", "engine", NULL);
        int64_t stream = gpu_steps(f, "NVIDIA H100 80GB HBM3", 8, mm, GEMM);
        for (int i = 0; i < 8; i++) {
            int64_t t = i * 1000000ll + 300000;
            gpu_row_ns(f, engine, t, t + 300000,
                       "autograd::engine::evaluate_function: MulBackward0", "op",
                       op_detail(f, "backward", NULL), 4 + i);
            if (marked)
                gpu_host_ns(f, engine, t + 10, t + 150000,
                            "torch/utils/checkpoint.py(1100): unpack_hook", "python", FX_NONE);
            call(f, engine, stream, t + 20, 100000, "aten::mm", mm, 7, GEMM);
            call(f, engine, stream, t + 160000, 100000, "aten::mm", mm, FX_NONE, GEMM);
        }
        const struct an_result *r = fx_analyze(f);
        assert_int_equal(r->utilization.hardware_flops_per_step.value, 3 * MM_FLOPS);
        assert_int_equal(r->utilization.model_flops_per_step.value, (marked ? 2 : 3) * MM_FLOPS);
        assert_true(marked ? r->utilization.hfu.value > r->utilization.mfu.value
                           : r->utilization.hfu.value == r->utilization.mfu.value);
        bool said = false;
        for (size_t i = 0; i < r->trust.problem_count; i++)
            said = said || strstr(r->trust.problems[i], "inside backward");
        assert_int_equal(said, !marked);
        fx_close(f);
    }
}

static void test_device_refusals(void **state)
{
    static const struct {
        const char *device, *type, *kernel, *reason;
    } cases[] = {
        {"AMD Radeon Graphics", "c10::BFloat16", GEMM,
         "no peak of AMD Radeon Graphics for bf16 is known; give one with --peak"},
        {"", "c10::BFloat16", GEMM, "does not name its devices"},
        {"NVIDIA H100 80GB HBM3", "float", "some_gemm_kernel", "tf32"},
        {"NVIDIA H100 80GB HBM3", "float", "ampere_sgemm_128x64_nn", NULL},
        {"Tesla V100-SXM2-32GB", "float", "some_gemm_kernel", NULL}, /* has no tf32 */
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture fx, *f = &fx;
        fx_open(f);
        gpu_steps(f, cases[i].device, 8, mm_of(f, cases[i].type), cases[i].kernel);
        const struct an_utilization *u = &fx_analyze(f)->utilization;
        assert_int_equal(u->model_flops_per_step.value, MM_FLOPS);
        assert_int_equal(u->mfu.valid, !cases[i].reason);
        if (cases[i].reason)
            assert_non_null(strstr(u->mfu.reason, cases[i].reason));
        else
            assert_string_equal(u->dtype, "fp32");
        fx_close(f);
    }
}

static void test_device_coverage(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t stream = gpu_steps(f, "NVIDIA H100 80GB HBM3", 8, mm_of(f, "c10::BFloat16"), GEMM);
    for (int i = 0; i < 8; i++)
        call(f, f->thread, stream, i * 1000000ll + 200000, 25000, "my::fused_mlp", FX_NONE, FX_NONE,
             GEMM);
    const struct an_result *r = fx_analyze(f);
    assert_near(r->utilization.flop_coverage_pct.value, 80, 1e-9);
    assert_false(r->utilization.mfu.valid);
    assert_non_null(strstr(r->utilization.mfu.reason, "--flops-per-step"));
    struct an_options o = {.flops_per_step = 3e9};
    r = fx_analyze_with(f, &o);
    assert_near(r->utilization.mfu.value, 3e9 / (989.4e12 * 1e-3), 1e-9);
    fx_close(f);
}

/* More than a device can do is a counting error, not a result. */
static void test_device_above_its_peak(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    gpu_steps(f, "NVIDIA H100 80GB HBM3", 8, mm_of(f, "c10::BFloat16"), GEMM);
    struct an_options o = {.peak_flops = 1e12};
    const struct an_result *r = fx_analyze_with(f, &o);
    assert_false(r->utilization.mfu.valid);
    assert_true(r->trust.problem_count > 0);
    assert_non_null(strstr(r->trust.problems[0], "counting error"));
    fx_close(f);
}

static void test_device_without_shapes(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    gpu_steps(f, "NVIDIA H100 80GB HBM3", 8, FX_NONE, GEMM);
    const struct an_utilization *u = &fx_analyze(f)->utilization;
    assert_false(u->model_flops_per_step.valid);
    assert_non_null(strstr(u->mfu.reason, "record_shapes"));
    struct an_options o = {.flops_per_step = 3e9}; /* the kernels' names tell which peak */
    u = &fx_analyze_with(f, &o)->utilization;
    assert_near(u->mfu.value, 3e9 / (989.4e12 * 1e-3), 1e-9);
    assert_int_equal(strncmp(u->peak_source, "datasheet", 9), 0);
    fx_close(f);
}

/* Ranges that only say which pass they are (the hook of Python programs). */
static void test_work_without_flops(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    struct store_detail d = fx_empty();
    d.schema = "tacho.work";
    d.pass = "backward";
    int64_t backward = fx_intern(f, &d);
    for (int i = 0; i < 5; i++) {
        fx_step(f, f->process, f->thread, i, i * 1000, i * 1000 + 900, 64, false);
        fx_slice(f, f->thread, i * 1000 + 100, i * 1000 + 300, "backward", backward);
    }
    const struct an_utilization *u = &fx_analyze(f)->utilization;
    assert_false(u->model_flops_per_step.valid || u->hardware_flops_per_step.valid ||
                 u->achieved_flops.valid || u->mfu.valid);
    assert_non_null(strstr(u->mfu.reason, "carry no FLOPs"));
    fx_close(f);
}

/* Six steps that each launch the same graph, of a product and a memset. Step 0 captures it; `other`
 * captures as many nodes. */
static const struct an_result *replay_graph(struct fixture *f, const char *kind, bool other)
{
    char key[64];
    fx_open(f);
    snprintf(key, sizeof key, "device.%lld.gpu:0.name", (long long)f->process);
    FX(store_run_set(f->s, key, "NVIDIA H200"));
    int64_t s = gpu_stream(f, f->process, "gpu:0", 7),
            work = fx_work(f, kind, "bf16", 3000, 2000, 2500);
    for (int i = 0; i <= other; i++) {
        int64_t b = 20 + i * 100;
        gpu_row(f, f->thread, b, b + 1, "cudaStreamBeginCapture", "runtime", 900);
        fx_slice(f, f->thread, (b + 2) * 1000, (b + 6) * 1000, "matmul", work);
        gpu_row(f, f->thread, b + 3, b + 4, "cudaLaunchKernel", "runtime", 901 + 10 * i);
        gpu_row(f, f->thread, b + 7, b + 8, "cudaMemsetAsync", "runtime", 902 + 10 * i);
        gpu_row(f, f->thread, b + 9, b + 10, "cudaStreamEndCapture", "runtime", 903);
    }
    for (int i = 0; i < 6; i++) {
        int64_t b = i * 1000;
        fx_step(f, f->process, f->thread, i, b * 1000, (b + 999) * 1000, 64, false);
        gpu_row(f, f->thread, b + 300, b + 310, "cudaGraphLaunch", "runtime", i + 1);
        gpu_row(f, s, b + 320, b + 900, "nvjet_sm90_tst_NNT", "kernel", i + 1);
        gpu_row(f, s, b + 901, b + 902, "Memset (Device)", "memset", i + 1);
    }
    return fx_analyze(f);
}

/* Each step has computed the product once, the step that captured it too, and its kernel is that of
 * the operator. A second graph of as many nodes hides which one ran; a GEMM is no kernel of other
 * work, so that the range around its launch is not its operator. */
static void test_replayed_graph(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    const struct an_result *r = replay_graph(f, "matrix", false);
    const struct an_utilization *u = &r->utilization;
    assert_int_equal(u->model_flops_per_step.value, 2000);
    assert_int_equal(u->hardware_flops_per_step.value, 3000);
    assert_false(u->flops_vary);
    assert_near(u->flop_coverage_pct.value, 100, 1e-9);
    assert_near(u->mfu.value, 2000 / (989.5e12 * 1e-3), 1e-12);
    assert_int_equal(r->attribution[0].row_count, 1);
    assert_string_equal(r->attribution[0].rows[0].name, "matmul");
    assert_int_equal(r->attribution[0].rows[0].kernels, 6);
    assert_int_equal(r->attribution[0].rows[0].device_ns, 6 * 580000);
    assert_int_equal(r->attribution[0].rows[0].flops.value, 6 * 3000);
    assert_int_equal(r->bounds.ns[AN_BOUND_UNKNOWN], 4 * 1000); /* the memsets */
    fx_close(f);
    r = replay_graph(f, "matrix", true);
    assert_false(r->utilization.mfu.valid);
    assert_int_equal(r->attribution[0].row_count, 0);
    fx_close(f);
    r = replay_graph(f, "other", false);
    assert_int_equal(r->attribution[0].row_count, 0);
    fx_close(f);
}

/* PyTorch's hook counts a pass while it runs, and its FLOPs are on a range after it: all of its
 * time is covered, and the modules in it are parts of it, of which the last one ends with it. */
static void test_counted_pass(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    fx_peak(f, "fp32", 1e12, "measured");
    int64_t known = fx_work(f, "matrix", "fp32", 100, 100, 100);
    struct store_detail d = fx_empty();
    d.schema = "tacho.work";
    d.pass = "forward";
    int64_t silent = fx_intern(f, &d);
    for (int i = 0; i < 6; i++) {
        int64_t b = i * 1000, counts = i == 3, end = b + (counts ? 700 : 300);
        fx_step(f, f->process, f->thread, i, b, b + 900, 64, false);
        fx_slice(f, f->thread, b + 100, end, "net", counts ? silent : known);
        fx_slice(f, f->thread, b + 120, b + 200, "layer", silent);
        fx_slice(f, f->thread, b + 220, end, "layer", silent);
        fx_slice(f, f->thread, b + 202, b + 218, "net", silent);
        if (counts)
            fx_slice(f, f->thread, end + 10, end + 10, "FLOPs counted", known);
    }
    const struct an_utilization *u = &fx_analyze(f)->utilization;
    assert_near(u->flop_coverage_pct.value, 100, 1e-9);
    assert_int_equal(u->hardware_flops_per_step.value, 100);
    assert_false(u->flops_vary);
    assert_true(u->mfu.valid);
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_three_conventions),
        cmocka_unit_test(test_integers_are_exact),
        cmocka_unit_test(test_nothing_counts_twice),
        cmocka_unit_test(test_work_without_kind),
        cmocka_unit_test(test_mixed_types),
        cmocka_unit_test(test_measured_roof),
        cmocka_unit_test(test_recomputed_share),
        cmocka_unit_test(test_peak_of_a_missing_type),
        cmocka_unit_test(test_above_the_peak_is_an_error),
        cmocka_unit_test(test_coverage),
        cmocka_unit_test(test_flops_per_step_option),
        cmocka_unit_test(test_ranks_and_devices),
        cmocka_unit_test(test_varying_steps),
        cmocka_unit_test(test_device),
        cmocka_unit_test(test_run_again),
        cmocka_unit_test(test_device_refusals),
        cmocka_unit_test(test_device_coverage),
        cmocka_unit_test(test_device_above_its_peak),
        cmocka_unit_test(test_device_without_shapes),
        cmocka_unit_test(test_work_without_flops),
        cmocka_unit_test(test_replayed_graph),
        cmocka_unit_test(test_counted_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
