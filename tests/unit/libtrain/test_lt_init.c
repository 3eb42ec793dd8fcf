/* SPDX-License-Identifier: Apache-2.0
 *
 * Initial values of hidden matrices: their deviation and reach, that orthogonal lines are
 * orthonormal, and that nothing else changes.
 */
#include "lt_support.h"

#include "libtrain/models/init.h"

#define ROWS    96
#define COLUMNS 160

/* An embedding, two hidden matrices and a vector, all ones. */
static struct lt_parameters ones(int64_t rows, int64_t columns)
{
    struct lt_parameters p = {0};
    lt_parameters_add(&p, (struct lt_weight){0, 1, 8, 16, LT_WEIGHT_OUTER, 0, 0, 0}, 1);
    lt_parameters_add(&p, (struct lt_weight){0, 2, rows, columns, LT_WEIGHT_HIDDEN, 0, 0, 0}, 1);
    lt_parameters_add(&p, (struct lt_weight){0, 1, 1, 48, LT_WEIGHT_VECTOR, 0, 0, 0}, 0);
    p.value = zeros((int64_t)p.count);
    for (size_t i = 0; i < p.count; i++)
        p.value[i] = 1;
    return p;
}

static void deviations(void **state)
{
    (void)state;
    double in = COLUMNS, out = ROWS;
    /* the least and the most that a value may be, in deviations: 0: any */
    const struct {
        enum lt_init kind;
        double deviation, reach;
    } cases[] = {{LT_INIT_XAVIER, sqrt(2 / (in + out)), 0},
                 {LT_INIT_XAVIER_UNIFORM, sqrt(2 / (in + out)), sqrt(3)},
                 {LT_INIT_KAIMING, sqrt(2 / in), 0},
                 {LT_INIT_KAIMING_UNIFORM, sqrt(2 / in), sqrt(3)},
                 {LT_INIT_LECUN, sqrt(1 / in), 0},
                 {LT_INIT_TRUNCATED, 0.02 * 0.8796, 2 / 0.8796}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lt_parameters p = ones(ROWS, COLUMNS), q = ones(ROWS, COLUMNS);
        const float *hidden = p.value + p.weight[1].first;
        double sum = 0, squares = 0, most = 0, deviation = cases[i].deviation;
        enum { COUNT = 2 * ROWS * COLUMNS };
        lt_init_matrices(&p, cases[i].kind, 3);
        for (int j = 0; j < COUNT; j++) {
            sum += (double)hidden[j];
            squares += (double)hidden[j] * (double)hidden[j];
            most = fmax(most, fabs((double)hidden[j]));
        }
        assert_true(fabs(sum / COUNT) < 4 * deviation / sqrt(COUNT));
        assert_true(fabs(sqrt(squares / COUNT) / deviation - 1) < 0.02);
        assert_true(cases[i].reach == 0 || most <= cases[i].reach * deviation * 1.0001);
        assert_true(most > 1.7 * deviation);
        assert_memory_not_equal(hidden, hidden + ROWS * COLUMNS, ROWS * COLUMNS * sizeof(float));
        for (size_t j = 0; j < p.count; j++)
            if (j < p.weight[1].first || j >= p.weight[2].first)
                assert_true(p.value[j] == 1);
        lt_init_matrices(&q, cases[i].kind, 3);
        assert_memory_equal(p.value, q.value, p.count * sizeof(float));
        lt_init_matrices(&q, cases[i].kind, 4);
        assert_memory_not_equal(p.value, q.value, p.count * sizeof(float));
    }
}

static void orthogonal(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{24, 40}, {40, 24}, {32, 32}, {1, 9}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        int64_t rows = shapes[i][0], columns = shapes[i][1];
        int wide = rows <= columns;
        struct lt_parameters p = ones(rows, columns);
        lt_init_matrices(&p, LT_INIT_ORTHOGONAL, 1);
        for (int64_t matrix = 0; matrix < 2; matrix++) {
            const float *x = p.value + p.weight[1].first + matrix * rows * columns;
            int64_t lines = wide ? rows : columns, length = wide ? columns : rows;
            for (int64_t a = 0; a < lines; a++)
                for (int64_t b = 0; b <= a; b++) {
                    double product = 0;
                    for (int64_t k = 0; k < length; k++)
                        product += wide ? (double)x[a * columns + k] * (double)x[b * columns + k]
                                        : (double)x[k * columns + a] * (double)x[k * columns + b];
                    assert_true(fabs(product - (a == b)) < 1e-5);
                }
        }
    }
}

static void names(void **state)
{
    (void)state;
    struct lt_parameters p = ones(4, 4);
    assert_int_equal(lt_init_find("own"), LT_INIT_OWN);
    assert_int_equal(lt_init_find("orthogonal"), LT_INIT_ORTHOGONAL);
    assert_int_equal(lt_init_find("zeros"), -1);
    lt_init_matrices(&p, LT_INIT_OWN, 1);
    for (size_t i = 0; i < p.count; i++)
        assert_true(p.value[i] == 1);
}

#define TEST(name) cmocka_unit_test_teardown(name, pool_free)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(deviations), TEST(orthogonal), TEST(names)};
    calm_openmp();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
