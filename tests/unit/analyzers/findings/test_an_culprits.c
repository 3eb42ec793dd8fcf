/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings about the run as a whole: phases between its steps, threads against cores, and how
 * findings are listed. Made-up steps of 10 ms, so that each gain follows by hand.
 */
#include "tests/unit/an_gpu.h"

#define STEPS 40
#define MS    1000000ll

static const struct an_finding *finding(const struct an_result *r, const char *id)
{
    for (size_t i = 0; i < r->finding_count; i++)
        if (!strcmp(r->findings[i].id, id))
            return &r->findings[i];
    return NULL;
}

static void says(const char *text, const char *part)
{
    if (!text || !strstr(text, part))
        fail_msg("\"%s\" does not say \"%s\"", text ? text : "(null)", part);
}

/* A phase of `ms` and of `odd` ms more in each second one, after every `every` steps; 0: none.
 * `evaluation`: ms of an evaluation after it. `batch`: ms in which a worker makes the batch of each
 * step; 0: there is no worker. */
struct phases {
    const char *kind, *command;
    int every, ms, odd, evaluation, batch;
    double mtbf_hours;
};

static int wave;  /* so many steps take 9 ms, then as many 11; 0: all take 10 */
static int after; /* ms that a step after a phase takes more; every second one if all are */
static int late;  /* ms that phases of the second half of the run take more */

/* The steps compute all the time. The options of the engine are known by its domain; a command of
 * Python gets that of PyTorch. */
static const struct an_result *make(struct fixture *f, const struct phases *p)
{
    int64_t at = 0;
    const char *domain = "libtrain";
    if (strstr(p->command, "python3"))
        domain = "torch";
    fx_open(f);
    int64_t work = fx_work(f, "matrix", "fp32", 1000, 1000, 1000);
    struct store_slice x = {.track = f->thread,
                            .start = FX_BASE - 1000,
                            .dur = 10,
                            .name = fx_string(f, "opens"),
                            .category = fx_string(f, domain),
                            .detail = FX_NONE,
                            .correlation = FX_NONE};
    FX(store_slice_add(f->s, &x));
    int64_t worker = p->batch ? fx_track(f, f->process, "thread", "loader-0", NULL) : 0;
    for (int i = 0; i < STEPS && p->batch; i++)
        fx_slice(f, worker, i * p->batch * MS, (i + 1) * p->batch * MS, "collate",
                 fx_kind(f, "collate"));
    for (int i = 0; i < STEPS; i++) {
        int64_t step_ms = wave ? 9 + 2 * (i / wave % 2) : 10;
        if (after && p->every && i % p->every == 0 && (p->every > 1 || i % 2))
            step_ms += after;
        fx_step(f, f->process, f->thread, i, at, at + step_ms * MS, 64, false);
        fx_slice(f, f->thread, at + 1000, at + step_ms * MS - 1000, "matmul", work);
        at += step_ms * MS;
        if (!p->every || (i + 1) % p->every)
            continue;
        int64_t ms = p->ms + ((i + 1) / p->every % 2 ? 0 : p->odd) + (2 * i < STEPS ? 0 : late);
        fx_slice(f, f->thread, at, at + ms * MS, p->kind, fx_kind(f, p->kind));
        at += ms * MS;
        if (p->evaluation)
            fx_slice(f, f->thread, at, at + p->evaluation * MS, "evaluation",
                     fx_kind(f, "evaluation"));
        at += p->evaluation * MS;
    }
    FX(store_run_set(f->s, "command", p->command));
    struct an_options options = {.file = "run.tacho", .mtbf_hours = p->mtbf_hours};
    return fx_analyze_with(f, &options);
}

/* Half of the run: every 2 steps 20 ms. For a failure every 6.9444 hours (25e6 ms) Young and Daly
 * advise sqrt(2 20 25e6) - 20 = 31,603 ms: every 3,160 steps. Without a rate of failures no number
 * of steps is advised; the gain is that of a failure every hour to one a month. */
