/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs with pauses, for a line of the log on a slow disk: what the steps take without them is shown
 * by the steps that have none, or else by the wait for a core.
 */
#include "tests/unit/an_fixture.h"

#define STEPS 120
#define US    1000ll
#define COPY  (2000 * US)

/* us, but for `every`. After every second pause the threads of a team share a core for two steps.
 */
struct paused {
    int every, pause, line; /* steps, a long line, a short one */
    int forward, backward, shared;
    int batch;  /* of a loader in line */
    bool alone; /* a checkpoint's copy, which only steps with a pause make, stays */
};

/* What the fixed run takes for a step. */
static double fixed_ms(const struct paused *paused)
{
    return (paused->forward + paused->backward + 150) / 1e3; /* 50 and 100 of jitter */
}

/* What was sampled of a run with a team of two threads on two cores: per step the
 * time for which its thread had no core, in us. */
static void sample(struct fixture *f, int64_t step_ns, int wait)
{
    int64_t busy = fx_track(f, FX_NONE, "counter", "cpu_busy", "%"),
            time = fx_track(f, f->process, "counter", "cpu_time", "ns"),
            queue = fx_track(f, f->process, "counter", "cpu_wait", "ns");
    struct store_track first = {
        .process = f->process, .tid = 100, .kind = "thread", .name = "steps"};
    FX(store_track_add(f->s, &first)); /* the process's first thread is the one that is sampled */
    f->thread = first.id;
    struct store_slice engine = {.track = first.id,
                                 .start = FX_BASE - 1000,
                                 .dur = 500,
                                 .name = fx_string(f, "setup"),
                                 .category = fx_string(f, "libtrain"),
                                 .detail = FX_NONE,
                                 .correlation = FX_NONE};
    FX(store_slice_add(f->s, &engine));
    FX(store_run_set(f->s, "cpu.online", "2"));
    FX(store_run_set(f->s, "cpu.usable", "2"));
    FX(store_run_set(f->s, "command", "[\"train\",\"gpt2-tiny\"]"));
    FX(store_run_set(f->s, "environment", "{\"OMP_NUM_THREADS\":\"2\"}"));
    for (int i = 0; i <= STEPS; i++) {
        fx_counter(f, busy, i * step_ns, 20);
        fx_counter(f, time, i * step_ns, 0.4 * (double)(i * step_ns));
        fx_counter(f, queue, i * step_ns, (double)(i * wait * US));
    }
}

static double record(struct fixture *f, const struct paused *paused)
{
    int64_t log = fx_kind(f, "log"), work = fx_work(f, "matrix", "fp32", 1, 1, 1), now = 0,
            wait = fx_kind(f, "input_wait"), read = fx_kind(f, "read");
    for (int i = 0; i < STEPS; i++) {
        bool pauses = i % paused->every == 0;
        int after = i % paused->every, episode = i / paused->every % 2;
        int64_t start = now, slow = episode && after >= 1 && after <= 2 ? paused->shared * US : 0,
                forward = paused->forward * US + slow + i % 3 * 50 * US,
                backward = paused->backward * US + slow + i % 5 * 50 * US;
        if (paused->batch) {
            fx_slice(f, f->thread, now, now + paused->batch * US, "input", wait);
            fx_slice(f, f->thread, now, now + paused->batch * US, "read", read);
            now += paused->batch * US;
        }
        fx_slice(f, f->thread, now, now + forward, "forward", work);
        now += forward;
        fx_slice(f, f->thread, now, now + backward, "backward", work);
        now += backward;
        if (pauses && paused->alone) {
            fx_slice(f, f->thread, now, now + COPY, "copy", work);
            now += COPY;
        }
        int64_t line = (pauses ? paused->pause : paused->line) * US;
        fx_slice(f, f->thread, now, now + line, "log", log);
        now += line;
        fx_step(f, f->process, f->thread, i, start, now, 4, false);
    }
    return (double)now / 1e6 / STEPS;
}

/* The prediction; of several edits the joint one. */
static const struct an_what_if *edited(struct fixture *f, const char *edits)
{
    struct an_options options = {.file = "run.tacho", .what_if = edits};
    const struct an_result *result = fx_analyze_with(f, &options);
    assert_null(result->advice.reason);
    const struct an_advice *advice = &result->advice;
    const struct an_what_if *what_if = advice->edit_count > 1 ? &advice->together : advice->edits;
    assert_null(what_if->reason);
    return what_if;
}

static const struct an_what_if *without_lines(struct fixture *f)
{
    return edited(f, "framework=0");
}

/* Most of the run is pauses, and a third of the steps that have none still share a core. Their
 * median is 3 ms; the mean of what stays would be 7.5. The gain is that of the mean step. */
static void test_pauses_of_some_steps(void **state)
{
    (void)state;
    struct fixture fx, *f = &fx;
    const struct paused paused = {
        .every = 4, .pause = 90000, .line = 400, .forward = 1000, .backward = 2000, .shared = 9000};
    fx_open(f);
    double mean_ms = record(f, &paused);
    const struct an_what_if *what_if = without_lines(f);
    double fixed = fixed_ms(&paused);
    assert_true(what_if->of_mean);
    assert_near(what_if->step_ms.value, fixed, 0.1 * fixed);
    assert_near(what_if->gain.expected.value, 100 * (mean_ms / what_if->step_ms.value - 1),
                0.03 * what_if->gain.expected.value);
    assert_true(what_if->gain.low.value < 100 * (mean_ms / fixed - 1));
    assert_true(what_if->gain.high.value > 100 * (mean_ms / fixed - 1));
    fx_close(f);
}

