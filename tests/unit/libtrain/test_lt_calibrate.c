/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "libtrain/calibrate/activations.h"
#include "libtrain/calibrate/calibrate.h"
#include "libtrain/calibrate/calibrate_gemm.h"
#include "libtrain/gemm/gemm.h"
#include "libtrain/ops/ops.h"

#define ENOUGH_SECONDS 0.02

/* A small last cache: the time does not grow with that of the machine. */
static const struct lt_calibrate_options quick = {
    .quick = 1, .disk = "/dev/shm", .last_cache = 2 << 20};

/* The Makefile links this program with --wrap=lt_op. Here an operation computes until it has taken
 * a while, and no more from then on: some take a second each time, and their times are not looked
 * at. */
void __real_lt_op(const struct lt_context *context, enum lt_op_id op, const union lt_args *args);
void __wrap_lt_op(const struct lt_context *context, enum lt_op_id op, const union lt_args *args);

static double taken[LT_OP_COUNT];

void __wrap_lt_op(const struct lt_context *context, enum lt_op_id op, const union lt_args *args)
{
    if (taken[op] >= ENOUGH_SECONDS)
        return;
    double begin = lt_seconds();
    __real_lt_op(context, op, args);
    taken[op] += lt_seconds() - begin;
}

static const struct lt_ceiling *row_of(const struct lt_calibration *c, enum lt_ceiling_id id)
{
    for (size_t i = 0; i < c->rows; i++)
        if (c->row[i].id == id)
            return &c->row[i];
    return NULL;
}

static void rows_keep_best_median_worst(void **state)
{
    struct lt_calibration c = {0};
    double rates[] = {4.0, 1.0, 2.0, 8.0}, times[] = {3.0, 2.0, 5.0};
    (void)state;
    assert_int_equal(lt_calibration_add(&c, LT_CEILING_GEMM, "fp32", 16.0, rates, 4, "%d runs", 4),
                     0);
    assert_int_equal(lt_calibration_add(&c, LT_CEILING_MPI_LATENCY, "", 0, times, 3, "x"), 0);
    assert_int_equal(
        lt_calibration_absent(&c, LT_CEILING_BANDWIDTH_L3, "", "do that", "no \"such\" thing"), 0);
    assert_true(c.row[0].value == 16.0 && c.row[0].worst == 2.0);
    assert_true(fabs(c.row[0].median - 16.0 / 3.0) < 1e-12); /* of the times, not of the rates */
    assert_string_equal(c.row[0].how, "4 runs");
    assert_true(c.row[1].value == 2.0 && c.row[1].median == 3.0 && c.row[1].worst == 5.0);
    assert_true(isnan(c.row[2].value) && c.row[2].repeats == 0);
    char text[4096] = {0};
    FILE *f = fmemopen(text, sizeof text, "w");
    assert_int_equal(lt_calibration_write(&c, f), 0);
    fclose(f);
    assert_non_null(strstr(
        text, "\"resource\":\"bandwidth_l3\",\"dtype\":\"\",\"unit\":\"bytes/s\",\"value\":null,"
              "\"reason\":\"no \\\"such\\\" thing\",\"fix\":\"do that\""));
    assert_non_null(strstr(
        text,
        "\"value\":1.600000e+01,\"median\":5.333333e+00,\"worst\":2.000000e+00,\"repeats\":4"));
    lt_calibration_clear(&c);
}

