/* SPDX-License-Identifier: Apache-2.0
 *
 * The roofline: FLOPs and bytes of known calls, the union of exactly their kernels, ceilings of
 * data sheets, and the refusals.
 */
#include "tests/unit/an_gpu.h"

#define H100      "NVIDIA H100 80GB HBM3" /* bf16 989.4 TFLOP/s, fp32 67, 3350 GB/s */
#define MM_FLOPS  (2ll * 64 * 32 * 16)
#define MM_BYTES  (2ll * (64 * 32 + 32 * 16 + 64 * 16))
#define ADD_BYTES (3ll * 2 * 64 * 16)

static int64_t op_detail(struct fixture *f, const char *payload)
{
    struct store_detail d = fx_empty();
    d.schema = "torch.op";
    d.payload = payload;
    return fx_intern(f, &d);
}

static void named(struct fixture *f, int ordinal, const char *name)
{
    char key[64];
    snprintf(key, sizeof key, "device.%lld.gpu:%d.name", (long long)f->process, ordinal);
    FX(store_run_set(f->s, key, name));
}

static int64_t mm_detail(struct fixture *f)
{
    return op_detail(
        f, "{\"shapes\":[[64,32],[32,16]],\"types\":[\"c10::BFloat16\",\"c10::BFloat16\"]}");
}

static int64_t add_detail(struct fixture *f)
{
    return op_detail(f, "{\"shapes\":[[64,16],[64,16],[]],\"types\":[\"c10::BFloat16\",\"c10::"
                        "BFloat16\",\"Scalar\"]}");
}

/* An operator at `time` whose one kernel runs in [start, end). */
static void call(struct fixture *f, int64_t stream, int64_t time, const char *name, int64_t detail,
                 const char *kernel, int64_t start, int64_t end)
{
    gpu_row_ns(f, f->thread, time, time + 8, name, "op", detail, FX_NONE);
    gpu_host_ns(f, f->thread, time + 2, time + 4, "cudaLaunchKernel", "runtime", time);
    gpu_kernel_ns(f, stream, start, end, kernel, time);
}

static const struct an_roofline_point *point(const struct an_result *r, const char *name,
                                             const char *dtype)
{
    for (size_t i = 0; i < r->point_count; i++)
        if (!strcmp(r->points[i].name, name) && !strcmp(r->points[i].dtype, dtype))
            return &r->points[i];
    return NULL;
}

static const struct an_ceiling *ceiling(const struct an_result *r, const char *resource,
                                        const char *dtype)
{
    for (size_t i = 0; i < r->ceiling_count; i++)
        if (!strcmp(r->ceilings[i].resource, resource) && !strcmp(r->ceilings[i].dtype, dtype))
            return &r->ceilings[i];
    return NULL;
}

