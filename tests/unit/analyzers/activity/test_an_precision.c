/* SPDX-License-Identifier: Apache-2.0
 *
 * Element types and matrix units, by the names of kernels.
 */
#include "tests/unit/an_gpu.h"

#define TENSOR_FP16 "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn"
#define SIMT_FP32   "volta_sgemm_128x64_nn"
#define TENSOR_BF16 "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"

static const struct an_precision_row *type_row(const struct an_result *r, const char *dtype,
                                               bool unit)
{
    for (size_t i = 0; i < r->precision.row_count; i++)
        if (!strcmp(r->precision.rows[i].dtype, dtype) && r->precision.rows[i].matrix_unit == unit)
            return &r->precision.rows[i];
    fail_msg("no row %s", dtype);
    return NULL;
}

static void test_rows(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    int64_t s = gpu_stream(f, f->process, "gpu:0", 7);
    gpu_row(f, s, 0, 30, TENSOR_FP16, "kernel", FX_NONE);
    gpu_row(f, s, 30, 40, TENSOR_FP16, "kernel", FX_NONE);
    gpu_row(f, s, 40, 60, SIMT_FP32, "kernel", FX_NONE);
    gpu_row(f, s, 60, 100, TENSOR_BF16, "kernel", FX_NONE);
    gpu_row(f, s, 100, 900, "void at::native::vectorized_elementwise_kernel<4, float>", "kernel",
            FX_NONE);
    const struct an_result *r = fx_analyze(f);
    assert_null(r->precision.reason);
    assert_int_equal(r->precision.matrix_ns, 100000);
    assert_int_equal(r->precision.matrix_unit_ns, 80000);
    assert_near(r->precision.matrix_unit_pct.value, 80, 1e-9);
    assert_int_equal(r->precision.row_count, 3);
    assert_int_equal(type_row(r, "fp16", true)->count, 2);
    assert_int_equal(type_row(r, "fp16", true)->total_ns, 40000);
    assert_true(type_row(r, "fp16", true)->told);
    assert_int_equal(type_row(r, "fp32", false)->total_ns, 20000);
    assert_int_equal(type_row(r, "bf16", true)->total_ns, 40000);
    fx_close(f);
}

/* Names that do not tell: below a twentieth of the time the share stands on the others, above there
 * is none. */
static void test_silent(void **state)
{
    (void)state;
    for (int64_t silent = 4; silent <= 6; silent += 2) {
        struct fixture fixture, *f = &fixture;
        const struct an_options o = {.file = "run.tacho", .classes = "matrix\t^my_matmul$\t-\t-\n"};
        fx_open(f);
        int64_t s = gpu_stream(f, f->process, "gpu:0", 7);
        gpu_row(f, s, 0, 48, TENSOR_FP16, "kernel", FX_NONE);
        gpu_row(f, s, 50, 98 - silent, SIMT_FP32, "kernel", FX_NONE);
        gpu_row(f, s, 100, 100 + silent, "my_matmul", "kernel", FX_NONE);
        const struct an_precision *p = &fx_analyze_with(f, &o)->precision;
        assert_int_equal(p->matrix_ns, 96000);
        assert_int_equal(p->row_count, 3);
        assert_string_equal(p->rows[2].dtype, "unknown");
        assert_false(p->rows[2].told);
        assert_int_equal(p->matrix_unit_pct.valid, silent == 4);
        if (silent == 4)
            assert_near(p->matrix_unit_pct.value, 100.0 * 48 / 92, 1e-9);
        fx_close(f);
    }
}

static void test_none(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    gpu_row(f, gpu_stream(f, f->process, "gpu:0", 7), 0, 5, "void at::native::fill_kernel<float>",
            "kernel", 1);
    const struct an_result *r = fx_analyze(f);
    assert_non_null(r->precision.reason);
    assert_false(r->precision.matrix_unit_pct.valid);
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_silent),
                                       cmocka_unit_test(test_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