static void test_checkpoints(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    struct phases often = {
        "checkpoint", "[\"train\",\"--checkpoint-every\",\"2\"]", 2, 20, 0, 0, 0, 0};
    const struct an_result *r = make(f, &often);
    const struct an_finding *x = finding(r, "CHECKPOINT");
    assert_non_null(x);
    says(x->claim, "checkpoints take 50.0 % of the run's time");
    says(x->action, "while steps go on: --checkpoint-async");
    says(x->verify, "train --checkpoint-every 2 --checkpoint-async");
    assert_null(x->setting);
    /* 1 hour: sqrt(2 20 3.6e6) - 20 = 11,980 ms, 1 day 58,767, 1 month (720 hours) 321,977 */
    assert_false(x->gain.ceiling);
    assert_near(x->gain.low.value, 100 * (2 / (1 + 2 / 1198.0) - 1), 1e-6);
    assert_near(x->gain.expected.value, 100 * (2 / (1 + 2 / 5877.0) - 1), 1e-6);
    assert_near(x->gain.high.value, 100 * (2 / (1 + 2 / 32198.0) - 1), 1e-6);
    assert_int_equal(an_finding_listed(x), AN_LISTED_RANKED);
    size_t last = 0;
    while (last < 4 && x->evidence[last + 1])
        last++;
    says(x->evidence[last], "every 1198 steps if the job fails every 1 hour");
    says(x->evidence[last], "--mtbf HOURS");
    fx_close(f);
    often.mtbf_hours = 25e6 / 3600e3;
    r = make(f, &often);
    x = finding(r, "CHECKPOINT");
    assert_non_null(x);
    says(x->action, "every 3160 steps instead of 2 (--checkpoint-every 3160)");
    says(x->verify, "train --checkpoint-every 3160;");
    assert_near(x->gain.expected.value, 100 * (2 / (1 + 1 / 1580.0) - 1), 1e-6);
    assert_null(x->changes); /* the same training, and first */
    assert_int_equal(an_finding_listed(x), AN_LISTED_RANKED);
    assert_ptr_equal(x, &r->findings[0]);
    assert_false(r->healthy);
    fx_close(f);
    /* 10 and 30 ms: the interval holds what is measured, and is wider */
    r = make(f, &(struct phases){"checkpoint", "[\"train\"]", 2, 10, 20, 0, 0, 25e6 / 3600e3});
    x = finding(r, "CHECKPOINT");
    assert_non_null(x);
    assert_true(x->gain.low.value < 96 && x->gain.high.value > 97 && x->gain.low.value > 50);
    fx_close(f);
}

/* Ten steps of 9 ms, then ten of 11, and so on: the next run may have another share of them.
 * Segments of 7 steps differ by up to 10 % from the run, so a run by 5.1 % (one standard
 * deviation), and seven pairs of runs by 4.5 %. The steps alone (1 ms of 10, 40 of them) allow
 * for 3.1 %. */
static void test_checkpoints_between_waves(void **state)
{
    (void)state;
    double width[2];
    for (int slow = 0; slow < 2; slow++) {
        struct fixture fx, *f = &fx;
        wave = slow ? 10 : 0;
        const struct an_result *r = make(f, &(struct phases){.kind = "checkpoint",
                                                             .command = "[\"train\"]",
                                                             .every = 2,
                                                             .ms = 20,
                                                             .mtbf_hours = 25e6 / 3600e3});
        wave = 0;
        const struct an_finding *x = finding(r, "CHECKPOINT");
        assert_non_null(x);
        assert_near(x->gain.expected.value, 100 * (2 / (1 + 1 / 1580.0) - 1), 0.1);
        width[slow] = x->gain.high.value - x->gain.low.value;
        fx_close(f);
    }
    assert_true(width[0] < 0.1);
    assert_near(width[1], 2 * (3.1 + 4.5), 1);
}

/* The disk is slower in the second half: 16 ms a checkpoint, then 24. Another run may find it like
 * either half, which 20 independent times of 20 +- 4.1 ms would not say: +- 9 % of their sum. */
static void test_disk_that_gets_slower(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    late = 8;
    const struct an_result *r =
        make(f, &(struct phases){"checkpoint", "[\"train\"]", 2, 16, 0, 0, 0, 25e6 / 3600e3});
    late = 0;
    const struct an_finding *x = finding(r, "CHECKPOINT");
    assert_non_null(x);
    assert_near(x->gain.expected.value, 100, 0.5);
    assert_near(x->gain.low.value, 80, 0.5);
    assert_near(x->gain.high.value, 120, 0.5);
    says(x->evidence[0], "20 times, every 2 steps, 20 ms each on average (-20 to +20 % in");
    fx_close(f);
}