static void test_points(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    named(f, 0, H100);
    int64_t a = gpu_stream(f, f->process, "gpu:0", 7), b = gpu_stream(f, f->process, "gpu:0", 8);
    int64_t bad = op_detail(
        f, "{\"shapes\":[[64,32],[33,16]],\"types\":[\"c10::BFloat16\",\"c10::BFloat16\"]}");
    call(f, a, 0, "aten::mm", mm_detail(f), "sm90_xmma_gemm_bf16bf16_bf16f32", 1000, 1100);
    call(f, b, 10, "aten::mm", mm_detail(f), "sm90_xmma_gemm_bf16bf16_bf16f32", 1050,
         1150); /* beside the first one */
    call(f, a, 20, "aten::mm", mm_detail(f), "sm90_xmma_gemm_bf16bf16_bf16f32", 1150, 1160);
    call(f, a, 30, "aten::mm", bad, "sm90_xmma_gemm_bf16bf16_bf16f32", 1200,
         1900); /* its FLOPs are not known: no part of it */
    call(f, a, 40, "aten::add", add_detail(f), "vectorized_elementwise_kernel", 2000, 2001);
    call(f, a, 50, "aten::copy_",
         op_detail(f, "{\"shapes\":[[8],[8]],\"types\":[\"float\",\"float\"]}"), "copy", 2100,
         2200);
    const struct an_result *r = fx_analyze(f);
    assert_null(r->roofline.reason);
    assert_int_equal(r->point_count, 2);
    const struct an_roofline_point *mm = point(r, "aten::mm", "bf16"),
                                   *add = point(r, "aten::add", "bf16");
    assert_int_equal(mm->count, 3);
    assert_int_equal(mm->flops, 3 * MM_FLOPS);
    assert_int_equal(mm->bytes, 3 * MM_BYTES);
    assert_int_equal(mm->time_ns, 160);
    assert_near(mm->intensity, (double)MM_FLOPS / (double)MM_BYTES, 1e-12);
    assert_near(mm->achieved_flops, 3.0 * MM_FLOPS / 160e-9, 1);
    assert_near(mm->attainable_flops, 3350e9 * mm->intensity, 1); /* far below 989 T */
    assert_string_equal(mm->bound, "memory");
    assert_false(mm->bytes_measured);
    assert_int_equal(add->flops, 64 * 16);
    assert_int_equal(add->bytes, ADD_BYTES);
    assert_string_equal(add->bound, "cached"); /* 6 KiB in 1 ns is more than the memory can do */
    assert_true(add->achieved_flops > add->attainable_flops);
    assert_near(ceiling(r, "flops", "bf16")->value, 989.4e12, 1e6);
    assert_near(ceiling(r, "flops", "fp32")->value, 67e12,
                1e6); /* of the sum, which no matrix unit computes */
    assert_near(ceiling(r, "bandwidth", "")->value, 3350e9, 1);
    assert_int_equal(strncmp(ceiling(r, "bandwidth", "")->source, "datasheet", 9), 0);
    assert_string_equal(r->points[0].name, "aten::mm"); /* the longest first */
    fx_close(f);
}

static void test_compute_bound(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    named(f, 0, H100);
    int64_t a = gpu_stream(f, f->process, "gpu:0", 7);
    int64_t big = op_detail(
        f,
        "{\"shapes\":[[4096,4096],[4096,4096]],\"types\":[\"c10::BFloat16\",\"c10::BFloat16\"]}");
    call(f, a, 0, "aten::mm", big, "sm90_xmma_gemm_bf16bf16_bf16f32", 1000, 1000000);
    struct an_options o = {.file = "run.tacho", .peak_flops = 500e12};
    const struct an_result *r = fx_analyze(f);
    assert_string_equal(r->points[0].bound, "compute");
    assert_near(r->points[0].attainable_flops, 989.4e12, 1e6);
    r = fx_analyze_with(f, &o);
    assert_near(r->points[0].attainable_flops, 500e12, 1);
    assert_string_equal(ceiling(r, "flops", "bf16")->source, "--peak");
    fx_close(f);
}

/* fp32 operands on a device with tf32: the kernel's name decides. */
static void test_type_of_the_kernel(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    named(f, 0, H100);
    int64_t a = gpu_stream(f, f->process, "gpu:0", 7);
    int64_t mm = op_detail(f, "{\"shapes\":[[64,32],[32,16]],\"types\":[\"float\",\"float\"]}");
    call(f, a, 0, "aten::mm", mm, "sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n", 1000, 2000);
    call(f, a, 20, "aten::mm", mm, "ampere_sgemm_128x64_nn", 3000, 4000);
    const struct an_result *r = fx_analyze(f);
    assert_non_null(point(r, "aten::mm", "tf32"));
    assert_non_null(point(r, "aten::mm", "fp32"));
    assert_int_equal(point(r, "aten::mm", "tf32")->count, 1);
    fx_close(f);
}

static void test_absent(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    static const char *const names[] = {"AMD Radeon Graphics", "", H100};
    static const char *const words[] = {"AMD Radeon Graphics", "bandwidth", "record_shapes"};
    for (int i = 0; i < 3; i++) {
        fx_open(f);
        named(f, 0, names[i]);
        int64_t a = gpu_stream(f, f->process, "gpu:0", 7);
        call(f, a, 0, "aten::mm", i == 2 ? FX_NONE : mm_detail(f), "gemm", 1000, 1100);
        const struct an_result *r = fx_analyze(f);
        assert_non_null(r->roofline.reason);
        assert_non_null(strstr(r->roofline.reason, words[i]));
        assert_int_equal(r->point_count, 0);
        fx_close(f);
    }
    fx_open(f); /* two kinds of devices */
    named(f, 0, H100);
    named(f, 1, "NVIDIA A100-SXM4-80GB");
    call(f, gpu_stream(f, f->process, "gpu:0", 7), 0, "aten::mm", mm_detail(f), "gemm", 1000, 1100);
    call(f, gpu_stream(f, f->process, "gpu:1", 7), 20, "aten::mm", mm_detail(f), "gemm", 1000,
         1100);
    assert_non_null(strstr(fx_analyze(f)->roofline.reason, "several kinds"));
    fx_close(f);
}

