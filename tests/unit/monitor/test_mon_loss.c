/* SPDX-License-Identifier: Apache-2.0
 *
 * What a watch says of losses drawn by seed: batches that differ are no alert, a loss that is far
 * up or stays up is one, and only the latter is a page.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "monitor/monitor.h"
#include "tests/unit/monitor/mon_series.h"

#define SEED    7000000 /* not those that the rules were chosen on */
#define RUNS    20      /* without a change */
#define CHANGED 8       /* with each change */
#define STEPS   4000
#define PLANTED 3000
#define NEVER   STEPS
#define SECOND  1000000000

/* What was heard of a run: how often before the change, and the first steps after it. */
struct heard {
    int64_t step, before, alert, page;
    char code[MON_NAME];
};

static void on_notice(void *ctx, const struct mon_notice *notice)
{
    struct heard *heard = ctx;
    const struct mon_symptom *symptom = &notice->alert->symptom;
    if (notice->event == MON_RESOLVED)
        return;
    heard->before += heard->step < PLANTED;
    if (heard->step < PLANTED)
        return;
    if (heard->alert < 0)
        snprintf(heard->code, sizeof heard->code, "%s", symptom->code);
    heard->alert = heard->alert < 0 ? heard->step : heard->alert;
    heard->page = heard->page < 0 && symptom->severity == MON_PAGE ? heard->step : heard->page;
}

/* A run with a step a second whose loss falls until the step `falls` and is `times` as high in
 * `steps` steps from PLANTED on. */
static struct heard run_of(uint64_t seed, int64_t falls, double times, int64_t steps)
{
    static struct mon_config config;
    mon_config_init(&config);
    struct heard heard = {.alert = -1, .page = -1};
    struct mon_monitor *monitor = mon_new(&config, 0, on_notice, &heard);
    struct series series = series_begin(seed, 0.03);
    assert_non_null(monitor);
    struct mon_counter *loss = mon_counter(monitor, "loss", NULL, 0);
    for (int64_t step = 0; step < STEPS; step++) {
        bool high = step >= PLANTED && step < PLANTED + steps;
        heard.step = step;
        mon_value(monitor, loss, step * SECOND,
                  series_batch_loss(&series, step < falls ? step : falls) * (high ? times : 1));
        mon_step(monitor, &(struct mon_step){.index = step,
                                             .start = step * SECOND,
                                             .end = (step + 1) * SECOND,
                                             .tokens = NAN,
                                             .flops = NAN});
        mon_tick(monitor, (step + 1) * SECOND);
    }
    mon_free(monitor);
    return heard;
}

/* 80,000 steps in which 80 batches differ. */
static void test_batches(void **state)
{
    (void)state;
    int64_t alerts = 0, pages = 0;
    for (uint64_t i = 0; i < RUNS; i++) {
        struct heard heard = run_of(SEED + i, STEPS, 1, 0);
        alerts += heard.before + (heard.alert >= 0);
        pages += heard.page >= 0;
    }
    assert_true(alerts <= 26); /* each batch was one, and some a page */
    assert_int_equal(pages, 0);
}

/* One loss that is three times as high is a spike at once, and no page. */
static void test_spike(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < CHANGED; i++) {
        struct heard heard = run_of(SEED + i, STEPS, 3, 1);
        assert_int_equal(heard.alert, PLANTED);
        assert_string_equal(heard.code, "LOSS_SPIKE");
        assert_int_equal(heard.page, -1);
    }
}

/* A loss that is up by 40 % for 20 steps and comes back: an alert, no page. If it stays, a page. */
static void test_rise(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < CHANGED; i++) {
        struct heard back = run_of(SEED + i, STEPS, 1.4, 20);
        assert_in_range(back.alert, PLANTED, PLANTED + 6);
        assert_int_equal(back.page, -1);
        struct heard stays = run_of(SEED + i, STEPS, 1.4, NEVER);
        assert_int_equal(stays.alert, back.alert);
        assert_in_range(stays.page, PLANTED + 32, PLANTED + 48);
    }
}

/* A loss that no longer falls has an alert that stays open; a rise is another one. */
static void test_rise_from_plateau(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < CHANGED; i++) {
        struct heard heard = run_of(SEED + i, 1000, 1.4, NEVER);
        assert_true(heard.before >= 1);
        assert_in_range(heard.alert, PLANTED, PLANTED + 6);
        assert_string_not_equal(heard.code, "PLATEAU");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_spike),
        cmocka_unit_test(test_rise),
        cmocka_unit_test(test_rise_from_plateau),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
