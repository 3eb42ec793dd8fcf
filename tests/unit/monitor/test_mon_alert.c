/* SPDX-License-Identifier: Apache-2.0
 *
 * Alerts: groups, ends, rate limit, silence, acknowledgement; their JSON.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "monitor/alert/alert_json.h"

struct seen {
    int fired, worse, repeated, resolved, sent;
    const char *held;
    int64_t held_before;
};

static void on_notice(void *ctx, const struct mon_notice *notice)
{
    struct seen *seen = ctx;
    seen->fired += notice->event == MON_FIRING;
    seen->worse += notice->event == MON_WORSE;
    seen->repeated += notice->event == MON_REPEATED;
    seen->resolved += notice->event == MON_RESOLVED;
    seen->sent += notice->send;
    seen->held = notice->held;
    seen->held_before = notice->held_before;
}

static struct mon_symptom symptom_of(const char *code, enum mon_severity severity,
                                     enum mon_cause cause, int64_t rank)
{
    struct mon_symptom symptom = {
        .severity = severity, .cause = cause, .since_step = 12, .before = NAN, .after = NAN};
    snprintf(symptom.code, sizeof symptom.code, "%s", code);
    snprintf(symptom.text, sizeof symptom.text, "what is \"seen\"");
    if (rank >= 0)
        symptom.rank[symptom.rank_count++] = rank;
    return symptom;
}

static struct mon_alerts alerts;
static struct mon_config config;
static struct seen seen;

static int setup(void **state)
{
    (void)state;
    mon_config_init(&config);
    seen = (struct seen){0};
    mon_alerts_init(&alerts, &config, on_notice, &seen);
    return 0;
}

static void raise_one(const char *code, enum mon_severity severity, enum mon_cause cause,
                      int64_t rank, double now_s)
{
    struct mon_symptom symptom = symptom_of(code, severity, cause, rank);
    mon_alerts_raise(&alerts, &symptom, now_s);
}

static void test_groups(void **state)
{
    (void)state;
    raise_one("STEP_TIME", MON_TICKET, MON_CAUSE_LOADER, -1, 1);
    raise_one("THROUGHPUT", MON_TICKET, MON_CAUSE_LOADER, -1, 2);
    raise_one("STEP_TIME", MON_TICKET, MON_CAUSE_LOADER, -1, 3);
    assert_int_equal(seen.fired, 1);
    raise_one("BURN_step_time", MON_PAGE, MON_CAUSE_LOADER, -1, 4); /* it gets worse */
    assert_int_equal(seen.worse, 1);
    raise_one("STEP_TIME", MON_TICKET, MON_CAUSE_RANK, 3, 5); /* another cause, on one rank */
    assert_int_equal(seen.fired, 2);
    assert_int_equal(alerts.count, 2);
    assert_int_equal(alerts.alert[0].code_count, 3);
}

static void move(double before, double after, double now_s)
{
    struct mon_symptom symptom = symptom_of("STEP_TIME", MON_TICKET, MON_CAUSE_UNKNOWN, -1);
    symptom.before = before;
    symptom.after = after;
    mon_alerts_raise(&alerts, &symptom, now_s);
}

/* While an alert is open, what moves on a little is not sent again; what moves twice as far is. */
static void test_farther(void **state)
{
    (void)state;
    move(100, 105, 1);
    move(105, 108, 2);
    move(108, 100, 3);
    assert_int_equal(seen.fired, 1);
    assert_int_equal(seen.worse, 0);
    move(100, 118, 4);
    assert_int_equal(seen.worse, 1);
    assert_int_equal(seen.sent, 2);
    move(118, 120, 5);
    assert_int_equal(seen.sent, 2);
    assert_int_equal(alerts.count, 1);
}

static void test_hysteresis(void **state)
{
    (void)state;
    double now = 0;
    for (int i = 0; i < 50; i++) { /* it comes and goes */
        raise_one("STEP_TIME", MON_TICKET, MON_CAUSE_LOADER, -1, now);
        mon_alerts_clear(&alerts, "STEP_TIME", -1, now + 5);
        mon_alerts_tick(&alerts, now + 10);
        now += 10;
    }
    assert_int_equal(seen.fired + seen.resolved, 1);
    assert_int_equal(alerts.alert[0].times, 50);
    mon_alerts_tick(&alerts, now + MON_HOLD_S);
    assert_int_equal(seen.resolved, 1);
    assert_false(mon_alerts_has(&alerts, "STEP_TIME"));
}

