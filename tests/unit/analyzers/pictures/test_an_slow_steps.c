/* SPDX-License-Identifier: Apache-2.0
 *
 * Slow steps and what was longer in them: 40 steps of about 10 ms of which one writes for 30 ms
 * more inside of its forward pass, and one waits for 20 ms outside of all ranges.
 */
#include "tests/unit/an_fixture.h"

#define MS 1000000ll

static void test_causes(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    fx_open(f);
    int64_t work = fx_work(f, "elementwise", "fp32", 1000, 1000, 1000), at = 0;
    for (int i = 0; i < 40; i++) {
        int64_t write = i == 20 ? 30 * MS : 0, outside = i == 30 ? 20 * MS : 0;
        int64_t jitter = i % 5 * MS / 20, length = 10 * MS + jitter + write + outside;
        fx_step(f, f->process, f->thread, i, at, at + length, 8, false);
        fx_slice(f, f->thread, at + MS, at + 9 * MS + write, "forward", work);
        if (write)
            fx_slice(f, f->thread, at + 2 * MS, at + 2 * MS + write, "write log",
                     fx_kind(f, "host"));
        at += length;
    }
    const struct an_steps *steps = &fx_analyze(f)->steps;
    assert_int_equal(steps->outlier_count, 2);
    assert_int_equal(steps->outliers[0].index, 20);
    assert_string_equal(steps->outliers[0].cause, "write log");
    assert_true(fabs(steps->outliers[0].cause_ms - 30) < 1e-6);
    assert_int_equal(steps->outliers[1].index, 30);
    assert_string_equal(steps->outliers[1].cause, "outside of all ranges");
    assert_true(fabs(steps->outliers[1].cause_ms - 20) < 0.2);
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_causes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
