/* SPDX-License-Identifier: Apache-2.0
 *
 * The roofline: FLOPs and bytes of known calls, the union of exactly their kernels, ceilings of data sheets, and the refusals.
 */
#include "an_gpu.h"

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
    return op_detail(f, "{\"shapes\":[[64,32],[32,16]],\"types\":[\"c10::BFloat16\",\"c10::BFloat16\"]}");
}

static int64_t add_detail(struct fixture *f)
{
    return op_detail(f, "{\"shapes\":[[64,16],[64,16],[]],\"types\":[\"c10::BFloat16\",\"c10::BFloat16\",\"Scalar\"]}");
}

/* An operator at `time` whose one kernel runs in [start, end). */
static void call(struct fixture *f, int64_t stream, int64_t time, const char *name, int64_t detail, const char *kernel,
                 int64_t start, int64_t end)
{
    gpu_row_ns(f, f->thread, time, time + 8, name, "op", detail, FX_NONE);
    gpu_host_ns(f, f->thread, time + 2, time + 4, "cudaLaunchKernel", "runtime", time);
    gpu_kernel_ns(f, stream, start, end, kernel, time);
}

static const struct an_roofline_point *point(const struct an_result *r, const char *name, const char *dtype)
{
    for (size_t i = 0; i < r->point_count; i++)
        if (!strcmp(r->points[i].name, name) && !strcmp(r->points[i].dtype, dtype))
            return &r->points[i];
    return NULL;
}

static const struct an_ceiling *ceiling(const struct an_result *r, const char *resource, const char *dtype)
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
    int64_t bad = op_detail(f, "{\"shapes\":[[64,32],[33,16]],\"types\":[\"c10::BFloat16\",\"c10::BFloat16\"]}");
    call(f, a, 0, "aten::mm", mm_detail(f), "sm90_xmma_gemm_bf16bf16_bf16f32", 1000, 1100);
    call(f, b, 10, "aten::mm", mm_detail(f), "sm90_xmma_gemm_bf16bf16_bf16f32", 1050, 1150); /* beside the first one */
    call(f, a, 20, "aten::mm", mm_detail(f), "sm90_xmma_gemm_bf16bf16_bf16f32", 1150, 1160);
    call(f, a, 30, "aten::mm", bad, "sm90_xmma_gemm_bf16bf16_bf16f32", 1200, 1900); /* its FLOPs are not known: no part of it */
    call(f, a, 40, "aten::add", add_detail(f), "vectorized_elementwise_kernel", 2000, 2001);
    call(f, a, 50, "aten::copy_", op_detail(f, "{\"shapes\":[[8],[8]],\"types\":[\"float\",\"float\"]}"), "copy", 2100, 2200);
    const struct an_result *r = fx_analyze(f);
    assert_null(r->roofline.reason);
    assert_int_equal(r->point_count, 2);
    const struct an_roofline_point *mm = point(r, "aten::mm", "bf16"), *add = point(r, "aten::add", "bf16");
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
    assert_near(ceiling(r, "flops", "fp32")->value, 67e12, 1e6); /* of the sum, which no matrix unit computes */
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
    int64_t big = op_detail(f, "{\"shapes\":[[4096,4096],[4096,4096]],\"types\":[\"c10::BFloat16\",\"c10::BFloat16\"]}");
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
    call(f, gpu_stream(f, f->process, "gpu:1", 7), 20, "aten::mm", mm_detail(f), "gemm", 1000, 1100);
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_points), cmocka_unit_test(test_compute_bound),
                                       cmocka_unit_test(test_type_of_the_kernel), cmocka_unit_test(test_absent),
                                       cmocka_unit_test(test_cpu)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
