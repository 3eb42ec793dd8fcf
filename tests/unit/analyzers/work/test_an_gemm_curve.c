/* SPDX-License-Identifier: Apache-2.0
 *
 * The efficiency curve of GEMMs: made-up points whose times follow by hand, shapes from FLOPs and
 * bytes, and what the curve does not cover.
 */
#include "analyzers/work/gemm_curve.h"

#include "tests/unit/an_fixture.h"

#include "analyzers/result/result.h"

static struct an_ceiling_row ceilings[64];
static struct an_trace trace;
static struct an_result result;
static struct an_context context;

static void add(const char *resource, const char *dtype, double value)
{
    ceilings[trace.ceiling_count++] =
        (struct an_ceiling_row){"cpu", resource, dtype, "measured: for this test", value};
}

/* A point of the forward curve that takes so many ns. */
static void add_point(int rows, int size, double ns)
{
    static char names[64][48];
    char *name = names[trace.ceiling_count];
    snprintf(name, sizeof names[0], "gemm_forward:%dx%dx%d", rows, size, size);
    add(name, "fp32", 2.0 * rows * size * size / ns * 1e9);
}

static void open_curve(void)
{
    memset(&trace, 0, sizeof trace);
    memset(&result, 0, sizeof result);
    trace.ceiling = ceilings;
    context = (struct an_context){.trace = &trace, .result = &result};
}

/* 1 µs at 8 rows and size 64; four times the rows take twice the time, four times the size eight
 * times. */
static void add_grid(void)
{
    add_point(32, 64, 2000);
    add_point(8, 64, 1000);
    add_point(128, 64, 4000);
    add_point(8, 256, 8000);
    add_point(32, 256, 16000);
    add_point(128, 256, 32000);
}

static double ns_of(const struct an_gemm_curve *curve, double rows, double size)
{
    struct an_gemm_layer layer = {rows, size, size, .forward = true};
    return an_gemm_curve_ns(curve, AN_GEMM_FP32, &layer);
}

static void points_and_between(void **state)
{
    struct an_gemm_curve curve;
    (void)state;
    open_curve();
    add_grid();
    an_gemm_curve_of(&context, &curve); /* the reason: the command is not that of the engine */
    assert_int_equal(curve.row_count, 3);
    assert_int_equal(curve.size_count, 2);
    assert_near(ns_of(&curve, 8, 64), 1000, 1e-9);
    assert_near(ns_of(&curve, 128, 256), 32000, 1e-9);
    assert_near(ns_of(&curve, 16, 64), 1000 * sqrt(2), 1e-9); /* halfway in log(rows) */
    assert_near(ns_of(&curve, 8, 128), 1000 * sqrt(8), 1e-9); /* halfway in log(size) */
    assert_near(ns_of(&curve, 64, 128), 2000 * sqrt(2) * sqrt(8), 1e-9);
    assert_near(ns_of(&curve, 512, 64), 16000, 1e-9); /* beyond the last rows: as efficient */
    assert_near(ns_of(&curve, 8, 512), 32000, 1e-9);  /* beyond the last size: as efficient */
    assert_near(ns_of(&curve, 4, 64), 1000 / sqrt(2), 1e-9); /* the slope goes on */
    assert_near(ns_of(&curve, 8, 40), 1000, 1e-9);           /* a smaller layer takes as long */
    assert_true(isnan(ns_of(&curve, 3, 64)));
    assert_true(isnan(ns_of(&curve, 8, 31)));
    assert_near(curve.error, 0, 1e-9); /* the curve is a straight line, and its spread is unknown */
}

/* Absent types and passes are not covered; neither is a curve without points. */
static void what_is_absent(void **state)
{
    struct an_gemm_curve curve;
    (void)state;
    open_curve();
    const char *why = an_gemm_curve_of(&context, &curve);
    assert_non_null(strstr(why, "tacho calibrate"));
    add_point(8, 64, 1000); /* one point is no curve */
    assert_non_null(strstr(an_gemm_curve_of(&context, &curve), "tacho calibrate"));
    open_curve();
    add_grid();
    add("gemm_forward:0x64x64", "fp32", 1e9);
    add("gemm_forward:8", "fp32", 1e9);
    add("gemm_forward:axbxc", "fp32", 1e9);
    add("gemm_forward:16x64x64", "fp32", NAN);
    add("gemm_forward:16x64x64", "int8", 1e9);
    add("gemm", "fp32", 1e9);
    an_gemm_curve_of(&context, &curve);
    assert_int_equal(curve.row_count, 3);
    struct an_gemm_layer layer = {8, 64, 64, .forward = true};
    assert_true(isnan(an_gemm_curve_ns(&curve, AN_GEMM_BF16, &layer)));
    layer.grad_weight = true;
    assert_true(isnan(an_gemm_curve_ns(&curve, AN_GEMM_FP32, &layer)));
    assert_true(an_gemm_curve_row("gemm_grad_data:8x64x64"));
    assert_false(an_gemm_curve_row("gemm"));
    assert_false(an_gemm_curve_row("gemm_spread"));
}