/* What is timed is the product: against plain loops, every library and layout there is. */
static void every_way_multiplies(void **state)
{
    static const int64_t m = 24, n = 40, k = 32;
    int ran = 0;
    (void)state;
    for (int layout = 0; layout < 3; layout++)
        for (int dtype = 0; dtype < LT_DTYPE_EMULATED; dtype++)
            for (int way = 0; way < LT_GEMM_WAY_COUNT; way++) {
                struct lt_gemm_case p = {
                    m, n, k, layout == 2, layout == 1, (enum lt_dtype)dtype, dtype && layout == 2};
                struct lt_gemm_trial *run;
                int rc = lt_gemm_trial_open(&run, &p, (enum lt_gemm_way)way);
                if (rc == TACHO_ENOTSUP)
                    continue;
                assert_int_equal(rc, 0);
                assert_true(lt_gemm_trial_time(run, 2) > 0);
                /* a packed operand cannot be read */
                if (way != LT_GEMM_WAY_PACKED)
                    for (int64_t i = 0; i < m; i += 5)
                        for (int64_t j = 0; j < n; j += 7) {
                            double sum = 0;
                            for (int64_t l = 0; l < k; l++)
                                sum += lt_gemm_trial_operand(run, 0, i, l) *
                                       lt_gemm_trial_operand(run, 1, l, j);
                            assert_true(sum > 0.01);
                            assert_true(fabs(lt_gemm_trial_at(run, i, j) - sum) <
                                        (dtype && !p.c_fp32 ? 8e-3 : 1e-4) * sum);
                        }
                lt_gemm_trial_close(run);
                ran++;
            }
    assert_true(ran >= 3); /* fp32 in three layouts by one library at the least */
}

/* The curve has every pass and type that the library multiplies, each point once under a name of
 * its own; more rows never have fewer FLOPs. */
static void curve_of_gemms(void **state)
{
    static const enum lt_ceiling_id passes[] = {LT_CEILING_GEMM_FORWARD, LT_CEILING_GEMM_GRAD_DATA,
                                                LT_CEILING_GEMM_GRAD_WEIGHT};
    struct lt_calibration c = {0};
    size_t points = 0, of_pass[3] = {0};
    (void)state;
    assert_int_equal(lt_calibrate_curve(&c, &quick), 0);
    for (size_t i = 0; i < c.rows; i++) {
        long long m = 0, n = 0, k = 0;
        assert_true(c.row[i].value > 0 && c.row[i].repeats >= 1);
        for (size_t pass = 0; pass < 3; pass++)
            of_pass[pass] += c.row[i].id == passes[pass];
        if (!*c.row[i].point)
            continue;
        points++;
        assert_int_equal(sscanf(c.row[i].point, ":%lldx%lldx%lld", &m, &n, &k), 3);
        assert_true(m >= 1 && n >= 1 && k >= 1);
        assert_true(c.row[i].value > 1e6 && c.row[i].value >= c.row[i].worst);
        for (size_t j = 0; j < i; j++)
            assert_false(c.row[j].id == c.row[i].id && !strcmp(c.row[j].dtype, c.row[i].dtype) &&
                         !strcmp(c.row[j].point, c.row[i].point));
    }
    assert_true(points >= 60 && of_pass[0] == of_pass[1] && of_pass[1] == of_pass[2]);
    assert_int_equal(points, of_pass[0] + of_pass[1] + of_pass[2]);
    assert_true(row_of(&c, LT_CEILING_GEMM_THREADS)->value == lt_threads());
    assert_true(row_of(&c, LT_CEILING_GEMM_SPREAD)->value > 0);
    assert_true(row_of(&c, LT_CEILING_OP_OVERHEAD)->value > 1e-9 &&
                row_of(&c, LT_CEILING_OP_OVERHEAD)->value < 0.1);
    char text[1 << 16] = {0};
    FILE *f = fmemopen(text, sizeof text, "w");
    assert_int_equal(lt_calibration_write(&c, f), 0);
    fclose(f);
    assert_non_null(strstr(text, "\"resource\":\"gemm_grad_weight:512x256x256\",\"dtype\":\"fp32\","
                                 "\"unit\":\"FLOP/s\",\"value\":"));
    lt_calibration_clear(&c);
}

static void sizes_of_caches(void **state)
{
    int cores = 0;
    int64_t l1 = lt_cache_bytes(1, &cores), l2 = lt_cache_bytes(2, &cores);
    (void)state;
    if (l1 == 0)
        skip();
    assert_true(l1 >= 8 << 10 && l1 <= 1 << 20);
    assert_true(l2 == 0 || l2 > l1);
}

/* The numbers hang on the machine; what must hold on any: each row is there, positive, ordered, and
 * says how. */