/* A thread that slept in a checkpoint is slower after it: the steps that follow none show what all
 * will take. Where all follow one, half way to the better quarter of them is expected. */
static void test_steps_after_checkpoints(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    after = 8;
    const struct an_finding *x = finding(
        make(f, &(struct phases){"checkpoint", "[\"train\"]", 2, 20, 0, 0, 0, 25e6 / 3600e3}),
        "CHECKPOINT");
    assert_non_null(x);
    assert_near(x->gain.expected.value, 100 * ((28 + 20) / 20.0 - 1), 6);
    fx_close(f);
    /* twice as rare: half of the slow steps stay */
    x = finding(
        make(f, &(struct phases){"checkpoint", "[\"train\"]", 2, 20, 0, 0, 0, 144.4 / 3600e3}),
        "CHECKPOINT");
    assert_non_null(x);
    assert_near(x->gain.expected.value, 100 * (48 / (24 + 10.0) - 1), 3);
    fx_close(f);
    x = finding(
        make(f, &(struct phases){"checkpoint", "[\"train\"]", 1, 20, 0, 0, 0, 25e6 / 3600e3}),
        "CHECKPOINT");
    after = 0;
    assert_non_null(x);
    assert_near(x->gain.expected.value, 100 * (34 / ((14 + 10) / 2.0) - 1), 6);
    assert_true(x->gain.low.value < 100 * (34 / 14.0 - 1));
    assert_true(x->gain.high.value >= 100 * (34 / 10.0 - 1) - 1);
    fx_close(f);
}

/* Of 20 ms a step half are checkpoints, during which a worker makes batches, too: it needs 15 ms
 * for each, so without checkpoints the steps wait for it. Failures every 26 s want a checkpoint
 * every sqrt(2 20 26,010) - 20 ms, which is 100 steps. */
static void test_loader_behind_checkpoints(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    const struct an_result *r =
        make(f, &(struct phases){"checkpoint", "[\"train\"]", 2, 20, 0, 0, 15, 26010 / 3600e3});
    assert_near(r->loader.batch_ms.value, 15, 1e-6);
    const struct an_finding *x = finding(r, "CHECKPOINT");
    assert_non_null(x);
    assert_near(x->gain.expected.value, 100 * (20.0 / 15 - 1), 1);
    assert_near(x->gain.high.value, 96, 1); /* if another run's batches take less */
    fx_close(f);
}

/* Fewer evaluations change what is known of the training: listed apart, with its option. */
static void test_evaluations(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    const struct an_result *r = make(
        f, &(struct phases){"evaluation", "[\"train\",\"--eval-every\",\"4\"]", 4, 40, 0, 0, 0, 0});
    const struct an_finding *x = finding(r, "EVALUATION");
    assert_non_null(x);
    says(x->action, "--eval-every 200");
    says(x->changes, "evaluated");
    assert_int_equal(an_finding_listed(x), AN_LISTED_CHANGES);
    assert_near(x->gain.expected.value, 100 * (2 / (1 + 1 / 50.0) - 1), 1e-6);
    fx_close(f);

    /* Of a program whose options are not known the sentence says how often, once. */
    r = make(f, &(struct phases){"evaluation", "[\"python3\",\"train.py\"]", 4, 40, 0, 0, 0, 0});
    x = finding(r, "EVALUATION");
    assert_non_null(x);
    says(x->action, "evaluate every 200 steps instead of 4; or on fewer batches");
    says(x->verify, "evaluations every 200 steps");
    fx_close(f);
}

/* However much an evaluation takes, what keeps the training goes before it. */
static void test_the_same_training_leads(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    for (int larger = 0; larger < 2; larger++) {
        const struct an_result *r = make(f, &(struct phases){.kind = "checkpoint",
                                                             .command = "[\"train\"]",
                                                             .every = 2,
                                                             .ms = larger ? 4 : 20,
                                                             .evaluation = larger ? 20 : 4});
        assert_true(r->finding_count >= 2);
        assert_string_equal(r->findings[0].id, "CHECKPOINT");
        const struct an_finding *x = finding(r, "EVALUATION");
        assert_non_null(x);
        assert_int_equal(x->gain.low.value > r->findings[0].gain.high.value, larger);
        fx_close(f);
    }
}