/* The CPU engine: ranges with payloads, in steps, where the file has both ceilings. */
static void test_cpu(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    for (int bandwidth = 0; bandwidth < 2; bandwidth++) {
        fx_open(f);
        fx_peak(f, "fp32", 4e9, "measured: instruction peak");
        struct store_ceiling c = {"cpu", "bandwidth", "", "measured: stream", 1e9};
        if (bandwidth)
            FX(store_ceiling_add(f->s, &c));
        fx_peak(f, "bf16", INFINITY, "damaged"); /* counts as none: no plot reaches it */
        int64_t work = fx_work(f, "matrix", "fp32", 3000, 3000, 3000); /* 1,500 bytes */
        for (int i = 0; i < 6; i++) {
            fx_step(f, f->process, f->thread, i, i * 10000, i * 10000 + 9000, 64, false);
            fx_slice(f, f->thread, i * 10000 + 100, i * 10000 + 2100, "matmul", work);
        }
        const struct an_result *r = fx_analyze(f);
        if (bandwidth) {
            assert_null(r->roofline.reason);
            assert_int_equal(r->point_count, 1);
            assert_int_equal(r->points[0].count, r->steps.detailed);
            assert_int_equal(r->points[0].time_ns, 2000 * r->steps.detailed);
            assert_near(r->points[0].intensity, 2, 1e-12);
            assert_near(r->points[0].attainable_flops, 2e9, 1e-3);
            assert_near(r->points[0].achieved_flops, 1.5e9, 1e-3);
            assert_string_equal(r->points[0].bound, "memory");
            assert_int_equal(r->ceiling_count, 2); /* the file's own, once */
        } else {
            assert_non_null(strstr(r->roofline.reason, "bandwidth of cpu"));
        }
        fx_close(f);
    }
}

/* ---- the CPU: levels, ridge, errors -------------------------------------------------------------------------------------- */

static void roof(struct fixture *f, const char *resource, const char *dtype, double value)
{
    struct store_ceiling c = {"cpu", resource, dtype, "measured: for this test", value};
    FX(store_ceiling_add(f->s, &c));
}

static int64_t work(struct fixture *f, const char *kind, const char *dtype, const char *pass,
                    int64_t flops, int64_t bytes)
{
    struct store_detail d = fx_empty();
    d.schema = "tacho.work";
    d.kind = kind;
    d.dtype = dtype;
    d.pass = pass;
    d.flops = flops;
    d.model_flops = d.palm_flops = strcmp(pass, "recompute") ? flops : 0;
    d.bytes_read = bytes / 2;
    d.bytes_written = bytes - bytes / 2;
    return fx_intern(f, &d);
}

#define STEP 5000000 /* ns */

/* Six steps; the call lies in each of them, `at` ns after its start. */
static void in_steps(struct fixture *f, int64_t thread, int64_t at, int64_t ns, const char *name,
                     int64_t detail)
{
    for (int i = 0; i < 6; i++)
        fx_slice(f, thread, i * STEP + at, i * STEP + at + ns, name, detail);
}

static void steps(struct fixture *f, int64_t process, int64_t thread)
{
    for (int i = 0; i < 6; i++)
        fx_step(f, process, thread, i, (int64_t)i * STEP, (int64_t)i * STEP + STEP - 1000, 64,
                false);
}

/* No point above its ceiling without a word that says so. */
static void check_points(const struct an_result *r)
{
    for (size_t i = 0; i < r->point_count; i++) {
        const struct an_roofline_point *p = &r->points[i];
        assert_near(p->intensity, (double)p->flops / (double)p->bytes, 0);
        if (p->achieved_flops > p->attainable_flops)
            assert_true(!strcmp(p->bound, "cached") || !strcmp(p->bound, "reduced") ||
                        !strcmp(p->bound, "impossible"));
        assert_true(p->level || p->level_reason);
    }
}