static void memory_rows(void **state)
{
    static const enum lt_ceiling_id ids[] = {LT_CEILING_BANDWIDTH, LT_CEILING_BANDWIDTH_READ,
                                             LT_CEILING_BANDWIDTH_WRITE,
                                             LT_CEILING_BANDWIDTH_UPDATE};
    struct lt_calibration c = {0};
    (void)state;
    assert_int_equal(lt_calibrate_memory(&c, &quick), 0);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        const struct lt_ceiling *r = row_of(&c, ids[i]);
        assert_non_null(r);
        assert_true(r->value >= r->median && r->median >= r->worst && r->worst > 0 &&
                    r->repeats >= 3);
        assert_true(r->value > 1e8 && r->value < 1e14);
        assert_non_null(strstr(r->how, "threads"));
    }
    assert_non_null(row_of(&c, LT_CEILING_BANDWIDTH_L1));
    assert_non_null(row_of(&c, LT_CEILING_CACHE_L3));
    lt_calibration_clear(&c);
}

/* A folder in memory has no disk: absent with reason and fix, and no file is left. */
static void no_disk_in_memory(void **state)
{
    struct lt_calibration c = {0};
    (void)state;
    assert_int_equal(lt_calibrate_disk(&c, &quick), 0);
    assert_int_equal(c.rows, 2);
    assert_true(isnan(c.row[0].value) && isnan(c.row[1].value));
    assert_non_null(strstr(c.row[0].how, "tmpfs"));
    assert_non_null(strstr(c.row[0].fix, "--disk"));
    lt_calibration_clear(&c);
}

/* Each activation function has rows, in both directions and in fp32 and bf16. */
static void every_activation_is_measured(void **state)
{
    struct lt_calibration c = {0};
    (void)state;
    assert_int_equal(lt_calibrate_activations(&c, &quick), 0);
    for (int a = 0; a < LT_ACTIVATION_COUNT; a++) {
        int found[2][2] = {{0}};
        for (size_t i = 0; i < c.ops; i++) {
            const struct lt_op_time *row = &c.op[i];
            if (strcmp(row->op, lt_activation_name((enum lt_activation)a)) != 0)
                continue;
            assert_true(!row->reason && row->best > 0 && row->seconds >= row->best);
            assert_true(row->flops > 0 && row->bytes_read >= row->bytes_written);
            found[!strcmp(row->pass, "backward")][!strcmp(row->dtype, "bf16")]++;
        }
        for (int i = 0; i < 4; i++)
            assert_true(found[i / 2][i % 2] > 0);
    }
    lt_calibration_clear(&c);
}

/* Every operation of the list has arguments here; a new type of arguments needs a maker in
 * calibrate_making.c. */
static void every_operation_is_measured(void **state)
{
    struct lt_calibration c = {0};
    (void)state;
    assert_int_equal(lt_calibrate_ops(&c, &quick), 0);
    for (int op = 0; op < LT_OP_COUNT; op++) {
        int found = 0;
        assert_true(taken[op] > 0);
        for (size_t i = 0; i < c.ops; i++)
            if (!strcmp(c.op[i].op, lt_op_names()[op])) {
                found++;
                if (c.op[i].reason) {
                    assert_false(lt_gemm_fast(
                        (enum lt_dtype)lt_dtype_find(c.op[i].dtype))); /* the one good reason */
                    assert_non_null(strstr(c.op[i].reason, "library"));
                    continue;
                }
                assert_true(c.op[i].seconds >= c.op[i].best && c.op[i].best > 0 &&
                            c.op[i].repeats >= 3);
                assert_true(c.op[i].bytes_read + c.op[i].bytes_written > 0);
            }
        assert_true(found >= 1);
    }
    lt_calibration_clear(&c);
}

static double value_of(int activation, double x)
{
    switch (activation) {
    case LT_ACTIVATION_RELU:
        return fmax(x, 0);
    case LT_ACTIVATION_LEAKY_RELU:
        return fmax(x, 0.01 * x);
    case LT_ACTIVATION_GELU:
        return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case LT_ACTIVATION_GELU_EXACT:
        return 0.5 * x * (1 + erf(x / sqrt(2)));
    case LT_ACTIVATION_SILU:
        return x / (1 + exp(-x));
    case LT_ACTIVATION_SIGMOID:
        return 1 / (1 + exp(-x));
    case LT_ACTIVATION_TANH:
        return tanh(x);
    default:
        return log1p(exp(x));
    }
}

