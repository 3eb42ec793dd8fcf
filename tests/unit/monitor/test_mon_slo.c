/* SPDX-License-Identifier: Apache-2.0
 *
 * Objectives: windows of burn rates at several targets and periods, budgets that burn, the file.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "monitor/config/config.h"
#include "monitor/sli/budget.h"
#include "tests/unit/monitor/mon_series.h"

#define assert_close(value, wanted, within) assert_true(fabs((value) - (wanted)) <= (within))

#define HOUR 3600.0
#define DAY  (24 * HOUR)

static struct mon_objective objective_of(double target, double period_s)
{
    struct mon_objective objective;
    mon_objective_init(&objective, MON_SLI_STEP_TIME);
    objective.target = target;
    objective.period_s = period_s;
    return objective;
}

static void test_windows(void **state)
{
    (void)state;
    const double targets[] = {0.90, 0.95, 0.99}, periods[] = {HOUR, 10 * HOUR, 30 * DAY};
    const double parts[] = {720, 120, 30, 10}, factors[] = {14.4, 6, 3, 1};
    for (size_t t = 0; t < 3; t++)
        for (size_t p = 0; p < 3; p++) {
            struct mon_objective objective = objective_of(targets[t], periods[p]);
            struct mon_burn burn[MON_BURNS];
            char why[512];
            size_t count, first = targets[t] < 0.93; /* 14.4 is above 1 / (1 - 0.9) */
            assert_int_equal(mon_burns(&objective, 0, burn, &count, why, sizeof why, NULL), 0);
            assert_int_equal(count, MON_BURNS - first);
            assert_int_equal(*why != 0, first);
            for (size_t i = 0; i < count; i++) {
                assert_close(burn[i].long_s, periods[p] / parts[i + first], 1e-6);
                assert_close(burn[i].short_s, burn[i].long_s / 12, 1e-6);
                assert_close(burn[i].factor, factors[i + first], 1e-6);
                assert_int_equal(burn[i].page, i + first < 2);
            }
        }
}

static void test_lengthened(void **state)
{
    (void)state;
    struct mon_objective objective = objective_of(0.95, HOUR);
    struct mon_burn burn[MON_BURNS];
    char why[512];
    size_t count;
    /* 20 steps of 1 s: the windows of 5 s become 20 s, with a quarter of the factor */
    assert_int_equal(mon_burns(&objective, 1, burn, &count, why, sizeof why, NULL), 0);
    assert_int_equal(count, MON_BURNS);
    assert_close(burn[0].long_s, 20, 1e-9);
    assert_close(burn[0].short_s, 20, 1e-9);
    assert_close(burn[0].factor, 0.02 * HOUR / 20, 1e-9);
    assert_true(burn[0].lengthened && !burn[3].lengthened);
    /* a period of 100 steps has no window that is shorter than it and holds a rate above 1 */
    objective.period_s = 100;
    struct tacho_error err = {0};
    assert_int_equal(mon_burns(&objective, 10, burn, &count, why, sizeof why, &err), TACHO_EUSAGE);
    assert_non_null(strstr(err.what, "step_time"));
    assert_int_equal(count, 0);
}

/* Seconds from the begin of bad events at a rate until the first pair fires; -1: none does. */
static double fires_after(double target, double period_s, double bad_share, size_t *pair)
{
    struct mon_objective objective = objective_of(target, period_s);
    struct mon_budget budget;
    double step_s = period_s / 86400;
    assert_int_equal(mon_budget_init(&budget, &objective, step_s, NULL), 0);
    for (int i = 0; i < 20000; i++) { /* a good past */
        mon_budget_add(&budget, i * step_s, 0, 1);
        assert_int_equal(mon_budget_check(&budget, i * step_s, NULL), -1);
    }
    for (int i = 20000; i < 60000; i++) {
        mon_budget_add(&budget, i * step_s, bad_share, 1);
        int fired = mon_budget_check(&budget, i * step_s, NULL);
        if (fired >= 0) {
            *pair = (size_t)fired;
            return (i - 20000) * step_s;
        }
    }
    return -1;
}

/* Bad events at a rate use up a pair's share of the budget in `parts` of its long window: there it
 * fires, at any period. */
static void test_fires(void **state)
{
    (void)state;
    const double periods[] = {HOUR, 10 * HOUR, 30 * DAY};
    const struct {
        double target, bad, window; /* the long window, a part of the period; 0: nothing fires */
        size_t pair;
        double factor;
    } cases[] = {
        {0.99, 1, 720, 0, 14.4}, {0.95, 1, 720, 0, 14.4}, {0.95, 0.4, 120, 1, 6},
        {0.90, 1, 120, 0, 6}, /* 14.4 is above 1 / (1 - 0.9): the pair of 6 is the first */
        {0.90, 0.45, 30, 1, 3},  {0.99, 0.02, 10, 3, 1},  {0.95, 0.04, 0, 9, 0},
        {0.90, 0.08, 0, 9, 0},   {0.99, 0.008, 0, 9, 0},
    };
    for (size_t p = 0; p < 3; p++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            size_t pair = 9;
            double after = fires_after(cases[i].target, periods[p], cases[i].bad, &pair);
            double parts = cases[i].factor * (1 - cases[i].target) / cases[i].bad;
            assert_int_equal(pair, cases[i].pair);
            if (cases[i].window > 0)
                assert_true(fabs(after / (periods[p] / cases[i].window) - parts) < 0.06);
            else
                assert_true(after < 0);
        }
}

