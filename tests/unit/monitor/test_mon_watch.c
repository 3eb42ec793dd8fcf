/* SPDX-License-Identifier: Apache-2.0
 *
 * A watched job as a whole: incidents drawn by seed and the causes that alerts name, runs that
 * hang, 72 hours without an incident, restarts.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/monitor/mon_job.h"

#define assert_close(value, wanted, within) assert_true(fabs((value) - (wanted)) <= (within))

#define INCIDENTS 60
#define PLANTED   700 /* the step */
#define LONG      5200
#define SHORT     1300

/* What came of a run. */
struct outcome {
    int pages, notices, before; /* before: alerts of a run in which nothing had happened yet */
    bool planted, first_seen;
    enum mon_cause cause; /* of the first alert after the incident began */
    int64_t since, rank;
    char code[MON_NAME];
};

static void on_notice(void *ctx, const struct mon_notice *notice)
{
    struct outcome *outcome = ctx;
    const struct mon_symptom *symptom = &notice->alert->symptom;
    if (notice->event == MON_RESOLVED)
        return;
    outcome->notices++;
    if (getenv("SHOW"))
        print_message("%.1f s %s: %s; %s\n", notice->time_s, symptom->code, symptom->text,
                      symptom->changed);
    outcome->pages += symptom->severity == MON_PAGE;
    outcome->before += !outcome->planted;
    if (!outcome->planted || outcome->first_seen)
        return;
    outcome->first_seen = true;
    outcome->cause = symptom->cause;
    outcome->since = symptom->since_step;
    outcome->rank = symptom->rank_count ? symptom->rank[0] : -1;
    snprintf(outcome->code, sizeof outcome->code, "%s", symptom->code);
}

static struct mon_config config;

static struct outcome run_incident(uint64_t seed, enum job_incident incident)
{
    struct outcome outcome = {.cause = MON_CAUSE_UNKNOWN};
    struct mon_monitor *monitor = mon_new(&config, 0, on_notice, &outcome);
    assert_non_null(monitor);
    struct job job = job_begin(monitor, seed);
    mon_set_machine(monitor, &(struct mon_machine){.memory_bytes = 64e9});
    job.incident = incident;
    job.at = PLANTED;
    job.rank = (int64_t)(an_random(&job.state) % JOB_RANKS);
    job.amount = series_uniform(&job.state);
    int64_t last = incident == JOB_LEAK ? LONG : SHORT;
    for (int64_t step = 0; step < last && !outcome.first_seen; step++) {
        outcome.planted = step >= PLANTED;
        job_step(&job, monitor, step);
    }
    outcome.rank = outcome.rank == job.rank ? outcome.rank : -1;
    mon_free(monitor);
    return outcome;
}

static void test_causes(void **state)
{
    (void)state;
    static const enum mon_cause causes[] = {
        [JOB_NEIGHBOUR] = MON_CAUSE_NEIGHBOUR, [JOB_CLOCKS] = MON_CAUSE_CLOCKS,
        [JOB_LOADER] = MON_CAUSE_LOADER,       [JOB_RANK] = MON_CAUSE_RANK,
        [JOB_LINK] = MON_CAUSE_LINK,           [JOB_CHECKPOINT] = MON_CAUSE_CHECKPOINT,
        [JOB_LEAK] = MON_CAUSE_LEAK,           [JOB_NAN] = MON_CAUSE_NUMERICS};
    int right = 0, before = 0, ranks = 0, of_rank = 0, dated = 0;
    for (uint64_t i = 0; i < INCIDENTS; i++) {
        uint64_t draw = i + 4242;
        enum job_incident incident = (enum job_incident)(an_random(&draw) % JOB_INCIDENTS);
        struct outcome outcome = run_incident(i, incident);
        bool is_right = outcome.first_seen && outcome.cause == causes[incident];
        right += is_right;
        before += outcome.before;
        of_rank += incident == JOB_RANK;
        ranks += incident == JOB_RANK && outcome.rank >= 0;
        if (!is_right)
            print_message("incident %d of seed %d: %s, cause %s\n", (int)incident, (int)i,
                          outcome.first_seen ? outcome.code : "no alert",
                          mon_cause_name(outcome.cause));
        dated += is_right && labs((long)(outcome.since - PLANTED)) <= 3;
    }
    print_message("%d of %d causes right, %d alerts before, %d of %d ranks right, %d dated to 3 "
                  "steps\n",
                  right, INCIDENTS, before, ranks, of_rank, dated);
    assert_true(right >= INCIDENTS * 9 / 10);
    assert_true(before <= 6); /* raw detectors, three series, 4.2 * 10^4 steps */
    assert_true(ranks >= of_rank - 1);
}

/* A job of one rank in time-lapse: only steps, with a checkpoint that takes 20 minutes every hour.
 */
struct lapse {
    struct mon_monitor *monitor;
    uint64_t state;
    double now_s, step_s;
    int64_t step;
};