/* Values, and slopes times a gradient, against libm and its differences in double, in fp32 and
 * rounded to bf16; not at 0, where ReLU has no slope. */
static void activations_are_exact(void **state)
{
    enum { COUNT = 1001 };
    static float x[COUNT], dy[COUNT], y[COUNT], dx[COUNT];
    static uint16_t short_x[COUNT], short_y[COUNT];
    (void)state;
    for (int i = 0; i < COUNT; i++) {
        short_x[i] = lt_bf16_round((float)(i - 500) / 50.0f + 0.005f);
        x[i] = lt_bf16_float(short_x[i]);
        dy[i] = (float)(1 + i % 7) / 4.0f;
    }
    for (int a = 0; a < LT_ACTIVATION_SOFTMAX; a++) {
        enum lt_activation activation = (enum lt_activation)a;
        lt_activation_forward(activation, LT_DTYPE_FP32, x, y, 7, COUNT / 7);
        lt_activation_backward(activation, LT_DTYPE_FP32, x, dy, dx, 7, COUNT / 7);
        lt_activation_forward(activation, LT_DTYPE_BF16, short_x, short_y, 7, COUNT / 7);
        for (int i = 0; i < COUNT; i++) {
            double at = (double)x[i], want = value_of(a, at), step = 1e-6,
                   slope = (value_of(a, at + step) - value_of(a, at - step)) / (2 * step);
            if (fabs((double)y[i] - want) > fmax(5e-7, 3e-6 * fabs(want)) ||
                fabs((double)dx[i] - slope * (double)dy[i]) > 4e-6 * fmax(1, fabs(slope)) ||
                fabs((double)lt_bf16_float(short_y[i]) - want) > fmax(1e-6, 0.0040 * fabs(want)))
                fail_msg("%s(%g): %.9g, not %.9g; slope %.9g, not %.9g; bf16 %g",
                         lt_activation_name(activation), at, (double)y[i], want,
                         (double)(dx[i] / dy[i]), slope, (double)lt_bf16_float(short_y[i]));
        }
    }
}

/* Rows sum to 1, elements are as libm has them, and backward is y (dy - sum of y dy). */
static void softmax_is_exact(void **state)
{
    enum { ROWS = 5, COLUMNS = 37 };
    static float x[ROWS * COLUMNS], dy[ROWS * COLUMNS], y[ROWS * COLUMNS], dx[ROWS * COLUMNS];
    (void)state;
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        x[i] = (float)(i * 29 % 97) / 8.0f - 6.0f;
        dy[i] = (float)(i * 17 % 23) / 8.0f - 1.0f;
    }
    lt_activation_forward(LT_ACTIVATION_SOFTMAX, LT_DTYPE_FP32, x, y, ROWS, COLUMNS);
    lt_activation_backward(LT_ACTIVATION_SOFTMAX, LT_DTYPE_FP32, x, dy, dx, ROWS, COLUMNS);
    for (int r = 0; r < ROWS * COLUMNS; r += COLUMNS) {
        double sum = 0, along = 0;
        for (int i = r; i < r + COLUMNS; i++)
            sum += exp((double)x[i]);
        for (int i = r; i < r + COLUMNS; i++)
            along += exp((double)x[i]) / sum * (double)dy[i];
        for (int i = r; i < r + COLUMNS; i++) {
            double want = exp((double)x[i]) / sum;
            assert_true(fabs((double)y[i] - want) < 1e-6 * want + 1e-9);
            assert_true(fabs((double)dx[i] - want * ((double)dy[i] - along)) < 1e-6);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_keep_best_median_worst),
        cmocka_unit_test(every_way_multiplies),
        cmocka_unit_test(curve_of_gemms),
        cmocka_unit_test(sizes_of_caches),
        cmocka_unit_test(memory_rows),
        cmocka_unit_test(no_disk_in_memory),
        cmocka_unit_test(every_operation_is_measured),
        cmocka_unit_test(every_activation_is_measured),
        cmocka_unit_test(activations_are_exact),
        cmocka_unit_test(softmax_is_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
