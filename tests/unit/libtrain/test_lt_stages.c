/* SPDX-License-Identifier: Apache-2.0
 *
 * Schedules of a pipeline: each pass once, in an order that the inputs allow, as many micro-batches
 * in flight as the schedule promises, makespans equal to the closed forms. Layouts: their text.
 */
#include "lt_support.h"

#include <math.h>

#include "libtrain/parallel/layout.h"
#include "libtrain/parallel/stages.h"

enum { STAGES = 8, MICRO = 32 };

/* Every micro-batch once forward and once backward, backward after forward, both in order. */
static void check_passes(enum lt_stages kind, int stages, int stage, int micro)
{
    struct lt_pass pass[2 * MICRO];
    int next[2] = {0, 0};
    lt_stages_passes(kind, stages, stage, micro, pass);
    for (int i = 0; i < 2 * micro; i++) {
        assert_int_equal(pass[i].micro, next[pass[i].backward]);
        next[pass[i].backward]++;
        assert_true(next[1] <= next[0]);
    }
    int want = micro;
    if (kind == LT_STAGES_ONE_F_ONE_B && stages - stage < micro)
        want = stages - stage;
    assert_int_equal(lt_stages_in_flight(pass, 2 * (size_t)micro), want);
}

/* (m + p - 1)(F + B), for p of 2, 4, 8 and m of p, 2 p, 4 p, and every m in between. */
static void makespans(void **state)
{
    (void)state;
    for (int kind = 0; kind < LT_STAGES_COUNT; kind++)
        for (int stages = 1; stages <= STAGES; stages++)
            for (int micro = 1; micro <= 4 * stages && micro <= MICRO; micro++) {
                double forward[STAGES], backward[STAGES];
                for (int i = 0; i < stages; i++) {
                    check_passes((enum lt_stages)kind, stages, i, micro);
                    forward[i] = 3;
                    backward[i] = 5;
                }
                assert_true(lt_stages_makespan((enum lt_stages)kind, stages, micro, forward,
                                               backward) == (micro + stages - 1) * 8.0);
            }
}

/* One stage that takes longer keeps the others waiting: its own passes, and the way of the first
 * micro-batch to it and of the last one from it. */
static void slow_stage(void **state)
{
    (void)state;
    for (int slow = 0; slow < 4; slow++) {
        double forward[4] = {1, 1, 1, 1}, backward[4] = {2, 2, 2, 2};
        forward[slow] = 4, backward[slow] = 8;
        double others = 3 * 3.0;
        assert_true(lt_stages_makespan(LT_STAGES_GPIPE, 4, 16, forward, backward) ==
                    16 * 12 + others);
    }
}

static void layouts(void **state)
{
    (void)state;
    struct tacho_error err;
    struct lt_layout layout;
    static const char *const bad[] = {"",        "dp",  "dp0",  "dp2.",    ".dp2", "dp2pp2",
                                      "dp2.dp2", "xp2", "dp-2", "dp99999", "dp2 "};
    assert_int_equal(lt_layout_parse(&layout, "pp3.dp2", 3, 6, &err), 0);
    assert_int_equal(layout.dp, 2);
    assert_int_equal(layout.stage, 1);
    assert_int_equal(layout.replica, 1);
    assert_int_equal(lt_layout_parse(&layout, NULL, 4, 5, &err), 0);
    assert_int_equal(layout.dp, 5);
    assert_int_equal(layout.stage, 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(lt_layout_parse(&layout, bad[i], 0, 2, &err), TACHO_EUSAGE);
    assert_int_equal(lt_layout_parse(&layout, "pp4", 0, 2, &err), TACHO_EUSAGE);
    assert_non_null(strstr(err.what, "needs 4 ranks"));
    layout = (struct lt_layout){.dp = 1, .pp = 3};
    assert_int_equal(lt_layout_blocks(&layout, 1, 8).first, 2);
    assert_int_equal(lt_layout_blocks(&layout, 1, 8).count, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(makespans),
        cmocka_unit_test(slow_stage),
        cmocka_unit_test(layouts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