static void lapse_tick(struct lapse *lapse, double until_s)
{
    for (; lapse->now_s + 10 < until_s; lapse->now_s += 10)
        mon_tick(lapse->monitor, job_ns(lapse->now_s + 10));
    lapse->now_s = until_s;
    mon_tick(lapse->monitor, job_ns(until_s));
}

static void lapse_step(struct lapse *lapse, int64_t index)
{
    double start = lapse->now_s;
    lapse_tick(lapse, start + lapse->step_s * (1 + 0.01 * series_heavy(&lapse->state)));
    mon_step(lapse->monitor, &(struct mon_step){.index = index,
                                                .start = job_ns(start),
                                                .end = job_ns(lapse->now_s),
                                                .tokens = NAN,
                                                .flops = NAN});
}

static void lapse_checkpoint(struct lapse *lapse, double seconds)
{
    int64_t start = job_ns(lapse->now_s);
    mon_phase_range(lapse->monitor, "checkpoint", 0, start, INT64_MIN);
    lapse_tick(lapse, lapse->now_s + seconds);
    mon_phase_range(lapse->monitor, "checkpoint", 0, start, job_ns(lapse->now_s));
}

static void test_three_days(void **state)
{
    (void)state;
    struct mon_config quiet = config;
    bool restarted = false;
    struct outcome outcome = {.planted = true};
    mon_config_set(&quiet, "goodput.target", "off", "", NULL); /* a third goes to checkpoints */
    struct lapse lapse = {.monitor = mon_new(&quiet, 0, on_notice, &outcome), .step_s = 2};
    while (lapse.now_s < 72 * 3600.0) {
        lapse_step(&lapse, lapse.step++);
        if (lapse.step % 1200 == 0)
            lapse_checkpoint(&lapse, 1200);
        if (lapse.step == 40000 && !restarted) { /* it goes on from a checkpoint */
            lapse.step -= 100;
            restarted = true;
        }
        if (lapse.step == 60000) { /* nobody watched for two hours */
            double from = lapse.now_s;
            lapse.now_s += 7200;
            mon_gap(lapse.monitor, job_ns(from), job_ns(lapse.now_s));
        }
    }
    assert_int_equal(outcome.pages, 0);
    assert_true(outcome.notices >= 1); /* the gap is said */
    mon_free(lapse.monitor);
}

static void test_hangs(void **state)
{
    (void)state;
    const double steps[] = {0.05, 1, 8, 30};
    for (int i = 0; i < 20; i++) {
        struct outcome outcome = {.planted = true};
        struct lapse lapse = {.monitor = mon_new(&config, 0, on_notice, &outcome),
                              .state = (uint64_t)i,
                              .step_s = steps[i % 4]};
        for (int64_t step = 0; step < 30 + i; step++)
            lapse_step(&lapse, step);
        lapse_checkpoint(&lapse, 5); /* its own bound is no bound of the steps after it */
        assert_int_equal(outcome.notices, 0);
        double bound = fmax(60, 10 * lapse.step_s * 1.03), hung = lapse.now_s;
        lapse_tick(&lapse, hung + 0.9 * bound);
        assert_int_equal(outcome.notices, 0);
        lapse_tick(&lapse, hung + bound + 11);
        assert_true(outcome.pages >= 1);
        assert_string_equal(outcome.code, "STALLED");
        assert_int_equal(outcome.since, 30 + i);
        mon_free(lapse.monitor);
    }
}

/* Time without progress is bad in every objective that counts something. */
static void test_stall_burns(void **state)
{
    (void)state;
    struct outcome outcome = {.planted = true};
    struct lapse lapse = {.monitor = mon_new(&config, 0, on_notice, &outcome), .step_s = 1};
    static struct mon_state now;
    for (int64_t step = 0; step < 200; step++)
        lapse_step(&lapse, step);
    mon_state(lapse.monitor, job_ns(lapse.now_s), &now);
    assert_true(now.objective[MON_SLI_STEP_TIME].good > 0.99);
    lapse_tick(&lapse, lapse.now_s + 600);
    mon_state(lapse.monitor, job_ns(lapse.now_s), &now);
    assert_true(now.stalled && now.idle_s > 599);
    assert_close(now.objective[MON_SLI_STEP_TIME].good, 180.0 / 780, 0.02);
    assert_close(now.objective[MON_SLI_GOODPUT].good, 180.0 / 780, 0.02);
    assert_non_null(now.objective[MON_SLI_CHECKPOINT_AGE].absent);
    assert_non_null(now.objective[MON_SLI_STRAGGLERS].absent);
    lapse_step(&lapse, 200); /* it goes on: the time is not counted twice */
    mon_state(lapse.monitor, job_ns(lapse.now_s), &now);
    assert_close(now.objective[MON_SLI_GOODPUT].events, 781, 3);
    assert_false(now.stalled && now.idle_s > 1);
    mon_free(lapse.monitor);
}