static void test_stops(void **state)
{
    (void)state;
    struct mon_objective objective = objective_of(0.95, HOUR);
    struct mon_budget budget;
    int over = -1, burning = 0;
    assert_int_equal(mon_budget_init(&budget, &objective, 0.1, NULL), 0);
    for (int i = 0; i < 600; i++) {
        mon_budget_add(&budget, i * 0.1, 1, 1);
        burning += mon_budget_check(&budget, i * 0.1, NULL) >= 0;
    }
    assert_true(burning >= 1);
    for (int i = 600; i < 1200 && over < 0; i++) {
        mon_budget_add(&budget, i * 0.1, 0, 1);
        assert_int_equal(mon_budget_check(&budget, i * 0.1, &over), -1);
    }
    assert_true(over >= 0); /* the short window is good again */
    assert_close(mon_budget_good(&budget), 1 - budget.bad / budget.all, 1e-12);
    assert_true(mon_budget_left(&budget, 100) < 1);
}

/* Pages in an hour of steps of a second, of which a share is bad, drawn by seed. */
static int pages_in_hour(double bad_share, uint64_t seed)
{
    struct mon_objective objective = objective_of(0.95, HOUR);
    struct mon_budget budget;
    int fired = 0;
    assert_int_equal(mon_budget_init(&budget, &objective, 1, NULL), 0);
    for (int i = 0; i < 3600; i++) {
        mon_budget_add(&budget, i, series_uniform(&seed) < bad_share, 1);
        int pair = mon_budget_check(&budget, i, NULL);
        fired += pair >= 0 && budget.burn[pair].page;
    }
    return fired;
}

/* Windows of 20 steps hold four bad ones by chance: a run that meets its objective has no page,
 * one in which half of the steps are bad has. */
static void test_few_steps(void **state)
{
    (void)state;
    int fired = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        fired += pages_in_hour(0.04, seed);
        assert_true(pages_in_hour(0.5, seed) >= 1);
    }
    assert_true(fired <= 1);
}

static int set(struct mon_config *config, const char *name, const char *value)
{
    struct tacho_error err = {0};
    int rc = mon_config_set(config, name, value, "test:1", &err);
    assert_int_equal(rc != 0, *err.what != 0);
    return rc;
}

static void test_settings(void **state)
{
    (void)state;
    struct mon_config config;
    mon_config_init(&config);
    assert_int_equal(config.slo.count, MON_SLI_COUNT);
    assert_int_equal(set(&config, "step_time.target", "99 %"), 0);
    assert_int_equal(set(&config, "step_time.threshold", "250ms"), 0);
    assert_int_equal(set(&config, "step_time.period", "30d"), 0);
    assert_int_equal(set(&config, "mfu.target", "off"), 0);
    assert_int_equal(set(&config, "slow.sli", "step_time"), 0);
    assert_int_equal(set(&config, "slow.threshold", "2x"), 0);
    assert_int_equal(set(&config, "silence", "BURN_*"), 0);
    assert_int_equal(set(&config, "response.NAN", "echo"), 0);
    assert_int_equal(set(&config, "response.dry_run", "on"), 0);
    assert_int_equal(set(&config, "sink.webhook", "http://127.0.0.1:1/x"), 0);
    assert_close(config.slo.objective[0].target, 0.99, 1e-12);
    assert_close(config.slo.objective[0].threshold, 0.25, 1e-12);
    assert_false(config.slo.objective[0].relative);
    assert_close(config.slo.objective[0].period_s, 30 * DAY, 1e-6);
    const struct mon_objective *slow = &config.slo.objective[config.slo.count - 1];
    assert_string_equal(slow->name, "slow");
    assert_true(slow->relative && slow->threshold > 1.99 && slow->threshold < 2.01);
    for (size_t i = 0; i < config.slo.count; i++)
        assert_true(config.slo.objective[i].sli != MON_SLI_MFU);
    const char *const wrong[][2] = {{"step_time.target", "1"},
                                    {"step_time.target", "110%"},
                                    {"step_time.target", ""},
                                    {"step_time.threshold", "0"},
                                    {"health.threshold", "3"},
                                    {"step_time.period", "soon"},
                                    {"new.target", "95%"},
                                    {"step_time.colour", "red"},
                                    {"sink.webhook", "https://x"},
                                    {"sink.pager", "x"},
                                    {"response.dry_run", "ja"},
                                    {"colour", "red"},
                                    {"rate", "0"},
                                    {"rate", "many"},
                                    {"Bad-name.sli", "mfu"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(set(&config, wrong[i][0], wrong[i][1]), TACHO_EUSAGE);
}

static void test_file(void **state)
{
    (void)state;
    char path[] = "watch-XXXXXX";
    struct mon_config config;
    struct tacho_error err = {0};
    int fd = mkstemp(path);
    const char text[] = "# a comment\n\n  rate = 3  # an hour\nsink.log = a#b.jsonl\nbroken\n";
    assert_true(write(fd, text, sizeof text - 1) == (ssize_t)sizeof text - 1);
    close(fd);
    mon_config_init(&config);
    assert_int_equal(mon_config_read(&config, path, &err), TACHO_EUSAGE);
    assert_non_null(strstr(err.what, ":5: "));
    assert_close(config.rate, 3, 1e-12);
    assert_string_equal(config.log, "a#b.jsonl");
    unlink(path);
    assert_int_equal(mon_config_read(&config, path, &err), TACHO_ENOTFOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows),   cmocka_unit_test(test_lengthened),
        cmocka_unit_test(test_few_steps), cmocka_unit_test(test_fires),
        cmocka_unit_test(test_stops),     cmocka_unit_test(test_settings),
        cmocka_unit_test(test_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