static void test_rate(void **state)
{
    (void)state;
    config.rate = 4;
    mon_alerts_init(&alerts, &config, on_notice, &seen);
    for (int i = 0; i < 40; i++)
        raise_one("STEP_TIME", MON_TICKET, MON_CAUSE_RANK, i, i);
    assert_int_equal(seen.fired, 40); /* all of them are recorded, */
    assert_int_equal(seen.sent, 4);   /* as many as an hour's rate are sent */
    assert_string_equal(seen.held, "rate limit");
    raise_one("STEP_TIME", MON_TICKET, MON_CAUSE_RANK, 41, 40 + 1000);
    assert_int_equal(seen.sent, 5); /* a quarter of an hour: one more, and it says how many not */
    assert_int_equal(seen.held_before, 36);
    /* the end of an alert that was not sent is not sent either */
    mon_alerts_clear(&alerts, "STEP_TIME", 20, 2000);
    mon_alerts_tick(&alerts, 2000 + MON_HOLD_S);
    assert_int_equal(seen.resolved, 1);
    assert_int_equal(seen.sent, 5);
}

/* Less than one notice an hour are still some. */
static void test_slow_rate(void **state)
{
    (void)state;
    config.rate = 0.5;
    mon_alerts_init(&alerts, &config, on_notice, &seen);
    for (int i = 0; i < 4; i++)
        raise_one("STEP_TIME", MON_TICKET, MON_CAUSE_RANK, i, i * 3601);
    assert_int_equal(seen.fired, 4);
    assert_int_equal(seen.sent, 2); /* at once, and two hours later */
}

/* A page that is due again waits for the rate limit; it is not held once more in each look. */
static void test_repeated_within_rate(void **state)
{
    (void)state;
    config.rate = 1;
    mon_alerts_init(&alerts, &config, on_notice, &seen);
    raise_one("STALLED", MON_PAGE, MON_CAUSE_HANG, -1, 0);
    raise_one("STEP_TIME", MON_TICKET, MON_CAUSE_RANK, 3, MON_REPEAT_S - 1);
    assert_int_equal(seen.sent, 2);
    for (int i = 0; i < 3000; i++)
        mon_alerts_tick(&alerts, MON_REPEAT_S + i);
    assert_int_equal(seen.repeated, 0);
    mon_alerts_tick(&alerts, MON_REPEAT_S + 3600);
    assert_int_equal(seen.repeated, 1);
    assert_int_equal(seen.sent, 3);
    assert_int_equal(seen.held_before, 0);
}

/* A page that the rate limit held is sent once there is room, a ticket is not. */
static void test_held_page(void **state)
{
    (void)state;
    config.rate = 1;
    mon_alerts_init(&alerts, &config, on_notice, &seen);
    raise_one("STEP_TIME", MON_TICKET, MON_CAUSE_RANK, 3, 0);
    raise_one("STEP_TIME", MON_TICKET, MON_CAUSE_RANK, 4, 1);
    raise_one("STALLED", MON_PAGE, MON_CAUSE_HANG, -1, 2);
    assert_int_equal(seen.sent, 1);
    for (int i = 3; i < 3600; i++)
        mon_alerts_tick(&alerts, i);
    assert_int_equal(seen.sent, 1);
    assert_int_equal(seen.fired, 3);
    mon_alerts_tick(&alerts, 3601);
    assert_int_equal(seen.sent, 2);
    assert_int_equal(seen.fired, 4);
    assert_int_equal(seen.held_before, 2);
    mon_alerts_tick(&alerts, 2 * 3601);
    assert_int_equal(seen.sent, 2);
    raise_one("NAN", MON_PAGE, MON_CAUSE_HANG, 1, 2 * 3601); /* takes the only token */
    raise_one("NAN", MON_PAGE, MON_CAUSE_HANG, 2, 2 * 3601); /* over before there is one */
    mon_alerts_clear(&alerts, "NAN", 2, 2 * 3601 + 1);
    mon_alerts_tick(&alerts, 3 * 3601 + 1);
    assert_int_equal(seen.sent, 3);
}