/* A rank that is silent while the others go on has an alert of its own. */
static void test_silent_rank(void **state)
{
    (void)state;
    struct outcome outcome = {.planted = true};
    struct mon_monitor *monitor = mon_new(&config, 0, on_notice, &outcome);
    for (int64_t step = 0; step < 300; step++) {
        for (int64_t rank = 0; rank < 3; rank++)
            if (rank != 1 || step < 100)
                mon_step(monitor, &(struct mon_step){.rank = rank,
                                                     .index = step,
                                                     .start = step * 1000000000,
                                                     .end = (step + 1) * 1000000000,
                                                     .tokens = NAN,
                                                     .flops = NAN});
        mon_tick(monitor, (step + 1) * 1000000000);
    }
    assert_true(outcome.first_seen);
    assert_int_equal(outcome.cause, MON_CAUSE_SILENT_RANK);
    assert_int_equal(outcome.rank, 1);
    assert_int_equal(outcome.since, 100);
    mon_free(monitor);
}

/* A run of some seconds has good and bad events, though no burn rate has a window in it. */
static void test_short_run(void **state)
{
    (void)state;
    struct outcome outcome = {.cause = MON_CAUSE_UNKNOWN};
    struct mon_monitor *monitor = mon_new(&config, 0, on_notice, &outcome);
    struct mon_state *seen = malloc(sizeof *seen);
    assert_non_null(monitor);
    assert_non_null(seen);
    mon_set_machine(monitor, &(struct mon_machine){.planned_steps = 60});
    for (int64_t step = 0; step < 60; step++) {
        int64_t ms = step == 50 ? 400 : 100, start = step * 100 * 1000000;
        mon_step(monitor, &(struct mon_step){.index = step,
                                             .start = start,
                                             .end = start + ms * 1000000,
                                             .tokens = NAN,
                                             .flops = NAN});
        mon_tick(monitor, start + ms * 1000000);
    }
    mon_state(monitor, (int64_t)6000 * 1000000, seen);
    const struct mon_objective_state *steps = &seen->objective[0];
    assert_string_equal(steps->objective.name, "step_time");
    assert_null(steps->absent);
    assert_int_equal(steps->burn_count, 0);
    assert_non_null(strstr(steps->why, "too short"));
    assert_true(steps->events > 0 && steps->events < 60);
    assert_close(steps->good, 1 - 1 / steps->events, 1e-9);
    free(seen);
    mon_free(monitor);
}

/* The step times of a job of one rank, 100 ms and `slower` of it from step 300 to `until`: how many
 * alerts began, and how many of them are over at the end. */
struct began {
    int firing, resolved;
};

static void on_began(void *ctx, const struct mon_notice *notice)
{
    struct began *began = ctx;
    began->firing += notice->event == MON_FIRING;
    began->resolved += notice->event == MON_RESOLVED;
}

static struct began run_slower(double slower, int64_t until, uint64_t seed)
{
    struct began began = {0};
    struct mon_monitor *monitor = mon_new(&config, 0, on_began, &began);
    assert_non_null(monitor);
    int64_t now = 0;
    for (int64_t step = 0; step < 1500; step++) {
        double level = step >= 300 && step < until ? 1 + slower : 1;
        int64_t end = now + job_ns(0.1 * level * (1 + 0.01 * series_heavy(&seed)));
        mon_step(monitor,
                 &(struct mon_step){
                     .index = step, .start = now, .end = end, .tokens = NAN, .flops = NAN});
        mon_tick(monitor, now = end);
    }
    mon_free(monitor);
    return began;
}

/* Steps that are slow for less time than an alert waits for its cause: far ones are an alert that
 * ends, weak ones are none. */
static void test_short_change(void **state)
{
    (void)state;
    int weak = 0;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct began far = run_slower(0.5, 312, seed);
        assert_int_equal(far.firing, 1);
        assert_int_equal(far.resolved, 1);
        weak += run_slower(0.02, 310, seed).firing;
        assert_true(run_slower(0.02, 1500, seed).firing >= 1);
    }
    assert_true(weak <= 3);
}

static void keep_since(void *ctx, const struct mon_notice *notice)
{
    *(int64_t *)ctx = notice->alert->symptom.since_step;
}

/* A loss that is read after the steps that followed it belongs to the step in which it was. */
static void test_late_loss(void **state)
{
    (void)state;
    int64_t since = -1, ms = 1000000;
    struct mon_monitor *monitor = mon_new(&config, 0, keep_since, &since);
    assert_non_null(monitor);
    struct mon_counter *loss = mon_counter(monitor, "loss", NULL, 0);
    assert_non_null(loss);
    for (int64_t step = 0; step < 40; step++)
        mon_step(monitor, &(struct mon_step){.index = step,
                                             .start = step * 100 * ms,
                                             .end = (step + 1) * 100 * ms,
                                             .tokens = NAN,
                                             .flops = NAN});
    mon_value(monitor, loss, 3050 * ms, NAN);
    assert_int_equal(since, 30);
    mon_free(monitor);
}

int main(void)
{
    mon_config_init(&config);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_causes),      cmocka_unit_test(test_three_days),
        cmocka_unit_test(test_hangs),       cmocka_unit_test(test_stall_burns),
        cmocka_unit_test(test_silent_rank), cmocka_unit_test(test_short_run),
        cmocka_unit_test(test_late_loss),   cmocka_unit_test(test_short_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