/* What only steps with a pause do is not taken from them. */
static void test_work_of_paused_steps_stays(void **state)
{
    (void)state;
    struct fixture fx, *f = &fx;
    const struct paused paused = {
        .every = 3, .pause = 30000, .line = 100, .forward = 4000, .backward = 8000, .alone = true};
    fx_open(f);
    record(f, &paused);
    double fixed = fixed_ms(&paused) + 2.0 / 3;
    assert_near(without_lines(f)->step_ms.value, fixed, 0.02 * fixed);
    fx_close(f);
}

/* A batch in line is no pause of some steps. Without the lines it stays, and with a worker it goes,
 * too: both gains are of the mean step, and the joint one is the larger. */
static void test_pauses_beside_a_loader(void **state)
{
    (void)state;
    struct fixture fx, *f = &fx;
    const struct paused paused = {.every = 4,
                                  .pause = 90000,
                                  .line = 400,
                                  .forward = 4000,
                                  .backward = 8000,
                                  .shared = 9000,
                                  .batch = 5000};
    fx_open(f);
    record(f, &paused);
    double fixed = fixed_ms(&paused), alone = without_lines(f)->gain.expected.value;
    assert_near(without_lines(f)->step_ms.value, fixed + 5, 0.03 * fixed);
    const struct an_what_if *both = edited(f, "framework=0,loader.workers=1");
    assert_true(both->of_mean);
    assert_near(both->step_ms.value, fixed, 0.05 * fixed);
    assert_true(both->gain.expected.value > 1.3 * alone);
    fx_close(f);
}

/* Where all steps pause, none shows what a step takes without a pause. */
static void test_pauses_of_all_steps(void **state)
{
    (void)state;
    struct fixture fx, *f = &fx;
    const struct paused paused = {
        .every = 1, .pause = 10000, .line = 0, .forward = 9000, .backward = 18000};
    fx_open(f);
    double mean_ms = record(f, &paused);
    const struct an_what_if *what_if = without_lines(f);
    assert_false(what_if->of_mean);
    assert_near(what_if->step_ms.value, fixed_ms(&paused), 0.1);
    assert_near(what_if->gain.expected.value, 100 * (mean_ms / what_if->step_ms.value - 1), 2);
    fx_close(f);
}

/* All steps pause for 20 ms, and the 10 ms of compute were 3.5 ms of waiting for a core, and as
 * long of spinning for the thread that had it, although one of the two cores is free. That goes
 * with the pause: 3 ms remain, at worst 6.5. In a run whose thread did not wait, all 10 ms
 * remain. Where compute itself is edited, the wait is not taken into account. */
static void test_waits_for_a_core_of_the_team(void **state)
{
    (void)state;
    const struct paused paused = {
        .every = 1, .pause = 20000, .line = 0, .forward = 4000, .backward = 5850};
    for (int waits = 1; waits >= 0; waits--) {
        struct fixture fx, *f = &fx;
        fx_open(f);
        sample(f, 30000 * US, waits ? 3500 : 30);
        record(f, &paused);
        const struct an_what_if *what_if = without_lines(f);
        double fixed = waits ? 3 : 10;
        assert_true(what_if->of_mean == (waits == 1));
        assert_near(what_if->step_ms.value, fixed, 0.03 * fixed);
        if (waits)
            assert_near(what_if->gain.low.value, 100 * (30 / 6.5 - 1), 10);
        what_if = edited(f, "framework=0,op:forward=0.5x");
        assert_false(what_if->of_mean);
        fx_close(f);
    }
}

/* A worker makes a batch in 30 ms, for which the steps wait 20 ms and then compute for 10. */
static void record_starved(struct fixture *f)
{
    int64_t work = fx_work(f, "matrix", "fp32", 1, 1, 1), wait = fx_kind(f, "input_wait"),
            decode = fx_kind(f, "decode"), collate = fx_kind(f, "collate"),
            worker = fx_track(f, f->process, "thread", "loader-0", NULL);
    FX(store_run_set(f->s, "command",
                     "[\"train\",\"gpt2-tiny\",\"--workers\",\"1\",\"--prefetch\",\"8\"]"));
    for (int64_t i = 0; i < STEPS; i++) {
        int64_t start = i * 30000 * US, made = start + 20000 * US, end = start + 30000 * US;
        fx_slice(f, worker, made - 29900 * US, made - US, "decode", decode);
        fx_slice(f, worker, made - US, made, "collate", collate);
        fx_slice(f, f->thread, start, made, "input_wait", wait);
        fx_slice(f, f->thread, made, end, "matmul.forward", work);
        fx_step(f, f->process, f->thread, i, start, end, 4, false);
    }
}

/* Waits for data are pauses, too: with six workers there is a batch every 5 ms, and of the 10 ms of
 * compute 3 remain, as above; but the run used 12 ms of CPU time a step, 6 on each core. Without
 * the wait for a core all 10 ms remain. */
static void test_waits_for_data(void **state)
{
    (void)state;
    for (int waits = 1; waits >= 0; waits--) {
        struct fixture fx, *f = &fx;
        fx_open(f);
        sample(f, 30000 * US, waits ? 3500 : 30);
        record_starved(f);
        const struct an_what_if *what_if = edited(f, "loader.workers=6");
        assert_true(what_if->of_mean == (waits == 1));
        assert_near(what_if->step_ms.value, waits ? 6 : 10, 0.3);
        fx_close(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pauses_of_some_steps),
                                       cmocka_unit_test(test_work_of_paused_steps_stays),
                                       cmocka_unit_test(test_pauses_beside_a_loader),
                                       cmocka_unit_test(test_pauses_of_all_steps),
                                       cmocka_unit_test(test_waits_for_a_core_of_the_team),
                                       cmocka_unit_test(test_waits_for_data)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
