/* SPDX-License-Identifier: Apache-2.0
 *
 * The door to the library of matrix products: every stride, type, bias and addition it accepts, all
 * threads and one, against a sum in double; that a product repeats itself bit by bit; and that
 * threads which come and go leave nothing behind (asan).
 */
#include <pthread.h>

#include "lt_support.h"

#include "libtrain/gemm/gemm.h"

/* Types of operands and of the result, and how near the result must be: fp32 sums in another order;
 * one rounding to a 16-bit type. */
static const struct {
    enum lt_dtype in, out;
    double near;
    int tf32; /* operands are rounded to it */
} types[] = {{LT_DTYPE_FP32, LT_DTYPE_FP32, 2e-5, 0},    {LT_DTYPE_BF16, LT_DTYPE_FP32, 2e-5, 0},
             {LT_DTYPE_BF16, LT_DTYPE_BF16, 0x1p-8, 0},  {LT_DTYPE_FP16, LT_DTYPE_FP32, 2e-5, 0},
             {LT_DTYPE_FP16, LT_DTYPE_FP16, 0x1p-11, 0}, {LT_DTYPE_FP32, LT_DTYPE_FP32, 2e-5, 1}};

static struct lt_matrix strided(const void *at, int plain, int64_t rows, int64_t columns)
{
    return plain ? (struct lt_matrix){at, columns, 1} : (struct lt_matrix){at, 1, rows};
}

static double element(const float *x, struct lt_matrix m, int64_t i, int64_t j)
{
    return (double)x[i * m.row + j * m.column];
}

/* Bits of `how`: a as it is or turned, b likewise, c with a gap between its rows, adding, a bias.
 */
static void check_product(const int64_t *shape, int type, int how)
{
    enum lt_dtype in = types[type].in, out = types[type].out;
    int64_t m = shape[0], n = shape[1], k = shape[2], row = how & 4 ? n : n + 5;
    void *a = typed(in, normals(m * k, 1, 1), m * k), *b = typed(in, normals(k * n, 2, 1), k * n);
    void *c = typed(out, normals(m * row, 3, 1), m * row),
         *alone = typed(out, floats(out, c, m * row), m * row);
    float *a_value = floats(in, a, m * k), *b_value = floats(in, b, k * n);
    const float *bias = normals(n, 4, 1);
    for (int64_t i = 0; types[type].tf32 && i < m * k; i++)
        a_value[i] = lt_tf32_round(a_value[i]);
    for (int64_t i = 0; types[type].tf32 && i < k * n; i++)
        b_value[i] = lt_tf32_round(b_value[i]);
    struct lt_product p = {.m = m,
                           .n = n,
                           .k = k,
                           .a = strided(a, how & 1, m, k),
                           .b = strided(b, how & 2, k, n),
                           .c = c,
                           .c_row = row,
                           .bias = how & 16 ? bias : NULL,
                           .add = how & 8,
                           .in = in,
                           .out = out};
    float *want = floats(out, c, m * row);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = (p.bias ? (double)bias[j] : 0) + (p.add ? (double)want[i * row + j] : 0);
            for (int64_t q = 0; q < k; q++)
                sum += element(a_value, p.a, i, q) * element(b_value, p.b, q, j);
            want[i * row + j] = (float)sum;
        }
    lt_gemm_round_tf32(types[type].tf32);
    lt_gemm(&p);
    p.c = alone;
#pragma omp parallel num_threads(lt_threads() < 2 ? 1 : 2)
#pragma omp single
    lt_gemm(&p);
    lt_gemm_round_tf32(0);
    assert_near("product", floats(out, c, m * row), want, m * row, types[type].near);
    assert_near("product in a parallel region", floats(out, alone, m * row), want, m * row,
                types[type].near);
    pool_free(NULL);
}

static void products(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {
        {1, 1, 1}, {7, 47, 3}, {8, 48, 769}, {33, 350, 20}, {70, 9, 65}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int type = 0; type < (int)(sizeof types / sizeof *types); type++)
            for (int how = 0; how < 32; how++)
                check_product(shapes[i], type, how);
}