/* A checkpoint of 60 s each 10 minutes is as far apart as a failure every hour asks for, but not as
 * one a day does: it may gain. */
static void test_checkpoints_that_are_rare(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    const struct an_result *r =
        make(f, &(struct phases){"checkpoint", "[\"train\",\"--checkpoint-every\",\"60000\"]", 20,
                                 60000, 0, 0, 0, 0});
    const struct an_finding *x = finding(r, "CHECKPOINT");
    assert_non_null(x);
    assert_near(x->gain.low.value, 0, 1e-6);
    assert_true(x->gain.expected.value > 5);
    assert_int_equal(an_finding_listed(x), AN_LISTED_MEASURE);
    fx_close(f);
}

/* Nothing to say of phases below the noise floor, or of the one at the end. */
static void test_rare_phases(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    for (int k = 0; k < 2; k++) {
        const struct an_result *r =
            make(f, &(struct phases){"checkpoint", "[\"train\"]", k ? 20 : STEPS, k ? 3 : 400, 0, 0,
                                     0, 0});
        assert_null(finding(r, "CHECKPOINT"));
        fx_close(f);
    }
}

/* 12 s pass before the first of 400 steps of 10 ms. */
static bool has_slow_start(const struct an_options *options)
{
    struct fixture fx, *f = &fx;
    fx_open(f);
    int64_t work = fx_work(f, "matrix", "fp32", 1000, 1000, 1000);
    for (int i = 0; i < 400; i++) {
        int64_t at = (12000 + 10 * i) * MS;
        fx_step(f, f->process, f->thread, i, at, at + 10 * MS, 64, false);
        fx_slice(f, f->thread, at + 1000, at + 10 * MS - 1000, "matmul", work);
    }
    const struct an_result *r = fx_analyze_with(f, options);
    assert_int_equal(r->run.window != NULL, options->part_slices > 0);
    bool has = finding(r, "SLOW_START") != NULL;
    fx_close(f);
    return has;
}

/* Steps of 40 ms from 1 s on, of which the last 20 have a kernel: device work is recorded in a
 * window. `from`: the first step that does. */
static bool has_slow_start_on_gpu(int from)
{
    struct fixture fx, *f = &fx;
    fx_open(f);
    int64_t stream = gpu_stream(f, f->process, "gpu:0", 7);
    for (int i = 0; i < 400; i++) {
        int64_t at = (from < 100 ? 11000 : 1000) * MS + 40 * i * MS;
        fx_step(f, f->process, f->thread, i, at, at + 40 * MS, 64, false);
        if (i < from || i >= from + 20)
            continue;
        gpu_host_ns(f, f->thread, at + 1000, at + 2000, "cudaLaunchKernel", "runtime", i + 1);
        gpu_kernel_ns(f, stream, at + 3000, at + 39 * MS, "gemm", i + 1);
    }
    const struct an_result *r = fx_analyze(f);
    assert_int_equal(r->device_count, 1);
    bool has = finding(r, "SLOW_START") != NULL;
    fx_close(f);
    return has;
}

/* The start of the program is a finding of the whole run only: neither a part of it nor some later
 * steps hold it. */
static void test_slow_start(void **state)
{
    (void)state;
    assert_true(has_slow_start(&(struct an_options){.file = "run.tacho"}));
    assert_true(has_slow_start(&(struct an_options){.some_steps = true, .step_to = 200}));
    assert_false(
        has_slow_start(&(struct an_options){.some_steps = true, .step_from = 100, .step_to = 200}));
    assert_false(has_slow_start(&(struct an_options){.part_slices = 100}));
    assert_false(has_slow_start_on_gpu(380)); /* 16.2 s after the start; the first step, 1 s */
    assert_true(has_slow_start_on_gpu(5));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_checkpoints),
                                       cmocka_unit_test(test_disk_that_gets_slower),
                                       cmocka_unit_test(test_checkpoints_between_waves),
                                       cmocka_unit_test(test_steps_after_checkpoints),
                                       cmocka_unit_test(test_loader_behind_checkpoints),
                                       cmocka_unit_test(test_evaluations),
                                       cmocka_unit_test(test_the_same_training_leads),
                                       cmocka_unit_test(test_checkpoints_that_are_rare),
                                       cmocka_unit_test(test_rare_phases),
                                       cmocka_unit_test(test_slow_start)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