static void test_silence(void **state)
{
    (void)state;
    snprintf(config.silence[config.silence_count++], MON_NAME, "BURN_*");
    mon_alerts_init(&alerts, &config, on_notice, &seen);
    raise_one("BURN_health", MON_PAGE, MON_CAUSE_OBJECTIVE, -1, 1);
    assert_int_equal(seen.sent, 0);
    assert_string_equal(seen.held, "silenced");
    /* an alert that has another symptom too is not silent */
    raise_one("STEP_TIME", MON_PAGE, MON_CAUSE_LOADER, -1, 2);
    assert_int_equal(seen.sent, 1);
}

static void test_acknowledged(void **state)
{
    (void)state;
    raise_one("STALLED", MON_PAGE, MON_CAUSE_HANG, -1, 0);
    mon_alerts_tick(&alerts, MON_REPEAT_S + 1);
    assert_int_equal(seen.repeated, 1);
    assert_int_equal(mon_alerts_acknowledge(&alerts, "7"), 0);
    assert_int_equal(mon_alerts_acknowledge(&alerts, "1"), 1);
    mon_alerts_tick(&alerts, 3 * MON_REPEAT_S);
    assert_int_equal(seen.repeated, 1);
    mon_alerts_clear(&alerts, "STALLED", -1, 3 * MON_REPEAT_S);
    mon_alerts_tick(&alerts, 3 * MON_REPEAT_S + MON_HOLD_S);
    assert_int_equal(seen.resolved, 1);
    assert_null(seen.held); /* its end is sent */
}

/* More alerts than there is room for: none is overwritten, and that is counted. */
static void test_many(void **state)
{
    (void)state;
    for (int i = 0; i < MON_ALERTS_MOST + 5; i++)
        raise_one("STEP_TIME", MON_TICKET, MON_CAUSE_RANK, i, i);
    assert_int_equal(alerts.count, MON_ALERTS_MOST);
    assert_int_equal(alerts.lost, 5);
    mon_alerts_clear(&alerts, "STEP_TIME", -1, 1000);
    mon_alerts_tick(&alerts, 1000 + MON_HOLD_S);
    raise_one("STEP_TIME", MON_TICKET, MON_CAUSE_RANK, 1000, 2000);
    assert_int_equal(alerts.lost, 5);
}

static json_t *last_json, *last_list;
static void keep_json(void *ctx, const struct mon_notice *notice)
{
    struct mon_place place = {
        .run = "a.tacho", .host = "\xff", .realtime_ns = 1700000000123456789, .begun_ns = 1};
    char text[512];
    (void)ctx;
    json_decref(last_json);
    json_decref(last_list);
    last_json = mon_notice_json(notice, &place);
    last_list = mon_notice_alertmanager(notice, &place);
    mon_notice_text(notice, text, sizeof text);
    assert_non_null(strstr(text, "what is \"seen\""));
}

static void test_json(void **state)
{
    (void)state;
    mon_alerts_init(&alerts, &config, keep_json, NULL);
    raise_one("STEP_TIME", MON_TICKET, MON_CAUSE_RANK, 3, 1);
    assert_string_equal(json_string_value(json_object_get(last_json, "time")),
                        "2023-11-14T22:13:20.123Z");
    assert_true(json_is_null(json_object_get(last_json, "host"))); /* not UTF-8 */
    assert_true(json_is_null(json_object_get(last_json, "before")));
    assert_int_equal(json_integer_value(json_object_get(last_json, "since_step")), 12);
    json_t *row = json_array_get(last_list, 0), *labels = json_object_get(row, "labels");
    assert_string_equal(json_string_value(json_object_get(labels, "alertname")), "STEP_TIME");
    assert_string_equal(json_string_value(json_object_get(labels, "rank")), "3");
    assert_null(json_object_get(row, "endsAt"));
    mon_alerts_clear(&alerts, "STEP_TIME", 3, 2);
    mon_alerts_tick(&alerts, 2 + MON_HOLD_S);
    assert_non_null(json_object_get(json_array_get(last_list, 0), "endsAt"));
    json_decref(last_json);
    json_decref(last_list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_groups, setup),
        cmocka_unit_test_setup(test_farther, setup),
        cmocka_unit_test_setup(test_hysteresis, setup),
        cmocka_unit_test_setup(test_rate, setup),
        cmocka_unit_test_setup(test_slow_rate, setup),
        cmocka_unit_test_setup(test_repeated_within_rate, setup),
        cmocka_unit_test_setup(test_held_page, setup),
        cmocka_unit_test_setup(test_silence, setup),
        cmocka_unit_test_setup(test_acknowledged, setup),
        cmocka_unit_test_setup(test_many, setup),
        cmocka_unit_test_setup(test_json, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