/* One op, products of M x 128 x 128 in fp32, of intensity 2 M N K / 4 (M K + N K + M N): each
 * reaches 80 % of what the ceilings allow, so it is the ceilings that decide which roof it stands
 * under. The ridge of 20 FLOP/byte lies between M = 64 (16) and M = 128 (21.3). */
static void test_ridge(void **state)
{
    struct fixture fx, *f = &fx;
    const double peak = 100e9, dram = 5e9;
    const int64_t n = 128;
    int64_t at = 1000;
    (void)state;
    fx_open(f);
    fx_peak(f, "fp32", peak, "measured: instruction peak");
    roof(f, "bandwidth", "", dram);
    steps(f, f->process, f->thread);
    for (int64_t m = 1; m <= 1024; m *= 2) {
        int64_t flops = 2 * m * n * n, bytes = 4 * (2 * m * n + n * n);
        double reach = (double)flops / (double)bytes * dram;
        int64_t ns = (int64_t)((double)flops / (0.8 * (reach < peak ? reach : peak)) * 1e9);
        in_steps(f, f->thread, at, ns, "matmul.forward",
                 work(f, "matrix", "fp32", "forward", flops, bytes));
        at += ns + 1000;
    }
    const struct an_result *r = fx_analyze(f);
    check_points(r);
    assert_int_equal(r->point_count, 11); /* a point for each M */
    for (size_t i = 0; i < r->point_count; i++) {
        const struct an_roofline_point *p = &r->points[i];
        int64_t m = p->flops_per_call.value / (2 * n * n);
        assert_string_equal(p->bound, m <= 64 ? "memory" : "compute");
        assert_near(p->attainable_flops, m <= 64 ? p->intensity * dram : peak, 1);
        assert_near(p->achieved_flops / p->attainable_flops, 0.8, 0.001);
        assert_int_equal(p->count, r->steps.detailed);
        assert_int_equal(p->shapes, 1);
        if (m <= 64)
            assert_string_equal(p->level, "dram");
        else
            assert_null(p->level);
    }
    fx_close(f);
}

/* A faster DRAM row raises the roof; a point above it is called cached, and the slowest level that
 * is enough is named. */
static void test_levels(void **state)
{
    static const struct {
        int64_t ns; /* of 1000 FLOPs and 8000 bytes */
        const char *bound, *level;
    } cases[] = {{1000, "memory", "dram"}, {450, "memory", "dram"}, {300, "cached", "l3"},
                 {100, "cached", "l2"},    {30, "cached", "l1"},    {10, "cached", NULL}};
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    struct fixture fx, *f = &fx;
    (void)state;
    for (int caches = 1; caches >= 0; caches--) {
        fx_open(f);
        fx_peak(f, "fp32", 1e12, "measured: instruction peak");
        roof(f, "bandwidth", "", 10e9);        /* 800 ns */
        roof(f, "bandwidth_update", "", 20e9); /* 400 ns */
        roof(f, "bandwidth_read", "", 12e9);
        if (caches) {
            roof(f, "bandwidth_l3", "", 40e9);
            roof(f, "bandwidth_l2", "", 100e9);
            roof(f, "bandwidth_l1", "", 400e9);
        }
        steps(f, f->process, f->thread);
        for (size_t i = 0; i < 6; i++)
            in_steps(f, f->thread, 1000 + (int64_t)i * 2000, cases[i].ns, names[i],
                     work(f, "other", "fp32", "forward", 1000, 8000));
        const struct an_result *r = fx_analyze(f);
        check_points(r);
        assert_int_equal(r->point_count, 6);
        for (size_t i = 0; i < 6; i++) {
            const struct an_roofline_point *p = point(r, names[i], "fp32");
            assert_string_equal(p->bound, cases[i].bound);
            assert_near(p->attainable_flops, 20e9 / 8, 1e-3);
            const char *want = caches || !strcmp(p->bound, "memory") ? cases[i].level : NULL;
            if (want)
                assert_string_equal(p->level, want);
            else
                assert_null(p->level);
            if (!caches && !want)
                assert_non_null(strstr(p->level_reason, "tacho calibrate"));
        }
        assert_int_equal(r->trust.problem_count, 0);
        fx_close(f);
    }
}

