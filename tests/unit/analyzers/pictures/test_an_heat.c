/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix rank x step: cells by hand, cells that are not known, and how many ranks and steps
 * become few rows and columns.
 */
#include "tests/unit/an_fixture.h"

#define MS 1000000ll

static void rank_with_steps(struct fixture *f, int64_t rank, int first, int steps, int ms)
{
    int64_t process = fx_process(f, rank, "train"),
            thread = fx_track(f, process, "thread", "main", NULL);
    for (int i = 0; i < steps; i++)
        fx_step(f, process, thread, first + i, i * 1000 * MS, (i * 1000 + ms + i) * MS, 64, false);
}

static void test_cells(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    fx_open(f);
    rank_with_steps(f, 0, 0, 5, 10);
    rank_with_steps(f, 1, 1, 5, 20); /* its step 1 is its first */
    const struct an_heat *h = &fx_analyze(f)->heat;
    assert_null(h->reason);
    assert_int_equal(h->ranks, 2);
    assert_int_equal(h->steps, 4); /* 1 to 4: the first and the last step of a rank do not count */
    assert_int_equal(h->rank[1], 1);
    assert_int_equal(h->index[0], 1);
    assert_int_equal(h->index[3], 4);
    assert_near(h->step_ms[0 * 4 + 2], 13, 1e-9);
    assert_near(h->step_ms[1 * 4 + 2], 22, 1e-9);
    assert_true(isnan(h->step_ms[0 * 4 + 3]));
    assert_true(isnan(h->step_ms[1 * 4 + 0]));
    assert_true(isnan(h->waiting_ms[0])); /* no collective was recorded */
    fx_close(f);
}

static void test_many(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    fx_open(f);
    for (int64_t rank = 0; rank < 130; rank++)
        rank_with_steps(f, rank, 7, rank ? 3 : 450, (int)rank + 1);
    const struct an_heat *h = &fx_analyze(f)->heat;
    assert_int_equal(h->ranks, 44); /* rows of 3 */
    assert_int_equal(h->ranks_a_row, 3);
    assert_int_equal(h->steps_a_column, 3);
    assert_int_equal(h->steps, 150);
    assert_int_equal(h->rank[43], 129);
    assert_int_equal(h->index[1], 11);
    assert_near(h->step_ms[43 * 150], 131.5,
                1e-9); /* 131, 132 ms: of three steps the last counts */
    assert_near(h->step_ms[0], (2 + 3 + 4 + 3 + 4 + 4 + 5) / 7.,
                1e-9);                                  /* rank 0: 8-10, ranks 1 and 2: 8 and 9 */
    assert_near(h->step_ms[1], (5 + 6 + 7) / 3., 1e-9); /* rank 0 alone */
    fx_close(f);
}

static void test_one_rank(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    fx_open(f);
    rank_with_steps(f, 0, 0, 5, 10);
    assert_string_equal(fx_analyze(f)->heat.reason, "one rank: nothing to compare");
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cells), cmocka_unit_test(test_many),
                                       cmocka_unit_test(test_one_rank)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
