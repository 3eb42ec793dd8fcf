/* SPDX-License-Identifier: Apache-2.0
 *
 * fp16: every value there and back, rounding against exact arithmetic, GEMMs, and the loss scale.
 */
#include "lt_support.h"

#include "libtrain/gemm/gemm.h"
#include "libtrain/train/scaling.h"

/* The value of a pattern of bits by the definition of binary16. */
static double by_definition(unsigned bits)
{
    int exponent = (int)(bits >> 10 & 31);
    double fraction = (double)(bits & 1023) / 1024, sign = bits & 0x8000 ? -1 : 1;
    if (exponent == 31)
        return bits & 1023 ? (double)NAN : sign * (double)INFINITY;
    return exponent ? sign * ldexp(1 + fraction, exponent - 15) : sign * ldexp(fraction, -14);
}

static void all_values_there_and_back(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 65536; bits++) {
        double value = by_definition(bits);
        float got = lt_fp16_float((uint16_t)bits);
        if (isnan(value)) {
            assert_true(isnan(got) && isnan(lt_fp16_float(lt_fp16_round(got))));
            continue;
        }
        assert_true((double)got == value && !signbit(got) == !(bits & 0x8000));
        assert_int_equal(lt_fp16_round(got), bits);
    }
}

/* Between two neighbours the nearer one is taken, in the middle the even one; beyond the largest
 * one infinity. */
static void rounds_to_nearest_even(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 0x7bff; bits++) {
        float low = lt_fp16_float((uint16_t)bits), high = lt_fp16_float((uint16_t)(bits + 1)),
              middle = (low + high) / 2;
        assert_int_equal(lt_fp16_round(middle), bits % 2 ? bits + 1 : bits);
        assert_int_equal(lt_fp16_round(nextafterf(middle, low)), bits);
        assert_int_equal(lt_fp16_round(nextafterf(middle, high)), bits + 1);
        assert_int_equal(lt_fp16_round(-nextafterf(middle, high)), 0x8000 | (bits + 1));
    }
    assert_int_equal(lt_fp16_round(65519.0f), 0x7bff);
    assert_int_equal(lt_fp16_round(65520.0f), 0x7c00);
    assert_int_equal(lt_fp16_round(1e30f), 0x7c00);
    assert_int_equal(lt_fp16_round(-INFINITY), 0xfc00);
    assert_int_equal(lt_fp16_round(0x1p-25f), 0); /* a tie: to even */
    assert_int_equal(lt_fp16_round(0x1.8p-25f), 1);
}

/* A product of small whole numbers is exact in every type; all orientations, with and without what
 * c held. */
static void products_are_exact(void **state)
{
    (void)state;
    int64_t m = 5, n = 7, k = 9;
    for (int turned = 0; turned < 4; turned++)
        for (int add = 0; add < 2; add++)
            for (int wide = 0; wide < 2; wide++) {
                enum lt_dtype out = wide ? LT_DTYPE_FP32 : LT_DTYPE_FP16;
                float *a = zeros(m * k), *b = zeros(k * n), *c = zeros(m * n), *want = zeros(m * n);
                for (int64_t i = 0; i < m * k; i++)
                    a[i] = (float)(lt_random_bits(1, (uint64_t)i) % 9) - 4;
                for (int64_t i = 0; i < k * n; i++)
                    b[i] = (float)(lt_random_bits(2, (uint64_t)i) % 9) - 4;
                for (int64_t i = 0; i < m * n; i++)
                    c[i] = (float)(i % 5);
                int64_t a_row = turned & 1 ? 1 : k, a_column = turned & 1 ? m : 1,
                        b_row = turned & 2 ? 1 : n, b_column = turned & 2 ? k : 1;
                for (int64_t i = 0; i < m; i++)
                    for (int64_t j = 0; j < n; j++) {
                        want[i * n + j] = add ? c[i * n + j] : 0;
                        for (int64_t l = 0; l < k; l++)
                            want[i * n + j] +=
                                a[i * a_row + l * a_column] * b[l * b_row + j * b_column];
                    }
                void *result = typed(out, c, m * n);
                lt_gemm(&(struct lt_product){.m = m,
                                             .n = n,
                                             .k = k,
                                             .a = {typed(LT_DTYPE_FP16, a, m * k), a_row, a_column},
                                             .b = {typed(LT_DTYPE_FP16, b, k * n), b_row, b_column},
                                             .c = result,
                                             .c_row = n,
                                             .add = add,
                                             .in = LT_DTYPE_FP16,
                                             .out = out});
                assert_near("product", floats(out, result, m * n), want, m * n, 0);
            }
}

static void scale_follows_the_gradients(void **state)
{
    (void)state;
    struct lt_scaling_config config = {.kind = LT_SCALING_DYNAMIC, .scale = 1024, .window = 3};
    struct lt_scaling s = lt_scaling_start(&config);
    static const struct {
        int finite;
        double scale;
    } steps[] = {{1, 1024}, {1, 1024}, {1, 2048}, {0, 1024}, {0, 512},
                 {1, 512},  {0, 256},  {1, 256},  {1, 256},  {1, 512}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        lt_scaling_next(&s, &config, steps[i].finite);
        assert_true(s.scale == steps[i].scale);
    }
    assert_int_equal(s.skipped, 3);
    for (int i = 0; i < 100; i++)
        lt_scaling_next(&s, &config, 0);
    assert_true(s.scale == 0x1p-24);
    config.kind = LT_SCALING_STATIC;
    s = lt_scaling_start(&config);
    lt_scaling_next(&s, &config, 0);
    assert_true(s.scale == 1024 && s.skipped == 1);
    config.kind = LT_SCALING_NONE;
    assert_true(lt_scaling_start(&config).scale == 1);
}

#define TEST(name) cmocka_unit_test_teardown(name, pool_free)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(all_values_there_and_back),
                                       TEST(rounds_to_nearest_even), TEST(products_are_exact),
                                       TEST(scale_follows_the_gradients)};
    calm_openmp();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
