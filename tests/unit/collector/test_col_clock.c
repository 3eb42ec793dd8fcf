/* SPDX-License-Identifier: Apache-2.0
 *
 * Times come from the time stamp counter and CLOCK_MONOTONIC: a wall clock that is set back and
 * forth during the run changes none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "profiler/collector/os/clock.h"

#define SECOND  1000000000ll
#define TICKS   UINT64_C(2600000000) /* a second */
#define ANCHORS 5000                 /* more than the ring keeps */

/* The anchor of a second; the wall clock jumps by an hour back and forth, and by years. */
static struct col_anchor anchor(int second, bool jumps)
{
    struct col_anchor anchor = {.tsc = 1000 + (uint64_t)second * TICKS,
                                .monotonic = 77 + second * SECOND,
                                .realtime = 1700000000 * SECOND + second * SECOND};
    if (jumps)
        anchor.realtime += (second % 3 - 1) * 3600 * SECOND - second % 7 * 300000000 * SECOND / 7;
    return anchor;
}

static void test_wall_clock_steps(void **state)
{
    struct col_clock *steady = malloc(sizeof *steady), *stepped = malloc(sizeof *stepped);
    (void)state;
    assert_non_null(steady);
    assert_non_null(stepped);
    col_clock_init(steady);
    col_clock_init(stepped);
    for (int second = 0; second < ANCHORS; second++) {
        struct col_anchor without = anchor(second, false), with = anchor(second, true);
        assert_true(col_clock_add(steady, &without));
        assert_true(col_clock_add(stepped, &with));
    }
    for (int second = 0; second < ANCHORS; second += 13) {
        uint64_t tsc = 1000 + (uint64_t)second * TICKS + TICKS / 3;
        int64_t ns = col_clock_ns(stepped, tsc);
        assert_int_equal(ns, col_clock_ns(steady, tsc));
        int64_t off = ns - (77 + second * SECOND + SECOND / 3);
        assert_in_range(off + 64, 0, 128); /* long ago the pieces are long */
    }
    free(steady);
    free(stepped);
}

/* The machine was suspended: the counter went on for a minute, CLOCK_MONOTONIC did not. Times
 * before and after it are right, and none lies outside of the pieces. */
static void test_counter_goes_on_while_suspended(void **state)
{
    struct col_clock *clock = malloc(sizeof *clock);
    (void)state;
    assert_non_null(clock);
    col_clock_init(clock);
    for (int second = 0; second < 10; second++) {
        struct col_anchor moment = anchor(second, false);
        moment.tsc += second >= 5 ? 60 * TICKS : 0;
        assert_true(col_clock_add(clock, &moment));
    }
    int64_t ns = col_clock_ns(clock, 1000 + 2 * TICKS + TICKS / 2);
    assert_in_range(ns, 76 + 2 * SECOND + SECOND / 2, 77 + 2 * SECOND + SECOND / 2);
    ns = col_clock_ns(clock, 1000 + 67 * TICKS + TICKS / 2);
    assert_in_range(ns, 76 + 7 * SECOND + SECOND / 2, 77 + 7 * SECOND + SECOND / 2);
    ns = col_clock_ns(clock, 1000 + 34 * TICKS);
    assert_in_range(ns, 77 + 4 * SECOND, 77 + 5 * SECOND);
    free(clock);
}

/* A counter that was set back is not used: the anchor is refused. */
static void test_counter_set_back(void **state)
{
    struct col_clock *clock = malloc(sizeof *clock);
    (void)state;
    assert_non_null(clock);
    col_clock_init(clock);
    struct col_anchor first = anchor(5, false), second = anchor(6, false);
    second.tsc = 10;
    assert_true(col_clock_add(clock, &first));
    assert_false(col_clock_add(clock, &second));
    free(clock);
}

static void test_suspended_time_is_steady(void **state)
{
    (void)state;
    int64_t before = col_clock_suspended();
    col_sleep_ms(5);
    int64_t change = col_clock_suspended() - before;
    assert_in_range(change + 50000000, 0, 100000000);
    for (int i = 0; i < 1000; i++)
        assert_true(col_clock_suspended() >= 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wall_clock_steps),
        cmocka_unit_test(test_counter_goes_on_while_suspended),
        cmocka_unit_test(test_counter_set_back),
        cmocka_unit_test(test_suspended_time_is_steady),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