/* A point that a neighbour made slow is lowered to those with more work, so that time never falls
 * where rows or size grow. */
static void monotonic(void **state)
{
    struct an_gemm_curve curve;
    (void)state;
    open_curve();
    add_grid();
    add_point(2, 64, 3000);
    add_point(2, 256, 90000);
    an_gemm_curve_of(&context, &curve);
    assert_near(ns_of(&curve, 2, 64), 1000, 1e-9);
    assert_near(ns_of(&curve, 2, 256), 8000, 1e-9);
    for (double rows = 2; rows < 4000; rows *= 1.3)
        for (double size = 64; size < 2000; size *= 1.3) {
            assert_true(ns_of(&curve, rows * 1.3, size) >= ns_of(&curve, rows, size) * (1 - 1e-12));
            assert_true(ns_of(&curve, rows, size * 1.3) >= ns_of(&curve, rows, size) * (1 - 1e-12));
        }
}

/* The error: of repeats by the row gemm_spread, of interpolation by leaving out points. */
static void error_of_the_curve(void **state)
{
    struct an_gemm_curve curve;
    (void)state;
    open_curve();
    add_grid();
    add("gemm_spread", "fp32", 0.03);
    add("gemm_spread", "bf16", 0.02);
    an_gemm_curve_of(&context, &curve);
    assert_near(curve.error, 0.03, 1e-9);
    open_curve();
    for (int size = 64; size <= 128; size *= 2) { /* a kink: the middle is e^0.4 below the line */
        add_point(8, size, 1000);
        add_point(32, size, 1000);
        add_point(128, size, 1000 * exp(0.8));
    }
    an_gemm_curve_of(&context, &curve);
    assert_near(curve.error, 0.1, 1e-9);
}

static struct an_detail work(const char *pass, const char *dtype, int64_t flops, int64_t read,
                             int64_t written)
{
    return (struct an_detail){.flops = flops,
                              .bytes_read = read,
                              .bytes_written = written,
                              .dtype = dtype,
                              .pass = pass,
                              .kind = "matrix"};
}

/* What ops_cost.c declares of 128 rows, 96 outputs and 40 inputs, with and without a bias, the
 * gradient of the data, and accumulation. */
static void shapes(void **state)
{
    enum { R = 128, N = 96, K = 40 };
    struct an_gemm_layer layer;
    (void)state;
    for (int k = 0; k < 16; k++) {
        int64_t width = k & 1 ? 2 : 4, bias = k & 2 ? N : 0, acc = k & 4 ? 1 : 0, data = k & 8;
        const char *dtype = k & 1 ? "bf16" : "fp32";
        struct an_detail d = work("forward", dtype, 2 * R * N * K,
                                  width * (R * K + N * K) + 4 * bias, width * R * N);
        assert_true(an_gemm_layer_of(&d, R, &layer));
        assert_true(layer.forward && !layer.grad_data && !layer.grad_weight);
        assert_true(layer.outputs == N && layer.inputs == K && layer.rows == R);
        assert_false(an_gemm_layer_of(&d, R / 2, &layer));
        int64_t gradients = N * K + bias;
        d = work("backward", dtype, (data ? 4 : 2) * R * N * K,
                 width * (R * (N + K) + (data ? N * K : 0)) + 4 * acc * gradients,
                 (data ? width * R * K : 0) + 4 * gradients);
        assert_true(an_gemm_layer_of(&d, R, &layer));
        assert_true(!layer.forward && layer.grad_weight && layer.grad_data == (data != 0));
        assert_near(layer.outputs * layer.inputs, N * K, 1e-9);
        d.bytes_read += 4;
        assert_false(an_gemm_layer_of(&d, R, &layer));
    }
    struct an_detail other = work("forward", "fp32", 1000, 100, 100);
    assert_false(an_gemm_layer_of(&other, 8, &layer));
    assert_false(an_gemm_layer_of(&other, 0, &layer));
    other.kind = "attention";
    assert_false(an_gemm_layer_of(&other, 8, &layer));
    other = work("forward", "fp32", STORE_ABSENT, STORE_ABSENT, STORE_ABSENT);
    assert_false(an_gemm_layer_of(&other, 8, &layer));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_and_between),
        cmocka_unit_test(what_is_absent),
        cmocka_unit_test(monotonic),
        cmocka_unit_test(error_of_the_curve),
        cmocka_unit_test(shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