/* Above the instruction peak nothing runs: it stays in the table and trust tells it. bf16 has a
 * peak of its own; what is no product is held against that of fp32. */
static void test_impossible(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    fx_peak(f, "fp32", 100e9, "measured: instruction peak");
    fx_peak(f, "bf16", 1000e9, "measured: instruction peak");
    roof(f, "bandwidth", "", 1e12);
    steps(f, f->process, f->thread);
    in_steps(f, f->thread, 1000, 1000, "fast",
             work(f, "matrix", "fp32", "forward", 200000, 1000)); /* 200 GFLOP/s */
    in_steps(f, f->thread, 3000, 1000, "half", work(f, "matrix", "bf16", "forward", 200000, 1000));
    in_steps(f, f->thread, 5000, 1000, "gelu", work(f, "other", "bf16", "forward", 50000, 1000));
    in_steps(f, f->thread, 9000, 1000, "winograd",
             work(f, "convolution", "fp32", "forward", 225000, 1000));
    in_steps(f, f->thread, 11000, 1000, "twice",
             work(f, "convolution", "fp32", "forward", 450000, 1000));
    in_steps(f, f->thread, 7000, 1000, "whole",
             work(f, "matrix", "int8", "forward", 50000, 1000)); /* of no known peak */
    const struct an_result *r = fx_analyze(f);
    check_points(r);
    assert_string_equal(point(r, "fast", "fp32")->bound, "impossible");
    assert_string_equal(point(r, "winograd", "fp32")->bound,
                        "reduced"); /* fewer multiplications than are counted */
    assert_string_equal(point(r, "twice", "fp32")->bound, "impossible");
    assert_string_equal(point(r, "half", "bf16")->bound, "compute");
    assert_near(point(r, "half", "bf16")->attainable_flops, 1000e9, 1);
    assert_near(point(r, "gelu", "bf16")->attainable_flops, 100e9, 1);
    assert_true(isnan(point(r, "whole", "int8")->attainable_flops));
    assert_null(point(r, "whole", "int8")->bound);
    bool told = false;
    for (size_t i = 0; i < r->trust.problem_count; i++)
        told = told ||
               (strstr(r->trust.problems[i], "counting error: fast (fp32) would reach 200.0 %") &&
                strstr(r->trust.problems[i], "tacho calibrate"));
    assert_true(told);
    fx_close(f);
}

/* Shapes of nearly one intensity share a point, others do not; passes never do; too many shapes are
 * merged further. */
static void test_shape_classes(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    fx_peak(f, "fp32", 100e9, "measured: instruction peak");
    roof(f, "bandwidth", "", 1e9);
    steps(f, f->process, f->thread);
    in_steps(f, f->thread, 1000, 1000, "mm", work(f, "matrix", "fp32", "forward", 10000, 1000));
    in_steps(f, f->thread, 3000, 1000, "mm",
             work(f, "matrix", "fp32", "forward", 20000, 1980)); /* 1 % more */
    in_steps(f, f->thread, 5000, 1000, "mm",
             work(f, "matrix", "fp32", "forward", 11000, 1000)); /* 10 % more */
    in_steps(f, f->thread, 7000, 1000, "mm", work(f, "matrix", "fp32", "recompute", 10000, 1000));
    for (int i = 0; i < 200; i++)
        in_steps(f, f->thread, 20000 + i * 2000, 1000, "many",
                 work(f, "matrix", "fp32", "forward", 1000 + 100 * i, 1000));
    const struct an_result *r = fx_analyze(f);
    check_points(r);
    size_t mm = 0, many = 0, again = 0;
    int64_t shapes = 0, flops = 0;
    for (size_t i = 0; i < r->point_count; i++) {
        const struct an_roofline_point *p = &r->points[i];
        if (!strcmp(p->name, "many")) {
            many++;
            shapes += p->shapes;
            flops += p->flops;
            continue;
        }
        again += !strcmp(p->pass, "recompute");
        mm++;
        if (p->shapes == 2) {
            assert_int_equal(p->flops, 30000 * r->steps.detailed);
            assert_int_equal(p->time_ns, 2000 * r->steps.detailed);
            assert_false(p->flops_per_call.valid);
        } else {
            assert_true(p->flops_per_call.valid && p->bytes_per_call.value == 1000);
        }
    }
    assert_int_equal(mm, 3);
    assert_int_equal(again, 1);
    assert_true(many > 1 && many <= 16);
    assert_int_equal(shapes, 200);
    assert_int_equal(flops,
                     r->steps.detailed * (200 * 1000 + 100 * 199 * 200 / 2)); /* none is left out */
    fx_close(f);
}