/* A 16-bit type that the library does not multiply is multiplied in tiles of 1,024 rows and columns
 * and 2,048 of the inner dimension: shapes that need several of each. */
static void tiles(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {{1030, 3, 2100}, {3, 1030, 2100}, {2, 5, 4100}};
    static const int ways[] = {1, 2, 3 | 8 | 16};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int type = 1; type < (int)(sizeof types / sizeof *types); type++)
            for (size_t way = 0; way < sizeof ways / sizeof *ways; way++)
                check_product(shapes[i], type, ways[way]);
}

static void repeats(void **state)
{
    (void)state;
    int64_t m = 130, n = 257, k = 700;
    for (int type = 0; type < (int)(sizeof types / sizeof *types); type++) {
        enum lt_dtype in = types[type].in, out = types[type].out;
        size_t bytes = (size_t)(m * n) * lt_dtype_bytes(out);
        void *c[2] = {pool_bytes(bytes), pool_bytes(bytes)};
        struct lt_product p = {.m = m,
                               .n = n,
                               .k = k,
                               .a = strided(typed(in, normals(m * k, 1, 1), m * k), 0, m, k),
                               .b = strided(typed(in, normals(k * n, 2, 1), k * n), 0, k, n),
                               .c_row = n,
                               .in = in,
                               .out = out};
        for (int i = 0; i < 2; i++) {
            p.c = c[i];
            lt_gemm(&p);
        }
        assert_memory_equal(c[0], c[1], bytes);
        pool_free(NULL);
    }
}

/* 10 bits of mantissa are kept: to nearest, ties to even, and the sign. */
static void tf32(void **state)
{
    (void)state;
    static const float values[][2] = {{1, 1},
                                      {1 + 0x1p-10f, 1 + 0x1p-10f},
                                      {1 + 0x1p-11f, 1},
                                      {1 + 0x1.8p-10f, 1 + 0x1p-9f},
                                      {-1 - 0x1.1p-11f, -1 - 0x1p-10f},
                                      {0x1.fffp5f, 0x1p6f},
                                      {-0.0f, -0.0f},
                                      {(float)INFINITY, (float)INFINITY}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        assert_true(lt_tf32_round(values[i][0]) == values[i][1]);
    assert_true(isnan(lt_tf32_round((float)NAN)));
    const float a[] = {1 + 0x1p-12f}, b[] = {1};
    float c[2];
    struct lt_product p = {.m = 1, .n = 1, .k = 1, .a = {a, 1, 1}, .b = {b, 1, 1}, .c_row = 1};
    for (int i = 0; i < 2; i++) {
        p.c = &c[i];
        lt_gemm_round_tf32(i);
        lt_gemm(&p);
    }
    lt_gemm_round_tf32(0);
    assert_true(c[0] == a[0] && c[1] == 1);
}

static void *multiply(void *product)
{
    lt_gemm(product);
    return NULL;
}

static void threads_come_and_go(void **state)
{
    (void)state;
    float a[64], b[64], c[4][64];
    for (int i = 0; i < 64; i++)
        a[i] = b[i] = (float)(i % 9 == 0); /* the unit matrix */
    for (int round = 0; round < 4; round++) {
        pthread_t thread;
        struct lt_product p = {
            .m = 8, .n = 8, .k = 8, .a = {a, 8, 1}, .b = {b, 8, 1}, .c = c[round], .c_row = 8};
        assert_int_equal(pthread_create(&thread, NULL, multiply, &p), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_memory_equal(c[round], a, sizeof a);
    }
}

static void fp32_is_fast(void **state)
{
    (void)state;
    assert_true(lt_gemm_fast(LT_DTYPE_FP32));
    assert_true(strlen(lt_gemm_library()) > 0);
}

#define TEST(name) cmocka_unit_test_teardown(name, pool_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(products),    TEST(tiles), TEST(repeats), TEST(tf32), TEST(threads_come_and_go),
        TEST(fp32_is_fast)};
    calm_openmp();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