/* Two ranks: on one machine the time is the union, on two machines the sum. */
static void test_ranks(void **state)
{
    (void)state;
    for (int machines = 1; machines <= 2; machines++) {
        struct fixture fx, *f = &fx;
        fx_open(f);
        fx_peak(f, "fp32", 100e9, "measured: instruction peak");
        roof(f, "bandwidth", "", 100e9);
        struct store_process other = {.rank = 1,
                                      .pid = 7,
                                      .parent_pid = 1,
                                      .start = FX_BASE,
                                      .end = FX_NONE,
                                      .host = machines == 1 ? "host" : "another",
                                      .device = "cpu",
                                      .program = "train",
                                      .ended = "exit"};
        FX(store_process_add(f->s, &other));
        int64_t second = fx_track(f, other.id, "thread", "main", NULL),
                mm = work(f, "matrix", "fp32", "forward", 10000, 1000);
        steps(f, f->process, f->thread);
        steps(f, other.id, second);
        in_steps(f, f->thread, 1000, 1000, "mm", mm);
        in_steps(f, second, 1600, 1000, "mm", mm); /* 400 ns beside the first */
        const struct an_result *r = fx_analyze(f);
        assert_int_equal(r->point_count, 1);
        int64_t n = r->points[0].count / 2;
        assert_int_equal(r->points[0].flops, 20000 * n);
        assert_int_equal(r->points[0].time_ns, machines == 1 ? 1600 * n : 2000 * n);
        fx_close(f);
    }
}

/* Without steps the whole run counts. */
static void test_no_steps(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    fx_peak(f, "fp32", 100e9, "measured: instruction peak");
    roof(f, "bandwidth", "", 100e9);
    fx_slice(f, f->thread, 1000, 2000, "mm", work(f, "matrix", "fp32", "forward", 10000, 1000));
    fx_slice(f, f->thread, 3000, 4000, "evaluation", fx_kind(f, "evaluation"));
    fx_slice(f, f->thread, 3100, 3900, "mm", work(f, "matrix", "fp32", "evaluation", 10000, 1000));
    const struct an_result *r = fx_analyze(f);
    assert_int_equal(r->point_count, 1);
    assert_int_equal(r->points[0].count, 1);
    fx_close(f);
}

/* A machine that was never calibrated: the reason is the fix. */
static void test_not_calibrated(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    for (int bandwidth = 0; bandwidth < 2; bandwidth++) {
        fx_open(f);
        if (bandwidth)
            roof(f, "bandwidth", "", 100e9);
        steps(f, f->process, f->thread);
        in_steps(f, f->thread, 1000, 1000, "mm", work(f, "matrix", "fp32", "forward", 10000, 1000));
        const struct an_result *r = fx_analyze(f);
        assert_int_equal(r->point_count, 0);
        assert_non_null(
            strstr(r->roofline.reason, bandwidth ? "no peak of cpu" : "bandwidth of cpu"));
        assert_non_null(strstr(r->roofline.reason, "tacho calibrate"));
        assert_non_null(strstr(r->utilization.mfu_measured.reason, "tacho calibrate"));
        fx_close(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_points),
                                       cmocka_unit_test(test_compute_bound),
                                       cmocka_unit_test(test_type_of_the_kernel),
                                       cmocka_unit_test(test_absent),
                                       cmocka_unit_test(test_cpu),
                                       cmocka_unit_test(test_ridge),
                                       cmocka_unit_test(test_levels),
                                       cmocka_unit_test(test_impossible),
                                       cmocka_unit_test(test_shape_classes),
                                       cmocka_unit_test(test_ranks),
                                       cmocka_unit_test(test_no_steps),
                                       cmocka_unit_test(test_not_calibrated)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
